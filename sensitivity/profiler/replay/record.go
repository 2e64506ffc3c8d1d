// Package replay reads recorded curves and compares the estimator with them: which trials it would have asked for, and
// how far off its result is. It is pure and treats a file as untrusted.
package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Limits of a record.
const (
	MaxBytes    = 4 << 20
	maxModels   = 1000
	maxPoints   = 1024
	leastPoints = 2
	maxCores    = 4096
	maxRate     = 1e9
	minRate     = 1e-6
	maxName     = 128 // bytes
	maxDepth    = 32
)

// Model is one recorded curve.
type Model struct {
	Name   string
	Bound  float64 // samples/s with ready data; 0: not recorded
	Points []Point // ascending in cores
}

// Point is the measurement with some cores.
type Point struct {
	Cores int
	Rate  float64 // samples/s
}

// Parse parses {"models": [{"model": …, "points": [{"cores": …, "samples_per_s": …}, …], "gpu_bound_samples_per_s": …},
// …]}. Other fields are ignored.
func Parse(text []byte) ([]Model, error) {
	switch {
	case len(text) > MaxBytes:
		return nil, fmt.Errorf("the record has %d bytes: want at most %d", len(text), MaxBytes)
	case !utf8.Valid(text):
		return nil, fmt.Errorf("the record is not UTF-8")
	}
	if err := wellFormed(text); err != nil {
		return nil, err
	}
	whole, err := objectOf("the record", text)
	if err != nil {
		return nil, err
	}
	items, err := whole.list("models", 1, maxModels)
	if err != nil {
		return nil, err
	}
	models, seen := make([]Model, 0, len(items)), make(map[string]int)
	for i, item := range items {
		m, err := parseModel(fmt.Sprintf("models[%d]", i), item)
		if err != nil {
			return nil, err
		}
		if before, twice := seen[m.Name]; twice {
			return nil, fmt.Errorf("models[%d].model = %s: is the name of models[%d], too: want each once", i,
				shown(m.Name), before)
		}
		seen[m.Name] = i
		models = append(models, m)
	}
	return models, nil
}

// wellFormed returns an error with the place at which a text stops being JSON, or if it is nested too deeply.
func wellFormed(text []byte) error {
	if err := shallow(text); err != nil {
		return fmt.Errorf("the record %w", err)
	}
	var whole json.RawMessage
	err := json.Unmarshal(text, &whole)
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) || len(bytes.TrimSpace(text)) == 0 {
		return nil // other errors are found later, with their place
	}
	at := max(0, min(int(syntax.Offset)-1, len(text)-1))
	line := 1 + bytes.Count(text[:at], []byte("\n"))
	return fmt.Errorf("the record is no JSON: line %d, at %s: %w", line, shown(firstLine(text[at:])), err)
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(string(text[:min(len(text), 200)]), "\n")
	return line
}

// parseModel parses the model at the given place.
func parseModel(place string, text json.RawMessage) (Model, error) {
	o, err := objectOf(place, text)
	if err != nil {
		return Model{}, err
	}
	name, err := o.name("model")
	if err != nil {
		return Model{}, err
	}
	bound, err := o.optionalRate("gpu_bound_samples_per_s")
	if err != nil {
		return Model{}, err
	}
	items, err := o.list("points", leastPoints, maxPoints)
	if err != nil {
		return Model{}, err
	}
	m := Model{Name: name, Bound: bound}
	for i, item := range items {
		p, err := parsePoint(fmt.Sprintf("%s.points[%d]", place, i), item)
		if err != nil {
			return Model{}, err
		}
		if slices.ContainsFunc(m.Points, func(before Point) bool { return before.Cores == p.Cores }) {
			return Model{}, fmt.Errorf("%s.points[%d].cores = %d: is there twice: want each number of cores once",
				place, i, p.Cores)
		}
		m.Points = append(m.Points, p)
	}
	slices.SortFunc(m.Points, func(a, b Point) int { return cmp.Compare(a.Cores, b.Cores) })
	return m, nil
}

// parsePoint parses the point at the given place.
func parsePoint(place string, text json.RawMessage) (Point, error) {
	o, err := objectOf(place, text)
	if err != nil {
		return Point{}, err
	}
	cores, err := o.number("cores")
	if err != nil {
		return Point{}, err
	}
	if cores != math.Trunc(cores) || cores < 1 || cores > maxCores {
		return Point{}, fmt.Errorf("%s.cores = %s: want a whole number from 1 to %d", place,
			shown(string(o.fields["cores"])), maxCores)
	}
	rate, err := o.rate("samples_per_s")
	return Point{int(cores), rate}, err
}

// object is a JSON object with its place in the record, for errors.
type object struct {
	place  string
	fields map[string]json.RawMessage
}

// path returns a field's name for errors.
func (o object) path(name string) string {
	if o.place == "the record" {
		return name
	}
	return o.place + "." + name
}

// objectOf parses the fields of an object; a repeated field is an error.
func objectOf(place string, text []byte) (object, error) {
	o := object{place, make(map[string]json.RawMessage)}
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return o, fmt.Errorf("%s = %s: want an object, {…}", place, shown(string(text)))
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return o, fmt.Errorf("%s: %w", place, err)
		}
		name, _ := key.(string) // keys of objects are always strings
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return o, fmt.Errorf("%s: %w", o.path(shown(name)), err)
		}
		if _, twice := o.fields[name]; twice {
			return o, fmt.Errorf("%s is there twice: want it once", o.path(shown(name)))
		}
		o.fields[name] = value
	}
	if _, err := d.Token(); err != nil {
		return o, fmt.Errorf("%s ends early: %w", place, err)
	}
	return o, nil
}

// shallow refuses text that is nested so deeply that parsing it would use a large stack.
func shallow(text []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '{' || c == '['):
			if depth++; depth > maxDepth {
				return fmt.Errorf("is nested more than %d deep", maxDepth)
			}
		case !quoted && (c == '}' || c == ']'):
			depth--
		}
	}
	return nil
}

func (o object) required(name string) (json.RawMessage, error) {
	value, is := o.fields[name]
	if !is {
		return nil, fmt.Errorf("%s is missing", o.path(name))
	}
	return value, nil
}

// list returns the items of a required list with least to most entries.
func (o object) list(name string, least, most int) ([]json.RawMessage, error) {
	value, err := o.required(name)
	if err != nil {
		return nil, err
	}
	var items []json.RawMessage
	if value[0] != '[' || json.Unmarshal(value, &items) != nil {
		return nil, fmt.Errorf("%s = %s: want a list", o.path(name), shown(string(value)))
	}
	if len(items) < least || len(items) > most {
		return nil, fmt.Errorf("%s has %d entries: want %d to %d", o.path(name), len(items), least, most)
	}
	return items, nil
}

// name returns a required text field that can be printed.
func (o object) name(name string) (string, error) {
	value, err := o.required(name)
	if err != nil {
		return "", err
	}
	var said string
	if value[0] != '"' || json.Unmarshal(value, &said) != nil || strings.TrimSpace(said) == "" || len(said) > maxName ||
		!printable.Is(said) {
		return "", fmt.Errorf("%s = %s: want a name of 1 to %d printable bytes, in quotes", o.path(name),
			shown(string(value)), maxName)
	}
	return said, nil
}

func (o object) number(name string) (float64, error) {
	value, err := o.required(name)
	if err != nil {
		return 0, err
	}
	x, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		return 0, fmt.Errorf("%s = %s: want a number", o.path(name), shown(string(value)))
	}
	return x, nil
}

// rate returns a required rate within its limits.
func (o object) rate(name string) (float64, error) {
	x, err := o.number(name)
	if err == nil && (x < minRate || x > maxRate) {
		err = fmt.Errorf("%s = %s: want samples a second, from %g to %g", o.path(name), shown(string(o.fields[name])),
			minRate, maxRate)
	}
	return x, err
}

// optionalRate returns 0 if the field is missing or null.
func (o object) optionalRate(name string) (float64, error) {
	if value, is := o.fields[name]; !is || string(value) == "null" {
		return 0, nil
	}
	return o.rate(name)
}

// shown returns a piece of the record for an error message: short, and without what a terminal would obey.
func shown(text string) string { return printable.Quote(text, 40) }
