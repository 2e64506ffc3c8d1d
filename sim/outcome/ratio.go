package outcome

import "fmt"

// Proportional is the allocator that the others are compared with, in every engine.
const Proportional = "proportional"

// The policies of what is no schedule of a planner's: a log's own starts and ends, and Slurm alone.
const (
	AsItWas  = "as-it-was"
	Backfill = "backfill"
)

// IsBaseline says that a run is one that schedules of any policy are laid beside.
func (s Setting) IsBaseline() bool { return s.Policy == AsItWas || s.Policy == Backfill }

// Ratio says how many times shorter times are than with proportional shares: theirs over these.
type Ratio struct {
	Mean     float64 `json:"mean"`
	Median   float64 `json:"median"`
	P90      float64 `json:"p90"`
	P99      float64 `json:"p99"`
	P999     float64 `json:"p999"`
	Makespan float64 `json:"makespan"`
}

// Ratio compares a run with another one of the same jobs. Jobs that have not finished in one of them make it an error:
// what is left out would be the slow ones.
func (s Summary) Ratio(base Summary) (Ratio, error) {
	if s.Jobs != base.Jobs || s.Unfinished > 0 || base.Unfinished > 0 {
		return Ratio{},
			fmt.Errorf(
				"%d of %d jobs finished, and %d of %d with proportional shares: want the same jobs, and all of them",
				s.Finished, s.Jobs, base.Finished, base.Jobs)
	}
	mine, theirs := s.Completion, base.Completion
	return Ratio{
		theirs.Mean / mine.Mean, theirs.Median / mine.Median, theirs.P90 / mine.P90, theirs.P99 / mine.P99,
		theirs.P999 / mine.P999,
		base.Makespan / s.Makespan,
	}, nil
}

// baseline is the setting with proportional shares, the same otherwise.
func (s Setting) baseline() Setting {
	s.Allocator = Proportional
	return s
}
