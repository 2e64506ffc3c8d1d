package bridge

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// besideTest is an important job, number 7, with a seat since noon that has nobody beside it yet. By its profile it has
// such a speed alone.
type besideTest struct {
	t      *managedJob
	there  []*managedJob
	claims float64
	done   float64
	at     time.Duration // since noon
	doubt  string
}

func newBesideTest(claims float64) *besideTest {
	t := trainee(24)
	t.Runs.Shard = "g1"
	b := &besideTest{t: t, claims: claims}
	b.beside()
	return b
}

// beside says who is there from now on.
func (b *besideTest) beside(ids ...int) {
	b.there = []*managedJob{b.t}
	for _, id := range ids {
		b.there = append(b.there, &managedJob{Job: &slurm.Job{ID: id, State: slurm.Running}, isOurs: true})
	}
}

// trains lets the job train so many minutes at a speed, and report every minute, which is heard a second later.
func (b *besideTest) trains(minutes int, perSecond float64) {
	for range minutes {
		b.at += time.Minute
		b.done += perSecond * 60
		b.t.directives.Progress = reported(int64(math.Round(b.done)), noon.Add(b.at))
		b.doubt = b.t.record.Beside.addReport(b.t, b.there, b.claims, noon.Add(b.at+time.Second), 2*time.Minute)
	}
}

// found is what part of its speed alone it kept, and beside whom; 1: enough, or nobody knows.
func (b *besideTest) found() (part float64, beside []int) {
	k := b.t.record.Beside.Kept
	if k == nil {
		return 1, nil
	}
	return math.Round(k.Part*100) / 100, k.Beside
}

func (b *besideTest) mustKeep(t *testing.T, what string, part float64, beside ...int) {
	t.Helper()
	if got, by := b.found(); got != part || !slices.Equal(by, beside) {
		t.Errorf("%s: it kept %.3f beside %v, want %.2f beside %v: %+v", what, got, by, part, beside, b.t.record.Beside)
	}
}

func TestTwoWindowsInARowBelowWhatAnImportantJobAcceptsAreAVerdict(t *testing.T) {
	for what, c := range map[string]struct {
		speeds []float64 // of windows of two minutes beside job 9, after ten alone at 100
		part   float64
	}{
		"enough":                   {[]float64{90.5, 91, 95, 100}, 1},
		"one slow window":          {[]float64{95, 50, 95, 95}, 1},
		"slow ones apart":          {[]float64{50, 95, 50, 95}, 1},
		"two slow ones":            {[]float64{88, 87}, 0.88},
		"the better of two counts": {[]float64{95, 40, 88}, 0.88},
		"worse later":              {[]float64{88, 87, 80, 80}, 0.80},
		"enough later":             {[]float64{80, 80, 100, 100, 100}, 0.80},
		"it validates in between":  {[]float64{80, 0, 80}, 0.80},
		"it does something else":   {[]float64{0, 0, 0, 0}, 1},
		"faster than alone":        {[]float64{120, 120}, 1},
	} {
		b := newBesideTest(0)
		b.trains(10, 100)
		b.beside(9)
		b.trains(2, 50) // with the first of these reports the other is seen, and the second begins a window
		for _, speed := range c.speeds {
			b.trains(2, speed)
		}
		part, beside := b.found()
		if part != c.part || part < 1 && !slices.Equal(beside, []int{9}) {
			t.Errorf("%s: kept %.3f beside %v, want %.2f: %+v", what, part, beside, c.part, b.t.record.Beside)
		}
	}
}

func TestWhatAJobHadAloneInThisRunCountsBeforeItsProfile(t *testing.T) {
	for what, c := range map[string]struct {
		claims float64
		alone  int // minutes
		part   float64
	}{
		"alone, and the profile promises less": {50, 10, 0.8},
		"alone, and the profile promises more": {200, 10, 0.8},
		"the profile":                          {100, 0, 0.8},
		"alone for too short a time":           {100, 1, 0.8},
		"nobody knows":                         {0, 0, 1},
	} {
		b := newBesideTest(c.claims)
		b.trains(c.alone, 100)
		b.beside(9)
		b.trains(12, 80)
		if part, _ := b.found(); part != c.part {
			t.Errorf("%s: kept %.3f, want %.2f: %+v", what, part, c.part, b.t.record.Beside)
		}
	}
}

func TestAVerdictBesideOthersIsOfOneRunAndOneCompany(t *testing.T) {
	b := newBesideTest(100)
	b.beside(8, 9)
	b.trains(4, 80) // the first report tells who is there, the second begins a window, and the fourth ends it
	b.beside(9)
	b.trains(4, 80)
	b.mustKeep(t, "one window beside each", 1)
	b.trains(2, 80)
	b.mustKeep(t, "two windows beside one", 0.8, 9)
	b.beside()
	b.trains(10, 100)
	b.mustKeep(t, "alone again", 0.8, 9)
	b.beside(6)
	b.trains(6, 70)
	b.mustKeep(t, "beside another", 0.7, 6)
	b.t.Started = noon.Add(b.at)
	b.trains(3, 80)
	b.mustKeep(t, "in another run", 1)
	if b.t.record.Beside.Alone != 0 {
		t.Errorf("what it had alone in another run still counts: %+v", b.t.record.Beside)
	}
}

// A job that we do not manage any more slows it down as any other, but is none that could be told to leave.
func TestOnlyJobsOfOursAreSaidToBeBesideAJob(t *testing.T) {
	b := newBesideTest(100)
	b.beside(8, 9)
	b.there[1].isOurs = false
	b.there[2].untouchedBecause = "held"
	b.trains(6, 80)
	b.mustKeep(t, "beside strangers", 0.8)
}

func TestAReportThatCannotBeIsNotMeasuredBesideOthersEither(t *testing.T) {
	b := newBesideTest(100)
	b.beside(9)
	b.trains(2, 100)
	b.trains(1, -200)
	if b.doubt == "" {
		t.Error("a report that goes back is believed")
	}
	b.trains(1, 1e9)
	b.trains(1, 1e9)
	if b.doubt == "" {
		t.Error("a report of more iterations than can be is believed")
	}
}
