package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/history"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Config is the content of the configuration file: everything that SIGHUP can change. Settings that need a restart are
// flags.
type Config struct {
	Partitions  []string      // managed ones; never empty after load
	Canary      bridge.Canary // which jobs in Partitions are managed while the daemon is on trial; zero: all
	Policy      policy.Policy
	Allocator   policy.Allocator
	ProfileDirs []string // absolute; searched in this order
	Learned     string   // absolute; folder of what jobs with synergy-profile=auto taught; empty: nothing is learned
	// Match gives profiles to jobs without a directive, in shadow mode only. The first rule that fits counts.
	Match   []bridge.Match
	Savings string // absolute; the folder of the ledger of savings; empty: none is kept
	History historyConfig
	// Lease is how long a waiting job is kept from Slurm's own scheduler without a renewal. It is at least two rounds
	// long, so that one failed round makes no job start.
	Lease time.Duration
	Rules policy.Rules
	// PreemptionShare is rules.max_preemptions as a part of the cluster's GPUs. The larger of the two limits counts.
	PreemptionShare float64
	Ahead           int // how many waiting jobs are eligible in Slurm (armed) with their planned size; 0: none

	Keep bridge.Keep // which explicit requests are lower bounds

	// Sharing says how much memory a GPU has that several jobs may share, and how they share it; zero: no GPU is
	// shared.
	Sharing bridge.Sharing

	PreemptWithoutCheckpoint bool
	SaveAtLimit              bool          // ask jobs with a checkpoint to save before their time limits end them
	EstimateStarts           bool          // estimate when waiting jobs will start
	RestartCost              time.Duration // of a job without a profile
	Hook                     hook
	// Audit is the least time between two progress reports that are compared with the profile; 0: none are compared.
	Audit        time.Duration
	StartTimeout time.Duration // how long a started job may stay pending before its start counts as failed
	Concurrency  int           // most requests in flight
	Rate         float64       // requests per second
	Heartbeat    string        // absolute; the file that tells job_submit.lua of the last good round; empty: none
	// ProfilesFile is the absolute path of the file that lists the profiles for job_submit.lua; empty: none.
	ProfilesFile string
}

// The length of leases, in rounds and at least. A lease must outlast a failed round and a restart of the daemon.
const (
	leaseRounds    = 3
	leaseRoundsMin = 2
	leaseDefault   = 15 * time.Minute
)

// defaults is the configuration of a file that sets nothing but the partitions.
func defaults(round time.Duration) Config {
	return Config{
		Policy:      policy.Slurm(),
		Allocator:   policy.Tune(),
		ProfileDirs: []string{"/etc/synergy/profiles"},
		Lease:       max(leaseDefault, leaseRounds*round),
		Rules:       policy.Rules{MinRun: 10 * time.Minute, MaxPreemptions: 20, MaxRestarts: 50},
		// Of rules.max_preemptions as a number and as a part of the GPUs, the larger counts.
		PreemptionShare: 0.05,
		Ahead:           32,
		Keep:            bridge.Keep{Memory: true, Steps: true},
		SaveAtLimit:     true,

		EstimateStarts: true,
		RestartCost:    2 * time.Minute,
		Hook:           hook{timeout: 30 * time.Second},
		Audit:          2 * time.Minute,
		StartTimeout:   time.Minute,
		Concurrency:    8,
		Rate:           100,
		History:        historyConfig{Keep: history.DefaultKeep, MostGiB: history.DefaultMostBytes >> 30},
	}
}

// partition is where the daemon submits its tickets: the first managed partition, or "" for Slurm's default.
func (c Config) partition() string {
	if len(c.Partitions) == 0 {
		return ""
	}
	return c.Partitions[0]
}

// loadConfig reads the file at path for a daemon with the given time between rounds. The error lists all problems, each
// with its line, key, value and remedy.
func loadConfig(path string, round time.Duration) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	config, err := parseConfig(text, round)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration %s: %w", path, err)
	}
	return config, nil
}

// parseConfig reads the text of a configuration file.
func parseConfig(text []byte, round time.Duration) (Config, error) {
	document, err := onlyDocument(text)
	if err != nil {
		return Config{}, err
	}
	settings, err := flatten("", document.Content[0])
	if err != nil {
		return Config{}, err
	}
	config := defaults(round)
	if err := config.read(settings); err != nil {
		return Config{}, err
	}
	return config, config.check(round)
}

// onlyDocument parses the text, which must be a single YAML document.
func onlyDocument(text []byte) (*yaml.Node, error) {
	if err := unreadable(text); err != nil {
		return nil, err
	}
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var document, second yaml.Node
	switch err := loader.Load(&document); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("is empty: name the partitions at least, as partitions: [gpu]")
	case err != nil:
		return nil, syntaxError(text, err)
	}
	switch err := loader.Load(&second); {
	case errors.Is(err, io.EOF):
	case err != nil: // the line of what cannot be read is known, that of the document is not
		return nil, syntaxError(text, err)
	default:
		return nil, fmt.Errorf("line %d: a second document begins: keep everything in one", second.Line)
	}
	return &document, nil
}

// read takes over the settings. The error lists every one that is unknown, repeated or invalid.
func (c *Config) read(settings []setting) error {
	var problems []error
	lines := make(map[string]int)
	for _, s := range settings {
		switch read := reader(s.name); {
		case lines[s.name] != 0:
			problems = append(problems, fmt.Errorf("line %d: %s: is already set in line %d: remove one", s.value.Line,
				s.name, lines[s.name]))
		case read == nil:
			problems = append(
				problems,
				fmt.Errorf("line %d: %s: unknown key: %s", s.value.Line, s.name, keySuggestion(s.name)),
			)
		default:
			if err := read(c, s.value); err != nil {
				problems = append(problems, fmt.Errorf("line %d: %s: %w", s.value.Line, s.name, err))
			}
		}
		lines[s.name] = s.value.Line
	}
	return errors.Join(problems...)
}

// check finds contradictions between settings that are each valid.
func (c *Config) check(round time.Duration) error {
	if len(c.Partitions) == 0 {
		return errors.New("partitions: none is named: name those that the daemon shall manage, as partitions: [gpu]")
	}
	for _, name := range c.Canary.Partitions {
		if !slices.Contains(c.Partitions, name) {
			return fmt.Errorf("canary.partitions: %q is none of partitions: name some of these", name)
		}
	}
	if least := leaseRoundsMin * round; c.Lease < least {
		return fmt.Errorf(
			"lease: %s is less than %d rounds of %s: make it at least %s, or the rounds shorter (--round)",
			c.Lease, leaseRoundsMin, round, least)
	}
	return nil
}
