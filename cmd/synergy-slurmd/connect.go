package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/preflight"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned/shelf"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/library"
)

// poll is the time between two observations while a round waits for preempted jobs to leave and for starts to happen.
const poll = time.Second

// connector opens Slurm (or a plugin in its place), and makes the Runner for each configuration.
type connector struct {
	flags       flags
	book        *failoverLedger
	log         zerolog.Logger
	metrics     *metrics // nil: nothing is counted
	elector     *elector // the ticket of this daemon; nil: there is no other daemon
	bound       throttle
	outlook     *outlook                    // nil: no start times are estimated
	planner     bridge.Planner              // nil: the built-in one
	limitsCache bridge.LimitsCache          // cache of the site's limits; it outlives a reload
	learned     atomic.Pointer[shelf.Shelf] // what jobs have taught; nil: nothing is learned

	mu     sync.Mutex       // the client is used by rounds and by the elector
	config Config           // with which the client is opened
	client *workloadManager // the open one, or nil
	fresh  bool             // the client was opened by the elector, and no Runner uses it yet
}

// connect makes the Runner for a configuration. It opens Slurm anew, since the configuration may bound requests
// differently.
func (c *connector) connect(ctx context.Context, config Config) (rounder, error) {
	client, err := c.reopen(ctx, config)
	if err != nil {
		return nil, err
	}
	return &bridge.Runner{
		Slurm:    c.elector.fence(client),
		Ledger:   c.book,
		Watcher:  client.watcher,
		Splitter: c.elector.fenceSplitter(client.splits),
		Leases:   c.elector.fenceLeases(client.leases),
		Clock:    wall{},
		Profiles: c.shelves(config.ProfileDirs).lookup,
		Settings: settings(config, c.flags, c.planner, c.schedulerLooks(ctx)),
		Limits:   c.consult(client.limits),
		Last:     c.book.LastRound(),
		Learned:  c.openLearned(config.Learned),
		Outlook:  c.outlook.orNone(),
	}, nil
}

// fewFiles is how many unreadable files the log names one by one.
const fewFiles = 5

// openLearned opens the folder of learned profiles. It returns nil if no folder is named or it cannot be read: nothing
// is learned then, and the error is logged. Rounds go on, and jobs with synergy-profile=auto get the proportional
// share.
func (c *connector) openLearned(dir string) bridge.Learned {
	c.learned.Store(nil)
	if dir == "" {
		return nil
	}
	s, wrong, err := shelf.Open(dir)
	c.tellUnread(wrong)
	if err != nil {
		c.log.Error().Err(err).Str("remedy", "make the folder the daemon's to write, or name another one as learned").
			Msg("nothing is learned: jobs with synergy-profile=auto get the proportional share")
		return nil
	}
	c.learned.Store(s)
	return s
}

// tellUnread logs which learned profiles cannot be read: the first files by name, and how many others.
func (c *connector) tellUnread(wrong []error) {
	for k, file := range wrong {
		if k == fewFiles {
			c.log.Warn().Int("files", len(wrong)-k).Msg("more learned profiles cannot be read")
			break
		}
		c.log.Warn().Err(file).Str("remedy",
			"remove the file: it is left alone, and its jobs are measured again").Msg(
			"a learned profile cannot be read")
	}
}

// takeOver is called when this daemon becomes the leader after another one. Its own records of jobs are out of date by
// then, and so are the learned profiles if both daemons share the folder, which is read again.
func (c *connector) takeOver() {
	c.book.markStale()
	s := c.learned.Load()
	if s == nil {
		return
	}
	wrong, err := s.Renew()
	c.tellUnread(wrong)
	if err != nil {
		c.log.Error().Err(err).Str("remedy", "make the folder of learned readable for the daemon").
			Msg("what jobs have taught another daemon is not known here")
	}
}

// learnedCount is the number of learned profiles.
func (c *connector) learnedCount() float64 {
	s := c.learned.Load()
	if s == nil {
		return 0
	}
	return float64(s.Known())
}

// learnedProfiles returns the learned profiles, ordered by user and job name.
func (c *connector) learnedProfiles() []*learned.Entry {
	s := c.learned.Load()
	if s == nil {
		return nil
	}
	return s.All()
}

// shelves is the library of the configured profile folders.
type shelves struct {
	dirs []string
	*library.Library
}

// shelves returns the library of these folders and warns of each folder that cannot be read: a job's owner would only
// learn that the profile does not exist.
func (c *connector) shelves(dirs []string) shelves {
	for _, dir := range dirs {
		if _, err := os.ReadDir(dir); err != nil {
			c.log.Warn().Err(err).Str("remedy",
				"put the profiles there, readable for the daemon's user, or name another folder as profile_dirs").
				Msg(
					"a profile folder cannot be read: jobs get the proportional share where no other folder has " +
						"their profile")
		}
	}
	return shelves{dirs, library.New(dirs...)}
}

// lookup finds a profile. If none of the folders can be read, the error says that instead, in the same words for every
// job.
func (s shelves) lookup(name string) (*sensitivity.Profile, error) {
	profile, err := s.Lookup(name)
	if !errors.Is(err, library.ErrNoProfile) {
		return profile, err
	}
	for _, dir := range s.dirs {
		if _, gone := os.Stat(dir); gone == nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no folder with profiles can be read: %s", strings.Join(s.dirs, ", "))
}

// consult makes the limits cache read from this source and returns it; nil: there is no source.
func (c *connector) consult(source bridge.Limits) *bridge.LimitsCache {
	if source == nil {
		return nil
	}
	c.limitsCache.Source = source
	return &c.limitsCache
}

// reopen closes and opens Slurm for this configuration. A client that the elector has just opened with the same
// settings is kept, since it has already read the jobs.
func (c *connector) reopen(ctx context.Context, config Config) (*workloadManager, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := config.Concurrency == c.config.Concurrency && config.Rate == c.config.Rate &&
		config.Audit == c.config.Audit && config.partition() == c.config.partition()
	c.config = config
	if !c.fresh || !same {
		c.shut()
	}
	client, err := c.open(ctx)
	c.fresh = false
	return client, err
}

// open returns the open client, or a new one. It is called with mu held.
func (c *connector) open(ctx context.Context) (*workloadManager, error) {
	if c.client != nil {
		return c.client, nil
	}
	client, err := c.dial(ctx, c.config)
	if err != nil {
		return nil, err
	}
	c.client, c.fresh = client, true
	return client, nil
}

// tickets returns the tickets of the open client, and opens one if necessary.
func (c *connector) tickets(ctx context.Context) (leader.Tickets, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	client, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	return client.tickets, nil
}

func (c *connector) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shut()
}

// shut closes the client. It is called with mu held.
func (c *connector) shut() {
	if c.client != nil {
		c.client.close()
		c.client = nil
	}
}

// schedulerLooks is how long Slurm's schedulers may take to consider a job that has become eligible. It follows from
// `scontrol show config`, or from Slurm's defaults if that cannot be read, and is 0 with a plugin in Slurm's place.
func (c *connector) schedulerLooks(ctx context.Context) time.Duration {
	if c.flags.slurmPlugin != "" {
		return 0
	}
	config := configOf(ctx, c.flags)
	within := preflight.ReadScheduler(config.Value).Within()
	entry := c.log.Info()
	if config.Why != "" {
		entry = c.log.Warn().Str("not_known", config.Why)
	}
	entry.Stringer("within", within).Msg("slurm's schedulers look at a job that may start")
	return within
}

// settings are configuration and flags in the form that a round needs. A nil planner is the built-in one. looks is how
// long Slurm's schedulers may take to consider a job; 0: unknown. The certificate, the reasons of waiting and the
// profiles are always made, since the pages, the history and synergy explain show them.
func settings(config Config, f flags, planner bridge.Planner, looks time.Duration) bridge.Settings {
	return bridge.Settings{
		Planner:                  planner,
		Partitions:               config.Partitions,
		Canary:                   config.Canary,
		Policy:                   config.Policy,
		Allocator:                config.Allocator,
		Rules:                    config.Rules,
		PreemptionShare:          config.PreemptionShare,
		Round:                    f.round,
		Lease:                    config.Lease,
		Ahead:                    config.Ahead,
		Certify:                  true,
		Explain:                  true,
		Profiled:                 true,
		Keep:                     config.Keep,
		Sharing:                  config.Sharing,
		PreemptWithoutCheckpoint: config.PreemptWithoutCheckpoint,
		SaveAtLimit:              config.SaveAtLimit,
		Watched:                  f.watches(),
		RestartCost:              config.RestartCost,
		Audit:                    config.Audit,
		StartTimeout:             config.StartTimeout,
		Looks:                    looks,
		Poll:                     poll,
		Parallel:                 config.Concurrency,
		Hook:                     config.Hook.orNone(),
		Shadow:                   f.shadow,
		Match:                    config.Match,
		Savings:                  config.Savings != "",
	}
}

// openLedger opens the ledger. A damaged one is moved aside and a new one begun, since Slurm knows everything in it but
// the service that jobs attained, and rounds should not wait for a person.
func openLedger(path string, log zerolog.Logger) (*ledger.Book, error) {
	book, err := ledger.Open(path, ledger.Options{})
	if !errors.Is(err, ledger.ErrCorrupt) {
		return book, err
	}
	aside, moved := ledger.SetAside(path, time.Now())
	if moved != nil {
		return nil, fmt.Errorf("%w; %w", err, moved)
	}
	log.Warn().Err(err).Str("kept_as", aside).Msg("the ledger was damaged: starting with an empty one")
	return ledger.Open(path, ledger.Options{})
}

// wall is the host's clock.
type wall struct{}

func (wall) Now() time.Time { return time.Now() }

// awake is when the process began. Its monotonic reading makes Elapsed independent of changes of the wall clock.
var awake = time.Now()

func (wall) Elapsed() time.Duration { return time.Since(awake) }

func (wall) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
