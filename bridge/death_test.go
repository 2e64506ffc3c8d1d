package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// scenario prepares a cluster so that the next round does one kind of thing. None of its jobs ends.
type scenario struct {
	name string
	set  func(w *world) slurmtest.Fault
	verb bridge.Verb // that the next round must have, done or failed
	hook bool
	arms bool // jobs that are next wait with the size that they are to have
}

const ages = 1000 * time.Hour // longer than any test

func forAges(s *slurmtest.Spec) { s.Work.Length = ages }

var scenarios = []scenario{
	{name: "grants", verb: bridge.Start, set: func(w *world) slurmtest.Fault {
		w.submit(3, model("res18"), forAges)
		w.submit(3, model("gnmt"), forAges)
		w.submit(4, model("res50"), forAges) // waits
		w.submit(1, model("alexnet"), forAges, pinned("n2"))
		return nil
	}},
	{name: "resizes", verb: bridge.Preempt, set: func(w *world) slurmtest.Fault {
		w.submit(1, model("alexnet"), forAges, pinned("n1"))
		w.rounds(2)
		for range 3 {
			w.submit(1, model("res18"), forAges, pinned("n1"))
		}
		return nil
	}},
	{name: "preempts", verb: bridge.Preempt, hook: true, set: func(w *world) slurmtest.Fault {
		// Where every place is as good as another a round that follows a death may choose another; here there is one
		// way only.
		w.runner.Settings.Policy = policy.SRTF()
		w.submit(3, model("gnmt")+" synergy-length=10h", forAges)
		w.submit(1, model("gnmt")+" synergy-length=9h", forAges, saves(7*time.Second))
		w.rounds(2)
		w.submit(3, model("gnmt")+" synergy-length=8h", forAges)
		w.rounds(1)
		w.submit(4, model("gnmt")+" synergy-length=1h", forAges, pinned("n1"))
		return nil
	}},
	{name: "preempts whom its steps requeue", verb: bridge.Preempt, set: func(w *world) slurmtest.Fault {
		w.runner.Settings.Policy = policy.SRTF()
		w.submit(4, stepped+" synergy-length=10h", forAges, requeuesItself, pinned("n1"))
		w.submit(4, stepped+" synergy-length=9h", forAges, requeuesItself, pinned("n2"), saves(7*time.Second))
		w.rounds(2)
		w.submit(4, model("gnmt")+" synergy-length=1h", forAges, pinned("n1"))
		w.submit(4, model("gnmt")+" synergy-length=1h", forAges, pinned("n2"))
		return nil
	}},
	{name: "saves before a time limit", verb: bridge.Preempt, hook: true, set: func(w *world) slurmtest.Fault {
		w.runner.Settings.SaveAtLimit = true
		w.submit(4, model("gnmt"), forAges, withLimit(944*time.Second), pinned("n1")) // 599 s until it is asked
		w.submit(4, stepped, forAges, requeuesItself, withLimit(20*time.Minute), pinned("n2"))
		w.rounds(2)
		return nil
	}},
	{name: "restores", verb: bridge.Restore, set: func(w *world) slurmtest.Fault {
		w.submit(4, model("res50"), forAges, pinned("n1"))
		w.submit(4, model("res50"), forAges, pinned("n2"))
		ids := []int{w.submit(1, model("res18"), forAges), w.submit(2, model("gnmt"), forAges)}
		w.rounds(1)
		for _, id := range ids { // as a daemon leaves them that dies while it takes back a start
			q := w.job(id).Request
			q.Pin, q.CPUsPerTask, q.CPUs, q.CPUsPerNode = []string{"n1"}, 3, 3, 3
			if err := w.slurm.Update(ctx, slurm.Update{Job: id, Begin: w.clock.Now().Add(time.Hour), Request: q,
				Extra: w.job(id).Extra}); err != nil {
				w.t.Fatal(err)
			}
		}
		return nil
	}},
	{name: "arms", verb: bridge.Arm, arms: true, set: func(w *world) slurmtest.Fault {
		w.runner.Settings.Ahead = 2
		w.submit(4, model("res50"), forAges, pinned("n1"))
		w.submit(4, model("res50"), forAges, pinned("n2"))
		w.rounds(1)
		w.submit(1, model("res18"), forAges) // armed already when the round comes
		w.rounds(1)
		w.submit(2, model("gnmt"), forAges)
		w.submit(1, model("alexnet"), forAges)
		return nil
	}},
	{name: "admits who comes while a victim saves", verb: bridge.Preempt, set: func(w *world) slurmtest.Fault {
		w.runner.Settings.Policy, w.runner.Settings.Watched = policy.SRTF(), true
		first := w.submit(4, lingers+" synergy-length=10h", forAges, saves(100*time.Second), pinned("n1"))
		w.rounds(2)
		w.submit(4, model("gnmt")+" synergy-length=1h", forAges, pinned("n1"))
		return upon(slurmtest.Signal, first, slurmtest.After, func() error {
			w.submit(1, model("res18"), forAges)
			return nil
		})
	}},
	{name: "splits", verb: bridge.Start, set: func(w *world) slurmtest.Fault {
		w.submit(1, model("res18"), forAges, tasks(6, 3))
		w.submit(2, model("gnmt"), forAges)
		return nil
	}},
	{name: "takes back", verb: bridge.Start, set: func(w *world) slurmtest.Fault {
		w.submit(1, model("res18"), forAges)
		w.submit(1, model("gnmt"), forAges, pinned("n2"))
		return fragile(w, nil)
	}},
}

// outside is everything outside of a daemon: Slurm, its ledger, its hook. The daemon dies in one of its calls there.
type outside struct {
	*world
	book   bridge.Ledger
	dies   int // the call in which it dies; 0: in none
	moment slurmtest.Moment
	calls  int
	began  time.Time
	others []int // jobs that waited with another request than their users' when it came
	intact bool  // the ledger holds all that was ever written to it
}

// daemon starts one that dies in that call, with a fault of the scenario on its line.
func (w *world) daemon(book bridge.Ledger, dies int, moment slurmtest.Moment, fault slurmtest.Fault,
	hooked bool) *outside {
	o := &outside{world: w, book: book, dies: dies, moment: moment, began: w.clock.Now(), others: w.slurm.Altered()}
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if fault != nil {
			if err := fault(c, at); err != nil {
				return err
			}
		}
		return o.strike(at)
	})
	w.runner.Ledger = o
	if w.runner.Settings.Hook = nil; hooked {
		w.runner.Settings.Hook = o
	}
	return o
}

// strike counts the calls, looks after the promises around each, and kills the daemon.
func (o *outside) strike(at slurmtest.Moment) error {
	if at == slurmtest.Before {
		o.calls++
	}
	o.mustHold()
	if o.calls == o.dies && at == o.moment {
		o.line.Die()
		return slurmtest.ErrDied
	}
	return nil
}

// mustHold checks what holds at every moment: the cluster's own promises, and that nobody waits with another request
// than its user's unless it is just being started, or has just left and was not restored.
func (o *outside) mustHold() {
	o.t.Helper()
	if err := o.slurm.Invariants(); err != nil {
		o.t.Errorf("at call %d: %v", o.calls, err)
	}
	now := o.clock.Now()
	for _, id := range o.slurm.Altered() {
		j := o.job(id)
		starts, left := !j.Begin.After(now), j.Restarts > 0 && !j.Submitted.Before(o.began)
		if !starts && !left && !slices.Contains(o.others, id) {
			o.t.Errorf("at call %d job %d waits until %s with %+v, which its user did not ask for", o.calls, id,
				j.Begin, j.Request)
		}
	}
	o.mustOwe()
}

// mustOwe checks that there is no size, pin or lease in Slurm without a debt on record: in the ledger, or, where that
// was lost, in the annotation of the job itself.
func (o *outside) mustOwe() {
	o.t.Helper()
	records, intent, err := o.book.Load()
	if err != nil {
		o.t.Fatal(err)
	}
	if intent != nil {
		records = records.With(intent.Debts)
	}
	for _, id := range o.slurm.Owing() {
		annotated := !o.intact && strings.Contains(o.job(id).Extra, `"own":`)
		if a := o.job(id).Array; a != 0 && records.Of(a) != nil && slices.Contains(o.slurm.Leased(), id) {
			continue // split off a moment ago: it carries the lease of its array, and nothing else
		}
		if records.Of(id) == nil && !annotated && !slices.Contains(o.others, id) {
			o.t.Errorf("at call %d job %d carries what it was given, and no debt is on record: %+v", o.calls, id,
				o.job(id).Request)
		}
	}
}

// call is one that is not Slurm's.
func (o *outside) call(do func() error) error {
	if o.line.Dead() {
		return slurmtest.ErrDied
	}
	if err := o.strike(slurmtest.Before); err != nil {
		return err
	}
	err := do()
	if died := o.strike(slurmtest.After); died != nil {
		return died
	}
	return err
}

func (o *outside) Load() (records bridge.Records, intent *bridge.Intent, err error) {
	err = o.call(func() (err error) { records, intent, err = o.book.Load(); return err })
	return records, intent, err
}

func (o *outside) Intend(i bridge.Intent) error {
	return o.call(func() error { return o.book.Intend(i) })
}

func (o *outside) Settle(records bridge.Records, report bridge.Report) error {
	return o.call(func() error { return o.book.Settle(records, report) })
}

func (o *outside) Before(context.Context, slurm.Job, string, time.Duration) error {
	return o.call(func() error { o.sleep(time.Second); return nil })
}

func (o *outside) After(context.Context, slurm.Job, string, time.Duration) error {
	return o.call(func() error { o.sleep(time.Second); return nil })
}

// death is how a daemon ends.
type death struct {
	call   int
	moment slurmtest.Moment
}

// fate is what becomes of the ledger when a daemon dies.
type fate func(t *testing.T, book bridge.Ledger) bridge.Ledger

func kept(_ *testing.T, book bridge.Ledger) bridge.Ledger { return book }

func lost(*testing.T, bridge.Ledger) bridge.Ledger { return &ledger.Memory{} }

// shelved is a ledger in a file, which is cut off at a part of its length when the daemon dies.
type shelved struct {
	*ledger.Book
	path string
}

func shelve(t *testing.T, path string) *shelved {
	t.Helper()
	book, err := ledger.Open(path, ledger.Options{})
	if errors.Is(err, ledger.ErrCorrupt) { // as the daemon does
		if _, err := ledger.SetAside(path, epoch); err != nil {
			t.Fatal(err)
		}
		book, err = ledger.Open(path, ledger.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	return &shelved{book, path}
}

func torn(part float64) fate {
	return func(t *testing.T, book bridge.Ledger) bridge.Ledger {
		s := book.(*shelved)
		size, err := s.Size()
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if err := os.Truncate(s.path, int64(part*float64(size))); err != nil {
			t.Fatal(err)
		}
		return shelve(t, s.path)
	}
}

// course is what a cluster came to after a round with deaths and the rounds that followed.
type course struct {
	died     int      // how many of the deaths came about
	pictures []string // after each of the rounds on schedule
	restarts []int    // of each job, in the end
	calls    int      // of the first round
}

// after is how many rounds follow the one with the deaths, each on its schedule.
const after = 3

// play sets a scenario up, has daemons die in its round one after the other, and goes on with one that lives. Rounds
// are held at the same times however many have died.
func play(t *testing.T, s scenario, book bridge.Ledger, becomes fate, deaths ...death) course {
	t.Helper()
	w := newWorld(t, 2, small)
	w.runner.Ledger = mortal{book, w.line}
	fault := s.set(w)
	due, crash, first := w.clock.Now(), time.Duration(0), book
	var c course
	for _, d := range deaths {
		o := w.daemon(book, d.call, d.moment, fault, s.hook)
		o.intact = book == first
		_, err := w.runner.Round(ctx)
		if err != nil && !errors.Is(err, slurmtest.ErrDied) {
			t.Fatalf("%+v: %v", d, err)
		}
		if err != nil {
			c.died++
			crash += w.clock.Now().Sub(o.began)
			book = becomes(t, book)
		}
	}
	for k := range after {
		o := w.daemon(book, 0, "", fault, s.hook)
		o.intact = book == first
		report, err := w.runner.Round(ctx)
		if err != nil {
			t.Fatalf("round %d after %+v: %v", k, deaths, err)
		}
		if k == 0 {
			c.calls = o.calls
			mustHave(t, s, len(deaths), report)
		}
		if !s.arms {
			w.mustBeAsSubmitted()
		}
		c.pictures = append(c.pictures, w.picture(report))
		w.sleep(due.Add(time.Duration(k+1) * w.runner.Settings.Round).Sub(w.clock.Now()))
	}
	w.mustAccount(book, crash, book == first)
	for id := range w.slurm.Submitted() {
		c.restarts = append(c.restarts, w.job(id+1).Restarts)
	}
	return c
}

// mustHave checks that the undisturbed round does what the scenario is for.
func mustHave(t *testing.T, s scenario, deaths int, report bridge.Report) {
	t.Helper()
	if deaths == 0 && !slices.ContainsFunc(report.Steps, func(step bridge.Step) bool { return step.Verb == s.verb }) {
		t.Fatalf("a round that %s has no %s: %+v", s.name, s.verb, report.Steps)
	}
}

// picture is who runs where with what, and who waits with which request, under a lease or not, and why.
func (w *world) picture(report bridge.Report) string {
	var out strings.Builder
	for id := 1; id <= w.slurm.Submitted(); id++ {
		j := w.job(id)
		fmt.Fprintf(&out, "job %d %s: ", id, j.State)
		if j.State == slurm.Running {
			fmt.Fprintf(&out, "%s on %s\n", j.Runs.PerNode, strings.Join(j.Runs.Nodes, "+"))
			continue
		}
		left := j.Begin.Sub(w.clock.Now())
		leased := left > 0 && left <= w.runner.Settings.Lease*9/8
		fmt.Fprintf(&out, "%+v, leased %v: %s\n", j.Request, leased, why(report, id))
	}
	return out.String()
}

// mustAccount compares the service that is remembered with what was had: never more, and less by no more than a round
// that died knew and did not write down.
func (w *world) mustAccount(book bridge.Ledger, crash time.Duration, kept bool) {
	w.t.Helper()
	records, _, err := book.Load()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range records {
		past, _ := w.slurm.History(r.Job)
		gpus, had := float64(r.Own.GPUs), 0.0
		for _, run := range past.Runs {
			end := run.Freed
			if end.IsZero() || end.After(r.Until) {
				end = r.Until
			}
			had += math.Max(0, end.Sub(run.Start).Seconds()) * gpus
			if run.Lost != 0 {
				w.t.Errorf("job %d lost %s of progress", r.Job, run.Lost)
			}
		}
		rounding := 2 * gpus * float64(len(past.Runs))
		if r.Attained > had+rounding {
			w.t.Errorf("job %d: %.1f GPU-seconds are remembered, it has had %.1f", r.Job, r.Attained, had)
		}
		if kept && r.Attained < had-rounding-gpus*crash.Seconds() {
			w.t.Errorf("job %d: %.1f GPU-seconds are remembered, it has had %.1f", r.Job, r.Attained, had)
		}
	}
}

// mustComeTo says whether a disturbed course came to what the undisturbed one is. A death may cost a job one restart:
// what is still being torn down when the next daemon comes is taken for occupied, and what it starts meanwhile may have
// to leave again.
func mustComeTo(t *testing.T, got, want course) {
	t.Helper()
	last := after - 1
	if got.pictures[last] != want.pictures[last] {
		t.Errorf("after %d deaths and %d rounds:\n%swant\n%s", got.died, after, got.pictures[last], want.pictures[last])
	}
	for k, n := range got.restarts {
		if n > want.restarts[k]+got.died {
			t.Errorf("after %d deaths job %d was restarted %d times, undisturbed %d times", got.died, k+1, n,
				want.restarts[k])
		}
	}
}

// TestDyingAtAnyCallToTheOutsideComesToTheSameEnd kills the daemon in every call of its round in turn, to Slurm, the
// ledger and the hook, before and after the effect of the call.
func TestDyingAtAnyCallToTheOutsideComesToTheSameEnd(t *testing.T) {
	for _, s := range scenarios {
		want := play(t, s, &ledger.Memory{}, kept)
		for _, moment := range []slurmtest.Moment{slurmtest.Before, slurmtest.After} {
			for n := 1; n <= want.calls; n++ {
				t.Run(fmt.Sprintf("%s, %s call %d of %d", s.name, moment, n, want.calls), func(t *testing.T) {
					got := play(t, s, &ledger.Memory{}, kept, death{n, moment})
					if got.died != 1 {
						t.Errorf("it did not die")
					}
					mustComeTo(t, got, want)
				})
			}
		}
	}
}

// twoDeaths draws two in a row.
func twoDeaths(t *rapid.T, calls int) []death {
	deaths := make([]death, 2)
	for k := range deaths {
		deaths[k].call = rapid.IntRange(1, calls).Draw(t, "call")
		deaths[k].moment = rapid.SampledFrom([]slurmtest.Moment{slurmtest.Before, slurmtest.After}).Draw(t, "moment")
	}
	return deaths
}

func TestDyingTwiceInARowComesToTheSameEndWhateverBecomesOfTheLedger(t *testing.T) {
	wants := map[string]course{}
	for _, s := range scenarios {
		wants[s.name] = play(t, s, &ledger.Memory{}, kept)
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.SampledFrom(scenarios).Draw(rt, "scenario")
		want := wants[s.name]
		deaths := twoDeaths(rt, want.calls)
		var book bridge.Ledger = &ledger.Memory{}
		becomes := kept
		switch rapid.SampledFrom([]string{"kept", "lost", "torn"}).Draw(rt, "ledger") {
		case "lost":
			becomes = lost
		case "torn":
			book = shelve(t, filepath.Join(t.TempDir(), "ledger"))
			becomes = torn(rapid.Float64Range(0.001, 1).Draw(rt, "part"))
		}
		mustComeTo(t, play(t, s, book, becomes, deaths...), want)
		if t.Failed() {
			rt.Fatalf("%s, %+v", s.name, deaths)
		}
	})
}
