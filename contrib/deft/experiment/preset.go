package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/contrib/deft/testbed"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Preset is a way to share the GPU in an experiment.
type Preset string

// The presets. Those with names of other systems are, as in Deft, settings of Deft's own queue bound.
const (
	AsSaid     Preset = "file"       // as the file says
	None       Preset = "none"       // one queue for all, without preemption
	Slicing    Preset = "slicing"    // the driver's own time slices
	Deft       Preset = "deft"       // preemption between kernels, with the bound that costs least
	Reef       Preset = "reef4"      // the same with a bound of 4 for all
	Shepherd   Preset = "shepherd20" // the same with 20, and 21 for models that preempt
	Layer      Preset = "layer"      // no preemption; all wait for their queue after each layer
	StepTurns  Preset = "turns"      // turns of one step, by class alone
	LookAhead  Preset = "lookahead"  // turns with look-ahead, as on a node
	FillPreset Preset = "fill"       // MPS; class low with a lower priority and half of the threads
)

// Presets returns all presets.
func Presets() []Preset {
	return []Preset{AsSaid, None, Slicing, Deft, Reef, Shepherd, Layer, StepTurns, LookAhead, FillPreset}
}

// ParsePreset reads a preset's name.
func ParsePreset(name string) (Preset, error) {
	if slices.Contains(Presets(), Preset(name)) {
		return Preset(name), nil
	}
	names := make([]string, 0, len(Presets()))
	for _, p := range Presets() {
		names = append(names, string(p))
	}
	return "", fmt.Errorf("%.40q: want one of %s", name, strings.Join(names, ", "))
}

const (
	// perLayer is about how many kernels a layer launches.
	perLayer = 3
	// LeastJobs is how many jobs each model does at least, however long that takes.
	LeastJobs = 10
	// halfOfThreads is the part of the threads that class low gets in the preset fill.
	halfOfThreads = 0.5
)

// Emulated returns the experiment for the emulated GPU: the file's models in order, each doing work[i]. The host's part
// of a job comes after its kernels, since a program launches kernels far ahead of the GPU. It is therefore part of the
// gap here, and Jobs adds it to each step.
func (f File) Emulated(p Preset, work []Work) testbed.Config {
	if p == AsSaid {
		p = f.impliedPreset()
	}
	c := testbed.Config{Duration: f.Duration, LeastSteps: LeastJobs, Mode: testbed.Queue}
	switch p {
	case Slicing:
		c.Mode = testbed.Slicing
	case AsSaid, Deft, Reef, Shepherd:
		c.Mode = testbed.Kernels
	case StepTurns:
		c.Mode = testbed.Turns
	case LookAhead:
		c.Mode = testbed.LookAhead
	case FillPreset:
		c.Mode, c.Threads = testbed.Fill, halfOfThreads
	}
	for i, m := range f.Models {
		w := work[i]
		c.Clients = append(c.Clients, testbed.Client{
			Name: m.Out, Class: m.Class(), Kernels: w.Count, Kernel: w.Each, Gap: m.Pause + w.Host(),
			Every: bound(p, m, w),
		})
	}
	return c
}

// Jobs returns a client's steps as jobs, where base is the start of the experiment.
func (w Work) Jobs(base time.Time, steps []testbed.Step) []Job {
	jobs := make([]Job, len(steps))
	for i, s := range steps {
		jobs[i] = Job{Start: base.Add(s.Start), End: base.Add(s.End + w.Host())}
	}
	return jobs
}

// impliedPreset returns the preset that the file's own settings amount to: AsSaid if the queue of a preempted model is
// bounded, else another.
func (f File) impliedPreset() Preset {
	preset := None
	for _, m := range f.Models {
		switch {
		case m.Class() == share.Low && m.Control.Queue() > 0:
			return AsSaid
		case m.Level == "layer":
			preset = Layer
		}
	}
	return preset
}

// bound returns after how many kernels a model waits for its queue; 0: only at the end of a job. The bounds of Reef and
// Shepherd are those of their presets.
func bound(p Preset, m Model, w Work) int {
	low := m.Class() == share.Low
	switch {
	case p == AsSaid:
		return m.Control.Queue()
	case p == Deft && low:
		return w.BestBound(testbed.DefaultSync)
	case p == Reef:
		return 4
	case p == Shepherd && low:
		return 20
	case p == Shepherd:
		return 21
	case p == Layer:
		return perLayer
	}
	return 0
}

// Bounded returns the experiment with another bound on the queues of class Low.
func Bounded(c testbed.Config, kernels int) testbed.Config {
	c.Mode, c.Clients = testbed.Kernels, slices.Clone(c.Clients)
	for i := range c.Clients {
		if c.Clients[i].Class == share.Low {
			c.Clients[i].Every = kernels
		}
	}
	return c
}
