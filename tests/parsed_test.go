package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// built are our programs, in a folder, and what they have said of the commands below each.
type built struct {
	folder string
	below  map[string][]string
}

// binaries is the folder once they are built, for all tests of this package.
var binaries string

var build = sync.OnceValue(func() error {
	folder, err := os.MkdirTemp("", "synergy-documented-")
	if err != nil {
		return err
	}
	binaries = folder
	compile := exec.Command("go", "build", "-o", folder+"/", "../cmd/synergy", "../cmd/synergy-slurmd",
		"../cmd/synergy-broker", "../contrib/deft")
	out, err := compile.CombinedOutput()
	if err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	return nil
})

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == memory {
		slurmInMemory()
		return
	}
	code := m.Run()
	if binaries != "" {
		_ = os.RemoveAll(binaries)
	}
	os.Exit(code)
}

func programsOf(t *testing.T) built {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return built{binaries, map[string][]string{}}
}

// parse has the program itself read a command line, and do nothing: with --help it looks at all other options, and
// ends.
func (b built) parse(c command) error {
	args := c.args[1:]
	if c.args[0] == "srun" {
		args = args[1:]
	}
	if c.span && slices.Contains(args, "…") {
		return nil // a sentence about a command
	}
	switch c.program() {
	case "synergy", "deft":
		return b.parseTool(c.program(), args)
	case "synergy-slurmd":
		last := "--version" // behind a look at all flags together
		if len(args) > 0 && !strings.HasPrefix(args[0], "-") || slices.Contains(args, "--help") {
			last = "--help" // of a verb, as release
		}
		return b.run("synergy-slurmd", append(slices.Clone(args), last)...)
	case "synergy-broker":
		return b.run("synergy-broker", append(slices.Clone(args), "--help")...)
	}
	return nil
}

func (b built) parseTool(program string, args []string) error {
	words := args
	if end := slices.Index(args, "--"); end >= 0 {
		words = args[:end]
	}
	if len(words) == 0 || words[0] == "completion" {
		return nil // a shell's own
	}
	if err := b.known(program, words); err != nil {
		return err
	}
	return b.run(program, append(slices.Clone(words), "--help")...)
}

// known says whether the words lead to a command: where one has others below it, cobra's help is silent about a word
// that is none of them.
func (b built) known(program string, words []string) error {
	for depth := range words {
		if strings.HasPrefix(words[depth], "-") {
			return nil
		}
		below, err := b.commandsBelow(program, words[:depth])
		if err != nil {
			return err
		}
		if len(below) == 0 {
			return nil
		}
		if !slices.Contains(below, words[depth]) {
			return fmt.Errorf("%s %s is no command: there are %v", program, strings.Join(words[:depth+1], " "), below)
		}
	}
	return nil
}

func (b built) commandsBelow(program string, words []string) ([]string, error) {
	name := program + " " + strings.Join(words, " ")
	if below, asked := b.below[name]; asked {
		return below, nil
	}
	help, err := exec.Command(filepath.Join(b.folder, program), append(slices.Clone(words), "--help")...).Output()
	b.below[name] = subcommands(string(help))
	return b.below[name], err
}

func subcommands(help string) (names []string) {
	_, list, found := strings.Cut(help, "Available Commands:\n")
	if !found {
		return nil
	}
	for line := range strings.Lines(list) {
		if !strings.HasPrefix(line, "  ") {
			break
		}
		names = append(names, strings.Fields(line)[0])
	}
	return names
}

func (b built) run(program string, args ...string) error {
	out, err := exec.Command(filepath.Join(b.folder, program), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, firstLine(string(out)))
	}
	return nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// TestTheDaemonTakesEveryConfigurationThatIsShown: what stands in the pages of YAML, with the one key that has no
// default.
func TestTheDaemonTakesEveryConfigurationThatIsShown(t *testing.T) {
	programs, taken := programsOf(t), 0
	key, keys := regexp.MustCompile(`^([a-z_]+):( |$)`), keysOf(t)
	for _, page := range ours(t).Pages {
		for _, block := range page.Blocks {
			m := key.FindStringSubmatch(strings.TrimSpace(append(block.Lines, "")[0]))
			if m == nil || block.Language != "yaml" && (block.Language != "" || !slices.Contains(keys, m[1])) {
				continue
			}
			taken++
			if err := programs.takes(t, strings.Join(block.Lines, "\n")); err != nil {
				t.Errorf("%s:%d: %v", page.Path, block.Line, err)
			}
		}
	}
	if taken < 2 {
		t.Errorf("%d configurations were looked at: the pages were not understood", taken)
	}
}

// TestEveryKeyOfTheManualIsOneOfTheConfiguration: the table of operations.md, key by key with no value.
func TestEveryKeyOfTheManualIsOneOfTheConfiguration(t *testing.T) {
	ours := programsOf(t)
	for _, key := range keysOf(t) {
		err := ours.takes(t, nested(key))
		if err != nil && strings.Contains(err.Error(), "unknown") {
			t.Errorf("docs/operations.md: key %s: %v", key, err)
		}
	}
	if err := ours.takes(t, "rules:\n  nosuch: 1\n"); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("a key that there is not is told by %v", err)
	}
}

// keysOf are those of the table in operations.md.
func keysOf(t *testing.T) (keys []string) {
	t.Helper()
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| key | default | meaning |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|").FindAllStringSubmatch(table, -1) {
		keys = append(keys, row[1])
	}
	if len(keys) < 20 {
		t.Fatalf("%d keys: the table was not found", len(keys))
	}
	return keys
}

// nested is a.b as YAML, with a value that is wrong for most.
func nested(key string) string {
	outer, inner, is := strings.Cut(key, ".")
	if !is {
		return outer + ": 1\n"
	}
	return outer + ":\n  " + inner + ": 1\n"
}

func (b built) takes(t *testing.T, yaml string) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "synergy-slurmd.yaml")
	profiles, err := filepath.Abs("../etc/profiles")
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"partitions": "[gpu]", "profile_dirs": "[" + profiles + "]"} {
		if !regexp.MustCompile(`(?m)^` + key + `:`).MatchString(yaml) {
			yaml = key + ": " + value + "\n" + yaml
		}
	}
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(filepath.Join(b.folder, "synergy-slurmd"), "--check-config", "--config", file)
	out, err := daemon.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
