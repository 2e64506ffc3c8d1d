package bridge

import (
	"strings"
	"testing"
)

func TestHowAJobEndedThatWasAskedToSaveSaysWhatIsWrongWithIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal string // for the batch script, or with /steps behind it
		end    End
		want   Cause // empty: nothing is held against it
		says   string
	}{
		{"killed by the signal itself", "USR1", End{State: "FAILED", Signal: 10}, NoTrap, "trap"},
		{"killed by another one's signal", "USR1", End{State: "FAILED", Signal: 11}, SaveFailed, "signal 11"},
		{"whose shell tells of a child that was killed", "USR2", End{State: "FAILED", Code: 140}, NoTrap, "USR2"},
		{"that ended well", "USR1", End{State: "COMPLETED"}, ExitZero, "exit with 98"},
		{"with the requeue code, for good", "USR1", End{State: "FAILED", Code: 98}, NoRequeueExit, "RequeueExit=98"},
		{"that failed", "USR1", End{State: "FAILED", Code: 1}, SaveFailed, "exit code 1"},
		{"killed for its memory while it saved", "USR1", End{State: "OUT_OF_MEMORY", Signal: 9}, SaveFailed,
			"signal 9"},
		{"whose tasks were killed", "USR1/steps", End{State: "FAILED", Code: 138}, NoTrap,
			"nothing in the tasks of its steps"},
		{"that could not requeue itself", "USR2/steps", End{State: "FAILED", Code: 255}, SaveFailed,
			"scontrol requeue"},
		{"whose tasks ended well", "USR1/steps", End{State: "COMPLETED"}, ExitZero, "scontrol requeue"},
		{"that its user cancelled", "USR1", End{State: "CANCELLED", Signal: 15}, "", ""},
		{"that its user cancelled, where TERM asks", "TERM", End{State: "CANCELLED", Signal: 15}, "", ""},
		{"at its time limit", "USR1", End{State: "TIMEOUT"}, "", ""},
		{"with its node", "USR1", End{State: "NODE_FAIL"}, "", ""},
		{"that Slurm preempted for a partition that goes first", "TERM", End{State: "PREEMPTED", Signal: 15}, "", ""},
		{"whose node did not boot", "USR1", End{State: "BOOT_FAIL"}, "", ""},
		{"at its deadline", "USR1", End{State: "DEADLINE"}, "", ""},
		{"of which Slurm says nothing", "USR1", End{}, "", ""},
	} {
		name, to, _ := strings.Cut(c.signal, "/")
		cause, why, lost := judge(Signal{name, Target(to)}, c.end)
		if cause != c.want || lost != (c.want != "") || !strings.Contains(why, c.says) {
			t.Errorf("a job %s: %q, lost %v: %s; want %q", c.name, cause, lost, why, c.want)
		}
	}
}
