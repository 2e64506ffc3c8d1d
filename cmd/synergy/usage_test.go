package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/usage"
)

// cobraWords are what the libraries say by themselves of a command line.
var cobraWords = []string{"arg(s)", "for \"synergy", "unknown", "invalid argument", "needs an argument", "strconv",
	"parsing", "flag:"}

// refusal is what a person reads who types that; it has to be one sentence of the command, with the code of its kind.
func refusal(t *testing.T, command string, args ...string) string {
	t.Helper()
	var out, said strings.Builder
	code := run(args, &out, &said)
	text := strings.TrimSuffix(said.String(), "\n")
	if code != exitUsage || out.Len() > 0 || strings.Contains(text, "\n") || !strings.HasPrefix(text, command+": ") {
		t.Errorf("synergy %q ends with %d and says %q %q", args, code, text, out.String())
	}
	for _, words := range cobraWords {
		if strings.Contains(text, words) {
			t.Errorf("synergy %q says %q, which are the words of a library", args, text)
		}
	}
	return text
}

// every calls look with each command of the tree, those that help does not list as well, and with the words by which
// it is called.
func every(t *testing.T, look func(c *cobra.Command, words []string)) {
	t.Helper()
	root, commands := rootCommand(), 0
	usage.Hold(root)
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		commands++
		look(c, strings.Fields(c.CommandPath())[1:])
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(root)
	if commands < 40 {
		t.Errorf("%d commands: the tree was not understood", commands)
	}
}

func TestEachCommandThatWantsArgumentsSaysWhichByAnExampleThatItTakes(t *testing.T) {
	asked := 0
	every(t, func(c *cobra.Command, words []string) {
		if c.Args == nil || c.Args(c, nil) == nil {
			return
		}
		asked++
		text := refusal(t, c.CommandPath(), words...)
		_, example, shows := strings.Cut(text, ", as: ")
		if !shows || !strings.Contains(text, "which ") || strings.Contains(text, "which argument") {
			t.Errorf("%q asks for nothing by an example", text)
		}
		if c.Example == "" {
			return // of those for programs
		}
		fields := strings.Fields(example)
		if len(fields) == 0 || fields[0] != "synergy" {
			t.Fatalf("%q has the example %q", text, example)
		}
		named, rest, err := rootCommand().Find(fields[1:])
		if err != nil || named.CommandPath() != c.CommandPath() || named.ParseFlags(rest) != nil ||
			named.Args(named, named.Flags().Args()) != nil {
			t.Errorf("%s shows %q, which it would not take itself", c.CommandPath(), example)
		}
	})
	if asked < 10 {
		t.Errorf("%d commands want arguments: they were not understood", asked)
	}
}

func TestWhatIsTooMuchOnACommandLineIsNamed(t *testing.T) {
	every(t, func(c *cobra.Command, words []string) {
		many := slices.Repeat([]string{"zzzz"}, 12)
		if c.Args == nil && !c.HasSubCommands() || c.Args != nil && c.Args(c, many) == nil && !c.HasSubCommands() ||
			c.Name() == "help" {
			return
		}
		if text := refusal(t, c.CommandPath(), append(words, many...)...); !strings.Contains(text, `"zzzz"`) {
			t.Errorf("%q does not name what is too much", text)
		}
	})
}

func TestAFlagThatThereIsNotIsRefusedWithTheNearest(t *testing.T) {
	every(t, func(c *cobra.Command, words []string) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		refusal(t, c.CommandPath(), append(words, "--zzzzzz")...)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if near := f.Name + "x"; !f.Hidden && c.Flags().Lookup(near) == nil && len(f.Name) > 3 {
				text := refusal(t, c.CommandPath(), append(words, "--"+near)...)
				if !strings.HasSuffix(text, "did you mean --"+f.Name+"?") {
					t.Errorf("for --%s: %q", near, text)
				}
			}
		})
	})
}

func TestAFlagSaysInItsOwnWordsWhatItWantsInPlaceOfWhatItGot(t *testing.T) {
	every(t, func(c *cobra.Command, _ []string) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			err := c.Flags().Set(f.Name, "\x01 odd,,")
			if err == nil || f.Value.Type() == "bool" && f.Name == "help" {
				return // a text, which the command looks at
			}
			text := usage.Flag(c.CommandPath(), c.Flags(), err).Error()
			if !strings.HasPrefix(text, c.CommandPath()+": --"+f.Name+" ") {
				t.Errorf("%q does not begin with the command and the flag", text)
			}
			for _, words := range cobraWords {
				if strings.Contains(text, words) {
					t.Errorf("%q has the words of a library", text)
				}
			}
		})
	})
}

// TestAWordThatBelongsToAFlagIsSentThere: the value of one that is on or off behind a space, and the file that a
// command wants behind a flag.
func TestAWordThatBelongsToAFlagIsSentThere(t *testing.T) {
	behindFlag := regexp.MustCompile(`^\S+ (-\w) FILE`)
	switches, files := 0, 0
	every(t, func(c *cobra.Command, words []string) {
		if c.Args == nil || c.Args(c, nil) != nil || c.Args(c, []string{"a.json"}) == nil {
			return
		}
		if match := behindFlag.FindStringSubmatch(c.Use); match != nil {
			files++
			want := `"a.json": want it behind ` + match[1] + ", as: " + c.CommandPath()
			if text := refusal(t, c.CommandPath(), append(words, "a.json")...); !strings.Contains(text, want) {
				t.Errorf("%q, want %q", text, want)
			}
			return
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Value.Type() != "bool" || f.Name == "help" {
				return
			}
			switches++
			want := "--" + f.Name + " and false are two words: want --" + f.Name + "=false"
			text := refusal(t, c.CommandPath(), append(slices.Clone(words), "--"+f.Name, "false")...)
			if !strings.HasSuffix(text, want) {
				t.Errorf("%q, want %q", text, want)
			}
		})
	})
	if text := refusal(t, "synergy explain", "explain", "--json", "4711", "1"); strings.Contains(text, "two words") {
		t.Errorf("of a word that does not follow the flag: %q", text)
	}
	if switches < 5 || files < 2 {
		t.Errorf("%d switches and %d files were tried", switches, files)
	}
}

func TestACommandThatIsMistypedIsKnownByItsNearest(t *testing.T) {
	every(t, func(c *cobra.Command, words []string) {
		if !c.IsAvailableCommand() || !c.HasParent() || len(c.Name()) < 4 {
			return
		}
		name := c.Name()
		typed := name[:1] + name[2:3] + name[1:2] + name[3:]
		if typed == name {
			return
		}
		words[len(words)-1] = typed
		want := `there is no command "` + typed + `": did you mean ` + c.CommandPath() + "?"
		if text := refusal(t, c.Parent().CommandPath(), words...); !strings.Contains(text, want) {
			t.Errorf("of %q: %q", typed, text)
		}
	})
}
