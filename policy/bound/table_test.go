package bound_test

import (
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
)

// TestTheTableOfPerformance prints the table of docs/performance.md, and holds its rows to a floor.
func TestTheTableOfPerformance(t *testing.T) {
	twoKinds := []server{of(64, 8, 24, 500), of(64, 8, 64, 500)}
	eightAndFour := []server{of(64, 8, 24, 500), of(64, 4, 20, 400)}
	for _, row := range []struct {
		name    string
		servers []server
		mix     mixed
		gpus    []int
		floor   float64
	}{
		{"8/24/500, one GPU, 20/70/10", []server{of(128, 8, 24, 500)}, mixed{20, 70}, oneGPU, 0.995},
		{"8/24/500, one GPU, 33/33/33", []server{of(128, 8, 24, 500)}, mixed{33, 33}, oneGPU, 0.995},
		{"8/24/500, 1-8 GPUs, 33/33/33", []server{of(128, 8, 24, 500)}, mixed{33, 33}, manyGPUs, 0.99},
		{"8/24/500, 1-8 GPUs, 60/30/10", []server{of(128, 8, 24, 500)}, mixed{60, 30}, manyGPUs, 0.99},
		{"8/24/300, one GPU, 20/70/10", []server{of(128, 8, 24, 300)}, mixed{20, 70}, oneGPU, 0.995},
		{"8/24/300, 1-8 GPUs, 33/33/33", []server{of(128, 8, 24, 300)}, mixed{33, 33}, manyGPUs, 0.99},
		{"8/48/300, 1-8 GPUs, 60/30/10", []server{of(128, 8, 48, 300)}, mixed{60, 30}, manyGPUs, 0.99},
		{"4/12/250, 1-4 GPUs, 33/33/33", []server{of(128, 4, 12, 250)}, mixed{33, 33}, fewGPUs, 0.99},
		{"24 and 64 cores, one GPU, 33/33/33", twoKinds, mixed{33, 33}, oneGPU, 0.995},
		{"24 and 64 cores, 1-8 GPUs, 33/33/33", twoKinds, mixed{33, 33}, manyGPUs, 0.99},
		{"8- and 4-GPU nodes, 1-8 GPUs, 60/30/10", eightAndFour, mixed{60, 30}, manyGPUs, 0.99},
	} {
		c := batch(t, clusterOf(row.servers...), row.mix, row.gpus, 42)
		plan := policy.Decide(c, policy.FIFO(), policy.Tune())
		cert := bound.Certify(&c, plan)
		t.Logf("%-40s %5d jobs: %.2f %% of the bound, %.1f %% of that by prices; %s, %d classes", row.name, len(c.Jobs),
			100*cert.Ratio(), 100*cert.Value/cert.Pooled, cert.String(), cert.Classes)
		if cert.Ratio() < row.floor || cert.Value > cert.Bound*(1+1e-9) {
			t.Errorf("%s: %.4f of the bound, want %.2f to 1", row.name, cert.Ratio(), row.floor)
		}
	}
}

// TestPlansFromEmptyComeToTheBound: full clusters of many kinds are planned from empty to within half a per cent of the
// bound where all jobs have one GPU, and to one per cent where they have more.
func TestPlansFromEmptyComeToTheBound(t *testing.T) {
	paper, measured := ofThePaper(t), ofAnH100(t)
	plans, sum, lowest := 0, 0.0, 1.0
	for _, row := range []struct {
		name    string
		servers []server
		gpus    []int
		floor   float64
		models  families
	}{
		{"8/24/500, one GPU", []server{of(128, 8, 24, 500)}, oneGPU, 0.995, paper},
		{"8/24/500, 1-8 GPUs", []server{of(128, 8, 24, 500)}, manyGPUs, 0.99, paper},
		{"8/32/500, one GPU", []server{of(128, 8, 32, 500)}, oneGPU, 0.995, paper},
		{"8/32/500, 1-8 GPUs", []server{of(128, 8, 32, 500)}, manyGPUs, 0.99, paper},
		{"8/40/500, 1-8 GPUs", []server{of(128, 8, 40, 500)}, manyGPUs, 0.99, paper},
		{"8/48/500, one GPU", []server{of(128, 8, 48, 500)}, oneGPU, 0.995, paper},
		{"8/48/500, 1-8 GPUs", []server{of(128, 8, 48, 500)}, manyGPUs, 0.99, paper},
		{"8/24/300, one GPU", []server{of(128, 8, 24, 300)}, oneGPU, 0.995, paper},
		{"8/24/300, 1-8 GPUs", []server{of(128, 8, 24, 300)}, manyGPUs, 0.99, paper},
		{"8/48/300, 1-8 GPUs", []server{of(128, 8, 48, 300)}, manyGPUs, 0.99, paper},
		{"4/12/250, 1-4 GPUs", []server{of(128, 4, 12, 250)}, fewGPUs, 0.99, paper},
		{"24 and 64 cores, one GPU", []server{of(64, 8, 24, 500), of(64, 8, 64, 500)}, oneGPU, 0.995, paper},
		{"24 and 64 cores, 1-8 GPUs", []server{of(64, 8, 24, 500), of(64, 8, 64, 500)}, manyGPUs, 0.99, paper},
		{"8- and 4-GPU nodes, 1-8 GPUs", []server{of(64, 8, 24, 500), of(64, 4, 20, 400)}, manyGPUs, 0.99, paper},
		{"16 of 8/24/500, one GPU", []server{of(16, 8, 24, 500)}, oneGPU, 0.995, paper},
		{"16 of 8/24/500, 1-8 GPUs", []server{of(16, 8, 24, 500)}, manyGPUs, 0.99, paper},
		{"H100 curves, 8/24/1000, one GPU", []server{of(128, 8, 24, 1000)}, oneGPU, 0.995, measured},
		{"H100 curves, 8/24/1000, 1-8 GPUs", []server{of(128, 8, 24, 1000)}, manyGPUs, 0.99, measured},
		{"H100 curves, 8/32/1000, 1-8 GPUs", []server{of(128, 8, 32, 1000)}, manyGPUs, 0.99, measured},
		{"H100 curves, 8/40/1000, 1-8 GPUs", []server{of(128, 8, 40, 1000)}, manyGPUs, 0.99, measured},
		{"H100 curves, 8/48/1000, 1-8 GPUs", []server{of(128, 8, 48, 1000)}, manyGPUs, 0.99, measured},
		{"H100 curves, 8/64/1000, one GPU", []server{of(128, 8, 64, 1000)}, oneGPU, 0.995, measured},
		{"H100 curves, 8/64/1000, 1-8 GPUs", []server{of(128, 8, 64, 1000)}, manyGPUs, 0.99, measured},
		{"H100 curves, 4/24/500, 1-4 GPUs", []server{of(128, 4, 24, 500)}, fewGPUs, 0.99, measured},
		{"H100 curves, 24 and 64 cores, 1-8 GPUs", []server{of(64, 8, 24, 1000), of(64, 8, 64, 1000)}, manyGPUs, 0.99,
			measured},
	} {
		for _, m := range []mixed{{20, 70}, {33, 33}, {60, 30}, {100, 0}, {50, 0}} {
			for seed := range seeds() {
				c := batchOf(row.models, clusterOf(row.servers...), m, row.gpus, seed)
				plan := policy.Decide(c, policy.FIFO(), policy.Tune())
				if err := policy.Check(c, plan); err != nil {
					t.Fatal(err)
				}
				cert := bound.Certify(&c, plan)
				if cert.Ratio() < row.floor {
					t.Errorf("%s, %d/%d, seed %d: %.4f of the bound, want %.3f", row.name, m.image, m.language, seed,
						cert.Ratio(), row.floor)
				}
				plans, sum, lowest = plans+1, sum+cert.Ratio(), min(lowest, cert.Ratio())
			}
		}
	}
	t.Logf("%d plans: %.2f %% of the bound in the mean, %.2f %% at least", plans, 100*sum/float64(plans), 100*lowest)
}

// seeds are those from which clusters are drawn: one of them where time is short.
func seeds() int64 {
	if testing.Short() {
		return 1
	}
	return 3
}
