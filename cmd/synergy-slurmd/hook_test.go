package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

func shell(script string) hook {
	return hook{before: []string{"/bin/sh", "-c", script}, timeout: 10 * time.Second}
}

func TestASiteWithoutProgramsHasNoHook(t *testing.T) {
	if (hook{timeout: time.Second}).orNone() != nil {
		t.Error("it has one")
	}
	if (hook{after: []string{"/bin/true"}}).orNone() == nil {
		t.Error("one program is not enough")
	}
	if err := (hook{}).Before(t.Context(), slurm.Job{}, "", time.Minute); err != nil {
		t.Error(err)
	}
}

func TestAHookLearnsOfTheJobFromItsEnvironmentAlone(t *testing.T) {
	job := slurm.Job{ID: 7, User: "alice", Partition: "gpu", Name: "$(reboot)",
		Runs: slurm.Allocated{Nodes: []string{"n1", "n2"}}}
	said := shell(`env | grep -v ^PWD= | sort; exit 3`).Before(t.Context(), job, "job 9 goes first", time.Minute)
	for _, line := range []string{"SYNERGY_JOB_ID=7\n", "SYNERGY_JOB_USER=alice\n", "SYNERGY_JOB_PARTITION=gpu\n",
		"SYNERGY_JOB_NODES=n1,n2\n", "SYNERGY_REASON=job 9 goes first"} {
		if said == nil || !strings.Contains(said.Error(), line) {
			t.Errorf("%q is missing in %v", line, said)
		}
	}
	if strings.Contains(said.Error(), "HOME=") || strings.Contains(said.Error(), "reboot") {
		t.Errorf("too much is in %v", said)
	}
}

// TestNoTextMakesALineOfAHooksEnvironment: a program that reads its environment line by line finds each name once, and
// one that is given a NUL or a megabyte starts all the same.
func TestNoTextMakesALineOfAHooksEnvironment(t *testing.T) {
	forged := "x\nSYNERGY_JOB_ID=1\x00\x1b[31m\u202e" + strings.Repeat("y", 1<<20)
	job := slurm.Job{ID: 7, User: forged, Partition: forged, Runs: slurm.Allocated{Nodes: []string{forged}}}
	err := shell(
		`env | grep -c SYNERGY_JOB_ID=7; env | grep -c ^SYNERGY; env | LC_ALL=C tr -d '[:print:]\n' | wc -c; exit 3`).Before(t.Context(), job, forged, time.Minute)
	if err == nil || !strings.HasSuffix(err.Error(), ": 1\n5\n0") {
		t.Errorf("%v: want one line with the ID, five lines of ours, and nothing unprintable", err)
	}
}

func TestAHookThatFailsSaysItsLastWords(t *testing.T) {
	err := shell("seq 1 100000; echo disk is full >&2; exit 3").Before(t.Context(), slurm.Job{ID: 7}, "", time.Minute)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.HasSuffix(err.Error(), "disk is full") ||
		len(err.Error()) > 700 {
		t.Error(err)
	}
	if err := shell("exit 1").Before(t.Context(), slurm.Job{}, "", time.Minute); !strings.HasSuffix(err.Error(),
		"it said nothing") {
		t.Error(err)
	}
}

func TestNothingThatAHookStartedOutlivesItsTime(t *testing.T) {
	alive := filepath.Join(t.TempDir(), "alive")
	script := fmt.Sprintf("(trap '' TERM; while true; do echo x >>%s; sleep 0.05; done) & (sleep 1000 &) ; sleep 1000",
		alive)
	began := time.Now()
	if err := shell(script).Before(t.Context(), slurm.Job{}, "", 300*time.Millisecond); err == nil {
		t.Error("it went well")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it was given 0.3 s and took %s", took)
	}
	grown := func() int64 {
		info, err := os.Stat(alive)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := grown()
	time.Sleep(500 * time.Millisecond)
	if after := grown(); after != before {
		t.Errorf("a child of the hook goes on writing: %d bytes, then %d", before, after)
	}
}

func TestAHookHasNoMoreTimeThanTheRoundLeavesIt(t *testing.T) {
	began := time.Now()
	err := shell("sleep 1000").Before(t.Context(), slurm.Job{}, "", 50*time.Millisecond)
	if took := time.Since(began); err == nil || took > 5*time.Second {
		t.Errorf("of 10 s it took %s: %v", took, err)
	}
	if err := shell("true").Before(t.Context(), slurm.Job{}, "", 0); err == nil {
		t.Error("it ran though no time was left")
	}
}

func TestAHookThatHangsEndsWithItsTime(t *testing.T) {
	h := shell("sleep 1000 & sleep 1000")
	h.timeout = 50 * time.Millisecond
	if err := h.Before(t.Context(), slurm.Job{}, "", time.Minute); err == nil {
		t.Error("it went well")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := shell("true").Before(ctx, slurm.Job{}, "", time.Minute); err == nil {
		t.Error("it ran after the round's end")
	}
}
