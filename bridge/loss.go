package bridge

import (
	"fmt"
	"slices"
)

// RequeueExit is the exit code with which a job says that it has saved and gives way: RequeueExit in slurm.conf.
const RequeueExit = 98

// Loss is a job that did not come back after it was asked to save and leave, although it had declared that it would.
type Loss struct {
	Job     int    `json:"job"`
	User    string `json:"user"`
	Profile string `json:"profile"`
	End     End    `json:"end"`
	Cause   Cause  `json:"cause"`
	Why     string `json:"why"` // what it did, and the likely cause
}

// Cause is the likely cause of a loss, in one word for counting.
type Cause string

// The causes of losses.
const (
	NoTrap        Cause = "no-trap"         // the signal killed it
	ExitZero      Cause = "exit-zero"       // it saved, perhaps, and ended well: for Slurm it is done
	NoRequeueExit Cause = "no-requeue-exit" // it did as it should, and Slurm was not told what that code means
	SaveFailed    Cause = "save-failed"     // it ended with another code
)

// Causes are all of them.
func Causes() []Cause { return []Cause{NoTrap, ExitZero, NoRequeueExit, SaveFailed} }

// numbers are the signals that a job may be asked with, as Linux counts them on the machines that Slurm runs on.
var numbers = map[string]int{"HUP": 1, "INT": 2, "USR1": 10, "USR2": 12, "TERM": 15}

// others are the states of a job that its user, an administrator, Slurm or the time limit ended.
var others = []string{"", "BOOT_FAIL", "CANCELLED", "DEADLINE", "NODE_FAIL", "PREEMPTED", "TIMEOUT"}

// judge says what became of a job that was asked with a signal and is over. Where others ended it nothing of that is
// held against the signal: it is not lost.
func judge(signal Signal, end End) (cause Cause, why string, lost bool) {
	switch {
	case slices.Contains(others, end.State):
		return "", "", false
	case end.Signal != 0 && end.Signal == numbers[signal.Name], end.Code == 128+numbers[signal.Name]:
		return NoTrap, fmt.Sprintf("was killed by %s, which it had declared as its signal to save: nothing in %s",
			signal, uncaught(signal.To)), true
	case end.State == "COMPLETED":
		return ExitZero,
			fmt.Sprintf(
				"ended with exit code 0 after it was asked to save: unless it had just finished, it saves and leaves "+
					"without saying that it wants to go on; it has to %s", wayBack(signal.To)), true
	case end.Code == RequeueExit:
		return NoRequeueExit,
			fmt.Sprintf("saved and exited with %d, and Slurm did not requeue it: slurm.conf lacks RequeueExit=%d",
				RequeueExit, RequeueExit), true
	}
	return SaveFailed,
		fmt.Sprintf("failed with exit code %d, signal %d, after it was asked to save: it has to %s when it has saved",
			end.Code, end.Signal, wayBack(signal.To)), true
}

// uncaught is where a signal that killed a job should have been caught.
func uncaught(to Target) string {
	if to == Steps {
		return "the tasks of its steps catches it"
	}
	return "its batch script catches it (no trap, or one that waits behind a command in the foreground)"
}

// wayBack is how a job comes back into the queue. A requeue by the job itself is as good as the exit code, whomever the
// signal was for.
func wayBack(to Target) string {
	if to == Steps {
		return fmt.Sprintf("requeue itself (scontrol requeue $SLURM_JOB_ID), or to exit with %d,", RequeueExit)
	}
	return fmt.Sprintf("exit with %d", RequeueExit)
}

// mourn reports the jobs that were asked to leave and are over, each once. Its record keeps the cause for as long as
// Slurm tells of the job: when its user requeues it, it is not asked again.
func (t *turn) mourn(jobs []*managedJob) {
	for _, tn := range jobs {
		r := tn.record
		if r == nil || r.Asked.IsZero() || r.Lost != "" || tn.State != Finished || tn.Completing {
			// Slurm requeues one that exits with the requeue code when its last run is torn down, and shows it as
			// failed until then
			continue
		}
		word := &tn.said.word
		cause, why, lost := judge(word.Signal, tn.End)
		if !word.Saves || !lost {
			continue
		}
		r.Lost = cause
		t.report.Lost = append(t.report.Lost, Loss{tn.ID, tn.User, word.Profile, tn.End, cause, why})
	}
}

// mournVictims does the same for the victims of this round, as they were last seen.
func (a *acting) mournVictims() {
	for _, s := range a.steps.filter(func(s *step) bool { return s.Verb == Preempt }) {
		left := *s.job
		left.Job = a.seenNow(s.Job)
		a.mourn([]*managedJob{&left})
	}
}
