package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/broker"
)

// controller is an administration of a script's: squeue prints what is in a file, scontrol notes what it is told.
func controller(t *testing.T, prints string) (a slurmPrograms, told func() string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"squeue":   "#!/bin/sh\n" + prints + "\n",
		"scontrol": "#!/bin/sh\nprintf '%s|' \"$@\" >>" + dir + "/told\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a = slurmPrograms{scontrol: filepath.Join(dir, "scontrol"), squeue: filepath.Join(dir, "squeue")}
	return a, func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "told"))
		return string(text)
	}
}

// row is what squeue 24.11 prints.
func row(job, name, comment string) string {
	return fmt.Sprintf("printf '%%s\\n' '%-20s%-30s%-20s%-60s'\n", job, name, "1001", comment)
}

func TestAnOffenceIsToldOfItsJobAloneAndBesideWhatStandsThere(t *testing.T) {
	at := time.Unix(1764000000, 0)
	for what, c := range map[string]struct {
		prints, told string
		over         bool
	}{
		"nothing stands there": {row("7", "7", ""), "update|JobId=7|AdminComment=synergy-offence=1@1764000000|", false},
		"others' words": {row("7", "7", "seen by  ops"),
			"update|JobId=7|AdminComment=seen by  ops synergy-offence=1@1764000000|", false},
		"several lines": {row("7", "7", "two\nlines ünï"),
			"update|JobId=7|AdminComment=two\nlines ünï synergy-offence=1@1764000000|", false},
		"an earlier one": {row("7", "7", "synergy-offence=0@1763999999 x"),
			"update|JobId=7|AdminComment= x synergy-offence=1@1764000000|", false},
		"the same": {row("7", "7", "synergy-offence=1@1764000000"), "", false},
		"the last task of an array": {row("9", "7_1", "a") + row("7", "7_2", "b") + row("8", "7_0", "c"),
			"update|JobId=7_2|AdminComment=b synergy-offence=1@1764000000|", false},
		"an array of ten thousand": {row("8", "8_1", "synergy-offence=0@1763999999") +
			"yes \"$(" + row("9", "8_2", strings.Repeat("x", 8000)) + ")\" | head -n 10000\n" + row("7", "8_3", "mine"),
			"update|JobId=8_3|AdminComment=mine synergy-offence=1@1764000000|", false},
		"it is over":                   {"echo slurm_load_jobs error: Invalid job id specified >&2; exit 1", "", true},
		"it is forgotten":              {"", "", true},
		"another job":                  {row("71", "71", "a"), "", true},
		"its number is another user's": {strings.ReplaceAll(row("7", "7", "a"), "1001", "1002"), "", true},
	} {
		a, told := controller(t, c.prints)
		err := a.accuse(t.Context(), 7, 1001, share.Offence{GPU: 1, At: at})
		over := errors.Is(err, broker.ErrNotReported) && strings.HasSuffix(err.Error(), "the job is over")
		if err != nil && !over || over != c.over || told() != c.told {
			t.Errorf("%s: told %q, %v, want %q", what, told(), err, c.told)
		}
	}
}

func TestAReportThatDoesNotReachSlurmIsAnError(t *testing.T) {
	o := share.Offence{GPU: 1, At: time.Unix(1764000000, 0)}
	for prints, want := range map[string]string{
		"echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1": "Unable to contact",
		row("7", "7", strings.Repeat("x", 5000)):                                     "want at most 4096",
		"printf '%-20s%-30s1001 ' 7 7; exit 1":                                       "exit status 1",
		"sleep 60":                                                                   "killed",
	} {
		a, told := controller(t, prints)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if err := a.accuse(ctx, 7, 1001, o); err == nil || !strings.Contains(err.Error(), want) || told() != "" {
			t.Errorf("%.60s: %v, told %q, want %s", prints, err, told(), want)
		}
		cancel()
	}
	a, told := controller(t, row("7", "7", ""))
	over := "#!/bin/sh\necho Job has already finished for job 7 >&2; exit 1\n"
	if err := os.WriteFile(a.scontrol, []byte(over), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := a.accuse(t.Context(), 7, 1001, o); !errors.Is(err, errOver) || told() != "" {
		t.Errorf("of a job that has just ended: %v", err)
	}
	hangs := "#!/bin/sh\nsleep 60 &\n"
	if err := os.WriteFile(a.squeue, []byte(hangs), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if began := time.Now(); a.accuse(ctx, 7, 1001, o) == nil || time.Since(began) > 30*time.Second {
		t.Errorf("whoever a script has left behind is waited for: %v", time.Since(began))
	}
	a, _ = controller(t, row("7", "7", ""))
	a.scontrol = filepath.Join(t.TempDir(), "none")
	if err := a.accuse(t.Context(), 7, 1001, o); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without scontrol: %v", err)
	}
}
