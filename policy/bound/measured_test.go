package bound_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// ofAnH100 are three models as they were measured on an H100 with up to 16 cores: a convolutional network, a language
// model, and a vision transformer in the place of the paper's speech models. The curves are made to rise (the isotonic
// fit), as the profiler does it, and scatter beside that: the language model, which needs no cores, is 2 to 3 % faster
// here and there. Memory was not measured.
func ofAnH100(t testing.TB) families { return ofAnH100Within(t, 0) }

// ofAnH100Within takes the last points of a curve for one that differ by less than a part of the last, as the profiler
// does where their scatter does not tell them apart.
func ofAnH100Within(t testing.TB, scatter float64) families {
	known := map[string]*sensitivity.Profile{}
	for name, rates := range recorded(t) {
		p := &sensitivity.Profile{Version: 1, Model: name, CoresPerGPU: axis,
			MemoryPerGPU: []gres.Memory{16 * gres.Gigabyte}}
		weights := make([]float64, len(rates))
		for i := range weights {
			weights[i] = 1
		}
		risen := profiler.Isotonic(rates, weights)
		most := risen[len(risen)-1]
		first := slices.IndexFunc(risen, func(rate float64) bool { return rate >= most*(1-scatter) })
		level := 0.0
		for _, rate := range risen[first:] {
			level += rate / float64(len(risen)-first)
		}
		for i, rate := range risen {
			if i >= first && scatter > 0 {
				rate = level
			}
			p.Throughput = append(p.Throughput, []float64{rate})
		}
		known[name] = p
	}
	return families{{known["resnet50"]}, {known["gpt"]}, {known["vit_b_16"]}}
}

// axis is the cores with which the curves were measured.
var axis = []float64{1, 2, 3, 4, 6, 8, 12, 16}

// recorded reads the curves, samples/s along the axis, by model.
func recorded(t testing.TB) map[string][]float64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "sensitivity", "profiler", "replay", "testdata", "h100.txt"))
	if err != nil {
		t.Fatal(err)
	}
	curves := map[string][]float64{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 2+len(axis) || words[0] == "#" || words[0] == "cores" {
			continue
		}
		for _, word := range words[2:] {
			rate, err := strconv.ParseFloat(word, 64)
			if err != nil {
				t.Fatal(err)
			}
			curves[words[0]] = append(curves[words[0]], rate)
		}
	}
	if len(curves) != 3 {
		t.Fatalf("%d curves", len(curves))
	}
	return curves
}

// A job is never slower than with its share, so one whose curve rises by its scatter alone keeps its share, and lends
// nothing. What that costs is looked at on curves as they were recorded, and with the plateau that the profiler makes
// of points that 3 % of scatter do not tell apart.
func TestAPlateauLendsWhatScatterWithholds(t *testing.T) {
	for _, on := range []server{of(32, 8, 24, 1000), of(32, 8, 32, 1000), of(32, 8, 48, 1000), of(32, 8, 64, 1000)} {
		for _, gpus := range [][]int{oneGPU, manyGPUs} {
			value := func(models families) (worth, ratio float64) {
				c := batchOf(models, clusterOf(on), mixed{33, 33}, gpus, 1)
				cert := bound.Certify(&c, policy.Decide(c, policy.FIFO(), policy.Tune()))
				return cert.Value, cert.Ratio()
			}
			scattered, reached := value(ofAnH100(t))
			level, reachedToo := value(ofAnH100Within(t, 0.03))
			t.Logf(
				"%d cores, up to %d GPUs: %.1f as recorded (%.2f %% of the bound), %.1f with plateaus (%.2f %%): "+
					"%+.1f %%", on.total.CPUs,
				slices.Max(gpus), scattered, 100*reached, level, 100*reachedToo, 100*(level/scattered-1))
			if level < scattered*0.999 || on.total.CPUs >= 48 && level < scattered*1.05 {
				t.Errorf("%d cores: %.2f with plateaus, %.2f without", on.total.CPUs, level, scattered)
			}
		}
	}
}
