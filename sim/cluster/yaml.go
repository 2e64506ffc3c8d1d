package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/sim/document"
)

// ReadYAML reads a list of groups of servers, as in etc/examples/cluster.yaml. A group must have servers, gpus, cpus
// and memory_gb; it may have storage_mb_s (500), network_gb_s (40), name, gpu_type and features. Unknown and repeated
// keys are errors; each error names the line, the key, its value and what is expected.
func ReadYAML(text []byte) (Cluster, error) {
	root, err := document.Read(text, "groups: and a list of them")
	if err != nil {
		return Cluster{}, err
	}
	list, err := groupsOf(root)
	if err != nil {
		return Cluster{}, err
	}
	var c Cluster
	for _, value := range list {
		g, err := yamlGroup(value)
		if err != nil {
			return Cluster{}, err
		}
		c.Groups = append(c.Groups, g)
	}
	return c.checked()
}

// groupsOf returns the list of groups, which must be the file's only key.
func groupsOf(root document.Value) ([]document.Value, error) {
	if len(root.Keys) != 1 || root.Keys[0].Name != "groups" {
		return nil, fmt.Errorf("line %d: want groups: and a list of them, and no other key", root.Line)
	}
	list := root.Keys[0].Value
	if list.Kind != document.List {
		return nil, fmt.Errorf("line %d: groups: want a list, each group beginning with a dash", list.Line)
	}
	return list.List, nil
}

// yamlGroup reads one group, which must have all required keys and none twice.
func yamlGroup(group document.Value) (Group, error) {
	if group.Kind != document.Keys {
		return Group{}, fmt.Errorf("line %d: want a group with keys, as servers: 16", group.Line)
	}
	g := Group{Storage: DefaultStorage, Network: DefaultNetwork}
	var said []string
	for _, key := range group.Keys {
		if slices.Contains(said, key.Name) {
			return Group{}, fmt.Errorf("line %d: %s: is there twice in this group: remove one", key.Line,
				shown(key.Name))
		}
		if err := yamlSet(&g, key.Name, key.Value); err != nil {
			return Group{}, fmt.Errorf("line %d: %s%w", key.Line, shown(key.Name), err)
		}
		said = append(said, key.Name)
	}
	for _, must := range []string{servers, gpus, cpus, memoryGB} {
		if !slices.Contains(said, must) {
			return Group{}, fmt.Errorf("line %d: %s is missing: want it in each group", group.Line, must)
		}
	}
	return g, nil
}

// yamlSet reads one key into the group. The error text continues after the name of the key, which the caller writes.
func yamlSet(g *Group, key string, value document.Value) error {
	if m, isMeasure := measureOf(key); isMeasure {
		return readScalar(value, func(text string) error { return m.read(g, text) })
	}
	switch key {
	case "name":
		return readScalar(value, nameReader(&g.Name))
	case "gpu_type":
		return readScalar(value, nameReader(&g.GPUType))
	case "features":
		return yamlFeatures(g, value)
	}
	return fmt.Errorf(": unknown key: want one of %s", strings.Join(yamlKeys(), ", "))
}

// yamlKeys lists the keys that a group may have, for errors.
func yamlKeys() []string {
	keys := []string{"name", "gpu_type", "features"}
	for _, m := range measures() {
		keys = append(keys, m.name)
	}
	return keys
}

// yamlFeatures reads the list of features into the group.
func yamlFeatures(g *Group, list document.Value) error {
	if list.Kind != document.List {
		return errors.New(": want a list of words, as [nvlink, ib]")
	}
	g.Features = nil
	for _, value := range list.List {
		var feature string
		if err := readScalar(value, nameReader(&feature)); err != nil {
			return err
		}
		g.Features = append(g.Features, feature)
	}
	return nil
}

// readScalar reads a scalar value with read; a value that is no scalar is an error. The error text continues after the
// name of the key.
func readScalar(value document.Value, read func(text string) error) error {
	if value.Kind != document.Text {
		return errors.New(": want one value, not a list, keys or a reference")
	}
	if err := read(value.Text); err != nil {
		return fmt.Errorf(" = %s: %w", shown(value.Text), err)
	}
	return nil
}

// nameReader returns a function that reads a valid name into the field.
func nameReader(field *string) func(text string) error {
	return func(text string) error {
		if !isWord(text) {
			return errWord
		}
		*field = text
		return nil
	}
}
