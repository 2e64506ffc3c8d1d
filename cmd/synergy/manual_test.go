package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pages are the man pages by file name, as they are made for a release of that day.
func pages(t *testing.T) map[string]string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "man")
	if code := run([]string{"manual", "--date", "2026-11-21", folder}, io.Discard, os.Stderr); code != exitGood {
		t.Fatalf("synergy manual ends with %d", code)
	}
	files, err := filepath.Glob(folder + "/*.1")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(text)
	}
	return all
}

// shown calls look with every command that help lists.
func shown(command *cobra.Command, look func(*cobra.Command)) {
	look(command)
	for _, child := range command.Commands() {
		if child.IsAvailableCommand() {
			shown(child, look)
		}
	}
}

func TestEachCommandThatHelpListsHasAManPageWithAllItsOptions(t *testing.T) {
	all, commands := pages(t), 0
	shown(rootCommand(), func(command *cobra.Command) {
		commands++
		name := strings.ReplaceAll(command.CommandPath(), " ", "-") + ".1"
		page, has := all[name]
		if !has {
			t.Errorf("%s has no page %s", command.CommandPath(), name)
		}
		command.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(page, "--"+f.Name) {
				t.Errorf("%s does not tell --%s", name, f.Name)
			}
		})
	})
	if commands < 15 {
		t.Errorf("%d commands: they were not understood", commands)
	}
}

func TestAManPageIsTheSameWheneverItIsMade(t *testing.T) {
	page := pages(t)["synergy-sim.1"]
	if first, _, _ := strings.Cut(strings.TrimPrefix(page, ".nh\n"), "\n"); !strings.Contains(first, `"Nov 2026"`) {
		t.Errorf("it begins with %s", first)
	}
	if strings.Contains(page, "Auto generated") {
		t.Error("it says when it was made")
	}
}

func TestADayOfManPagesThatIsNoneIsRefused(t *testing.T) {
	var said strings.Builder
	code := run([]string{"manual", "--date", "today", t.TempDir()}, io.Discard, &said)
	if code != exitUsage || !strings.Contains(said.String(), `--date "today": want a day, as 2026-11-21`) {
		t.Errorf("%d: %s", code, &said)
	}
}

func TestManPagesThatCannotBeWrittenAreNoFaultOfTheCommandLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	code := run([]string{"manual", "--date", "2026-11-21", filepath.Join(file, "man")}, io.Discard, &said)
	if code != exitFailed || !strings.Contains(said.String(), "write man pages: ") {
		t.Errorf("%d: %s", code, &said)
	}
}
