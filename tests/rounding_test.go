package tests

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheSameFiguresComeOutOnEveryMachine: the same round, and the same simulation, shall give the same bytes wherever
// it is run again. Go may compute x*y + z in one step, rounded once, where a processor has that step, as arm64 does and
// amd64 does not; a product that is converted, float64(x*y), is rounded by itself. So no fused step may be in what
// decides and counts. What asks for one by math.FMA gets it everywhere, and a drawing may differ in the last digit.
func TestTheSameFiguresComeOutOnEveryMachine(t *testing.T) {
	exempt := regexp.MustCompile(`^(sim/workload/elementary\.go:|sim/report/figure/|gonum\.org/v1/plot@|` +
		`sim/report/(axis|bars|gantt|models)\.go:)`)
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

var fused = regexp.MustCompile(`\((\S+:\d+)\)\tFN?M(?:ADD|SUB)[DS]\t`)

// fusedSteps lists, by file and line, of what the compiler makes fused steps on arm64.
func fusedSteps(t *testing.T) []string {
	t.Helper()
	build := forARM(append([]string{"build", "-trimpath", "-gcflags=-S"}, calculating(t)...)...)
	assembly, err := build.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := build.Start(); err != nil {
		t.Fatal(err)
	}
	var places []string
	lines := bufio.NewScanner(assembly)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if at := fused.FindStringSubmatch(lines.Text()); at != nil {
			places = append(places, strings.TrimPrefix(at[1], module))
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	if err := build.Wait(); err != nil {
		t.Fatalf("build for arm64: %v", err)
	}
	return places
}

// calculating are planner, rounds, simulators and all other packages but those that talk to other programs over a
// network, and the tests' own: these pass figures on, and most of the compiler's time would be theirs.
func calculating(t *testing.T) []string {
	t.Helper()
	list, err := forARM("list", "-f", `{{if .GoFiles}}{{.ImportPath}} {{join .Deps " "}}{{end}}`, "../...").Output()
	if err != nil {
		t.Fatalf("list packages: %v", err)
	}
	var packages []string
	for line := range strings.Lines(string(list)) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], module+"tests/") {
			continue
		}
		if deps := words[1:]; !slices.Contains(deps, "net/http") && !slices.Contains(deps, "google.golang.org/grpc") {
			packages = append(packages, words[0])
		}
	}
	for _, needed := range []string{"policy", "policy/bound", "bridge", "sim", "sim/artifact", "sim/report"} {
		if !slices.Contains(packages, module+needed) {
			t.Errorf("%s is left out", needed)
		}
	}
	return packages
}

// forARM is the go command for another machine.
func forARM(args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
	return cmd
}
