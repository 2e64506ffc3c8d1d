package testbed

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

const ms = time.Millisecond

func must(t *testing.T, c Config) Result {
	t.Helper()
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pair are the two jobs that were measured on an H100: ResNet-50 with a gap and ViT-B/16 without. For a fifth
// of the first one's step the GPU waits for its host: two of them in slices did 1.1 times what one does alone.
func pair(mode Mode, gap time.Duration) Config {
	return Config{Mode: mode, Duration: time.Minute, Seed: 1, Jitter: 0.1, Clients: []Client{
		{Name: "resnet50", Class: share.High, Kernels: 200, Kernel: ms / 10, Host: 5 * ms, Gap: gap},
		{Name: "vit", Class: share.Low, Kernels: 350, Kernel: ms / 10, Host: 1 * ms},
	}}
}

func TestTheSameExperimentHasTheSameResult(t *testing.T) {
	for _, mode := range []Mode{Queue, Slicing, Kernels, Turns, LookAhead, Fill} {
		c := pair(mode, 20*ms)
		c.Duration = 5 * time.Second
		if one, two := must(t, c), must(t, c); !reflect.DeepEqual(one, two) {
			t.Errorf("%s: two runs differ", mode)
		}
	}
}

// TestTheH100sTableIsFound holds the emulated speeds beside those that were measured. Turns at a gap of
// 60 ms are left out: the steps were themselves longer there (33 and 43 ms).
func TestTheH100sTableIsFound(t *testing.T) {
	for _, row := range []struct {
		mode      Mode
		gap       time.Duration
		high, low float64
		within    float64
	}{
		{Slicing, 0, 0.61, 0.49, 0.13},
		{Slicing, 20 * ms, 0.76, 0.67, 0.13},
		{Slicing, 60 * ms, 0.84, 0.77, 0.13},
		{Turns, 0, 0.40, 0.59, 0.13},
		{Turns, 20 * ms, 0.76, 0.59, 0.13},
		{LookAhead, 0, 0.90, 0.01, 0.13},
		{LookAhead, 20 * ms, 0.81, 0.05, 0.17},
		{LookAhead, 60 * ms, 0.83, 0.40, 0.17},
		{Fill, 0, 0.72, 0.54, 0.1},
		{Fill, 20 * ms, 0.80, 0.72, 0.1},
	} {
		r := must(t, pair(row.mode, row.gap))
		high, low := r.Clients[0].Speed, r.Clients[1].Speed
		t.Logf("%-9s gap %-4v %.2f %.2f (measured %.2f %.2f)", row.mode, row.gap, high, low, row.high, row.low)
		if max(math.Abs(high-row.high), math.Abs(low-row.low)) > row.within {
			t.Errorf("%s at a gap of %v is not what was measured", row.mode, row.gap)
		}
	}
}
