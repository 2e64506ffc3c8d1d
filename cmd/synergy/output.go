package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/synergy-slurmd/synergy-slurmd/sim"
	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/report"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// namedOutput is one file that a command writes, and how.
type namedOutput struct {
	option, path string
	write        func(w io.Writer, e sim.Experiment, runs []outcome.Run) error
}

// namedOutputs are the files that the options name, each with the function that writes it. The standard output is none
// of them: deliver writes to it.
func (o *options) namedOutputs() []namedOutput {
	all := []namedOutput{
		{"jobs-out", o.output.jobs, func(w io.Writer, _ sim.Experiment, runs []outcome.Run) error { return outcome.WriteJobs(w, runs) }},
		{"rounds-out", o.output.rounds, func(w io.Writer, _ sim.Experiment, runs []outcome.Run) error { return outcome.WriteRounds(w, runs) }},
		{"record", o.output.record, writeDrawnJobs},
		{"json", o.output.json, func(w io.Writer, _ sim.Experiment, runs []outcome.Run) error { return outcome.WriteJSON(w, runs) }},
	}
	var named []namedOutput
	for _, s := range all {
		if s.path != "" && s.path != stdioName {
			named = append(named, s)
		}
	}
	return named
}

// stdioName names the standard output.
const stdioName = "-"

// writeDrawnJobs writes the drawn jobs as a trace, with which the same workload can be simulated again. It writes all
// jobs, or of an endless workload as many as the longest simulation used. It states the ratio of cores to GPUs for
// which the iterations hold, unless a file without one is read with that ratio. With profiles of the user's own the
// ratio is 0, and none is stated.
func writeDrawnJobs(w io.Writer, e sim.Experiment, runs []outcome.Run) error {
	drawn := e.Workloads[0]
	count := len(drawn.Jobs) + drawn.Draw.Jobs
	if count == 0 {
		for _, run := range runs {
			count = max(count, len(run.Jobs))
		}
	}
	source, err := drawn.Source()
	if err != nil {
		return err
	}
	var jobs []trace.Job
	for len(jobs) < count {
		job, more := source.Next()
		if !more {
			break
		}
		jobs = append(jobs, job)
	}
	if e.Ratio > publishedRatio {
		if err := trace.WriteRatio(w, e.Ratio); err != nil {
			return err
		}
	}
	return trace.WriteRecorded(w, jobs)
}

// publishedRatio is the ratio of cores to GPUs of the paper's traces, which do not state it.
const publishedRatio = 3

// draft is a file being written beside the one that it will replace. It is opened before the simulation, so that a
// missing folder is found before an hour is spent, and an interrupted command keeps the old file. A pipe or a device
// cannot be replaced, and is written directly.
type draft struct {
	namedOutput
	file *os.File
}

// drafts opens all files that the options name, and makes the report's folder. It is called before the simulation
// begins, so that a wrong path is found before an hour is spent.
func (o *options) drafts() ([]*draft, error) {
	if dir := o.output.report; dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("--report: %w", err)
		}
	}
	var all []*draft
	for _, s := range o.namedOutputs() {
		file, err := openDraft(s.path)
		if err != nil {
			discard(all)
			return nil, fmt.Errorf("--%s %s: %w", s.option, s.path, withoutPath(err))
		}
		all = append(all, &draft{s, file})
	}
	return all, nil
}

// openDraft opens the file that will replace the one at path. A pipe or a device is opened itself. A draft can be read
// by its user only, until it is in its place.
func openDraft(path string) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, errors.New("is a folder: want the name of a file")
	case err == nil && !info.Mode().IsRegular():
		return os.OpenFile(path, os.O_WRONLY, 0)
	}
	return os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
}

// withoutPath drops the path from an operating system's error, since the message has it already.
func withoutPath(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// discard closes and removes unfinished files, so that the old ones stay.
func discard(drafts []*draft) {
	for _, d := range drafts {
		d.file.Close()
		if d.replaces() {
			os.Remove(d.file.Name())
		}
	}
}

// replaces reports whether the file takes the place of another when it is finished. Otherwise it is a pipe or a device,
// which stays when the command fails.
func (d *draft) replaces() bool { return d.file.Name() != d.path }

// finish writes a file and puts it in its place. A file that could not be written completely is discarded, and the old
// one stays. If some simulations have no figures, the file with the others is kept, and the error says which.
func (d *draft) finish(e sim.Experiment, runs []outcome.Run) error {
	const readable = 0o644
	out := &errorWriter{Writer: d.file}
	faults := d.write(out, e, runs)
	if err := cmp.Or(out.err, d.file.Close()); err != nil {
		discard([]*draft{d})
		return err
	}
	if !d.replaces() {
		return faults
	}
	return cmp.Or(os.Chmod(d.file.Name(), readable), os.Rename(d.file.Name(), d.path), faults)
}

// errorWriter remembers that its writer failed. finish needs it to tell two errors apart: if the writer failed the file
// is discarded, and if only some simulations have no figures it is kept.
type errorWriter struct {
	io.Writer
	err error
}

func (l *errorWriter) Write(p []byte) (int, error) {
	n, err := l.Writer.Write(p)
	l.err = cmp.Or(l.err, err)
	return n, err
}

// deliver writes all outputs. If one fails, the others are written all the same, and the error is the first, since most
// of them have the same cause. Files have the times that simulations took only with --wall, so that equal simulations
// give equal files; the report never has them. The table has them with --wall and on a terminal.
func (o *options) deliver(out io.Writer, drafts []*draft, e sim.Experiment, runs []outcome.Run) error {
	equal := withoutTimes(runs)
	filed, shown := equal, equal
	if o.output.wall {
		filed = runs
	}
	if o.output.wall || isTerminal(out) {
		shown = runs
	}
	var wrong error
	for _, d := range drafts {
		if err := d.finish(e, filed); err != nil {
			wrong = cmp.Or(wrong, fmt.Errorf("--%s %s: %w", d.option, d.path, err))
		}
	}
	if o.output.report != "" {
		wrong = cmp.Or(wrong, report.Write(o.output.report, equal, o.reportOptions(e)))
	}
	switch {
	case o.output.json == stdioName:
		return cmp.Or(wrong, outcome.WriteJSON(out, filed))
	case o.output.quiet:
		return wrong
	}
	return cmp.Or(outcome.WriteTable(out, shown), wrong)
}

// withoutTimes are the runs without the time that they took, which would make equal simulations differ.
func withoutTimes(runs []outcome.Run) []outcome.Run {
	all := make([]outcome.Run, len(runs))
	for i, run := range runs {
		run.Wall = 0
		all[i] = run
	}
	return all
}

// reportOptions are what a report says beside its figures. Its command line leaves out options that do not change them.
func (o *options) reportOptions(e sim.Experiment) report.Options {
	return report.Options{Command: o.commandLine(), Version: programVersion(),
		Family: func(model string) string { return family(e, model) }}
}

// family returns the task of a model, such as image, by its profile or else by the paper's table. It is empty if
// neither has the model. The report colours jobs by it.
func family(e sim.Experiment, model string) string {
	if p, known := e.Site.Profiles[model]; known {
		return p.Task
	}
	set, _ := models.Set(models.LeastRatio) // families are the same for every ratio
	if id, known := models.Find(model); known {
		return set[id].Family.String()
	}
	return ""
}
