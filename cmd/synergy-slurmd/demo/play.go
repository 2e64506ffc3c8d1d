package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// The daemon's defaults for rounds.
const (
	round = 5 * time.Minute
	lease = 15 * time.Minute
)

// tooLong is more rounds than any workload here needs: two days.
const tooLong = 600

// simulation is one run of the workload on an empty cluster.
type simulation struct {
	jobs     []job
	profiles map[string]*sensitivity.Profile // by model
	clock    *slurmtest.Clock
	slurm    *slurmtest.Slurm
	runner   *bridge.Runner
	present  []int   // the jobs that the last round saw
	slowest  float64 // the lowest speed of any job behind any round; 0: none has run
	refused  error   // the errors of submissions that Slurm refused
}

// start is when the virtual clock starts. It is not shown.
func start() time.Time { return time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC) }

// newSimulation sets up the emulated cluster and schedules the submissions of the jobs.
func newSimulation(jobs []job, p policy.Policy, a policy.Allocator) (*simulation, error) {
	clock := slurmtest.NewClock(start())
	y := &simulation{
		jobs: jobs, profiles: map[string]*sensitivity.Profile{}, clock: clock,
		slurm: slurmtest.New(clock, slurmtest.Options{Nodes: slurmtest.Rack(nodes, server, partition)}),
	}
	for _, j := range jobs {
		profile, err := readProfile(j.model)
		if err != nil {
			return nil, err
		}
		y.profiles[j.model] = profile
		clock.At(start().Add(j.at), func() { y.submit(j, profile) })
	}
	y.runner = y.daemon(p, a)
	return y, nil
}

// daemon is the daemon's own runner with its default settings, on the emulated Slurm.
func (y *simulation) daemon(p policy.Policy, a policy.Allocator) *bridge.Runner {
	return &bridge.Runner{
		Slurm: y.slurm, Ledger: &ledger.Memory{}, Clock: y.clock, Profiles: y.profile,
		Settings: bridge.Settings{
			Partitions: []string{partition}, Policy: p, Allocator: a,
			Rules:   policy.Rules{MinRun: 10 * time.Minute, MaxPreemptions: 20},
			Certify: true, Round: round, Lease: lease, RestartCost: 2 * time.Minute, StartTimeout: time.Minute,
			Poll: time.Second, Parallel: 1, // one call at a time: the order of calls is part of the outcome
		},
	}
}

// profile finds a profile by the name in a job's comment.
func (y *simulation) profile(name string) (*sensitivity.Profile, error) {
	p, known := y.profiles[strings.TrimSuffix(name, extension)]
	if !known {
		return nil, fmt.Errorf("profile %s: not found", name)
	}
	return p, nil
}

func (y *simulation) submit(j job, p *sensitivity.Profile) {
	if _, err := y.slurm.Submit(j.spec(p)); err != nil {
		y.refused = errors.Join(y.refused, err)
	}
}

// run holds rounds until all jobs have ended, and passes each round to watch.
func (y *simulation) run(ctx context.Context, watch func(*scene) error) (outcome, error) {
	y.clock.Advance(0) // submits the jobs that are there from the beginning
	for range tooLong {
		began := y.clock.Now()
		s, err := y.round(ctx)
		if err := errors.Join(err, y.refused); err != nil {
			return outcome{}, err
		}
		if err := watch(s); err != nil {
			return outcome{}, err
		}
		if y.over(s) {
			return y.outcome(), nil
		}
		if err := y.clock.Sleep(ctx, round-y.clock.Now().Sub(began)); err != nil {
			return outcome{}, fmt.Errorf("wait for the next round: %w", err)
		}
	}
	return outcome{}, fmt.Errorf("some of %d jobs have not ended after %d rounds", len(y.jobs), tooLong)
}

// over reports whether all jobs have been submitted and have ended.
func (y *simulation) over(s *scene) bool { return y.slurm.Submitted() == len(y.jobs) && s.present == 0 }
