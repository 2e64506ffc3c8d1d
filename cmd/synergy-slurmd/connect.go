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
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned/shelf"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/library"
)

// poll is the time between two looks at Slurm while a round waits for victims to leave and for starts to come about.
const poll = time.Second

// connector makes the round's view of Slurm from the flags and a configuration.
type connector struct {
	flags   flags
	book    *recollection
	log     zerolog.Logger
	metrics *metrics // nil: nobody counts
	seat    *seat    // nil: there is no other daemon
	bound   throttle
	outlook *outlook                    // nil: nobody estimates
	planner bridge.Planner              // nil: the built-in one
	almanac bridge.Almanac              // outlives the rounder of a configuration
	learned atomic.Pointer[shelf.Shelf] // what jobs have taught; nil: nothing is learned

	mu     sync.Mutex // rounds and the seat share the client
	config Config     // by which the client is opened
	client *driven    // the open one, or nil
	fresh  bool       // no rounder has it yet
}

// connect opens Slurm anew, since a configuration may bound requests differently, and makes the rounds that use it.
func (c *connector) connect(ctx context.Context, config Config) (rounder, error) {
	client, err := c.reopen(ctx, config)
	if err != nil {
		return nil, err
	}
	return &bridge.Runner{
		Slurm:    c.seat.fence(client),
		Ledger:   c.book,
		Watcher:  client.watcher,
		Splitter: c.seat.fenceSplitter(client.splits),
		Clock:    wall{},
		Profiles: c.shelves(config.ProfileDirs).lookup,
		Settings: settings(config, c.flags, c.planner),
		Almanac:  c.consult(client.limits),
		Last:     c.book.LastRound(),
		Learned:  c.learns(config.Learned),
		Outlook:  c.outlook.orNone(),
	}, nil
}

// fewFiles are told by name.
const fewFiles = 5

// learns opens the folder of what jobs teach; nil: nothing is learned, since none is named, or it cannot be read.
// Nobody waits for that: jobs then get the proportional share, and are told.
func (c *connector) learns(dir string) bridge.Learned {
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

// tellUnread names the first files.
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

// succeed is for a daemon that leads after another one: what it remembers of jobs is old, and where both share the
// folder, so is what it knows of them.
func (c *connector) succeed() {
	c.book.expire()
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

// taught is how many names something is known of.
func (c *connector) taught() float64 {
	s := c.learned.Load()
	if s == nil {
		return 0
	}
	return float64(s.Known())
}

// known is what jobs have taught, by user and job name.
func (c *connector) known() []*learned.Entry {
	s := c.learned.Load()
	if s == nil {
		return nil
	}
	return s.All()
}

// shelves are the profile folders.
type shelves struct {
	dirs []string
	*library.Library
}

// shelves are those of a configuration. A folder that cannot be read is told at once, since no job can tell it: all
// that its user hears of is a profile that nobody has.
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

// lookup finds a profile. Where there is no folder to look into that is said in its stead, in the same words of every
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

// consult makes the almanac one of these limits; nil: there are none to be told of.
func (c *connector) consult(source bridge.Limits) *bridge.Almanac {
	if source == nil {
		return nil
	}
	c.almanac.Source = source
	return &c.almanac
}

// reopen opens Slurm for these bounds, unless the seat has just done so: what it has read of jobs need not be read
// again.
func (c *connector) reopen(ctx context.Context, config Config) (*driven, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := config.Concurrency == c.config.Concurrency && config.Rate == c.config.Rate &&
		config.partition() == c.config.partition()
	c.config = config
	if !c.fresh || !same {
		c.shut()
	}
	client, err := c.open(ctx)
	c.fresh = false
	return client, err
}

// open returns the open client, or a new one. It is called with mu held.
func (c *connector) open(ctx context.Context) (*driven, error) {
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

// tickets are those of the client that is open now.
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

func (c *connector) shut() {
	if c.client != nil {
		c.client.close()
		c.client = nil
	}
}

// settings are a configuration in the words of a round. A nil planner is the built-in one.
func settings(config Config, f flags, planner bridge.Planner) bridge.Settings {
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
		Poll:                     poll,
		Parallel:                 config.Concurrency,
		Hook:                     config.Hook.orNone(),
		Shadow:                   f.shadow,
		Match:                    config.Match,
		Savings:                  config.Savings != "",
	}
}

// openLedger opens the ledger, or a new one in place of one that is damaged: everything but the service that jobs
// attained can be had again from Slurm, and rounds should not wait for a human for that.
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

// wall is the wall clock.
type wall struct{}

func (wall) Now() time.Time { return time.Now() }

// awake is when the process began; its monotonic reading is what passes evenly.
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
