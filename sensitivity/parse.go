package sensitivity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// MaxBytes is the size of the longest profile that Parse reads. The longest useful one, 256 × 64 points, has a fifth of
// that.
const MaxBytes = 1 << 20

// Parse parses a profile of format version 1 or 2. It is strict, because a typing error in a profile misplaces jobs for
// months: only the source, the restart costs and the GPU fields may be missing; no field may be unknown, repeated or
// out of its limits, and nothing may follow. An error lists up to maxProblems problems, each with the field, the value
// and what is expected.
//
// Measurements have noise: where throughput falls along an axis by at most Noise, Parse raises it to the value before,
// so that the returned profile never falls.
func Parse(text []byte) (*Profile, error) {
	fields, err := readFields(text)
	if err != nil {
		return nil, err
	}
	var found problems
	p := fields.profile(&found)
	if len(found) == 0 {
		p.check(&found)
	}
	if err := found.asError(); err != nil {
		return nil, err
	}
	return p, nil
}

// fieldNames are the fields of the format in the order in which Print writes them.
var fieldNames = []string{
	"version", "model", "task", "gpu_type", "batch", "source",
	"cores_per_gpu", "memory_per_gpu_mib", "throughput_samples_per_s",
	"checkpoint_s", "start_s", "gpu_busy", "gpu_memory_mib",
}

// fields holds the fields of a document as they were written.
type fields map[string]json.RawMessage

// readFields takes the document apart token by token, because encoding/json would accept repeated fields and other
// spellings of a name.
func readFields(text []byte) (fields, error) {
	switch {
	case len(text) > MaxBytes:
		return nil, fmt.Errorf("document of %d bytes: want at most %d", len(text), MaxBytes)
	case !utf8.Valid(text):
		return nil, errors.New("document is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("document does not start as a JSON object: want { first")
	}
	found := fields{}
	for decoder.More() {
		if err := found.readOne(decoder); err != nil {
			return nil, err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("reading the end of the object: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("document goes on after its object: want nothing there")
	}
	return found, nil
}

// readOne reads one field, which must be known and new.
func (f fields) readOne(decoder *json.Decoder) error {
	token, err := decoder.Token()
	if err != nil {
		return fmt.Errorf("reading the name of a field: %w", err)
	}
	name, _ := token.(string)
	if !slices.Contains(fieldNames, name) {
		return fmt.Errorf("field %s is unknown: want %s", shown(name), strings.Join(fieldNames, ", "))
	}
	if _, repeated := f[name]; repeated {
		return fmt.Errorf("field %s is there twice: want it once", name)
	}
	var value json.RawMessage
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	f[name] = value
	return nil
}

// maxProblems is how many problems one error lists; a user mends one at a time, and the text must fit a log line.
const maxProblems = 10

// problems collects what is wrong with a document.
type problems []string

func (p *problems) add(format string, values ...any) {
	*p = append(*p, fmt.Sprintf(format, values...))
}

// asError returns the first problems as one error; nil if there are none.
func (p problems) asError() error {
	if len(p) == 0 {
		return nil
	}
	if more := len(p) - maxProblems; more > 0 {
		return fmt.Errorf("%s; and %d more", strings.Join(p[:maxProblems], "; "), more)
	}
	return errors.New(strings.Join(p, "; "))
}

// maxShown is how much of a wrong value an error repeats, bytes.
const maxShown = 40

// shown returns a piece of the document for an error message: short, on one line, and without what a terminal would
// obey.
func shown(text string) string { return printable.Quote(text, maxShown) }
