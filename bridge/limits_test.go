package bridge_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/limits"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// accounting is a slurmdbd: it counts how often it is asked, and may be away.
type accounting struct {
	site  limits.Site
	err   error
	asked int
	slow  func(ctx context.Context) error
}

func (a *accounting) Limits(ctx context.Context) (limits.Site, error) {
	a.asked++
	if a.slow != nil {
		return limits.Site{}, a.slow(ctx)
	}
	return a.site, a.err
}

// ml is a Slurm whose jobs are all alice's in the account ml.
type ml struct{ slurm.Manager }

func (m ml) Observe(ctx context.Context) (slurm.Observed, error) {
	seen, err := m.Manager.Observe(ctx)
	seen.Jobs = slices.Clone(seen.Jobs)
	for i, j := range seen.Jobs {
		own := *j
		own.Account, own.User = "ml", "alice"
		seen.Jobs[i] = &own
	}
	return seen, err
}

// limited is a world of two servers where account ml has these limits.
func limited(t *testing.T, set ...limits.Limit) (*world, *accounting) {
	w := newWorld(t, 2, server)
	a := &accounting{site: limits.Site{Enforced: true,
		Associations: []limits.Association{{Account: "ml", Limits: set}}}}
	w.runner.Slurm, w.runner.Limits = ml{w.runner.Slurm}, &bridge.LimitsCache{Source: a}
	return w, a
}

func TestTheSnapshotHasTheSitesLimits(t *testing.T) {
	w, _ := limited(t, limits.Limit{Kind: limits.MaxTRESPerJob, TRES: "cpu", Most: 6},
		limits.Limit{Kind: limits.GrpTRES, TRES: "cpu", Most: 20})
	others := w.submit(1, "", func(s *slurmtest.Spec) { s.Partition, s.Lease, s.Request.CPUsPerTask = "other", 0, 4 })
	w.sleep(time.Minute)
	ours := w.submit(1, model("res18"))
	report := w.rounds(1)
	want := policy.Quota{Name: "GrpTRES of account ml", Jobs: -1, Nodes: -1, GPUs: -1, CPUs: 16, Memory: -1}
	if !reflect.DeepEqual(report.Snapshot.Quotas, []policy.Quota{want}) {
		t.Errorf("quotas %+v: want what job %d leaves of 20 cores", report.Snapshot.Quotas, others)
	}
	if j := report.Snapshot.Jobs[0]; j.ID != ours || j.Ceiling != (gres.Vector{CPUs: 6}) ||
		!slices.Equal(j.Quotas, []int{0}) {
		t.Errorf("job %d: ceiling %v, quotas %v", j.ID, j.Ceiling, j.Quotas)
	}
}

func TestWhatAJobMayNeverHaveBarsItInWords(t *testing.T) {
	w, _ := limited(t, limits.Limit{Kind: limits.MaxTRESPerJob, TRES: "gres/gpu", Most: 1})
	job := w.submit(2, model("res18"))
	w.rounds(1)
	if j := w.job(job); j.State == slurm.Running || !strings.Contains(j.Extra,
		"MaxTRESPerJob of account ml allows 1 GPUs, it needs 2 GPUs") {
		t.Errorf("%s, told %s", j.State, j.Extra)
	}
}

func TestLimitsAreReadOnceAMinuteAndTheirUseInEveryRound(t *testing.T) {
	w, a := limited(t, limits.Limit{Kind: limits.GrpJobs, Most: 5})
	w.runner.Settings.Round = 20 * time.Second
	w.submit(1, "", func(s *slurmtest.Spec) { s.Partition, s.Lease = "other", 0 })
	w.submit(1, model("res18"))
	w.sleep(time.Second)
	for n := range 7 {
		report := w.rounds(1)
		if left := report.Snapshot.Quotas[0].Jobs; left != 4 {
			t.Errorf("round %d: %d jobs are left of 5", n, left)
		}
	}
	if a.asked != 3 {
		t.Errorf("asked %d times in 120 s, want at 0, 60 and 120 s", a.asked)
	}
}

func TestWhileLimitsCannotBeReadTheLastOnesHoldForHours(t *testing.T) {
	w, a := limited(t, limits.Limit{Kind: limits.MaxTRESPerJob, TRES: "cpu", Most: 6})
	w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Work.Length = 100 * time.Hour })
	w.rounds(1)
	a.err = errors.New("slurmdbd is away")
	if report := w.rounds(60); report.Snapshot.Jobs[0].Ceiling.CPUs != 6 ||
		!strings.Contains(report.LimitsGap, "slurmdbd is away: what was read before holds") {
		t.Errorf("after five hours: ceiling %v, %s", report.Snapshot.Jobs[0].Ceiling, report.LimitsGap)
	}
	if a.asked > 40 {
		t.Errorf("a slurmdbd that is away was asked %d times in five hours", a.asked)
	}
	w.rounds(20)
	waits := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Request.CPUsPerTask, s.Work.Length = 2, 100*time.Hour })
	report := w.rounds(1)
	for _, j := range report.Snapshot.Jobs {
		if j.ID == waits && j.Ceiling.CPUs != 2 || !strings.Contains(report.LimitsGap,
			"no job is given more than it asked for") {
			t.Errorf("after six hours: ceiling %v, %s", j.Ceiling, report.LimitsGap)
		}
	}
	a.err = nil
	if report := w.rounds(3); report.LimitsGap != "" || report.Snapshot.Jobs[0].Ceiling.CPUs != 6 {
		t.Errorf("when it is back: %q, %v", report.LimitsGap, report.Snapshot.Jobs[0].Ceiling)
	}
}

func TestWhereLimitsWereNeverReadARunningJobMayKeepWhatItHolds(t *testing.T) {
	w, a := limited(t)
	job := w.submit(1, model("res18"))
	w.rounds(1)
	w.mustRun(job, "n1", 9)
	a.err, w.runner.Limits = errors.New("away"), &bridge.LimitsCache{Source: a}
	report := w.rounds(1)
	if c := report.Snapshot.Jobs[0].Ceiling; c.CPUs != 9 || c.Memory < report.Snapshot.Jobs[0].Running.PerNode.Memory {
		t.Errorf("the ceiling %v forbids what it holds", c)
	}
	w.mustRun(job, "n1", 9)
}

func TestASlurmdbdThatHangsCostsARoundATenthOfItsTime(t *testing.T) {
	w, a := limited(t)
	a.slow = func(ctx context.Context) error {
		due, bounded := ctx.Deadline()
		if left := time.Until(due); !bounded || left > 30*time.Second {
			t.Errorf("has %v", left)
		}
		return context.DeadlineExceeded
	}
	if report := w.rounds(1); !strings.Contains(report.LimitsGap, "no answer within 30s") {
		t.Errorf("%q", report.LimitsGap)
	}
}

func TestWithoutALimitsCacheNothingBinds(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(1, model("res18"))
	report := w.rounds(1)
	if j := report.Snapshot.Jobs[0]; j.Ceiling != (gres.Vector{}) || j.Quotas != nil || report.LimitsGap != "" {
		t.Errorf("%+v", j)
	}
}

// What follows the GPUs is Slurm's to reckon: a plan that has more in mind is told to the user, kept from others, and
// never comes about.
func TestLimitsDoNotWidenWhatFollowsTheGPUs(t *testing.T) {
	w, _ := limited(t)
	id := w.submit(1, model("res18"), forAges, func(s *slurmtest.Spec) { s.Request.CPUsPerTask, s.Request.CPUsPerGPU = 3, 3 })
	report := w.rounds(1)
	if c := report.Snapshot.Jobs[0].Ceiling.CPUs; c != 3 {
		t.Errorf("ceiling of %d cores, want the 3 for its GPU", c)
	}
	if s := step(t, report, id, bridge.Start); s.Grant.PerNode.CPUs != 3 {
		t.Errorf("planned with %d cores: %s", s.Grant.PerNode.CPUs, s.Why)
	}
	w.mustRun(id, "n1", 3)
}

func TestWhoRunsAndCouldNotStartAgainIsNotStopped(t *testing.T) {
	w, a := limited(t)
	w.runner.Settings.Policy = policy.LAS()
	var old []int
	for range 8 {
		old = append(old, w.submit(2, model("gnmt"), forAges, saves(time.Second)))
	}
	w.rounds(3)
	a.site.Associations[0].Limits = []limits.Limit{{Kind: limits.MaxTRESPerJob, TRES: "gres/gpu", Most: 1}}
	young := w.submit(1, model("gnmt"), forAges, saves(time.Second))
	w.rounds(3)
	if n := running(w, old); n != len(old) {
		t.Errorf("%d of %d go on: the others were stopped, and their site's limit keeps them from ever starting again",
			n, len(old))
	}
	a.site.Associations[0].Limits = nil
	w.rounds(1)
	if s := w.job(young).State; s != slurm.Running {
		t.Errorf("without that limit they give way, and job %d is %s", young, s)
	}
}

// Slurm looks at the tiers of partitions before it looks at priorities, and so does the policy that goes by its order.
func TestAJobOfAHigherTierGoesFirstWhateverThePriorities(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	w.runner.Settings.Policy, w.runner.Settings.Partitions = policy.Slurm(), []string{"gpu", "other"}
	a := &accounting{site: limits.Site{Partitions: []limits.Partition{{Name: "gpu", Tier: 1},
		{Name: "other", Tier: 2}}}}
	w.runner.Limits = &bridge.LimitsCache{Source: a}
	w.submit(1, model("gnmt"), forAges, func(s *slurmtest.Spec) { s.Priority = 4_000_000_000 })
	first := w.submit(1, model("gnmt"), forAges, func(s *slurmtest.Spec) { s.Partition, s.Priority = "other", 1 })
	w.rounds(1)
	w.mustRun(first, "n1", 1)
}
