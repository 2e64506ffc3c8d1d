package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// nodeOf is a Slurm of scripts with one node, n1 in two partitions, whose Comment is in a file.
func nodeOf(t *testing.T, comment string) (a *announcer, now func() string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "comment")
	for name, text := range map[string]string{
		"sinfo": `[ "$3" = --nodes=n1 ] || exit 0; [ -s ` + file + ` ] && text=$(cat ` + file + `) || text="(null)"
printf '%-4100s\n%-4100s\n' "$text" "$text"`,
		"squeue":   "exit 1",
		"scontrol": `[ "$1 $2" = "update NodeName=n1" ] || exit 1; printf '%s' "${3#Comment=}" >` + file,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte(comment), 0o644); err != nil {
		t.Fatal(err)
	}
	programs := slurmPrograms{scontrol: filepath.Join(dir, "scontrol"), sinfo: filepath.Join(dir, "sinfo")}
	return &announcer{slurmPrograms: programs, node: "n1", note: notePath(dir), log: slog.New(slog.DiscardHandler)},
		func() string {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
}

func TestABrokerSaysThatItIsThereAndTakesNothingAwayButItsOwnWord(t *testing.T) {
	for before, want := range map[string][2]string{
		"":                                {"synergy-broker", ""},
		"GPU 3 is slow":                   {"GPU 3 is slow synergy-broker", "GPU 3 is slow"},
		"two  spaces ünï":                 {"two  spaces ünï synergy-broker", "two  spaces ünï"},
		"no-synergy-broker":               {"no-synergy-broker synergy-broker", "no-synergy-broker"},
		"synergy-broker by hand":          {"synergy-broker by hand", "synergy-broker by hand"},
		"by hand: synergy-broker as well": {"by hand: synergy-broker as well", "by hand: synergy-broker as well"},
	} {
		a, now := nodeOf(t, before)
		for range 2 {
			if err := a.announce(t.Context()); err != nil || now() != want[0] {
				t.Errorf("%q became %q, %v, want %q", before, now(), err, want[0])
			}
		}
		for range 2 {
			if err := retract(a.slurmPrograms, a.note); err != nil || now() != want[1] {
				t.Errorf("of %q %q is left, %v, want %q", before, now(), err, want[1])
			}
		}
	}
	for before, want := range map[string]string{"a synergy-broker b": "a b", "synergy-broker b": "b", "x": "x",
		"a synergy-broker": "a", "synergy-broker": "", "synergy-brokers": "synergy-brokers"} {
		if got := withoutWord(before); got != want {
			t.Errorf("%q without the word is %q, want %q", before, got, want)
		}
	}
}

func TestACommentThatCannotBeKeptIsLeftAsItIs(t *testing.T) {
	for before, want := range map[string]string{
		"two\nlines":                             "several lines",
		strings.Repeat("x", mostNodeComment+1):   "more than 4000 bytes",
		strings.Repeat("ü", mostNodeComment/2+1): "more than 4000 bytes",
	} {
		a, now := nodeOf(t, before)
		if err := a.announce(t.Context()); err == nil || !strings.Contains(err.Error(), want) || now() != before {
			t.Errorf("%.20q: %v, and it is %.40q; want %q", before, err, now(), want)
		}
	}
	a, now := nodeOf(t, "x")
	a.node = "n2"
	if err := a.announce(t.Context()); err == nil || !strings.Contains(err.Error(), "no node n2") || now() != "x" {
		t.Errorf("of a node that there is not: %v", err)
	}
}

// TestABrokerAnnouncesItselfWhileItServes, and what one that was killed has announced is taken back before the next.
func TestABrokerAnnouncesItselfWhileItServes(t *testing.T) {
	a, now := nodeOf(t, "ops")
	t.Setenv("PATH", filepath.Dir(a.scontrol)+":"+os.Getenv("PATH"))
	dir := t.TempDir()
	stop := servingIn(t, dir, "--node", "n1")
	for end := time.Now().Add(20 * time.Second); now() != "ops synergy-broker"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the node's Comment is %q", now())
		}
	}
	stop()
	if now() != "ops" {
		t.Errorf("after the broker's end it is %q", now())
	}
	a.note = notePath(dir)
	if err := a.announce(t.Context()); err != nil { // and is killed
		t.Fatal(err)
	}
	if out, wrong, code := told(t, "thaw", "--run-dir", dir); code != 0 || wrong != "" || now() != "ops" {
		t.Errorf("thaw ends with %d, says %q %q, and leaves %q", code, out, wrong, now())
	}
	if err := a.announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.scontrol, []byte("#!/bin/sh\necho slurmctld is away >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, wrong, code := told(t, "thaw", "--run-dir", dir)
	if code != 0 || !strings.Contains(wrong, "slurmctld is away") {
		t.Errorf("without a slurmctld thaw ends with %d, says %q %q", code, out, wrong)
	}
}

func TestAnAnnouncementThatFailsIsSaidOnceAndTriedAgain(t *testing.T) {
	a, _ := nodeOf(t, "")
	if err := os.WriteFile(a.scontrol, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	said := new(strings.Builder)
	a.log = slog.New(slog.NewTextHandler(said, nil))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	a.keep(ctx)
	if n := strings.Count(said.String(), "announce:"); n != 1 {
		t.Errorf("said %d times:\n%s", n, said)
	}
}

func TestTheNameOfANodeIsLookedAt(t *testing.T) {
	for name, ok := range map[string]bool{"n1": true, "gpu-01.rack_2": true, "n1 State=DOWN": false, "-n1": false,
		"n1,n2": false, "n[1-9]": false, strings.Repeat("n", 65): false} {
		f := flags{announce: true, node: name, dir: t.TempDir()}
		if _, err := f.announcer(slog.New(slog.DiscardHandler)); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		} else if err != nil && !strings.Contains(err.Error(), fmt.Sprintf("--node %.70q: want", name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
