package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// result is an entry of share.json.
type result struct {
	Trial string `json:"trial"`
	Jobs  []struct {
		Kind      string  `json:"kind"`
		Rate      float64 `json:"it_per_s"`
		Unmanaged *int    `json:"unmanaged"`
		MPS       bool    `json:"mps"`
		Error     string  `json:"error"`
	} `json:"jobs"`
}

// bench runs the script and returns what it says and measures.
func bench(t *testing.T, options ...string) (said string, results map[string]result) {
	t.Helper()
	out := t.TempDir()
	mps, err := filepath.Abs("../../../share/mps/testdata") // a program that behaves as NVIDIA's
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("../share_gpu.sh", append([]string{out}, options...)...)
	command.Env = append(os.Environ(), "PATH="+mps+":"+os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1")
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command.Args, err, text)
	}
	plot, err := os.ReadFile(filepath.Join(out, "frontier.svg"))
	if err != nil || !strings.HasSuffix(string(plot), "</svg>\n") {
		t.Errorf("no plot: %v", err)
	}
	file, err := os.ReadFile(filepath.Join(out, "share.json"))
	var all []result
	if err == nil {
		err = json.Unmarshal(file, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	results = map[string]result{}
	for _, r := range all {
		results[r.Trial] = r
	}
	return string(text), results
}

// TestTheFrontierOfTheEmulatedGPU: look-ahead keeps more for the important job than anything else, and MPS most for
// both.
func TestTheFrontierOfTheEmulatedGPU(t *testing.T) {
	said, results := bench(t, "--emulated", "--seconds", "30")
	if len(results) != 4+3*9 {
		t.Errorf("%d trials", len(results))
	}
	alone := results["hi alone gap 20"].Jobs[0].Rate
	if alone < 20 || alone > 26 {
		t.Errorf("alone it does %v steps a second, want about 23", alone)
	}
	part := func(how string) float64 { return results[how+" gap 20"].Jobs[0].Rate / alone }
	if !(part("lookahead") > part("mps prio 50 % of threads") && part("mps prio 50 % of threads") > part("turns")) {
		t.Errorf("the important job keeps %.2f by look-ahead, %.2f by MPS, %.2f by turns", part("lookahead"),
			part("mps prio 50 % of threads"), part("turns"))
	}
	for _, want := range []string{"emulated GPU:", "important >= 0.95 with the other >= 0.8 of what it leaves idle: "} {
		if !strings.Contains(said, want) {
			t.Errorf("it says nothing of %q:\n%s", want, said)
		}
	}
}

// TestAllButTheGPUWorksWithoutOne: the processes, their barrier, the node's broker and the MPS daemon are those that a
// GPU is measured with.
func TestAllButTheGPUWorksWithoutOne(t *testing.T) {
	said, results := bench(t, "--rehearse", "--seconds", "0.7", "--gaps", "20", "--threads", "50")
	if len(results) != 2+6 {
		t.Errorf("%d trials:\n%s", len(results), said)
	}
	for name, r := range results {
		managed := strings.HasPrefix(name, "turns") || strings.HasPrefix(name, "lookahead")
		for _, j := range r.Jobs {
			switch {
			case j.Error != "" || j.Rate <= 0 && j.Kind == "resnet50":
				t.Errorf("%s: %+v", name, j)
			case j.MPS != strings.HasPrefix(name, "mps"):
				t.Errorf("%s: in MPS %v", name, j.MPS)
			case managed && (j.Unmanaged == nil || *j.Unmanaged > 0):
				t.Errorf("%s: %s did not take turns", name, j.Kind)
			}
		}
	}
}

func TestAPlanThatCannotBeEmulatedIsRefused(t *testing.T) {
	for plan, want := range map[string]string{
		`[`: "unexpected end", `[{"trial":"x","mode":"magic"}]`: `mode "magic"`,
		`[{"trial":"x","mode":"mps","percent":10}]`:  "10 percent",
		`[{"trial":"x","mode":"alone","seconds":1}]`: "0 clients",
	} {
		file := filepath.Join(t.TempDir(), "plan.json")
		if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), []string{"emulated", "-plan", file}, os.Stdout); err == nil ||
			!strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q", plan, err, want)
		}
	}
}
