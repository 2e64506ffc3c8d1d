package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// beatsOf runs a daemon for some rounds, and says what was in the file after each.
func beatsOf(t *testing.T, silent bool, hold func(context.Context, int) error) (beats []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "heartbeat")
	synctest.Test(t, func(t *testing.T) {
		d := testDaemon(&roundsOf{hold: hold})
		d.config.Heartbeat, d.heartbeat.silent = path, silent
		for range 3 {
			d.roundAndReport(t.Context())
			text, _ := os.ReadFile(path) // none: no text
			beats = append(beats, string(text))
			time.Sleep(d.period)
		}
	})
	return beats
}

func TestTheHeartBeatsAfterEachGoodRoundAndNoOther(t *testing.T) {
	midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix() // the bubble's clock begins there
	first, third := fmt.Sprintf("%d\n", midnight), fmt.Sprintf("%d\n", midnight+600)
	got := beatsOf(t, false, func(_ context.Context, number int) error {
		if number == 2 {
			return slurm.ErrUnreachable
		}
		return nil
	})
	if want := []string{first, first, third}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("beats %q, want %q", got, want)
	}
}

func TestADaemonInTheShadowHasNoHeartbeat(t *testing.T) {
	if got := strings.Join(beatsOf(t, true, atOnce), ""); got != "" {
		t.Errorf("beats %q: jobs would be gated for a daemon that starts none", got)
	}
}

func TestAHeartbeatIsReadableForAllWhateverTheUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "heartbeat")
	if err := writeTimestamped(path, time.Now(), ""); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// Whoever could put something under the name that is written first must not choose where it goes, nor hold the daemon
// up.
func TestAHeartbeatIsNotWrittenThroughALinkOrAPipe(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "heartbeat"), filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, put := range []func() error{
		func() error { return os.Symlink(victim, path+".new") },
		func() error { return syscall.Mkfifo(path+".new", 0o644) },
		func() error { return os.Symlink(victim, path) },
	} {
		os.Remove(path)
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if err := writeTimestamped(path, time.Now(), ""); err != nil {
			t.Error(err)
		}
		if text, _ := os.ReadFile(victim); string(text) != "mine" {
			t.Fatalf("written through a link: %q", text)
		}
	}
}

func TestAHeartbeatThatCannotBeWrittenIsToldOnceAndEndsNoRound(t *testing.T) {
	var log bytes.Buffer
	h := &heartbeatWriter{log: zerolog.New(&log)}
	dir := filepath.Join(t.TempDir(), "none")
	path := filepath.Join(dir, "heartbeat")
	for range 3 {
		h.beat(Config{Heartbeat: path}, time.Now())
	}
	if n := strings.Count(log.String(), "no heartbeat"); n != 1 {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	h.beat(Config{Heartbeat: path}, time.Now())
	h.stop(Config{Heartbeat: path})
	if _, err := os.Stat(path); err == nil || !strings.Contains(log.String(), "written again") {
		t.Errorf("still there: %v; %s", err, log.String())
	}
	if err := os.MkdirAll(filepath.Join(path, "in it"), 0o700); err != nil { // a name that no file can take
		t.Fatal(err)
	}
	h.beat(Config{Heartbeat: path}, time.Now())
	if n := strings.Count(log.String(), "no heartbeat"); n != 2 {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
}

// listed is what the gate is told of the profiles in these folders.
func listed(t *testing.T, h *heartbeatWriter, dirs ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "profiles")
	h.beat(Config{ProfilesFile: path, ProfileDirs: dirs}, time.Unix(1767268800, 0))
	text, _ := os.ReadFile(path) // none: no text
	return string(text)
}

func TestTheGateIsToldEachProfileThatCanBeUsedAndNoOther(t *testing.T) {
	one, other := t.TempDir(), t.TempDir()
	good, err := os.ReadFile("../../etc/profiles/res18.json")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		one + "/res18.json": string(good), other + "/gnmt.json": string(good), other + "/res18.json": string(good),
		one + "/broken.json": "{", one + "/notes.txt": string(good), one + "/.hidden.json": string(good),
		one + "/a\nb.json": string(good),
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := &heartbeatWriter{log: zerolog.Nop()}
	if got := listed(t, h, one, other); got != "1767268800\ngnmt.json\nres18.json\n" {
		t.Errorf("told %q", got)
	}
	if err := os.Remove(other + "/gnmt.json"); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, h, one, other); got != "1767268800\nres18.json\n" {
		t.Errorf("one that has gone: told %q", got)
	}
}

func TestWhereAFolderCannotBeReadTheGateIsToldNothing(t *testing.T) {
	var log bytes.Buffer
	h := &heartbeatWriter{log: zerolog.New(&log)}
	for range 3 {
		if got := listed(t, h, t.TempDir(), "/no/such"); got != "" {
			t.Errorf("told %q: jobs would be refused for profiles that are there", got)
		}
	}
	if n := strings.Count(log.String(), "the gate lets any name pass"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
}

// The gate reads 256 KiB of the file and believes none that is longer.
func TestTheGateIsToldNoListThatItDoesNotRead(t *testing.T) {
	dir := t.TempDir()
	good, err := os.ReadFile("../../etc/profiles/res18.json")
	if err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(dir, fmt.Sprintf("%0122d.json", 0))
	if err := os.WriteFile(first, good, 0o644); err != nil {
		t.Fatal(err)
	}
	add := func(from, to int) {
		for k := from; k < to; k++ {
			if err := os.Link(first, filepath.Join(dir, fmt.Sprintf("%0122d.json", k))); err != nil {
				t.Fatal(err)
			}
		}
	}
	h := &heartbeatWriter{log: zerolog.Nop()}
	add(1, 2047)
	if got := listed(t, h, dir); len(got) != 11+2047*128 {
		t.Errorf("told %d bytes of 2047 names", len(got))
	}
	add(2047, 2048)
	if got := listed(t, h, dir); len(got) > 256<<10 {
		t.Errorf("told %d bytes", len(got))
	}
}

func TestADaemonInTheShadowTellsTheGateNothing(t *testing.T) {
	if got := listed(t, &heartbeatWriter{log: zerolog.Nop(), silent: true}, t.TempDir()); got != "" {
		t.Errorf("told %q", got)
	}
}
