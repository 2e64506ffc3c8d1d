package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/sim/document"
	"github.com/synergy-slurmd/synergy-slurmd/spelling"
)

// maxExperimentBytes bounds the file of an experiment, in bytes.
const maxExperimentBytes = 256 << 10

// readExperiment sets the options that an experiment's file names, except those that the command line sets, too. The
// path "-" is the standard input. files has one path, or none if no experiment was named: then nothing is read.
func (o *options) readExperiment(stdin io.Reader, files ...string) error {
	if len(files) == 0 {
		return nil
	}
	path := files[0]
	o.file = path
	if path == stdioName {
		o.file = "standard input"
	} else {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("%s: %w: want an experiment, as a file with lines like load: 9", path, withoutPath(err))
		}
		defer file.Close()
		stdin = file
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxExperimentBytes+1))
	if err == nil && len(text) > maxExperimentBytes {
		err = fmt.Errorf("longer than %d bytes: want an experiment; a trace is named by --trace", maxExperimentBytes)
	}
	if err == nil {
		err = o.setKeys(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.file, withoutPath(err))
	}
	return nil
}

// setKeys sets the options that a YAML text names. A key that occurs twice is an error. The error names the line and
// the key.
func (o *options) setKeys(text []byte) error {
	root, err := document.Read(text, "keys with values, as load: 9")
	if err != nil {
		return err
	}
	if root.Kind != document.Keys {
		return fmt.Errorf("line %d: want keys with values, as load: 9; a trace is named by --trace", root.Line)
	}
	said := map[string]bool{}
	for _, key := range root.Keys {
		if said[key.Name] {
			return fmt.Errorf("line %d: %s: is there twice: remove one", key.Line, key.Name)
		}
		said[key.Name] = true
		if err := o.setKey(key); err != nil {
			return fmt.Errorf("line %d: %w", key.Line, err)
		}
	}
	return nil
}

// setKey sets the option that a key names, unless the command line has set it: flags override keys. A key that is no
// option of this command is an error, also if another command has it.
func (o *options) setKey(key document.Key) error {
	f := o.known.Lookup(key.Name)
	if f == nil {
		return o.unknownKeyError(key.Name)
	}
	values, err := valueTexts(f, key.Value)
	// A key that the command line overrides must still have a value of the right form.
	if err != nil || f.Changed {
		return err
	}
	o.lines[key.Name] = key.Line
	for _, text := range values {
		if err := o.all.Set(key.Name, text); err != nil {
			return fmt.Errorf("%s %s", key.Name, badValueText(f, text, err))
		}
	}
	return nil
}

// unknownKeyError is the error for a key that this command does not have. It names the key with the nearest spelling,
// or all keys if none is near.
func (o *options) unknownKeyError(name string) error {
	var names []string
	o.known.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := spelling.Nearest(name, names); near != "" {
		return fmt.Errorf("there is no key %.40q: did you mean %s?", name, near)
	}
	return fmt.Errorf("there is no key %.40q: want one of %s", name, strings.Join(names, ", "))
}

// valueTexts returns the texts of a key's value, to be set one after another. For most options that is one text, in
// which the items of a list have commas between. For an option that a command line may repeat it is one text for each
// item.
func valueTexts(f *pflag.Flag, value document.Value) ([]string, error) {
	items := value.List
	if value.Kind == document.Text {
		items = []document.Value{value}
	}
	var all []string
	for _, item := range items {
		if item.Kind != document.Text || item.Text == "" {
			items = nil
			break
		}
		all = append(all, item.Text)
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("%s: want a value, or a list of values, as [a, b]", f.Name)
	}
	if _, again := f.Value.(pflag.SliceValue); again {
		return all, nil
	}
	return []string{strings.Join(all, ",")}, nil
}

// typeHints says what values of pflag's own types are. Types of ours say it in their own errors.
var typeHints = map[string]string{
	"bool": "want true or false", "int": "want a whole number, as 3", "float64": "want a number, as 0.5",
}

// badValueText says what an option wants in place of the text that pflag refused with err. The text itself stands
// before that, unless the error of one of our own types begins with it already.
func badValueText(f *pflag.Flag, text string, err error) string {
	want, known := typeHints[f.Value.Type()]
	if !known {
		want = errors.Unwrap(err).Error()
	}
	if strings.HasPrefix(want, fmt.Sprintf("%q", text)) {
		return want
	}
	return fmt.Sprintf("%.40q: %s", text, want)
}

// valueInFile is an option's value as a file has it, to print the file that gives the same figures again.
func valueInFile(value pflag.Value) string {
	many, is := value.(pflag.SliceValue)
	if !is {
		return yamlText(value.String())
	}
	var all []string
	for _, text := range many.GetSlice() {
		all = append(all, yamlText(text))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// plainYAML is a text that YAML needs no quotes for.
var plainYAML = regexp.MustCompile(`^[A-Za-z0-9][\w.,+=:-]*$`)

// yamlText is a text as a file has it, in quotes where it needs them.
func yamlText(text string) string {
	if plainYAML.MatchString(text) && !strings.HasSuffix(text, ":") {
		return text
	}
	return strconv.Quote(text)
}

// unknownFlagError is the error for a flag that does not exist. Some options were flags in earlier releases and are
// only keys of the file today: for these the error says how to write the key.
func (o *options) unknownFlagError(c *cobra.Command, err error) error {
	absent, is := errors.AsType[*pflag.NotExistError](err)
	if is && o.known.Lookup(absent.GetSpecifiedName()) != nil {
		return fmt.Errorf("--%s: is no flag any more: write %[1]s: VALUE into a file, and name it: %s",
			absent.GetSpecifiedName(), c.UseLine())
	}
	return c.Parent().FlagErrorFunc()(c, err)
}

// flagPattern finds the options that a message names. Messages write all of them as flags.
var flagPattern = regexp.MustCompile(`--[a-z]+(-[a-z]+)*`)

// withGivenNames rewords an error so that it names options as the user gave them. An option from a file loses its
// dashes, and if the first option that the error names is from the file, the file and the line go before the text. The
// result still wraps err; nil stays nil.
func (o *options) withGivenNames(err error) error {
	if err == nil {
		return nil
	}
	place, first := "", true
	text := flagPattern.ReplaceAllStringFunc(err.Error(), func(flag string) string {
		name := strings.TrimPrefix(flag, "--")
		line := o.lines[name]
		if first && line > 0 {
			place = fmt.Sprintf("%s: line %d: ", o.file, line)
		}
		first = false
		if line > 0 || o.all.Lookup(name) != nil && o.typed.Lookup(name) == nil {
			return name
		}
		return flag
	})
	return rewordedError{err, place + text}
}

// rewordedError is an error in other words.
type rewordedError struct {
	error
	words string
}

func (n rewordedError) Error() string { return n.words }
func (n rewordedError) Unwrap() error { return n.error }
