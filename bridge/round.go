// Package bridge runs rounds against a workload manager: observe, decide, check, diff, write the intent down, act,
// settle. It sees Slurm through the port in bridge/slurm. It knows no API version, logs nothing and counts nothing.
//
// Rules that hold everywhere in it:
//
//   - A round looks at what is, never at what should have become of the last one, and every verb may be repeated. So a
//     crash needs no recovery code; crash_test.go dies at every call.
//   - The intent and the debts that it makes are written down before the first change (debt.go). A debt is dropped only
//     for what an observation shows.
//   - A job that waits under a lease carries its user's own request. Node names are written only in the update that
//     starts a job, sizes only in that one or in one that arms it (arm.go, secure.go).
//   - Free before you give: a start is written when its nodes have been left and nothing on them is completing.
//   - A start is judged only by observations that began after it was sent (start.go).
//   - A job on which no plan can decide goes back to Slurm; no job waits for ever because of us (noplace.go).
//   - Nothing is begun once the next round is due, and a hook gets half of the time that is left (act.go).
//   - Times are by Slurm's clock. The host's clock measures durations only (watch.go).
//   - Comments and annotations are untrusted. A mistake in them costs the job its profile or a directive, never the
//     round.
//
// Words that many of its files use:
//
//   - A job is managed, deferred, to be handed back or untracked (treatment in debt.go). A debt is the record of a job
//     that was sized, pinned or leased. Unmanaged jobs are all that are not managed.
//   - A lease keeps a waiting job from starting by itself (lease.go). An armed job is eligible on any node, with the
//     size that it is to have (arm.go). A secured job is one that was armed for a start of this round, before any job
//     is asked to leave (secure.go).
//   - A loan is what a job has beyond what it needs for the speed of its proportional share; a small round may recall
//     loans (small.go).
//   - A slot is a job's part of a shared GPU (share.go). A pool is the GPUs of one type on a node (pool.go).
//
// A Runner holds what stays from round to round, an activeRound what one round has found and planned, with its
// observation (view.go), and an executor what is known while the round acts (act.go). Each has the one before it as a
// field.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Clock is the clock of rounds: the host's, or a virtual one.
type Clock interface {
	// Now is the date. It may be wrong and may jump: a round reports it and computes nothing from it.
	Now() time.Time
	// Elapsed is the time since a fixed moment. It is monotonic, and not affected when the date is set.
	Elapsed() time.Duration
	// Sleep returns after d, or with ctx's error when that ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

// Hook is the administrator's program around a checkpoint. If Before fails, the job is left alone in this round. Each
// call must return within the given time, with an error if it is not done by then.
type Hook interface {
	Before(ctx context.Context, job slurm.Job, why string, within time.Duration) error
	After(ctx context.Context, job slurm.Job, why string, within time.Duration) error
}

// Planner is a site's own planner, used in place of the built-in one. It has until ctx ends, changes nothing in the
// snapshot, and is asked about one round at a time. Its plan is checked like any other. If there is no plan, or the
// plan violates a promise, the built-in planner decides that round.
type Planner interface {
	Plan(ctx context.Context, round int, c policy.Cluster, p policy.Policy, a policy.Allocator) (policy.Plan, error)
}

// Settings may change between rounds, never during one.
type Settings struct {
	Partitions []string // the managed ones
	Canary     Canary   // jobs that are managed while the daemon is on trial; zero: all
	Planner    Planner  // nil: the built-in one
	Policy     policy.Policy
	Allocator  policy.Allocator
	Rules      policy.Rules
	// PreemptionShare bounds, like Rules.MaxPreemptions, how many running jobs one round may stop: as many as this part
	// of the GPUs of the managed nodes. The larger of the two counts; 0: only the number.
	PreemptionShare float64
	Round           time.Duration // from the start of one round to the next
	Lease           time.Duration // how long a waiting job is kept from starting by itself; at least two rounds

	// Ahead is how many jobs are armed at a time: eligible for Slurm's own scheduler, with their planned sizes; 0:
	// none.
	Ahead int

	// Certify adds a proven bound to each full round: how near its plan comes to the best one.
	Certify bool

	// PreemptWithoutCheckpoint allows the preemption of jobs without a checkpoint. They lose their progress.
	PreemptWithoutCheckpoint bool
	RestartCost              time.Duration // if no restart was seen and the profile does not say
	StartTimeout             time.Duration // after which a start that did not happen is taken back
	Poll                     time.Duration // between two observations while a round acts
	Parallel                 int           // calls in flight at once
	Hook                     Hook          // nil: none
	Shadow                   bool          // plan and report, and write nothing to Slurm
	Match                    []Match       // rules for jobs without a directive, in shadow mode
	Savings                  bool          // report what is to be entered in the ledger of savings

	// Looks is how long Slurm's schedulers may take to consider a job that has become eligible: no start is taken back
	// before that. 0: unknown or negligible.
	Looks time.Duration

	Keep Keep // which explicit requests are lower bounds

	// SaveAtLimit asks jobs that declared a checkpoint to save and leave before their time limits. Watched says that
	// small rounds are held every few seconds, which do this in time; otherwise full rounds do it, one round ahead.
	SaveAtLimit, Watched bool

	// Explain makes each round report why each job waits, and how many jobs go before it.
	Explain bool

	// Profiled makes each full round report the profiles of its jobs.
	Profiled bool

	// Audit is the least time between two progress reports that are compared with a job's profile; 0: none are.
	Audit time.Duration

	// Sharing says how much memory the site's GPUs have, and how jobs that opt in share one; zero: no GPU is shared.
	Sharing Sharing
}

// Runner runs rounds. What must be known from one round to the next is observed or in the ledger. The Runner itself
// keeps only the number of the last round, and caches that can be computed again: what was read of unchanged jobs, and
// what the planner has worked out.
type Runner struct {
	Slurm    slurm.Manager
	Ledger   Ledger
	Watcher  slurm.Watcher  // nil: each small round observes
	Splitter slurm.Splitter // nil: arrays are left to Slurm
	Leases   slurm.Leases   // nil: there is no lease job
	Clock    Clock
	Profiles func(name string) (*sensitivity.Profile, error) // by the name in the comment
	Settings Settings
	Limits   *LimitsCache // cache of the site's limits; nil: there are none
	Learned  Learned      // what was learned from jobs; nil: the site does not learn
	Outlook  Outlook      // estimate of when jobs start; nil: there is none
	// Last is the number of the last round. A caller that keeps reports sets it before the first round, so that numbers
	// go on.
	Last int

	watch          slurmClock
	cache          observationCache
	lastSituation  uint64               // fingerprint of the last small round, see ownerIndex.situationHash
	lastSmallLook  time.Duration        // when the last small round observed
	nextForcedLook time.Duration        // when the next one must observe whatever the watcher says; 0: never
	spare          policy.Cluster       // memory for the next snapshot, used by nothing else
	splitFailures  map[int]splitFailure // by array
	planner        policy.Planner
	queuePlanner   policy.Planner // finds the next jobs in line
	leasing        leaseJobState

	sizes     whatIfSizes                             // sizes that runs would have, in shadow mode
	idleRooms map[int]idleRoom                        // of unmanaged jobs that wait
	check     func(policy.Cluster, policy.Plan) error // in place of policy.Check, in tests; nil: policy.Check

	checks []savings.Check // windows of progress that ended since the last round
	booked time.Time       // when savings were last reported, by Slurm's clock
}

// Round runs one round from observation to settlement. An error ends the round; the report says what was done until
// then, and the next round starts from what it observes.
func (r *Runner) Round(ctx context.Context) (Report, error) {
	t := &activeRound{runner: r, began: r.Clock.Elapsed()}
	err := t.run(ctx)
	return t.report, err
}

// Reuse takes the memory of a report's snapshot for a later round. It is for callers that run many rounds and keep no
// reports: neither the caller nor the ledger may use the snapshot afterwards.
func (r *Runner) Reuse(report Report) { r.spare = report.Snapshot }

// activeRound is one round under way.
type activeRound struct {
	runner      *Runner
	began       time.Duration // on the host's monotonic clock
	phaseBegan  time.Duration // when the present phase began
	seen        []*slurm.Job  // as last observed, ascending in ID
	observation sortedObservation
	refusals    refusals // of waiting jobs
	small       bool     // a small round, see SmallRound
	settled     Records  // of the last round that settled
	report      Report
	lessons     []entryUpdate // learned in this round, to be stored
}

// begin starts the first phase and fills in what the report says from the beginning, so that a report of a round that
// fails has it, too.
func (t *activeRound) begin() {
	t.phaseBegan, t.report.Began, t.report.Small = t.began, t.runner.Clock.Now(), t.small
	t.report.Shadow = t.runner.Settings.Shadow
	t.report.Canary = t.runner.Settings.Canary
	t.report.Phases = make([]Phase, 0, phases)
}

// run is a full round: it takes its number, observes, decides, and carries out. An error ends it, and the next round
// begins at its observation.
func (t *activeRound) run(ctx context.Context) error {
	t.begin()
	settled, intent, err := t.runner.Ledger.Load()
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

// carryOut stores the intent, takes the steps and settles. If the lease job cannot be renewed no step is taken: the
// waiting jobs may become free at any moment. In shadow mode it only settles. settled are the records of the last
// round.
func (t *activeRound) carryOut(ctx context.Context, settled Records) error {
	bookSavings(t)
	if t.runner.Settings.Shadow {
		return t.settle(nil)
	}
	t.settled = settled
	if err := t.intend(); err != nil {
		return err
	}
	storeLearned(t)
	t.phase("intend")
	if err := t.renewLease(ctx); err != nil {
		newExecutor(t).closeOpenSteps() // nothing was begun
		return t.settle(fmt.Errorf("renew the lease: %w", err))
	}
	return t.settle(t.act(ctx))
}

// intend stores what the round is about to do, and the debts that it makes. A later process needs that to restore jobs
// if this one dies.
func (t *activeRound) intend() error {
	intent := Intent{Round: t.report.Round, At: t.runner.watch.now(t.runner.Clock), Steps: t.report.Steps,
		Debts: t.newDebts(t.settled)}
	if err := t.runner.Ledger.Intend(intent); err != nil {
		return fmt.Errorf("write the intent down: %w", err)
	}
	return nil
}

// number gives the round its number: one more than the last. A round that died after it had stored its intent has used
// its number up; the report then shows that intent (Interrupted).
func (t *activeRound) number(intent *Intent) {
	if intent != nil {
		t.runner.Last, t.report.Interrupted = max(t.runner.Last, intent.Round), intent
	}
	t.runner.Last++
	t.report.Round = t.runner.Last
}

// observe reads the cluster, takes the jobs' own reports into account, refreshes the limits, and fills the report's
// part about all of that. If it gives tasks of arrays jobs of their own, it reads the cluster again. old are the
// records and debts so far.
func (t *activeRound) observe(ctx context.Context, old Records) error {
	known := t.runner.watch.set
	if err := t.observeAndAccount(ctx, old); err != nil {
		return err
	}
	anew, err := splitArrays(ctx, t)
	if err == nil && anew {
		err = t.observeAndAccount(ctx, old)
	}
	if err != nil {
		return err
	}
	// The first observation of this process: another one may have asked jobs to leave.
	if !known {
		t.restartGraces(t.observation.at)
	}
	t.runner.auditSpeeds(&t.observation)
	measureShared(t.runner, &t.observation)
	t.observation.addReports()
	learnProfiles(t, &t.observation)
	t.reportLostJobs(t.observation.debtors)
	t.runner.nextForcedLook = t.runner.nextExpiry(&t.observation)
	t.report.Outside, t.report.Ended = t.observation.outside, endedJobs(t.observation.debtors)
	t.report.Ignored = ignoredOf(t.observation.managed)
	for _, tn := range t.observation.managed {
		t.report.Notes = t.runner.appendNotes(t.report.Notes, tn)
		if found := tn.record.Audit.Found; found != nil && t.runner.Settings.Audit > 0 {
			t.report.Contradicting = append(t.report.Contradicting, Contradicting{tn.ID, *found})
		}
		if kept := keptSpeed(t.runner, tn); kept != nil {
			t.report.Slowed = append(t.report.Slowed, Slowed{tn.ID, *kept})
		}
		if found := tn.offence(); found != nil {
			t.report.Unruly = append(t.report.Unruly, *found)
		}
		if tn.measuredSpeed > 0 {
			t.report.Speeds = append(t.report.Speeds, Speed{Job: tn.ID, Ran: tn.measuredSpeed, Claimed: tn.claimed})
		}
	}
	t.refreshLimits(ctx)
	t.refusals = t.runner.refusalsOf(&t.observation)
	t.phase("observe")
	return nil
}

// observeAndAccount observes once, sorts the jobs, and brings the records of managed jobs up to date: what they
// attained and how far they have come.
func (t *activeRound) observeAndAccount(ctx context.Context, old Records) error {
	seen, err := t.observeOnce(ctx, func() Records { return old })
	if err != nil {
		return err
	}
	t.seen, t.observation = seen.Jobs, t.runner.sort(seen, old)
	updateRecords(t.observation.managed, seen.At)
	return nil
}

// ignoredOf counts, for the report, the jobs whose directives or reports are ignored, by kind; nil: none are.
func ignoredOf(jobs []*managedJob) (of map[Ignored]int) {
	add := func(what Ignored) {
		if of == nil {
			of = map[Ignored]int{}
		}
		of[what]++
	}
	for _, t := range jobs {
		if t.directives.Err() != nil {
			add(IgnoredDirective)
		}
		if t.ignoredReason != "" {
			add(t.ignored)
		}
	}
	return of
}

// appendNotes appends what a job's user should know or correct. The notes are shown to users because most of what they
// name can only be changed by the user.
func (r *Runner) appendNotes(notes []Note, t *managedJob) []Note {
	if t.note != "" {
		notes = append(notes, Note{t.ID, t.note})
	}
	if t.ignoredReason != "" {
		notes = append(notes, Note{t.ID, t.ignoredReason})
	}
	if kept := keptSpeed(r, t); kept != nil {
		notes = append(notes, Note{t.ID, Slowed{t.ID, *kept}.String()})
	}
	if found := t.offence(); found != nil {
		notes = append(notes, Note{t.ID, found.String()})
	}
	if t.record.Lost != "" {
		notes = append(notes, Note{t.ID, notAskedAgain})
	}
	if t.record.Returned > maxReturns {
		notes = append(notes, Note{t.ID, comesBack})
	}
	if r.Settings.SaveAtLimit && t.canSave() && r.limitTooShortToAsk(t) {
		notes = append(notes, Note{t.ID, r.shortLimitNote(t)})
	}
	return notes
}

// notAskedAgain is the note for a job that ended when it was asked to save and was then requeued by its user.
const notAskedAgain = "ended for good when it was last asked to save, and is not asked again: it runs until it ends, " +
	"whatever its word says"

// comesBack is the note for a job that keeps returning to the queue unasked.
const comesBack = "comes back to the queue again and again without being asked to leave, and is started less and " +
	"less often: " +
	"the requeue exit code is for a job that was asked to save"

// decide makes the snapshot, the plan, and the steps that lead to it. It writes nothing to Slurm or the ledger. In a
// small round running jobs stay, except that loans may be recalled. Before the steps are made, jobs without a place are
// marked to be handed back, since no plan can start them.
func (t *activeRound) decide(ctx context.Context) error {
	t.report.Snapshot = t.runner.snapshot(&t.observation)
	t.report.Policy, t.report.Allocator = t.runner.Settings.Policy.Name, t.runner.Settings.Allocator.Name
	t.applyLimits(&t.report.Snapshot)
	if t.runner.Settings.Shadow {
		applyCounterfactualSizes(t)
	}
	if t.small {
		keepRunningButRecall(&t.report.Snapshot)
	}
	if err := planSafely(ctx, t); err != nil {
		return err
	}
	if t.runner.Settings.Profiled && !t.small {
		t.report.Profiles, t.report.Habits = snapshot.ProfilesOf(&t.report.Snapshot), habits(t.runner.Outlook)
	}
	t.certify()
	if t.runner.Settings.Explain {
		t.report.Waits = t.waits()
	}
	markHandBacks(t)
	t.observation.mayArm = mayArm(t, t.report.Plan)
	t.observation.jobsToArm = jobsToArm(t, t.report.Plan)
	t.observation.jobsBehindBlocked = jobsBehindBlocked(t, t.report.Plan)
	if t.runner.Settings.Watched || !t.small {
		t.observation.expiring = t.runner.expiring(&t.observation, t.report.Plan, t.expiryHorizon())
	}
	if t.report.Steps = t.runner.diff(&t.observation, t.report.Plan); t.small {
		t.report.Steps = smallSteps(&t.observation, t.report.Steps)
	}
	t.observation.forgetIgnoredRequests(t.report.Steps)
	t.phase("diff")
	return nil
}

// planSafely makes a plan that preempts no job in vain: none for a start that Slurm may refuse, and none whose place
// another job would get first. Until that holds it plans again, with more waiting jobs barred (they may not start) or
// more running jobs fixed (they stay as they are).
func planSafely(ctx context.Context, t *activeRound) error {
	barRefused(t)
	fixUsageLimited(t)
	if err := t.makePlan(ctx); err != nil {
		return err
	}
	if err := replaceStuckProbes(ctx, t); err != nil {
		return err
	}
	if preemptsForUnsureStart(t) {
		holdProbes(t)
		if err := t.makePlan(ctx); err != nil {
			return err
		}
	}
	return replanWithoutContended(ctx, t)
}

// makePlan makes a plan with the site's own planner or the built-in one.
func (t *activeRound) makePlan(ctx context.Context) error {
	if t.report.External = t.askSitePlanner(ctx); t.report.External {
		t.phase("decide")
		return nil
	}
	return t.planBuiltIn()
}

// planBuiltIn asks the built-in planner. A plan that violates a promise is a fault of the planner, nearly always in
// what it does to running jobs. So a second plan is made in which all running jobs stay: a round that did nothing would
// start no job, and leases would end if the next rounds fared no better. If the second plan violates a promise, too,
// the round ends with ErrPlan.
func (t *activeRound) planBuiltIn() error {
	for {
		t.report.Plan = t.runner.planner.Decide(t.report.Snapshot, t.roundPolicy(), t.runner.Settings.Allocator)
		t.phase("decide")
		err := t.runner.checkPlan(t.report.Snapshot, t.report.Plan)
		if err == nil {
			t.phase("check")
			return nil
		}
		if t.report.Refused != "" {
			return fmt.Errorf("%w: %w", ErrPlan, err)
		}
		t.report.Refused = err.Error()
		fixRunning(&t.report.Snapshot)
	}
}

// checkPlan is policy.Check, or the replacement that a test has set.
func (r *Runner) checkPlan(c policy.Cluster, p policy.Plan) error {
	if r.check != nil {
		return r.check(c, p)
	}
	return policy.Check(c, p)
}

// askSitePlanner asks the site's own planner, if there is one, and rounds its grants to what Slurm can give. It returns
// true if there is a plan that keeps all promises. If not, the report says why (Fallback) and the built-in planner
// decides, so no error is returned.
func (t *activeRound) askSitePlanner(ctx context.Context) bool {
	if t.runner.Settings.Planner == nil {
		return false
	}
	plan, err := t.runner.Settings.Planner.Plan(ctx, t.report.Round, t.report.Snapshot, t.roundPolicy(),
		t.runner.Settings.Allocator)
	if err == nil {
		roundMemoryPerCore(&t.report.Snapshot, plan)
		err = policy.Check(t.report.Snapshot, plan)
	}
	if err != nil {
		t.report.Fallback = err.Error()
		return false
	}
	t.report.Plan = plan
	return true
}

// settle stores the records and the report, also after an error in acting (acted), which it returns: what was done
// before the error must be remembered.
func (t *activeRound) settle(acted error) error {
	if err := t.runner.Ledger.Settle(t.records(), t.report); err != nil {
		return errors.Join(acted, fmt.Errorf("settle: %w", err))
	}
	t.phase("settle")
	return acted
}

// phases is the largest number of phases of a round.
const phases = 12

// phase ends the present phase of the round and reports under this name how long it took.
func (t *activeRound) phase(name string) {
	now := t.runner.Clock.Elapsed()
	t.report.Phases = append(t.report.Phases, Phase{name, now - t.phaseBegan})
	t.phaseBegan = now
}
