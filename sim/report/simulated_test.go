package report

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// toy is a simulator that is just good enough for plots to look like those of a real one: rounds of five minutes, jobs
// of one to eight GPUs, three families, first fit, and preemption by the policies that have it.
type toy struct {
	servers, perServer int
	jobs               int
	load               float64 // jobs an hour
	seed               int64
	window             outcome.Window
	users              int
}

const toyRound = 300

// toyModels have a family, a speed at the best share over that at the proportional one, and the cores per GPU that they
// take for it.
var toyModels = []struct {
	name, family string
	speed, cores float64
}{
	{"alexnet", "image", 3.1, 9}, {"resnet18", "image", 2.2, 9}, {"shufflenet", "image", 1.9, 8},
	{"mobilenet", "image", 1.6, 7},
	{"resnet50", "image", 1.2, 5}, {"gnmt", "language", 1, 1}, {"lstm", "language", 1, 1},
	{"transformer", "language", 1, 1},
	{"m5", "speech", 1.9, 10}, {"deepspeech", "speech", 1.4, 8},
}

func toyFamily(model string) string {
	for _, m := range toyModels {
		if m.name == model {
			return m.family
		}
	}
	return "other"
}

// toyJob is a job while it is simulated.
type toyJob struct {
	outcome.Job
	model  int
	left   float64
	span   int // index of its current span; -1: waits
	server int
	cores  float64
}

func (t toy) draw() []toyJob {
	random := rand.New(rand.NewPCG(uint64(t.seed), 7))
	jobs := make([]toyJob, t.jobs)
	at := 0.0
	for i := range jobs {
		at += random.ExpFloat64() * hour / t.load
		gpus := []int{1, 1, 1, 1, 1, 1, 2, 2, 4, 8}[random.IntN(10)]
		length := hour * math.Min(120, math.Exp(1.2+1.3*random.NormFloat64()))
		model := random.IntN(len(toyModels))
		jobs[i] = toyJob{Job: outcome.Job{
			ID: i, Model: toyModels[model].name, User: fmt.Sprintf("user%d", random.IntN(max(1, t.users))),
			GPUs:    min(gpus, t.perServer),
			Arrival: at, Length: length, FirstRun: -1, Finish: -1,
		}, model: model, left: length, span: -1}
	}
	return jobs
}

// run simulates one policy and allocator.
func (t toy) run(policy, allocator string) outcome.Run {
	jobs := t.draw()
	run := outcome.Run{
		Setting: outcome.Setting{
			Engine: "artifact", Policy: policy, Allocator: allocator, Load: t.load,
			Workload: "generated, one to eight GPUs",
			Cluster:  fmt.Sprintf("%dx%d:%d:500", t.servers, t.perServer, 3*t.perServer), Seed: t.seed,
			Window:       t.window,
			RoundSeconds: toyRound,
		},
		GPUs: t.servers * t.perServer, CPUs: 3 * t.servers * t.perServer, Memory: 62.5 * float64(t.servers*t.perServer),
	}
	free := make([][]bool, t.servers)
	for i := range free {
		free[i] = slices.Repeat([]bool{true}, t.perServer)
	}
	var active []*toyJob
	next, counted := 0, 0
	for now := float64(toyRound); ; now += toyRound {
		for next < len(jobs) && jobs[next].Arrival <= now {
			active = append(active, &jobs[next])
			next++
		}
		run.Held++
		run.Rounds = append(run.Rounds, t.round(&run, active, free, policy, allocator, now))
		active = slices.DeleteFunc(active, func(j *toyJob) bool {
			done := t.step(&run, j, free, now)
			if done && (t.window.Has(j.ID)) {
				counted++
			}
			return done
		})
		all := t.window.End - t.window.First
		if next == len(jobs) && len(active) == 0 || all > 0 && counted == all {
			run.Ended = now + toyRound
			break
		}
	}
	for _, j := range jobs[:next] {
		run.Jobs = append(run.Jobs, j.Job)
	}
	slices.SortStableFunc(run.Spans, func(a, b outcome.Span) int { return cmp.Compare(a.From, b.From) })
	for i := range run.Spans {
		if run.Spans[i].To == 0 {
			run.Spans[i].To = run.Ended
		}
	}
	return run
}

// round decides who runs, and gives the cluster as it is then.
func (t toy) round(run *outcome.Run, active []*toyJob, free [][]bool, policy, allocator string,
	now float64) outcome.Round {
	slices.SortStableFunc(active, func(a, b *toyJob) int {
		switch policy {
		case "srtf":
			return cmp.Compare(a.left, b.left)
		case "las":
			return cmp.Compare(a.AttainedGPU, b.AttainedGPU)
		}
		return cmp.Compare(a.ID, b.ID)
	})
	left := run.GPUs
	at := outcome.Round{At: now}
	chosen := map[*toyJob]bool{}
	for _, j := range active {
		at.Demand += float64(j.GPUs)
		if j.GPUs <= left {
			left -= j.GPUs
			chosen[j] = true
		}
	}
	for _, j := range active {
		if j.span >= 0 && !chosen[j] {
			t.stop(run, j, free, now)
			at.Stopped++
		}
	}
	cores := float64(run.CPUs)
	for _, j := range active {
		if chosen[j] && j.span < 0 && t.start(run, j, free, now) {
			at.Started++
		}
		if j.span >= 0 {
			j.cores = t.share(j, allocator, cores)
			cores -= j.cores
			at.Running++
			at.GPUs += float64(j.GPUs)
			at.CPUs += j.cores
			at.Memory += 62.5 * float64(j.GPUs) * (0.4 + 0.6*min(1, j.cores/float64(3*j.GPUs)))
		} else {
			at.Waiting++
		}
	}
	run.BusyGPUs += at.GPUs * toyRound
	run.BusyCPUs += at.CPUs * toyRound
	run.BusyMemory += at.Memory * toyRound
	return at
}

func (t toy) share(j *toyJob, allocator string, left float64) float64 {
	fair := float64(3 * j.GPUs)
	if allocator == outcome.Proportional {
		return fair
	}
	wish := toyModels[j.model].cores * float64(j.GPUs)
	if wish <= left {
		return wish
	}
	if allocator == "greedy" {
		return left
	}
	return min(fair, left)
}

func (t toy) start(run *outcome.Run, j *toyJob, free [][]bool, now float64) bool {
	for server := range free {
		var devices []int
		for device, idle := range free[server] {
			if idle && len(devices) < j.GPUs {
				devices = append(devices, device)
			}
		}
		if len(devices) < j.GPUs {
			continue
		}
		for _, device := range devices {
			free[server][device] = false
		}
		j.server, j.span = server, len(run.Spans)
		j.Starts++
		if j.FirstRun < 0 {
			j.FirstRun = now
		}
		run.Spans = append(run.Spans, outcome.Span{Job: j.ID, Model: j.Model, Server: server, Devices: devices,
			GPUs: j.GPUs, From: now})
		return true
	}
	return false
}

func (t toy) stop(run *outcome.Run, j *toyJob, free [][]bool, now float64) {
	span := &run.Spans[j.span]
	for _, device := range span.Devices {
		free[j.server][device] = true
	}
	span.To, j.span = now, -1
}

// step lets a job run until the next round, and says whether it is finished.
func (t toy) step(run *outcome.Run, j *toyJob, free [][]bool, now float64) bool {
	if j.span < 0 {
		return false
	}
	best := toyModels[j.model].cores * float64(j.GPUs)
	fair := float64(3 * j.GPUs)
	speed := 1.0
	switch {
	case j.cores >= best && best > fair:
		speed = toyModels[j.model].speed
	case j.cores < min(fair, best):
		speed = max(0.3, j.cores/fair)
	}
	j.AttainedGPU += toyRound * float64(j.GPUs)
	j.left -= toyRound * speed
	if j.left > 0 {
		return false
	}
	j.Finish = now + toyRound
	t.stop(run, j, free, now+toyRound)
	return true
}

// cross runs several policies with several allocators.
func (t toy) cross(policies, allocators []string) (runs []outcome.Run) {
	for _, policy := range policies {
		for _, allocator := range allocators {
			runs = append(runs, t.run(policy, allocator))
		}
	}
	return runs
}
