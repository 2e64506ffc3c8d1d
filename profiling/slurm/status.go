package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Status is what Slurm says about a job.
type Status struct {
	State  string // base state, as PENDING
	Reason string // why it waits or how it ended; empty: None
	Node   string // where it runs; empty: nowhere yet
	Exit   string // exit status and signal, as 0:53
	// Partition is the job's partition, and Comment its user's comment. A job's name is free text that can imitate such
	// fields, so a user can falsify these for his own job.
	Partition, Comment string
}

// ErrForgotten means that Slurm does not know the job, or does not know it any more.
var ErrForgotten = errors.New("not known to Slurm any more")

// Look asks for a job's status. A job that is not known shows in scontrol's message only.
func Look(ctx context.Context, id ID) (Status, error) {
	said, err := program(ctx, os.Environ(), "scontrol", "--oneliner", "show", "job", string(id))
	switch {
	case err != nil && strings.Contains(said.output+said.errors, "Invalid job id"):
		return Status{}, fmt.Errorf("job %s: %w", id, ErrForgotten)
	case err != nil:
		return Status{}, fmt.Errorf("scontrol show job %s: %w", id, said.errorOr(err))
	}
	return parseStatus(id, said.output)
}

// parseStatus parses a job's record of scontrol.
func parseStatus(id ID, line string) (Status, error) {
	line, _, _ = strings.Cut(line, "\n") // the tasks of an array have lines of their own
	if field(line, "JobId") != string(id) {
		return Status{}, fmt.Errorf("scontrol show job %s: %.80q: want the job's record", id, oneLine(line))
	}
	s := Status{State: field(line, "JobState"), Reason: field(line, "Reason"), Node: field(line, "NodeList"),
		Exit: field(line, "ExitCode"), Partition: field(line, "Partition"), Comment: textField(line, "Comment")}
	if s.Reason == "None" {
		s.Reason = ""
	}
	if s.Node == "(null)" {
		s.Node = ""
	}
	return s, nil
}

// field returns the first value of this name in a record of scontrol. The job's name is ours and has no spaces, and
// what its owner wrote comes later in the record.
func field(line, name string) string {
	at := regexp.MustCompile(`(?:^|\s)` + regexp.QuoteMeta(name) + `=(\S*)`).FindStringSubmatch(line)
	if at == nil {
		return ""
	}
	return oneLine(at[1])
}

// textField returns a value of a record that may contain spaces: up to the next name.
func textField(line, name string) string {
	at := regexp.MustCompile(`\s` + regexp.QuoteMeta(name) + `=(.*)`).FindStringSubmatch(line)
	if at == nil {
		return ""
	}
	value := at[1]
	if next := nextName.FindStringIndex(value); next != nil {
		value = value[:next[0]]
	}
	return oneLine(value)
}

// nextName matches the next field; its name begins with a capital, unlike our directives in comments.
var nextName = regexp.MustCompile(`\s[A-Z][A-Za-z:/]*=`)

// Waits reports whether a job has not begun.
func (s Status) Waits() bool {
	return s.State == "PENDING" || s.State == "CONFIGURING" || s.State == "REQUEUED" || s.State == "REQUEUE_HOLD" ||
		s.State == "SPECIAL_EXIT"
}

// Ended reports whether a job has ended for good. A state that is not known here counts as an end.
func (s Status) Ended() bool {
	switch s.State {
	case "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING", "":
		return false
	}
	return !s.Waits()
}

// reasons explain Slurm's reasons to a person who waits; for others Slurm's own word is used.
var reasons = []struct{ begins, means string }{
	{"Resources", "for room on a node"},
	{"Priority", "for jobs that are ahead of it"},
	{"BeginTime", "for its begin time"},
	{"JobHeld", "because it is held: scontrol release lets it go"},
	{"ReqNodeNotAvail", "for a node that is away or reserved"},
	{"Nodes_required", "for nodes that are down or drained"},
	{"PartitionTimeLimit", "in vain: the partition takes no job that is as long; a smaller --budget makes it shorter"},
	{"PartitionDown", "for a partition that is closed"},
	{"PartitionInactive", "for a partition that is closed"},
	{"PartitionNodeLimit", "in vain: the partition takes no job of this size"},
	{"BadConstraints", "in vain: no node can ever have what it asks for"},
	{"AssocGrp", "for other jobs of its account: their limit is reached"},
	{"AssocMax", "for other jobs of its user: the limit is reached, or smaller than this job"},
	{"QOSGrp", "for other jobs of its QOS: their limit is reached"},
	{"QOSMax", "for other jobs of its user: the limit of the QOS is reached, or smaller than this job"},
	{"Licenses", "for a licence"},
	{"Reservation", "for its reservation"},
	{"InvalidAccount", "in vain: its account is not valid"},
	{"InvalidQOS", "in vain: its QOS is not valid"},
	{"Dependency", "for another job"},
}

// Waiting says what a job waits for, with Slurm's own word.
func (s Status) Waiting() string {
	for _, r := range reasons {
		if strings.HasPrefix(s.Reason, r.begins) {
			return fmt.Sprintf("waits %s (%s)", r.means, s.Reason)
		}
	}
	switch {
	case s.State == "CONFIGURING":
		return "waits for its node to come up (CONFIGURING)"
	case s.Reason == "":
		return "waits for Slurm to look at it"
	}
	return fmt.Sprintf("waits (%s)", s.Reason)
}

// Ending says how a job ended that failed, as the end of a sentence that begins with the job.
func (s Status) Ending() string {
	on := ""
	if s.Node != "" {
		on = " on " + s.Node
	}
	switch s.State {
	case "CANCELLED":
		return "was cancelled" + on
	case "TIMEOUT":
		return "reached its time limit" + on + ": a larger --budget makes it longer"
	case "DEADLINE":
		return "reached its deadline" + on
	case "NODE_FAIL", "BOOT_FAIL":
		return "lost its node" + on
	case "PREEMPTED":
		return "was preempted" + on + " by another job"
	case "OUT_OF_MEMORY":
		return "ran out of memory" + on + ": a larger --memory gives it more"
	case "COMPLETED":
		return "ended" + on
	}
	return fmt.Sprintf("ended%s as %s (%s, exit code %s)", on, s.State, s.Reason, s.Exit)
}
