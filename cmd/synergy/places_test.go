package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// wrongPlaces are paths at which there is something else than a ledger or a folder of the daemon's, and what is said
// of each as a ledger.
func wrongPlaces(t *testing.T) map[string]string {
	t.Helper()
	at := func(name string) string { return filepath.Join(t.TempDir(), name) }
	const special = "is a device, a pipe or a socket"
	wrong := map[string]string{at("none"): "is not there", t.TempDir(): "is a folder", os.DevNull: special}
	pipe, noise := at("pipe"), make([]byte, 20_000)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	wrong[pipe] = special
	rand.Read(noise)
	for _, file := range []struct{ name, text, said string }{
		{"empty", "", "is empty"}, {"notes", "mine\n", "is no ledger"}, {"noise", string(noise), "is no ledger"},
	} {
		path := at(file.name)
		if err := os.WriteFile(path, []byte(file.text), 0o600); err != nil {
			t.Fatal(err)
		}
		wrong[path] = file.said
	}
	wrong[filepath.Join(at("notes"), "below")] = "is not there"
	return wrong
}

// readers calls look with each command that has the flag, and a command line by which it can be run but for that.
func readers(t *testing.T, flag string, look func(line []string)) {
	t.Helper()
	found := 0
	every(t, func(c *cobra.Command, words []string) {
		if f := c.Flags().Lookup(flag); f == nil || f.Value.Type() != "string" {
			return
		}
		found++
		switch {
		case strings.Contains(c.Use, "JOB"):
			words = append(words, "1")
		case c.Name() == "plan":
			words = append(words, "--round", "1")
		case c.Name() == "what-if":
			words = append(words, "--job", "1")
		}
		look(words)
	})
	if found < 3 {
		t.Errorf("%d commands have --%s: they were not understood", found, flag)
	}
}

func TestWhatIsNoLedgerIsNamedByEachCommandThatReadsOne(t *testing.T) {
	wrong := wrongPlaces(t)
	readers(t, "ledger", func(line []string) {
		for path, what := range wrong {
			var out, said strings.Builder
			code := run(append(line, "--ledger", path), &out, &said)
			want := "synergy: ledger " + path + ": " + what + ": want the file that the daemon has as its ledger"
			if code != exitUsage || out.Len() > 0 || !strings.HasPrefix(said.String(), want) ||
				strings.Count(said.String(), "\n") != 1 {
				t.Errorf("synergy %q of %s ends with %d and says %q %q", line, path, code, &said, &out)
			}
		}
	})
}

func TestWhatIsNoHistoryIsNamedByEachCommandThatReadsOne(t *testing.T) {
	wrong := wrongPlaces(t)
	readers(t, "history", func(line []string) {
		for path := range wrong {
			var out, said strings.Builder
			code := run(append(line, "--history", path), &out, &said)
			want := "synergy: --history " + path + ": "
			if code != exitUsage || out.Len() > 0 || !strings.HasPrefix(said.String(), want) ||
				!strings.Contains(said.String(), ": want the folder of the daemon's history") {
				t.Errorf("synergy %q of %s ends with %d and says %q %q", line, path, code, &said, &out)
			}
		}
	})
}

func TestAFlagWithAnEmptyTextIsNotTakenForOneThatWasLeftOut(t *testing.T) {
	for _, flag := range []string{"ledger", "daemon", "history", "since", "snapshot", "policy", "allocator", "user"} {
		every(t, func(c *cobra.Command, words []string) {
			f := c.Flags().Lookup(flag)
			if f == nil || c.Flags().Lookup("ledger") == nil {
				return
			}
			refusal(t, append(words, "--"+flag+"="), `invalid argument "" for "`, "--"+flag+`" flag: is empty`)
		})
	}
}
