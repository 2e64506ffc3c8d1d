package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	slurmjob "github.com/synergy-slurmd/synergy-slurmd/profiling/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// Explain asks what became of a job, why it waits or has no more cores, what would help, and when it is expected to
// start.
type Explain struct {
	Past
	Within time.Duration // for looking ahead
	JSON   bool
}

// explainAnswer is the answer: the story's fields, and what follows from the last round.
type explainAnswer struct {
	story.Story
	// Why is why the job does not run, or has no more cores; missing: the last round does not know it.
	Why *story.WhyNot `json:"why,omitempty"`
	// Expected is when it is expected to start, and Outlook the same in sentences; missing: it does not wait.
	Expected *forecast.Forecast `json:"expected,omitempty"`
	Outlook  []string           `json:"outlook,omitempty"`
}

// Run writes the answer for the job of this number: its story, and what the last round says of it. If a part cannot be
// read, the answer goes without it and notes says so. It is an error if neither the story nor the last round knows the
// job.
func (o *Explain) Run(ctx context.Context, out, notes io.Writer, name string, now time.Time) error {
	if err := checkWithin(o.Within); err != nil {
		return err
	}
	job, err := jobNumber(name)
	if err != nil {
		return err
	}
	told, over, err := o.story(ctx, notes, job)
	if err != nil {
		return err
	}
	a := explainAnswer{Story: told}
	if report := o.lastRound(ctx, notes); report != nil {
		a.addWhy(report)
		a.addForecast(report, stopsAfter(ctx, o.Within)())
	}
	// Neither the last round nor the rounds that are kept know the job.
	if a.Why == nil && !told.Known && len(told.Notes) == 0 && len(told.Events) == 0 {
		return Failed{o.unseenJobError(ctx, job, fmt.Sprintf("none of the %s knows it", over))}
	}
	return write(out, &a, o.JSON, now)
}

// lastRound is the report of the last round. It is nil if there was no round yet, if the report cannot be read (which
// notes says), or if only --history was named: that folder has the past only, and the daemon on this host may be
// another one than wrote it.
func (o *Explain) lastRound(ctx context.Context, notes io.Writer) *bridge.Report {
	if o.Folder != "" && o.Ledger == "" && o.Daemon == "" {
		return nil
	}
	report, err := o.Latest(ctx)
	if err == nil {
		return &report
	}
	if !errors.Is(err, ErrNoRound) {
		fmt.Fprintf(notes, "synergy: why it waits and when it starts are left out: %s\n",
			printable.Line(err.Error(), LongestSentence))
	}
	return nil
}

// jobNumber reads a job's number as the user typed it.
func jobNumber(name string) (int, error) {
	job, err := strconv.Atoi(name)
	if err != nil || job < 1 {
		return 0, fmt.Errorf("%.40q: want the number of a job, as 4711; each task of an array has a number of its own",
			name)
	}
	return job, nil
}

// checkWithin checks the time of --within, for which a forecast may run.
func checkWithin(limit time.Duration) error {
	if limit < time.Second || limit > time.Hour {
		return fmt.Errorf("--within %s: want a time from 1s to 1h", limit)
	}
	return nil
}

// WhyNot is what the last round says of a job. It is an error if the round does not know the job.
func (s *Source) WhyNot(ctx context.Context, name string) (bridge.Report, story.WhyNot, error) {
	job, err := jobNumber(name)
	if err != nil {
		return bridge.Report{}, story.WhyNot{}, err
	}
	report, err := s.Latest(ctx)
	if err != nil {
		return report, story.WhyNot{}, err
	}
	why := story.AskWhyNot(job, &report)
	if why.State == story.StateUnknown {
		err = Failed{s.unseenJobError(ctx, job, fmt.Sprintf("round %d has not seen it", report.Round))}
	}
	return report, why, err
}

// unseenJobError is the error for a job that was not seen as a managed one. It asks Slurm for the reason, since most
// such jobs lack the directive, the word in their comment that has them managed, or are over. If Slurm cannot be asked,
// it lists the possible reasons. unseen says where the job was looked for, as the beginning of a sentence.
func (s *Source) unseenJobError(ctx context.Context, job int, unseen string) error {
	d, _ := s.Health(ctx) // without an answer the managed partitions are left out
	ctx, cancel := context.WithTimeout(ctx, slurmTimeout)
	defer cancel()
	says, err := slurmjob.Look(ctx, slurmjob.ID(strconv.Itoa(job)))
	if why := whyUnmanaged(says, err, d.Partitions, unseen); why != "" {
		return fmt.Errorf("job %d: %s", job, why)
	}
	where := "a partition that is not managed"
	if len(d.Partitions) > 0 {
		where = fmt.Sprintf("another partition than %s, which are managed", strings.Join(d.Partitions, ", "))
	}
	return fmt.Errorf("job %d: %s as one of ours: it has no word of ours in its comment (synergy-profile=…), is in "+
		"%s, was over before, or came after the last round; scontrol show job %d tells which", job, unseen, where, job)
}

// slurmTimeout is how long Slurm may take to tell about a job.
const slurmTimeout = 10 * time.Second

// whyUnmanaged says why a job is not managed, by what Slurm says of it (says, or err if Slurm says nothing). The text
// is empty if Slurm could not be asked. partitions are those that the daemon manages; if the list is empty they are
// unknown, and the job's partition is not judged. A job against which nothing is found is newer than the last round.
// Its answer begins with unseen, which says where the job was looked for.
func whyUnmanaged(says slurmjob.Status, err error, partitions []string, unseen string) string {
	managed := func(name string) bool { return slices.Contains(partitions, name) }
	switch {
	case errors.Is(err, slurmjob.ErrForgotten):
		return "Slurm does not know it: it is over for some time, or never was"
	case err != nil:
		return ""
	case says.Ended():
		return "it is over: " + says.Ending()
	case !directive.Parse(says.Comment).Managed:
		return "its comment has no word of ours, so the daemon leaves it to Slurm; submit it with " +
			"--comment=synergy-profile=… for a share by its profile"
	// A waiting job may name several partitions, and one that is managed is enough.
	case len(partitions) > 0 && !slices.ContainsFunc(strings.Split(says.Partition, ","), managed):
		return fmt.Sprintf("it is in partition %s, and the daemon manages %s",
			printable.Line(says.Partition, LongestName), strings.Join(partitions, ", "))
	}
	return unseen + ": ask again when the next round has been held"
}

// addWhy adds why the job does not run, or has no more cores. Why stays nil if the round does not know the job.
func (a *explainAnswer) addWhy(report *bridge.Report) {
	if why := story.AskWhyNot(a.Job, report); why.State != story.StateUnknown {
		a.Why = &why
	}
}

// addForecast adds when a job that waits is expected to start. It simulates the rounds to come from the state that the
// last one saw, until stop reports that its time is over. It adds nothing for a job that can never start as it is
// requested (remedyOf), and nothing for one that the last round has started. For a job that is barred from starting,
// and if the state is unusable, it adds the reason in place of a forecast.
func (a *explainAnswer) addForecast(report *bridge.Report, stop func() bool) {
	if a.Why == nil || a.Why.State != story.StateWaits && a.Why.State != story.StateStarts ||
		remedyOf(a.Why.Wait) != nil {
		return
	}
	// The report brings the profiles of its jobs along, so no folder is named and no note is due.
	is, err := (&Present{}).caseOfReport(report, io.Discard)
	if err != nil {
		a.Outlook = []string{"it cannot be worked out: " + err.Error()}
		return
	}
	// The snapshot is from before the round, so it does not have the jobs that the round has started.
	is = is.Started(startedBy(report))
	k := slices.IndexFunc(is.Cluster.Jobs, func(j policy.Job) bool { return j.ID == a.Job })
	if k < 0 || is.Cluster.Jobs[k].Running != nil {
		return
	}
	if barred := is.Cluster.Jobs[k].Barred; barred != "" {
		a.Outlook = []string{"it may not start yet, whatever is free: " + barred}
		return
	}
	f := forecast.Starts(&is.Cluster, forecast.Options{Policy: is.Policy, Allocator: is.Allocator, Habits: is.Habits,
		Only: []int{a.Job}, Stop: stop})
	a.Expected, a.Outlook = &f, forecastText(&f, a.Job)
}

// forecastText says when a job starts by a forecast, and how reliable that is. It tells of how many jobs neither a
// declared length nor a time limit is known (Guess), so that the forecast had to guess, and whether the time for
// looking ahead was too short (Cut).
func forecastText(f *forecast.Forecast, job int) (says []string) {
	s, known := f.Of(job)
	if !known {
		return []string{"there was no time to look ahead: give it more with --within"}
	}
	says = append(says, "it is "+f.Words(s.Spread))
	switch f.Guess {
	case 0:
	case 1:
		says = append(says, "of one job nobody says how long it is: what waits for it is a guess")
	default:
		says = append(says, fmt.Sprintf("of %d jobs nobody says how long they are: what waits for them is a guess",
			f.Guess))
	}
	if f.Cut {
		says = append(says, fmt.Sprintf("there was time for %d futures, until %s: give it more with --within", f.Draws,
			momentText(f.Until)))
	}
	return says
}

// momentText is a moment as Slurm writes it. A zero moment is one that the forecast did not reach, and is "later".
func momentText(at time.Time) string {
	if at.IsZero() {
		return "later"
	}
	return at.Format("2006-01-02T15:04")
}

// show writes what is known of the job, each part under a heading. Parts that nothing is known of are left out: after a
// restart of a daemon without a history the story knows only the last rounds.
func (a *explainAnswer) show(t *Text, now time.Time) {
	t.Say(0, a.titleText())
	if a.Known {
		submitted := ""
		if !a.Submitted.IsZero() {
			submitted = "submitted " + clockTime(a.Submitted) + ", "
		}
		t.Say(2, fmt.Sprintf("%srestarted %d times, %.1f GPU-hours so far", submitted, a.Restarts, a.GPUTime/3600))
		t.Say(2, fmt.Sprintf("round %d: %s", a.Round, a.Now))
	}
	if n := len(a.Runs); n > 0 && a.Runs[n-1].Ended.IsZero() && a.Runs[n-1].Ran > 0 {
		t.Say(2, "it trains at "+speedText(&a.Runs[n-1]))
	}
	for _, note := range a.notes() {
		t.Say(2, "note: "+note)
	}
	a.showWhy(t, now)
	if a.Why != nil {
		showSection(t, "what would help", a.Why.Helps)
	}
	showSection(t, "when it starts", a.Outlook)
	var events []string
	for _, e := range a.Events {
		events = append(events, eventText(e))
	}
	showSection(t, "what became of it", events)
}

// showSection writes lines under a title, or nothing if there are none.
func showSection(t *Text, title string, lines []string) {
	if len(lines) > 0 {
		t.Say(0, title+":")
	}
	for _, line := range lines {
		t.Say(2, line)
	}
}

// titleText names the job with its name, user and GPUs, by its story, or else by what the last round says of it. If
// neither has them, the title is the job's number.
func (a *explainAnswer) titleText() string {
	text := fmt.Sprintf("job %d", a.Job)
	of := func(name, user string, gpus int) string {
		return fmt.Sprintf(" %q of %s: %s", strings.TrimSpace(name), user, countText(gpus, "GPU"))
	}
	switch {
	case a.Known && a.Profile == "":
		return text + of(a.Name, a.User, a.GPUs) + ", no profile"
	case a.Known:
		return text + of(a.Name, a.User, a.GPUs) + ", profile " + a.Profile
	case a.Why != nil && a.Why.User != "":
		return text + of(a.Why.Name, a.Why.User, a.Why.GPUs)
	}
	return text
}

// notes are the notes for the job's user: those of its story, and without a story those of the last round.
func (a *explainAnswer) notes() []string {
	if len(a.Notes) == 0 && a.Why != nil {
		return a.Why.Notes
	}
	return a.Notes
}

// eventText is what a round did to the job, or failed to do, in a line.
func eventText(e story.Event) string {
	text := fmt.Sprintf("%s %s: %s", clockTime(e.At), roundText(e), e.What)
	if e.Error != "" {
		text += " - failed: " + e.Error
	}
	return text
}

// roundText names the round of an event. A small round has the number of the round before it.
func roundText(e story.Event) string {
	if e.Small {
		return fmt.Sprintf("after round %d", e.Round)
	}
	return fmt.Sprintf("round %d", e.Round)
}

// speedText is the speed that a run reported, and the speed of its profile.
func speedText(r *story.Run) string {
	text := fmt.Sprintf("%.3g iterations/s by its own reports", r.Ran)
	if r.Claimed > 0 {
		text += fmt.Sprintf(", %.3g by its profile", r.Claimed)
	}
	return text
}
