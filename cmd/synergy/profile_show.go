package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// showOptions are the node and the job for which profiles are shown.
type showOptions struct {
	node nodeFlag
	gpus int
}

// group defines the options of the node and the job.
func (o *showOptions) group() group {
	o.node = paperNode()
	where := newGroup("Where")
	where.flags.Var(&o.node, "node", "the node that it is reckoned for")
	where.flags.IntVar(&o.gpus, "gpus", 1, "`GPUs` of the job")
	return where
}

// read reads profiles, and checks that the job fits on the node.
func (o *showOptions) read(paths []string) ([]profileFile, error) {
	if err := checkGPUs(o.gpus, o.node.Vector); err != nil {
		return nil, err
	}
	return readProfiles(paths)
}

// showCommand is synergy profile show: its help and its flags.
func showCommand() *cobra.Command {
	var o showOptions
	command := &cobra.Command{
		Use:     "show FILE…",
		Short:   "say what profiles say, and what it is worth on a node",
		Example: "  synergy profile show --node 8/64/1000 --gpus 2 res50.json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, paths []string) error {
			all, err := o.read(paths)
			if err != nil {
				return err
			}
			for _, p := range all {
				if err := o.show(c.OutOrStdout(), p); err != nil {
					return failed{err}
				}
			}
			return nil
		},
	}
	setGroups(command, o.group())
	return command
}

// show prints a profile: its facts, its table of rates, and what it is worth on the node.
func (o *showOptions) show(w io.Writer, p profileFile) error {
	fmt.Fprintf(w, "%s: %s, %s, on %s, batch %d\n", p.path, p.Model, p.Task, p.GPUType, p.Batch)
	if p.Source != "" {
		fmt.Fprintf(w, "  source: %s\n", p.Source)
	}
	fmt.Fprintf(w, "  a restart costs %g s: %g to save, %g to start\n", p.CheckpointSeconds+p.StartSeconds,
		p.CheckpointSeconds, p.StartSeconds)
	if p.GPUBusy > 0 {
		fmt.Fprintf(w, "  it keeps a GPU of its own busy for %g %% of the time\n", math.Round(1000*p.GPUBusy)/10)
	}
	if p.GPUMemory > 0 {
		fmt.Fprintf(w, "  it needs %s of each GPU's memory\n", gibibytes(int64(p.GPUMemory)))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "cores a GPU\t")
	for _, memory := range p.MemoryPerGPU {
		fmt.Fprintf(t, "%g GB\t", float64(memory)/float64(gres.Gigabyte))
	}
	fmt.Fprintln(t)
	for i, cores := range p.CoresPerGPU {
		fmt.Fprintf(t, "%g\t", cores)
		for _, rate := range p.Throughput[i] {
			fmt.Fprintf(t, "%s\t", rateText(rate))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, o.worthText(p.Profile))
	return err
}

// worthText is what a profile promises on the node, in words.
func (o *showOptions) worthText(p *sensitivity.Profile) string { return o.worthWithRemark(p, "") }

// worthWithRemark is worthText with a remark behind the node's memory (many), such as how many of these nodes there
// are. The remark may be empty.
func (o *showOptions) worthWithRemark(p *sensitivity.Profile, many string) string {
	node, gpus := o.node.Vector, o.gpus
	worth := profiler.On(p, node, gpus)
	return fmt.Sprintf(
		"  on a node of %s and %s%s a job of %s:\n  share %s; full speed with %s: %.2f × the share's\n  %s\n",
		countText(node.GPUs, "GPU")+", "+countText(node.CPUs, "core"), gigabytes(node.Memory), many, countText(gpus,
			"GPU"), sizeText(worth.Fair), sizeText(worth.Most.Size),
		worth.Most.Gain, worth)
}

func sizeText(v gres.Vector) string {
	return fmt.Sprintf("%s and %g GB", countText(v.CPUs, "core"), float64(v.Memory)/float64(gres.Gigabyte))
}

// countText is a number of things in words.
func countText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// compareCommand is synergy profile compare: its help and its flags.
func compareCommand() *cobra.Command {
	var o showOptions
	command := &cobra.Command{
		Use:   "compare FILE FILE…",
		Short: "say where profiles differ, and whether that changes what jobs are given",
		Long: `synergy profile compare shows the samples a second of several profiles side by side, with the first one's memory at its largest, and how
far the others are off the first; and what each would have a job given on a node.`,
		Example: "  synergy profile compare --node 8/24/500 monday.json tuesday.json",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, paths []string) error {
			all, err := o.read(paths)
			if err != nil {
				return err
			}
			return asFailed(o.compare(c.OutOrStdout(), all))
		},
	}
	setGroups(command, o.group())
	return command
}

// compare prints the rates of all profiles side by side, with their differences from the first in percent. Above them
// it says in what the profiles differ so that the rates are not comparable.
func (o *showOptions) compare(w io.Writer, all []profileFile) error {
	for _, p := range all[1:] {
		for _, d := range differences(all[0].Profile, p.Profile) {
			fmt.Fprintf(w, "%s: %s\n", p.path, d)
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	heads := []string{"cores a GPU"}
	for _, p := range all {
		heads = append(heads, p.path)
	}
	fmt.Fprintln(t, strings.Join(heads, "\t")+"\t")
	for _, cores := range allCores(all) {
		fmt.Fprintf(t, "%g\t", cores)
		first := 0.0
		for i, p := range all {
			rate := p.Rate(sensitivity.Share{Cores: cores, Memory: float64(p.MemoryPerGPU[len(p.MemoryPerGPU)-1])})
			if i == 0 {
				first = rate
				fmt.Fprintf(t, "%s\t", rateText(rate))
				continue
			}
			fmt.Fprintf(t, "%s (%+.0f %%)\t", rateText(rate), 100*(rate/first-1))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, p := range all {
		if _, err := fmt.Fprintf(w, "%s: %s\n", p.path, profiler.On(p.Profile, o.node.Vector, o.gpus)); err != nil {
			return err
		}
	}
	return nil
}

// differences are the fields that make the figures of two profiles incomparable.
func differences(a, b *sensitivity.Profile) (all []string) {
	for _, f := range []struct{ name, a, b string }{
		{"model", a.Model, b.Model}, {"gpu_type", a.GPUType, b.GPUType},
		{"batch", fmt.Sprint(a.Batch), fmt.Sprint(b.Batch)},
	} {
		if f.a != f.b {
			all = append(all, fmt.Sprintf("%s is %s, and %s in the first", f.name, f.b, f.a))
		}
	}
	return all
}

// allCores is every number of cores a GPU that any of the profiles has, ascending: the rows of compare.
func allCores(all []profileFile) (cores []float64) {
	for _, p := range all {
		cores = append(cores, p.CoresPerGPU...)
	}
	slices.Sort(cores)
	return slices.Compact(cores)
}
