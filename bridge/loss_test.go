package bridge

import (
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

func TestHowAJobEndedThatWasAskedToSaveSaysWhatIsWrongWithIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal string // for the batch script, or with /steps behind it
		end    slurm.End
		want   Cause // empty: nothing is held against it
		says   string
	}{
		{"killed by the signal itself", "USR1", slurm.End{State: "FAILED", Signal: 10}, NoTrap, "trap"},
		{"killed by another one's signal", "USR1", slurm.End{State: "FAILED", Signal: 11}, SaveFailed, "signal 11"},
		{"whose shell tells of a child that was killed", "USR2", slurm.End{State: "FAILED", Code: 140}, NoTrap, "USR2"},
		{"that ended well", "USR1", slurm.End{State: "COMPLETED"}, ExitZero, "exit with 98"},
		{"with the requeue code, for good", "USR1", slurm.End{State: "FAILED", Code: 98}, NoRequeueExit,
			"RequeueExit=98"},
		{"that failed", "USR1", slurm.End{State: "FAILED", Code: 1}, SaveFailed, "exit code 1"},
		{"killed for its memory while it saved", "USR1", slurm.End{State: "OUT_OF_MEMORY", Signal: 9}, SaveFailed,
			"signal 9"},
		{"whose tasks were killed", "USR1/steps", slurm.End{State: "FAILED", Code: 138}, NoTrap,
			"nothing in the tasks of its steps"},
		{"that could not requeue itself", "USR2/steps", slurm.End{State: "FAILED", Code: 255}, SaveFailed,
			"scontrol requeue"},
		{"whose tasks ended well", "USR1/steps", slurm.End{State: "COMPLETED"}, ExitZero, "scontrol requeue"},
		{"that its user cancelled", "USR1", slurm.End{State: "CANCELLED", Signal: 15}, "", ""},
		{"that its user cancelled, where TERM asks", "TERM", slurm.End{State: "CANCELLED", Signal: 15}, "", ""},
		{"at its time limit", "USR1", slurm.End{State: "TIMEOUT"}, "", ""},
		{"with its node", "USR1", slurm.End{State: "NODE_FAIL"}, "", ""},
		{"that Slurm preempted for a partition that goes first", "TERM", slurm.End{State: "PREEMPTED", Signal: 15},
			"", ""},
		{"whose node did not boot", "USR1", slurm.End{State: "BOOT_FAIL"}, "", ""},
		{"at its deadline", "USR1", slurm.End{State: "DEADLINE"}, "", ""},
		{"of which Slurm says nothing", "USR1", slurm.End{}, "", ""},
	} {
		name, to, _ := strings.Cut(c.signal, "/")
		cause, why, lost := classifyEnd(slurm.Signal{Name: name, To: slurm.Target(to)}, c.end)
		if cause != c.want || lost != (c.want != "") || !strings.Contains(why, c.says) {
			t.Errorf("a job %s: %q, lost %v: %s; want %q", c.name, cause, lost, why, c.want)
		}
	}
}
