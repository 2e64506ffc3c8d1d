// Package rollout judges how far a site has come with the daemon, and whether it may go further: from the preflight
// to the shadow, to a canary of one partition or account, to everybody. The stage is what the daemon itself tells, and
// is kept nowhere. Each criterion has what was measured, what is wanted, and what to do; what nobody could find out is
// never a good one. The package asks nobody, has no clock, and changes nothing.
package rollout

import (
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/preflight"
)

// Stage is how far a site has come.
type Stage string

// The stages, in their order.
const (
	Preflight Stage = "preflight" // no daemon answers
	Shadow    Stage = "shadow"    // it plans and changes nothing
	Canary    Stage = "canary"    // it manages some
	On        Stage = "on"        // it manages everybody who opts in
)

// Next is the stage after this one; empty after the last.
func (s Stage) Next() Stage {
	return map[Stage]Stage{Preflight: Shadow, Shadow: Canary, Canary: On}[s]
}

// Last is the stage before this one; empty before the first.
func (s Stage) Last() Stage {
	return map[Stage]Stage{Shadow: Preflight, Canary: Shadow, On: Canary}[s]
}

// Daemon is what a daemon tells of itself, at /status, and what judgements go by.
type Daemon struct {
	Version    string        `json:"version"`
	Started    time.Time     `json:"started"`
	Shadow     bool          `json:"shadow"`
	Partitions []string      `json:"partitions"`
	Canary     bridge.Canary `json:"canary,omitzero"`
	Round      float64       `json:"round_s"`
	Lease      float64       `json:"lease_s"`
	Healthy    bool          `json:"healthy"`
	Says       string        `json:"says"`              // as /healthz does
	Well       int           `json:"well"`              // rounds in a row that ended well, up to the last
	Failed     int           `json:"failed"`            // rounds since its start
	Failure    string        `json:"failure,omitempty"` // of the last of these
	Behind     bool          `json:"behind,omitempty"`  // it stands by: another one leads
}

// Standing is all that a daemon tells of itself at /status.
type Standing struct {
	Daemon
	Leads       bool   `json:"leads"`             // it acts; false in the shadow, and while it stands by
	Learned     int    `json:"learned"`           // job names of which something is known
	FailedSteps int64  `json:"failed_steps"`      // of rounds and small rounds, since its start
	Savings     string `json:"savings,omitempty"` // of the last days, in a sentence
}

// Stage is the daemon's.
func (d *Daemon) Stage() Stage {
	switch {
	case d.Shadow:
		return Shadow
	case !d.Canary.IsZero():
		return Canary
	}
	return On
}

// Facts are all that judgements go by.
type Facts struct {
	Now     time.Time
	Daemon  preflight.Known[Daemon]
	Rounds  preflight.Known[[]Round]          // that it keeps and held in this stage, ascending
	Checks  preflight.Known[[]preflight.Line] // of synergy-slurmd --check
	Savings preflight.Known[Savings]          // booked in this mode, in the shadow or not, over the last days
	Proof   preflight.Known[Proof]            // the last that there is
	Wanted  Wanted
}

// Round is one round, as far as it matters here.
type Round struct {
	Number       int
	Period, Took time.Duration
	Ended        []int    // jobs that are over; one may stand in several rounds
	Lost         []string // jobs that did not come back, in words
	Slow         []string // jobs that run far below their profile, in words
	Refused      []string // updates that went wrong, in words
}

// RoundOf is what of a report matters here.
func RoundOf(r bridge.Report) Round {
	round := Round{Number: r.Round, Period: r.Snapshot.Rules.Round}
	for _, p := range r.Phases {
		round.Took += p.Took
	}
	for _, e := range r.Ended {
		round.Ended = append(round.Ended, e.Job)
	}
	for _, l := range r.Lost {
		round.Lost = append(round.Lost, fmt.Sprintf("job %d, %s", l.Job, l.Cause))
	}
	for _, c := range r.Contradicting {
		round.Slow = append(round.Slow, fmt.Sprintf("job %d: %s", c.Job, c.String()))
	}
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Error != "" {
			round.Refused = append(round.Refused, fmt.Sprintf("job %d, %s: %s", s.Job, s.Verb, s.Error))
		}
	}
	return round
}

// OfStage picks of reports, ascending, the last ones that were held as the daemon is now: those before another stage,
// or with another canary, prove nothing.
func OfStage(d *Daemon, reports []bridge.Report) (rounds []Round) {
	for i := len(reports) - 1; i >= 0; i-- {
		r := &reports[i]
		if r.Shadow != d.Shadow || !r.Canary.Equal(d.Canary) {
			break
		}
		rounds = append([]Round{RoundOf(*r)}, rounds...)
	}
	return rounds
}

// Savings is what was booked, in GPU-hours and runs.
type Savings struct {
	Known, Saved float64
	Ended, Later int
	Belated      time.Duration
	Checks       int     // windows of progress that were held against a profile
	Ran          float64 // of what the profiles said, on average over these
}

// Wanted are the figures that a site asks for.
type Wanted struct {
	Rounds int           // of a stage, in a row
	Jobs   int           // of the canary that have ended
	Fast   float64       // the part of a period that a round may take
	Fresh  time.Duration // for how long a proof holds
}

// Usual are the figures that are asked for where nobody says otherwise.
func Usual() Wanted { return Wanted{Rounds: 10, Jobs: 10, Fast: 0.1, Fresh: 30 * 24 * time.Hour} }

// Criterion is one thing that must be seen before the next stage.
type Criterion struct {
	Name     string            `json:"name"`
	Verdict  preflight.Verdict `json:"verdict"` // ok, fail, or skip where nobody could find out
	Measured string            `json:"measured"`
	Wanted   string            `json:"wanted"`
	Remedy   string            `json:"remedy,omitempty"`
}

// Status is where a site is, and what it lacks.
type Status struct {
	Stage    Stage       `json:"stage"`
	Daemon   string      `json:"daemon"` // what it says, or why it says nothing
	Next     Stage       `json:"next,omitempty"`
	Ready    bool        `json:"ready"` // for the next stage; in the last one: all is well
	Criteria []Criterion `json:"criteria"`
}
