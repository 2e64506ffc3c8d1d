package bridge

import (
	"fmt"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// RequeueExit is the exit code by which a job says that it has saved and gives way. It must be in RequeueExit of
// slurm.conf.
const RequeueExit = 98

// Loss is a job that declared a checkpoint and ended for good after it was asked to save and leave. It is not asked
// again, and its user is told the likely cause.
type Loss struct {
	Job     int       `json:"job"`
	User    string    `json:"user"`
	Profile string    `json:"profile"`
	End     slurm.End `json:"end"`
	Cause   Cause     `json:"cause"`
	Why     string    `json:"why"` // what the job did, and the likely cause
}

// Cause is the likely cause of a loss, in one word for counting.
type Cause string

// The causes of losses.
const (
	NoTrap        Cause = "no-trap"         // the signal killed it
	ExitZero      Cause = "exit-zero"       // it may have saved, and exited with 0, so Slurm regards it as complete
	NoRequeueExit Cause = "no-requeue-exit" // it exited with the requeue code, which Slurm does not know as one
	SaveFailed    Cause = "save-failed"     // it exited with another code
)

// Causes are all causes of losses.
func Causes() []Cause { return []Cause{NoTrap, ExitZero, NoRequeueExit, SaveFailed} }

// signalNumbers are the Linux numbers of the signals by which a job may be asked to save (directive.Directives.Signal).
var signalNumbers = map[string]int{"HUP": 1, "INT": 2, "USR1": 10, "USR2": 12, "TERM": 15}

// externalEndStates are the end states that a user, an administrator, Slurm or a time limit causes; empty is an unknown
// one. They say nothing about the job's checkpoint.
var externalEndStates = []string{"", "BOOT_FAIL", "CANCELLED", "DEADLINE", "NODE_FAIL", "PREEMPTED", "TIMEOUT"}

// classifyEnd says whether a job that was asked by a signal, and has ended, ended because of that (lost), and if so
// why: the cause for counting, and a sentence for its user. If something else ended it, it is not lost, and both are
// empty. A shell reports a command that was killed by signal n as exit code 128+n.
func classifyEnd(signal slurm.Signal, end slurm.End) (cause Cause, why string, lost bool) {
	switch {
	case slices.Contains(externalEndStates, end.State):
		return "", "", false
	case end.Signal != 0 && end.Signal == signalNumbers[signal.Name], end.Code == 128+signalNumbers[signal.Name]:
		return NoTrap, fmt.Sprintf("was killed by %s, which it had declared as its signal to save: nothing in %s",
			signal, trapHint(signal.To)), true
	case end.State == "COMPLETED":
		return ExitZero,
			fmt.Sprintf(
				"ended with exit code 0 after it was asked to save: unless it had just finished, it saves and leaves "+
					"without saying that it wants to go on; it has to %s", requeueHint(signal.To)), true
	case end.Code == RequeueExit:
		return NoRequeueExit,
			fmt.Sprintf("saved and exited with %d, and Slurm did not requeue it: slurm.conf lacks RequeueExit=%d",
				RequeueExit, RequeueExit), true
	}
	return SaveFailed,
		fmt.Sprintf("failed with exit code %d, signal %d, after it was asked to save: it has to %s when it has saved",
			end.Code, end.Signal, requeueHint(signal.To)), true
}

// trapHint says which processes should have caught the signal that killed the job; to is which processes get the
// signal.
func trapHint(to slurm.Target) string {
	if to == slurm.Steps {
		return "the tasks of its steps catches it"
	}
	return "its batch script catches it (no trap, or one that waits behind a command in the foreground)"
}

// requeueHint says how the job should get back into the queue after it has saved; to is which processes get the signal.
// A job may also requeue itself, whichever these are.
func requeueHint(to slurm.Target) string {
	if to == slurm.Steps {
		return fmt.Sprintf("requeue itself (scontrol requeue $SLURM_JOB_ID), or to exit with %d,", RequeueExit)
	}
	return fmt.Sprintf("exit with %d", RequeueExit)
}

// reportLostJobs reports, once each, those of these jobs that ended for good after they were asked to save and leave.
// Jobs without a checkpoint are left out: they were requeued and got no signal. The record keeps the cause as long as
// Slurm lists the job, so that a job that its user requeues is not asked, and lost, again.
func (t *activeRound) reportLostJobs(jobs []*managedJob) {
	for _, tn := range jobs {
		r := tn.record
		if r == nil || r.Asked.IsZero() || r.Lost != "" || tn.State != slurm.Finished || tn.Completing {
			// A job that exits with the requeue code is shown as failed until its cleanup is over, and then requeued.
			continue
		}
		cause, why, lost := classifyEnd(tn.signal(), tn.End)
		if !tn.directives.Saves || !lost {
			continue
		}
		r.Lost = cause
		t.report.Lost = append(t.report.Lost, Loss{tn.ID, tn.User, tn.directives.Profile, tn.End, cause, why})
	}
}

// reportLostVictims does what reportLostJobs does for the jobs that this round preempted, as they were last observed,
// so that such a loss is in the report of the round that asked the job.
func (a *executor) reportLostVictims() {
	for _, s := range a.steps.filter(func(s *step) bool { return s.Verb == Preempt }) {
		left := *s.job
		left.Job = a.seenNow(s.Job)
		a.round.reportLostJobs([]*managedJob{&left})
	}
}
