package predict_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
)

// pairs were measured on an H100: ResNet-50 with a pause after each step of 25 ms, and ViT-B/16 without one, each as a
// part of its speed alone. Of a GPU with equal clients of MPS it is what two jobs of one class are to each other; with
// a lower priority alone the other has all threads, as two that have half of them each.
var pairs = []struct {
	name         string
	mode         predict.Mode
	first, other share.Class
	many         int // how often the other counts
	busy, a, b   float64
	within       float64
}{
	{"time slicing, no pause", predict.Slicing, share.High, share.Low, 1, 1, .61, .49, .1},
	{"time slicing, 20 ms", predict.Slicing, share.High, share.Low, 1, .55, .76, .67, .1},
	{"time slicing, 60 ms", predict.Slicing, share.High, share.Low, 1, .29, .84, .77, .1},
	{"turns, no pause", predict.Turns, share.High, share.Low, 1, 1, .40, .59, .1},
	{"turns, 20 ms", predict.Turns, share.High, share.Low, 1, .55, .76, .59, .2},
	{"turns, 60 ms", predict.Turns, share.High, share.Low, 1, .29, .71, .61, .1},
	{"look-ahead, no pause", predict.LookAhead, share.High, share.Low, 1, 1, .90, .01, .08},
	{"look-ahead, 20 ms", predict.LookAhead, share.High, share.Low, 1, .55, .81, .05, .08},
	{"look-ahead, 60 ms", predict.LookAhead, share.High, share.Low, 1, .29, .83, .40, .08},
	{"MPS, lower priority and half of the threads, 20 ms", predict.Fill, share.High, share.Low, 1, .55, .89, .52, .05},
	{"MPS, lower priority, no pause", predict.Fill, share.High, share.Low, 2, 1, .72, unmeasured, .1},
	{"MPS, lower priority, 20 ms", predict.Fill, share.High, share.Low, 2, .55, .80, unmeasured, .1},
	{"MPS, equal, no pause", predict.Fill, share.High, share.High, 1, 1, .62, .69, .1},
	{"MPS, equal, 20 ms", predict.Fill, share.High, share.High, 1, .55, .79, .78, .1},
	{"MPS, equal, 60 ms", predict.Fill, share.High, share.High, 1, .29, .86, .82, .1},
}

const unmeasured = -1

func TestEachMeasuredPairIsPredictedWithinItsError(t *testing.T) {
	for _, p := range pairs {
		tenants := []predict.Tenant{{Class: p.first, Busy: p.busy}}
		for range p.many {
			tenants = append(tenants, predict.Tenant{Class: p.other, Busy: 1})
		}
		got := predict.Speeds(p.mode, tenants)
		if math.Abs(got[0]-p.a) > p.within {
			t.Errorf("%s: the first %.2f, measured %.2f", p.name, got[0], p.a)
		}
		if p.b != unmeasured && math.Abs(got[1]-p.b) > p.within {
			t.Errorf("%s: the other %.2f, measured %.2f", p.name, got[1], p.b)
		}
	}
}

// TestNoImportantJobIsPromisedMoreThanWasMeasured: by its prediction it is paired, or not.
func TestNoImportantJobIsPromisedMoreThanWasMeasured(t *testing.T) {
	const margin = .02
	for _, p := range pairs {
		tenants := []predict.Tenant{{Class: p.first, Busy: p.busy}}
		for range p.many {
			tenants = append(tenants, predict.Tenant{Class: p.other, Busy: 1})
		}
		got := predict.Speeds(p.mode, tenants)
		if got[0] > p.a+margin {
			t.Errorf("%s: the first is promised %.3f, measured %.2f", p.name, got[0], p.a)
		}
		if p.other == share.High && got[1] > p.b+margin {
			t.Errorf("%s: the other is promised %.3f, measured %.2f", p.name, got[1], p.b)
		}
	}
}

func TestAnImportantJobLosesNothingWhereItOrTheOthersHardlyUseTheGPU(t *testing.T) {
	for _, mode := range modes {
		for _, pair := range [][2]float64{{1e-6, 1}, {1, 1e-6}} {
			tenants := []predict.Tenant{{Class: share.High, Busy: pair[0]}, {Class: share.Low, Busy: pair[1]}}
			if got := predict.Speeds(mode, tenants)[0]; got < 1-1e-5 {
				t.Errorf("%s, busy %g beside %g: %g", mode, pair[0], pair[1], got)
			}
		}
	}
}

func TestTheImportantJobDoesBestWithFillAndWorstByPriorityAlone(t *testing.T) {
	speed := func(mode predict.Mode) float64 {
		return predict.Speeds(mode, []predict.Tenant{{Class: share.High, Busy: .55}, {Class: share.Low, Busy: 1}})[0]
	}
	if fill, sliced, turns := speed(predict.Fill), speed(predict.Slicing), speed(predict.Turns); !(fill > sliced &&
		sliced > turns) {
		t.Errorf("fill %.2f, time slicing %.2f, turns %.2f", fill, sliced, turns)
	}
}

func TestAJobOfWhichNothingIsKnownCountsAsAlwaysBusy(t *testing.T) {
	for _, busy := range []float64{0, -1, math.NaN(), math.Inf(1), 7} {
		both := func(busy float64) []float64 {
			pair := []predict.Tenant{{Class: share.High, Busy: busy}, {Class: share.Low, Busy: busy}}
			return predict.Speeds(predict.Fill, pair)
		}
		unknown, full := both(busy), both(1)
		if unknown[0] != full[0] || unknown[1] != full[1] {
			t.Errorf("busy %v: %v, always busy %v", busy, unknown, full)
		}
	}
}

func TestWhoIsAloneIsAsFastAsAlone(t *testing.T) {
	for _, mode := range modes[:3] {
		for _, class := range []share.Class{share.High, share.Low} {
			if got := predict.Speeds(mode, []predict.Tenant{{Class: class, Busy: .8}}); got[0] != 1 {
				t.Errorf("%s, %s: %v", mode, class, got)
			}
		}
	}
	if got := predict.Speeds(predict.Fill, []predict.Tenant{{Class: share.Low, Busy: 1}}); math.Abs(got[0]-.68) > 1e-9 {
		t.Errorf("half of the threads, alone: %v", got)
	}
}

var modes = []predict.Mode{predict.Slicing, predict.Turns, predict.LookAhead, predict.Fill}

func drawTenants(t *rapid.T) []predict.Tenant {
	tenants := make([]predict.Tenant, rapid.IntRange(1, share.MostJobs).Draw(t, "tenants"))
	for i := range tenants {
		tenants[i] = predict.Tenant{
			Class: rapid.SampledFrom([]share.Class{share.High, share.Low}).Draw(t, "class"),
			Busy:  rapid.Float64Range(0, 1).Draw(t, "busy"),
		}
	}
	return tenants
}

func TestNobodyIsFasterThanAloneOrWithBusierNeighbours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenants := drawTenants(t)
		mode := rapid.SampledFrom(modes).Draw(t, "mode")
		before := predict.Speeds(mode, tenants)
		which := rapid.IntRange(0, len(tenants)-1).Draw(t, "busier")
		if tenants[which].Busy > 0 {
			tenants[which].Busy = rapid.Float64Range(tenants[which].Busy, 1).Draw(t, "to")
		}
		after := predict.Speeds(mode, tenants)
		more := predict.Speeds(mode, append(tenants, predict.Tenant{Class: share.Low, Busy: .5}))
		for i := range tenants {
			for _, speed := range []float64{before[i], after[i], more[i]} {
				if !(speed >= 0 && speed <= 1) {
					t.Fatalf("tenant %d: %v, then %v, with one more %v", i, before, after, more)
				}
			}
			if after[i] > before[i] || more[i] > after[i] {
				t.Fatalf("tenant %d: %v, when %d is busier %v, with one more %v", i, before, which, after, more)
			}
		}
	})
}

func TestTheImportantNeverLosesMoreThanTheOtherWhereItIsPreferred(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		busy := rapid.Float64Range(.01, 1).Draw(t, "busy")
		mode := rapid.SampledFrom([]predict.Mode{predict.LookAhead, predict.Fill}).Draw(t, "mode")
		got := predict.Speeds(mode, []predict.Tenant{{Class: share.High, Busy: busy}, {Class: share.Low, Busy: busy}})
		if got[0] < got[1] {
			t.Fatalf("%s, both busy for %v: %v", mode, busy, got)
		}
	})
}

func TestTheBestBoundIsThatOfDeftsTable(t *testing.T) {
	const sync = 11500 * time.Nanosecond
	for _, c := range []struct {
		name    string
		kernels int
		each    time.Duration
		best    int
		worst   time.Duration // of what is queued
		part    float64
	}{
		{"FasterRCNN 1440p", 913, 104 * time.Microsecond, 10, 1040 * time.Microsecond, .011},
		{"FasterRCNN 720p", 954, 33300, 18, 600 * time.Microsecond, .019},
		{"DeepLabV3 1440p", 246, 727 * time.Microsecond, 2, 1454 * time.Microsecond, .008},
		{"RetinaNet 720p, batch 16", 4745, 90 * time.Microsecond, 25, 2250 * time.Microsecond, .005},
	} {
		k := predict.Kernels{Count: c.kernels, Each: c.each}
		if got := k.BestBound(sync); got != c.best {
			t.Errorf("%s: N* = %d, want %d", c.name, got, c.best)
		}
		w := predict.Bounded(k, c.best, 1, sync, 0)
		if queue := w.Worst - sync; math.Abs(queue.Seconds()-c.worst.Seconds()) > 2e-5 {
			t.Errorf("%s: worst wait %v, want %v", c.name, queue, c.worst)
		}
		if math.Abs(w.Overhead-c.part) > .001 {
			t.Errorf("%s: overhead %.4f, want %.3f", c.name, w.Overhead, c.part)
		}
	}
}

func TestAWaitForAStepIsAtWorstTheStepAndOnTheAverageHalfOfItWhileItIsHeld(t *testing.T) {
	w := predict.Stepwise(20*time.Millisecond, .5, 100*time.Microsecond)
	if w.Worst != 20100*time.Microsecond || w.Mean != 5100*time.Microsecond || math.Abs(w.Overhead-.005) > 1e-9 {
		t.Errorf("%+v", w)
	}
	if got := w.Inflation(41 * time.Millisecond); math.Abs(got-1.1244) > 1e-3 {
		t.Errorf("inflation %.4f", got)
	}
	if got := (predict.Wait{Mean: time.Second}).Inflation(0); got != 1 {
		t.Errorf("of no step: %v", got)
	}
}
