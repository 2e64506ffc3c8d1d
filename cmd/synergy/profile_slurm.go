package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/profiling"
	slurmjob "github.com/synergy-slurmd/synergy-slurmd/profiling/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// jobOptions are the flags for the measuring job.
type jobOptions struct {
	partition string
	sbatch    []string
}

// runJob measures the trainer in one job of Slurm and writes the profile. What an earlier, interrupted call has
// measured is kept. If nothing is left to measure, no job is submitted, and the profile is made from what is kept.
func (o *localOptions) runJob(c *cobra.Command, command []string) error {
	options, err := slurmjob.Options(o.job.sbatch)
	if err != nil {
		return fmt.Errorf("--sbatch %w", err)
	}
	if o.out == stdioName {
		return errors.New("--out -: want a file, since the job's are beside it")
	}
	site, err := o.askSite(c)
	if err != nil {
		return err
	}
	q, err := o.question(site.coreRange(o.gpus, o.virtual), site.share(o.gpus).Memory)
	if err != nil {
		return err
	}
	kept, err := o.loadKeptRuns(command, q)
	if err != nil {
		return err
	}
	t := o.task(c, kept, q)
	t.GPUTypes = site.types
	if err := t.makeAbsolute(); err != nil {
		return failed{err}
	}
	told := newProgressPrinter(c.ErrOrStderr(), q, t.Budget)
	told.resumed(kept.Record)
	if t.isUnfinished(kept.Record) {
		if file := scriptWithDirectives(command); file != "" {
			told.say("%s has lines #SBATCH, which are not read here: what the job needs of them goes into --sbatch",
				file)
		}
		m := &measurement{options: o, task: t, kept: kept, printer: told, site: site, sbatch: options}
		m.folder = strings.TrimSuffix(t.Runs, runsExtension) + ".slurm"
		if err := m.run(c.Context()); err != nil {
			return err
		}
	}
	d := profiler.Next(q, kept.Runs)
	told.printRemarks(kept.Record, d)
	return o.deliver(c, q, d, kept.Record, site.nodeKinds(o, c))
}

// makeAbsolute makes the names of the files absolute, so that the job finds them whatever its folder.
func (t *task) makeAbsolute() (err error) {
	for _, path := range []*string{&t.Runs, &t.Log, &t.Watch} {
		if *path != "" && err == nil {
			*path, err = filepath.Abs(*path)
		}
	}
	return err
}

// isUnfinished reports whether there is something left to measure: a trial, or with --checkpoint the cost of a restart.
// The restart is not measured of a trainer that failed.
func (t task) isUnfinished(r profiling.Record) bool {
	d := profiler.Next(t.Question, r.Runs)
	return d.Stop == "" || t.Asks != "" && r.Saved == nil && d.Stop != profiler.Failing
}

// scriptWithDirectives returns the first file of the command that is a script with #SBATCH lines, or an empty text if
// none is. sbatch reads such lines only in the script that it is given, which is ours and not the user's. So the user
// is told to name their options with --sbatch.
func scriptWithDirectives(command []string) string {
	const most = 64 << 10 // bytes: directives stand at the beginning of a script
	for _, path := range command {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(file, most))
		file.Close()
		if err == nil && strings.HasPrefix(string(text), "#!") && strings.Contains(string(text), "\n#SBATCH ") {
			return path
		}
	}
	return ""
}

// siteNodes are the parts of the cluster on which the job can run.
type siteNodes struct {
	partition string            // where the job goes; empty: where Slurm sends it
	shapes    []slurmjob.Shape  // of nodes on which it can run, the most frequent first
	types     map[string]string // of GPUs, by node
	gpuType   string            // that the job asks for; empty: any
}

// askSite asks Slurm on which nodes the job can run. It is an error if no node has as many GPUs of the type that is
// asked for. If Slurm knows no GPU types, the job asks for none, and the user's --gpu-type is only what the profile
// says.
func (o *localOptions) askSite(c *cobra.Command) (*siteNodes, error) {
	nodes, err := slurmjob.Nodes(c.Context())
	if errors.Is(err, slurmjob.ErrNone) {
		return nil, failed{fmt.Errorf("%w: measure where jobs are submitted, or with --local on this machine", err)}
	}
	if err != nil {
		return nil, failed{err}
	}
	s := &siteNodes{partition: o.job.partition, types: map[string]string{}}
	if s.partition == "" {
		if s.partition, err = slurmjob.DefaultPartition(c.Context()); err != nil {
			return nil, failed{err}
		}
	}
	if c.Flags().Changed("gpu-type") {
		s.gpuType = o.about.GPUType
	}
	s.shapes = slurmjob.Shapes(nodes, s.partition, s.gpuType, o.gpus)
	if len(s.shapes) == 0 {
		return nil, fmt.Errorf("--gpus %d%s%s: no node has that; GPUs here: %s", o.gpus,
			labelled(", --gpu-type ", s.gpuType), labelled(", partition ", s.partition), gpusText(nodes))
	}
	typed := false
	for _, n := range nodes {
		s.types[n.Name] = n.GPUType
		typed = typed || n.GPUType != ""
	}
	if !typed { // then Slurm has no GPU types, and the type is only for the profile
		s.gpuType = ""
	}
	return s, nil
}

// labelled is a text behind its label. It is empty without a text.
func labelled(label, text string) string {
	if text == "" {
		return ""
	}
	return label + fmt.Sprintf("%.40s", text)
}

// gpusText is what GPUs the cluster has, in words.
func gpusText(nodes []slurmjob.Node) string {
	var all []string
	for _, n := range slurmjob.Shapes(nodes, "", "", 1) {
		all = append(all, fmt.Sprintf("%s of %d%s", countText(len(n.Names), "node"), n.Total.GPUs,
			labelled(" ", n.GPUType)))
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// maxShares is how many times the share is tried at most by default: as much as any model of the paper can use.
const maxShares = 4

// share is the proportional share of a job with so many GPUs on the most frequent kind of node.
func (s *siteNodes) share(gpus int) gres.Vector { return gres.Proportional(s.shapes[0].Total, gpus) }

// coreRange returns how many cores a job with so many GPUs can ask for. Without --cores that is up to four times the
// share, or all of the most frequent kind of node if it has fewer. With --cores it is as many as the largest node has.
// Pretended cores (virtual, if above 0) are the range themselves, as far as the largest node has as many.
func (s *siteNodes) coreRange(gpus, virtual int) coreRange {
	most := 0
	for _, shape := range s.shapes {
		most = max(most, shape.Total.CPUs)
	}
	if virtual > 0 {
		return coreRange{min(virtual, most), min(virtual, most), "are pretended and a node has"}
	}
	return coreRange{min(s.shapes[0].Total.CPUs, maxShares*s.share(gpus).CPUs), most, "a node has"}
}

// nodeKinds returns the kinds of nodes for which the command says what the profile is worth: the one of --node, or else
// the four most frequent ones of the cluster.
func (s *siteNodes) nodeKinds(o *localOptions, c *cobra.Command) (all []nodeKind) {
	const most = 4
	if c.Flags().Changed("node") {
		return []nodeKind{{o.node, ""}}
	}
	for _, shape := range s.shapes[:min(most, len(s.shapes))] {
		all = append(
			all,
			nodeKind{nodeFlag{shape.Total}, fmt.Sprintf(" (%s here)", countText(len(shape.Names), "such node"))},
		)
	}
	return all
}

// measurement is one job, from before it is submitted until it has ended.
type measurement struct {
	options *localOptions
	task    task
	kept    *keptRuns        // what is measured so far
	printer *progressPrinter // prints how it goes
	site    *siteNodes
	sbatch  []string // further options for sbatch
	folder  string   // of the job's files, beside the profile

	job       slurmjob.ID
	shownRuns int       // runs whose line was printed
	lastSaid  string    // the last sentence on the job's state
	outcome   jobReport // the last report of the job
}

// Files of a job, in its folder.
const (
	programFile = "synergy"
	taskFile    = "task.json"
	scriptFile  = "job.sh"
	outputFile  = "output"
	outcomeFile = "outcome.json"
	numberFile  = "job"
)

func (m *measurement) filePath(file string) string { return filepath.Join(m.folder, file) }

// run submits the job, or finds the one that an earlier call has submitted, and follows it to its end. If the user
// interrupts it, the job is cancelled. The job's files are removed when it has ended, and what was measured is kept.
func (m *measurement) run(ctx context.Context) error {
	under, err := m.findEarlierJob(ctx)
	if err != nil {
		return err
	}
	if under {
		m.printer.say("job %s of an earlier call measures this, and is followed", m.job)
	} else if err := m.submit(ctx); err != nil {
		m.removeFiles()
		return err
	}
	m.shownRuns = len(m.kept.Runs)
	err = m.follow(ctx)
	m.printer.clear()
	if ctx.Err() != nil {
		return m.cancel()
	}
	m.removeFiles()
	return err
}

// findEarlierJob looks for a job of an earlier call that still measures, for instance because its terminal was closed,
// and takes it over as m.job. It returns false if there is none: then a job has to be submitted. A job number that
// cannot be read, and a job that has ended or that Slurm has forgotten, count as none. A job that still measures
// something else is an error, since its files would be overwritten.
func (m *measurement) findEarlierJob(ctx context.Context) (bool, error) {
	text, err := os.ReadFile(m.filePath(numberFile))
	if err != nil {
		return false, nil
	}
	id, err := slurmjob.ParseID(strings.TrimSpace(string(text)))
	if err != nil {
		return false, nil
	}
	status, err := slurmjob.Look(ctx, id)
	if err != nil && !errors.Is(err, slurmjob.ErrForgotten) {
		return false, failed{err}
	}
	if err != nil || status.Ended() {
		return false, nil
	}
	earlier, err := readTask(m.filePath(taskFile))
	mine, _ := json.Marshal(m.task.Kept)
	its, _ := json.Marshal(earlier.Kept)
	if err != nil || m.options.fresh || string(mine) != string(its) {
		return false,
			failed{fmt.Errorf(
				"job %s still measures with its files in %s: scancel %s ends it, or name another file with --out", id,
				m.folder, id)}
	}
	m.job, m.task.Outcome = id, earlier.Outcome
	return true, nil
}

// submit writes the job's files into its folder and submits it. The program is copied there, so that the job finds it
// wherever it finds the folder, and an update of the installed program does not affect it.
func (m *measurement) submit(ctx context.Context) error {
	if err := os.MkdirAll(m.folder, 0o700); err != nil {
		return failed{err}
	}
	m.task.Outcome = m.filePath(outcomeFile)
	if err := m.writeFiles(); err != nil {
		return failed{err}
	}
	here, err := os.Getwd()
	if err != nil {
		return failed{err}
	}
	size := m.size()
	// An interrupted sbatch may have submitted the job or not. So it is not interrupted, and follow cancels the job.
	m.job, err = slurmjob.Submit(context.WithoutCancel(ctx), slurmjob.Job{
		Name: "synergy-profile-" + m.modelName(), Size: size, GPUType: m.gpuType(), Partition: m.options.job.partition,
		Limit: m.limit(), Folder: here,
		Output: m.filePath(outputFile), Script: m.filePath(scriptFile), Options: m.sbatch,
	})
	if err != nil {
		return failed{err}
	}
	if err := os.WriteFile(m.filePath(numberFile), []byte(m.job+"\n"), 0o600); err != nil {
		return failed{errors.Join(err, slurmjob.Cancel(ctx, m.job))}
	}
	m.printer.say(
		"job %s: %s, %s and %s%s, %s at most",
		m.job,
		countText(size.GPUs, "GPU"),
		countText(size.CPUs, "core"),
		gigabytes(size.Memory),
		labelled(" in partition ", m.site.partition),
		countText(int((m.limit()+time.Minute-1)/time.Minute), "minute"),
	)
	return nil
}

// writeFiles writes the files that the job needs. It also creates those that the job will write: an NFS client that
// reads a file which existed before reads it anew, and so sees what the job writes.
func (m *measurement) writeFiles() error {
	text, err := json.MarshalIndent(m.task, "", "  ")
	if err != nil {
		return err
	}
	const mine, run = 0o600, 0o700
	for _, f := range []struct {
		name, text string
		mode       os.FileMode
	}{
		{taskFile, string(text) + "\n", mine}, {outcomeFile, "{}\n", mine}, {outputFile, "", mine},
		{scriptFile, "#!/bin/sh\nexec " + forShell(m.filePath(programFile)) + " profile inside " +
			forShell(m.filePath(taskFile)) +
			"\n", run},
	} {
		if err := os.WriteFile(m.filePath(f.name), []byte(f.text), f.mode); err != nil {
			return err
		}
	}
	if err := copySelf(m.filePath(programFile)); err != nil {
		return err
	}
	return m.kept.write(m.kept.Record)
}

// copySelf writes a copy of this program to a file, which the job runs. An old file is removed and not overwritten,
// since a job that has just ended may still have it open.
func copySelf(path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close()
	_ = os.Remove(path) // a program that an ended job still maps cannot be overwritten
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// forShell quotes a word for a shell.
func forShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// modelName is the model's name as a part of the job's name. Users choose it, so other characters than letters, digits,
// dots, dashes and underscores are replaced, and it is cut.
func (m *measurement) modelName() string {
	const most = 40
	name := notInNames.ReplaceAllString(m.options.about.Model, "_")
	return name[:min(len(name), most)]
}

// size is the largest size that is to be tried.
func (m *measurement) size() gres.Vector {
	q := m.task.Question
	return gres.Vector{GPUs: q.GPUs, CPUs: q.Cores[len(q.Cores)-1], Memory: q.Memory[len(q.Memory)-1]}
}

// gpuType is the GPU type that the job asks for: the user's, or else that of the trials so far, since runs on two types
// are not one curve. It is empty if any type will do.
func (m *measurement) gpuType() string { return cmp.Or(m.site.gpuType, m.kept.GPU) }

// limit is the job's time limit: the budget, and then time for the last trial, which may begin at the end of the
// budget, and with --checkpoint for saving and starting again.
func (m *measurement) limit() time.Duration {
	limit := m.task.Budget + m.task.Patience + m.task.Question.Long + time.Minute
	if request, err := parseRequest(m.task.Asks); err == nil {
		limit += request.Within + m.task.Patience
	}
	return limit
}

// How often files and Slurm are read. Requests to Slurm are a cost for all its users, so after the time askSoonFor they
// are rarer: by then a job usually waits or runs for long.
const (
	lookAtFiles = 500 * time.Millisecond
	askSoon     = time.Second
	askLater    = 5 * time.Second
	askSoonFor  = 20 * time.Second
)

// follow watches the job until it has ended, and returns how the measurement ended. The job's own files say so first,
// as a rule; Slurm is asked less often, for a job that ended without a report.
func (m *measurement) follow(ctx context.Context) error {
	var status slurmjob.Status
	var asked time.Time
	began := time.Now()
	for {
		m.readJobFiles()
		if m.outcome.Ended {
			return m.reportedError()
		}
		pause := askLater
		if time.Since(began) < askSoonFor {
			pause = askSoon
		}
		if time.Since(asked) >= pause {
			var err error
			if status, err = m.askSlurm(ctx, status); err != nil || status.Ended() {
				return m.endWithoutReport(ctx, status, err)
			}
			asked = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookAtFiles):
		}
	}
}

// askSlurm asks Slurm for the job's state, and prints what has changed. If slurmctld does not answer, it returns the
// state before, so that the job is followed further. A job that Slurm has forgotten is an error.
func (m *measurement) askSlurm(ctx context.Context, before slurmjob.Status) (slurmjob.Status, error) {
	status, err := slurmjob.Look(ctx, m.job)
	switch {
	case errors.Is(err, slurmjob.ErrForgotten), ctx.Err() != nil:
		return before, err
	case err != nil:
		m.sayOnce("Slurm does not answer (%v); the job goes on without it", err)
		return before, nil
	case status.Waits():
		m.sayOnce("job %s %s", m.job, status.Waiting())
	case status.State == "SUSPENDED":
		m.sayOnce("job %s is suspended on %s: trials that this cuts short are measured too slow", m.job, status.Node)
	case !status.Ended():
		m.sayOnce("job %s runs on %s", m.job, status.Node)
	}
	return status, nil
}

// sayOnce prints a sentence, unless it was the last one printed, as the same state is seen at each look.
func (m *measurement) sayOnce(format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	if text != m.lastSaid {
		m.lastSaid = text
		m.printer.say("%s", text)
	}
}

// readJobFiles reads what the job has written, and prints the trials that have ended. When the job begins it restarts
// the clock of the progress bar, so that the time in the queue does not count against the budget. It prints no trial
// that the job still prolongs, since the result will change.
func (m *measurement) readJobFiles() {
	if text, err := readFile(m.task.Outcome); err == nil {
		var is jobReport
		if json.Unmarshal(text, &is) == nil {
			if is.Node != "" && m.outcome.Node == "" {
				m.printer.began = time.Now()
				m.printer.beginRemoteTrial(m.nextTrial())
			}
			m.outcome = is
		}
	}
	before := len(m.kept.Runs)
	if m.kept.read() != nil { // half written, or missing for a moment
		return
	}
	m.shownRuns = min(m.shownRuns, len(m.kept.Runs)) // a run that was to be prolonged begins anew
	for m.shownRuns < len(m.kept.Runs) {
		d := profiler.Next(m.task.Question, m.kept.Runs[:m.shownRuns+1])
		if m.shownRuns == len(m.kept.Runs)-1 && d.Stop == "" && d.Next.Prolongs && !m.outcome.Ended {
			break
		}
		m.printer.showRemoteRun(m.kept.Runs[m.shownRuns], d)
		m.shownRuns++
	}
	if before != len(m.kept.Runs) && !m.outcome.Ended {
		m.printer.beginRemoteTrial(m.nextTrial())
	}
}

// nextTrial is the trial that the job makes now. It is computed here from the trials so far, as the job computes it:
// both run the same estimator.
func (m *measurement) nextTrial() profiler.Trial {
	return profiler.Next(m.task.Question, m.kept.Runs).Next
}

// reportedError is the error of a job that reported its end. It is nil if the job measured everything.
func (m *measurement) reportedError() error {
	if m.outcome.Error != "" {
		return failed{fmt.Errorf("job %s on %s: %s; %s", m.job, m.outcome.Node, m.outcome.Error, m.leftoverText())}
	}
	return nil
}

// endWithoutReport returns the error of a measurement whose job has ended without a last report, by what Slurm says
// (status, or err). The report may still be on its way over a shared file system, so it is looked for during two
// seconds more. The result is nil if it comes and says that all is well.
func (m *measurement) endWithoutReport(ctx context.Context, status slurmjob.Status, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	const arrives = 2 * time.Second // what the job wrote last may still be on its way
	for end := time.Now().Add(arrives); time.Now().Before(end) && !m.outcome.Ended; time.Sleep(lookAtFiles) {
		m.readJobFiles()
	}
	if m.outcome.Ended && m.outcome.Error == "" {
		return nil
	}
	m.printer.clear()
	if m.outcome.Ended { // what the job says of its end is nearer to the cause than its state
		return m.reportedError()
	}
	if err != nil {
		return failed{fmt.Errorf("%w; %s", err, m.leftoverText())}
	}
	text := fmt.Sprintf("job %s %s", m.job, status.Ending())
	if m.outcome.Node == "" && status.Node != "" {
		text += m.noReportText()
	}
	return failed{fmt.Errorf("%s; %s", text, m.leftoverText())}
}

// noReportText says why a job that got a node may have reported nothing: by the last line of its output, or if there is
// none, because the node may not see the folder. The text goes on behind the state of the job.
func (m *measurement) noReportText() string {
	text, _ := readFile(m.filePath(outputFile))
	if last := lastLine(string(text)); last != "" {
		return last
	}
	return fmt.Sprintf(" before it said anything: do the nodes see %s? It has to be in a folder that is shared",
		m.folder)
}

// leftoverText says what is left of an unfinished measurement, as the end of an error.
func (m *measurement) leftoverText() string {
	if len(m.kept.Runs) == 0 {
		return "nothing was measured"
	}
	return fmt.Sprintf("what %s gave is in %s; the same command goes on there", countText(len(m.kept.Runs), "trial"),
		m.kept.path)
}

// cancel cancels the job of a command that the user interrupts, waits until it has ended, and returns the error that
// says so.
func (m *measurement) cancel() error {
	const patience = 15 * time.Second
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := slurmjob.Cancel(ctx, m.job); err != nil {
		return failed{fmt.Errorf("interrupted, and job %s goes on: %w; %s", m.job, err, m.leftoverText())}
	}
	for ctx.Err() == nil { // the job may still write its results, and the next call must not find it
		if status, err := slurmjob.Look(ctx, m.job); err != nil || status.Ended() {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAtFiles):
		}
	}
	m.readJobFiles()
	m.removeFiles()
	return failed{fmt.Errorf("interrupted: job %s was cancelled; %s", m.job, m.leftoverText())}
}

// removeFiles removes the job's files, and leaves others that a user put beside them.
func (m *measurement) removeFiles() {
	for _, file := range []string{programFile, taskFile, scriptFile, outputFile, outcomeFile, numberFile} {
		_ = os.Remove(m.filePath(file))
	}
	_ = os.Remove(m.folder)
}
