// Package document reads YAML files of the simulator: what has keys, lists and texts, each with its line. It knows the
// name of no key; the package that reads a file says which it has.
package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Kind is what a value consists of.
type Kind int

// The kinds of values. Other is a reference to another value, which no file needs.
const (
	Other Kind = iota
	Text
	List
	Keys
)

// Value is a value of a file. Only the field of its kind is set. A number is the text that stands in the file.
type Value struct {
	Line int // from 1
	Kind Kind
	Text string
	List []Value
	Keys []Key // in the order of the file; a name may be there twice
}

// Key is a name with its value.
type Key struct {
	Line  int
	Name  string
	Value Value
}

// Read reads a text, which must be one YAML document. want says what is missing if it is empty, or has only comments.
// The error names the line. A second document is refused, since the parser would otherwise leave it unread.
func Read(text []byte, want string) (Value, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return Value{}, err
	}
	var document, second yaml.Node
	switch err := loader.Load(&document); {
	case errors.Is(err, io.EOF) || err == nil && len(document.Content) != 1:
		return Value{}, errors.New("is empty: want " + want)
	case err != nil:
		return Value{}, syntax(err)
	}
	if err := loader.Load(&second); !errors.Is(err, io.EOF) {
		return Value{}, errors.New("a second document begins: keep everything in one")
	}
	return read(document.Content[0]), nil
}

// read turns a node of the YAML module into a value. For an alias, a reference to another value, it does nothing, so
// the value's kind stays Other, which the readers of files refuse.
func read(node *yaml.Node) Value {
	v := Value{Line: node.Line}
	switch node.Kind {
	case yaml.ScalarNode:
		v.Kind, v.Text = Text, node.Value
	case yaml.SequenceNode:
		v.Kind = List
		for _, item := range node.Content {
			v.List = append(v.List, read(item))
		}
	case yaml.MappingNode:
		v.Kind = Keys
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			v.Keys = append(v.Keys, Key{key.Line, key.Value, read(node.Content[i+1])})
		}
	}
	return v
}

// syntax reduces the parser's error to what is useful for the author of the file: the line and a printable message.
func syntax(err error) error {
	var failure *yaml.LoadError
	if errors.As(err, &failure) && failure.Mark.Line > 0 {
		return fmt.Errorf("line %d: %s", failure.Mark.Line, printable.Quote(failure.Message, 0))
	}
	return errors.New(printable.Quote(err.Error(), 0))
}
