package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// ReadYAML reads a list of groups of servers, as in etc/examples/cluster.yaml. A group must have servers, gpus, cpus
// and memory_gb; it may have storage_mb_s (500), network_gb_s (40), name, gpu_type and features. Unknown and repeated
// keys are errors; each error names the line, the key, its value and what is expected.
func ReadYAML(text []byte) (Cluster, error) {
	document, err := onlyDocument(text)
	if err != nil {
		return Cluster{}, err
	}
	list, err := groupsOf(document)
	if err != nil {
		return Cluster{}, err
	}
	var c Cluster
	for _, node := range list.Content {
		g, err := yamlGroup(node)
		if err != nil {
			return Cluster{}, err
		}
		c.Groups = append(c.Groups, g)
	}
	return c.checked()
}

// onlyDocument returns the content of the text, which must be one YAML document.
func onlyDocument(text []byte) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var document, second yaml.Node
	switch err := loader.Load(&document); {
	case errors.Is(err, io.EOF) || err == nil && len(document.Content) != 1:
		return nil, errors.New("is empty: want groups: and a list of them")
	case err != nil:
		return nil, yamlSyntax(err)
	}
	if err := loader.Load(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("a second document begins: keep everything in one")
	}
	return document.Content[0], nil
}

// yamlSyntax reduces the parser's error to what is useful for the file's author.
func yamlSyntax(err error) error {
	var failure *yaml.LoadError
	if errors.As(err, &failure) && failure.Mark.Line > 0 {
		return fmt.Errorf("line %d: %s", failure.Mark.Line, printable.Quote(failure.Message, 0))
	}
	return errors.New(printable.Quote(err.Error(), 0))
}

// groupsOf returns the list of groups, which must be the file's only key.
func groupsOf(root *yaml.Node) (*yaml.Node, error) {
	if root.Kind != yaml.MappingNode || len(root.Content) != 2 || root.Content[0].Value != "groups" {
		return nil, fmt.Errorf("line %d: want groups: and a list of them, and no other key", root.Line)
	}
	list := root.Content[1]
	if list.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("line %d: groups: want a list, each group beginning with a dash", list.Line)
	}
	return list, nil
}

// yamlGroup reads one group, which must have all required keys and none twice.
func yamlGroup(node *yaml.Node) (Group, error) {
	if node.Kind != yaml.MappingNode {
		return Group{}, fmt.Errorf("line %d: want a group with keys, as servers: 16", node.Line)
	}
	g := Group{Storage: DefaultStorage, Network: DefaultNetwork}
	var said []string
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if slices.Contains(said, key.Value) {
			return Group{}, fmt.Errorf("line %d: %s: is there twice in this group: remove one", key.Line,
				shown(key.Value))
		}
		if err := yamlSet(&g, key.Value, value); err != nil {
			return Group{}, fmt.Errorf("line %d: %s%w", key.Line, shown(key.Value), err)
		}
		said = append(said, key.Value)
	}
	for _, must := range []string{servers, gpus, cpus, memoryGB} {
		if !slices.Contains(said, must) {
			return Group{}, fmt.Errorf("line %d: %s is missing: want it in each group", node.Line, must)
		}
	}
	return g, nil
}

// yamlSet reads one key into the group. The error text continues after the key's name.
func yamlSet(g *Group, key string, value *yaml.Node) error {
	if m, isMeasure := measureOf(key); isMeasure {
		return valued(value, func(text string) error { return m.read(g, text) })
	}
	switch key {
	case "name":
		return valued(value, word(&g.Name))
	case "gpu_type":
		return valued(value, word(&g.GPUType))
	case "features":
		return yamlFeatures(g, value)
	}
	return fmt.Errorf(": unknown key: want one of %s", strings.Join(yamlKeys(), ", "))
}

func yamlKeys() []string {
	keys := []string{"name", "gpu_type", "features"}
	for _, m := range measures() {
		keys = append(keys, m.name)
	}
	return keys
}

func yamlFeatures(g *Group, list *yaml.Node) error {
	if list.Kind != yaml.SequenceNode {
		return errors.New(": want a list of words, as [nvlink, ib]")
	}
	g.Features = nil
	for _, value := range list.Content {
		var feature string
		if err := valued(value, word(&feature)); err != nil {
			return err
		}
		g.Features = append(g.Features, feature)
	}
	return nil
}

// valued reads a scalar value. The error contains the value.
func valued(value *yaml.Node, read func(text string) error) error {
	if value.Kind != yaml.ScalarNode {
		return errors.New(": want one value, not a list, keys or a reference")
	}
	if err := read(value.Value); err != nil {
		return fmt.Errorf(" = %s: %w", shown(value.Value), err)
	}
	return nil
}

func word(field *string) func(text string) error {
	return func(text string) error {
		if !isWord(text) {
			return errWord
		}
		*field = text
		return nil
	}
}
