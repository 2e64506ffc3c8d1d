package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/share/broker"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// status is the command that prints the state of the running broker.
func (f *flags) status() *cobra.Command {
	var asJSON, asMetrics bool
	c := &cobra.Command{Use: "status", Short: "who has each GPU, who waits, and what each class had",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON && asMetrics {
				return errors.New("--json and --metrics: are two ways to tell the same: want one of them")
			}
			ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
			defer cancel()
			s, err := broker.Ask(ctx, f.dir)
			if err != nil {
				return runtimeError{err}
			}
			return say(c.OutOrStdout(), s, asJSON, asMetrics)
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().BoolVar(&asMetrics, "metrics", false, "as Prometheus reads it, for the text files of node_exporter")
	return c
}

// say writes the state in the form that was asked for, else as text.
func say(to io.Writer, s wire.Status, asJSON, asMetrics bool) error {
	switch {
	case asJSON:
		return json.NewEncoder(to).Encode(s)
	case asMetrics:
		_, err := io.WriteString(to, broker.Metrics(s))
		return err
	}
	return table(to, s)
}

// table prints the state as text.
func table(to io.Writer, s wire.Status) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GPU\tJOB\tCLASS\tSTATE\tSINCE\tTURNS\tSHARE\tMEMORY\tUSER\tPID")
	for _, g := range s.GPUs {
		for _, c := range g.Clients {
			fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%.3gs\t%d\t%.0f%%\t%d MiB\t%d\t%d\n", g.GPU, c.Job,
				printable.Line(c.Class, 10), printable.Line(c.State, 10), c.Since, c.Turns, 100*c.Share, c.MemoryCap,
				c.UID, c.PID)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, g := range s.GPUs {
		if len(g.Clients) == 0 && len(g.Classes) == 0 {
			fmt.Fprintf(to, "GPU %d: nobody (%s)\n", g.GPU, printable.Line(g.Mode, 10))
		}
		if g.WhyTurns != "" {
			fmt.Fprintf(to, "GPU %d: jobs take turns: %s\n", g.GPU, printable.Line(g.WhyTurns, 300))
		}
		for _, c := range g.Clients {
			if c.IsSilent() {
				fmt.Fprintf(to, "GPU %d: job %d asks for no turns: it is stopped while others have theirs\n", g.GPU,
					c.Job)
			}
		}
		for _, class := range slices.Sorted(maps.Keys(g.Classes)) {
			h := g.Classes[class]
			fmt.Fprintf(to, "GPU %d: %s had %d turns and the GPU for %.3g s; it waited %.3g ms (p50), %.3g ms (p95)\n",
				g.GPU, printable.Line(class, 10), h.Turns, h.Held, 1000*h.WaitP50, 1000*h.WaitP95)
		}
		if g.Freezes > 0 {
			fmt.Fprintf(to, "GPU %d: %d times a job was stopped since it did not yield, %d of them reported\n", g.GPU,
				g.Freezes, g.Offences)
		}
	}
	for _, job := range s.StillFrozen {
		fmt.Fprintf(to, "job %d is stopped and should not be: %d tries in %.3g s, %s\n", job.Job, job.Tries, job.Since,
			printable.Line(job.Error, 200))
	}
	if last := s.LastStampError; last != nil {
		fmt.Fprintf(to, "jobs that could not be stamped, and take no turns: %d; the last, job %d, %.3g s ago: %s\n",
			s.StampErrors, last.Job, last.Since, printable.Line(last.Error, 300))
	}
	return nil
}
