package bound_test

import (
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
)

// Four GPUs are idle and two jobs wait, whatever it is that has them wait.
func TestIdleGPUsBesideAJobThatCouldStartAreHeldAgainstThePlan(t *testing.T) {
	for name, hold := range map[string]policy.Decision{
		"kept":  {Reason: policy.HeldBack, Why: "what is free is kept for job 9"},
		"order": {Reason: policy.Turn, Why: "job 2 goes first"},
		"cores": {Reason: policy.Cores, Why: "9 cores short"},
	} {
		c := clusterOf(of(1, 8, 24, 500))
		c.Jobs = []policy.Job{
			{
				ID:      1,
				GPUs:    4,
				Arrival: epoch,
				Saves:   true,
			},
			{ID: 2, GPUs: 2, Arrival: epoch},
			{ID: 3, GPUs: 2, Arrival: epoch},
		}
		plan := policy.Plan{Decisions: []policy.Decision{
			{
				Job:   1,
				Grant: &policy.Placement{Nodes: []string{"s0-n0000"}, PerNode: of(1, 4, 12, 250).total},
			},
			hold,
			hold,
		}}
		plan.Decisions[1].Job, plan.Decisions[2].Job = 2, 3
		cert := bound.Certify(&c, plan)
		if cert.Value != 4 || cert.Bound != 8 || cert.Same != 4 || cert.Idle != 4 {
			t.Errorf("%s: %+v, want 4 of 8", name, cert)
		}
		want := bound.Waiting{Reason: hold.Reason, Jobs: 2, Counted: 2, Job: 2, Why: hold.Why}
		if len(cert.Waiting) != 1 || cert.Waiting[0] != want {
			t.Errorf("%s: %+v", name, cert.Waiting)
		}
		says := "; 4 GPUs are idle beside 2 jobs that could use some: 2 " + string(
			hold.Reason,
		) + ", as job 2 (" + hold.Why + ")"
		if text := cert.String(); !strings.Contains(text, says) {
			t.Errorf("%s: %s, want %s", name, text, says)
		}
	}
}

// What Slurm would not start either is no reproach, and is named.
func TestAJobThatCouldNotStartWhateverThePlanIsNamedAndDoesNotCount(t *testing.T) {
	for name, change := range map[string]func(c *policy.Cluster){
		"held":           func(c *policy.Cluster) { c.Jobs[1].Barred = "held by its user" },
		"too many GPUs":  func(c *policy.Cluster) { c.Jobs[1].GPUs = 5 },
		"another type":   func(c *policy.Cluster) { c.Jobs[1].GPUType = "h100" },
		"a quota is out": func(c *policy.Cluster) { quota(c, policy.Quota{GPUs: 5, CPUs: -1, Jobs: -1, Nodes: -1, Memory: -1}) },
		"of jobs":        func(c *policy.Cluster) { quota(c, policy.Quota{GPUs: -1, CPUs: -1, Jobs: 1, Nodes: -1, Memory: -1}) },
		"a reservation": func(c *policy.Cluster) {
			c.Nodes[0].Reserved = []policy.Reservation{{Name: "r", From: epoch.Add(-time.Hour)}}
		},
	} {
		c := clusterOf(of(1, 8, 24, 500))
		c.Jobs = []policy.Job{{ID: 1, GPUs: 4, Arrival: epoch, Saves: true}, {ID: 2, GPUs: 2, Arrival: epoch}}
		change(&c)
		plan := policy.Plan{Decisions: []policy.Decision{
			{Job: 1, Grant: &policy.Placement{Nodes: []string{"s0-n0000"}, PerNode: of(1, 4, 12, 250).total}},
			{Job: 2, Reason: policy.Barred, Why: "it may not"}}}
		if name == "a reservation" {
			c.Jobs[0].Running = plan.Decisions[0].Grant // before it began
		}
		cert := bound.Certify(&c, plan)
		if cert.Ratio() != 1 || len(cert.Waiting) != 1 || cert.Waiting[0].Jobs != 1 || cert.Waiting[0].Counted != 0 {
			t.Errorf("%s: %+v", name, cert)
		}
		const says = "; 4 GPUs are idle; not counted, since it could not start there: 1 job: 1 barred, as job 2 " +
			"(it may not)"
		if text := cert.String(); !strings.Contains(text, says) {
			t.Errorf("%s: %s, want %s", name, text, says)
		}
	}
}

// quota holds both jobs to one.
func quota(c *policy.Cluster, q policy.Quota) {
	q.Name, c.Quotas = "GrpTRES", []policy.Quota{q}
	c.Jobs[0].Quotas, c.Jobs[1].Quotas = []int{0}, []int{0}
}

// A holder that must not be touched has all cores of its node: the GPUs beside it are idle for that, and not for any
// reason of Slurm's.
func TestWhatIsLentToAJobThatMustNotBeTouchedIsCountedAsWhatTheIdleGPUsLack(t *testing.T) {
	c := clusterOf(of(1, 8, 24, 500))
	all := &policy.Placement{Nodes: []string{"s0-n0000"}, PerNode: of(1, 1, 24, 62).total}
	c.Jobs = []policy.Job{
		{ID: 1, GPUs: 1, Arrival: epoch, Profile: profile(t, "alexnet"), Running: all, Fixed: true},
		{ID: 2, GPUs: 1, Arrival: epoch}, {ID: 3, GPUs: 1, Arrival: epoch}}
	plan := policy.Decide(c, policy.FIFO(), policy.Tune())
	cert := bound.Certify(&c, plan)
	if len(grantedBy(plan)) != 1 || cert.Bound < cert.Value+2-1e-9 || cert.Same != cert.Value {
		t.Errorf("%s: %+v, want two GPUs more", cert.String(), plan)
	}
	c.Jobs = c.Jobs[:1]
	if cert := bound.Certify(&c, policy.Decide(c, policy.FIFO(), policy.Tune())); cert.Ratio() != 1 {
		t.Errorf("nobody waits: %s", cert.String())
	}
}

// A holder that must not be touched and has what idles, while somebody waits; then the same where it has no more than
// its share: a plan of the shares that runs whoever ran before, and more, is in the range of the first one's bound.
func TestTheBoundHoldsForPlansInWhichWhatWasLentIsGivenBack(t *testing.T) {
	r, compared := rand.New(rand.NewSource(5)), 0
	for range 1500 {
		c := smallCluster(r)
		for i := range c.Nodes {
			c.Nodes[i].Foreign, c.Nodes[i].Closed = gres.Vector{}, ""
		}
		var modest policy.Cluster
		lend(&c, &modest, r)
		plan, shares := policy.Decide(c, policy.FIFO(), policy.Tune()),
			policy.Decide(modest, policy.FIFO(), policy.Proportional())
		covers := !slices.ContainsFunc(
			grantedBy(plan),
			func(id int) bool { return !slices.Contains(grantedBy(shares), id) },
		)
		if !covers || len(grantedBy(shares)) == len(grantedBy(plan)) {
			continue
		}
		compared++
		if cert, other := bound.Certify(&c, plan), bound.Certify(&modest, shares); other.Value > cert.Bound*(1+1e-9) {
			t.Fatalf("the plan of shares is worth %.6f, and the bound is %.6f: %+v", other.Value, cert.Bound, c)
		}
	}
	if t.Logf("%d compared", compared); compared < 50 {
		t.Errorf("%d compared", compared)
	}
}

// lend has the first job hold all cores of the first node in one cluster, and its share in the other.
func lend(c, modest *policy.Cluster, r *rand.Rand) {
	n := &c.Nodes[0]
	j := &c.Jobs[0]
	*j = policy.Job{ID: j.ID, GPUs: 1, Profile: j.Profile, Arrival: epoch, Fixed: true}
	fair := gres.Proportional(n.Total, 1)
	held := fair
	held.CPUs = n.Total.CPUs - r.Intn(2)
	*modest = *c
	modest.Jobs = slices.Clone(c.Jobs)
	j.Running = &policy.Placement{Nodes: []string{n.Name}, PerNode: held}
	modest.Jobs[0].Running = &policy.Placement{Nodes: []string{n.Name}, PerNode: fair}
}

func TestAFullClusterIsNotHeldAgainstWhoeverWaits(t *testing.T) {
	c := batch(t, clusterOf(of(4, 8, 24, 500)), mixed{33, 33}, oneGPU, 1)
	c.Jobs = append(c.Jobs, batch(t, clusterOf(of(4, 8, 24, 500)), mixed{33, 33}, oneGPU, 2).Jobs...)
	for i := range c.Jobs {
		c.Jobs[i].ID = i + 1
	}
	cert := bound.Certify(&c, policy.Decide(c, policy.FIFO(), policy.Tune()))
	if cert.Idle != 0 || cert.Bound != cert.Same || len(cert.Waiting) == 0 || cert.Waiting[0].Jobs < 32 ||
		strings.Contains(cert.String(), "idle") {
		t.Errorf("%+v", cert)
	}
}
