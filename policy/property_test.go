package policy

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// paperModels are the ten models of the paper, and no profile at all.
func paperModels(t testing.TB) []*sensitivity.Profile {
	profiles := []*sensitivity.Profile{nil}
	for _, name := range []string{
		"alexnet", "deepspeech", "gnmt", "lstm", "m5", "mobilenet", "res18", "res50", "shufflenet", "transformer",
	} {
		profiles = append(profiles, paperModel(t, name))
	}
	return profiles
}

// liars are profiles that claim as much as the format allows: a hundredfold with all of a server's cores, the widest
// range of figures that can be written, with cores, with memory, with both, in a thousandth of a core.
func liars() []*sensitivity.Profile {
	claim := func(cores []float64, memory []gres.Memory, rows ...[]float64) *sensitivity.Profile {
		return &sensitivity.Profile{Version: 1, Model: "liar", Batch: 1, CoresPerGPU: cores, MemoryPerGPU: memory,
			Throughput: rows}
	}
	one := []gres.Memory{1000}
	return []*sensitivity.Profile{
		claim([]float64{3, 24}, one, []float64{1}, []float64{100}),
		claim([]float64{1, 2, 24}, one, []float64{1}, []float64{10}, []float64{1e4}),
		claim([]float64{0.01, 24}, one, []float64{1e-6}, []float64{1e9}),
		claim([]float64{0.01, 4096}, []gres.Memory{1, 64 << 20}, []float64{1e-6, 1e9}, []float64{1e-6, 1e9}),
		claim([]float64{4096}, []gres.Memory{64 << 20}, []float64{1e9}),
		claim([]float64{0.01}, []gres.Memory{1}, []float64{1e9}),
		claim([]float64{0.01, 0.02, 12}, []gres.Memory{1, 500000}, []float64{1e-6, 1}, []float64{1e-3, 1e3},
			[]float64{1, 1e9}),
	}
}

// TestALiarTakesNothingThatOthersAreOwed: among jobs of which some lie, every plan passes Check, no truthful job that
// is granted something new has less than its proportional speed, no job waits because a liar wants much, and every
// figure of the plan is one that JSON can say.
func TestALiarTakesNothingThatOthersAreOwed(t *testing.T) {
	profiles := append(paperModels(t), liars()...)
	rapid.Check(t, func(t *rapid.T) {
		c := wild(t, profiles)
		p := rapid.SampledFrom(Policies()).Draw(t, "policy")
		a := rapid.SampledFrom([]Allocator{Proportional(), Tune()}).Draw(t, "allocator")
		plan := Decide(c, p, a)
		if err := Check(c, plan); err != nil {
			t.Fatalf("%s %s: %v", p.Name, a.Name, err)
		}
		if _, err := json.Marshal(plan); err != nil {
			t.Fatalf("%s %s: %v", p.Name, a.Name, err)
		}
		for j, d := range decided(c, plan) {
			if d.Grant == nil || unchanged(j, d) || j.Profile == nil {
				continue
			}
			for _, n := range shareNodes(c, d) {
				fair := gres.Proportional(n.Total, d.Grant.PerNode.GPUs)
				least := min(1, j.Profile.Gain(inWholeMiB(j, underCeiling(j, fair), d.Grant.PerNode.CPUs), fair))
				if gain := j.Profile.Gain(d.Grant.PerNode, fair); slices.Contains(d.Grant.Nodes, n.Name) &&
					gain < least-1e-9 {
					t.Fatalf("job %d: %s on %s is %g of its share", j.ID, d.Grant.PerNode, n.Name, gain)
				}
			}
		}
	})
}

// TestWhoRunsIsTheSameWhoeverLies: who runs is decided by GPUs alone, so a claim brings nobody a turn and costs nobody
// one.
func TestWhoRunsIsTheSameWhoeverLies(t *testing.T) {
	honest, lying := paperModels(t), liars()
	rapid.Check(t, func(t *rapid.T) {
		c := tame(t, honest, shareSize)
		p := rapid.SampledFrom([]Policy{FIFO(), LAS(), SRTF(), SRSF(), DRF()}).Draw(t, "policy")
		before := Decide(c, p, Tune())
		liar := rapid.IntRange(0, len(c.Jobs)-1).Draw(t, "liar")
		c.Jobs = slices.Clone(c.Jobs)
		c.Jobs[liar].Profile = rapid.SampledFrom(lying).Draw(t, "claim")
		after := Decide(c, p, Tune())
		for i := range c.Jobs {
			if (before.Decisions[i].Grant == nil) != (after.Decisions[i].Grant == nil) {
				t.Fatalf("%s: job %d: %s; beside a liar %s", p.Name, c.Jobs[i].ID, before.Decisions[i].Why,
					after.Decisions[i].Why)
			}
		}
	})
}

// everyPlanner runs a property on wild snapshots under every policy and allocator.
func everyPlanner(t *testing.T, holds func(t *rapid.T, c Cluster, p Policy, a Allocator, plan Plan)) {
	profiles := paperModels(t)
	everyPlanOf(t, func(t *rapid.T) Cluster { return wild(t, profiles) }, holds)
}

// everyPlanOf runs a property on snapshots that are drawn so, under every policy and allocator.
func everyPlanOf(t *testing.T, draw func(*rapid.T) Cluster,
	holds func(t *rapid.T, c Cluster, p Policy, a Allocator, plan Plan)) {
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		p := rapid.SampledFrom(Policies()).Draw(t, "policy")
		a := rapid.SampledFrom(Allocators()).Draw(t, "allocator")
		holds(t, c, p, a, Decide(c, p, a))
	})
}

func TestCheckPassesEveryPlan(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, p Policy, a Allocator, plan Plan) {
		if err := Check(c, plan); err != nil {
			t.Fatalf("%s %s: %v", p.Name, a.Name, err)
		}
	})
}

func TestNoNodeGivesMoreThanItHas(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, _ Policy, _ Allocator, plan Plan) {
		before, after := heldOn(c, runningIn(c)), heldOn(c, grantedIn(plan))
		for _, n := range c.Nodes {
			if !after[n.Name].Fits(n.Total.Max(before[n.Name])) {
				t.Fatalf("%s: %s given away of %s", n.Name, after[n.Name], n.Total)
			}
		}
	})
}

func runningIn(c Cluster) []Placement {
	var all []Placement
	for _, j := range c.Jobs {
		if j.Running != nil {
			all = append(all, *j.Running)
		}
	}
	return all
}

func grantedIn(plan Plan) []Placement {
	var all []Placement
	for _, d := range plan.Decisions {
		if d.Grant != nil {
			all = append(all, *d.Grant)
		}
	}
	return all
}

// heldOn sums what foreign jobs and placements hold on each node.
func heldOn(c Cluster, all []Placement) map[string]gres.Vector {
	held := map[string]gres.Vector{}
	for _, n := range c.Nodes {
		held[n.Name] = n.Foreign
	}
	for _, p := range all {
		for _, name := range p.Nodes {
			held[name] = held[name].Plus(p.PerNode)
		}
	}
	return held
}

func TestAGangIsWholeOrWaits(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, _ Policy, _ Allocator, plan Plan) {
		for j, d := range decided(c, plan) {
			if d.Grant == nil || unchanged(j, d) {
				continue
			}
			if got := d.Grant.PerNode.GPUs * len(d.Grant.Nodes); got != j.GPUs {
				t.Fatalf("job %d: %d GPUs, want %d", j.ID, got, j.GPUs)
			}
			if j.Nodes > 0 && len(d.Grant.Nodes) != j.Nodes {
				t.Fatalf("job %d: %d nodes, want %d", j.ID, len(d.Grant.Nodes), j.Nodes)
			}
			if !slices.IsSorted(d.Grant.Nodes) ||
				len(slices.Compact(slices.Clone(d.Grant.Nodes))) != len(d.Grant.Nodes) {
				t.Fatalf("job %d: nodes %v", j.ID, d.Grant.Nodes)
			}
		}
	})
}

// shareNodes are the nodes with the totals with which the share of a grant is reckoned there.
func shareNodes(c Cluster, d Decision) []Node {
	if len(d.Grant.Nodes) == 1 {
		return c.Nodes
	}
	nodes := slices.Clone(c.Nodes)
	for n, total := range GangTotals(c.Nodes) {
		nodes[n].Total = total
	}
	return nodes
}

func unchanged(j *Job, d Decision) bool {
	return j.Running != nil && d.Grant != nil && d.Grant.Equal(*j.Running)
}

// decided goes through the jobs with their decisions, which are in the order of the IDs as the random jobs are.
func decided(c Cluster, plan Plan) func(yield func(*Job, Decision) bool) {
	return func(yield func(*Job, Decision) bool) {
		for i := range c.Jobs {
			if !yield(&c.Jobs[i], plan.Decisions[i]) {
				return
			}
		}
	}
}

func TestNobodyIsSlowerThanUnderTheProportionalShare(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, _ Policy, _ Allocator, plan Plan) {
		for j, d := range decided(c, plan) {
			if d.Grant == nil || unchanged(j, d) || j.Profile == nil {
				continue
			}
			for _, n := range shareNodes(c, d) {
				fair := inWholeMiB(j, underCeiling(j, gres.Proportional(n.Total, d.Grant.PerNode.GPUs)),
					d.Grant.PerNode.CPUs)
				if slices.Contains(d.Grant.Nodes, n.Name) &&
					j.Profile.Rate(sensitivity.ShareOf(d.Grant.PerNode)) < j.Profile.Rate(
						sensitivity.ShareOf(fair))*(1-1e-9) {
					t.Fatalf("job %d: %s on %s is slower than with %s", j.ID, d.Grant.PerNode, n.Name, fair)
				}
			}
		}
	})
}

// underCeiling is what is left of an amount under a job's ceiling, in cores that its tasks can share.
func underCeiling(j *Job, v gres.Vector) gres.Vector {
	if most := j.Ceiling.CPUs; most > 0 && v.CPUs > most-most%max(1, j.Tasks) {
		v.CPUs = most - most%max(1, j.Tasks)
	}
	if most := j.Ceiling.Memory; most > 0 && v.Memory > most {
		v.Memory = most
	}
	return v
}

// inWholeMiB is what is owed of an amount to a job with so many cores: where it has memory by the core, whole MiB.
func inWholeMiB(j *Job, v gres.Vector, cores int) gres.Vector {
	if j.PerCore {
		v.Memory = v.Memory / gres.Memory(cores) * gres.Memory(cores)
	}
	return v
}

// TestMemoryByTheCoreIsSharedByTheCoresInWholeMiB: Slurm is told how much each core has, and what it then shows of the
// job is what the plan says.
func TestMemoryByTheCoreIsSharedByTheCoresInWholeMiB(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, _ Policy, _ Allocator, plan Plan) {
		inNewHands(c, plan, func(j *Job, size gres.Vector, _ Node) {
			if j.PerCore && size.Memory%gres.Memory(size.CPUs) != 0 {
				t.Fatalf("job %d: %d MiB for %d cores", j.ID, size.Memory, size.CPUs)
			}
		})
	})
}

// TestACeilingOnOneResourceTakesNothingOfTheOther: a job that may have little memory keeps the cores of its share,
// though by its profile it could do with fewer, and one that may have few cores keeps the memory.
func TestACeilingOnOneResourceTakesNothingOfTheOther(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, _ Policy, _ Allocator, plan Plan) {
		for j, d := range decided(c, plan) {
			if d.Grant == nil || unchanged(j, d) {
				continue
			}
			for _, n := range shareNodes(c, d) {
				if !slices.Contains(d.Grant.Nodes, n.Name) {
					continue
				}
				size, fair := d.Grant.PerNode, gres.Proportional(n.Total, d.Grant.PerNode.GPUs)
				due, most := underCeiling(j, fair), j.Ceiling
				if most.Memory > 0 && most.Memory < fair.Memory && size.CPUs < due.CPUs {
					t.Fatalf("job %d: %s where its share is %s, since it may have %s", j.ID, size, fair, most.Memory)
				}
				if most.CPUs > 0 && most.CPUs < fair.CPUs && size.Memory < inWholeMiB(j, due, size.CPUs).Memory {
					t.Fatalf(
						"job %d: %s where its share is %s, since it may have %d cores",
						j.ID,
						size,
						fair,
						most.CPUs,
					)
				}
			}
		}
	})
}

// inNewHands goes through what a plan newly grants, node by node.
func inNewHands(c Cluster, plan Plan, look func(j *Job, size gres.Vector, n Node)) {
	for j, d := range decided(c, plan) {
		if d.Grant == nil || unchanged(j, d) {
			continue
		}
		for _, n := range c.Nodes {
			if slices.Contains(d.Grant.Nodes, n.Name) {
				look(j, d.Grant.PerNode, n)
			}
		}
	}
}

func TestNobodyHasLessThanItsUserAskedForOrMoreThanTheSiteAllows(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, _ Policy, _ Allocator, plan Plan) {
		inNewHands(c, plan, func(j *Job, size gres.Vector, n Node) {
			if size.CPUs < j.Floor.CPUs || size.Memory < j.Floor.Memory {
				t.Fatalf("job %d: %s, its floor is %s", j.ID, size, j.Floor)
			}
			if most := j.Ceiling; most.CPUs > 0 && size.CPUs > most.CPUs ||
				most.Memory > 0 && size.Memory > most.Memory {
				t.Fatalf("job %d: %s, its ceiling is %s", j.ID, size, most)
			}
		})
	})
}

func TestNoQuotaIsOverdrawnByWhatIsGranted(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, _ Policy, _ Allocator, plan Plan) {
		for q, quota := range c.Quotas {
			var jobs, nodes int
			var sum gres.Vector
			anew := false
			for j, d := range decided(c, plan) {
				if d.Grant == nil || !slices.Contains(j.Quotas, q) {
					continue
				}
				jobs, nodes, sum = jobs+1, nodes+len(d.Grant.Nodes), sum.Plus(d.Grant.Total())
				anew = anew || !unchanged(j, d)
			}
			over := func(used, most int) bool { return most != Unbounded && used > most }
			if anew && (over(jobs, quota.Jobs) || over(nodes, quota.Nodes) || over(sum.GPUs, quota.GPUs) ||
				over(sum.CPUs, quota.CPUs) ||
				over(int(sum.Memory), int(quota.Memory))) {
				t.Fatalf("%d jobs on %d nodes with %s, the quota leaves %+v\n%s----\n%s", jobs, nodes, sum, quota,
					sketch(c), drawPlan(c, plan))
			}
		}
	})
}

func TestNobodyIsStartedWhereAReservationBeginsBeforeItEnds(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, _ Policy, _ Allocator, plan Plan) {
		inNewHands(c, plan, func(j *Job, _ gres.Vector, n Node) {
			for _, r := range n.Reserved {
				if r.Name != j.Reservation && (r.To.IsZero() || r.To.After(c.Now)) &&
					(j.TimeLimit == 0 || c.Now.Add(j.TimeLimit).After(r.From)) {
					t.Fatalf("job %d on %s: %+v", j.ID, n.Name, r)
				}
			}
		})
	})
}

// A pace with both amounts and no ceiling is a rate that the job must not fall below, on whatever node.
func TestNobodyIsSlowerThanItsUserReckoned(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, _ Policy, _ Allocator, plan Plan) {
		inNewHands(c, plan, func(j *Job, size gres.Vector, n Node) {
			if j.Ceiling != (gres.Vector{}) || j.Pace.CPUs == 0 || j.Pace.Memory == 0 {
				return
			}
			pace := j.Pace
			pace.GPUs = size.GPUs
			if j.Profile == nil && !pace.Fits(size) || j.Profile != nil &&
				j.Profile.Rate(sensitivity.ShareOf(size)) < j.Profile.Rate(sensitivity.ShareOf(pace))*(1-1e-8) {
				t.Fatalf("job %d: %s on %s is slower than %s", j.ID, size, n.Name, pace)
			}
		})
	})
}

// Slurm alone would not stop a job for one with a larger priority.
func TestUnderSlurmsOrderWhoRunsGoesOnAndPriorityDecidesWhoStarts(t *testing.T) {
	profiles := paperModels(t)
	rapid.Check(t, func(t *rapid.T) {
		c := wild(t, profiles)
		for i := range c.Jobs {
			c.Jobs[i].Priority = rapid.Int64Range(0, 3).Draw(t, "priority")
		}
		a := rapid.SampledFrom(Allocators()).Draw(t, "allocator")
		plan := Decide(c, Slurm(), a)
		for j, d := range decided(c, plan) {
			if j.Running != nil && d.Grant == nil {
				t.Fatalf("job %d: %s", j.ID, d.Why)
			}
			if j.Running == nil && d.Grant == nil && slices.ContainsFunc(c.Jobs, func(o Job) bool {
				return alike(j, &o) && o.Priority < j.Priority && plan.Decisions[o.ID-1].Grant != nil
			}) {
				t.Fatalf("job %d waits (%s), and one like it with less priority starts", j.ID, d.Why)
			}
		}
	})
}

// alike says whether two jobs that wait differ in nothing that decides where they can run.
func alike(j, o *Job) bool {
	terms := func(j *Job) Job {
		return Job{GPUs: j.GPUs, Nodes: j.Nodes, Tasks: j.Tasks, GPUType: j.GPUType, Features: j.Features, Only: j.Only,
			Except:  j.Except,
			Profile: j.Profile, Barred: j.Barred, Running: j.Running, Saves: j.Saves, Restarts: j.Restarts,
			Floor: j.Floor, Pace: j.Pace, Ceiling: j.Ceiling, Quotas: j.Quotas,
			TimeLimit: j.TimeLimit, Reservation: j.Reservation}
	}
	return j.Running == nil && o.Running == nil && reflect.DeepEqual(terms(j), terms(o))
}

func TestEveryJobHasOneDecisionAndOneReason(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, _ Policy, _ Allocator, plan Plan) {
		if len(plan.Decisions) != len(c.Jobs) {
			t.Fatalf("%d decisions for %d jobs", len(plan.Decisions), len(c.Jobs))
		}
		for j, d := range decided(c, plan) {
			quiet := d.Reason == "" && d.Why == ""
			switch {
			case d.Job != j.ID:
				t.Fatalf("decision for job %d where job %d stands", d.Job, j.ID)
			case unchanged(j, d) && !quiet:
				t.Fatalf("job %d stays, yet %s: %s", j.ID, d.Reason, d.Why)
			case !unchanged(j, d) && d.Reason == "":
				t.Fatalf("job %d changes for no reason", j.ID)
			case d.Grant == nil && d.Why == "":
				t.Fatalf("job %d waits and is not told why", j.ID)
			}
		}
	})
}

// What a job was lent it gives back at any time to one that starts on GPUs that are idle beside it.
func TestAFixedJobIsLeftAlone(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, _ Policy, _ Allocator, plan Plan) {
		for j, d := range decided(c, plan) {
			young := c.Now.Sub(j.Started) < c.Rules.MinRun
			if j.Running != nil && (j.Fixed || young && !givesBackForIdleGPUs(c, plan, j, d)) && !unchanged(j, d) {
				t.Fatalf("job %d: touched", j.ID)
			}
		}
	})
}

func TestAJobThatWasRestartedTooOftenIsLeftAlone(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, _ Policy, _ Allocator, plan Plan) {
		for j, d := range decided(c, plan) {
			if most := c.Rules.MaxRestarts; most > 0 && j.Restarts >= most && j.Running != nil && !unchanged(j, d) {
				t.Fatalf("job %d: touched after %d restarts, the rules allow %d", j.ID, j.Restarts, most)
			}
		}
	})
}

// A job that can never be asked again must leave the others their share: it is planned as one without a checkpoint.
func TestTheLastRunOfAJobIsPlannedAsThatOfOneThatCannotGiveBack(t *testing.T) {
	profiles := paperModels(t)
	rapid.Check(t, func(t *rapid.T) {
		c := tame(t, profiles, fineSize)
		for i := range c.Jobs {
			c.Jobs[i].Running = nil
		}
		c.Rules.MaxRestarts = rapid.IntRange(1, 3).Draw(t, "max restarts")
		silent := deepCopy(c)
		for i := range c.Jobs {
			c.Jobs[i].Restarts = rapid.IntRange(0, 4).Draw(t, "restarts")
			silent.Jobs[i].Saves = c.Jobs[i].Saves && c.Jobs[i].Restarts < c.Rules.MaxRestarts
		}
		p := rapid.SampledFrom(Policies()).Draw(t, "policy")
		if got, want := Decide(c, p, Tune()), Decide(silent, p, Tune()); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %s", p.Name, firstDifference(got, want))
		}
	})
}

func TestNoMoreJobsAreStoppedThanTheRulesAllow(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, _ Policy, _ Allocator, plan Plan) {
		stopped := 0
		for j, d := range decided(c, plan) {
			if j.Running != nil && !unchanged(j, d) {
				stopped++
			}
		}
		if c.Rules.MaxPreemptions > 0 && stopped > c.Rules.MaxPreemptions {
			t.Fatalf("%d jobs stopped, the rules allow %d", stopped, c.Rules.MaxPreemptions)
		}
	})
}

// A job that gives way or gives back could not have stayed as it was beside everything else that the plan grants,
// unless nodes are cleared over several rounds.
func TestNoJobIsStoppedForNothing(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, _ Policy, _ Allocator, plan Plan) {
		held := heldOn(c, grantedIn(plan))
		if slices.ContainsFunc(plan.Decisions, func(d Decision) bool { return d.Reason == Clearing }) {
			return
		}
		for j, d := range decided(c, plan) {
			if j.Running == nil || unchanged(j, d) || d.Reason == Grows || d.Reason == Moves ||
				quotaIsTaken(c, plan, j) {
				continue
			}
			if stillFits(c, held, *j.Running, d.Grant) {
				t.Fatalf("job %d was stopped (%s), and could have stayed\n%s----\n%s", j.ID, d.Why, sketch(c),
					drawPlan(c, plan))
			}
		}
	})
}

// quotaIsTaken says whether somebody else is granted anything anew that counts against a quota of job j.
func quotaIsTaken(c Cluster, plan Plan, j *Job) bool {
	for other, d := range decided(c, plan) {
		if other.ID != j.ID && d.Grant != nil && !unchanged(other, d) &&
			slices.ContainsFunc(other.Quotas, func(q int) bool { return slices.Contains(j.Quotas, q) }) {
			return true
		}
	}
	return false
}

// stillFits says whether a placement has room once the grant that took its stead is given up.
func stillFits(c Cluster, held map[string]gres.Vector, was Placement, now *Placement) bool {
	for _, n := range c.Nodes {
		if !slices.Contains(was.Nodes, n.Name) {
			continue
		}
		with := held[n.Name].Plus(was.PerNode)
		if now != nil && slices.Contains(now.Nodes, n.Name) {
			with = with.Minus(now.PerNode)
		}
		if !with.Fits(n.Total) {
			return false
		}
	}
	return true
}

func TestTheSnapshotIsNotTouched(t *testing.T) {
	profiles := paperModels(t)
	rapid.Check(t, func(t *rapid.T) {
		c := wild(t, profiles)
		was := deepCopy(c)
		for _, a := range Allocators() {
			if err := Check(c, Decide(c, LAS(), a)); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(c, was) {
			t.Fatal("the snapshot has changed")
		}
	})
}

func deepCopy(c Cluster) Cluster {
	c.Nodes, c.Jobs, c.Quotas = slices.Clone(c.Nodes), slices.Clone(c.Jobs), slices.Clone(c.Quotas)
	for i := range c.Nodes {
		c.Nodes[i].Features, c.Nodes[i].Reserved = slices.Clone(c.Nodes[i].Features), slices.Clone(c.Nodes[i].Reserved)
	}
	for i := range c.Jobs {
		j := &c.Jobs[i]
		j.Features, j.Only, j.Except = slices.Clone(j.Features), slices.Clone(j.Only), slices.Clone(j.Except)
		j.Quotas = slices.Clone(j.Quotas)
		if j.Running != nil {
			p := Placement{Nodes: slices.Clone(j.Running.Nodes), PerNode: j.Running.PerNode}
			j.Running = &p
		}
	}
	return c
}

func TestTheOrderOfTheSnapshotIsIrrelevant(t *testing.T) {
	everyPlanner(t, func(t *rapid.T, c Cluster, p Policy, a Allocator, plan Plan) {
		shuffled := deepCopy(c)
		r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		r.Shuffle(
			len(c.Jobs),
			func(i, k int) { shuffled.Jobs[i], shuffled.Jobs[k] = shuffled.Jobs[k], shuffled.Jobs[i] },
		)
		r.Shuffle(
			len(c.Nodes),
			func(i, k int) { shuffled.Nodes[i], shuffled.Nodes[k] = shuffled.Nodes[k], shuffled.Nodes[i] },
		)
		if again := Decide(shuffled, p, a); !reflect.DeepEqual(plan, again) {
			t.Fatalf("%s %s: %s", p.Name, a.Name, firstDifference(plan, again))
		}
	})
}

func firstDifference(p, q Plan) string {
	for i := range p.Decisions {
		if d, e := p.Decisions[i], q.Decisions[i]; !reflect.DeepEqual(d, e) {
			return fmt.Sprintf("job %d: %s, then %s", d.Job, drawn(d), drawn(e))
		}
	}
	return "none"
}

func drawn(d Decision) string {
	if d.Grant == nil {
		return d.Why
	}
	return drawGrant(d) + " " + d.Why
}

// Nothing is gained by deciding twice: a plan that has been carried out is left alone, unless it stopped somebody for
// another, who is not moved on at once, or leaves a gang waiting, which may stop who has just been started behind it.
// Tune and Opt fill servers anew, all at once, and whoever has just started takes part in that for the first time: what
// that changes then must be worth all the restarts.
func TestAnUnchangedAllocationIsLeftAlone(t *testing.T) {
	profiles := paperModels(t)
	rapid.Check(t, func(t *rapid.T) {
		c := tame(t, profiles, fineSize)
		for i := range c.Jobs {
			c.Jobs[i].Length, c.Jobs[i].Restart = 0, 30*time.Second
		}
		p := rapid.SampledFrom(Policies()).Draw(t, "policy")
		a := rapid.SampledFrom(Allocators()).Draw(t, "allocator")
		first := Decide(c, p, a)
		for j, d := range decided(c, first) {
			if d.Reason == GivesWay || d.Reason == Shrinks || d.Grant == nil && (j.GPUs > 1 || d.Reason == Limit) {
				return
			}
		}
		after := carriedOut(c, first)
		second := Decide(after, p, a)
		pays := (a.Name == Tune().Name || a.Name == Opt().Name) && trains(after, second) > trains(after, first)
		for j, d := range decided(after, second) {
			if unchanged(j, d) || j.Running == nil && d.Grant == nil ||
				pays && slices.Contains([]Reason{Moves, Grows, Shrinks}, d.Reason) {
				continue
			}
			t.Fatalf("plan %s %s\n%s----\n%sjob %d: %s, then %s", p.Name, a.Name, sketch(c), drawPlan(c, first), j.ID,
				drawn(first.Decisions[d.Job-1]), drawn(d))
		}
	})
}

func sameGrant(d, e Decision) bool {
	return (d.Grant == nil) == (e.Grant == nil) && (d.Grant == nil || d.Grant.Equal(*e.Grant))
}

// trains is what a plan trains within the time in which a restart has to pay, in GPU-seconds, its restarts taken off.
func trains(c Cluster, plan Plan) (sum float64) {
	for j, d := range decided(c, plan) {
		switch {
		case d.Grant == nil:
		case j.Running == nil || unchanged(j, d):
			sum += worth(j, d.Gain, c.Rules.payback())
		default:
			sum += worth(j, d.Gain, c.Rules.payback()-j.Restart)
		}
	}
	return sum
}

// carriedOut is the cluster once a plan has been carried out, at the same moment.
func carriedOut(c Cluster, plan Plan) Cluster {
	after := deepCopy(c)
	for i, d := range plan.Decisions {
		j := &after.Jobs[i]
		if !unchanged(j, d) {
			if j.Running != nil {
				j.Restarts++
			}
			j.Running, j.Started = d.Grant, c.Now
		}
	}
	return after
}

// Synergy, OSDI'22, §4: cores and memory are fungible, they must not decide who runs. To Tetris they are not: it orders
// by demand.
func TestWhoRunsDoesNotDependOnHunger(t *testing.T) {
	profiles := paperModels(t)
	rapid.Check(t, func(t *rapid.T) {
		c := tame(t, profiles, fineSize)
		for i := range c.Jobs {
			c.Jobs[i].Running = nil
		}
		a := rapid.SampledFrom([]Allocator{Proportional(), Tune()}).Draw(t, "allocator")
		p := rapid.SampledFrom([]Policy{FIFO(), SRTF(), SRSF(), LAS(), FTF(), DRF()}).Draw(t, "policy")
		was := runs(Decide(c, p, a))
		for i := range c.Jobs {
			c.Jobs[i].Profile = rapid.SampledFrom(profiles).Draw(t, "other profile")
		}
		if now := runs(Decide(c, p, a)); !slices.Equal(was, now) {
			t.Fatalf("%v run, with other profiles %v", was, now)
		}
	})
}

// runs lists the jobs that a plan grants.
func runs(plan Plan) []int {
	var ids []int
	for _, d := range plan.Decisions {
		if d.Grant != nil {
			ids = append(ids, d.Job)
		}
	}
	return ids
}

func TestTuneUsesEveryGPUThatProportionalUsesAndGainsAsMuch(t *testing.T) {
	profiles := paperModels(t)
	rapid.Check(t, func(t *rapid.T) {
		c := tame(t, profiles, shareSize)
		tuned, fair := Decide(c, FIFO(), Tune()), Decide(c, FIFO(), Proportional())
		if got, want := gpusIn(tuned), gpusIn(fair); got < want {
			t.Fatalf("%d GPUs used, %d under the proportional share\n%s", got, want, sketch(c))
		}
		if got, want := gainIn(tuned), gainIn(fair); got < want*(1-1e-9) {
			t.Fatalf("throughput %.3f, %.3f under the proportional share", got, want)
		}
	})
}

// Who waits for GPUs on one node waits because no node has so many, not because somebody moved out of the way too late.
func TestNobodyWaitsBesideTheGPUsItNeeds(t *testing.T) {
	profiles := paperModels(t)
	rapid.Check(t, func(t *rapid.T) {
		c := tame(t, profiles, shareSize)
		pinSome(t, c)
		p := rapid.SampledFrom(Policies()).Draw(t, "policy")
		a := rapid.SampledFrom([]Allocator{Proportional(), Tune()}).Draw(t, "allocator")
		plan := Decide(c, p, a)
		held := heldOn(c, grantedIn(plan))
		for j, d := range decided(c, plan) {
			for _, n := range c.Nodes {
				if left := n.Total.GPUs - held[n.Name].GPUs; d.Grant == nil && left >= j.GPUs && suits(j, &n) {
					t.Fatalf("plan %s %s\n%s----\n%sjob %d waits, and %s has %d free GPUs", p.Name, a.Name, sketch(c),
						drawPlan(c, plan),
						j.ID, n.Name, left)
				}
			}
		}
	})
}

// pinSome lets some of the waiting jobs use the first node only.
func pinSome(t *rapid.T, c Cluster) {
	for i := range c.Jobs {
		if rapid.IntRange(0, 3).Draw(t, "pinned") == 0 && c.Jobs[i].Running == nil {
			c.Jobs[i].Only = []string{c.Nodes[0].Name}
		}
	}
}

func gpusIn(plan Plan) int {
	n := 0
	for _, p := range grantedIn(plan) {
		n += p.Total().GPUs
	}
	return n
}

// gainIn is the throughput of a plan in GPUs at the proportional speed.
func gainIn(plan Plan) float64 {
	total := 0.0
	for _, d := range plan.Decisions {
		if d.Grant != nil {
			total += d.Gain * float64(d.Grant.Total().GPUs)
		}
	}
	return total
}

// Jobs without the word may come at any time, and what was lent can be had back only when its holder has saved.
func TestNothingIsLentOfTheSharesForWhichJobsWithoutTheWordMayCome(t *testing.T) {
	profiles := paperModels(t)
	rapid.Check(t, func(t *rapid.T) {
		c := tame(t, profiles, fineSize)
		c.UnmanagedGPUs = rapid.IntRange(1, 12).Draw(t, "unmanaged GPUs")
		for i := range c.Jobs {
			c.Jobs[i].Running = nil
		}
		p := rapid.SampledFrom(Policies()).Draw(t, "policy")
		idle, shares := idleShares(c, Decide(c, p, Tune()))
		if want := min(idle, c.UnmanagedGPUs); shares < want {
			t.Fatalf("%s: %d of %d free GPUs have their share, want %d: %s", p.Name, shares, idle, want, sketch(c))
		}
	})
}

// idleShares is how many GPUs a plan leaves free on open nodes, and how many of them with their share.
func idleShares(c Cluster, plan Plan) (idle, shares int) {
	held := heldOn(c, grantedIn(plan))
	for _, n := range c.Nodes {
		if n.Closed != "" {
			continue
		}
		free, share := n.Total.Minus(held[n.Name]), gres.Proportional(n.Total, 1)
		for gpus := range free.GPUs {
			if !share.Times(gpus + 1).Fits(free) {
				break
			}
			shares++
		}
		idle += max(0, free.GPUs)
	}
	return idle, shares
}
