package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	chronicle
	json bool
}

func explainCommand() *cobra.Command {
	var o explainOptions
	command := &cobra.Command{
		Use:   "explain [flags] JOB",
		Short: "tell a job's story: for what it waited, what it was given and why, what was done to it",
		Long: `explain tells what became of a job, in order, today or last month: for what it waited and how many
jobs go before it, where it was started with how much and why, how fast it ran, for whom it gave way. It goes back as far as the
daemon's history, or the last rounds where the site keeps none. It asks the daemon; where that is down it reads the
folder of the history, or the daemon's ledger, which takes the daemon's user or root. Nothing is changed by any.`,
		Example: `  synergy explain 4711
  synergy explain --daemon http://ctl1:9817 --json 4711
  sudo -u synergy synergy explain --history /var/lib/synergy/history 4711
  sudo -u synergy synergy explain --ledger /var/lib/synergy/ledger 4711`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), args[0])
		},
	}
	where, out := newGroup("Where rounds are read"), newGroup("Output")
	o.define(where)
	out.flags.BoolVar(&o.json, "json", false, "the story for programs")
	grouped(command, where, out)
	return command
}

func (o *explainOptions) run(ctx context.Context, out, notes io.Writer, name string) error {
	job, err := jobNumber(name)
	if err != nil {
		return err
	}
	told, over, err := o.story(ctx, notes, job)
	if err != nil {
		return err
	}
	if !told.Known && len(told.Notes) == 0 && len(told.Events) == 0 {
		return failed{fmt.Errorf("job %d: none of the %s knows it: it is none of ours, or was over before them", job,
			over)}
	}
	if o.json {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(told)
	}
	narrate(out, told)
	return nil
}

// narrate prints a story for people. Any part of it may contain words of users or of Slurm, so each line is made
// printable.
func narrate(out io.Writer, s story.Story) {
	line := func(text string) { fmt.Fprintln(out, printable.Line(text, longestLine)) }
	more := func(text string) { fmt.Fprintln(out, "  "+printable.Line(text, longestLine)) }
	line(fmt.Sprintf("job %d%s", s.Job, who(s)))
	if s.Known {
		submitted := ""
		if !s.Submitted.IsZero() {
			submitted = "submitted " + clockTime(s.Submitted) + ", "
		}
		more(fmt.Sprintf("%srestarted %d times, %.1f GPU-hours so far", submitted, s.Restarts, s.GPUTime/3600))
		more(fmt.Sprintf("round %d: %s", s.Round, s.Now))
	}
	if w := s.Wait; w != nil {
		more(fmt.Sprintf("it waits, reason %s, cause %s%s", w.Reason, w.Cause, ahead(", ", s.Ahead, s.Next)))
		if w.Reason == bridge.Misconfigured {
			more("no room that comes free helps it: change the request, or ask the administrator")
		}
	}
	if n := len(s.Runs); n > 0 && s.Runs[n-1].Ended.IsZero() && s.Runs[n-1].Ran > 0 {
		more("it trains at " + speedOf(&s.Runs[n-1]))
	}
	for _, note := range s.Notes {
		more("note: " + note)
	}
	for _, e := range s.Events {
		text := fmt.Sprintf("%s %s: %s", clockTime(e.At), roundOf(e), e.What)
		if e.Error != "" {
			text += " - failed: " + e.Error
		}
		line(text)
	}
}

// roundOf names the round of an event. A small round has the number of the round before it.
func roundOf(e story.Event) string {
	if e.Small {
		return fmt.Sprintf("after round %d", e.Round)
	}
	return fmt.Sprintf("round %d", e.Round)
}

// speedOf is the speed that a run reported, and the speed of its profile.
func speedOf(r *story.Run) string {
	text := fmt.Sprintf("%.3g iterations/s by its own reports", r.Ran)
	if r.Claimed > 0 {
		text += fmt.Sprintf(", %.3g by its profile", r.Claimed)
	}
	return text
}

func who(s story.Story) string {
	if !s.Known {
		return ""
	}
	profile := "no profile"
	if s.Profile != "" {
		profile = "profile " + s.Profile
	}
	return fmt.Sprintf(" %q of %s: %d GPUs, %s", strings.TrimSpace(s.Name), s.User, s.GPUs, profile)
}

// ahead says which jobs go before a waiting one; empty: none do.
func ahead(joint string, n int, next []int) string {
	names := ""
	for _, job := range next {
		names += fmt.Sprintf(", %d", job)
	}
	if more := n - len(next); len(next) > 0 && more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	names = strings.TrimPrefix(names, ", ")
	switch {
	case n == 0:
		return ""
	case names == "": // an older daemon sends no job numbers
		return fmt.Sprintf("%sjobs that go before it: %d", joint, n)
	case n == 1:
		return joint + "one job that waits for room goes before it: " + names
	}
	return fmt.Sprintf("%s%d jobs that wait for room go before it: %s", joint, n, names)
}

func clockTime(at time.Time) string { return at.Local().Format("2006-01-02 15:04:05") }
