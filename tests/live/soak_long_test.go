//go:build live && bench

package live

import (
	"slices"
	"testing"
)

// TestTwoThousandShortJobs says whether memory, goroutines and the ledger are flat: their median over the last quarter
// of the run is no more than a tenth above that over the second quarter. Beside that goroutines may vary by 10, memory
// by 8 MB.
func TestTwoThousandShortJobs(t *testing.T) {
	samples := soak(t, 2000)
	n := len(samples)
	t.Logf("%d samples; medians over each quarter of the run", n)
	for _, what := range []struct {
		name  string
		unit  float64
		noise float64
	}{{residentMemory, 1e6, 8}, {"go_memstats_heap_alloc_bytes", 1e6, 8}, {goroutines, 1, 10}, {ledgerSize, 1e6, 0.1}} {
		quarters := make([]float64, 4)
		for q := range quarters {
			quarters[q] = median(samples[q*n/4:(q+1)*n/4], what.name) / what.unit
		}
		t.Logf("%-32s %8.2f %8.2f %8.2f %8.2f, at the end %8.2f", what.name, quarters[0], quarters[1], quarters[2],
			quarters[3], samples[n-1][what.name]/what.unit)
		if quarters[3] > 1.1*quarters[1]+what.noise {
			t.Errorf("%s grows: %.2f in the second quarter, %.2f in the last", what.name, quarters[1], quarters[3])
		}
	}
}

func median(samples []figures, name string) float64 {
	values := make([]float64, 0, len(samples))
	for _, f := range samples {
		values = append(values, f[name])
	}
	slices.Sort(values)
	return values[len(values)/2]
}
