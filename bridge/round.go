package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Clock is the time that rounds live in: the wall's, or a virtual one.
type Clock interface {
	// Now is the date. It may be wrong, and it may jump: a round tells it and reckons nothing from it.
	Now() time.Time
	// Elapsed is the time since some moment. It passes evenly, whatever becomes of the date.
	Elapsed() time.Duration
	// Sleep returns after d, or with ctx's error when that ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

// Hook is the administrator's own word before and after a checkpoint. An error before it leaves the job alone in this
// round. Neither may take longer than it is given: it then gives up with an error.
type Hook interface {
	Before(ctx context.Context, job Job, why string, within time.Duration) error
	After(ctx context.Context, job Job, why string, within time.Duration) error
}

// Planner decides rounds in place of the one that is built in: a program of the site's own. It has until ctx ends,
// changes nothing in the snapshot, and is asked about one round at a time. What it answers is checked like any plan;
// when it does not answer, or the plan breaks a promise, the built-in one decides that round.
type Planner interface {
	Plan(ctx context.Context, round int, c policy.Cluster, p policy.Policy, a policy.Allocator) (policy.Plan, error)
}

// Settings may change between rounds, never during one.
type Settings struct {
	Partitions []string // the managed ones
	Canary     Canary   // who of them is managed while the daemon is on trial; zero: all
	Planner    Planner  // nil: the built-in one
	Policy     policy.Policy
	Allocator  policy.Allocator
	Rules      policy.Rules
	// PreemptionShare bounds, as Rules.MaxPreemptions does, the running jobs that one round may stop: to so many as
	// this part of the GPUs of its nodes. Of both the larger counts; 0: the number alone.
	PreemptionShare float64
	Round           time.Duration // from the start of one round to the next
	Lease           time.Duration // how long a waiting job is kept from starting by itself; at least two rounds

	// Ahead is how many jobs are armed at a time: eligible for Slurm's own scheduler, with the size that they are to
	// have; 0: none.
	Ahead int

	// Certify has each round, small ones excepted, say how good its plan is.
	Certify bool

	// PreemptWithoutCheckpoint allows jobs to be stopped that declared no checkpoint. They lose what they have done.
	PreemptWithoutCheckpoint bool
	RestartCost              time.Duration // of a job of which no restart was seen, and whose profile does not say
	StartTimeout             time.Duration // after which a start that did not come about is taken back
	Poll                     time.Duration // between two looks while a round acts
	Parallel                 int           // calls in flight at once
	Hook                     Hook          // nil: none
	Shadow                   bool          // plan and report, and write nothing to Slurm
	Match                    []Match       // who in the shadow is taken to have opted in, and with which profile
	Savings                  bool          // say what is to be booked in the ledger of savings

	Keep Keep // of what users ask for in so many words

	// SaveAtLimit asks jobs that declared a checkpoint to save and leave before their time limits end them. Watched
	// says that small rounds are held every few seconds, which then see to that; otherwise rounds do it, a round ahead.
	SaveAtLimit, Watched bool

	// Explain has each round say of each waiting job why it waits, and how many go first.
	Explain bool

	// Profiled has each round, small ones excepted, report the profiles of its jobs.
	Profiled bool

	// Audit is the least time between two reports of a job's progress that are compared with its profile; 0: none are.
	Audit time.Duration

	// Sharing is how much memory the site's GPUs have, which several jobs of those that say so may use at once, and by
	// which way; zero: nobody shares one.
	Sharing Sharing
}

// Runner runs rounds. What must be known from one to the next is observed, or in the ledger; the Runner holds no more
// than the number of the last round, and what it can work out again: what has been read of jobs that have not changed,
// and what the planner has computed.
type Runner struct {
	Slurm    Slurm
	Ledger   Ledger
	Watcher  Watcher  // nil: each small round looks by itself
	Splitter Splitter // nil: arrays are left to Slurm
	Clock    Clock
	Profiles func(name string) (*sensitivity.Profile, error) // by the name in the comment
	Settings Settings
	Almanac  *Almanac // of the site's limits; nil: there are none
	Learned  Learned  // what jobs have taught; nil: the site does not learn
	Outlook  Outlook  // when jobs will start; nil: nobody has asked
	// Last is the number of the last round. Who keeps reports sets it before the first one, so that numbers go on.
	Last int

	watch   watch
	reader  reader
	last    uint64          // the moment of the last small round
	looked  time.Duration   // when it looked
	alarm   time.Duration   // when it has to look whatever a watcher says; 0: never
	spare   policy.Cluster  // memory that nobody else has
	unsplit map[int]unsplit // by array
	planner policy.Planner
	line    policy.Planner // says who is next

	sizes     whatIf           // what runs would hold, in the shadow
	idleRooms map[int]idleRoom // of jobs that no plan decides on

	checks []savings.Check // that ended since the last round
	booked time.Time       // when that was, by Slurm's clock
}

// Round runs one round from observation to settlement. On an error the round ended there; the report says what was done
// until then, and the next round starts from what it finds.
func (r *Runner) Round(ctx context.Context) (Report, error) {
	t := &turn{Runner: r, began: r.Clock.Elapsed()}
	err := t.run(ctx)
	return t.report, err
}

// Reuse takes the memory of a report's snapshot for that of a round to come. It is for those who hold many rounds and
// keep no reports: neither the caller nor the ledger may look at the snapshot any more.
func (r *Runner) Reuse(report Report) { r.spare = report.Snapshot }

// turn is one round under way.
type turn struct {
	*Runner
	began    time.Duration // on our own watch
	mark     time.Duration // when the phase under way began
	seen     []*Job        // as last observed, ascending in ID
	scene    scene
	refusals refusals // of jobs that wait
	small    bool     // nobody is stopped, and nobody waited for long
	settled  Records  // of the last round that was
	report   Report
	lessons  []taught // of this round, to be written down
}

// begin begins the report.
func (t *turn) begin() {
	t.mark, t.report.Began, t.report.Shadow, t.report.Small = t.began, t.Clock.Now(), t.Settings.Shadow, t.small
	t.report.Canary = t.Settings.Canary
	t.report.Phases = make([]Phase, 0, phases)
}

func (t *turn) run(ctx context.Context) error {
	t.begin()
	settled, intent, err := t.Ledger.Load()
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	t.number(intent)
	if err := t.observe(ctx, debts(settled, intent)); err != nil {
		return err
	}
	if err := t.decide(ctx); err != nil {
		return err
	}
	return t.carryOut(ctx, settled)
}

// carryOut writes the steps down, takes them and settles.
func (t *turn) carryOut(ctx context.Context, settled Records) error {
	saving{t}.book()
	if t.Settings.Shadow {
		return t.settle(nil)
	}
	t.settled = settled
	if err := t.intend(); err != nil {
		return err
	}
	learning{t}.teach()
	t.phase("intend")
	return t.settle(t.act(ctx))
}

// intend writes down what the round is about to do, and the debts that it makes.
func (t *turn) intend() error {
	intent := Intent{Round: t.report.Round, At: t.watch.now(t.Clock), Steps: t.report.Steps,
		Debts: t.incurred(t.settled)}
	if err := t.Ledger.Intend(intent); err != nil {
		return fmt.Errorf("write the intent down: %w", err)
	}
	return nil
}

// number counts rounds up. One that died after it had written its intent down has had its number.
func (t *turn) number(intent *Intent) {
	if intent != nil {
		t.Last, t.report.Interrupted = max(t.Last, intent.Round), intent
	}
	t.Last++
	t.report.Round = t.Last
}

func (t *turn) observe(ctx context.Context, old Records) error {
	known := t.watch.set
	if err := t.meet(ctx, old); err != nil {
		return err
	}
	anew, err := splitting{t}.split(ctx)
	if err == nil && anew {
		err = t.meet(ctx, old)
	}
	if err != nil {
		return err
	}
	if !known {
		t.believeNoGrace(t.scene.at)
	}
	t.audit(&t.scene)
	seating{t.Runner}.measure(&t.scene)
	t.scene.hearAll()
	learning{t}.learn(&t.scene)
	t.mourn(t.scene.debtors)
	t.alarm = t.nextExpiry(&t.scene)
	t.report.Outside, t.report.Ended = t.scene.outside, over(t.scene.debtors)
	t.report.Ignored = ignoredOf(t.scene.managed)
	for _, tn := range t.scene.managed {
		t.report.Notes = t.appendNotes(t.report.Notes, tn)
		if found := tn.record.Audit.Found; found != nil && t.Settings.Audit > 0 {
			t.report.Contradicting = append(t.report.Contradicting, Contradicting{tn.ID, *found})
		}
		if kept := (seating{t.Runner}).kept(tn); kept != nil {
			t.report.Slowed = append(t.report.Slowed, Slowed{tn.ID, *kept})
		}
		if found := tn.offence(); found != nil {
			t.report.Unruly = append(t.report.Unruly, *found)
		}
		if tn.ran > 0 {
			t.report.Speeds = append(t.report.Speeds, Speed{Job: tn.ID, Ran: tn.ran, Claimed: tn.claimed})
		}
	}
	t.consultAlmanac(ctx)
	t.refusals = t.refusalsOf(&t.scene)
	t.phase("observe")
	return nil
}

// meet looks, and brings the records up to what it sees.
func (t *turn) meet(ctx context.Context, old Records) error {
	seen, err := t.look(ctx, func() Records { return old })
	if err != nil {
		return err
	}
	t.seen, t.scene = seen.Jobs, t.sort(seen, old)
	account(t.scene.managed, seen.At)
	return nil
}

// ignoredOf counts the jobs that were not understood, or not believed; nil: all were.
func ignoredOf(jobs []*managedJob) (of map[Ignored]int) {
	add := func(what Ignored) {
		if of == nil {
			of = map[Ignored]int{}
		}
		of[what]++
	}
	for _, t := range jobs {
		if t.said.wrong != nil {
			add(IgnoredDirective)
		}
		if t.doubt != "" {
			add(t.ignored)
		}
	}
	return of
}

// appendNotes adds what the user of a job should know.
func (r *Runner) appendNotes(notes []Note, t *managedJob) []Note {
	if t.note != "" {
		notes = append(notes, Note{t.ID, t.note})
	}
	if t.doubt != "" {
		notes = append(notes, Note{t.ID, t.doubt})
	}
	if kept := (seating{r}).kept(t); kept != nil {
		notes = append(notes, Note{t.ID, Slowed{t.ID, *kept}.String()})
	}
	if found := t.offence(); found != nil {
		notes = append(notes, Note{t.ID, found.String()})
	}
	if t.record.Lost != "" {
		notes = append(notes, Note{t.ID, notAskedAgain})
	}
	if t.record.Returned > patient {
		notes = append(notes, Note{t.ID, comesBack})
	}
	if r.Settings.SaveAtLimit && t.saves() && r.cramped(t) {
		notes = append(notes, Note{t.ID, r.crampedNote(t)})
	}
	return notes
}

// notAskedAgain is what the user of a job should know that ended when it was asked to save, and was requeued by hand.
const notAskedAgain = "ended for good when it was last asked to save, and is not asked again: it runs until it ends, " +
	"whatever its word says"

// comesBack is what the user of a job that cannot stay should know.
const comesBack = "comes back to the queue again and again without being asked to leave, and is started less and " +
	"less often: " +
	"the requeue exit code is for a job that was asked to save"

func (t *turn) decide(ctx context.Context) error {
	t.report.Snapshot = t.snapshot(&t.scene)
	t.report.Policy, t.report.Allocator = t.Settings.Policy.Name, t.Settings.Allocator.Name
	t.limit(&t.report.Snapshot)
	if t.Settings.Shadow {
		supposing{t}.all()
	}
	if t.small {
		settle(&t.report.Snapshot)
	}
	if err := (caution{t}).careful(ctx); err != nil {
		return err
	}
	if t.Settings.Profiled && !t.small {
		t.report.Profiles, t.report.Habits = snapshot.ProfilesOf(&t.report.Snapshot), habits(t.Outlook)
	}
	t.certify()
	if t.Settings.Explain {
		t.report.Waits = t.waits()
	}
	placing{t}.handBack()
	q := queue{t}
	t.scene.arms = q.arms(t.report.Plan)
	t.scene.ahead, t.scene.behind = q.aheadOf(t.report.Plan), q.behind(t.report.Plan)
	if t.Settings.Watched || !t.small {
		t.scene.expiring = t.expiring(&t.scene, t.report.Plan, t.foresight())
	}
	if t.report.Steps = t.diff(&t.scene, t.report.Plan); t.small {
		t.report.Steps = smallSteps(&t.scene, t.report.Steps)
	}
	t.scene.pardon(t.report.Steps)
	t.phase("diff")
	return nil
}

// caution is the part of a turn that makes plans until one is safe to act on.
type caution struct{ *turn }

// careful makes a plan that stops nobody for a start that Slurm may refuse, and nobody whose place others would take.
func (t caution) careful(ctx context.Context) error {
	t.holdBack()
	t.keepUsedUp()
	if err := t.planned(ctx); err != nil {
		return err
	}
	if err := t.passOn(ctx); err != nil {
		return err
	}
	if t.daring() {
		t.holdProbes()
		if err := t.planned(ctx); err != nil {
			return err
		}
	}
	return t.uncontended(ctx)
}

// planned makes the plan, by the site's own planner or the built-in one.
func (t *turn) planned(ctx context.Context) error {
	if t.report.External = t.consult(ctx); t.report.External {
		t.phase("decide")
		return nil
	}
	return t.plan()
}

// plan asks the built-in planner.
func (t *turn) plan() error {
	t.report.Plan = t.planner.Decide(t.report.Snapshot, t.order(), t.Settings.Allocator)
	t.phase("decide")
	if err := policy.Check(t.report.Snapshot, t.report.Plan); err != nil {
		return fmt.Errorf("%w: %w", ErrPlan, err)
	}
	t.phase("check")
	return nil
}

// consult asks the site's own planner, where there is one. It says whether there is a plan that keeps all promises.
func (t *turn) consult(ctx context.Context) bool {
	if t.Settings.Planner == nil {
		return false
	}
	plan, err := t.Settings.Planner.Plan(ctx, t.report.Round, t.report.Snapshot, t.order(),
		t.Settings.Allocator)
	if err == nil {
		inForm(&t.report.Snapshot, plan)
		err = policy.Check(t.report.Snapshot, plan)
	}
	if err != nil {
		t.report.Fallback = err.Error()
		return false
	}
	t.report.Plan = plan
	return true
}

// settle writes down what became of the round, also when acting ended with an error.
func (t *turn) settle(acted error) error {
	if err := t.Ledger.Settle(t.records(), t.report); err != nil {
		return errors.Join(acted, fmt.Errorf("settle: %w", err))
	}
	t.phase("settle")
	return acted
}

// phases is how many a round has.
const phases = 12

// phase ends the phase under way.
func (t *turn) phase(name string) {
	now := t.Clock.Elapsed()
	t.report.Phases = append(t.report.Phases, Phase{name, now - t.mark})
	t.mark = now
}
