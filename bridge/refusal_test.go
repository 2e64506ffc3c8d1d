package bridge_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// strict is a Slurm that starts none of these jobs beyond so many that run, and says which limit that is. It does so as
// slurmctld does: the update is taken, and the job waits with a reason.
type strict struct {
	slurm.Manager
	reason string
	jobs   []int
	most   int
	in     string // the only partition in which it is that strict; empty: all

	mu      sync.Mutex
	refused map[int]bool
	taken   map[int]bool // starts that it accepted, whether or not they have come about
	tries   int          // starts of its jobs
}

func (s *strict) Update(ctx context.Context, u slurm.Update) error {
	if !slices.Contains(s.jobs, u.Job) {
		return s.Manager.Update(ctx, u)
	}
	seen, err := s.Manager.Observe(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	held := 0
	for _, j := range seen.Jobs {
		if slices.Contains(s.jobs, j.ID) && (j.State == slurm.Running || s.taken[j.ID] && j.ID != u.Job) {
			held++
		}
	}
	delete(s.refused, u.Job)
	starts := !u.Begin.After(seen.At)
	if s.in != "" && u.Request.Partition != s.in {
		return s.Manager.Update(ctx, u)
	}
	if s.taken[u.Job] = starts && held < s.most; starts {
		s.tries++
	}
	if starts && !s.taken[u.Job] {
		s.refused[u.Job] = true
		u.Begin = seen.At.Add(24 * time.Hour)
	}
	return s.Manager.Update(ctx, u)
}

func (s *strict) Observe(ctx context.Context) (slurm.Observed, error) {
	seen, err := s.Manager.Observe(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	seen.Jobs = slices.Clone(seen.Jobs)
	for i, j := range seen.Jobs {
		if s.refused[j.ID] {
			own := *j
			own.Begin, own.Reason = time.Time{}, s.reason
			seen.Jobs[i] = &own
		}
	}
	return seen, err
}

// refusing puts a strict Slurm before a world.
func refusing(w *world, reason string, most int, jobs ...int) *strict {
	s := &strict{Manager: w.runner.Slurm, reason: reason, most: most, jobs: jobs, refused: map[int]bool{},
		taken: map[int]bool{}}
	w.runner.Slurm = s
	return s
}

const grp = "Slurm does not start it (AssocGrpGRES): its account's limit on GPUs is reached"

// crowd are jobs of alice, then some of bob.
func crowd(w *world, alice, bob int) (alices, bobs []int) {
	user := func(name string) func(*slurmtest.Spec) {
		return func(s *slurmtest.Spec) { s.User, s.Work.Length = name, 100*time.Hour }
	}
	for range alice {
		alices = append(alices, w.submit(1, model("gnmt"), user("alice")))
	}
	for range bob {
		bobs = append(bobs, w.submit(1, model("gnmt"), user("bob")))
	}
	return alices, bobs
}

func running(w *world, ids []int) (n int) {
	for _, id := range ids {
		if w.job(id).State == slurm.Running {
			n++
		}
	}
	return n
}

func TestARefusalIsToldWithSlurmsReasonAndTakenBackAtOnce(t *testing.T) {
	w := newWorld(t, 1, server)
	alice, _ := crowd(w, 2, 0)
	refusing(w, "AssocGrpGRES", 1, alice...)
	began := w.clock.Now()
	report := w.round()
	if s := step(t, report, alice[1], bridge.Start); s.Error != grp {
		t.Errorf("%+v", s)
	}
	if took := w.clock.Now().Sub(began); took > 3*time.Second {
		t.Errorf("known after %s", took)
	}
	if j := w.job(alice[1]); !strings.Contains(j.Extra, grp+"; it is tried again") || len(j.Request.Pin) > 0 ||
		!j.Begin.After(w.clock.Now()) {
		t.Errorf("%+v", j)
	}
	if rec := w.record(alice[1]); rec.Failed != 0 || rec.Refused.Reason != "AssocGrpGRES" || rec.Refused.Times != 1 {
		t.Errorf("%+v", rec)
	}
}

func TestWhatSlurmRefusesToOneItIsAskedForOneAtATime(t *testing.T) {
	w := newWorld(t, 3, server)
	alice, bob := crowd(w, 16, 6)
	s := refusing(w, "AssocGrpGRES", 2, alice...)
	w.rounds(1)
	if n := running(w, bob); n != 6 {
		t.Errorf("%d of bob's 6 jobs run after the first round", n)
	}
	for n := range 5 {
		s.tries = 0
		report := w.rounds(1)
		if s.tries != 1 || running(w, alice) != 2 {
			t.Errorf("round %d: %d tries, %d run", n, s.tries, running(w, alice))
		}
		told := 0
		for _, d := range report.Plan.Decisions {
			if strings.Contains(d.Why, grp) {
				told++
			}
		}
		if told != 13 {
			t.Errorf("round %d: %d jobs are told, want all but those that run and the one that is tried", n, told)
		}
	}
}

// Alice's first job starts where there is room, and is refused. Her second waits for bob's to leave.
func TestStartsLikeOneThatIsRefusedAreNotBegunInTheSameRound(t *testing.T) {
	w := newWorld(t, 2, oneGPU)
	w.runner.Settings.Policy = policy.LAS()
	_, bob := crowd(w, 0, 1)
	w.rounds(2)
	alice, _ := crowd(w, 2, 0)
	s := refusing(w, "AssocGrpGRES", 0, alice...)
	report := w.rounds(1)
	one, two := step(t, report, alice[0], bridge.Start), step(t, report, alice[1], bridge.Start)
	if one.Error != grp || !two.PutOff || two.Error != "" || s.tries != 1 {
		t.Errorf("%d tries: %+v and %+v", s.tries, one, two)
	}
	w.rounds(1)
	if w.job(bob[0]).State != slurm.Running {
		t.Error("bob's job does not go on")
	}
}

// Slurm's reason is from before: it has refused the job by itself, after its lease had lapsed.
func TestAReasonFromBeforeTheStartIsNone(t *testing.T) {
	w := newWorld(t, 1, server)
	alice, _ := crowd(w, 1, 0)
	refusing(w, "AssocGrpGRES", 1, alice...).refused[alice[0]] = true
	if report := w.rounds(1); step(t, report, alice[0], bridge.Start).Error != "" || running(w, alice) != 1 {
		t.Errorf("%+v", report.Steps)
	}
}

func TestTheMoreOftenSlurmRefusesTheLessOftenItIsAsked(t *testing.T) {
	w := newWorld(t, 1, server)
	alice, _ := crowd(w, 4, 0)
	s := refusing(w, "AssocGrpGRES", 1, alice...)
	w.round()
	s.tries = 0
	for range 150 {
		w.small()
		w.sleep(2 * time.Second)
	}
	if s.tries < 3 || s.tries > 6 {
		t.Errorf("asked %d times in five minutes, want after 10 s, 20 s, 40 s, …", s.tries)
	}
}

func TestAnotherUsersJobsAndOtherAccountsAreNotHeldBack(t *testing.T) {
	w := newWorld(t, 2, server)
	alice, bob := crowd(w, 3, 3)
	refusing(w, "AssocGrpGRES", 0, alice...)
	w.rounds(1)
	for n := range 3 {
		if running(w, bob) != 3 {
			t.Errorf("round %d: %d of bob's run", n, running(w, bob))
		}
		w.rounds(1)
	}
}

func TestAReasonOfAJobsOwnHoldsNobodyElseBack(t *testing.T) {
	w := newWorld(t, 2, server)
	one, _ := crowd(w, 1, 0)
	refusing(w, "Licenses", 0, one...)
	w.round()
	others, _ := crowd(w, 2, 0)
	w.round()
	if running(w, others) != 2 {
		t.Error("alice's jobs that need no licenses wait")
	}
}

func TestAfterOneIsAcceptedTheNextIsTriedAtOnce(t *testing.T) {
	w := newWorld(t, 2, server)
	alice, _ := crowd(w, 8, 0)
	s := refusing(w, "AssocGrpGRES", 2, alice...)
	w.rounds(3)
	s.most = 5 // somebody has raised the limit
	for want := 3; want <= 5; want++ {
		w.small()
		w.sleep(2 * time.Second)
		if n := running(w, alice); n != want {
			t.Errorf("%d run, want %d", n, want)
		}
	}
	for _, id := range alice {
		if rec := w.record(id); w.job(id).State == slurm.Running && rec.Refused != (bridge.Refusal{}) {
			t.Errorf("job %d runs, and its record says %+v", id, rec.Refused)
		}
	}
	w.small()
	for _, id := range alice {
		if times := w.record(id).Refused.Times; times > 1 {
			t.Errorf("job %d was refused %d times since one like it was accepted", id, times)
		}
	}
	s.tries = 0
	for range 10 {
		w.small()
		w.sleep(2 * time.Second)
	}
	if s.tries < 1 || s.tries > 2 {
		t.Errorf("%d tries in 20 s in which nothing changes", s.tries)
	}
}

func TestASmallRoundTriesWhatWasRefused(t *testing.T) {
	w := newWorld(t, 1, server)
	alice, _ := crowd(w, 2, 0)
	s := refusing(w, "AssocGrpGRES", 1, alice...)
	w.round()
	s.most = 2
	if _, held := w.small(); held {
		t.Error("tried again at once")
	}
	w.sleep(15 * time.Second)
	w.small()
	if n := running(w, alice); n != 2 {
		t.Errorf("%d run when the limit is raised", n)
	}
}

// The second job goes first, but Slurm has refused it: nobody has to leave for it as long as it has not been accepted.
func TestNobodyIsStoppedForAJobThatSlurmRefuses(t *testing.T) {
	w := newWorld(t, 1, gres.Vector{GPUs: 2, CPUs: 6, Memory: 125_000})
	ages := func(s *slurmtest.Spec) { s.Work.Length = 100 * time.Hour }
	first, second := challenge(w, model("gnmt"), ages)
	s := refusing(w, "AssocGrpBilling", 0, second)
	w.rounds(1)
	third := w.submit(1, model("gnmt"), ages)
	w.rounds(1)
	w.mustRun(third, "n1", 1)
	s.tries = 0
	w.rounds(5)
	if restarts := w.job(first).Restarts + w.job(third).Restarts; restarts > 0 || s.tries > 0 {
		t.Errorf("%d jobs stopped for %d starts that Slurm refuses", restarts, s.tries)
	}
	if why := w.job(second).Extra; !strings.Contains(why, "its account's limit on billing is reached") {
		t.Errorf("told %s", why)
	}
	s.most = 1
	w.slurm.Cancel(third)
	w.sleep(time.Minute)
	w.rounds(1)
	if w.job(second).State != slurm.Running {
		t.Error("waits although room is free and Slurm would start it")
	}
}

// The big job is tried first, since it comes first, and finds no room for days; the small one behind it has room at
// once.
func TestWhoIsToBeTriedAndFindsNoRoomKeepsNobodyLikeItWaiting(t *testing.T) {
	w := newWorld(t, 1, server)
	alice, _ := crowd(w, 1, 0)
	w.submit(4, "", forAges, func(s *slurmtest.Spec) { s.Partition, s.Lease = "other", 0 })
	w.sleep(time.Second)
	of := func(s *slurmtest.Spec) { s.User = "alice" }
	big, small := w.submit(8, model("gnmt"), forAges, of), w.submit(1, model("gnmt"), forAges, of)
	s := refusing(w, "AssocGrpGRES", 0, alice[0], big, small)
	w.rounds(1)
	s.most, s.tries = 8, 0
	w.rounds(1)
	room := []int{alice[0], small}
	if n := running(w, room); s.tries != 1 || n != 1 {
		t.Errorf(
			"%d tries in the round after the limit is gone, %d of the 2 jobs run for which there is room, want one "+
				"at a time", s.tries, n)
	}
	w.rounds(1)
	if n := running(w, room); n != 2 {
		t.Errorf("one was accepted, and %d of the 2 run", n)
	}
}

// What an account has used up of its minutes it has used up: whoever is stopped could not start again.
func TestWhoWouldBeRefusedForWhatIsUsedUpIsNotStopped(t *testing.T) {
	for reason, want := range map[string]int{"AssocGrpGRESMinutes": 6, "QOSGrpWallLimit": 6, "AssocGrpBilling": 2} {
		w := newWorld(t, 1, server)
		w.runner.Settings.Policy = policy.LAS()
		user := func(name string) func(*slurmtest.Spec) { return func(s *slurmtest.Spec) { s.User = name } }
		var alice []int
		for range 8 {
			alice = append(alice, w.submit(1, model("gnmt"), forAges, user("alice"), saves(time.Second)))
		}
		w.rounds(3)
		alice = append(alice, w.submit(1, model("gnmt"), forAges, user("alice"), saves(time.Second)))
		refusing(w, reason, 0, alice...)
		for range 6 {
			w.submit(1, model("gnmt"), forAges, user("bob"), saves(time.Second))
			w.rounds(1)
		}
		if n := running(w, alice); n != want {
			t.Errorf("%s: %d of alice's jobs run, want %d: two were stopped before anybody knew", reason, n, want)
		}
	}
}
