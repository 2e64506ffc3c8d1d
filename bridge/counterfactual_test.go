package bridge_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// plainProfiles can be reckoned with in the head: an image job is as fast as it has cores, up to five a GPU; a language
// job needs one.
func plainProfiles(name string) (*sensitivity.Profile, error) {
	figures := map[string]string{
		"image.json":    `"cores_per_gpu":[1,3,5],"throughput_samples_per_s":[[100],[300],[500]]`,
		"language.json": `"cores_per_gpu":[1,3,5],"throughput_samples_per_s":[[200],[200],[200]]`,
	}[name]
	if figures == "" {
		return nil, fmt.Errorf("profile %s: not found", name)
	}
	return sensitivity.Parse([]byte(`{"version":1,"model":"m","task":"t","gpu_type":"V100","batch":1,` +
		`"memory_per_gpu_mib":[1000],"checkpoint_s":0,"start_s":0,` + figures + `}`))
}

// shadowed is a site of so many nodes whose users have said nothing, under a daemon in the shadow.
func shadowed(t *testing.T, nodes int, rules ...bridge.Match) *world {
	w := newWorld(t, nodes, server)
	w.runner.Profiles = plainProfiles
	w.runner.Settings.Shadow, w.runner.Settings.Savings, w.runner.Settings.Match = true, true, rules
	w.runner.Settings.Rules.Stranded = policy.DefaultStranded // also to those who cannot give back
	return w
}

var byName = []bridge.Match{{Name: "img-*", Profile: "image.json"}, {Name: "lm-*", Profile: "language.json"}}

// silent submits a job as its user always did, with three cores a GPU.
func (w *world) silent(name string, gpus int) int {
	w.t.Helper()
	id, err := w.slurm.Submit(slurmtest.Spec{Name: name, User: "ann", Account: "ml", Partition: "gpu",
		Request: slurm.Request{GPUs: gpus, CPUsPerTask: 3 * gpus, Memory: gres.Memory(62500 * gpus)}})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// booked holds rounds for an hour, after a first one, and adds up what they book.
func (w *world) booked() (sums savings.Sums) {
	var state savings.State
	for k := range 13 {
		began := w.clock.Now()
		report := w.round()
		if report.Savings == nil {
			w.t.Fatal("a round books nothing")
		}
		var more savings.Sums
		more, state = savings.Book(state, *report.Savings, time.Hour)
		sums = sums.Plus(more)
		if k < 12 {
			w.sleep(w.runner.Settings.Round - w.clock.Now().Sub(began))
		}
	}
	return sums
}

func (w *world) mustBook(what string, seconds, hours float64) {
	w.t.Helper()
	if math.Abs(seconds/3600-hours) > 1e-6 {
		w.t.Errorf("%s: %.4f GPU-hours, want %.4f", what, seconds/3600, hours)
	}
}

// crowd is 20 image and 18 language jobs on 4 nodes of 8 GPUs: 16 of each run, 4 on each node, the others wait.
func (w *world) crowd() {
	for k := range 20 {
		w.silent(fmt.Sprintf("img-%d", k), 1)
		if k < 18 {
			w.silent(fmt.Sprintf("lm-%d", k), 1)
		}
	}
	w.sleep(time.Second)
}

// TestTheShadowGainsFromJobsThatKnowNothingOfUs: on each node four language jobs need 4 of 24 cores, and four image
// jobs, which hold 3 each, train 5/3 as fast with the 5 that are left to each. So 32 GPUs train as 16·5/3 + 16 would,
// and the image jobs' 16 hours take 3/5 of that.
func TestTheShadowGainsFromJobsThatKnowNothingOfUs(t *testing.T) {
	w := shadowed(t, 4, byName...)
	w.crowd()
	s := w.booked()
	w.mustBook("there", s.There, 32)
	w.mustBook("known", s.Known, 32)
	w.mustBook("trained as asked", s.Asked, 32)
	w.mustBook("trained", s.With, 16*5./3+16)
	w.mustBook("saved", s.Saved, 16*2./5)
	if s.Gain() <= 1 || s.Idle() != 0 || s.Unmatched != 0 {
		t.Errorf("gain %.3f, idle %v, unmatched %v, want more than 1 and neither of these", s.Gain(), s.Idle(),
			s.Unmatched)
	}
	if n := len(w.line.Calls()); n != 13 {
		t.Errorf("%d calls, want a look for each round and nothing written", n)
	}
	if records, _, _ := w.book.Load(); len(records) != 0 {
		t.Errorf("%d records of jobs that owe nothing", len(records))
	}
}

func TestThePlanOfTheShadowHasTheSizesThatJobsWouldHave(t *testing.T) {
	w := shadowed(t, 4, byName...)
	w.crowd()
	report := w.round()
	gain, gpus := 0., 0
	for _, d := range report.Plan.Decisions {
		if d.Grant != nil {
			gain, gpus = gain+d.Gain*float64(d.Grant.Total().GPUs), gpus+d.Grant.Total().GPUs
		}
	}
	if gpus != 32 || math.Abs(gain-(16*5./3+16)) > 1e-6 {
		t.Errorf("%d GPUs gain %.3f together, want 32 and 42.667", gpus, gain)
	}
	for _, step := range report.Steps {
		if step.Verb == bridge.Preempt {
			t.Errorf("%+v: nobody has to be stopped who could have been sized at his start", step)
		}
	}
}

func TestJobsThatMatchNoRuleAreCountedAndClaimNothing(t *testing.T) {
	w := shadowed(t, 4, bridge.Match{User: "bob", Profile: "image.json"})
	w.crowd()
	s := w.booked()
	w.mustBook("unmatched", s.Unmatched, 32)
	if s.Held != 0 || s.Saved != 0 || s.With != 0 || s.Idle() != 0 {
		t.Errorf("%+v claims something", s)
	}
}

func TestJobsThatAreHappyWithTheirShareClaimNothing(t *testing.T) {
	w := shadowed(t, 4, bridge.Match{Account: "ml", Profile: "language.json"})
	w.crowd()
	s := w.booked()
	w.mustBook("known", s.Known, 32)
	w.mustBook("trained", s.With, 32)
	if s.Saved != 0 || s.Gain() != 1 {
		t.Errorf("%v saved, gain %v, want neither", s.Saved, s.Gain())
	}
}

// TestNoCoreIsGivenTwiceInTheShadow: the image job came first and would hold five cores. Slurm then starts seven
// others, with three each.
func TestNoCoreIsGivenTwiceInTheShadow(t *testing.T) {
	for _, saves := range []bool{false, true} {
		w := shadowed(t, 1, bridge.Match{Name: "img-*", Profile: "image.json", Saves: saves})
		id := w.silent("img-1", 1)
		w.sleep(time.Second)
		if n := w.round().Savings.Jobs[0]; math.Abs(n.With-5./3) > 1e-6 {
			t.Fatalf("job %d alone would run at %.3f, want 5/3", id, n.With)
		}
		for k := range 7 {
			w.silent(fmt.Sprintf("img-%d", k+2), 1)
		}
		w.sleep(time.Second)
		jobs := w.round().Savings.Jobs
		var all, without, with float64
		for _, j := range jobs {
			all, without, with = all+j.With, without+j.Unsaved, with+j.Saved
		}
		if len(jobs) != 8 || math.Abs(all-8) > 1e-6 || math.Abs(without-8) > 1e-6 || math.Abs(with-8) > 1e-6 {
			t.Errorf("saves %t: %d jobs train as %.3f GPUs, %.3f and %.3f, want 8 as 8: no core is there twice", saves,
				len(jobs), all, without, with)
		}
	}
}

// TestIdleGPUsAreBookedByWhatWhoWaitsLacks: 2 GPUs are left on a node whose cores two jobs have taken.
func TestIdleGPUsAreBookedByWhatWhoWaitsLacks(t *testing.T) {
	w := shadowed(t, 1, byName...)
	for range 2 {
		if _, err := w.slurm.Submit(slurmtest.Spec{Name: "lm-big", Partition: "gpu",
			Request: slurm.Request{GPUs: 3, CPUsPerTask: 12, Memory: 1000}}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		w.silent("img-1", 1)
	}
	w.sleep(time.Second)
	s := w.booked()
	w.mustBook("idle for want of cores", s.Cores, 2)
	w.mustBook("filled", s.Filled, 2)
}

func TestSwitchedOnNobodyIsMatched(t *testing.T) {
	w := shadowed(t, 4, byName...)
	w.runner.Settings.Shadow = false
	w.crowd()
	s := w.booked()
	w.mustBook("unmatched", s.Unmatched, 32)
	if n := len(w.line.Calls()); n != 13 || s.Held != 0 {
		t.Errorf("%d calls, held %v, want looks alone", n, s.Held)
	}
}

func TestWhatWasSwitchedOnIsHeldAgainstWhatWasAskedFor(t *testing.T) {
	heldAgainst(t, 62500)
}

// TestHowSlowAJobWouldBeBelowWhatWasMeasuredIsNotClaimed: a site's default memory for each core may be next to nothing.
func TestHowSlowAJobWouldBeBelowWhatWasMeasuredIsNotClaimed(t *testing.T) {
	heldAgainst(t, 10)
}

// heldAgainst books an hour of jobs that ask for three cores and so much memory, of which all measured amounts train
// alike.
func heldAgainst(t *testing.T, memory gres.Memory) {
	t.Helper()
	w := shadowed(t, 1)
	w.runner.Settings.Shadow = false
	for range 4 {
		for _, profile := range []string{"image", "language"} {
			if _, err := w.slurm.Submit(slurmtest.Spec{Comment: "synergy-profile=" + profile + ".json",
				Partition: "gpu", Lease: 900 * time.Second,
				Request: slurm.Request{GPUs: 1, CPUsPerTask: 3, Memory: memory}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.rounds(1)
	s := w.booked()
	w.mustBook("saved", s.Saved, 4*2./5)
	w.mustBook("trained", s.With, 4*5./3+4)
}

func TestARuleFitsByItsPatterns(t *testing.T) {
	job := slurm.Job{User: "ann", Account: "ml", Partition: "a,b", Name: "train/res50-17",
		Container: "/images/torch-2.6"}
	for _, c := range []struct {
		rule bridge.Match
		fits bool
	}{
		{bridge.Match{}, true},
		{bridge.Match{User: "ann", Account: "m*", Partition: "b", Name: "*res50*"}, true},
		{bridge.Match{User: "an"}, false},
		{bridge.Match{Partition: "c"}, false},
		{bridge.Match{Name: "train/*-*-17"}, false},
		{bridge.Match{Name: "train/*res50-17"}, true},
		{bridge.Match{Name: "*7*7"}, false},
		{bridge.Match{Name: "*17"}, true},
		{bridge.Match{Container: "*/torch-*"}, true},
		{bridge.Match{Container: "torch-*"}, false},
	} {
		if got := c.rule.Fits(&job); got != c.fits {
			t.Errorf("%+v fits: %t, want %t", c.rule, got, c.fits)
		}
	}
}

// TestADebtIsADebtWhateverARuleSays: a job that lost its word, and waits with a lease of ours, is handed back as ever.
func TestADebtIsADebtWhateverARuleSays(t *testing.T) {
	w := shadowed(t, 1, bridge.Match{Profile: "image.json"})
	w.runner.Settings.Shadow = false
	w.submit(8, "synergy-profile=image.json")
	id := w.submit(1, "synergy-profile=image.json")
	w.rounds(1)
	w.slurm.SetComment(id, "mine")
	w.runner.Settings.Shadow = true
	step(t, w.round(), id, bridge.Release)
	if rec := w.record(id); rec.Job != id {
		t.Errorf("the debt of job %d is forgotten", id)
	}
}

// TestReportedSpeedsAreHeldAgainstWhatTheProfileSays, for what the job really holds: three cores, 300 iterations a
// second. It runs at 270, and each window is booked once.
func TestReportedSpeedsAreHeldAgainstWhatTheProfileSays(t *testing.T) {
	w := shadowed(t, 1)
	w.runner.Settings.Audit = 2 * time.Minute
	id, err := w.slurm.Submit(slurmtest.Spec{Comment: "synergy-profile=image.json synergy-progress", Partition: "gpu",
		Request: slurm.Request{GPUs: 1, CPUsPerTask: 3, Memory: 62500}})
	if err != nil {
		t.Fatal(err)
	}
	w.sleep(time.Second)
	var checks []savings.Check
	for range 6 {
		w.train(id, 270)
		for range 3 { // between rounds nothing is new, or it is heard again
			if _, _, err := w.runner.SmallRound(ctx); err != nil {
				t.Fatal(err)
			}
		}
		checks = append(checks, w.round().Savings.Checks...)
		w.sleep(5 * time.Minute)
	}
	if len(checks) != 5 {
		t.Fatalf("%d windows, want the 5 between 6 reports", len(checks))
	}
	for _, c := range checks {
		if math.Abs(c.Ran-270) > 1 || math.Abs(c.Said-300) > 1e-6 {
			t.Errorf("%+v, want 270 of 300", c)
		}
	}
}

// TestCheckpointsAreBookedBothWaysWhateverIsDeclared: eight image jobs fill a node with three cores each. When six have
// ended there are cores for the other two, which only who can be sized again would get.
func TestCheckpointsAreBookedBothWaysWhateverIsDeclared(t *testing.T) {
	for _, saves := range []bool{false, true} {
		w := shadowed(t, 1, bridge.Match{Name: "img-*", Profile: "image.json", Saves: saves})
		var first []int
		for k := range 8 {
			first = append(first, w.silent(fmt.Sprintf("img-%d", k), 1))
		}
		w.sleep(time.Second)
		w.round()
		for _, id := range first[2:] {
			w.slurm.Cancel(id)
		}
		w.sleep(time.Minute)
		jobs := w.round().Savings.Jobs
		if len(jobs) != 2 {
			t.Fatalf("%d jobs run, want 2", len(jobs))
		}
		for _, j := range jobs {
			want := j.Unsaved
			if saves {
				want = j.Saved
			}
			if math.Abs(j.Unsaved-1) > 1e-6 || math.Abs(j.Saved-5./3) > 1e-6 || j.With != want {
				t.Errorf("saves %t: %+v, want 1 without checkpoints, 5/3 with them, and what is declared", saves, j)
			}
		}
	}
}

func TestSwitchedOnNothingIsSupposedOfCheckpoints(t *testing.T) {
	w := shadowed(t, 1)
	if _, err := w.slurm.Submit(slurmtest.Spec{Comment: "synergy-profile=image.json", Partition: "gpu",
		Request: slurm.Request{GPUs: 1, CPUsPerTask: 3, Memory: 62500}}); err != nil {
		t.Fatal(err)
	}
	w.sleep(time.Second)
	for _, shadow := range []bool{true, false} {
		w.runner.Settings.Shadow = shadow
		j := w.round().Savings.Jobs[0]
		if supposed := j.Unsaved > 0 && j.Saved > 0; supposed != shadow {
			t.Errorf("in the shadow %t: %+v", shadow, j)
		}
	}
}

// TestARunIsOfTheSameProfileWhetherARuleOrItsUserSaysSo, so that runs before and after can be compared.
func TestARunIsOfTheSameProfileWhetherARuleOrItsUserSaysSo(t *testing.T) {
	w := shadowed(t, 1, byName...)
	w.silent("img-1", 1)
	w.silent("lm-1", 1)
	if _, err := w.slurm.Submit(slurmtest.Spec{Comment: "synergy-profile=image.json", Partition: "gpu",
		Request: slurm.Request{GPUs: 1, CPUsPerTask: 3, Memory: 62500}}); err != nil {
		t.Fatal(err)
	}
	w.sleep(time.Second)
	jobs := w.round().Savings.Jobs
	if len(jobs) != 3 || jobs[0].Of == "" || jobs[0].Of != jobs[2].Of || jobs[0].Of == jobs[1].Of {
		t.Errorf("%+v, want the first and the last of one profile, and the other of another", jobs)
	}
}
