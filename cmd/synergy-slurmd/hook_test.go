package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
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
	if err := (hook{}).Before(t.Context(), bridge.Job{}, ""); err != nil {
		t.Error(err)
	}
}

func TestAHookLearnsOfTheJobFromItsEnvironmentAlone(t *testing.T) {
	job := bridge.Job{ID: 7, User: "alice", Partition: "gpu", Name: "$(reboot)", Runs: bridge.Allocated{Nodes: []string{"n1", "n2"}}}
	said := shell(`env | grep -v ^PWD= | sort; exit 3`).Before(t.Context(), job, "job 9 goes first")
	for _, line := range []string{"SYNERGY_JOB_ID=7\n", "SYNERGY_JOB_USER=alice\n", "SYNERGY_JOB_PARTITION=gpu\n", "SYNERGY_JOB_NODES=n1,n2\n", "SYNERGY_REASON=job 9 goes first"} {
		if said == nil || !strings.Contains(said.Error(), line) {
			t.Errorf("%q is missing in %v", line, said)
		}
	}
	if strings.Contains(said.Error(), "HOME=") || strings.Contains(said.Error(), "reboot") {
		t.Errorf("too much is in %v", said)
	}
}

func TestAHookThatFailsSaysItsLastWords(t *testing.T) {
	err := shell("seq 1 100000; echo disk is full >&2; exit 3").Before(t.Context(), bridge.Job{ID: 7}, "")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.HasSuffix(err.Error(), "disk is full") || len(err.Error()) > 700 {
		t.Error(err)
	}
	if err := shell("exit 1").Before(t.Context(), bridge.Job{}, ""); !strings.HasSuffix(err.Error(), "it said nothing") {
		t.Error(err)
	}
}

func TestAHookThatHangsEndsWithItsTime(t *testing.T) {
	h := shell("sleep 1000 & sleep 1000")
	h.timeout = 50 * time.Millisecond
	if err := h.Before(t.Context(), bridge.Job{}, ""); err == nil {
		t.Error("it went well")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := shell("true").Before(ctx, bridge.Job{}, ""); err == nil {
		t.Error("it ran after the round's end")
	}
}
