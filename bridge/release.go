package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// handedBack is what a job is told that is Slurm's alone again.
const handedBack = "handed back to Slurm"

// farewell is how long a hand-over waits for jobs that are on their way back into the queue.
const farewell = 30 * time.Second

// Release hands every waiting job that is ours back to Slurm: its user's own request, no pin, no lease. What runs is
// not touched, nor what a round would leave alone. Where the settings name no partitions, a job counts as ours in any
// of them when it carries our word and we are known to have had it, by its record or its annotation; profiles are not
// looked up at all.
//
// It looks until nothing is left to do, so whatever became of an earlier one, saying it again puts the rest right.
// Records are read and not written: a daemon that is started afterwards takes the jobs up where it left them. The
// report has a step for each job; the error is one that ended the whole.
func (r *Runner) Release(ctx context.Context) (Report, error) {
	l := &leaving{Runner: r, until: r.Clock.Elapsed() + farewell, tried: map[int]bool{}}
	l.report = Report{Round: r.Last, Began: r.Clock.Now(), Shadow: r.Settings.Shadow}
	var err error
	if l.known, l.intent, err = r.Ledger.Load(); err != nil {
		return l.report, fmt.Errorf("read the ledger: %w", err)
	}
	l.known = debts(l.known, l.intent)
	return l.report, l.run(ctx)
}

// leaving is a hand-over under way.
type leaving struct {
	*Runner
	known  Records
	intent *Intent       // of a round that died
	until  time.Duration // on our own watch
	tried  map[int]bool  // jobs whose release was written or refused: once is enough, whatever Slurm's clock says
	report Report
}

func (l *leaving) run(ctx context.Context) error {
	for {
		coming, err := l.pass(ctx)
		if err != nil || !coming || l.Settings.Shadow || l.Clock.Elapsed() >= l.until {
			return err
		}
		if err := l.Clock.Sleep(ctx, l.Settings.Poll); err != nil {
			return err
		}
	}
}

// pass looks once and hands back what can be. It says whether there may be more to do soon.
func (l *leaving) pass(ctx context.Context) (coming bool, err error) {
	t := &turn{Runner: l.Runner, began: l.Clock.Elapsed()}
	seen, err := t.look(ctx, func() Records { return l.known })
	if err != nil {
		return false, err
	}
	t.seen, t.scene = seen.Jobs, l.sort(seen)
	t.report.Round, t.report.Steps = l.report.Round, l.steps(&t.scene)
	l.report.Outside, l.report.Notes = t.scene.outside, l.onTheirWay(&t.scene, seen.Jobs)
	if !l.Settings.Shadow {
		err = newActing(t).handBack(ctx)
	}
	l.note(t.report.Steps)
	return len(t.report.Steps) > 0 || len(l.report.Notes) > 0, err
}

// sort sorts the waiting jobs by whose business they are. Tenants are those that are to be handed back.
func (l *leaving) sort(seen Observed) scene {
	s := scene{at: seen.At}
	debts := cursor{l.known}
	for _, t := range l.read(seen.Jobs) {
		t.record = debts.of(t.ID)
		t.record.follow(t.Job)
		switch {
		case t.State != Pending || !l.had(t):
		case leftAlone(t.Job) != "" && !t.parked(seen.At):
			s.outside = append(s.outside, Outside{t.ID, leftAlone(t.Job)})
		default:
			s.managed = append(s.managed, t)
		}
	}
	account(s.managed, seen.At)
	return s
}

// had says that a job is ours, or was: one that has lost our directive is known by its record.
func (l *leaving) had(t *managedJob) bool {
	recorded := t.record != nil
	if len(l.Settings.Partitions) > 0 {
		return recorded || t.said.managed && l.manages(t.Partition)
	}
	return recorded || t.said.managed && t.annotated().V != 0
}

// steps lists what is still to be done. A job that is as it should be has no step.
func (l *leaving) steps(s *scene) []Step {
	var steps []Step
	for _, t := range s.managed {
		if l.tried[t.ID] {
			continue
		}
		if step := t.handBack(s.at, handedBack); step != nil {
			steps = append(steps, *step)
		}
	}
	return steps
}

// onTheirWay lists the jobs that can be handed back soon: their last run is still being cleaned up, or they were asked
// to save and have not left.
func (l *leaving) onTheirWay(s *scene, jobs []*Job) []Note {
	var notes []Note
	for _, t := range s.managed {
		if !settled(t.Job, s.at) && !l.tried[t.ID] {
			notes = append(notes, Note{t.ID,
				"its last run is still being cleaned up: it waits with its user's request, and a lease"})
		}
	}
	for _, j := range jobs {
		if rec := l.known.Of(j.ID); j.State == Running && (rec != nil && rec.Asked.After(j.Started) ||
			l.intent.preempts(j)) {
			notes = append(notes, Note{j.ID,
				"it was asked to save and still runs: it will come back with the size and the nodes of this run"})
		}
	}
	return notes
}

// preempts says that a round that died may have asked the job to leave.
func (i *Intent) preempts(j *Job) bool {
	return i != nil && j.Started.Before(i.At) &&
		slices.ContainsFunc(i.Steps, func(s Step) bool { return s.Job == j.ID && s.Verb == Preempt })
}

// note takes the steps of a pass over into the report: one for each job, as it ended.
func (l *leaving) note(steps []Step) {
	for _, s := range steps {
		l.tried[s.Job] = s.Verb == Release || s.Error != ""
		k, again := slices.BinarySearchFunc(l.report.Steps, s, func(a, b Step) int { return cmp.Compare(a.Job, b.Job) })
		if !again {
			l.report.Steps = slices.Insert(l.report.Steps, k, s)
			continue
		}
		s.Changes = slices.Concat(l.report.Steps[k].Changes, s.Changes)
		l.report.Steps[k] = s
	}
}

// handBack takes all steps, however long that takes: no round is due. Once Slurm is not to be reached, or will not have
// us, the rest is not tried.
func (a *acting) handBack(ctx context.Context) error {
	a.until = math.MaxInt64
	err := a.each(ctx, a.steps.filter((*step).open), done, func(s *step) error {
		err := a.write(ctx, s, a.letting(s))
		if errors.Is(err, ErrNotPending) || errors.Is(err, ErrGone) || errors.Is(err, ErrHeld) {
			return nil // it has started or ended meanwhile, or somebody now holds it
		}
		return err
	})
	for _, s := range a.steps.filter((*step).open) {
		a.fail(s, err.Error()) // nothing else leaves one open
	}
	return err
}
