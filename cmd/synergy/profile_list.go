package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
	learnedshelf "github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned/shelf"
)

// listOptions are the flags of profile list.
type listOptions struct {
	dir, export, user, out, json string
}

// learnedDir is the folder that the shipped configuration names, in a comment.
const learnedDir = "/var/lib/synergy-slurmd/learned"

// listCommand is synergy profile list: its help and its flags.
func listCommand() *cobra.Command {
	var o listOptions
	command := &cobra.Command{
		Use:   "list [options]",
		Short: "say what the daemon has learned from jobs with synergy-profile=auto",
		Long: `synergy profile list says what was learned from whom, with how many points, how certain that is, and whether the curve still climbs where it
ends. --export makes an ordinary profile of one, which others may name: of what was measured, and nothing beyond. A batch is 1 there: an
iteration counts as a sample.`,
		Example: `  synergy profile list
  synergy profile list --user alice --export vision -o vision.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout(), c.ErrOrStderr()) },
	}
	where := newGroup("Where")
	where.flags.StringVar(&o.dir, "dir", learnedDir, "the `folder` that the daemon's key learned names")
	where.flags.StringVar(&o.user, "user", "", "only of this `user`")
	output := newGroup("Output")
	output.flags.StringVar(&o.json, "json", "", "the list for programs, into a `file`; - for the standard output")
	output.flags.StringVar(&o.export, "export", "", "the job `name` of which to write a profile")
	output.flags.StringVarP(&o.out, "out", "o", stdioName, "the profile's `file`; - for the standard output")
	setGroups(command, where, output)
	return command
}

// run lists what was learned, or with --export writes a profile. A file that cannot be read is told to stderr and left
// out.
func (o *listOptions) run(stdout, stderr io.Writer) error {
	s, wrong, err := learnedshelf.Read(o.dir)
	if err != nil {
		return err
	}
	for _, file := range wrong {
		fmt.Fprintln(stderr, "synergy:", strconv.QuoteToGraphic(file.Error()))
	}
	all := slices.DeleteFunc(s.All(), func(e *learned.Entry) bool { return o.user != "" && e.User != o.user })
	switch {
	case o.export != "":
		return o.exportProfile(all, stdout)
	case o.json != "":
		return save("json", o.json, stdout, func(w io.Writer) error { return listJSON(w, all) })
	}
	return listTable(stdout, all)
}

// listedEntry is a learned profile as JSON.
type listedEntry struct {
	*learned.Entry
	Climbs  bool    `json:"climbs"`
	Scatter float64 `json:"scatter"`
}

// listJSON writes the learned profiles for programs.
func listJSON(w io.Writer, all []*learned.Entry) error {
	lines := make([]listedEntry, 0, len(all))
	for _, e := range all {
		lines = append(lines, listedEntry{e, e.Climbs(), e.Scatter()})
	}
	text, err := json.MarshalIndent(lines, "", "  ")
	if err != nil {
		return failed{err}
	}
	return writeAll(w, append(text, '\n'))
}

// listTable writes a line for each learned profile.
func listTable(w io.Writer, all []*learned.Entry) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "user\tjob name\tGPU\tpoints\treports\tcertain\titerations/s by cores a GPU\tlast")
	for _, e := range all {
		reports := 0
		for _, p := range e.Points {
			reports += p.Count
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t± %.0f %%\t%s\t%s\n", shownText(e.User), shownText(e.Job),
			shownText(cmp.Or(e.GPUType, "any")), len(e.Points), reports,
			100*e.Scatter(), curveText(e), e.Updated.UTC().Format("2006-01-02 15:04"))
	}
	return t.Flush()
}

// curveText is the learned curve in a few words, as iterations a second by cores a GPU. Points from progress reports
// have a star, since they include the time for validations and checkpoints.
func curveText(e *learned.Entry) string {
	if len(e.Points) == 0 {
		return "forgotten: a job ran otherwise"
	}
	var said []string
	for _, p := range e.Points {
		mark := ""
		if p.Way == learned.Progress {
			mark = "*"
		}
		said = append(said, fmt.Sprintf("%g: %s%s", p.Cores, rateText(p.Rate), mark))
	}
	if e.Climbs() {
		said = append(said, "and climbs on")
	}
	return strings.Join(said, ", ")
}

// shownText is a user's text as a terminal may show it: without control characters, and cut.
func shownText(text string) string {
	const most = 40
	quoted := strconv.QuoteToGraphic(text)
	quoted = quoted[1 : len(quoted)-1]
	if runes := []rune(quoted); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return quoted
}

// exportProfile writes an ordinary profile made from the learned one of --export. The text is parsed before it is
// written, since jobs will name the profile. It is an error if none or several users have jobs of that name.
func (o *listOptions) exportProfile(all []*learned.Entry, stdout io.Writer) error {
	all = slices.DeleteFunc(all, func(e *learned.Entry) bool { return e.Job != o.export })
	switch {
	case len(all) == 0:
		return fmt.Errorf("--export %.40q: nothing was learned of jobs of that name", o.export)
	case len(all) > 1:
		return fmt.Errorf("--export %.40q: %d users have jobs of that name: want --user", o.export, len(all))
	}
	p := all[0].Exported()
	if p == nil {
		return failed{errors.New("what was learned has been forgotten: a job of that name ran otherwise")}
	}
	p.GPUType = cmp.Or(p.GPUType, "unknown")
	text, err := p.Print()
	if err == nil {
		_, err = sensitivity.Parse(text)
	}
	if err != nil {
		return failed{err}
	}
	return save("out", o.out, stdout, func(w io.Writer) error { return writeAll(w, text) })
}
