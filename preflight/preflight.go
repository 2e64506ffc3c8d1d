// Package preflight judges whether a site is ready for the daemon, before it is switched on. It is a table of
// judgements over facts that somebody else has gathered: it asks nobody, has no clock, and changes nothing. What a
// judgement needs and nobody found out makes it a line that says so, and never a good one.
package preflight

import (
	"fmt"
	"time"
)

// Verdict is how a check came out.
type Verdict string

// The verdicts. Only Fail keeps a site from being ready.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn" // the daemon will work, but not as well as it could, or not as its administrator may expect
	Fail Verdict = "fail" // jobs would be stuck, or lose their work, or nothing would happen
	Skip Verdict = "skip" // not known, and why
)

// Line is what one check has to say.
type Line struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`             // what was found, or why it is not known
	Remedy  string  `json:"remedy,omitempty"` // of a warning and a failure
}

func (l Line) String() string {
	if l.Remedy == "" {
		return fmt.Sprintf("%-4s %s: %s", l.Verdict, l.Check, l.Text)
	}
	return fmt.Sprintf("%-4s %s: %s: %s", l.Verdict, l.Check, l.Text, l.Remedy)
}

// Known is a fact, or why it is not known.
type Known[T any] struct {
	Value T
	Why   string // empty: Value is known
}

// Unknown is a fact that could not be found out.
func Unknown[T any](why string) Known[T] { return Known[T]{Why: why} }

// Facts are all that judgements go by.
type Facts struct {
	Wanted     Wanted
	Here       Here
	Token      Known[Token]
	Slurm      Known[Slurm]             // over slurmrestd
	Partitions Known[map[string]int]    // of the cluster, with the number of GPUs of each
	Level      Known[string]            // of the daemon's user, in slurmdbd's word
	Names      Known[Names]             // of accounts and users, by slurmdbd
	Gates      Known[map[string]Gate]   // by partition, as far as each was tried
	Settings   Known[Settings]          // of the gate, where its file is on this host
	Scontrol   Known[map[string]string] // what scontrol show config says, by key
	Threads    Known[int]               // of a core, the most of all nodes
	Nodes      Known[[]Node]            // of the cluster, by name
	Weights    Known[map[string]string] // TRESBillingWeights of each partition of the cluster
	Options    Known[bool]              // whether our plugin is in plugstack.conf of this host
}

// Wanted is how the daemon is configured.
type Wanted struct {
	User         string
	Partitions   []string
	Lease        time.Duration
	Rate         float64 // requests a second
	Heartbeat    string
	ProfilesFile string
	Requeues     bool // the API requeues jobs: scontrol is not needed
	Sharing      Sharing
	Canary       []string // accounts with whom the daemon is tried
	Match        []Rule
	Plugin       string // the program that drives the workload manager, with credentials of its own; empty: slurmrestd
}

// Here is what was found on the daemon's own host. A Why of one of these is what is wrong with it.
type Here struct {
	Profiles []Folder
	Programs []Program
	Writable []Place
	Scontrol Program
}

// Folder is one of profile_dirs.
type Folder struct {
	Path  string
	Names []string // of the profiles that can be used, ascending
	Wrong []string // what is wrong with each of the others
	Why   string   // it cannot be read; empty: it can
}

// Program is something that the daemon will run.
type Program struct {
	Name string // hook before, planner plugin, …
	Path string
	Why  string // it cannot be run; empty: it can
}

// Place is a folder that the daemon has to write to.
type Place struct {
	Name string // ledger, heartbeat, …
	Path string
	Made bool   // the unit makes it when it starts the daemon
	Why  string // it cannot be written to; empty: it can
	Near string // a path that is there and differs by a few letters; empty: none
	Root string // only whoever asks may write there, and not the user of that name; empty: no such difference
}

// Token is what a token says of itself.
type Token struct {
	User string        // empty: it does not say
	Left time.Duration // until it ends; negative: it has ended; 0: it does not say
}

// Slurm is one that answered a question that takes a good token.
type Slurm struct {
	API     string        // version of slurmrestd's, as v0.0.42
	Release string        // as 24.11.5; empty: not told
	Nodes   int           //
	Jobs    int           // that wait or run
	Ahead   time.Duration // its clock, of ours
}

// Gate is what became of a job that was submitted to a partition with our directive, held, and taken back.
type Gate struct {
	Refused   string // it was not accepted, in Slurm's words; empty: it was
	Lua       bool   // it was refused as the gate refuses
	Annotated bool   // it came out with the gate's annotation
	Lease     time.Duration
	Untrusted string // the gate did not let us change it; empty: it did
	Left      int    // its number, where it could not be taken back
	Away      bool   // the heartbeat is stale: the gate lets everything pass
}

// Settings are those of the gate.
type Settings struct {
	Path         string
	Partitions   []string
	Heartbeat    string
	ProfilesFile string
	KeepShards   bool
}

// check is one entry of the table.
type check struct {
	name  string
	judge func(f *Facts) []finding
}

// finding is a line without the name of its check.
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

// Local judges what the daemon's own host alone can tell.
func Local(f Facts) []Line { return judge(f, local) }

// All judges everything.
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
