package outcome

import "fmt"

// Proportional is the allocator with which the others are compared, in every engine.
const Proportional = "proportional"

// The policy names of baselines: the log's own starts and ends, and Slurm alone.
const (
	AsItWas  = "as-it-was"
	Backfill = "backfill"
)

// IsBaseline says whether the run is a baseline, which is compared with schedules of any policy.
func (s Setting) IsBaseline() bool { return s.Policy == AsItWas || s.Policy == Backfill }

// Ratio says how many times shorter times are than with proportional shares: theirs divided by these.
type Ratio struct {
	Mean     float64 `json:"mean"`
	Median   float64 `json:"median"`
	P90      float64 `json:"p90"`
	P99      float64 `json:"p99"`
	P999     float64 `json:"p999"`
	Makespan float64 `json:"makespan"`
}

// Ratio compares a run with a base run of the same jobs. It is an error if a job has not finished in one of them, since
// leaving out jobs would leave out the slow ones.
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

// withProportional is the same setting with proportional shares: that of the run with which this one is compared.
func (s Setting) withProportional() Setting {
	s.Allocator = Proportional
	return s
}
