package bridge

import "github.com/synergy-slurmd/synergy-slurmd/policy/forecast"

// Outlook is what is known of the time to come: an estimate that somebody makes between rounds. Squeue has none: a job
// that waits under a lease shows the end of that as its start, and Slurm's field for its own estimate is that of the
// begin time.
type Outlook interface {
	// Start says when a job is expected to start, in words, too; false: nothing is known of it.
	Start(job int) (start forecast.Spread, words string, known bool)
	// Habits are how much of their time limits jobs use; nil: not learned.
	Habits() forecast.Habits
}

// expected is when a job is expected to start; nil: nobody knows.
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

// foretold is why a job waits, and when it is expected to start. It is written when the lease is renewed anyway: no
// estimate is worth an update of its own.
func foretold(o Outlook, job int, why string) string {
	if o == nil {
		return why
	}
	if _, words, known := o.Start(job); known {
		return why + "; " + words
	}
	return why
}

func habits(o Outlook) forecast.Habits {
	if o == nil {
		return nil
	}
	return o.Habits()
}
