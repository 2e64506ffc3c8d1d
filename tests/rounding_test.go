package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheSameFiguresComeOutOnEveryMachine: the same round, and the same simulation, shall give the same bytes wherever
// it is run again. Go may compute x*y + z in one step, rounded once, where a processor has that step, as arm64 does and
// amd64 does not; a product that is converted, float64(x*y), is rounded by itself. So no fused step may be in what
// decides and counts. What asks for one by math.FMA gets it everywhere, and a drawing may differ in the last digit.
func TestTheSameFiguresComeOutOnEveryMachine(t *testing.T) {
	exempt := regexp.MustCompile(
		`^sim/workload elementary\.go:|^sim/report/figure |^sim/report (axis|bars|gantt|models)\.go:`)
	seen := 0
	for _, place := range fusedSteps(t) {
		seen++
		if !exempt.MatchString(place) {
			t.Errorf("%s: a product is rounded together with the sum that it goes into: write float64(x*y)", place)
		}
	}
	if seen == 0 {
		t.Error("no fused step at all, though math.FMA is used: they are not recognised any more")
	}
}

var (
	function = regexp.MustCompile(`^TEXT ` + regexp.QuoteMeta(module) + `([a-z0-9/]+)\.`)
	fused    = regexp.MustCompile(`^\s+(\S+:\d+).*\sFN?M(ADD|SUB)[DS]\s`)
)

// fusedSteps lists, by package and line, of what the compiler makes fused steps on arm64.
func fusedSteps(t *testing.T) []string {
	t.Helper()
	var places []string
	pkg := ""
	for line := range strings.Lines(disassembly(t)) {
		if strings.HasPrefix(line, "TEXT ") {
			pkg = ""
		}
		if in := function.FindStringSubmatch(line); in != nil {
			pkg = in[1]
		}
		if at := fused.FindStringSubmatch(line); at != nil && pkg != "" {
			places = append(places, pkg+" "+at[1])
		}
	}
	return places
}

// disassembly is the code of the tool for people, which has planner, rounds and simulators, as it is built for arm64.
func disassembly(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "synergy")
	build := exec.Command("go", "build", "-o", binary, "../cmd/synergy")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build for arm64: %v: %s", err, said)
	}
	text, err := exec.Command("go", "tool", "objdump", "-s", "^"+module, binary).Output()
	if err != nil {
		t.Fatalf("read the code: %v", err)
	}
	return string(text)
}
