package ask

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// Queue asks which jobs wait, and for what.
type Queue struct {
	Source
	User, Partition string // empty: all
	Most            int    // how many jobs are listed; 0: all
	JSON            bool
}

// queueAnswer is the answer.
type queueAnswer struct {
	Round  int       `json:"round"`
	Began  time.Time `json:"began"`
	Shadow bool      `json:"shadow"`
	// Waiting and Reasons count all jobs, whichever are listed.
	Waiting int             `json:"waiting"`
	Reasons []story.Reasons `json:"reasons"`
	Jobs    []story.Waiting `json:"jobs"`

	most int
}

// Run writes the queue after the last round. The counts are of all jobs, and the list has only those that were asked
// for.
func (o *Queue) Run(ctx context.Context, out io.Writer, now time.Time) error {
	if o.Most < 0 {
		return fmt.Errorf("--most %d: want a number of jobs, or 0 for all", o.Most)
	}
	report, err := o.Latest(ctx)
	if err != nil {
		return err
	}
	all := story.Queue(&report)
	a := queueAnswer{Round: report.Round, Began: report.Began, Shadow: report.Shadow, Waiting: len(all),
		Reasons: story.ReasonsOf(all), Jobs: o.selectedJobs(all), most: o.Most}
	// The text is cut by its table, which counts the rows that are left out.
	if o.JSON && o.Most > 0 {
		a.Jobs = a.Jobs[:min(o.Most, len(a.Jobs))]
	}
	return write(out, &a, o.JSON, now)
}

// selectedJobs are the jobs of the user and the partition that were asked for. A waiting job may name several
// partitions, and one of them is enough. The list is a copy, since Run counts all jobs of the queue, and is never nil,
// so that it is [] in JSON.
func (o *Queue) selectedJobs(all []story.Waiting) []story.Waiting {
	return slices.DeleteFunc(append([]story.Waiting{}, all...), func(w story.Waiting) bool {
		return o.User != "" && w.User != o.User ||
			o.Partition != "" && !slices.Contains(strings.Split(w.Partition, ","), o.Partition)
	})
}

// show writes how many jobs wait for what, and a row for each job that was asked for. It has the column STARTS only if
// the daemon forecasts starts.
func (q *queueAnswer) show(t *Text, now time.Time) {
	text := "no job waits"
	if q.Waiting > 0 {
		text = waitingText(q.Waiting) + ": " + reasonsText(q.Reasons)
	}
	t.Say(0, text+"; "+AsOf(q.Round, q.Began, now, q.Shadow))
	if len(q.Jobs) == 0 {
		if q.Waiting > 0 {
			t.Say(0, "none of them was asked for")
		}
		return
	}
	t.Blank()
	head := []string{"PLACE", "JOB", "USER", "PARTITION", "GPUS", "SINCE", "REASON", "NAME", "WHY"}
	estimated := slices.ContainsFunc(q.Jobs, func(w story.Waiting) bool { return w.Starts != nil })
	const starts = 6 // the index of its column
	if estimated {
		head = slices.Insert(head, starts, "STARTS")
	}
	rows := [][]string{head}
	for i := range q.Jobs {
		w := &q.Jobs[i]
		row := []string{orDash(w.Place), strconv.Itoa(w.Job), Cell(w.User, LongestName),
			Cell(
				w.Partition,
				LongestName,
			), orDash(w.GPUs), agoOrDash(w.Since, now), reasonText(w), Cell(w.Name, LongestName),
			Cell(w.Why, LongestSentence)}
		if estimated {
			row = slices.Insert(row, starts, startText(w.Starts))
		}
		rows = append(rows, row)
	}
	t.Table(rows, q.most)
}

// waitingText says how many jobs wait.
func waitingText(n int) string {
	if n == 1 {
		return "1 job waits"
	}
	return fmt.Sprintf("%d jobs wait", n)
}

// reasonsText are how many jobs wait for what.
func reasonsText(all []story.Reasons) string {
	var parts []string
	for _, r := range all {
		parts = append(parts, fmt.Sprintf("%d %s", r.Jobs, Cell(string(r.Reason), LongestName)))
	}
	return strings.Join(parts, ", ")
}

// startText is about when a job starts (the median), and by when with a chance of 90 %. A moment after the end of the
// forecast is zero, and is "later". Without a forecast (nil) the text is a dash.
func startText(s *forecast.Spread) string {
	const form = "01-02 15:04"
	switch {
	case s == nil:
		return "-"
	case s.P50.IsZero():
		return "later"
	case s.P90.IsZero():
		return s.P50.Local().Format(form) + " or later"
	}
	return s.P50.Local().Format(form) + ", by " + s.P90.Local().Format(form)
}

// reasonText is a job's reason and cause, in the words of the metrics. The cause of a held job is left out, since it
// says the same as its reason. "next" is added to a job that is eligible in Slurm with its planned size: Slurm starts
// it as soon as there is room.
func reasonText(w *story.Waiting) string {
	text := Cell(string(w.Reason), LongestName)
	if w.Cause != "" && w.Reason != bridge.OnHold {
		text += "/" + Cell(string(w.Cause), LongestName)
	}
	if w.Armed {
		text += " (next)"
	}
	return text
}
