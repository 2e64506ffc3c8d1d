package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// mostFeatures bounds share.by_feature and share.mode_by_feature; mostGPUMemory bounds the memory of a GPU, in GiB.
const (
	mostFeatures  = 100
	mostGPUMemory = 1024
)

var gpuMemory = regexp.MustCompile(`^[0-9]{1,7}(\.[0-9]{1,3})?(GiB|MiB)$`)

// memoryOfGPUs reads share.gpu_memory.
func memoryOfGPUs(c *Config, value *yaml.Node) error {
	text, err := scalar(value)
	if err != nil {
		return err
	}
	c.Sharing.GPUMemory, err = parseGPUMemory(text)
	return err
}

// memoryByFeature reads share.by_feature: node features, each with the memory of a GPU there.
func memoryByFeature(c *Config, value *yaml.Node) (err error) {
	c.Sharing.ByFeature, err = ofFeatures(value, "the memory of a GPU there, as {h100: 80GiB}", parseGPUMemory)
	return err
}

// modeOfNodes reads share.mode.
func modeOfNodes(c *Config, value *yaml.Node) error {
	text, err := scalar(value)
	if err != nil {
		return err
	}
	c.Sharing.Mode, err = share.ParseMode(text)
	return err
}

// modeByFeature reads share.mode_by_feature: node features, each with the mode there.
func modeByFeature(c *Config, value *yaml.Node) (err error) {
	c.Sharing.ModeByFeature, err = ofFeatures(value, "the mode there, as {h100: fill}", share.ParseMode)
	return err
}

// ofFeatures reads a mapping of node features to values. what describes the values in the error.
func ofFeatures[T any](value *yaml.Node, what string, parse func(text string) (T, error)) (map[string]T, error) {
	if value.Kind != yaml.MappingNode || len(value.Content) == 0 || len(value.Content) > 2*mostFeatures {
		return nil, fmt.Errorf("want 1 to %d features of nodes with %s", mostFeatures, what)
	}
	all := map[string]T{}
	for i := 0; i+1 < len(value.Content); i += 2 {
		feature := value.Content[i].Value
		if _, twice := all[feature]; twice {
			return nil, fmt.Errorf("%q stands there twice: remove one", feature)
		}
		if feature == "" || strings.ContainsAny(feature, ", \t&|*") {
			return nil, fmt.Errorf("%q is not the name of one feature of nodes", feature)
		}
		text, err := scalar(value.Content[i+1])
		if err == nil {
			all[feature], err = parse(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", feature, err)
		}
	}
	return all, nil
}

// parseGPUMemory reads the memory of one GPU in MiB or GiB, and rounds it down to MiB.
func parseGPUMemory(text string) (gres.Memory, error) {
	wrong := fmt.Errorf("%.40q: want the memory of one GPU, 1MiB to %dGiB, as 80GiB or 81559MiB", text, mostGPUMemory)
	if !gpuMemory.MatchString(text) {
		return 0, wrong
	}
	// Both units have three letters.
	amount, err := strconv.ParseFloat(text[:len(text)-len("GiB")], 64)
	if strings.HasSuffix(text, "GiB") {
		amount *= 1024
	}
	if err != nil || amount < 1 || amount > mostGPUMemory*1024 {
		return 0, wrong
	}
	return gres.Memory(math.Floor(amount)), nil
}
