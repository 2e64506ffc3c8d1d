package artifact_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/artifact"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

// digests stand for what the published program did with workloads that can be drawn here: SHA-256 of a line `job
// first-run finish` for each job that it finished, ascending, times in seconds. So its outcomes are held where its
// files are not.
var digests = map[string]string{
	"ae_single_l9_FIFO_tune": "e50d2018c604893189ebc644b34227a2326075b55e1b9cfb2c8a7d6b0af0161f",
	"multismall_FIFO_fair":   "c0111184694ef29dc9ec79825efa858168c1257556b166e305b34efa58cdb2c2",
	"multismall_FIFO_greedy": "293028e476798e7064e4ceae4fe11f5f6d4f6af733a0e0343bd9783f33f1f59a",
	"multismall_FIFO_tune":   "a5b15315029d6cc6f9e54aa783037630c02f07373859cbde12a9fe9a961ee154",
	"multismall_FTF_fair":    "7d267f02996f6094f803adc657d668ddf16b322a3459f271c4c53db1525e7b96",
	"multismall_FTF_greedy":  "50ce38c11ec48aa1c899da501ec9d9adfb493cb52dd306f28394a82a14516d80",
	"multismall_FTF_tune":    "9941d1d84fe601edbd5d7ed7246f195793e0295f3308d37fcd1e15695e68460e",
	"multismall_LAS_fair":    "75a8f96c1e9f9e6f5efe4ddf4fc90196e0b34d57554ec6d1262c69e644df1068",
	"multismall_LAS_greedy":  "ec5fe310293417b33f15f6fb8a966b1cc673aea7846597734d329fad8914d697",
	"multismall_LAS_tune":    "bb757a1016131dbb44555981e8f53bd1a8429d8972a286734df8ab3529395c91",
	"multismall_SRTF_fair":   "0c9ad2796292b2fadd66919681cba6fcdb43aea5c28c01d8b47ca071a4e89a71",
	"multismall_SRTF_greedy": "b37421536449e73f91cbb0bbb42249818aca0aa9fa6dbac884ae3be014b60269",
	"multismall_SRTF_tune":   "16b0648c8ea90c35f38d3dad184ef65c44719fbd9dcdea0c0bb8226f6695e0b6",
}

// digest is that of the jobs that finished, by ID their first run and finish.
func digest(finished map[int][2]float64) string {
	ids := make([]int, 0, len(finished))
	for id := range finished {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var text strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&text, "%d %.17g %.17g\n", id, finished[id][0], finished[id][1])
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])
}

func TestTheDigestsAreThoseOfTheRecordedRuns(t *testing.T) {
	for _, r := range recordedRuns(t) {
		want, drawn := digests[r.name]
		if !drawn && strings.HasPrefix(r.name, "multismall") {
			t.Errorf("%s: no digest", r.name)
		}
		if got := digest(finishedOf(t, r.name)); drawn && got != want {
			t.Errorf("%s: %s, want %s", r.name, got, want)
		}
	}
}

// finishedOf reads what the published program recorded.
func finishedOf(t *testing.T, name string) map[int][2]float64 {
	t.Helper()
	finished := map[int][2]float64{}
	for _, line := range records(t, "jobs/"+name+".csv")[1:] {
		finished[int(number(t, line[0]))] = [2]float64{number(t, line[5]), number(t, line[6])}
	}
	return finished
}

func TestDrawnWorkloadsRunAsInThePublishedProgram(t *testing.T) {
	for name, want := range digests {
		t.Run(name, func(t *testing.T) {
			run := simulate(t, drawnRun(t, name))
			finished := map[int][2]float64{}
			for _, j := range run.Jobs {
				if j.Done() {
					finished[j.ID] = [2]float64{j.FirstRun, j.Finish}
				}
			}
			if got := digest(finished); got != want {
				t.Errorf("digest of %d jobs %s, want %s", len(finished), got, want)
			}
		})
	}
}

// drawnRun is a recorded run by its name, on a workload that is drawn.
func drawnRun(t *testing.T, name string) artifact.Config {
	t.Helper()
	parts := strings.Split(name, "_")
	c := artifact.Config{Placement: artifact.FirstFit, Mode: artifact.Replay}
	c.Policy, c.Allocator = artifact.Policy(strings.ToLower(parts[len(parts)-2])),
		artifact.Allocator(parts[len(parts)-1])
	if c.Allocator == "fair" {
		c.Allocator = artifact.Proportional
	}
	if parts[0] == "ae" {
		c.Cluster, c.Window = servers(16, 8, 24), outcome.Window{First: 4000, End: 5000}
		c.Jobs = all(draw(t, 9, workload.OneGPU, 42, 12000))
		return c
	}
	c.Cluster, c.Window = servers(4, 8, 24), outcome.Window{First: 0, End: 160}
	c.Jobs = all(draw(t, 3.5, workload.PaperMix, 42, 160))
	return c
}

// all are the jobs of a source as a list.
func all(source trace.Source) trace.Source {
	var jobs []trace.Job
	for {
		j, more := source.Next()
		if !more {
			return trace.Of(jobs)
		}
		jobs = append(jobs, j)
	}
}
