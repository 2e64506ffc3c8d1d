package workload_test

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

func paper(t testing.TB, ratio int) []workload.Class {
	t.Helper()
	classes, err := workload.Paper(ratio)
	if err != nil {
		t.Fatal(err)
	}
	return classes
}

func split(t testing.TB, text string) workload.Split {
	t.Helper()
	split, err := workload.ParseSplit(text)
	if err != nil {
		t.Fatal(err)
	}
	return split
}

// single is the workload of the check number in the artifact's readme, several that of its synthetic jobs.
func single(t testing.TB) workload.Config {
	return workload.Config{Classes: paper(t, 3), Split: split(t, "20,70,10"), Load: 9, Seed: 42}
}

func several(t testing.TB) workload.Config {
	return workload.Config{Classes: paper(t, 3), Split: split(t, "20,70,10"), Load: 3.5, Seed: 42,
		GPUs: workload.PaperMix}
}

func draw(t testing.TB, config workload.Config, count int) []trace.Job {
	t.Helper()
	source, err := workload.New(config)
	if err != nil {
		t.Fatal(err)
	}
	var jobs []trace.Job
	for len(jobs) < count {
		job, more := source.Next()
		if !more {
			break
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// lines are the jobs as the artifact records them.
func lines(jobs []trace.Job) string {
	var text strings.Builder
	for _, j := range jobs {
		arrival := strconv.FormatFloat(j.Arrival, 'f', -1, 64)
		fmt.Fprintf(&text, "%d,%s,%s,%d,%d\n", j.ID, j.Model, arrival, j.Iterations, j.GPUs)
	}
	return text.String()
}

func sum(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestThePublishedWorkloadIsDrawnToTheLastIteration(t *testing.T) {
	const start = "0,alexnet,409,3447,1\n1,gnmt,951,34181,1\n2,transformer,1053,29317,1\n" +
		"3,m5,1505,122162,1\n4,lstm,1542,191185,1\n5,gnmt,1555,90573,1\n"
	text := lines(draw(t, single(t), 12000))
	if !strings.HasPrefix(text, start) {
		t.Errorf("starts\n%swant\n%s", text[:len(start)], start)
	}
	if got, want := sum(text), "6189f925713aef865dc0a6bebb228490"; got != want {
		t.Errorf("MD5 of the first 12,000 jobs: %s, want %s", got, want)
	}
}

func TestTheArtifactsSyntheticWorkloadIsDrawnToTheLastIteration(t *testing.T) {
	const start = "0,alexnet,1050,8176,1\n1,gnmt,2212,610813,1\n2,transformer,2314,22651,1\n3,m5,2874,8265,4\n4,lstm,4107,295105,8\n"
	text := lines(draw(t, several(t), 160))
	if !strings.HasPrefix(text, start) {
		t.Errorf("starts\n%swant\n%s", text[:len(start)], start)
	}
	if got, want := sum(text), "7eee201b9a4c725048af4739a00f9522"; got != want {
		t.Errorf("MD5 of the first 160 jobs: %s, want %s", got, want)
	}
}

// The trace has no m5, its first line has 0.0 for 0, and three of its jobs were shortened by hand.
func TestThePublishedStaticTraceIsDrawnToTheLastIteration(t *testing.T) {
	config := workload.Config{Classes: slices.Delete(paper(t, 3), 8, 9), Split: split(t, "60,30,10"), Jobs: 100,
		Seed:      42,
		Durations: workload.SmallDurations, Arrivals: workload.Static}
	jobs := draw(t, config, 1000)
	jobs[75].Iterations, jobs[85].Iterations, jobs[91].Iterations = 10000, 10837, 16544
	text := strings.Replace(lines(jobs), "0,alexnet,0,", "0,alexnet,0.0,", 1)
	if got, want := sum(text), "55544aea952d64151047ba3301309163"; got != want {
		t.Errorf("MD5: %s, want %s, of\n%s", got, want, text)
	}
}
