package slurmrest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

func TestASignalReachesTheBatchScriptOfARunningJob(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	id := fake.jobNamed(t, "running")
	for _, name := range []string{"USR1", "SIGUSR1"} {
		if err := client.Signal(t.Context(), id, slurm.Signal{Name: name}); err != nil {
			t.Fatal(err)
		}
		equal(t, name, fake.saw(), []string{get(id), fmt.Sprintf("DELETE /job/%d?signal=USR1&flags=BATCH_JOB", id)})
	}
}

var usr1 = slurm.Signal{Name: "USR1"}

func TestASignalForTheStepsSparesTheBatchScript(t *testing.T) {
	old, oldest, _ := watched(t, Options{})
	new, newest := newer(t)
	for fake, client := range map[*fakeSlurmrestd]*Client{old: oldest, new: newest} {
		id := fake.jobNamed(t, "running")
		if err := client.Signal(t.Context(), id, slurm.Signal{Name: "USR2", To: slurm.Steps}); err != nil {
			t.Fatal(err)
		}
		equal(t, client.Version(), fake.saw(), []string{get(id),
			fmt.Sprintf("DELETE /job/%d?signal=USR2&flags=FULL_STEPS_ONLY", id)})
	}
}

// A DELETE without flags reaches everybody in the job.
func TestASignalForNobodyThatIsKnownIsNeverSent(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	id := fake.jobNamed(t, "running")
	for _, to := range []slurm.Target{"all", "Steps", " "} {
		if err := client.Signal(t.Context(), id, slurm.Signal{Name: "USR1", To: to}); !errors.Is(err,
			slurm.ErrRefused) {
			t.Errorf("to %q: %v, want refused", to, err)
		}
	}
	if calls := fake.saw(); len(calls) > 0 {
		t.Errorf("%q were sent", calls)
	}
}

// A DELETE without a signal, or with one that slurmrestd cannot read, is a kill.
func TestADeleteWithoutAKnownSignalIsNeverSent(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	id := fake.jobNamed(t, "running")
	for _, name := range []string{"", " ", "SIG", "KILL", "9", "usr1", "USR1 ", "USR1&signal=KILL", "STOP", "USR3"} {
		if err := client.Signal(t.Context(), id, slurm.Signal{Name: name}); !errors.Is(err, slurm.ErrRefused) {
			t.Errorf("%q: %v, want refused", name, err)
		}
	}
	if err := client.Signal(t.Context(), 0, usr1); !errors.Is(err, slurm.ErrRefused) {
		t.Errorf("job 0: %v, want refused", err)
	}
	if calls := fake.saw(); len(calls) > 0 {
		t.Errorf("%q were sent", calls)
	}
}

func TestANoRequeueJobIsMadeRequeueableBeforeItIsAsked(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	id := fake.jobNamed(t, "running")
	fake.set(id, "requeue", false)
	if err := client.Signal(t.Context(), id, usr1); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/job/%d", id)
	equal(t, "calls", fake.saw(), []string{"GET " + path, "POST " + path,
		"DELETE " + path + "?signal=USR1&flags=BATCH_JOB"})
	if body := fake.lastBody(); body != `{"requeue":true}` {
		t.Errorf("sent %s", body)
	}
	fake.set(id, "requeue", false)
	fake.answers("POST", path, always(500, "update-denied.json"))
	fake.saw()
	if err := client.Signal(t.Context(), id, usr1); !errors.Is(err, slurm.ErrDenied) {
		t.Errorf("%v: want denied", err)
	}
	if calls := fake.saw(); slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "DELETE") }) {
		t.Errorf("%q: a job that would be lost was asked", calls)
	}
}

func TestOnlyARunningJobIsSignalled(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{})
	for _, name := range []string{"gated", "held", "cancelled", "requeued", "suspended", "finished"} {
		if err := client.Signal(t.Context(), fake.jobNamed(t, name), usr1); !errors.Is(err, slurm.ErrNotRunning) {
			t.Errorf("%s: %v, want not running", name, err)
		}
	}
	if err := client.Signal(t.Context(), 999999, usr1); !errors.Is(err, slurm.ErrGone) {
		t.Errorf("%v: want gone", err)
	}
	if calls := fake.saw(); slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "DELETE") }) {
		t.Errorf("%q: a signal was sent", calls)
	}
}

// slurmrestd answers 200 without errors for a signal that slurmctld refused, and hides that in a status.
func TestARefusedSignalIsNotTakenForASuccess(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	id := fake.jobNamed(t, "running")
	fake.answers("DELETE", fmt.Sprintf("/job/%d", id), always(200, "signal-pending.json"))
	err := client.Signal(t.Context(), id, usr1)
	if !errors.Is(err, slurm.ErrNotRunning) || !strings.HasSuffix(err.Error(),
		"200 error 2020 Job can not be altered now, try again later") {
		t.Errorf("%v: want not running, in Slurm's words", err)
	}
}

// fakeScontrol writes down how it was called, then does what the script says.
func fakeScontrol(t *testing.T, script string) (argv []string, log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "calls")
	return []string{"/bin/sh", "-c", `log=$0; printf '%s\n' "$@" >>"$log"; env | sort >"$log.env"; ` + script, log}, log
}

func TestARequeueIsScontrolWithArgumentsAndNothingOfOurEnvironment(t *testing.T) {
	t.Setenv("SECRET", "of the daemon")
	t.Setenv("SLURM_JWT", "of the daemon")
	t.Setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
	argv, log := fakeScontrol(t, "exit 0")
	fake, client, _ := watched(t, Options{Scontrol: argv})
	id := fake.jobNamed(t, "running")
	fake.set(id, "requeue", false)
	if err := client.Requeue(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	equal(t, "arguments", lines(t, log), []string{"requeue", "Incomplete", fmt.Sprint(id)})
	if body := fake.lastBody(); body != `{"requeue":true}` {
		t.Errorf("sent %s first: scontrol refuses a --no-requeue job", body)
	}
	environment := strings.Join(lines(t, log+".env"), " ")
	if strings.Contains(environment, "of the daemon") || !strings.Contains(environment,
		"SLURM_CONF=/etc/slurm/slurm.conf") {
		t.Errorf("environment %s", environment)
	}
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func TestScontrolGetsTheTokenOnlyWhenItIsTold(t *testing.T) {
	argv, log := fakeScontrol(t, "exit 0")
	fake, client, _ := watched(t, Options{Scontrol: argv, ScontrolByToken: true})
	if err := client.Requeue(t.Context(), fake.jobNamed(t, "running")); err != nil {
		t.Fatal(err)
	}
	if environment := lines(t, log+".env"); !slices.Contains(environment, "SLURM_JWT="+secret) {
		t.Errorf("environment %q", environment)
	}
}

func TestAJobThatWaitsAlreadyIsNotRequeued(t *testing.T) {
	argv, log := fakeScontrol(t, "exit 1")
	fake := startFake(t)
	client := fake.open(t, Options{Scontrol: argv})
	for _, name := range []string{"gated", "held", "requeued"} {
		if err := client.Requeue(t.Context(), fake.jobNamed(t, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]error{"cancelled": slurm.ErrNotRunning, "finished": slurm.ErrNotRunning} {
		if err := client.Requeue(t.Context(), fake.jobNamed(t, name)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if err := client.Requeue(t.Context(), 999999); !errors.Is(err, slurm.ErrGone) {
		t.Errorf("%v: want gone", err)
	}
	if _, err := os.Stat(log); err == nil {
		t.Error("scontrol was run")
	}
}

func TestARequeueThatScontrolRefusesIsJudgedByTheJob(t *testing.T) {
	for _, c := range []struct {
		name  string
		after string // state once scontrol has failed
		want  error
	}{
		{"refused", "RUNNING", slurm.ErrRefused},
		{"ended meanwhile", "COMPLETED", slurm.ErrNotRunning},
		{"requeued meanwhile", "PENDING", nil},
	} {
		argv, _ := fakeScontrol(t, "echo 'Requested operation is presently disabled for job' >&2; exit 1")
		fake, client, _ := watched(t, Options{Scontrol: argv})
		id := fake.jobNamed(t, "running")
		looked := 0
		client.options.OnCall = func(Call) {
			if looked++; looked == 1 {
				fake.set(id, "job_state", []string{c.after})
			}
		}
		err := client.Requeue(t.Context(), id)
		if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), "presently disabled") {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestAScontrolThatHangsIsUnreachable(t *testing.T) {
	argv, _ := fakeScontrol(t, "exec sleep 60")
	fake, client, _ := watched(t, Options{Scontrol: argv, Timeout: 300 * time.Millisecond})
	if err := client.Requeue(t.Context(), fake.jobNamed(t, "running")); !errors.Is(err, slurm.ErrUnreachable) {
		t.Errorf("%v: want unreachable", err)
	}
}

func TestAMissingScontrolIsNamed(t *testing.T) {
	fake, client, _ := watched(t, Options{Scontrol: []string{"/nonexistent/scontrol"}})
	if err := client.Requeue(t.Context(), fake.jobNamed(t, "running")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v: want that the file does not exist", err)
	}
}
