package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// refusal runs a wrong command line, which has to end with the code of its kind and print nothing but an error that has
// all the words.
func refusal(t *testing.T, args []string, words ...string) {
	t.Helper()
	var out, said strings.Builder
	code := run(args, &out, &said)
	text := said.String()
	if code != exitUsage || out.Len() > 0 || !strings.HasPrefix(text, "synergy: ") {
		t.Errorf("synergy %q ends with %d and says %q %q", args, code, text, out.String())
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("synergy %q says %q, which does not name %q", args, text, word)
		}
	}
}

// every calls look with each command of the tree, those that help does not list as well, and with the words by which
// it is called.
func every(t *testing.T, look func(c *cobra.Command, words []string)) {
	t.Helper()
	root, commands := rootCommand(), 0
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
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

func TestEachCommandThatWantsArgumentsRefusesNone(t *testing.T) {
	asked := 0
	every(t, func(c *cobra.Command, words []string) {
		if c.Args == nil || c.Args(c, nil) == nil {
			return
		}
		asked++
		refusal(t, words, "arg(s)")
	})
	if asked < 10 {
		t.Errorf("%d commands want arguments: they were not understood", asked)
	}
}

func TestTooManyArgumentsAreRefused(t *testing.T) {
	every(t, func(c *cobra.Command, words []string) {
		many := slices.Repeat([]string{"zzzz"}, 12)
		switch {
		case c.Name() == "help":
		case c.HasSubCommands():
			refusal(t, append(words, many...), `unknown command "zzzz" for "`+c.CommandPath()+`"`)
		case c.Args != nil && c.Args(c, many) != nil:
			refusal(t, append(words, many...))
		}
	})
}

func TestAnUnknownFlagIsRefusedByItsName(t *testing.T) {
	every(t, func(c *cobra.Command, words []string) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		refusal(t, append(words, "--zzzzzz"), "unknown flag: --zzzzzz")
	})
}

func TestAFlagThatRefusesItsValueIsNamedWithIt(t *testing.T) {
	looked := 0
	every(t, func(c *cobra.Command, words []string) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			const odd = "odd,,"
			if c.Hidden || f.Name == "help" || c.Flags().Set(f.Name, odd) == nil {
				return // a text, which the command looks at
			}
			looked++
			refusal(t, append(slices.Clone(words), "--"+f.Name+"="+odd), "--"+f.Name+`"`, `"`+odd+`"`)
		})
	})
	if looked < 30 {
		t.Errorf("%d flags refuse a word: they were not understood", looked)
	}
}

func TestAMistypedCommandIsRefusedWithTheNearest(t *testing.T) {
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
		refusal(t, words, `unknown command "`+typed+`" for "`+c.Parent().CommandPath()+`"`, "\n\t"+name+"\n")
		refusal(t, append([]string{"help"}, words...), "\n\t"+name+"\n")
	})
}
