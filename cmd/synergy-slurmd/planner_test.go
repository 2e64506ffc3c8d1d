package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

func TestAPluginThatFailsIsToldOnceAndCountedEachTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(path, []byte("#!/bin/cat\nno plugin\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log, err := newLog(&out, logJSON, "info")
	if err != nil {
		t.Fatal(err)
	}
	numbers := newMetrics(func() float64 { return 0 }, "test")
	a := newPlannerPlugin(flags{planner: path, round: 8 * time.Second}, log, numbers)
	defer a.close()
	for round := range 3 {
		if _, err := a.Plan(context.Background(), round, policy.Cluster{}, policy.LAS(), policy.Tune()); err == nil {
			t.Error("a text file has made a plan")
		}
		if round == 0 {
			time.Sleep(1100 * time.Millisecond) // its first pause
		}
	}
	if n := strings.Count(out.String(), "plans in its place"); n != 1 {
		t.Errorf("told %d times: %s", n, out.String())
	}
	a.note(3, nil)
	a.note(4, nil)
	if n := strings.Count(out.String(), "plans again"); n != 1 {
		t.Errorf("told %d times that it plans again: %s", n, out.String())
	}
	for outcome, want := range map[string]float64{"absent": 2, "resting": 1, "done": 2} {
		if got := testutil.ToFloat64(numbers.plans.WithLabelValues(outcome)); got != want {
			t.Errorf("%s: counted %v, want %v", outcome, got, want)
		}
	}
}
