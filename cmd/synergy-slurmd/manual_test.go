package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

// answered is what the command line says of itself.
func answered(t *testing.T, args ...string) string {
	t.Helper()
	var out, wrong bytes.Buffer
	if code := run(args, &out, &wrong); code != exitGood {
		t.Fatalf("%v ends with %d: %s", args, code, &wrong)
	}
	return out.String()
}

// TestManPagesAndCompletionsKnowEachFlagThatTheCommandLineTakes: what is parsed, and what is described, are two.
func TestManPagesAndCompletionsKnowEachFlagThatTheCommandLineTakes(t *testing.T) {
	folder := t.TempDir()
	answered(t, "manual", "--date", "2026-11-21", folder)
	var f flags
	var files ledger.Files
	ofFiles := func(set *pflag.FlagSet) { defineFiles(set, &files) }
	for page, verb := range map[string]struct {
		words  []string
		define func(*pflag.FlagSet)
	}{
		"synergy-slurmd":                {nil, f.define},
		"synergy-slurmd-release":        {[]string{"release"}, f.defineRelease},
		"synergy-slurmd-ledger-backup":  {[]string{"ledger", "backup"}, ofFiles},
		"synergy-slurmd-ledger-restore": {[]string{"ledger", "restore"}, ofFiles},
	} {
		text, err := os.ReadFile(filepath.Join(folder, page+".8"))
		if err != nil {
			t.Error(err)
			continue
		}
		offered := answered(t, append(append([]string{"__complete"}, verb.words...), "--")...)
		set := pflag.NewFlagSet(page, pflag.ContinueOnError)
		verb.define(set)
		set.VisitAll(func(flag *pflag.Flag) {
			if !strings.Contains(string(text), `\fB--`+flag.Name+`\fP`) {
				t.Errorf("%s.8 does not tell --%s", page, flag.Name)
			}
			if !strings.Contains(offered, "--"+flag.Name+"\t") {
				t.Errorf("after %v a shell is not offered --%s", verb.words, flag.Name)
			}
		})
	}
}

func TestAShellIsOfferedTheVerbsAndNotWhatPackagesAreMadeWith(t *testing.T) {
	offered := answered(t, "__complete", "")
	for verb, want := range map[string]bool{"release": true, "ledger": true, "manual": false} {
		if strings.Contains(offered, verb+"\t") != want {
			t.Errorf("%s is offered: %t, in\n%s", verb, !want, offered)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if script := answered(t, "completion", shell); !strings.Contains(script, "__complete") {
			t.Errorf("the script for %s asks nothing:\n%s", shell, script)
		}
	}
}

func TestTheManPagesAreOfTheDayThatIsSaid(t *testing.T) {
	folder := t.TempDir()
	answered(t, "manual", "--date", "2026-11-21", folder)
	text, err := os.ReadFile(filepath.Join(folder, "synergy-slurmd.8"))
	if err != nil || !strings.Contains(string(text), `"8" "Nov 2026"`) || strings.Contains(string(text), "Auto gen") {
		t.Errorf("%v: it begins with %.100s", err, text)
	}
	var wrong strings.Builder
	if code := run([]string{"manual", "--date", "today", folder}, io.Discard, &wrong); code != exitUsage ||
		!strings.Contains(wrong.String(), `--date "today": want a day, as 2026-11-21`) {
		t.Errorf("%d: %s", code, &wrong)
	}
}
