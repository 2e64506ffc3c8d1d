package bridge

import (
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// mostChecks bounds how many progress windows are kept between two full rounds. A progress window is the time between
// two progress reports of a job, over which its speed was measured.
const mostChecks = 10_000

// bookSavings makes the round's entry in the ledger of savings, if that is configured: what jobs hold and would hold
// without the daemon, and which GPUs are idle. A small round makes no entry; it only keeps its progress windows for the
// next full round. The entry is set in the report, and its time in Runner.booked. A window of an observation that led
// to no round is seen again.
func bookSavings(t *activeRound) {
	if !t.runner.Settings.Savings {
		return
	}
	for _, tn := range t.observation.managed {
		if tn.measuredSpeed > 0 && tn.claimed > 0 && len(t.runner.checks) < mostChecks {
			t.runner.checks = append(t.runner.checks, savings.Check{Ran: tn.measuredSpeed, Said: tn.claimed})
		}
	}
	if t.small {
		return
	}
	r := &savings.Round{At: t.observation.at, Shadow: t.runner.Settings.Shadow, Checks: t.runner.checks}
	t.runner.checks = nil
	for n := range t.report.Snapshot.Nodes {
		r.GPUs += t.report.Snapshot.Nodes[n].Total.GPUs
	}
	addRunningJobs(t, r)
	addIdleGPUs(t, r)
	t.report.Savings, t.runner.booked = r, t.observation.at
}

// addRunningJobs adds the running managed jobs to the entry, and counts the others in managed partitions, about which
// it says nothing.
func addRunningJobs(t *activeRound, r *savings.Round) {
	var held policy.GPUCount
	for _, tn := range t.runner.cache.jobs {
		switch {
		case tn.State != slurm.Running || tn.Request.GPUs < 1 || !t.runner.manages(tn.Partition):
		case tn.isOurs && tn.untouchedBecause == "":
			j := savingsJob(t, tn)
			if tn.Runs.Shard != "" { // of the jobs on one device, only one counts the GPU
				j.GPUs = held.More(policy.Placement{Nodes: tn.Runs.Nodes, PerNode: tn.Runs.PerNode,
					Device: tn.Runs.Shard})
			}
			r.Jobs = append(r.Jobs, j)
		default:
			r.UnmatchedJobs, r.Unmatched = r.UnmatchedJobs+1, r.Unmatched+tn.Request.GPUs
		}
	}
}

// savingsJob is the entry of a running job: its speed with its user's own request (Asked) and with its grant (With),
// both relative to the proportional share. In shadow mode the job holds what its user asked for, and the grant is what
// the plan would give it. Unsaved and Saved are its speeds by the plans in which no job, or every job, could save; they
// stay 0 without such plans. Without a profile for its GPUs the speeds are unknown, and Asked and With are 1.
func savingsJob(t *activeRound, tn *managedJob) savings.Job {
	j := savings.Job{ID: tn.ID, Started: tn.Started, Since: tn.since, GPUs: tn.Request.GPUs, Asked: 1, With: 1}
	if tn.profile == nil || !tn.sameGPUsOnEachNode() || slices.Contains(tn.nodePlaces, unmanagedPlace) {
		return j
	}
	profile := policy.ProfileOn(tn.profile, tn.topology.gpuType(tn.nodePlaces[0]))
	if profile == nil {
		return j
	}
	total := tn.topology.total(tn.nodePlaces[0])
	fair := gres.Proportional(total, tn.Runs.PerNode.GPUs)
	asked, given := tn.Runs.PerNode, tn.Runs.PerNode
	if !t.runner.Settings.Shadow {
		asked = tn.slurmAmount(total, fair)
	} else if tn.shadowPlacement != nil {
		given = tn.shadowPlacement.PerNode
	}
	a := profile.Gain(atLeastMeasured(profile, asked), fair)
	w := profile.Gain(atLeastMeasured(profile, given), fair)
	if a > 0 && w > 0 {
		j.Known, j.Asked, j.With = true, a, w
		j.Of = fingerprint(tn.directives.Profile, tn.profile.Model, tn.topology.gpuType(tn.nodePlaces[0]))
	}
	if j.Known && tn.noSavePlacement != nil && tn.allSavePlacement != nil {
		j.Unsaved = profile.Gain(atLeastMeasured(profile, tn.noSavePlacement.PerNode), fair)
		j.Saved = profile.Gain(atLeastMeasured(profile, tn.allSavePlacement.PerNode), fair)
	}
	return j
}

// atLeastMeasured raises an amount to the least one that the profile has measured. Below that amount a profile's speed
// falls in proportion, so that no plan promises a speed that was not measured. The ledger must not take that for how
// slow a job would be, since it was not measured either.
func atLeastMeasured(p *sensitivity.Profile, v gres.Vector) gres.Vector {
	v.CPUs = max(v.CPUs, int(math.Ceil(p.CoresPerGPU[0]*float64(v.GPUs))))
	v.Memory = max(v.Memory, p.MemoryPerGPU[0]*gres.Memory(v.GPUs))
	return v
}

// fingerprint is a hash that identifies texts without revealing them.
func fingerprint(texts ...string) string {
	sum := fnv.New64a()
	for _, text := range texts {
		sum.Write([]byte(text))
		sum.Write([]byte{0})
	}
	return strconv.FormatUint(sum.Sum64(), 16)
}

// slurmAmount is what Slurm alone would have given a running job on each of its nodes, to compare it with what the job
// has: its user's own request, but no more than the node has in total, and the proportional share of the memory (fair)
// if the request does not name any.
func (t *managedJob) slurmAmount(total, fair gres.Vector) gres.Vector {
	own := t.record.Own.PerNode()
	own.GPUs = t.Runs.PerNode.GPUs
	own.CPUs, own.Memory = min(own.CPUs, total.CPUs), min(own.Memory, total.Memory)
	if own.Memory == 0 {
		own.Memory = fair.Memory
	}
	return own
}

// addIdleGPUs adds to the entry the GPUs that are idle although a job has waited for one at least since the last full
// round. Jobs that may not start anyway do not count. In shadow mode it adds as well on how many of them the plan would
// have started jobs.
func addIdleGPUs(t *activeRound, r *savings.Round) {
	c := &t.report.Snapshot
	var wants []savings.Want
	classes := map[wantClass]int{}
	for i, tn := range t.observation.managed {
		j := &c.Jobs[i]
		// A job that ran since waits from its requeue on, whenever it arrived.
		if tn.State != slurm.Pending || j.Barred != "" || tn.Submitted.After(t.runner.booked) ||
			t.runner.booked.IsZero() {
			continue
		}
		// Shadow mode starts nothing, so what the plan would use stays idle. A slot on a shared GPU would use no idle
		// one.
		if d := &t.report.Plan.Decisions[i]; d.Grant != nil && d.Reason != policy.Shares && t.runner.Settings.Shadow {
			r.Filled += d.Grant.Total().GPUs
		}
		w, class := wantOf(t, tn, j)
		k, known := classes[class]
		switch {
		case known:
			wants[k].Count++
		case len(wants) < mostWants:
			classes[class] = len(wants)
			wants = append(wants, w)
		}
	}
	r.Idle = savings.Stranded(savingsPlaces(t), wants)
}

// mostWants bounds how many kinds of waiting jobs are considered. Jobs of further kinds are not counted.
const mostWants = 200

// wantClass is what waiting jobs have in common if one of them stands for all, so that thousands of equal jobs cost as
// much as one.
type wantClass struct {
	nodes              int
	perNode            gres.Vector
	gpuType, partition string
	own                int // ID of a job that is in a class alone; 0: jobs with the other fields equal are in one class
}

// wantOf is what a waiting job asks for and on which nodes it could have that, and its class. A job with constraints of
// its own on nodes is in a class alone.
func wantOf(t *activeRound, tn *managedJob, j *policy.Job) (savings.Want, wantClass) {
	w := savings.Want{Count: 1, Nodes: max(1, j.Nodes), PerNode: tn.record.Own.PerNode()}
	nodes := t.report.Snapshot.Nodes
	w.On = func(p int) bool {
		n := &nodes[p]
		return (j.GPUType == "" || j.GPUType == n.GPUType) && !slices.Contains(j.Except, n.Name) &&
			(len(j.Only) == 0 || slices.Contains(j.Only, n.Name)) &&
			!slices.ContainsFunc(j.Features, func(f string) bool { return !n.Has(f) })
	}
	class := wantClass{nodes: w.Nodes, perNode: w.PerNode, gpuType: j.GPUType, partition: tn.Partition}
	if len(j.Except)+len(j.Features)+len(tn.record.Own.Pin) > 0 || j.Reservation != "" {
		class.own = tn.ID
	}
	return w, class
}

// savingsPlaces are the nodes with what is really free on them. Closed nodes and those that are reserved now have
// nothing: no planner could have used it.
func savingsPlaces(t *activeRound) []savings.Place {
	nodes := t.report.Snapshot.Nodes
	places := make([]savings.Place, len(nodes))
	for n := range nodes {
		if places[n].Name = nodes[n].Name; nodes[n].Closed == "" && !reservedNow(&nodes[n], t.report.Snapshot.Now) {
			places[n].Free = nodes[n].Total.Minus(nodes[n].Foreign)
		}
	}
	taken := map[nodeGPU]bool{}
	for _, tn := range t.observation.managed {
		for _, n := range tn.nodePlaces {
			if tn.State == slurm.Running && n != unmanagedPlace {
				places[n].Free = places[n].Free.Minus(tn.heldOn(&nodes[n], taken))
			}
		}
	}
	return places
}

// reservedNow says that a reservation keeps the node from other jobs at now.
func reservedNow(n *policy.Node, now time.Time) bool {
	return slices.ContainsFunc(n.Reserved, func(r policy.Reservation) bool {
		return !r.From.After(now) && (r.To.IsZero() || r.To.After(now))
	})
}
