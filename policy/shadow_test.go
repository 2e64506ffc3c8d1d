package policy

import (
	"math/rand"
	"slices"
	"testing"
	"time"
)

// TestAJobThatNodesAreKeptForStartsNoLaterForWhatIsBackfilledOnThem: a gang waits for nodes on which jobs run that stop
// for nobody, and short jobs come that cannot be asked to leave either. All run for just their time limits. It starts
// when it would have started if none of the short ones had come, under a policy in which nobody gives way and under one
// in which some would.
func TestAJobThatNodesAreKeptForStartsNoLaterForWhatIsBackfilledOnThem(t *testing.T) {
	passed := 0
	for seed := range int64(60) {
		for _, p := range []Policy{Slurm(), FIFO()} {
			draw := rand.New(rand.NewSource(seed))
			busy, gang, short := backfillQueue(draw)
			c := paperCluster(2 + draw.Intn(3))
			c.Rules = Rules{Patience: time.Hour, MinRun: time.Duration(draw.Intn(20)) * time.Minute}
			alone, _ := startOf(t, c, p, busy, gang, nil)
			beside, ran := startOf(t, c, p, busy, gang, short)
			if passed += ran; beside.After(alone) {
				t.Errorf("seed %d, %s: the gang starts after %v alone, and after %v beside what was backfilled", seed,
					p.Name, alone.Sub(epoch), beside.Sub(epoch))
			}
		}
	}
	if passed < 200 {
		t.Errorf("%d jobs were started while the gang waited: too few to show anything", passed)
	}
}

// backfillQueue draws jobs that run for hours and cannot save, a gang that has waited long for several nodes, and jobs
// of minutes to hours, of which some have no time limit.
func backfillQueue(draw *rand.Rand) (busy []Job, gang Job, short []Job) {
	for id := range 1 + draw.Intn(4) {
		busy = append(busy, Job{ID: 1 + id, GPUs: 1 + draw.Intn(8), Arrival: epoch.Add(-5 * time.Hour), Fixed: true,
			TimeLimit: time.Duration(60+draw.Intn(600)) * time.Minute, Priority: 9})
	}
	gang = Job{ID: 10, GPUs: 16, Nodes: 2, Arrival: epoch.Add(-3 * time.Hour), Fixed: true, TimeLimit: time.Hour,
		Priority: 8}
	for id := range 20 {
		j := Job{ID: 20 + id, GPUs: 1 + draw.Intn(4), Fixed: true, Priority: int64(draw.Intn(8)),
			Arrival: epoch.Add(time.Duration(draw.Intn(300)) * time.Minute)}
		if draw.Intn(5) > 0 {
			j.TimeLimit = time.Duration(1+draw.Intn(240)) * time.Minute
		}
		short = append(short, j)
	}
	return busy, gang, short
}

// startOf plays rounds of five minutes until the gang starts, and counts the others that were started before it. What
// is to be busy starts before the gang has come.
func startOf(t *testing.T, c Cluster, p Policy, busy []Job, gang Job, short []Job) (at time.Time, passed int) {
	t.Helper()
	c.Now, c.Jobs = epoch, busy
	playRound(t, &c, p)
	c.Jobs = slices.DeleteFunc(c.Jobs, func(j Job) bool { return j.Running == nil }) // nodes are kept for one job alone
	c.Jobs = append(c.Jobs, gang)
	for range 12 * 20 {
		for _, j := range short {
			if come := c.Now.Sub(j.Arrival); come >= 0 && come < 5*time.Minute {
				c.Jobs = append(c.Jobs, j)
			}
		}
		slices.SortFunc(c.Jobs, func(x, y Job) int { return x.ID - y.ID })
		passed += playRound(t, &c, p)
		if k := slices.IndexFunc(c.Jobs, func(j Job) bool { return j.ID == gang.ID }); c.Jobs[k].Running != nil {
			return c.Now, passed
		}
		c.Now = c.Now.Add(5 * time.Minute)
		c.Jobs = slices.DeleteFunc(c.Jobs, func(j Job) bool {
			return j.Running != nil && j.TimeLimit > 0 && !c.Now.Before(j.Started.Add(j.TimeLimit))
		})
	}
	return c.Now, passed
}

// playRound plans a round and does as it says.
func playRound(t *testing.T, c *Cluster, p Policy) (started int) {
	t.Helper()
	plan := Decide(*c, p, Tune())
	if err := Check(*c, plan); err != nil {
		t.Fatal(err)
	}
	c.Jobs = slices.Clone(c.Jobs)
	for i := range c.Jobs {
		if j, g := &c.Jobs[i], plan.Decisions[i].Grant; g != nil && j.Running == nil {
			j.Running, j.Started, started = g, c.Now, started+1
		}
	}
	return started
}
