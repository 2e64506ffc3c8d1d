package policy

import "testing"

// Synergy, OSDI'22, §4: greedy allocation leaves GPUs idle for want of cores; TUNE does not, and gains as well.
func TestGreedyLeavesGPUsIdleWhereTuneDoesNot(t *testing.T) {
	c := paperCluster(1)
	for i, p := range models(t, "alexnet", "alexnet", "gnmt", "res18", "mobilenet") {
		c.Jobs = append(c.Jobs, Job{ID: i + 1, GPUs: 1, Profile: p, Saves: true, Arrival: epoch})
	}
	fair, greedy, tuned := Decide(c, FIFO(), Proportional()), Decide(c, FIFO(), Greedy()), Decide(c, FIFO(), Tune())
	if gpusIn(greedy) != 2 || gpusIn(tuned) != 5 || gpusIn(fair) != 5 {
		t.Errorf("%d GPUs used by greedy, %d by tune, %d by proportional, want 2, 5, 5", gpusIn(greedy), gpusIn(tuned),
			gpusIn(fair))
	}
	const optimum = 7.76 // in whole steps of the measured matrix
	if gainIn(tuned) < optimum || gainIn(tuned) <= gainIn(greedy) {
		t.Errorf("throughput %.3f, greedy %.3f, want %.2f at least", gainIn(tuned), gainIn(greedy), optimum)
	}
}

// Synergy, OSDI'22: TUNE is within 10 % of the optimum. The bound pools all servers, so no plan reaches it where large
// jobs keep cores to themselves that others could use.
func TestTuneIsWithinTenPercentOfTheBound(t *testing.T) {
	for _, m := range []struct {
		name                     string
		servers, image, language int
		gpus                     []int
		want                     float64
	}{
		{"20/70/10 on 16 servers, one GPU each", 16, 20, 70, oneGPU, 0.995},
		{"33/33/33 on 16 servers, one GPU each", 16, 33, 33, oneGPU, 0.995},
		{"60/30/10 on 16 servers, one GPU each", 16, 60, 30, oneGPU, 0.995},
		{"20/70/10 on 128 servers, one GPU each", 128, 20, 70, oneGPU, 0.995},
		{"20/70/10 on 128 servers, 1 to 8 GPUs", 128, 20, 70, manyGPUs, 0.97},
		{"33/33/33 on 128 servers, 1 to 8 GPUs", 128, 33, 33, manyGPUs, 0.94},
		{"60/30/10 on 128 servers, 1 to 8 GPUs", 128, 60, 30, manyGPUs, 0.965},
	} {
		c := full(t, m.servers, m.image, m.language, m.gpus)
		best := bound(c)
		got := gainIn(Decide(c, FIFO(), Tune())) / best
		t.Logf("%s: %d jobs, tune %.1f %%, greedy %.1f %%, proportional %.1f %% of the bound", m.name, len(c.Jobs),
			100*got,
			100*gainIn(Decide(c, FIFO(), Greedy()))/best, 100*gainIn(Decide(c, FIFO(), Proportional()))/best)
		if got < m.want || got > 1+1e-6 {
			t.Errorf("%s: tune reaches %.4f of the bound, want %.2f to 1", m.name, got, m.want)
		}
	}
}
