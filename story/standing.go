package story

import (
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// Standing is a round in numbers.
type Standing struct {
	Round       int           `json:"round"`
	Began       time.Time     `json:"began"`
	Took        time.Duration `json:"took_ns"`
	Shadow      bool          `json:"shadow"`
	GPUs        Amount        `json:"gpus"`
	Cores       Amount        `json:"cores"`
	Memory      Amount        `json:"memory_mib"`
	Gain        float64       `json:"gain"`
	Runs        int           `json:"runs"`
	Waits       int           `json:"waits"`
	Outside     int           `json:"outside"`
	Reasons     []Reasons     `json:"reasons"`
	Steps       int           `json:"steps"`
	Failed      []string      `json:"failed,omitempty"` // failed steps, each as a sentence
	Lost        int           `json:"lost"`             // jobs that did not come back after they were asked to save
	Ratio       float64       `json:"certified,omitempty"`
	Certificate string        `json:"certificate,omitempty"` // as a sentence; empty: the round has none
	Gaps        []string      `json:"gaps,omitempty"`        // what the round had to do without, as sentences
}

// StandingOf summarises a round in numbers, to show at a glance whether the daemon does well. Steps counts failed
// steps, too. Gaps are the faults for which the round had to do without something, such as an external planner or
// Slurm's limits.
func StandingOf(report *bridge.Report) Standing {
	top, queue := TopOf(report), Queue(report)
	s := Standing{Round: report.Round, Began: report.Began, Shadow: report.Shadow, GPUs: top.GPUs, Cores: top.Cores,
		Memory: top.Memory, Gain: top.Gain, Runs: len(top.Jobs), Waits: len(queue), Outside: len(report.Outside),
		Reasons: ReasonsOf(queue), Steps: len(report.Steps), Lost: len(report.Lost)}
	for _, p := range report.Phases {
		s.Took += p.Took
	}
	for i := range report.Steps {
		if step := &report.Steps[i]; step.Error != "" {
			s.Failed = append(s.Failed, fmt.Sprintf("%s job %d: %s", step.Verb, step.Job, step.Error))
		}
	}
	if c := report.Certificate; c != nil {
		s.Ratio, s.Certificate = c.Ratio(), c.String()
	}
	for _, gap := range []string{report.Fallback, report.Refused, report.LimitsGap, report.LearnFault,
		report.NoLeaseJob} {
		if gap != "" {
			s.Gaps = append(s.Gaps, gap)
		}
	}
	return s
}
