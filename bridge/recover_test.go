package bridge_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

// Slurm requeues the jobs of a lost node with all that they carry, the pin to that node included.
func TestAJobOfALostNodeIsFreeToStartAnywhereAfterOneRound(t *testing.T) {
	for _, lost := range []string{"nothing", "the daemon", "the daemon and its ledger"} {
		t.Run("with "+lost, func(t *testing.T) {
			w := newWorld(t, 2, server)
			w.submit(8, model("res50"), pinned("n2"))
			id := w.submit(1, model("res18"))
			own := w.job(id).Request
			w.rounds(1)
			w.mustRun(id, "n1", 9)
			w.slurm.Down("n1")
			if strings.HasSuffix(lost, "ledger") {
				w.book = &ledger.Memory{}
			}
			if lost != "nothing" {
				w.start(nil)
			}
			w.rounds(1)
			w.mustBeAsSubmitted()
			if j := w.job(id); j.State != slurm.Pending || fmt.Sprint(j.Request) != fmt.Sprint(own) {
				t.Errorf("%s with %+v, want it waiting with %+v", j.State, j.Request, own)
			}
			w.slurm.Resume("n1")
			w.rounds(1)
			w.mustRun(id, "n1", 9)
		})
	}
}

func TestAJobThatWasRequeuedKeepsItsPlaceInTheQueueWithoutTheLedger(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, _ := challenge(w, model("gnmt"))
	w.rounds(1)
	w.book = &ledger.Memory{}
	w.start(nil)
	for _, j := range w.round().Snapshot.Jobs {
		if j.ID == first && !j.Arrival.Equal(epoch) {
			t.Errorf("arrived at %s, want %s, as before its restart", j.Arrival, epoch)
		}
	}
}

// Nobody told the victim to wait when it had left, so Slurm has started it again after its penalty.
func TestAVictimThatSlurmHasStartedAgainIsAskedAgain(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, second := challenge(w, model("gnmt"), func(s *slurmtest.Spec) { s.Work.OnTerm = slurmtest.Dies })
	w.start(upon(slurmtest.Signal, first, slurmtest.After, die))
	if _, err := w.runner.Round(ctx); !errors.Is(err, slurmtest.ErrDied) {
		t.Fatalf("round: %v, want it to die", err)
	}
	w.sleep(200 * time.Second)
	w.mustRun(first, "n1", 1)
	w.start(nil)
	w.round()
	if n := w.line.Count(slurmtest.Signal); n != 1 {
		t.Errorf("signalled %d times in its new run, and stopped by force %d times", n, w.line.Count(slurmtest.Requeue))
	}
	w.mustRun(second, "n1", 1)
	w.mustKeepAll(first)
}

func TestAJobThatWasHeldForARoundKeepsTheServiceItHasHad(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("res18"))
	w.submit(1, model("res18")) // a neighbour: the records of both are kept in order
	w.rounds(3)
	if err := w.slurm.Requeue(ctx, id); err != nil {
		t.Fatal(err)
	}
	w.slurm.Hold(id)
	w.rounds(2)
	w.slurm.Release(id)
	if j := w.round().Snapshot.Jobs[0]; j.Attained < 890 || j.Attained > 910 {
		t.Errorf("%.0f GPU-seconds of service, it has had 900", j.Attained)
	}
}

func TestTheNumbersOfRoundsGoOnOverACrash(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(1, model("res18"))
	w.rounds(3)
	id := w.submit(1, model("res18"))
	last := w.runner.Last
	w.start(upon(slurmtest.Update, id, slurmtest.Before, die))
	w.runner.Last = last
	if _, err := w.runner.Round(ctx); !errors.Is(err, slurmtest.ErrDied) {
		t.Fatalf("round: %v, want it to die", err)
	}
	w.start(nil)
	w.runner.Last = last
	if report := w.round(); report.Round != 5 {
		t.Errorf("round %d follows the fourth, which died", report.Round)
	}
}

// broken is a ledger of which one part fails.
type broken struct {
	bridge.Ledger
	load, intend, settle error
}

func (b broken) Load() (bridge.Records, *bridge.Intent, error) {
	records, intent, err := b.Ledger.Load()
	return records, intent, errors.Join(b.load, err)
}

func (b broken) Intend(i bridge.Intent) error { return errors.Join(b.intend, b.Ledger.Intend(i)) }

func (b broken) Settle(records bridge.Records, report bridge.Report) error {
	return errors.Join(b.settle, b.Ledger.Settle(records, report))
}

func TestNothingIsWrittenToSlurmThatTheLedgerDoesNotKnow(t *testing.T) {
	full := errors.New("no space left on device")
	for _, c := range []struct {
		ledger broken
		says   string
		calls  int // to Slurm
	}{
		{broken{load: full}, "read the ledger: no space left on device", 0},
		{broken{intend: full}, "write the intent down: no space left on device", 1},
		{broken{settle: full}, "settle: no space left on device", 3}, // look, start, look again
	} {
		w := newWorld(t, 1, server)
		w.submit(1, model("res18"))
		c.ledger.Ledger = w.book
		w.runner.Ledger = c.ledger
		_, err := w.runner.Round(ctx)
		if !errors.Is(err, full) || err.Error() != c.says {
			t.Errorf("round: %v, want %s", err, c.says)
		}
		if n := len(w.line.Calls()); n != c.calls {
			t.Errorf("%s: %d calls to Slurm, want %d", c.says, n, c.calls)
		}
	}
}

func TestARoundTellsBothWhatStoppedItAndThatItCouldNotBeSettled(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("res18"))
	w.start(upon(slurmtest.Update, id, slurmtest.Before, func() error { return slurm.ErrDenied }))
	full := errors.New("no space left on device")
	w.runner.Ledger = broken{Ledger: w.book, settle: full}
	if _, err := w.runner.Round(ctx); !errors.Is(err, full) || !errors.Is(err, slurm.ErrDenied) ||
		!strings.Contains(err.Error(), "start job 1") {
		t.Errorf("round: %v", err)
	}
}

func TestARoundThatCannotSeeSlurmDoesNothingMore(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("res18"))
	for _, n := range []int{1, 3} { // before it acts, and while it follows
		w.start(slurmtest.FailAt(n, slurmtest.Before, slurm.ErrUnreachable))
		if _, err := w.runner.Round(ctx); err == nil || err.Error() != "observe: slurm controller unreachable" {
			t.Errorf("call %d: %v", n, err)
		}
		if got := len(w.line.Calls()); got != n {
			t.Errorf("%d calls, want none after call %d", got, n)
		}
		w.sleep(w.runner.Settings.Round)
		w.slurm.Cancel(id)
		id = w.submit(1, model("res18"))
	}
}

func TestEveryPartOfARoundIsTimedInItsOrder(t *testing.T) {
	for shadow, want := range map[bool][]string{
		false: {"observe", "decide", "check", "diff", "intend", "lease", "ask", "follow", "arm", "renew", "settle"},
		true:  {"observe", "decide", "check", "diff", "settle"},
	} {
		w := newWorld(t, 1, oneGPU)
		_, second := challenge(w, model("gnmt"), saves(7*time.Second))
		w.runner.Settings.Shadow = shadow
		report := w.round()
		took := w.clock.Now().Sub(report.Began)
		var names []string
		for _, p := range report.Phases {
			names, took = append(names, p.Name), took-p.Took
		}
		if took != 0 || !shadow && step(t, report, second, bridge.Start).Took < 7*time.Second {
			t.Errorf("%s of the round are in no phase of %+v, or in two", took, report.Phases)
		}
		if !slices.Equal(names, want) || report.Shadow != shadow {
			t.Errorf("phases %v, want %v", names, want)
		}
	}
}

func TestARoundThatWasCutShortIsTold(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("res18"))
	w.start(slurmtest.DieAt(2, slurmtest.Before))
	if _, err := w.runner.Round(ctx); !errors.Is(err, slurmtest.ErrDied) {
		t.Fatalf("round: %v, want it to die", err)
	}
	w.start(nil)
	report := w.round()
	if i := report.Interrupted; i == nil || i.Round != report.Round-1 || len(i.Steps) != 1 || i.Steps[0].Job != id {
		t.Errorf("round %d tells of %+v", report.Round, i)
	}
	if i := w.round().Interrupted; i != nil {
		t.Errorf("told twice: %+v", i)
	}
}
