package bridge

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// claims a hundredfold with 24 cores: 10 samples a second with 3, 1000 with 24; ten samples make an iteration.
var liar = &sensitivity.Profile{
	Version: 1, Model: "liar", Batch: 10, CoresPerGPU: []float64{3, 24}, MemoryPerGPU: []gres.Memory{1000},
	Throughput: [][]float64{{10}, {1000}},
}

// auditor audits with windows of two minutes.
func auditor() *Runner { return &Runner{Settings: Settings{Audit: 2 * time.Minute}} }

// trainee runs since noon with so many cores, and reports.
func trainee(cores int) *managedJob {
	return &managedJob{
		Job: &slurm.Job{ID: 7, State: slurm.Running, Started: noon, Runs: slurm.Allocated{Nodes: []string{"n1"},
			PerNode: gres.Vector{GPUs: 1, CPUs: cores, Memory: 62500}}},
		directives: &directive.Directives{Reports: true}, profile: liar, record: &Record{Job: 7},
		topology: &topology{},
	}
}

// reported is a progress report.
func reported(iterations int64, at time.Time) directive.Progress {
	return directive.Progress{Iterations: iterations, At: at}
}

// report lets the managed job say so many iterations at a moment after noon, and returns what comes of it a second
// later.
func (t *managedJob) report(iterations int64, at time.Duration) *Contradiction {
	t.directives.Progress = reported(iterations, noon.Add(at))
	auditor().auditSpeeds(&sortedObservation{at: noon.Add(at + time.Second), managed: []*managedJob{t}})
	return t.record.Audit.Found
}

// TestAProfileIsContradictedByTwoWindowsInARowBelowHalf: the liar claims 100 iterations a second with 24 cores.
func TestAProfileIsContradictedByTwoWindowsInARowBelowHalf(t *testing.T) {
	type said struct {
		minute     time.Duration
		iterations int64
	}
	for name, c := range map[string]struct {
		says []said
		at   int // which of them contradicts; 0: none
	}{
		"far below":                          {[]said{{1, 100}, {6, 400}, {11, 700}}, 3},
		"just below":                         {[]said{{1, 0}, {6, 14_990}, {11, 29_980}}, 3},
		"half":                               {[]said{{1, 0}, {6, 15_000}, {11, 30_000}, {16, 45_000}}, 0},
		"as claimed":                         {[]said{{1, 0}, {6, 30_000}, {11, 60_000}, {16, 90_000}}, 0},
		"much faster":                        {[]said{{1, 0}, {6, 300_000}, {11, 600_000}}, 0},
		"once below":                         {[]said{{1, 0}, {6, 100}, {11, 30_000}, {16, 30_100}, {21, 60_000}}, 0},
		"after one that was good":            {[]said{{1, 0}, {6, 30_000}, {11, 30_100}, {16, 30_200}}, 4},
		"more often than a window":           {[]said{{1, 0}, {2, 10}, {3, 20}, {4, 30}, {5, 40}}, 5},
		"two reports alone":                  {[]said{{1, 0}, {600, 10}}, 0},
		"the same again and again":           {[]said{{1, 100}, {1, 100}, {1, 100}, {1, 100}}, 0},
		"it validates, and does not train":   {[]said{{1, 100}, {6, 100}, {11, 100}, {16, 100}}, 0},
		"a slow window, a pause, a slow one": {[]said{{1, 0}, {6, 100}, {11, 100}, {16, 200}}, 4},
		"going back":                         {[]said{{1, 1000}, {6, 100}, {11, 200}, {16, 300}}, 0},
		"of an earlier run":                  {[]said{{-60, 0}, {-50, 10}, {-40, 20}}, 0},
		"more than can be":                   {[]said{{1, 0}, {6, 1e12}, {11, 3e12}}, 0},
	} {
		tn, found := trainee(24), 0
		for i, s := range c.says {
			if tn.report(s.iterations, s.minute*time.Minute) != nil && found == 0 {
				found = i + 1
			}
		}
		if found != c.at {
			t.Errorf("%s: contradicted at report %d, want %d: %+v", name, found, c.at, tn.record.Audit)
		}
		if (tn.profile == nil) != (c.at > 0) {
			t.Errorf("%s: profile %v", name, tn.profile)
		}
	}
}

func TestWhatIsSlowInOneRunSaysNothingAboutTheNext(t *testing.T) {
	tn := trainee(24)
	tn.report(0, time.Minute)
	tn.report(100, 6*time.Minute)
	tn.Started = noon.Add(7 * time.Minute) // elsewhere, with another size
	if tn.report(150, 8*time.Minute) != nil || tn.report(200, 13*time.Minute) != nil {
		t.Error("windows of two runs are counted together")
	}
}

func TestWhoHasOthersOnItsGPUIsNotHeldToWhatItsProfileSaysOfItAlone(t *testing.T) {
	for device, contradicted := range map[string]bool{"": true, "g1": false} {
		tn := trainee(24)
		tn.Runs.Shard = device
		for k := range 5 {
			tn.report(int64(1000*k), time.Duration(k)*3*time.Minute)
		}
		if found := tn.record.Audit.Found; (found != nil) != contradicted || (tn.profile == nil) != contradicted {
			t.Errorf("on device %q: found %v, profile %v", device, found, tn.profile)
		}
	}
}

func TestAReportThatCannotBeIsIgnoredWithASentence(t *testing.T) {
	for want, says := range map[string][2]directive.Progress{
		"comes from the future": {reported(5, noon.Add(time.Hour)), reported(5, noon.Add(time.Hour))},
		"goes back":             {reported(50, noon.Add(time.Minute)), reported(5, noon.Add(4*time.Minute))},
		"more iterations":       {reported(0, noon.Add(time.Minute)), reported(1e15, noon.Add(4*time.Minute))},
	} {
		tn := trainee(24)
		for _, tn.directives.Progress = range says {
			auditor().auditSpeeds(&sortedObservation{at: noon.Add(10 * time.Minute), managed: []*managedJob{tn}})
		}
		if !strings.Contains(tn.ignoredReason, want) {
			t.Errorf("%q: want %q", tn.ignoredReason, want)
		}
	}
}

// TestAJobThatTrainsAsItsProfileSaysIsNeverContradicted: whenever it reports, and whatever the noise of its clock and
// its batches.
func TestAJobThatTrainsAsItsProfileSaysIsNeverContradicted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tn := trainee(rapid.IntRange(1, 24).Draw(t, "cores"))
		speed := claimedSpeed(auditor(), tn) * rapid.Float64Range(0.6, 3).Draw(t, "speed")
		at, done := time.Duration(0), 0.0
		for range rapid.IntRange(1, 30).Draw(t, "reports") {
			pause := time.Duration(rapid.IntRange(1, 900).Draw(t, "seconds")) * time.Second
			at += pause
			done += speed * pause.Seconds()
			if found := tn.report(int64(done), at); found != nil {
				t.Fatalf("at %s: %s", at, found)
			}
		}
	})
}

// TestALiarThatReportsIsFoundWithinThreeReports: at whatever size its claim is more than twice what comes.
func TestALiarThatReportsIsFoundWithinThreeReports(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tn := trainee(rapid.IntRange(3, 24).Draw(t, "cores"))
		speed := claimedSpeed(auditor(), tn) * rapid.Float64Range(0.02, 0.48).Draw(t, "speed")
		var found *Contradiction
		at, done := time.Duration(0), 0.0
		for range 3 {
			pause := time.Duration(rapid.IntRange(120, 3600).Draw(t, "seconds")) * time.Second
			at += pause
			done += max(1, speed*pause.Seconds())
			found = tn.report(int64(done), at)
		}
		if enoughToTell := tn.record.Audit.Slow > 0 || found != nil; enoughToTell && found == nil &&
			tn.record.Audit.Slow >= maxSlowWindows {
			t.Fatalf("%d slow windows, and nothing found", tn.record.Audit.Slow)
		} else if tn.profile != nil && claimedSpeed(auditor(), tn)*120 >= minIterations*1.1 {
			t.Fatalf("at %.2g of %.2g iterations/s nothing was found: %+v", speed, claimedSpeed(auditor(), tn),
				tn.record.Audit)
		}
	})
}

func TestWhatWasFoundStandsInTheAnnotationAndIsBelievedOnlyWithinReason(t *testing.T) {
	found := &Contradiction{Ran: 0.9, Said: 3.1, CPUs: 9}
	rec := Record{Job: 7, First: noon, Own: plainRequest(), Audit: Audit{Found: found}}
	j := slurm.Job{ID: 7, Request: plainRequest(), Extra: annotationOf(&rec, 1, "", "").String()}
	if got := readAnnotation(&j).Found; got == nil || *got != *found {
		t.Errorf("read back %v", got)
	}
	if said := found.String(); said != "runs at 0.9 iterations/s where its profile says 3.1 with 9 cores: gets the "+
		"proportional share" {
		t.Errorf("%q", said)
	}
	for _, forged := range []string{`{"ran":-1,"said":3,"cores":9}`, `{"ran":4,"said":3,"cores":9}`,
		`{"ran":1,"said":1e300,"cores":9}`,
		`{"ran":1,"said":3,"cores":0}`, `{"ran":1,"said":3,"cores":99999999}`} {
		j.Extra = `{"v":1,"job":7,"found":` + forged + `}`
		if got := readAnnotation(&j).Found; got != nil {
			t.Errorf("%s is believed", forged)
		}
	}
}

// TestNoGainOverflowsWhatIsDone: the widest range of throughput that a profile may claim makes a gain of 10^15 and
// more.
func TestNoGainOverflowsWhatIsDone(t *testing.T) {
	for _, gain := range []float64{1e15, 1e300} {
		rec := Record{Job: 7, Until: noon, Gain: gain, Done: maxProgress - 1}
		tn := &managedJob{Job: &slurm.Job{ID: 7, State: slurm.Running, Started: noon}, gain: gain, record: &rec}
		for h := range 100 {
			rec.credit(tn, noon.Add(time.Duration(h)*time.Hour))
			if rec.Done <= 0 || rec.Done > maxProgress {
				t.Fatalf("gain %g: %s done after %d hours", gain, rec.Done, h)
			}
		}
	}
}
