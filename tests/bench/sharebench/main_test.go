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
		Killed    float64 `json:"killed_at"`
		Mean      float64 `json:"mean_ms"`
		P95       float64 `json:"p95_ms"`
		Late      float64 `json:"late"`
		Rate      float64 `json:"it_per_s"`
		Unmanaged *int    `json:"unmanaged"`
		MPS       bool    `json:"mps"`
		Error     string  `json:"error"`
	} `json:"jobs"`
	Verdicts []struct {
		What   string   `json:"what"`
		Value  *float64 `json:"value"`
		Limit  float64  `json:"limit"`
		Within bool     `json:"within"`
	} `json:"verdicts"`
}

// bounds is how many bounds have a verdict.
const bounds = 8

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
	if len(results) != 4+3*9+2+1 {
		t.Errorf("%d trials", len(results))
	}
	checkVerdicts(t, said, results)
	slow, fine := results["turns gap 20"].Jobs[0], results["lookahead gap 20"].Jobs[0]
	if !(slow.P95 > slow.Mean && slow.Late > 0.5 && fine.Late < 0.2) {
		t.Errorf("beyond 1.6 of alone are %.2f by turns and %.2f with look-ahead; p95 %.1f, mean %.1f", slow.Late,
			fine.Late, slow.P95, slow.Mean)
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
	if len(results) != 2+6+2+1 {
		t.Errorf("%d trials:\n%s", len(results), said)
	}
	checkVerdicts(t, said, results)
	for name, r := range results {
		managed := strings.HasPrefix(name, "turns") || strings.HasPrefix(name, "lookahead")
		for _, j := range r.Jobs {
			switch {
			case j.Killed > 0 && strings.Contains(name, "killed"):
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

// checkVerdicts looks whether each bound has its verdict, in the file and in a line.
func checkVerdicts(t *testing.T, said string, results map[string]result) {
	t.Helper()
	all := results["verdicts"].Verdicts
	if len(all) != bounds {
		t.Errorf("%d verdicts, want %d", len(all), bounds)
	}
	for _, v := range all {
		if v.Value == nil {
			t.Errorf("%s was not measured", v.What)
			continue
		}
		word := map[bool]string{true: "within", false: "misses"}[v.Within]
		if !strings.Contains(said, fmt.Sprintf("%s %.2f", v.What, *v.Value)) || !strings.Contains(said, ": "+word+" ") {
			t.Errorf("no line says that %s is %.2f and %s %g:\n%s", v.What, *v.Value, word, v.Limit, said)
		}
	}
}

// TestAVerdictMissesItsBoundAndIsNoFailure gives figures that are off, and some that are of before there were verdicts.
func TestAVerdictMissesItsBoundAndIsNoFailure(t *testing.T) {
	const job = `{"kind": %q, "prio": %d, "gap_ms": 20, "it_per_s": %g, "gpu_mean_ms": 20%s}`
	more := func(mean float64) string {
		return fmt.Sprintf(`, "mean_ms": %g, "p95_ms": %g, "late": 0.06`, mean, 2*mean)
	}
	for name, c := range map[string]struct {
		more [3]string
		want []string
	}{
		"missed": {[3]string{more(20), more(30), more(50)}, []string{
			"important speed of alone 0.50: misses >= 0.95 (turns gap 20)",
			"important mean of alone 1.50: misses 1.10 (turns gap 20)",
			"important p95 of the mean alone 3.00: misses 1.30 (turns gap 20)",
			"cost for the other beside what the important uses 0.29: misses 0.02 (turns gap 20)",
			"important steps beyond 1.6 of alone 0.06: misses 0.05 (turns gap 20)"}},
		"old": {[3]string{}, []string{"important speed of alone 0.50: misses",
			"important mean of alone not measured: wanted: 1.10\n"}},
	} {
		out := t.TempDir()
		file := filepath.Join(out, "old.json")
		hi, lo := fmt.Sprintf(job, "resnet50", 2, 30., c.more[0]), fmt.Sprintf(job, "vit", 1, 20., c.more[2])
		pair := fmt.Sprintf(job, "resnet50", 2, 15., c.more[1]) + "," + fmt.Sprintf(job, "vit", 1, 10., c.more[2])
		text := fmt.Sprintf(`[{"trial": "hi", "jobs": [%s]}, {"trial": "lo", "jobs": [%s]}, {"trial": "turns gap 20", `+
			`"jobs": [%s]}]`, hi, lo, pair)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		command := exec.Command("python3", "../share_gpu.py", "--out", out, "--report", file)
		said, err := command.CombinedOutput()
		for _, want := range c.want {
			if err != nil || !strings.Contains(string(said), want) {
				t.Errorf("%s: %v, want %q in\n%s", name, err, want, said)
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
