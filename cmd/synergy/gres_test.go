package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/synergy-slurmd/synergy-slurmd/gres/nvml"
)

// The scripts have inventories of go-nvml's DGX servers, as package nvml recorded them.
func TestTheGresCommand(t *testing.T) {
	recorded, err := filepath.Abs("../../gres/inventory/testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Dir: "testdata/gres", Setup: func(e *testscript.Env) error {
		e.Setenv("RECORDED", recorded)
		return nil
	}})
}

// Where a machine has GPUs this is what package nvml's test with the tag gpu shows.
func TestWithoutADriverThereIsASentenceAndExitStatus3(t *testing.T) {
	if _, err := os.Stat("/dev/nvidia0"); err == nil {
		return
	}
	for _, args := range [][]string{{"gres"}, {"gres", "--check"}, {"gres", "--json"}, {"gres", "--job", "17"},
		{"gres", "--gpus", "0,2", "--every", "5s"}} {
		stdout, stderr, code := ran(args...)
		if code != exitUnseen || stdout != "" || strings.Count(stderr, "\n") != 1 ||
			!strings.Contains(stderr, "no NVIDIA driver on this host") &&
				!strings.Contains(stderr, "compiled without NVIDIA's library") {
			t.Errorf("%v: exit status %d\n%s%s", args, code, stdout, stderr)
		}
	}
}

func TestWithoutSlurmThereIsASentenceAndExitStatus3(t *testing.T) {
	t.Setenv("PATH", "")
	stdout, stderr, code := ran("gres", "--check", "--inventory", "../../gres/inventory/testdata/dgx-a100.json")
	if want := "synergy: scontrol show node n1: exec: \"scontrol\": executable file not found in $PATH\n"; code != exitUnseen || stdout != "" || stderr != want {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
}

// On the node itself slurmd is asked. Here a script stands for it, and no driver is needed.
func TestSlurmdIsAskedOnTheNodeItself(t *testing.T) {
	for _, w := range []struct{ name, script, want, stderr string }{
		{"records",
			"#!/bin/sh\n[ \"$*\" = '-G -N gpu1' ] && echo 'slurmd-gpu1: Gres Name=gpu Type=a100 Count=1 " +
				"File=/dev/nvidia0' >&2\n", "[{gpu a100 1 [/dev/nvidia0] }] <nil>", ""},
		{"nothing configured", "#!/bin/sh\nexit 0\n", "[] <nil>", ""},
		{"a file that is not there", "#!/bin/sh\necho 'slurmd: fatal: no /dev/nvidia4' >&2; exit 1\n",
			"[] gres.conf was not compared: slurmd -G: exit status 1: slurmd: fatal: no /dev/nvidia4", ""},
		{"no slurmd", "", "[] <nil>", "synergy: gres.conf was not compared: there is no slurmd here\n"},
	} {
		folder := t.TempDir()
		t.Setenv("PATH", folder)
		if w.script != "" {
			if err := os.WriteFile(filepath.Join(folder, "slurmd"), []byte(w.script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		var stderr strings.Builder
		o := gresOptions{check: true, node: "gpu1"}
		records, err := o.gresRecords(t.Context(), &stderr)
		if got := fmt.Sprint(records, " ", err); got != w.want || stderr.String() != w.stderr {
			t.Errorf("%s: %s, %q; want %s, %q", w.name, got, stderr.String(), w.want, w.stderr)
		}
		if asked := records != nil; asked != (w.name == "records" || w.name == "nothing configured") {
			t.Errorf("%s: compared: %v", w.name, asked)
		}
	}
}

func TestASampleIsATableOrALineOfJSON(t *testing.T) {
	s := nvml.Sample{At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), GPUs: []nvml.Reading{
		{Minor: 0, UUID: "GPU-a", Busy: 87, Memory: 40000, Mine: 20000},
		{Minor: 3, UUID: "GPU-b", Busy: nvml.Unknown, Memory: 5, Mine: nvml.Unknown},
		{Minor: 4, UUID: "GPU-c", Err: os.ErrDeadlineExceeded},
	}}
	var text, json strings.Builder
	if err := writeSample(&text, s); err != nil {
		t.Fatal(err)
	}
	if err := writeSampleJSON(&json, 17, s); err != nil {
		t.Fatal(err)
	}
	wantText := `2026-03-01 12:00:00
GPU  busy  memory     of the job  UUID
0    87 %  40000 MiB  20000 MiB   GPU-a
3    -     5 MiB      -           GPU-b
4    cannot be read: i/o timeout
`
	if text.String() != wantText {
		t.Errorf("got\n%swant\n%s", text.String(), wantText)
	}
	wantJSON := `{"version":1,"job":17,"at":"2026-03-01T12:00:00Z","gpus":[` +
		`{"minor":0,"uuid":"GPU-a","busy_percent":87,"memory_mib":40000,"job_mib":20000},` +
		`{"minor":3,"uuid":"GPU-b","busy_percent":-1,"memory_mib":5,"job_mib":-1},` +
		`{"minor":4,"uuid":"GPU-c","busy_percent":-1,"memory_mib":-1,"job_mib":-1,"error":"i/o timeout"}]}` + "\n"
	if json.String() != wantJSON {
		t.Errorf("got\n%swant\n%s", json.String(), wantJSON)
	}
}

func TestAJobIsWatchedUntilItHasEnded(t *testing.T) {
	job := t.TempDir()
	for _, w := range []struct {
		name   string
		looks  int
		failed bool
	}{{"a job of two looks", 2, false}, {"a job that has ended before", 0, true}} {
		done := 0
		at := func() (nvml.Sample, error) {
			if done == w.looks {
				job = filepath.Join(job, "gone")
			}
			done++
			_, err := nvml.Processes(job)
			return nvml.Sample{}, err
		}
		var out strings.Builder
		o := gresOptions{json: stdioName, every: durationFlag(time.Millisecond)}
		if err := o.sampleRepeatedly(t.Context(), at, &out); (err != nil) != w.failed ||
			strings.Count(out.String(), "\n") != w.looks {
			t.Errorf("%s: %v\n%s", w.name, err, out.String())
		}
	}
}

func TestWhatAProgramWritesIsBounded(t *testing.T) {
	var b boundedBuffer
	for range maxFile/1000 + 1 {
		if n, err := b.Write(make([]byte, 1000)); n != 1000 || err != nil {
			t.Fatalf("%d, %v: the program would be told that its output is broken", n, err)
		}
	}
	if b.Len() != maxFile || b.err() == nil {
		t.Errorf("%d bytes kept, %v", b.Len(), b.err())
	}
}
