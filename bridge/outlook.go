package bridge

import "github.com/synergy-slurmd/synergy-slurmd/policy/forecast"

// Outlook is an estimate of the future, made between rounds. Squeue has none: for a job under a lease it shows the end
// of the lease as the start, and the field for Slurm's own estimate is the one of the begin time.
type Outlook interface {
	// Start says when a job is expected to start, also in words; known is false if there is no estimate.
	Start(job int) (start forecast.Spread, words string, known bool)
	// Habits say how much of their time limits jobs use; nil: not learned.
	Habits() forecast.Habits
}

// expected is the expected start of a job, for the report; nil: there is no estimate, or no Outlook.
func expected(o Outlook, job int) *forecast.Spread {
	if o == nil {
		return nil
	}
	start, _, known := o.Start(job)
	if !known {
		return nil
	}
	return &start
}

// withExpectedStart is the reason why a job waits, followed by its expected start if that is known. The text changes
// with each estimate, so it is written only with a lease that is renewed anyway, or to a bounded number of jobs in each
// round.
func withExpectedStart(o Outlook, job int, why string) string {
	if o == nil {
		return why
	}
	if _, words, known := o.Start(job); known {
		return why + "; " + words
	}
	return why
}

// habits are those of o, for the report; nil if there is no Outlook or nothing has been learned.
func habits(o Outlook) forecast.Habits {
	if o == nil {
		return nil
	}
	return o.Habits()
}
