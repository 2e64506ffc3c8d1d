package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/cli"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// profileCommand is synergy profile, which measures, with its subcommands, which work on profiles.
func profileCommand() *cobra.Command {
	var o localOptions
	command := &cobra.Command{
		Use:   "profile [options] -- COMMAND…",
		Short: "measure how fast a model trains with how many cores, and what is in profiles",
		Long: `synergy profile measures how fast a model trains with how many cores, in as few trials as it takes, and writes the profile
that jobs name in their comment (docs/profile-format.md).

It submits one job with the most cores that are to be tried, under your own name. In there COMMAND is started once for each trial with fewer or more
of these cores, its iterations are counted, and what to try next is decided from what was seen: about five minutes of one GPU. The folder
that you are in has to be one that the nodes see. With --local it measures on this machine, without a job.

It may be interrupted, which cancels the job; said again, the same command goes on where it was.

The number of iterations comes from the first of these that there is: a progress file (--progress; SYNERGY_PROGRESS names one to the
trainer), a pattern in what the trainer prints (--pattern), or a file that it writes (--watch).
docs/profiling.md begins with five minutes to a first profile.

The exit status is 0, 1 where the trainer could not be measured, and 2 for a wrong command line or file.`,
		Example: `  synergy profile --batch 256 --plot res50 -o res50.json -- ./train.sh
  synergy profile --gpus 2 --cores 2-32 --partition gpu --sbatch '--account=ml' --checkpoint USR1@60 -- ./train.sh
  synergy profile --local --pattern tqdm --batch 256 --gpu-type h100 -- python train.py
  synergy profile --local --gpus 2 --cores 2-32 --memory 125 --node 8/64/1000 -o res50.json -- ./train.sh
  synergy profile show --node 8/24/500 res50.json
  synergy profile plot --out res50.png res50.json
  synergy profile check /etc/synergy/profiles/*.json
  synergy profile merge --out res50.json monday.json tuesday.json
  synergy profile compare monday.json tuesday.json
  synergy profile replay curves.json        what the estimator would have asked of recorded curves`,
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			// A word that is not behind -- is meant as a subcommand.
			if c.ArgsLenAtDash() != 0 && len(args) > 0 {
				return cli.Unknown(c, args[0])
			}
			return o.run(c, args)
		},
	}
	setGroups(command, o.groups()...)
	command.AddCommand(replayCommand(), listCommand(), showCommand(), plotCommand(), checkCommand(), mergeCommand(),
		compareCommand(),
		insideCommand())
	return command
}

// nodeFlag is a flag that describes a node: GPUs/cores/GB.
type nodeFlag struct{ gres.Vector }

// String is shown as the default in the help.
func (n *nodeFlag) String() string {
	if n.GPUs == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d/%g", n.GPUs, n.CPUs, float64(n.Memory)/float64(gres.Gigabyte))
}

// Set reads 8/24/500.
func (n *nodeFlag) Set(text string) error {
	words := strings.Split(text, "/")
	wrong := fmt.Errorf("%.40q: want GPUs/cores/GB of a node, as 8/24/500", text)
	if len(words) != 3 {
		return wrong
	}
	numbers, err := parsePositive(words...)
	if err != nil || numbers[0] != float64(int(numbers[0])) || numbers[1] != float64(int(numbers[1])) ||
		numbers[1] < numbers[0] {
		return wrong
	}
	n.Vector = gres.Vector{GPUs: int(numbers[0]), CPUs: int(numbers[1]),
		Memory: gres.Memory(numbers[2] * float64(gres.Gigabyte))}
	return nil
}

// Type is the type's name in the help.
func (n *nodeFlag) Type() string { return "GPUs/cores/GB" }

// paperNode is the paper's node.
func paperNode() nodeFlag {
	return nodeFlag{gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}}
}

// profileFile is a profile with the file that it is from.
type profileFile struct {
	path string
	*sensitivity.Profile
}

// readProfiles reads and checks profiles. The error names the file.
func readProfiles(paths []string) (all []profileFile, err error) {
	for _, path := range paths {
		text, err := readFile(path)
		if err != nil {
			return nil, err
		}
		p, err := sensitivity.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, profileFile{path, p})
	}
	return all, nil
}

// checkGPUs checks that a job of so many GPUs fits on the node for which a profile's worth is said.
func checkGPUs(gpus int, node gres.Vector) error {
	if gpus < 1 || gpus > node.GPUs {
		return fmt.Errorf("--gpus %d: want 1 to %d, which the node of --node has", gpus, node.GPUs)
	}
	return nil
}

// rateText prints a rate with as many digits as a measurement has.
func rateText(x float64) string {
	switch {
	case x >= 1000:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// checkCommand is synergy profile check: its help and its flags. A file that is no profile does not end it, so that all
// are checked, but makes it fail at the end.
func checkCommand() *cobra.Command {
	command := &cobra.Command{
		Use:     "check FILE…",
		Short:   "say whether files are profiles, and what is wrong with those that are not",
		Example: "  synergy profile check /etc/synergy/profiles/*.json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, paths []string) error {
			wrong := 0
			for _, path := range paths {
				all, err := readProfiles([]string{path})
				if err != nil {
					wrong++
					fmt.Fprintln(c.OutOrStdout(), err)
					continue
				}
				fmt.Fprintf(c.OutOrStdout(), "%s: good: %s\n", path, profileSummary(all[0]))
			}
			if wrong > 0 {
				return failed{fmt.Errorf("%d of %d files are no profiles", wrong, len(paths))}
			}
			return nil
		},
	}
	setGroups(command)
	return command
}

// profileSummary is a profile in a line, with what would improve it. A profile promises nothing below the fewest cores
// that were measured.
func profileSummary(p profileFile) string {
	text := fmt.Sprintf("%s on %s, %d × %d sizes", p.Model, p.GPUType, len(p.CoresPerGPU), len(p.MemoryPerGPU))
	if p.Source == "" {
		text += "; without a source nobody will know what it is worth"
	}
	if last := len(p.CoresPerGPU) - 1; last > 0 && len(p.MemoryPerGPU) > 0 && p.CoresPerGPU[0] > 1 {
		text += fmt.Sprintf("; below %g cores it promises nothing", p.CoresPerGPU[0])
	}
	return text
}

// mergeCommand is synergy profile merge: its help and its flags.
func mergeCommand() *cobra.Command {
	var out string
	command := &cobra.Command{
		Use:   "merge --out FILE FILE FILE…",
		Short: "put profiles of one model, GPU and batch together",
		Long: `synergy profile merge writes one profile with all sizes that any of the files has. A size that several have measured gets their
mean; where they differ by more than 10 % that is said.`,
		Example: "  synergy profile merge --out res50.json monday.json tuesday.json",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, paths []string) error {
			return mergeProfiles(paths, out, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	output := newGroup("Output")
	output.flags.StringVarP(&out, "out", "o", stdioName, "the profile's `file`; - for the standard output")
	setGroups(command, output)
	return command
}

// mergeProfiles writes a profile with all sizes of the profiles, and prints where they disagree. The merged text is
// parsed before it is written, since jobs will name the profile.
func mergeProfiles(paths []string, out string, stdout, stderr io.Writer) error {
	all, err := readProfiles(paths)
	if err != nil {
		return err
	}
	var profiles []*sensitivity.Profile
	for _, p := range all {
		profiles = append(profiles, p.Profile)
	}
	merged, disagreements, err := sensitivity.Merge(profiles)
	if err != nil {
		return err
	}
	for _, d := range disagreements {
		fmt.Fprintf(stderr, "synergy: with %g cores and %g GB a GPU they say %s to %s samples/s\n",
			d.Share.Cores, d.Share.Memory/float64(gres.Gigabyte), rateText(d.Low), rateText(d.High))
	}
	text, err := merged.Print()
	if err == nil {
		_, err = sensitivity.Parse(text)
	}
	if err != nil {
		return errors.Join(errors.New("the merged profile is wrong"), err)
	}
	return save("out", out, stdout, func(w io.Writer) error { return writeAll(w, text) })
}

func writeAll(w io.Writer, text []byte) error {
	_, err := w.Write(text)
	return err
}
