package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
)

// predictOptions are the flags of synergy share predict.
type predictOptions struct {
	memory float64 // GiB of the GPU
	trip   time.Duration
	json   bool
}

// sharePredictCommand is synergy share predict: its help and its flags.
func sharePredictCommand() *cobra.Command {
	var o predictOptions
	command := &cobra.Command{
		Use:   "predict [flags] PROFILE…",
		Short: "say how fast jobs will be on one GPU together, and whether they would be put there",
		Long: `predict says how fast two to four jobs will be on one GPU together, each as a part of its speed alone, for each way in which
a GPU can be shared; whether their memory fits; and whether the planner would put them there, and if not why.

A JOB is a profile's file, or busy=PART for how much of the time it keeps the GPU busy alone, and behind either, each once and joined by commas:
mem=GIB of the GPU that it needs, class=high or class=low, step=MILLISECONDS that a step of it has the GPU, busy=PART. The first is high
and the others are low where they do not say. A job of which it is not known how busy it is counts as always busy.

The planner goes by the mode of the node (share.mode of the daemon's configuration): by turns with look-ahead, which each node can give, or
by MPS, where the node fills its GPUs and all jobs on one are of one user. The important one is to keep 0.9 of its speed, and each of the
others 0.2. What is said of speeds was fitted to one H100 with two image models: to 0.02 an important job had there what is said of it, or more.`,
		Example: `  synergy share predict busy=0.55,mem=3.4,step=25 busy=1,mem=5.5,step=35
  synergy share predict res50.json vit.json,mem=6
  synergy share predict --memory 24 busy=0.2,mem=8 busy=0.5,mem=8 busy=0.5,mem=8`,
		Args: cobra.RangeArgs(1, share.MostJobs),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.OutOrStdout(), args) },
	}
	where, out := newGroup("The GPU"), newGroup("Output")
	where.flags.Float64Var(&o.memory, "memory", 80, "its memory, `GiB`")
	times.Var(where.flags, &o.trip, "trip", 100*time.Microsecond, "`time` that the broker takes to hand it over")
	out.flags.BoolVar(&o.json, "json", false, "the answer for programs")
	setGroups(command, where, out)
	return command
}

// candidate is a job that may share a GPU.
type candidate struct {
	predict.Tenant
	Name  string
	Known bool          // whether Busy is known
	Step  time.Duration // 0: not said
}

// sharePrediction is the answer as JSON.
type sharePrediction struct {
	Jobs   []expectedJob                `json:"jobs"`
	Speeds map[predict.Mode][]float64   `json:"speeds"`
	Wait   *expectedWait                `json:"wait,omitempty"` // of the important job for a step of another
	Memory struct{ Needed, Most int64 } `json:"memory_mib"`
	// Refused says why the planner would not put the jobs on one GPU by turns; empty: it would.
	Refused []string `json:"refused,omitempty"`
	// RefusedToFill says the same for a node that fills its GPUs (MPS).
	RefusedToFill []string `json:"refused_to_fill,omitempty"`
}

// expectedJob is a job as the prediction took it.
type expectedJob struct {
	Name   string      `json:"name"`
	Class  share.Class `json:"class"`
	Busy   float64     `json:"busy,omitempty"` // left out: not known
	Memory gres.Memory `json:"gpu_memory_mib,omitempty"`
}

// expectedWait is what waiting for turns costs, in seconds.
type expectedWait struct {
	Worst     float64 `json:"worst_s"`
	Mean      float64 `json:"mean_s"`
	Inflation float64 `json:"inflation,omitempty"` // of a step; left out: its length was not said
	Overhead  float64 `json:"overhead"`            // of the other
}

// run predicts how fast the jobs of the arguments would be on one GPU together, and writes it.
func (o *predictOptions) run(out io.Writer, args []string) error {
	if !(o.memory > 0 && o.memory <= 1024) {
		return fmt.Errorf("--memory %g: want GiB, more than 0 and at most 1024", o.memory)
	}
	if o.trip < 0 || o.trip > time.Second {
		return fmt.Errorf("--trip %v: want 0 to 1s", o.trip)
	}
	var jobs []candidate
	for i, arg := range args {
		c, err := readCandidate(arg, i)
		if err != nil {
			return err
		}
		jobs = append(jobs, c)
	}
	answer := o.predictAnswer(jobs)
	if o.json {
		return ask.JSON(out, answer)
	}
	s := ask.NewText(out)
	answer.show(s)
	return asFailed(s.Err())
}

// readCandidate reads a job of the command line: a profile's file or figures, and words that go before what the file
// says. place is its index among the arguments. The first job is of class high by default, and the others of class low.
func readCandidate(arg string, place int) (candidate, error) {
	c := candidate{Name: string(rune('A' + place)), Tenant: predict.Tenant{Class: share.Low}}
	if place == 0 {
		c.Class = share.High
	}
	words := strings.Split(arg, ",")
	if first := words[0]; !strings.Contains(first, "=") {
		all, err := readProfiles([]string{first})
		if errors.Is(err, fs.ErrNotExist) {
			return c, fmt.Errorf("%.60q: there is no such file: want a profile's, or figures, as busy=0.5,mem=4", first)
		}
		if err != nil {
			return c, err
		}
		p := all[0]
		c.Name += " " + printable.Line(p.Model, ask.LongestName)
		c.Busy, c.Known, c.Memory = p.GPUBusy, p.GPUBusy > 0, p.GPUMemory
		words = words[1:]
	}
	seen := map[string]bool{}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		if seen[name] {
			return c, fmt.Errorf("%.60q: %.20s= is said twice: say it once", arg, name)
		}
		seen[name] = true
		if err := c.setField(name, value); err != nil {
			return c, fmt.Errorf("%.60q: %w", arg, err)
		}
	}
	return c, nil
}

// setField reads one word of a job, as busy=0.5. mem and class are read by the parser of the directive synergy-share,
// so that they have the same form. That parser would accept more words behind a class, which are refused here.
func (c *candidate) setField(name, value string) error {
	switch name {
	case "mem": // in the form of the directive
		r, err := share.ParseRequest(string(share.Low) + ",mem=" + value)
		c.Memory = r.Memory
		return err
	case "class":
		r, err := share.ParseRequest(value)
		c.Class = r.Class
		if err == nil && value != string(r.Class) {
			err = fmt.Errorf("class=%.20q: want high or low", value)
		}
		return err
	case "busy", "step":
		x, err := strconv.ParseFloat(value, 64)
		if name == "busy" && (err != nil || !(x > 0 && x <= 1)) {
			return fmt.Errorf("busy=%.20q: want a part of the time, more than 0 and at most 1", value)
		}
		if err != nil || !(x > 0 && x <= 600000) {
			return fmt.Errorf("step=%.20q: want milliseconds, more than 0 and at most 600000", value)
		}
		if name == "busy" {
			c.Busy, c.Known = x, true
		} else {
			c.Step = time.Duration(x * float64(time.Millisecond))
		}
		return nil
	}
	return fmt.Errorf("%.20q: want busy=, mem=, class= or step=, or a profile's file first", name)
}

// shareModes are the ways to share a GPU, in the order in which they are shown.
var shareModes = []predict.Mode{predict.Slicing, predict.Turns, predict.LookAhead, predict.Fill}

// predictAnswer predicts the jobs' speeds in each mode of sharing, their memory, and whether the planner would put them
// on one GPU.
func (o *predictOptions) predictAnswer(jobs []candidate) *sharePrediction {
	a := &sharePrediction{Speeds: map[predict.Mode][]float64{}}
	var tenants []predict.Tenant
	for _, c := range jobs {
		tenants = append(tenants, c.Tenant)
		a.Jobs = append(a.Jobs, expectedJob{c.Name, c.Class, c.Busy, c.Memory})
		a.Memory.Needed += int64(c.Memory)
	}
	for _, mode := range shareModes {
		a.Speeds[mode] = predict.Speeds(mode, tenants)
	}
	a.Memory.Most = int64(float64(o.memory*1024) * share.MemoryPart)
	a.Wait = o.costOfTurns(jobs)
	a.Refused, a.RefusedToFill = a.refusals(predict.LookAhead), a.refusals(predict.Fill)
	return a
}

// costOfTurns returns what turns cost the first job of class high, beside the job of class low with the longest step.
// That other job counts as always busy if it is not known how busy it is. The result is nil, for not known, if no job
// is of class high, or if no job of class low says how long its step is.
func (o *predictOptions) costOfTurns(jobs []candidate) *expectedWait {
	var first, other *candidate
	for i := range jobs {
		c := &jobs[i]
		switch {
		case c.Class == share.High && first == nil:
			first = c
		case c.Class == share.Low && c.Step > 0 && (other == nil || c.Step > other.Step):
			other = c
		}
	}
	if first == nil || other == nil {
		return nil
	}
	held := 1.0
	if other.Known {
		held = other.Busy
	}
	w := predict.Stepwise(other.Step, held, o.trip)
	a := &expectedWait{Worst: w.Worst.Seconds(), Mean: w.Mean.Seconds(), Overhead: w.Overhead}
	if first.Step > 0 {
		a.Inflation = w.Inflation(first.Step)
	}
	return a
}

// refusals lists why the planner would not put the jobs on one GPU that is shared in this mode, as sentences. The list
// is empty if it would.
func (a *sharePrediction) refusals(mode predict.Mode) (why []string) {
	important := 0
	for i, j := range a.Jobs {
		if j.Class == share.High {
			important++
		}
		if j.Memory == 0 {
			why = append(why, fmt.Sprintf("how much of the GPU's memory %s needs is not known: say mem=GIB in its "+
				"synergy-share, or have its profile say gpu_memory_mib", j.Name))
		}
		if speed := a.Speeds[mode][i]; speed < requiredSpeed(j.Class) {
			why = append(why, fmt.Sprintf("by %s %s would keep %.2f of its speed, and class %s is to keep %g of it",
				mode.Words(), j.Name, hundredths(speed), j.Class, requiredSpeed(j.Class)))
		}
	}
	if len(a.Jobs) < 2 {
		why = append(why, "one job alone shares with nobody")
	}
	if important > 1 {
		why = append(why, fmt.Sprintf("%d are of class high, and at most one may be", important))
	}
	if a.Memory.Needed > a.Memory.Most {
		why = append(why, fmt.Sprintf("together they need %s of the GPU's memory, and %s may be used",
			gibibytes(a.Memory.Needed), gibibytes(a.Memory.Most)))
	}
	return why
}

// hundredths rounds a speed down to hundredths, so that a refused speed is not shown as one that would do.
func hundredths(speed float64) float64 { return math.Floor(100*speed) / 100 }

// requiredSpeed is the part of its speed alone that a job of this class must keep beside others.
func requiredSpeed(class share.Class) float64 {
	if class == share.High {
		return share.HighKeeps
	}
	return share.LowKeeps
}

func gibibytes(mib int64) string { return fmt.Sprintf("%.1f GiB", float64(mib)/1024) }

// show prints what was known of the jobs, their speeds in each mode of sharing, memory, waits, and the planner's
// decision.
func (a *sharePrediction) show(s *ask.Text) {
	rows := [][]string{{"job", "class", "GPU busy", "GPU memory"}}
	for _, j := range a.Jobs {
		busy, memory := "not known, so 1", "not known"
		if j.Busy > 0 {
			busy = fmt.Sprintf("%.2f", j.Busy)
		}
		if j.Memory > 0 {
			memory = gibibytes(int64(j.Memory))
		}
		rows = append(rows, []string{j.Name, string(j.Class), busy, memory})
	}
	s.Table(rows, 0)
	s.Blank()
	rows = [][]string{{"speed, of alone"}}
	for _, j := range a.Jobs {
		rows[0] = append(rows[0], j.Name)
	}
	rows[0] = append(rows[0], "sum")
	for _, mode := range shareModes {
		row, sum := []string{modeNames[mode]}, 0.0
		for _, speed := range a.Speeds[mode] {
			row = append(row, fmt.Sprintf("%.2f", speed))
			sum += speed
		}
		rows = append(rows, append(row, fmt.Sprintf("%.2f", sum)))
	}
	s.Table(rows, 0)
	s.Blank()
	s.Say(0, fmt.Sprintf("memory: %s of the %s that jobs may use together", gibibytes(a.Memory.Needed),
		gibibytes(a.Memory.Most)))
	if a.Wait != nil {
		s.Say(0, a.Wait.String())
	}
	a.showDecision(s)
}

// showDecision says what the planner would do, which is usually the same in both modes, and each reason against it
// once.
func (a *sharePrediction) showDecision(s *ask.Text) {
	turns, fill := len(a.Refused) == 0, len(a.RefusedToFill) == 0
	switch {
	case turns && fill:
		s.Say(0, "the planner would put them on one GPU")
	case fill:
		s.Say(0, "the planner would put them on one GPU of a node that fills its GPUs, if they are of one user")
	case turns:
		s.Say(0, "the planner would put them on one GPU, but not where the node fills it and they are of one user")
	}
	said := map[string]bool{}
	for _, why := range slices.Concat(a.Refused, a.RefusedToFill) {
		if !said[why] {
			s.Say(0, "would not be put on one GPU: "+why)
		}
		said[why] = true
	}
}

var modeNames = map[predict.Mode]string{
	predict.Slicing: "time slicing", predict.Turns: "turns, by class alone", predict.LookAhead: "turns with look-ahead",
	predict.Fill: "fill (MPS)",
}

// String is the cost of turns in a sentence.
func (w *expectedWait) String() string {
	text := fmt.Sprintf("turns: the important one waits %s on the average and %s at worst for a step of another",
		milliseconds(w.Mean), milliseconds(w.Worst))
	if w.Inflation > 0 {
		text += fmt.Sprintf(", so its step takes %.2f times as long", w.Inflation)
	}
	return text + fmt.Sprintf("; the other loses %.1f %% to the changes", 100*w.Overhead)
}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.1f ms", seconds*1000) }

var errNoShare = errors.New("its comment has no synergy-share: it is never put on a GPU that another job uses; " +
	"--comment=\"synergy-profile=… synergy-share=low\" lets it")
