package bridge

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// TestTheCostOfARestartIsTheJobsOwnThenItsProfilesThenTheKeys: each part by the best that is known of it.
func TestTheCostOfARestartIsTheJobsOwnThenItsProfilesThenTheKeys(t *testing.T) {
	profile := &sensitivity.Profile{CheckpointSeconds: 10, StartSeconds: 20}
	for _, c := range []struct {
		name    string
		profile *sensitivity.Profile
		seen    Cost
		want    RestartCost
	}{
		{"nothing is known", nil, Cost{}, RestartCost{120, 0, ByKey}},
		{"its profile does not say", &sensitivity.Profile{}, Cost{}, RestartCost{120, 0, ByKey}},
		{"its profile says", profile, Cost{}, RestartCost{10, 20, ByProfile}},
		{"it was seen to leave", profile, Cost{Saves: []float64{300}}, RestartCost{300, 20, ByRestarts}},
		{"it told of its start", profile, Cost{Starts: []float64{90}}, RestartCost{10, 90, ByRestarts}},
		{"both", profile, Cost{Saves: []float64{300}, Starts: []float64{90}, Launches: []float64{3}},
			RestartCost{300, 90, ByRestarts}},
		{"a launch says less than a profile", profile, Cost{Saves: []float64{5}, Launches: []float64{3}},
			RestartCost{5, 20, ByRestarts}},
		{"a launch is all that is seen", nil, Cost{Saves: []float64{5}, Launches: []float64{3}},
			RestartCost{5, 3, ByRestarts}},
		{"the one on a bad day does not count", nil, Cost{Saves: []float64{5, 600, 6}, Starts: []float64{9, 9, 900}},
			RestartCost{6, 9, ByRestarts}},
		{"of two the mean counts", nil, Cost{Saves: []float64{5, 7}, Starts: []float64{0}},
			RestartCost{6, 0, ByRestarts}},
	} {
		r := &Runner{Settings: Settings{RestartCost: 2 * time.Minute}}
		tn := &managedJob{Job: &slurm.Job{}, profile: c.profile, record: &Record{Cost: c.seen}}
		if got := r.restartCost(tn); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestWhatIsBelievedOfARestartIsBoundedAndSoIsWhatIsRemembered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var seen []float64
		for _, took := range rapid.SliceOfN(rapid.Int64(), 1, 9).Draw(t, "took") {
			before := len(seen)
			seen = withLatest(seen, time.Duration(took))
			last := seen[len(seen)-1]
			if len(seen) != min(before+1, 3) || !(last >= 0 && last <= 3600) {
				t.Fatalf("%v", seen)
			}
		}
	})
}

// TestHowLongAJobTookToLeaveIsSlurmsWordOrElseWhenItWasSeen: asked at noon.
func TestHowLongAJobTookToLeaveIsSlurmsWordOrElseWhenItWasSeen(t *testing.T) {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	for _, c := range []struct {
		name string
		job  slurm.Job
		want float64 // seconds; negative: not known
	}{
		{"requeued after 40 s, seen after 50", slurm.Job{State: slurm.Pending, Submitted: at(40), Restarts: 1}, 40},
		{"seen only when it ran again", slurm.Job{State: slurm.Running, Submitted: at(40), Started: at(45),
			Restarts: 1}, 40},
		{"is being torn down", slurm.Job{State: slurm.Pending, Completing: true, Submitted: at(-3600)}, 50},
		{"the requeue is not told yet", slurm.Job{State: slurm.Pending, Submitted: at(-3600)}, 50},
		{"left within the second", slurm.Job{State: slurm.Pending, Submitted: at(0).Add(-500 * time.Millisecond)}, 0},
		{"runs, and nobody saw it leave", slurm.Job{State: slurm.Running, Submitted: at(-3600), Started: at(45)}, -1},
		{"ended for good", slurm.Job{State: slurm.Finished, Submitted: at(40)}, -1},
	} {
		var cost Cost
		cost.noteLeave(&managedJob{Job: &c.job}, noon, at(50))
		got := -1.0
		if len(cost.Saves) > 0 {
			got = cost.Saves[0]
		}
		if got != c.want || (got >= 0) != cost.Left.Equal(noon) {
			t.Errorf("%s: %g s, want %g: %+v", c.name, got, c.want, cost)
		}
	}
}

// trains plays a job that trains at a speed, is asked to leave, waits, needs a time to start, and trains at another; it
// reports now and then.
func trains(t *rapid.T, starts time.Duration) Cost {
	var cost Cost
	tn := &managedJob{Job: &slurm.Job{State: slurm.Running, Started: noon},
		directives: &directive.Directives{Reports: true}}
	speed := rapid.Float64Range(5, 200).Draw(t, "speed")
	done := 0.0
	run := func(warm time.Duration, reports int) time.Time {
		last := tn.Started.Add(warm)
		for range reports {
			at := last.Add(time.Duration(rapid.IntRange(60, 600).Draw(t, "until the next report")) * time.Second)
			done += speed * at.Sub(last).Seconds()
			last, tn.directives.Progress = at, reported(int64(done), at)
			cost.addReport(tn, at.Add(time.Second))
		}
		return last
	}
	asked := run(0, rapid.IntRange(2, 5).Draw(t, "reports")).Add(time.Duration(rapid.IntRange(0, 299).Draw(t,
		"asked")) * time.Second)
	done += speed * asked.Sub(tn.directives.Progress.At).Seconds()
	tn.State, tn.Submitted = slurm.Pending, asked.Add(time.Minute)
	cost.noteLeave(tn, asked, tn.Submitted)
	tn.State, tn.Started = slurm.Running, tn.Submitted.Add(time.Duration(rapid.IntRange(2, 90000).Draw(t,
		"waits"))*time.Second)
	speed *= rapid.Float64Range(0.5, 3).Draw(t, "faster")
	run(starts, rapid.IntRange(2, 4).Draw(t, "more reports"))
	return cost
}

func TestHowLongAJobTookToTrainAgainIsFoundFromItsReports(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		starts := time.Duration(rapid.IntRange(0, 900).Draw(t, "starts")) * time.Second
		cost := trains(t, starts)
		if len(cost.Saves) != 1 || cost.Saves[0] != 60 || len(cost.Starts) != 1 ||
			math.Abs(cost.Starts[0]-starts.Seconds()) > 8 {
			t.Fatalf("%+v, want 60 s to save and %s to start", cost, starts)
		}
	})
}

func TestReportsThatCannotBeSayNothingOfAStart(t *testing.T) {
	for name, change := range map[string]func(tn *managedJob){
		"from the future":      func(tn *managedJob) { tn.directives.Progress.At = noon.Add(time.Hour * 1000) },
		"of an earlier run":    func(tn *managedJob) { tn.directives.Progress.At = tn.Started.Add(-time.Second) },
		"unreadable":           func(tn *managedJob) { tn.directives.BadProgress = &directive.Mistake{} },
		"not announced":        func(tn *managedJob) { tn.directives.Reports = false },
		"faster than anything": func(tn *managedJob) { tn.directives.Progress.Iterations = 999_999_999_999_999 },
		"going back":           func(tn *managedJob) { tn.directives.Progress.Iterations = 0 },
	} {
		cost := Cost{Left: noon.Add(-time.Minute), Heard: Heard{Run: noon.Add(-time.Hour),
			Last: reported(50, noon.Add(-2*time.Minute)), Speed: 1}}
		tn := &managedJob{Job: &slurm.Job{State: slurm.Running, Started: noon},
			directives: &directive.Directives{Reports: true, Progress: reported(120, noon.Add(time.Minute))}}
		cost.addReport(tn, noon.Add(time.Minute))
		tn.directives.Progress = reported(180, noon.Add(2*time.Minute))
		change(tn)
		if cost.addReport(tn, noon.Add(3*time.Minute)); len(cost.Starts) > 0 {
			t.Errorf("%s: %+v", name, cost)
		}
	}
}

// TestReportsOnAnotherGPUThanTheProfilesAreNotComparedWithIt: what is said of an H100 says nothing of a V100.
func TestReportsOnAnotherGPUThanTheProfilesAreNotComparedWithIt(t *testing.T) {
	for _, c := range []struct {
		measured, here string
		contradicted   bool
	}{{"H100", "v100", false}, {"V100", "v100", true}, {"H100", "", true}} {
		on := *liar
		on.GPUType = c.measured
		tn := trainee(24)
		tn.profile, tn.nodePlaces = &on, []int{0}
		tn.topology = &topology{nodes: []slurm.Node{{Name: "n1", GPUType: c.here,
			Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}}}, managed: []int{0}}
		for minute := range 6 {
			tn.report(int64(100*minute), time.Duration(1+5*minute)*time.Minute)
		}
		if found := tn.record.Audit.Found != nil; found != c.contradicted {
			t.Errorf("a profile of %s on %q: contradicted %v", c.measured, c.here, found)
		}
	}
}
