package bound_test

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/exam"
)

// everyPlan shows plans of all policies and allocators for clusters with everything that a site has: closed nodes,
// jobs of others, reservations, constraints, quotas, gangs, jobs that run with odd sizes or on nodes that have gone.
func everyPlan(t *testing.T, clusters int, show func(n int, c policy.Cluster, plan policy.Plan)) {
	for n := range clusters {
		c := exam.Snapshot(3, n)
		for _, p := range policy.Policies() {
			for _, a := range policy.Allocators() {
				if (n+len(p.Name)+len(a.Name))%3 != 0 {
					continue
				}
				plan := policy.Decide(c, p, a)
				if err := policy.Check(c, plan); err != nil {
					t.Fatal(err)
				}
				show(n, c, plan)
			}
		}
	}
}

func TestNoPlanIsAboveItsBound(t *testing.T) {
	methods := map[bound.Method]int{}
	everyPlan(t, 40, func(n int, c policy.Cluster, plan policy.Plan) {
		cert := bound.Certify(&c, plan)
		methods[cert.Method]++
		if cert.Value > cert.Bound*(1+1e-9) || cert.Bound > cert.Pooled*(1+1e-9) || !(cert.Bound < 1e12) {
			t.Fatalf("cluster %d: %+v", n, cert)
		}
		if cert.Core < 0 || cert.Gigabyte < 0 {
			t.Fatalf("cluster %d: more is worth less: %+v", n, cert)
		}
	})
	t.Log(methods)
	if methods[bound.ByConfigurations] == 0 || methods[bound.Exact] == 0 {
		t.Errorf("certificates by method: %v", methods)
	}
}

// Running jobs may move and restart for nothing in the range, so a plan from empty is in that of any other for the
// same jobs.
func TestTheBoundOfAPlanHoldsForAnyOtherPlanOfTheSameJobs(t *testing.T) {
	compared, nearest := 0, 0.0
	for n := range 60 {
		c := exam.Snapshot(5, n)
		for i := range c.Jobs {
			c.Jobs[i].Running, c.Jobs[i].Fixed = nil, false
		}
		var plans []policy.Plan
		for _, a := range policy.Allocators() {
			plans = append(plans, policy.Decide(c, policy.FIFO(), a))
		}
		for _, p := range plans {
			for _, q := range plans {
				if !slices.Equal(grantedBy(p), grantedBy(q)) || reflect.DeepEqual(p, q) {
					continue
				}
				limit, other := bound.Certify(&c, p), bound.Certify(&c, q)
				compared, nearest = compared+1, max(nearest, other.Value/max(limit.Bound, 1e-9))
				if other.Value > limit.Bound*(1+1e-9) {
					t.Fatalf("cluster %d: a plan is worth %.6f, and the bound of another for the same jobs is %.6f",
						n, other.Value, limit.Bound)
				}
			}
		}
	}
	t.Logf("%d pairs, the nearest at %.4f of the bound", compared, nearest)
	if compared < 40 {
		t.Errorf("%d pairs compared", compared)
	}
}

func grantedBy(p policy.Plan) (jobs []int) {
	for _, d := range p.Decisions {
		if d.Grant != nil {
			jobs = append(jobs, d.Job)
		}
	}
	return jobs
}

func TestACertificateDependsOnItsArgumentsAloneAndChangesNone(t *testing.T) {
	everyPlan(t, 20, func(n int, c policy.Cluster, plan policy.Plan) {
		before, err := json.Marshal([]any{c, plan})
		if err != nil {
			t.Fatal(err)
		}
		first := bound.Certify(&c, plan)
		if again := bound.Certify(&c, plan); !reflect.DeepEqual(first, again) {
			t.Fatalf("cluster %d: %+v, then %+v", n, first, again)
		}
		if after, _ := json.Marshal([]any{c, plan}); string(after) != string(before) {
			t.Fatalf("cluster %d: the snapshot or the plan has changed", n)
		}
	})
}

func TestWhatRunsAndMustNotBeTouchedIsNotHeldAgainstThePlan(t *testing.T) {
	c := batch(t, clusterOf(of(2, 8, 24, 500)), mixed{33, 33}, oneGPU, 1)
	plan := policy.Decide(c, policy.FIFO(), policy.Proportional())
	for i := range c.Jobs {
		c.Jobs[i].Running, c.Jobs[i].Fixed = plan.Decisions[i].Grant, true
	}
	plan = policy.Decide(c, policy.FIFO(), policy.Tune())
	if cert := bound.Certify(&c, plan); cert.Ratio() != 1 || cert.Method != bound.Exact {
		t.Errorf("%s by %s, want all of it", cert.String(), cert.Method)
	}
	for i := range c.Jobs {
		c.Jobs[i].Fixed = false
	}
	free := bound.Certify(&c, plan)
	if free.Ratio() > 0.9 || free.Method != bound.ByConfigurations {
		t.Errorf("%s by %s, want much to be gained", free.String(), free.Method)
	}
}

// One reference for all nodes: a job is worth more where it trains faster, whatever its share is there.
func TestValueIsSpeedWhateverTheShareOfTheNode(t *testing.T) {
	c := clusterOf(of(1, 8, 24, 500), of(1, 8, 64, 500))
	c.Jobs = []policy.Job{{ID: 1, GPUs: 1, Profile: profile(t, "alexnet"), Arrival: epoch, Saves: true}}
	on := func(node string, cores int) float64 {
		g := policy.Placement{Nodes: []string{node}, PerNode: of(1, 1, cores, 125).total}
		cert := bound.Certify(&c, policy.Plan{Decisions: []policy.Decision{{Job: 1, Grant: &g}}})
		return cert.Value
	}
	if small, large := on("s0-n0000", 8), on("s1-n0000", 8); math.Abs(small-large) > 1e-8 ||
		small <= on("s0-n0000", 3) {
		t.Errorf("with 8 cores worth %v on one node, %v on the other; with 3 %v", small, large, on("s0-n0000", 3))
	}
}

// What the planner gains by a choice, and what the certificate says that it is worth, are one figure, on nodes of all
// shapes and with GPUs of all types.
func TestPlansAreCertifiedInTheUnitInWhichTheyAreMade(t *testing.T) {
	counted, elsewhere := 0, 0
	everyPlan(t, 60, func(n int, c policy.Cluster, plan policy.Plan) {
		nodes, unit := map[string]*policy.Node{}, policy.Reference(c.Nodes)
		for i := range c.Nodes {
			nodes[c.Nodes[i].Name] = &c.Nodes[i]
		}
		for i := range plan.Decisions {
			d, j := plan.Decisions[i], &c.Jobs[i]
			if d.Grant == nil || nodes[d.Grant.Nodes[0]] == nil || len(d.Grant.Nodes) > 1 {
				continue
			}
			p := policy.ProfileOn(j.Profile, nodes[d.Grant.Nodes[0]].GPUType)
			speed := d.Gain * policy.Unit(p, d.Fair, unit)
			cert := bound.Certify(&c, policy.Plan{Decisions: []policy.Decision{d}})
			if worth := speed * float64(d.Grant.PerNode.GPUs); math.Abs(cert.Value-worth) > 1e-9*worth {
				t.Fatalf("cluster %d: job %d is planned at %.6f, and certified at %.6f", n, d.Job, worth, cert.Value)
			}
			if counted++; speed != d.Gain || p != j.Profile {
				elsewhere++
			}
		}
	})
	if t.Logf("%d grants, %d of them not measured by the share of their own node", counted, elsewhere); elsewhere < 20 {
		t.Errorf("%d grants are in another unit than the share of their node", elsewhere)
	}
}

func TestACertificateSaysWhatBindsInOneSentence(t *testing.T) {
	c := clusterOf(of(1, 8, 8, 500))
	for id := range 9 {
		c.Jobs = append(c.Jobs, policy.Job{ID: id + 1, GPUs: 1, Profile: profile(t, "alexnet"), Arrival: epoch,
			Saves: true})
	}
	plan := policy.Decide(c, policy.FIFO(), policy.Greedy())
	cert := bound.Certify(&c, plan)
	const want = "value 6.4 of at most 8.9 (72.0 %); 7 GPUs are idle beside 8 jobs that could use some: 8 " +
		"cores, as job 2 " +
		"(s0-n0000 has 7 free GPUs, but is 8 cores short); one more core a node is worth 12.5 %, one more GB " +
		"nothing; " +
		"7 GPUs stranded for want of cores"
	if cert.String() != want {
		t.Errorf("%s\nwant %s", cert.String(), want)
	}
	quiet := bound.Certify(&policy.Cluster{}, policy.Plan{})
	if got, want := quiet.String(), "value 0.0 of at most 0.0 (100.0 %)"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// More classes than are told apart by configurations, more shapes than are told apart at all, more sets of constraints
// than there are bits for: the bound is looser, and holds.
func TestTheBoundHoldsWhereThereIsTooMuchOfEverything(t *testing.T) {
	few := func() policy.Cluster { return batch(t, clusterOf(of(64, 8, 24, 500)), mixed{33, 33}, manyGPUs, 3) }
	for name, c := range map[string]policy.Cluster{
		"classes":     ownProfiles(few(), 250),
		"shapes":      unlike(few()),
		"both":        ownProfiles(unlike(few()), 250),
		"constraints": choosy(few()),
		"cores":       batch(t, clusterOf(of(8, 8, 1024, 4000)), mixed{33, 33}, manyGPUs, 3),
		"GPUs":        batch(t, clusterOf(of(2, 96, 288, 6000)), mixed{33, 33}, manyGPUs, 3),
	} {
		fair, tuned := policy.Decide(c, policy.FIFO(), policy.Proportional()),
			policy.Decide(c, policy.FIFO(), policy.Tune())
		limit, cert := bound.Certify(&c, fair), bound.Certify(&c, tuned)
		same := slices.Equal(grantedBy(fair), grantedBy(tuned))
		t.Logf("%s: %s, %d classes, %d shapes, by %s", name, cert.String(), cert.Classes, cert.Shapes, cert.Method)
		if cert.Value > cert.Bound*(1+1e-9) || limit.Value > limit.Bound*(1+1e-9) ||
			same && cert.Value > limit.Bound*(1+1e-9) {
			t.Errorf("%s: tuned %s, proportional %s", name, cert.String(), limit.String())
		}
		if cert.Shapes > 24 {
			t.Errorf("%s: %d shapes", name, cert.Shapes)
		}
	}
}

// choosy has each job leave out one node of its own.
func choosy(c policy.Cluster) policy.Cluster {
	for i := range c.Jobs {
		c.Jobs[i].Except = []string{c.Nodes[i%len(c.Nodes)].Name}
	}
	return c
}
