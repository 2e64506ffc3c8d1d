// Package emulate is a training job without training: it iterates at the rate that a sensitivity profile gives for its
// grant, saves and resumes as a real job does, and keeps a log from which the rate can be checked. It computes no
// gradients, touches no GPU and knows nothing of the planner; the process around it handles signals and Slurm's
// environment.
package emulate

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// The two ways of working, as the log names them.
const (
	VirtualCPU = "virtual-cpu" // a Sleeper: runs as if it had the granted cores
	RealCPU    = "real-cpu"    // a Burner: keeps the real cores busy
)

// Job is one start of an emulated training job. Durations are in the job's own time: Speedup divides them all, except
// Interval, which is by the wall clock.
type Job struct {
	ID      string // Slurm's; empty outside Slurm
	Restart int    // Slurm's count of restarts
	Profile *sensitivity.Profile
	Grant   Grant
	Goal    Goal

	Mode    string  // VirtualCPU or RealCPU
	Work    Work    // iterates at Pace
	Speedup float64 // greater than 0

	Warmup   time.Duration // from the start to the first iteration
	Cost     time.Duration // of a checkpoint, during which it does not iterate
	Every    time.Duration // time between checkpoints; 0: only on request
	Store    *Store        // nil: the job cannot save
	Adopt    bool          // resume from the checkpoint of another job, too
	Leave    os.Signal     // the signal that asks the job to save and leave
	Signals  <-chan os.Signal
	Log      Log
	Interval time.Duration // between log lines, by the wall clock
	// Report tells the site how many iterations are done, with each log line; may be nil.
	Report func(iterations int64) error
	// Cores returns how many cores of each node the job may use now, at most those of the grant; nil: all of them. Work
	// must then be a Sleeper or a Turner. Progress takes the iterations so far; may be nil. Both are called every
	// Watch.
	Cores    func() int
	Progress func(iterations int64) error
	Watch    time.Duration
}

// Goal is when the job is done, counted over all starts.
type Goal struct {
	Iterations int64
	Training   time.Duration // at the grant's rate, without starts and checkpoints; used if Iterations is 0
}

// Pace returns the iterations per second by the wall clock.
func (j *Job) Pace() float64 { return j.Grant.Rate(j.Profile) * j.Speedup }

// Reason is why a start ended.
type Reason string

// The reasons why a start ends.
const (
	Finished   Reason = "finished"   // the goal is reached
	Left       Reason = "left"       // it was asked to leave, and saved
	Terminated Reason = "terminated" // it was told to end, and saved
	Killed     Reason = "killed"     // it was told to end, and could not save
)

// Outcome is the result of one start.
type Outcome struct {
	Reason Reason
	Done   int64 // iterations in this start
	Total  int64 // iterations in all starts
	Goal   int64 // iterations
	Starts int
	Lost   int64 // iterations done twice, now or later, as far as known
}

// Run trains until the goal is reached or a signal ends it. SIGTERM saves and ends the job, Leave does so after the
// iteration under way, and any other signal saves and goes on. Errors come from checkpoints and the log.
func (j *Job) Run() (Outcome, error) {
	r := &run{Job: j, begun: time.Now()}
	if err := r.resume(); err != nil {
		return Outcome{}, fmt.Errorf("resume: %w", err)
	}
	r.setGoal()
	if err := r.Log.write(r.startRecord()); err != nil {
		return Outcome{}, err
	}
	reason, err := r.train()
	if err != nil {
		return Outcome{}, err
	}
	return r.end(reason)
}

// run is a Job that runs.
type run struct {
	*Job
	state State // the last checkpoint; without a Store, what would be in it
	from  State // the state at this start
	goal  int64 // iterations

	begun, logged, saved time.Time
	watched              time.Time
	used                 int   // cores of each node that the rate was last set for by watch; 0: not yet, so all
	told                 int64 // iterations at the last log line
}

// resume loads the newest checkpoint and saves it at once with this start counted, so that a start that dies early is
// counted, too.
func (r *run) resume() error {
	r.state = State{Job: r.ID, Model: r.Profile.Model, Starts: r.Restart + 1}
	if r.Store != nil {
		if err := r.load(); err != nil {
			return err
		}
	}
	r.from, r.told = r.state, r.state.Iterations
	return nil
}

// load continues from the Store's checkpoint, if there is one and it is this job's. A job outside Slurm has no ID, and
// may continue any checkpoint of its model.
func (r *run) load() error {
	found, err := r.Store.Load()
	switch {
	case errors.Is(err, ErrNoState):
	case err != nil:
		return err
	case found.Model != r.Profile.Model:
		return fmt.Errorf("%s is a checkpoint of model %q, the profile is of %q", r.Store.Path, found.Model,
			r.Profile.Model)
	case r.ID != "" && found.Job != "" && found.Job != r.ID && !r.Adopt:
		return fmt.Errorf(
			"%s is a checkpoint of job %s, this is job %s: name another file, or adopt it with --resume-any",
			r.Store.Path, found.Job, r.ID)
	default:
		r.takeUp(found)
	}
	r.state.Saves++
	return errors.Join(r.Store.Save(r.state), r.Store.Note(r.state.Iterations))
}

// takeUp continues from a checkpoint. Iterations that the last start did after it are counted as lost.
func (r *run) takeUp(found State) {
	found.Job = r.ID
	found.Starts = max(found.Starts, r.Restart) + 1
	found.Lost += max(0, r.Store.Seen()-found.Iterations)
	r.state = found
}

// setGoal converts a goal of training time to iterations: those done, plus what the rest of the time is good for.
func (r *run) setGoal() {
	r.goal = r.Goal.Iterations
	if r.goal == 0 {
		rest := max(0, r.Goal.Training.Seconds()-r.from.Trained)
		r.goal = r.from.Iterations + int64(math.Ceil(rest*r.Grant.Rate(r.Profile)))
	}
}

// train iterates until the goal or a signal ends the start, and does in between what is due.
func (r *run) train() (Reason, error) {
	if r.iterations() >= r.goal {
		return Finished, nil
	}
	defer r.Work.Stop()
	if reason, err := r.warmUp(); reason != "" || err != nil {
		return reason, err
	}
	r.Work.Start()
	r.logged, r.saved = time.Now(), time.Now()
	for r.iterations() < r.goal {
		select {
		case signal := <-r.Signals:
			if reason, err := r.obey(signal); reason != "" || err != nil {
				return reason, err
			}
		case <-time.After(r.untilNext()):
			if err := r.doWhatIsDue(); err != nil {
				return "", err
			}
		}
	}
	return Finished, nil
}

// warmUp waits for the time of the warm-up; a signal may end it.
func (r *run) warmUp() (Reason, error) {
	ready := time.After(r.scaled(r.Warmup))
	for {
		select {
		case signal := <-r.Signals:
			if reason, err := r.obey(signal); reason != "" || err != nil {
				return reason, err
			}
		case <-ready:
			return "", nil
		}
	}
}

// scaled returns how long d takes by the wall clock.
func (r *run) scaled(d time.Duration) time.Duration { return seconds(d.Seconds() / r.Speedup) }

// iterations returns the number in all starts. Work may go a little beyond the goal before it is stopped; that does not
// count.
func (r *run) iterations() int64 {
	return min(r.from.Iterations+int64(r.Work.Done()), max(r.goal, r.from.Iterations))
}

// leastWait bounds how often a job wakes up, whatever its rate.
const leastWait = time.Millisecond

// untilNext returns the time until the next thing is due: the goal, a log line, a look at the cores, or a checkpoint.
func (r *run) untilNext() time.Duration {
	rest := float64(r.goal-r.from.Iterations) - r.Work.Done()
	next := min(seconds(rest/r.Pace()), time.Until(r.logged.Add(r.Interval)))
	if r.Watch > 0 {
		next = min(next, time.Until(r.watched.Add(r.Watch)))
	}
	if r.savesByItself() {
		next = min(next, time.Until(r.saved.Add(r.scaled(r.Every))))
	}
	return max(next, leastWait)
}

func (r *run) savesByItself() bool { return r.Store != nil && r.Every > 0 }

// doWhatIsDue does what is due now. At the goal it does nothing, since the end saves and logs.
func (r *run) doWhatIsDue() error {
	if r.iterations() >= r.goal {
		return nil
	}
	if r.Watch > 0 && time.Since(r.watched) >= r.Watch {
		if err := r.watch(); err != nil {
			return err
		}
	}
	if time.Since(r.logged) >= r.Interval {
		if err := r.tell(); err != nil {
			return err
		}
	}
	if r.savesByItself() && time.Since(r.saved) >= r.scaled(r.Every) {
		return r.checkpoint()
	}
	return nil
}

// watch adapts the rate to the cores that the job may use now, and reports progress. The rate can be changed only while
// the work is stopped. At least one core is assumed.
func (r *run) watch() error {
	r.watched = time.Now()
	if work, is := r.Work.(paced); is && r.Cores != nil {
		if cores := max(1, min(r.Cores(), r.Grant.PerNode.CPUs)); cores != r.used {
			grant := r.Grant
			grant.PerNode.CPUs, r.used = cores, cores
			r.Work.Stop()
			work.setRate(grant.Rate(r.Profile) * r.Speedup)
			r.Work.Start()
		}
	}
	if r.Progress == nil {
		return nil
	}
	return r.Progress(r.iterations())
}

// obey carries out a signal. A reason means that the start ends.
func (r *run) obey(signal os.Signal) (Reason, error) {
	if r.Store == nil {
		return r.obeyUnsaved(signal)
	}
	if err := r.Log.write(Record{Event: "signal", Iteration: r.iterations(), Signal: signalName(signal)}); err != nil {
		return "", err
	}
	switch signal {
	case syscall.SIGTERM:
		r.Work.Stop()
		return Terminated, r.save()
	case r.Leave:
		return r.leave()
	}
	return "", r.checkpoint()
}

// obeyUnsaved is obey for a job that cannot save. Such a job is asked to leave by mistake, and would lose everything,
// so it ignores that.
func (r *run) obeyUnsaved(signal os.Signal) (Reason, error) {
	if signal == syscall.SIGTERM {
		return Killed, nil
	}
	return "", r.Log.write(Record{Event: "ignored", Iteration: r.iterations(), Signal: signalName(signal),
		Why: "the job has no checkpoint to save to"})
}

// leave ends after the iteration under way, which may be the last.
func (r *run) leave() (Reason, error) {
	r.Work.Finish()
	if r.iterations() >= r.goal {
		return Finished, nil
	}
	return Left, r.save()
}

// checkpoint saves between two iterations and goes on. If nothing was done since the last one it is not repeated, and
// the next is due after a whole interval.
func (r *run) checkpoint() error {
	if r.iterations() == r.state.Iterations {
		r.saved = time.Now()
		return nil
	}
	r.Work.Stop()
	defer r.Work.Start()
	err := r.save()
	r.saved = time.Now()
	return err
}

// save spends the cost of a checkpoint and stores it, unless the last one is still current.
func (r *run) save() error {
	if r.iterations() == r.state.Iterations {
		return nil
	}
	time.Sleep(r.scaled(r.Cost))
	return r.keep()
}

// keep stores a checkpoint without the cost.
func (r *run) keep() error {
	n := r.iterations()
	r.state.Saves++
	r.state.Iterations = n
	r.state.Trained = r.from.Trained + float64(n-r.from.Iterations)/r.Grant.Rate(r.Profile)
	if err := r.Store.Save(r.state); err != nil {
		return err
	}
	return r.Log.write(Record{Event: "save", Iteration: n})
}

// tell writes the log line of an interval.
func (r *run) tell() error {
	now, n := time.Now(), r.iterations()
	rate := float64(n-r.told) / now.Sub(r.logged).Seconds()
	r.logged, r.told = now, n
	if r.Store != nil {
		if err := r.Store.Note(n); err != nil {
			return fmt.Errorf("note progress: %w", err)
		}
	}
	if r.Report != nil {
		if err := r.Report(n); err != nil {
			return fmt.Errorf("report progress: %w", err)
		}
	}
	record := r.grantRecord("run")
	record.Iterations, record.Samples = thousandths(rate), thousandths(rate*float64(r.Profile.Batch*r.Grant.GPUs()))
	record.Turns, record.Waited = r.turned()
	return r.Log.write(record)
}

// turned returns how many slices on its GPU the job has used in this start, and how long it has waited for them,
// seconds.
func (r *run) turned() (turns int64, waited float64) {
	work, takes := r.Work.(*Turner)
	if !takes {
		return 0, 0
	}
	turns, wait := work.Turned()
	return turns, thousandths(wait.Seconds())
}

// thousandths rounds figures, to keep the log readable.
func thousandths(x float64) float64 { return math.Round(x*1000) / 1000 }

// end writes the last log line. A job that has reached its goal has not saved yet; it does so here without the cost, so
// that another start finds nothing to do.
func (r *run) end(reason Reason) (Outcome, error) {
	if r.Store != nil && r.iterations() != r.state.Iterations {
		if err := r.keep(); err != nil {
			return Outcome{}, err
		}
	}
	out := r.outcome(reason)
	turns, waited := r.turned()
	return out, r.Log.write(Record{
		Turns: turns, Waited: waited,
		Event: "end", Iteration: out.Total, Mode: r.Mode, Model: r.Profile.Model, Job: r.ID, Speedup: r.Speedup,
		Goal: r.goal, Reason: reason, Done: &out.Done, Starts: out.Starts, Lost: &out.Lost,
		Wall: thousandths(time.Since(r.begun).Seconds()),
	})
}

// outcome returns the result of this start. Unless the goal is reached, what was done since the last checkpoint will be
// done again.
func (r *run) outcome(reason Reason) Outcome {
	n := r.iterations()
	out := Outcome{Reason: reason, Done: n - r.from.Iterations, Total: n, Goal: r.goal, Starts: r.state.Starts,
		Lost: r.state.Lost}
	if reason != Finished {
		out.Lost += n - r.state.Iterations
	}
	return out
}

// startRecord returns the first log line of a start.
func (r *run) startRecord() Record {
	record := r.grantRecord("start")
	record.Mode, record.Model, record.GPUType, record.Batch = r.Mode, r.Profile.Model, r.Profile.GPUType,
		r.Profile.Batch
	record.Job, record.Restart, record.Starts = r.ID, &r.Restart, r.state.Starts
	record.Speedup, record.Goal, record.Predicted = r.Speedup, r.goal, r.Pace()
	record.Lost = &r.state.Lost
	if work, takes := r.Work.(*Turner); takes {
		record.Busy = work.Busy
	}
	return record
}

func (r *run) grantRecord(event string) Record {
	return Record{
		Event: event, Iteration: r.iterations(), Nodes: r.Grant.Nodes, GPUs: r.Grant.PerNode.GPUs,
		Cores: r.Grant.PerNode.CPUs, Memory: int64(r.Grant.PerNode.Memory),
	}
}
