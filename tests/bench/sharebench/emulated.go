package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/contrib/deft/testbed"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// trial is one of share_gpu.py's: jobs that run together, and how.
type trial struct {
	Name    string `json:"trial"`
	Mode    string `json:"mode"`
	Percent int    `json:"percent"`
	Seconds float64
	Jobs    []job `json:"jobs"`
}

// job is a job of a trial, as share_gpu.py writes it.
type job struct {
	Kind string  `json:"kind"`
	Prio int     `json:"prio"` // 2: important
	Gap  float64 `json:"gap_ms"`
	Step float64 `json:"step_ms"`
}

// outcome is a trial as share_gpu.py writes it of a GPU.
type outcome struct {
	Name string    `json:"trial"`
	Jobs []measure `json:"jobs"`
}

// measure is what was measured of one job; waits are from the wish for the GPU until the step runs.
type measure struct {
	Kind string  `json:"kind"`
	Prio int     `json:"prio"`
	Gap  float64 `json:"gap_ms"`
	Rate float64 `json:"it_per_s"`
	Mean float64 `json:"mean_ms"`
	P50  float64 `json:"p50_ms"`
	P95  float64 `json:"p95_ms"`
	P99  float64 `json:"p99_ms"`
	Max  float64 `json:"max_ms"`
	// Late is the part of the steps that took more than tooLate times as long as alone; nil where that is not known.
	Late *float64 `json:"late"`
	Wait float64  `json:"wait_p50_ms"`
	GPU  float64  `json:"gpu_mean_ms"`
}

// tooLate is how many times as long as alone a step may take, as in share_gpu.py.
const tooLate = 1.6

// by is what jobs that are alike have in common: the kind and the gap, by which a trial's jobs are compared with their
// own steps alone.
type by struct {
	kind string
	gap  float64
}

// emulate runs a plan on the emulated GPU, in virtual time.
func emulate(plan string, out io.Writer) error {
	text, err := os.ReadFile(plan)
	if err != nil {
		return err
	}
	var trials []trial
	if err := json.Unmarshal(text, &trials); err != nil {
		return fmt.Errorf("%s: %w", plan, err)
	}
	var all []outcome
	alone := map[by]float64{} // ms a step
	for _, t := range trials {
		o, err := t.run(alone)
		if err != nil {
			return fmt.Errorf("trial %q: %w", t.Name, err)
		}
		all = append(all, o)
	}
	return json.NewEncoder(out).Encode(all)
}

var modes = map[string]testbed.Mode{"alone": testbed.Queue, "timeslice": testbed.Slicing, "turns": testbed.Turns,
	"lookahead": testbed.LookAhead, "mps": testbed.Fill, "mps prio": testbed.Fill}

// run runs a trial. A trial of mode alone notes how long the steps of its job are, for trials after it in the plan.
// Only MPS can bound the threads, so the percentage of other modes is ignored.
func (t trial) run(alone map[by]float64) (outcome, error) {
	mode, is := modes[t.Mode]
	if !is || mode == testbed.Fill && (t.Percent < 25 || t.Percent > 100) {
		return outcome{}, fmt.Errorf("mode %q with %d percent is none", t.Mode, t.Percent)
	}
	config := testbed.Config{Mode: mode, Duration: milliseconds(1000 * t.Seconds), Jitter: 0.05, Seed: 1,
		SameClass: t.Mode == "mps", Threads: float64(t.Percent) / 100}
	if mode != testbed.Fill {
		config.Threads = 0
	}
	for _, j := range t.Jobs {
		config.Clients = append(config.Clients, j.client())
	}
	result, err := testbed.Run(config)
	if err != nil {
		return outcome{}, err
	}
	o := outcome{Name: t.Name}
	for i, c := range result.Clients {
		j := t.Jobs[i]
		m := j.measured(c.Steps, t.Seconds, alone[by{j.Kind, j.Gap}])
		if t.Mode == "alone" {
			alone[by{j.Kind, j.Gap}] = m.Mean
		}
		o.Jobs = append(o.Jobs, m)
	}
	return o, nil
}

// client has kernels of about a millisecond, and at least one a step; together they take as long as the step.
func (j job) client() testbed.Client {
	kernels := max(1, int(j.Step))
	class := share.Low
	if j.Prio == 2 {
		class = share.High
	}
	return testbed.Client{Name: j.Kind, Class: class, Kernels: kernels, Kernel: milliseconds(j.Step / float64(kernels)),
		Gap: milliseconds(j.Gap)}
}

// measured is what came of it; alone is how long its steps take then, and 0 where no trial before has measured it. Then
// no part of late steps is known. Without steps all figures are 0.
func (j job) measured(steps []testbed.Step, seconds, alone float64) measure {
	m := measure{Kind: j.Kind, Prio: j.Prio, Gap: j.Gap, Rate: float64(len(steps)) / seconds}
	var took, waits []float64
	for _, s := range steps {
		took, waits = append(took, ms(s.Took())), append(waits, ms(s.Run-s.Start))
		m.GPU += ms(s.End-s.Run) / float64(len(steps))
	}
	m.P50, m.P95, m.P99, m.Wait = quantile(took, 0.5), quantile(took, 0.95), quantile(took, 0.99), quantile(waits, 0.5)
	m.Max = quantile(took, 1)
	late := 0.0
	for _, x := range took {
		m.Mean += x / float64(len(took))
		if x > tooLate*alone {
			late += 1 / float64(len(took))
		}
	}
	if alone > 0 && len(took) > 0 {
		m.Late = &late
	}
	return m
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

func milliseconds(x float64) time.Duration { return time.Duration(x * float64(time.Millisecond)) }

// quantile is the value at this part of the sorted ones, without interpolation; 0 of none.
func quantile(all []float64, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(all), cmp.Compare[float64])
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
