package artifact_test

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/artifact"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// parity is a folder of recorded runs of the published program.
const parity = "../../../shared/parity"

// records are the lines of a file of the folder, or of its compressed form.
func records(t testing.TB, name string) [][]string {
	t.Helper()
	file, err := os.Open(filepath.Join(parity, name))
	if os.IsNotExist(err) {
		file, err = os.Open(filepath.Join(parity, name+".gz"))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var text io.Reader = bufio.NewReader(file)
	if strings.HasSuffix(file.Name(), ".gz") {
		if text, err = gzip.NewReader(text); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := csv.NewReader(text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func number(t testing.TB, text string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// jobs reads a trace.
func jobs(t testing.TB, name string) (all []trace.Job) {
	t.Helper()
	for _, line := range records(t, filepath.Join("traces", name+".csv")) {
		all = append(all, trace.Job{
			ID: int(number(t, line[0])), Model: line[1], Arrival: number(t, line[2]),
			Iterations: int64(number(t, line[3])), GPUs: int(number(t, line[4])),
		})
	}
	return all
}

// recorded is one run of the published program.
type recorded struct {
	name, trace string
	artifact.Config
	rounds             int
	gpus, cpus, memory float64 // percent that were held, on average over the rounds
}

func recordedRuns(t testing.TB) (all []recorded) {
	t.Helper()
	if _, err := os.Stat(parity); err != nil {
		t.Skip("no recorded runs here; the oracle is the same without them")
	}
	for _, line := range records(t, "summary.csv")[1:] {
		r := recorded{name: strings.TrimSuffix(strings.TrimSuffix(line[0], ".gz"), ".csv"), trace: line[1]}
		r.Config = artifact.Config{
			Cluster: servers(4, 8, 24), Policy: artifact.Policy(strings.ToLower(line[2])),
			Allocator: artifact.Allocator(line[3]),
			Placement: artifact.FirstFit, Mode: artifact.Replay,
		}
		if r.Allocator == "fair" {
			r.Allocator = artifact.Proportional
		}
		switch workload, _, _ := strings.Cut(r.name, "_"); workload {
		case "static32":
			r.Mode, r.Window = artifact.Static, outcome.Window{First: 0, End: 100}
		case "multismall":
			r.Window = outcome.Window{First: 0, End: 160}
		case "ae":
			r.Cluster, r.Window = servers(16, 8, 24), outcome.Window{First: 4000, End: 5000}
		}
		r.rounds = int(number(t, line[4]))
		r.gpus, r.cpus, r.memory = number(t, line[12]), number(t, line[13]), number(t, line[14])
		all = append(all, r)
	}
	return all
}

// servers is a cluster of servers with 500 GB, 500 MB/s and 40 Gb/s each.
func servers(count, gpus, cpus int) cluster.Cluster {
	return cluster.Cluster{Groups: []cluster.Group{{Servers: count, GPUs: gpus, CPUs: cpus, Memory: 500, Storage: 500,
		Network: 40}}}
}

func simulate(t testing.TB, c artifact.Config) outcome.Run {
	t.Helper()
	run, err := artifact.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestEveryJobOfEveryRecordedRunBeginsAndEndsWhenThePublishedProgramSaysSo(t *testing.T) {
	for _, r := range recordedRuns(t) {
		t.Run(r.name, func(t *testing.T) {
			r.Jobs = trace.Of(jobs(t, r.trace))
			run := simulate(t, r.Config)
			want := map[int][2]float64{}
			for _, line := range records(t, filepath.Join("jobs", r.name+".csv"))[1:] {
				want[int(number(t, line[0]))] = [2]float64{number(t, line[5]), number(t, line[6])}
			}
			for _, j := range run.Jobs {
				got, expected := [2]float64{j.FirstRun, j.Finish}, want[j.ID]
				if j.Done() && got != expected {
					t.Errorf("job %d ran from %g to %g, want %g to %g", j.ID, got[0], got[1], expected[0], expected[1])
				}
				if j.Done() {
					delete(want, j.ID)
				}
			}
			if len(want) > 0 {
				t.Errorf("%d jobs have not finished: %v", len(want), want)
			}
			if run.Held != r.rounds {
				t.Errorf("%d rounds, want %d", run.Held, r.rounds)
			}
			checkHeld(t, r, run)
		})
	}
}

func checkHeld(t *testing.T, r recorded, run outcome.Run) {
	t.Helper()
	seconds := 300 * float64(run.Held)
	for _, c := range []struct {
		what                string
		busy, whole, wanted float64
	}{
		{"GPUs", run.BusyGPUs, float64(run.GPUs), r.gpus},
		{"cores", run.BusyCPUs, float64(run.CPUs), r.cpus},
		{"memory", run.BusyMemory, run.Memory, r.memory},
	} {
		if got := strconv.FormatFloat(100*c.busy/(seconds*c.whole), 'f', 4, 64); got != strconv.FormatFloat(c.wanted,
			'f', 4, 64) {
			t.Errorf("%s %% of the %s were held, want %.4f", got, c.what, c.wanted)
		}
	}
}
