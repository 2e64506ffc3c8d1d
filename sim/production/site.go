package production

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// The daemon's configuration on this site. The lease is long enough never to end, since the daemon never dies here.
const (
	partition    = "gpu"
	lease        = 20 * 365 * 24 * time.Hour
	startTimeout = time.Minute // the default
	extension    = ".json"     // of profiles in comments, as files on a site have it
)

// epoch is the start of the virtual clock. The value does not matter.
func epoch() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// site is a cluster with its Slurm, its daemon and its users.
type site struct {
	Config
	clock   *slurmtest.Clock
	slurm   *slurmtest.Slurm
	runner  *bridge.Runner
	content policy.Contentment // decides whether time alone can change a plan

	servers          map[string]int // index by name
	jobs             []outcome.Job  // in the order of submission, so that index+1 is Slurm's job ID
	sourceEmpty      bool           // no further job arrives
	failed           error          // the error that ends the simulation; nil: none
	finishedJobs     int            // jobs that have ended
	finishedInWindow int            // finished jobs of the window

	stays map[gpu][]stay // by shared GPU; nil if no job shares

	run outcome.Run // the outcome so far
}

// newSite builds the site: its nodes, its Slurm and its daemon. If jobs share GPUs, every GPU gets shards and every
// profile a GPUBusy, by which the planner predicts how fast jobs are together.
func newSite(config Config) *site {
	s := &site{Config: config, clock: slurmtest.NewClock(epoch()), servers: map[string]int{}, run: emptyOutcome(config)}
	nodes := s.buildNodes()
	if config.Users.Sharing > 0 {
		nodes = slurmtest.Divided(nodes, share.MostJobs)
		s.measureGPUs()
		s.stays = map[gpu][]stay{}
	}
	s.slurm = slurmtest.New(s.clock, slurmtest.Options{
		Nodes: nodes, SchedulerDelay: delayOption(config.Slurm.Scheduler), Teardown: delayOption(config.Slurm.Teardown),
		Ended: s.recordEnd, Together: s.sharedSpeed,
	})
	s.runner = &bridge.Runner{
		Slurm: s.slurm, Ledger: &simLedger{}, Clock: s.clock, Profiles: s.profile,
		Settings: bridge.Settings{
			Partitions: []string{partition}, Policy: config.Policy, Allocator: config.Allocator, Rules: config.Rules,
			Certify: config.Detail && config.Certify, Round: config.Round, Lease: lease, StartTimeout: startTimeout,
			Poll:     config.Poll,
			Sharing:  s.sharingConfig(),
			Parallel: 1, // one call at a time, since the order of calls affects the outcome
		},
	}
	return s
}

// delayOption converts a delay for slurmtest, for which 0 means its default and a negative value none.
func delayOption(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// buildNodes makes the nodes of the cluster and notes the index of each by its name, because Slurm's history names
// nodes and the outcome numbers them.
func (s *site) buildNodes() []slurm.Node {
	var nodes []slurm.Node
	for i, server := range s.Cluster.Nodes() {
		g := s.Cluster.Groups[server.Group]
		s.servers[server.Name] = i
		nodes = append(nodes, slurm.Node{
			Name: server.Name, Total: g.Vector(), GPUType: g.GPUType, Features: g.Features,
			Partitions: []string{partition},
		})
	}
	return nodes
}

// emptyOutcome is the outcome before anything has happened. Package sim replaces its setting by one that also names the
// workload.
func emptyOutcome(c Config) outcome.Run {
	return outcome.Run{
		Setting: outcome.Setting{
			Engine: "production", Policy: c.Policy.Name, Allocator: c.Allocator.Name, Cluster: c.Cluster.String(),
			Window:       c.Window,
			RoundSeconds: c.Round.Seconds(), Until: c.Until.Seconds(), AtRounds: c.AtRounds,
		},
		GPUs: c.Cluster.GPUs(), CPUs: c.Cluster.CPUs(), Memory: c.Cluster.Memory(),
	}
}

// profile returns the profile with the name in a job's comment, with or without its extension, as the daemon would read
// it from a folder.
func (s *site) profile(name string) (*sensitivity.Profile, error) {
	p, known := s.Profiles[strings.TrimSuffix(name, extension)]
	if !known {
		return nil, fmt.Errorf("profile %s: not found", name)
	}
	return p, nil
}

// secondsSinceEpoch converts a moment to seconds since the beginning.
func secondsSinceEpoch(moment time.Time) float64 { return moment.Sub(epoch()).Seconds() }

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// simLedger is the daemon's ledger in a simulation, which stores no reports. Unlike ledger.Memory it copies nothing: a
// simulation ends with the first round that fails, so no round can find records that another has changed and not
// settled.
type simLedger struct {
	records bridge.Records
	intent  *bridge.Intent
}

func (b *simLedger) Load() (bridge.Records, *bridge.Intent, error) { return b.records, b.intent, nil }

func (b *simLedger) Intend(intent bridge.Intent) error {
	b.intent = &intent
	return nil
}

func (b *simLedger) Settle(records bridge.Records, _ bridge.Report) error {
	b.records, b.intent = records, nil
	return nil
}
