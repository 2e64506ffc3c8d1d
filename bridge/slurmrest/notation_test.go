package slurmrest

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

func num(n int) wire.Number { return wire.Number{Set: true, Number: int64(n)} }

// waiting is a job as slurmctld shows it that asks for so many nodes and tasks, a core each.
func waiting(nodes, most, tasks int, change func(*wire.Job)) *wire.Job {
	j := &wire.Job{
		State:       []string{"PENDING"},
		Batch:       true,
		ThreadSpec:  ordinarySpec,
		Nodes:       num(nodes),
		Tasks:       num(tasks),
		CPUsPerTask: num(1),
		CPUs:        num(tasks),
		CPUsPerNode: num(1),
		Requested:   fmt.Sprintf("cpu=%d,mem=1000M,node=%d,billing=1,gres/gpu=1", tasks, nodes),
	}
	if most > 0 {
		j.MaxNodes = num(most)
	}
	change(j)
	return j
}

// As Slurm 24.11 and 26.05 print what was submitted with the options in front.
func TestAJobHasTheGPUsThatSlurmWouldGiveIt(t *testing.T) {
	for options, c := range map[string]struct {
		job   *wire.Job
		gpus  int
		nodes int
		odd   string
	}{
		"-N4 -n4 --gpus-per-task=1": {waiting(4, 4, 4, func(j *wire.Job) { j.PerTask = "gres/gpu=1" }), 4, 4, ""},
		"-n4 --gpus-per-task=1":     {waiting(1, 0, 4, func(j *wire.Job) { j.PerTask = "gres/gpu=1" }), 4, 1, ""},
		"-n4 --gpus-per-task=1, 26.05": {waiting(1, 4, 4, func(j *wire.Job) { j.PerTask = "gres/gpu=1" }), 4, 1,
			""},
		"-n2 --gpus-per-node=2 --gpus-per-task=1": {waiting(1, 0, 2, func(j *wire.Job) {
			j.PerNode, j.PerTask, j.TasksPerNode = "gres/gpu:2", "gres/gpu=1", num(2)
		}), 2, 1, ""},
		"-n2 --gres=gpu:1 --gpus-per-task=1": {waiting(2, 0, 2, func(j *wire.Job) {
			j.PerNode, j.PerTask, j.TasksPerNode = "gres/gpu:1", "gres/gpu=1", num(1)
			j.Requested = "cpu=2,node=1"
		}), 2, 2, ""},
		"--gpus=4 --gpus-per-node=1 -N4": {waiting(4, 4, 4, func(j *wire.Job) {
			j.PerJob, j.PerNode = "gres/gpu:4", "gres/gpu:1"
		}), 4, 4, ""},
		"--gpus=4 --gpus-per-task=1": {waiting(1, 0, 4, func(j *wire.Job) {
			j.PerJob, j.PerTask = "gres/gpu:4", "gres/gpu=1"
		}), 4, 1, ""},
		"--gres=gpu:0 --gpus=1": {waiting(1, 0, 1, func(j *wire.Job) {
			j.PerJob, j.PerNode = "gres/gpu:1", "gres/gpu:0"
		}), 1, 1, ""},
		"--gres=gpu:1 -n 30": {waiting(2, 30, 30, func(j *wire.Job) {
			j.PerNode, j.Requested = "gres/gpu:1", "cpu=30,node=1"
		}), 2, 2, ""},
		"-N2 --ntasks-per-node=2 --gpus-per-task=1": {waiting(2, 2, 4, func(j *wire.Job) {
			j.PerTask, j.TasksPerNode = "gres/gpu=1", num(2)
		}), 4, 2, ""},
		// Slurm gave the first of these three GPUs on one node and one on the other, the second eight and four
		"--gpus=4 -N2": {waiting(2, 2, 2, func(j *wire.Job) { j.PerJob = "gres/gpu:4" }), 4, 2,
			"asks for 4 GPUs on 2 nodes, and not for how many on each"},
		"--gpus=12": {waiting(2, 0, 1, func(j *wire.Job) {
			j.PerJob, j.Requested = "gres/gpu:12", "cpu=1,node=1"
		}), 12, 2, "asks for 12 GPUs on 2 nodes, and not for how many on each"},
		"-N2 -n3 --gpus-per-task=1": {waiting(2, 2, 3, func(j *wire.Job) { j.PerTask = "gres/gpu=1" }), 3, 2,
			"asks for 3 GPUs on 2 nodes, and not for how many on each"},
		"--gres=gpu:1 -N2-4": {waiting(4, 4, 2, func(j *wire.Job) {
			j.PerNode, j.Requested = "gres/gpu:1", "cpu=1,mem=1000M,node=2,billing=1,gres/gpu=2"
		}), 4, 4, "asks for 2 to 4 nodes"},
		"--gres=gpu:1 -N2-4 -n4": {waiting(4, 4, 4, func(j *wire.Job) {
			j.PerNode, j.Requested = "gres/gpu:1", "cpu=4,node=2"
		}), 4, 4, "asks for 2 to 4 nodes"},
		"--gres=gpu:a:1 --gpus=gpu:b:1": {waiting(1, 0, 1, func(j *wire.Job) {
			j.PerJob, j.PerNode = "gres/gpu:a:1", "gres/gpu:b:1"
		}), 1, 1, "asks for GPUs of type a and of type b"},
		"--gres=gpu:2 --gpus=1": {waiting(1, 0, 1, func(j *wire.Job) {
			j.PerJob, j.PerNode = "gres/gpu:1", "gres/gpu:2"
		}), 1, 1, "asks for GPUs in two ways, which come to 1 and to 2"},
	} {
		read := readJob(c.job)
		if read.Request.GPUs != c.gpus || read.Request.Nodes != c.nodes || read.Odd != c.odd {
			t.Errorf("%s: %d GPUs on %d nodes, odd %q; want %d on %d, %q", options, read.Request.GPUs,
				read.Request.Nodes, read.Odd, c.gpus, c.nodes, c.odd)
		}
	}
}

// Whoever says the same in one way, in two or in three asks for the same.
func TestGPUsThatAreSaidSeveralTimesAreCountedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, perTask := rapid.IntRange(1, 4).Draw(t, "nodes"), rapid.IntRange(1, 3).Draw(t, "GPUs of a task")
		each := rapid.IntRange(1, 3).Draw(t, "tasks of a node")
		gpuType := rapid.SampledFrom([]string{"", "a100:"}).Draw(t, "type")
		wrong := rapid.IntRange(0, 1).Draw(t, "too many")
		gpus, ways := nodes*each*perTask, rapid.IntRange(1, 7).Draw(t, "ways")
		said := 0
		job := waiting(nodes, nodes, nodes*each, func(j *wire.Job) {
			j.TasksPerNode = num(each)
			for bit, text := range map[int]*string{1: &j.PerJob, 2: &j.PerNode, 4: &j.PerTask} {
				if ways&bit != 0 {
					n := map[int]int{1: gpus, 2: each * perTask, 4: perTask}[bit]
					*text = fmt.Sprintf("gres/gpu:%s%d", gpuType, n)
					said++
				}
			}
			if said > 1 && wrong > 0 && ways&1 != 0 {
				j.PerJob = fmt.Sprintf("gres/gpu:%s%d", gpuType, gpus+1)
			}
		})
		read := readJob(job)
		alone := ways == 1 && nodes > 1
		contradicts := said > 1 && wrong > 0 && ways&1 != 0
		switch {
		case alone || contradicts:
			if read.Odd == "" {
				t.Fatalf("%+v is not odd", job)
			}
		case read.Odd != "" || read.Request.GPUs != gpus || read.Request.GPUType != strings.TrimSuffix(gpuType, ":"):
			t.Fatalf("%d GPUs of type %q, odd %q; want %d", read.Request.GPUs, read.Request.GPUType, read.Odd, gpus)
		}
	})
}

func TestFeaturesAreReadAsSlurmMeansThem(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", "a&b": "a b", "a|b": "a|b", "a|b|c": "a|b|c",
		"(a|b)&c": "a|b c", "c&(a|b)": "c a|b", "(a)": "a",
		"[a|b]": "a|b", "[a]": "a", "(a|b)&(c|d)": "a|b c|d",
	} {
		read := readJob(waiting(1, 0, 1, func(j *wire.Job) { j.Features = text }))
		if got := strings.Join(read.Features, " "); got != want || read.Odd != "" {
			t.Errorf("%q: %q, odd %q; want %q", text, got, read.Odd, want)
		}
	}
	for _, text := range []string{"[a|b]", "a*2", "[a*1&b*1]", "a&b|c", "(a&b)|c", "a|(b&c)",
		"!a", "a||b", "(a|b", "a|b)"} {
		if read := readJob(waiting(2, 0, 2, func(j *wire.Job) { j.Features = text })); read.Odd == "" {
			t.Errorf("%q is read as %q", text, read.Features)
		}
	}
}

// As slurmctld prints a node with two types, empty and in use.
func TestGPUsOfSeveralTypesAreCountedByType(t *testing.T) {
	const has = "gpu:a100:4(S:0),gpu:a100_3g.20gb:4"
	for used, want := range map[string]string{
		"gpu:a100:0(IDX:N/A),gpu:a100_3g.20gb:0(IDX:N/A)":         "[{a100 4 0} {a100_3g.20gb 4 0}]",
		"gpu:a100:4(IDX:0-3),gpu:a100_3g.20gb:1(IDX:4)":           "[{a100 4 4} {a100_3g.20gb 4 1}]",
		"gpu:a100:1(IDX:0),gpu:a100_3g.20gb:0(IDX:N/A),shard:3":   "[{a100 4 1} {a100_3g.20gb 4 0}]",
		"gpu:a100:1(IDX:0),shard:2(0/4,2/4,0/4,0/4)":              "[{a100 4 2} {a100_3g.20gb 4 1}]",
		"gpu:a100:4(IDX:0-3),gpu:a100_3g.20gb:4(IDX:4-7),gpu:x:1": "[{a100 4 4} {a100_3g.20gb 4 4}]",
	} {
		read := readNode(&wire.Node{State: []string{"IDLE"}, GRES: has, GRESUsed: used})
		if got := fmt.Sprint(read.Types); got != want || read.Total.GPUs != 8 || read.GPUType != "" {
			t.Errorf("%s: %s of %d, want %s", used, got, read.Total.GPUs, want)
		}
	}
	for gres, want := range map[string]string{
		"gpu:8": "[]", "gpu:a:4,gpu:a:4": "[]", "gpu:g0:1,gpu:g1:1,shard:g0:4,shard:g1:4": "[]", "": "[]",
		"gpu:tesla:2,gpu:kepler:2": "[{tesla 2 0} {kepler 2 0}]", "gpu:tesla:2,gpu:2": "[{tesla 2 0} { 2 0}]",
	} {
		if got := fmt.Sprint(readNode(&wire.Node{State: []string{"IDLE"}, GRES: gres}).Types); got != want {
			t.Errorf("%s: %s, want %s", gres, got, want)
		}
	}
}

// A job that is given a type asks for it in the way in which its user asked, and has its own words back.
func TestATypeIsWrittenInTheWayInWhichTheJobAsksForGPUs(t *testing.T) {
	for _, c := range []struct{ job, task, node, wantJob, wantTask string }{
		{"gres/gpu:2", "", "", "gres/gpu:a:2", ""},
		{"", "cpu:4,gres/gpu=1", "", "", "cpu:4,gres/gpu:a:1"},
		{"gres/gpu:2", "gres/gpu:1", "gres/gpu:2", "gres/gpu:a:2", "gres/gpu:a:1"},
		{"", "cpu=4", "gres/gpu:1", "", ""},
	} {
		before := readJob(
			waiting(1, 0, 2, func(j *wire.Job) { j.PerJob, j.PerTask, j.PerNode = c.job, c.task, c.node }),
		)
		request := before.Request
		request.GPUType = "a"
		sent := change(slurm.Update{Request: request}, before, 1)
		if sentText(sent.PerJob) != c.wantJob || sentText(sent.PerTask) != c.wantTask {
			t.Errorf("%+v: sent %q and %q", c, sentText(sent.PerJob), sentText(sent.PerTask))
		}
	}
}

func sentText(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
