package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// queueOptions are the flags of queue.
type queueOptions struct {
	source
	user, partition string
	most            int
	json            bool
}

func queueCommand() *cobra.Command {
	var o queueOptions
	command := &cobra.Command{
		Use:   "queue [flags]",
		Short: "who waits, in the order of the plan, and for what",
		Long: `queue lists the jobs that wait when the last round has ended: first those that the round starts,
then the others in the order in which the policy has them, then those that have no place in it, such
as held ones. Each has one reason, the first that binds; synergy why-not tells more of it. It asks
the daemon, or reads the ledger of one that is down.`,
		Example: `  synergy queue
  synergy queue --user alice
  synergy queue --partition gpu --json | jq '.jobs[] | select(.reason == "configuration")'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout(), time.Now()) },
	}
	where, which, out := newGroup("Where rounds are read"), newGroup("Which jobs"), newGroup("Output")
	o.define(where)
	which.give(&o.user, "user", "", "those of this `user` alone")
	which.give(&o.partition, "partition", "", "those that may start in this `partition` alone")
	which.flags.IntVar(&o.most, "most", 0, "no more than so many `jobs` (default: all)")
	out.flags.BoolVar(&o.json, "json", false, "the queue for programs")
	grouped(command, where, which, out)
	return command
}

// queued is the queue as JSON.
type queued struct {
	Round  int       `json:"round"`
	Began  time.Time `json:"began"`
	Shadow bool      `json:"shadow"`
	// Waiting and Reasons count all jobs, whichever are listed.
	Waiting int             `json:"waiting"`
	Reasons []story.Reasons `json:"reasons"`
	Jobs    []story.Waiting `json:"jobs"`
}

func (o *queueOptions) run(ctx context.Context, out io.Writer, now time.Time) error {
	if o.most < 0 {
		return fmt.Errorf("--most %d: want a number of jobs, or 0 for all", o.most)
	}
	report, err := o.latest(ctx)
	if err != nil {
		return err
	}
	all := story.Queue(&report)
	answer := queued{Round: report.Round, Began: report.Began, Shadow: report.Shadow, Waiting: len(all),
		Reasons: story.ReasonsOf(all), Jobs: o.chosen(all)}
	if o.json {
		if o.most > 0 {
			answer.Jobs = answer.Jobs[:min(o.most, len(answer.Jobs))]
		}
		return asJSON(out, answer)
	}
	s := screenOf(out)
	o.show(s, &answer, now)
	return done(s.err)
}

// chosen are the jobs that were asked for.
func (o *queueOptions) chosen(all []story.Waiting) []story.Waiting {
	return slices.DeleteFunc(append([]story.Waiting{}, all...), func(w story.Waiting) bool {
		return o.user != "" && w.User != o.user ||
			o.partition != "" && !slices.Contains(strings.Split(w.Partition, ","), o.partition)
	})
}

func (o *queueOptions) show(s *screen, q *queued, now time.Time) {
	text := "no job waits"
	if q.Waiting > 0 {
		text = waiting(q.Waiting) + ": " + reasons(q.Reasons)
	}
	s.say(0, text+"; "+asOf(q.Round, q.Began, now, q.Shadow))
	if len(q.Jobs) == 0 {
		if q.Waiting > 0 {
			s.say(0, "none of them was asked for")
		}
		return
	}
	s.write("\n")
	head := []string{"PLACE", "JOB", "USER", "PARTITION", "GPUS", "SINCE", "REASON", "NAME", "WHY"}
	estimated := slices.ContainsFunc(q.Jobs, func(w story.Waiting) bool { return w.Starts != nil })
	const starts = 6 // the index of its column
	if estimated {
		head = slices.Insert(head, starts, "STARTS")
	}
	rows := [][]string{head}
	for i := range q.Jobs {
		w := &q.Jobs[i]
		row := []string{orDash(w.Place), strconv.Itoa(w.Job), cell(w.User, longestName),
			cell(w.Partition, longestName), orDash(w.GPUs), since(w.Since, now), reasonOf(w), cell(w.Name, longestName),
			cell(w.Why, longestSentence)}
		if estimated {
			row = slices.Insert(row, starts, expected(w.Starts))
		}
		rows = append(rows, row)
	}
	s.table(rows, o.most)
}

func waiting(n int) string {
	if n == 1 {
		return "1 job waits"
	}
	return fmt.Sprintf("%d jobs wait", n)
}

func reasons(all []story.Reasons) string {
	var parts []string
	for _, r := range all {
		parts = append(parts, fmt.Sprintf("%d %s", r.Jobs, cell(string(r.Reason), longestName)))
	}
	return strings.Join(parts, ", ")
}

// expected is about when a job starts (the median), and by when with a chance of 90 %.
func expected(s *forecast.Spread) string {
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

// reasonOf is a job's reason and cause, in the words of the metrics. "next": the job is armed, so Slurm starts it as
// soon as there is room.
func reasonOf(w *story.Waiting) string {
	text := cell(string(w.Reason), longestName)
	if w.Cause != "" && w.Reason != bridge.OnHold {
		text += "/" + cell(string(w.Cause), longestName)
	}
	if w.Armed {
		text += " (next)"
	}
	return text
}
