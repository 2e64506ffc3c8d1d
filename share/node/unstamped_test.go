package node

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// several is a prolog of a job with two GPUs, which cannot be stamped.
func several(job int) []string {
	id := strconv.Itoa(job)
	return prolog("SLURM_JOB_ID="+id, "SLURM_JOB_GPUS=0,1", "SLURM_JOB_EXTRA="+strings.Replace(extra, "4711", id, 1))
}

func TestEachJobThatCannotBeStampedIsWrittenDownAndNoOther(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(Stamp(prolog(), dir), Stamp(prolog("SLURM_JOB_EXTRA"), dir)); err != nil {
		t.Fatal(err)
	}
	if last, err := LastUnstamped(dir); err != nil || last != (Unstamped{}) {
		t.Errorf("of a job that is stamped and one that shares nothing: %+v, %v", last, err)
	}
	for n, env := range [][]string{several(7), several(8), prolog("SLURM_JOB_UID=4294967295"), prolog("SLURM_JOB_ID")} {
		why := Stamp(env, dir)
		last, err := LastUnstamped(dir)
		if why == nil || err != nil || last.N != n+1 || last.Error != why.Error() || time.Since(last.At) > time.Minute {
			t.Errorf("%v is written down as %+v, %v", why, last, err)
		}
		if want := []int{7, 8, 4711, 0}[n]; last.Job != want {
			t.Errorf("of job %d, want %d", last.Job, want)
		}
	}
	if about, err := os.Stat(UnstampedPath(dir)); err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: who may open it could lock it", about, err)
	}
}

// TestTheFileOfThemStaysSmallAndTheirNumberGrows: for Prometheus a number that falls is one that began anew.
func TestTheFileOfThemStaysSmallAndTheirNumberGrows(t *testing.T) {
	dir, why := t.TempDir(), errors.New(strings.Repeat("why ", 1000)+"\x1b[31m\n")
	for n := range 3 * maxUnstamped / maxReason {
		if err := writeUnstamped(dir, 7, why); err != nil {
			t.Fatal(err)
		}
		last, err := LastUnstamped(dir)
		if err != nil || last.N != n+1 || len(last.Error) > maxReason+len("…") {
			t.Fatalf("%+v, %v, want %d", last, err, n+1)
		}
		if about, err := os.Stat(UnstampedPath(dir)); err != nil || about.Size() > maxUnstamped+1024 {
			t.Fatalf("%v, %v", about, err)
		}
	}
}

// TestALineThatIsNoneIsPassedOver: it may be cut where there was no room, and whoever is root may write there.
func TestALineThatIsNoneIsPassedOver(t *testing.T) {
	const good = `{"v":1,"n":7,"job":9,"error":"x"}`
	for text, want := range map[string]int{"": 0, "\n\n": 0, "x": 0, good: 7, good + "\n": 7,
		good + "\n" + `{"v":1,"n":8`: 7,
		good + "\n\nx\n[]\n{}\n":     7, `{"n":-3}`: 0} {
		dir := t.TempDir()
		if err := os.WriteFile(UnstampedPath(dir), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if last, err := LastUnstamped(dir); err != nil || last.N != want {
			t.Errorf("%q: %+v, %v; want %d", text, last, err, want)
		}
		if err := writeUnstamped(dir, 8, errors.New("why")); err != nil {
			t.Fatal(err)
		}
		if last, err := LastUnstamped(dir); err != nil || last.N != want+1 || last.Job != 8 {
			t.Errorf("%q and one more: %+v, %v", text, last, err)
		}
	}
}

// TestNothingIsWrittenIntoWhatOthersHavePut, nor waited for: Prolog is root.
func TestNothingIsWrittenIntoWhatOthersHavePut(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, put := range map[string]func(dir, path string) error{
		"a link":                         func(_, path string) error { return os.Symlink(victim, path) },
		"a pipe":                         func(_, path string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder":                       func(_, path string) error { return os.Mkdir(path, 0o700) },
		"a file that all may":            func(_, path string) error { return os.WriteFile(path, nil, 0o644) },
		"a folder to which others write": func(dir, _ string) error { return os.Chmod(dir, 0o777) },
	} {
		dir := t.TempDir()
		if err := put(dir, UnstampedPath(dir)); err != nil {
			t.Fatal(err)
		}
		if err := Stamp(several(7), dir); err == nil || !strings.Contains(err.Error(), "SLURM_JOB_GPUS=") ||
			!strings.Contains(err.Error(), "nor is it written down") {
			t.Errorf("%s: %v", what, err)
		}
		if last, _ := LastUnstamped(dir); last.N != 0 {
			t.Errorf("%s: %+v", what, last)
		}
	}
	if text, err := os.ReadFile(victim); err != nil || len(text) > 0 {
		t.Errorf("behind the link was written %q, %v", text, err)
	}
}
