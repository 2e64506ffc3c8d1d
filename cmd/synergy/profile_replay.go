package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler/replay"
)

// replayCommand is synergy profile replay, which tests the estimator of synergy profile on recorded curves.
func replayCommand() *cobra.Command {
	var asJSON string
	command := &cobra.Command{
		Use:   "replay [--json] FILE",
		Short: "run the estimator over recorded curves, and say how far off it is",
		Long: `synergy profile replay runs the estimator over recorded curves: it may ask for the points that were recorded, and gets them as they
were, with all their scatter. For each model it prints what it asked for, and how far what it made of that is off the isotonic fit of
the whole record (the nearest curve that never falls), over the recorded points: the mean, the 90th percentile and the worst.

FILE is {"models": [{"model": "resnet50", "points": [{"cores": 1, "samples_per_s": 216.1}, …], "gpu_bound_samples_per_s": 3979.5}, …]};
the bound, what the GPUs do with their data at hand, may be left out, and other fields are left alone. - is the standard input.`,
		Example: "  synergy profile replay curves.json\n  synergy profile replay --json curves.json | jq " +
			".models[].mean_error_pct",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := readFile(args[0])
			if err != nil {
				return err
			}
			models, err := replay.Parse(text)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			said := replayAll(models)
			if asJSON == "" {
				return asFailed(said.table(c.OutOrStdout()))
			}
			return save("json", asJSON, c.OutOrStdout(), said.encode)
		},
	}
	output := newGroup("Output")
	output.flags.StringVar(&asJSON, "json", "", "write JSON in place of the table, or with --json=FILE to a `file`")
	output.flags.Lookup("json").NoOptDefVal = stdioName
	setGroups(command, output)
	return command
}

// replayed is the result as JSON.
type replayed struct {
	Models []replayedModel `json:"models"`
	misses
}

// replayedModel is the result for one model.
type replayedModel struct {
	Model  string `json:"model"`
	Points int    `json:"points"` // that it asked for
	Asked  []int  `json:"cores"`  // in the order in which it asked
	Stop   string `json:"stopped_because"`
	misses
}

// misses are the errors over the recorded points, in %.
type misses struct {
	Mean  float64 `json:"mean_error_pct"`
	P90   float64 `json:"p90_error_pct"`
	Worst float64 `json:"worst_error_pct"`
}

func missesOf(all []float64) misses {
	return misses{replay.Mean(all), replay.Quantile(all, .9), replay.Quantile(all, 1)}
}

// replayAll runs the estimator over each model. The errors of all are over all their points, so a model with more
// points weighs more.
func replayAll(models []replay.Model) replayed {
	var said replayed
	var all []float64
	for _, m := range models {
		o := replay.Of(m)
		one := replayedModel{Model: m.Name, Points: len(o.Trials), Stop: string(o.Stop), misses: missesOf(o.Errors)}
		for _, t := range o.Trials {
			one.Asked = append(one.Asked, t.Cores)
		}
		said.Models = append(said.Models, one)
		all = append(all, o.Errors...)
	}
	said.misses = missesOf(all)
	return said
}

// encode writes the result as JSON.
func (r replayed) encode(w io.Writer) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeAll(w, append(text, '\n'))
}

// table writes the result as a line for each model, and one for all if there are several.
func (r replayed) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "model\tasked for, cores\tpoints\tmean error\tp90\tworst\tstopped because")
	points := 0
	for _, m := range r.Models {
		points += m.Points
		asked := strings.Trim(fmt.Sprint(m.Asked), "[]")
		fmt.Fprintf(t, "%s\t%s\t%d\t%.1f %%\t%.1f %%\t%.1f %%\t%s\n", m.Model, asked, m.Points, m.Mean, m.P90, m.Worst,
			m.Stop)
	}
	if len(r.Models) > 1 {
		fmt.Fprintf(t, "all\t\t%d\t%.1f %%\t%.1f %%\t%.1f %%\t\n", points, r.Mean, r.P90, r.Worst)
	}
	return t.Flush()
}
