package workload

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// keptEntry is an entry of the log that becomes a job, with what the options have changed.
type keptEntry struct {
	user    string
	gpus    int
	arrival float64 // seconds
	seconds float64 // duration
	told    trace.Told
}

// told returns what else the log says about the job.
func told(e *trace.Entry) trace.Told {
	if e.Told == nil {
		return trace.Told{}
	}
	return *e.Told
}

// filterEntries keeps the entries that become jobs, in their order, and counts the others by reason, in the order in
// which reasons first occur, so that the user sees what is missing.
func (o *FromLog) filterEntries(entries []trace.Entry) (kept []keptEntry, dropped []trace.Dropped) {
	var counts tally
	for i := range entries {
		e := &entries[i]
		gpus, why := o.fitGPUs(e.GPUs)
		if why == "" {
			why = o.dropReason(e)
		}
		if why == "" && o.Jobs > 0 && len(kept) == o.Jobs {
			why = fmt.Sprintf("behind the first %d that would be kept", o.Jobs)
		}
		if why != "" {
			counts.add(why)
			continue
		}
		kept = append(kept, keptEntry{e.User, gpus, e.Submitted, e.Duration, told(e)})
	}
	return kept, counts
}

// tally counts jobs by reason.
type tally []trace.Dropped

// add counts one job with this reason.
func (t *tally) add(why string) {
	for i := range *t {
		if (*t)[i].Why == why {
			(*t)[i].Count++
			return
		}
	}
	*t = append(*t, trace.Dropped{Why: why, Count: 1})
}

// fitGPUs returns the number of GPUs that a job gets. If the job is dropped, why is the reason, and otherwise empty.
func (o *FromLog) fitGPUs(gpus int) (fitted int, why string) {
	switch most := o.GPUs.maxCount(); {
	case gpus < 1:
		return 0, "fewer than one GPU"
	case gpus > most:
		return 0, moreThan(most)
	}
	fitted = o.GPUs.apply(gpus)
	switch {
	case fitted == 0:
		return 0, "neither 1, 2, 4, 8 nor 16 GPUs"
	case o.Limit > 0 && fitted > o.Limit:
		return 0, moreThan(o.Limit)
	}
	return fitted, ""
}

func moreThan(gpus int) string { return fmt.Sprintf("more than %d GPUs", gpus) }

// maxCount is the largest number of GPUs to which the rule applies; jobs with more are dropped.
func (m LogMix) maxCount() int {
	if m == Powers || m == PowersOrOne {
		return 16
	}
	return mostGPUs
}

// apply is the number of GPUs that the rule makes of a number from 1 to maxCount. It is 0 if the job is dropped.
func (m LogMix) apply(gpus int) int {
	floor := 1 << (bits.Len(uint(gpus)) - 1)
	exact := gpus == floor
	switch {
	case m == EachOne, m == PowersOrOne && !exact:
		return 1
	case m == Powers && !exact:
		return 0
	case m == RoundDown:
		return floor
	case m == RoundUp && !exact:
		return 2 * floor
	}
	return gpus
}

// maxSubmission bounds a submission time, in seconds since the first one in the log: three thousand years.
const maxSubmission = 1e11

// dropReason is why an entry does not become a job, apart from its GPUs. It is empty if the entry does become one.
func (o *FromLog) dropReason(e *trace.Entry) string {
	switch {
	case !inRange(e.Submitted, -maxSubmission, maxSubmission):
		return "submitted at no moment that a calendar has"
	case !(e.Duration > 0):
		return "ran for no time"
	case e.Duration > maxDuration:
		return "ran for more than ten years"
	case e.Duration <= o.Keep.Above:
		return "ran for " + hours(o.Keep.Above) + " or less"
	case o.Keep.Below > 0 && e.Duration >= o.Keep.Below:
		return "ran for " + hours(o.Keep.Below) + " or more"
	case e.Submitted < o.From:
		return "submitted before " + hours(o.From)
	case o.To > 0 && e.Submitted >= o.To:
		return "submitted at " + hours(o.To) + " or later"
	}
	return ""
}

// hours formats seconds in hours.
func hours(seconds float64) string {
	return strconv.FormatFloat(math.Round(seconds/3.6)/1000, 'f', -1, 64) + " h"
}
