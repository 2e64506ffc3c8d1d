// Package rollout reports how far a site has come with the daemon and what is missing for the next stage. The stages
// are the shadow, a canary of one partition or account, and all jobs. The stage follows from what the daemon reports
// and is stored nowhere. Each criterion has a measured value, a wanted value and a remedy; a fact that could not be
// found out never counts as good. The package makes no requests, has no clock, and changes nothing.
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
	Shadow Stage = "shadow" // the daemon plans and changes nothing
	Canary Stage = "canary" // it manages the jobs of some accounts or partitions
	On     Stage = "on"     // it manages all jobs that opt in
)

// Next returns the stage after this one; empty after the last.
func (s Stage) Next() Stage {
	return map[Stage]Stage{Shadow: Canary, Canary: On}[s]
}

// Daemon is the part of a daemon's /status on which judgements are based.
type Daemon struct {
	Version    string        `json:"version"`
	Started    time.Time     `json:"started"`
	Shadow     bool          `json:"shadow"`
	Partitions []string      `json:"partitions"`
	Canary     bridge.Canary `json:"canary,omitzero"`
	Round      float64       `json:"round_s"`
	Lease      float64       `json:"lease_s"`
	Healthy    bool          `json:"healthy"`
	Says       string        `json:"says"`              // the text of /healthz
	Well       int           `json:"well"`              // consecutive rounds that ended well, up to the last one
	Failed     int           `json:"failed"`            // failed rounds since its start
	Failure    string        `json:"failure,omitempty"` // why the last of them failed
	Behind     bool          `json:"behind,omitempty"`  // it stands by while another daemon leads
}

// Standing is the whole answer of a daemon at /status.
type Standing struct {
	Daemon
	Leads       bool   `json:"leads"`             // it may change jobs; false in the shadow and on standby
	Learned     int    `json:"learned"`           // job names of which something has been learned
	FailedSteps int64  `json:"failed_steps"`      // failed steps of rounds and small rounds, since its start
	Savings     string `json:"savings,omitempty"` // of the last days, as a sentence
}

// Stage returns the daemon's stage.
func (d *Daemon) Stage() Stage {
	switch {
	case d.Shadow:
		return Shadow
	case !d.Canary.IsZero():
		return Canary
	}
	return On
}

// Facts are all inputs of the judgements.
type Facts struct {
	Daemon  preflight.Known[Daemon]
	Rounds  preflight.Known[[]Round] // kept by the daemon and held in this stage, ascending
	Savings preflight.Known[Savings] // booked over the last days in the daemon's present mode, shadow or not
}

// Round is the part of a round's report on which judgements are based.
type Round struct {
	Number       int
	Period, Took time.Duration
	Ended        []int    // jobs that ended; a job may occur in several rounds
	Lost         []string // jobs that did not come back after a preemption, as text
	Slow         []string // jobs far below the speed of their profile, as text
	Refused      []string // failed updates, as text
}

// RoundOf extracts a Round from a report.
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

// OfStage returns the last of the ascending reports that were made in the daemon's present stage and with its present
// canary, ascending. It stops at the first other one from the end: older ones prove nothing about the present stage.
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

// Savings is what was booked over the last days; Known and Saved are in GPU-hours, Ended and Later count runs.
type Savings struct {
	Known, Saved float64
	Ended, Later int
	Belated      time.Duration
	Checks       int     // windows of progress that were compared with a profile
	Ran          float64 // the mean of measured speed over the profile's speed in these windows
}

// The values that a stage must reach before the next one.
const (
	wantedRounds = 10  // consecutive rounds
	wantedJobs   = 10  // jobs of the canary that have ended
	fastRound    = 0.1 // the part of its period that a round may take
)
