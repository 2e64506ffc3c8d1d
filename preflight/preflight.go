// Package preflight judges whether a site is ready for the daemon before it is switched on. It is a table of checks
// over facts that the caller has gathered: it makes no requests, has no clock, and changes nothing. A new check is one
// entry. A missing fact is reported as unknown and never counts as good.
package preflight

import (
	"fmt"
	"time"
)

// Verdict is the outcome of a check.
type Verdict string

// The verdicts. Only Fail makes a site not ready.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn" // the daemon works, but less well than it could, or not as the administrator may expect
	Fail Verdict = "fail" // jobs would be stuck or lose work, or nothing would happen
	Skip Verdict = "skip" // not known, and why
)

// Line is one result of a check.
type Line struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`             // what was found, or why nothing is known
	Remedy  string  `json:"remedy,omitempty"` // of a warning or failure
}

func (l Line) String() string {
	if l.Remedy == "" {
		return fmt.Sprintf("%-4s %s: %s", l.Verdict, l.Check, l.Text)
	}
	return fmt.Sprintf("%-4s %s: %s: %s", l.Verdict, l.Check, l.Text, l.Remedy)
}

// Known is a fact, or the reason why it is not known.
type Known[T any] struct {
	Value T
	Why   string // empty: Value is known
}

// Unknown is a fact that could not be found out, with the reason.
func Unknown[T any](why string) Known[T] { return Known[T]{Why: why} }

// Facts are the inputs of all checks.
type Facts struct {
	Wanted     Wanted
	Here       Here
	Token      Known[Token]
	Slurm      Known[Slurm]             // over slurmrestd
	Partitions Known[map[string]int]    // the cluster's partitions, with the number of GPUs of each
	Level      Known[string]            // the admin level of the daemon's user, as slurmdbd names it
	Names      Known[Names]             // accounts and users in slurmdbd
	Gates      Known[map[string]Gate]   // the result of a trial job by partition, where one was submitted
	Settings   Known[Settings]          // the gate's settings, if its file is on this host
	Scontrol   Known[map[string]string] // the output of scontrol show config, by key
	Threads    Known[int]               // threads per core, the largest of all nodes
	Nodes      Known[[]Node]            // the cluster's nodes, by name
	Weights    Known[map[string]string] // TRESBillingWeights of each partition
	Options    Known[bool]              // whether plugstack.conf of this host has our plugin
}

// Wanted is the daemon's configuration, as far as checks need it.
type Wanted struct {
	User         string
	Partitions   []string
	Lease        time.Duration
	Rate         float64 // requests a second
	Heartbeat    string
	ProfilesFile string
	Requeues     bool // the API requeues jobs, so scontrol is not needed
	Sharing      Sharing
	Canary       []string // accounts of the canary
	Match        []Rule
	Plugin       string // the plugin program that replaces slurmrestd and has its own credentials; empty: slurmrestd
}

// Here is what was found on the daemon's own host. A Why in one of these says what is wrong with it.
type Here struct {
	Profiles []Folder
	Programs []Program
	Writable []Place
	Scontrol Program
}

// Folder is one of the profile_dirs.
type Folder struct {
	Path  string
	Names []string // usable profiles, ascending
	Wrong []string // what is wrong with each of the other files
	Why   string   // why it cannot be read; empty: it can
}

// Program is a program that the daemon runs.
type Program struct {
	Name string // such as hook before or planner plugin
	Path string
	Why  string // why it cannot be run; empty: it can
}

// Place is a folder that the daemon must be able to write to.
type Place struct {
	Name string // what is written there, such as ledger or heartbeat
	Path string
	Made bool   // the systemd unit creates it when it starts the daemon
	Why  string // why it cannot be written to; empty: it can
	Near string // an existing path that differs by a few letters; empty: none
	Root string // the check runs as root, which may write there, while this user may not; empty: no difference
}

// Token is what a token says about itself.
type Token struct {
	User string        // empty: not said
	Left time.Duration // until it expires; negative: it has expired; 0: not said
}

// Slurm is what a controller answered to a request that needs a valid token.
type Slurm struct {
	API     string // slurmrestd's API version, such as v0.0.42
	Release string // such as 24.11.5; empty: unknown
	Nodes   int
	Jobs    int // waiting or running
	// Eligible counts pending jobs that are not held, have no dependency, and whose begin time has passed.
	Eligible int
	Ahead    time.Duration // how far its clock is ahead of this host's
}

// Gate is the result of a trial job with our directive, which was submitted held to a partition and then cancelled.
type Gate struct {
	Refused   string // why Slurm refused it; empty: it was accepted
	Lua       bool   // it was refused in the way the gate refuses jobs
	Annotated bool   // it has the gate's annotation
	Lease     time.Duration
	Untrusted string // why the gate did not let the daemon's user change it; empty: it did
	Left      int    // its job ID, if it could not be cancelled
	Away      bool   // the heartbeat is stale, so the gate lets every job pass
}

// Settings are the gate's settings.
type Settings struct {
	Path         string
	Partitions   []string
	Heartbeat    string
	ProfilesFile string
	KeepShards   bool
}

// check is one entry of the table of checks.
type check struct {
	name  string
	judge func(f *Facts) []finding
}

// finding is a Line without the name of its check.
type finding struct {
	verdict      Verdict
	text, remedy string
}

func ok(format string, a ...any) finding   { return finding{OK, fmt.Sprintf(format, a...), ""} }
func skip(format string, a ...any) finding { return finding{Skip, fmt.Sprintf(format, a...), ""} }

func warn(remedy, format string, a ...any) finding {
	return finding{Warn, fmt.Sprintf(format, a...), remedy}
}

func fail(remedy, format string, a ...any) finding {
	return finding{Fail, fmt.Sprintf(format, a...), remedy}
}

// Local runs the checks that need only the daemon's own host.
func Local(f Facts) []Line { return judge(f, local) }

// All runs all checks.
func All(f Facts) []Line {
	var all []check
	for _, part := range [][]check{local, access, namedChecks, gate, slurmConf, charges, sharing} {
		all = append(all, part...)
	}
	return judge(f, all)
}

func judge(f Facts, checks []check) []Line {
	var lines []Line
	for _, c := range checks {
		for _, found := range c.judge(&f) {
			lines = append(lines, Line{c.name, found.verdict, found.text, found.remedy})
		}
	}
	return lines
}

// Ready says whether no check failed.
func Ready(lines []Line) bool {
	for _, line := range lines {
		if line.Verdict == Fail {
			return false
		}
	}
	return true
}
