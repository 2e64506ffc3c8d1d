package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Status is what Slurm says of a job.
type Status struct {
	State  string // base state, as PENDING
	Reason string // why it waits, or how it ended; empty: None
	Node   string // that it has; empty: none yet
	Exit   string // exit status and signal, as 0:53
	// Partition it is in, and its user's comment. Who gives a job a name can have it say here what he likes of it.
	Partition, Comment string
}

// ErrForgotten says that Slurm does not know a job any more, or never has.
var ErrForgotten = errors.New("not known to Slurm any more")

// Look asks for a job's status.
func Look(ctx context.Context, id ID) (Status, error) {
	said, err := program(ctx, os.Environ(), "scontrol", "--oneliner", "show", "job", string(id))
	switch {
	case err != nil && strings.Contains(said.output+said.errors, "Invalid job id"):
		return Status{}, fmt.Errorf("job %s: %w", id, ErrForgotten)
	case err != nil:
		return Status{}, fmt.Errorf("scontrol show job %s: %w", id, said.or(err))
	}
	return parseStatus(id, said.output)
}

func parseStatus(id ID, line string) (Status, error) {
	line, _, _ = strings.Cut(line, "\n") // the parts of an array come in lines of their own
	if field(line, "JobId") != string(id) {
		return Status{}, fmt.Errorf("scontrol show job %s: %.80q: want the job's record", id, oneLine(line))
	}
	s := Status{State: field(line, "JobState"), Reason: field(line, "Reason"), Node: field(line, "NodeList"),
		Exit: field(line, "ExitCode"), Partition: field(line, "Partition"), Comment: rest(line, "Comment")}
	if s.Reason == "None" {
		s.Reason = ""
	}
	if s.Node == "(null)" {
		s.Node = ""
	}
	return s, nil
}

// field is a value of scontrol's records, where it first occurs: the job's own name is ours and has no spaces, what
// its owner wrote comes later.
func field(line, name string) string {
	at := regexp.MustCompile(`(?:^|\s)` + regexp.QuoteMeta(name) + `=(\S*)`).FindStringSubmatch(line)
	if at == nil {
		return ""
	}
	return oneLine(at[1])
}

// rest is a value of scontrol's records that may have spaces: up to the next name.
func rest(line, name string) string {
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

// nextName begins with a capital, as those of our own words in comments do not.
var nextName = regexp.MustCompile(`\s[A-Z][A-Za-z:/]*=`)

// Waits says that a job has not begun.
func (s Status) Waits() bool {
	return s.State == "PENDING" || s.State == "CONFIGURING" || s.State == "REQUEUED" || s.State == "REQUEUE_HOLD" ||
		s.State == "SPECIAL_EXIT"
}

// Ended says that a job runs no more and will not again.
func (s Status) Ended() bool {
	switch s.State {
	case "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING", "":
		return false
	}
	return !s.Waits()
}

// reasons are what Slurm's mean to somebody who waits; of others its own word has to do.
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

// Waiting says for what a job waits, with Slurm's own word.
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

// Ending says how a job ended that did not end well, as the end of a sentence that begins with the job.
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
