package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/spelling"
)

// setting is one value of the file. Its name is the names of its sections and its own, joined by dots.
type setting struct {
	name  string
	value *yaml.Node
}

// readFunc takes over a value into the configuration, or says what is wrong with it.
type readFunc func(c *Config, value *yaml.Node) error

// key is one setting that the file may have.
type key struct {
	name string
	read readFunc
}

const day = times.Day

// keys are all settings that the file may have, with the limits of each value.
func keys() []key {
	return []key{
		{"partitions", listOf(func(c *Config) *[]string { return &c.Partitions }, partition)},
		{"canary.partitions", listOf(func(c *Config) *[]string { return &c.Canary.Partitions }, partition)},
		{"canary.accounts", listOf(func(c *Config) *[]string { return &c.Canary.Accounts }, account)},
		{"policy", named(func(c *Config) *policy.Policy { return &c.Policy }, policy.ParsePolicy)},
		{"allocator", named(func(c *Config) *policy.Allocator { return &c.Allocator }, policy.ParseAllocator)},
		{"profile_dirs", listOf(func(c *Config) *[]string { return &c.ProfileDirs }, folder)},
		{"learned", text(func(c *Config) *string { return &c.Learned }, folder)},
		{"match", matchRules},
		{"savings", text(func(c *Config) *string { return &c.Savings }, folder)},
		{"history.path", text(func(c *Config) *string { return &c.History.Path }, folder)},
		{"history.keep", duration(func(c *Config) *time.Duration { return &c.History.Keep }, day, 3660*day)},
		{"history.max_gib", whole(func(c *Config) *int { return &c.History.MostGiB }, 1, 100_000)},
		{"lease", duration(func(c *Config) *time.Duration { return &c.Lease }, time.Second, day)},
		{"ahead", whole(func(c *Config) *int { return &c.Ahead }, 0, 1000)},
		{"rules.min_run", duration(func(c *Config) *time.Duration { return &c.Rules.MinRun }, 0, 30*day)},
		{"rules.max_preemptions", preemptions},
		{"rules.max_restarts", whole(func(c *Config) *int { return &c.Rules.MaxRestarts }, 0, 100_000)},
		{"rules.horizon", duration(func(c *Config) *time.Duration { return &c.Rules.Horizon }, time.Minute, 30*day)},
		{"rules.payback", duration(func(c *Config) *time.Duration { return &c.Rules.Payback }, time.Minute, 30*day)},
		{"rules.patience", duration(func(c *Config) *time.Duration { return &c.Rules.Patience }, time.Minute, 365*day)},
		{"rules.stranded", number(func(c *Config) *float64 { return &c.Rules.Stranded }, 0.001, 1)},
		{"keep.cores", truth(func(c *Config) *bool { return &c.Keep.Cores })},
		{"keep.memory", truth(func(c *Config) *bool { return &c.Keep.Memory })},
		{"keep.steps", truth(func(c *Config) *bool { return &c.Keep.Steps })},
		{"share.gpu_memory", memoryOfGPUs},
		{"share.by_feature", memoryByFeature},
		{"share.mode", modeOfNodes},
		{"share.mode_by_feature", modeByFeature},
		{"preempt_without_checkpoint", truth(func(c *Config) *bool { return &c.PreemptWithoutCheckpoint })},
		{"save_at_limit", truth(func(c *Config) *bool { return &c.SaveAtLimit })},
		{"estimate_starts", truth(func(c *Config) *bool { return &c.EstimateStarts })},
		{"restart_cost", duration(func(c *Config) *time.Duration { return &c.RestartCost }, 0, day)},
		{"audit_window", duration(func(c *Config) *time.Duration { return &c.Audit }, 0, day)},
		{"checkpoint_hook.before", command(func(c *Config) *[]string { return &c.Hook.before })},
		{"checkpoint_hook.after", command(func(c *Config) *[]string { return &c.Hook.after })},
		{"checkpoint_hook.timeout", duration(func(c *Config) *time.Duration { return &c.Hook.timeout }, time.Second,
			10*time.Minute)},
		{"start_timeout", duration(func(c *Config) *time.Duration { return &c.StartTimeout }, time.Second,
			10*time.Minute)},
		{"concurrency", whole(func(c *Config) *int { return &c.Concurrency }, 1, 64)},
		{"heartbeat", text(func(c *Config) *string { return &c.Heartbeat }, folder)},
		{"profiles_file", text(func(c *Config) *string { return &c.ProfilesFile }, folder)},
		{"rate", number(func(c *Config) *float64 { return &c.Rate }, 0.1, 10_000)},
	}
}

// reader finds how the key of that name is read; nil: there is no such key.
func reader(name string) readFunc {
	for _, k := range keys() {
		if k.name == name {
			return k.read
		}
	}
	return nil
}

// isSection reports whether name is a key that has keys below it.
func isSection(name string) bool {
	return slices.ContainsFunc(keys(), func(k key) bool { return strings.HasPrefix(k.name, name+".") })
}

// siblings lists the keys of the section that name is in.
func siblings(name string) string {
	section := name[:strings.LastIndex(name, ".")+1]
	var found []string
	for _, k := range keys() {
		if rest, inside := strings.CutPrefix(k.name, section); inside {
			own, _, _ := strings.Cut(rest, ".")
			found = append(found, own)
		}
	}
	return strings.Join(slices.Compact(found), ", ")
}

// keySuggestion suggests a key for an unknown name: one with a similar spelling, one of that name in a section, or else
// all keys that could stand there.
func keySuggestion(name string) string {
	var all []string
	for _, k := range keys() {
		all = append(all, k.name)
		if section, own, inside := strings.Cut(k.name, "."); inside {
			all = append(all, section)
			if own == name {
				return fmt.Sprintf("it stands under %s: put it there, two spaces further in", section)
			}
		}
	}
	if near := spelling.Nearest(name, all); near != "" {
		return "did you mean " + near + "?"
	}
	return "want one of " + siblings(name)
}

// flatten lists the settings below a mapping in the order of the file. Anchors and merges of YAML are not supported.
func flatten(prefix string, mapping *yaml.Node) ([]setting, error) {
	if mapping.Kind != yaml.MappingNode {
		return nil, noKeys(prefix, mapping)
	}
	var settings []setting
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		name, value := prefix+mapping.Content[i].Value, mapping.Content[i+1]
		if !isSection(name) {
			settings = append(settings, setting{name, value})
			continue
		}
		inner, err := flatten(name+".", value)
		if err != nil {
			return nil, err
		}
		if name == canarySection && len(inner) == 0 {
			return nil, fmt.Errorf("line %d: canary: names nobody: give it accounts or partitions, or remove it to "+
				"manage everybody", value.Line)
		}
		settings = append(settings, inner...)
	}
	return settings, nil
}

// noKeys is the error for a section or a file without keys.
func noKeys(prefix string, value *yaml.Node) error {
	if section, is := strings.CutSuffix(prefix, "."); is {
		return fmt.Errorf(
			"line %d: %s: has no keys below it: want some of %s, two spaces further in",
			value.Line,
			section,
			siblings(prefix),
		)
	}
	name, rest, is := strings.Cut(value.Value, ":")
	if !is {
		name, rest, is = strings.Cut(value.Value, "=")
	}
	if name, rest = strings.TrimSpace(name), strings.TrimSpace(rest); is && reader(name) != nil && rest != "" {
		return fmt.Errorf("line %d: %s is no key with a value: want %s: %s", value.Line, shownOf(value.Value), name,
			printable.Line(rest, 60))
	}
	return fmt.Errorf("line %d: want keys with values, as policy: las", value.Line)
}

// scalar is the text of a value that is neither a list nor a section.
func scalar(value *yaml.Node) (string, error) {
	if value.Kind != yaml.ScalarNode {
		return "", errors.New("want one value, not a list, keys or a reference")
	}
	if value.Value == "" || value.Tag == "!!null" {
		return "", errors.New("has no value: give it one, or remove the key for the default")
	}
	return value.Value, nil
}

// duration reads a duration from least to most. field says where in the configuration it goes, as in all functions
// below.
func duration(field func(*Config) *time.Duration, least, most time.Duration) readFunc {
	return func(c *Config, value *yaml.Node) error {
		text, err := scalar(value)
		if err != nil {
			return err
		}
		d, err := times.Parse(text)
		if err != nil {
			return err
		}
		if d < least || d > most {
			return fmt.Errorf("%s is out of range: want %s to %s", text, times.Text(least), times.Text(most))
		}
		*field(c) = d
		return nil
	}
}

// whole reads a whole number from least to most.
func whole(field func(*Config) *int, least, most int) readFunc {
	return func(c *Config, value *yaml.Node) error {
		text, err := scalar(value)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%q: want a whole number from %d to %d", text, least, most)
		}
		*field(c) = n
		return nil
	}
}

// number reads a number from least to most.
func number(field func(*Config) *float64, least, most float64) readFunc {
	return func(c *Config, value *yaml.Node) error {
		text, err := scalar(value)
		if err != nil {
			return err
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x >= least && x <= most) { // written so that NaN fails
			return fmt.Errorf("%q: want a number from %g to %g", text, least, most)
		}
		*field(c) = x
		return nil
	}
}

// truth reads true or false, and none of YAML's other words for them.
func truth(field func(*Config) *bool) readFunc {
	return func(c *Config, value *yaml.Node) error {
		text, err := scalar(value)
		if err != nil {
			return err
		}
		if text != "true" && text != "false" {
			return fmt.Errorf("%q: want true or false", text)
		}
		*field(c) = text == "true"
		return nil
	}
}

// text reads one value that allow accepts.
func text(field func(*Config) *string, allow func(text string) error) readFunc {
	return func(c *Config, value *yaml.Node) error {
		text, err := scalar(value)
		if err != nil {
			return err
		}
		if err := allow(text); err != nil {
			return err
		}
		*field(c) = text
		return nil
	}
}

// named reads the name of a policy or an allocator.
func named[T any](field func(*Config) *T, find func(name string) (T, error)) readFunc {
	return func(c *Config, value *yaml.Node) error {
		text, err := scalar(value)
		if err != nil {
			return err
		}
		found, err := find(text)
		if err != nil {
			return err
		}
		*field(c) = found
		return nil
	}
}

// listOf reads a list of at least one word. allow must accept each, and none may stand there twice.
func listOf(field func(*Config) *[]string, allow func(word string) error) readFunc {
	return func(c *Config, value *yaml.Node) error {
		list, err := sequence(value)
		if err != nil {
			return err
		}
		for i, word := range list {
			if slices.Contains(list[:i], word) {
				return fmt.Errorf("%q stands there twice: remove one", word)
			}
			if err := allow(word); err != nil {
				return err
			}
		}
		*field(c) = list
		return nil
	}
}

// sequence reads a list of at least one value.
func sequence(value *yaml.Node) ([]string, error) {
	if value.Kind != yaml.SequenceNode || len(value.Content) == 0 {
		return nil, errors.New("want a list of at least one, as [a, b]")
	}
	var list []string
	for _, item := range value.Content {
		text, err := scalar(item)
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, nil
}

// partition accepts what can be the name of one partition. A list written as one word would never match a job.
func partition(word string) error {
	if strings.ContainsAny(word, ", \t/*") {
		return fmt.Errorf("%q is not the name of one partition: list them as [a, b]", word)
	}
	return nil
}

// canarySection is the section that must not be empty: it could mean all jobs or none.
const canarySection = "canary"

// account accepts what can be the name of one account. Slurm keeps them in small letters.
func account(word string) error {
	if strings.ContainsAny(word, ", \t/*") || strings.ToLower(word) != word {
		return fmt.Errorf("%q is not the name of one account: list them as [a, b], in small letters as Slurm has them",
			word)
	}
	return nil
}

// folder accepts an absolute path, of a folder or of a file: the daemon has no working directory of its own.
func folder(word string) error {
	if !filepath.IsAbs(word) {
		return fmt.Errorf("%q is not an absolute path: the daemon has no folder of its own to start from", word)
	}
	return nil
}

// command reads a program and its arguments. It is run without a shell, so a command line in one string would be taken
// for the name of the program.
func command(field func(*Config) *[]string) readFunc {
	return func(c *Config, value *yaml.Node) error {
		argv, err := sequence(value)
		if err != nil {
			return err
		}
		if !filepath.IsAbs(argv[0]) {
			return fmt.Errorf("%q is not an absolute path: name the program as [/usr/local/sbin/save, --all]", argv[0])
		}
		*field(c) = argv
		return nil
	}
}
