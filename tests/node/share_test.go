package node

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	onnode "github.com/synergy-slurmd/synergy-slurmd/share/node"
)

// TestMain is the broker's program, too: what Prolog, Epilog and TaskProlog call is this test's own binary.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "broker" {
		os.Exit(asBroker(os.Args[2], os.Args[3]))
	}
	os.Exit(m.Run())
}

func asBroker(dir, verb string) int {
	var err error
	switch verb {
	case "stamp":
		err = onnode.Stamp(os.Environ(), dir)
	case "unstamp":
		err = onnode.Unstamp(os.Environ(), dir)
	case "env":
		err = onnode.Env(os.Environ(), dir, os.Stdout)
	default:
		err = fmt.Errorf("%s: want stamp, unstamp or env", verb)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// logged is what the prolog of a job that shares a GPU has the system's log say, each argument in a line.
func (w Way) logged(t *testing.T, env ...string) string {
	t.Helper()
	path := w.logger + ".said"
	script := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$@\" >>%q\n", path)
	if err := os.WriteFile(w.logger, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	w.note(t, append(env, id, comment)...)
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	_ = os.Remove(path)
	return string(text)
}

// TestTheAdministratorHearsOfAJobThatCouldNotBeStamped, and of no other: in one line, whatever the program says.
func TestTheAdministratorHearsOfAJobThatCouldNotBeStamped(t *testing.T) {
	const as = "-t\nsynergy-broker\n-p\ndaemon.warning\n--\nprolog of job 4711: "
	const room = 300 - len("prolog of job 4711: ")
	w, dir := brokered(t)
	if said := w.logged(t, append(onGPU("1"), sharing)...); said != "" {
		t.Errorf("of a job that is stamped: %q", said)
	}
	if said := w.logged(t, annotation); said != "" {
		t.Errorf("of a job that shares nothing: %q", said)
	}
	want := as + `stamp a job: SLURM_JOB_GPUS="0,1": want one whole number, 0 to 999999999, in digits alone` + "\n"
	if said := w.logged(t, append(onGPU("0,1"), sharing)...); said != want {
		t.Errorf("of several GPUs: %q, want %q", said, want)
	}
	if last, err := onnode.LastUnstamped(dir); err != nil || last.N != 1 || last.Job != 4711 {
		t.Errorf("the broker is told %+v, %v", last, err)
	}
	if err := os.Chmod(filepath.Join(dir, "jobs"), 0o777); err != nil {
		t.Fatal(err)
	}
	said := w.logged(t, append(onGPU("1"), sharing)...)
	if !strings.HasPrefix(said, as+"stamp a job: "+dir+"/jobs: want a folder of user ") {
		t.Errorf("of a folder that others write: %q", said)
	}
	for line, want := range map[string]string{
		"echo synergy-broker: no >&2; exit 1": "synergy-broker: no",
		"kill -9 $$":                          "synergy-broker stamp ended with 137 and said nothing",
		"exit 3":                              "synergy-broker stamp ended with 3 and said nothing",
		`printf 'a\033[31m\nb\r\tc\001%%s\302\233' >&2; exit 1`:   "a [31m b  c %s  ",
		"printf '$(touch owned) `touch owned` \" %s' >&2; exit 1": "$(touch owned) `touch owned` \" ",
		"head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1":      strings.Repeat("x", room),
		"yes | head -c 100000 >&2; exit 1":                        strings.Repeat("y ", room/2),
		"echo warning >&2":                                        "",
		"echo out; exit 0":                                        "",
	} {
		if want != "" {
			want = as + want + "\n"
		}
		w.install(t, line)
		if said := w.logged(t, append(onGPU("1"), sharing)...); said != want {
			t.Errorf("%s: %q, want %q", line, said, want)
		}
	}
	if _, err := os.Stat("owned"); err == nil {
		t.Error("a shell has read what a program said")
	}
}

// TestOfPrologsThatRunAtTheSameTimeNoneIsLost: each program counts on from the one before.
func TestOfPrologsThatRunAtTheSameTimeNoneIsLost(t *testing.T) {
	const jobs = 100
	w, dir := brokered(t)
	var all []*exec.Cmd
	for range jobs {
		cmd := exec.Command(w.broker, "stamp")
		cmd.Env = append(onGPU("0,1"), id, sharing)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err == nil {
			t.Error("a job with two GPUs is stamped")
		}
	}
	if last, err := onnode.LastUnstamped(dir); err != nil || last.N != jobs {
		t.Errorf("the last is %+v, %v, want number %d", last, err, jobs)
	}
}

// TestALogThatTakesNothingHoldsNoJobUp: the log may fail, hang, or be none.
func TestALogThatTakesNothingHoldsNoJobUp(t *testing.T) {
	w := scripts(t)
	w.install(t, "echo broken >&2; exit 1")
	for name, line := range map[string]string{"fails": "echo no >&2; exit 1", "hangs": "exec sleep 60",
		"is none": "\x00"} {
		if err := os.WriteFile(w.logger, []byte("#!/bin/sh\n"+line+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		if note := w.note(t, append(onGPU("1"), id, comment, sharing)...); note != "restarts=0\nround=42\n" {
			t.Errorf("a log that %s: the note is %q", name, note)
		}
		if took := time.Since(before); took > 20*time.Second {
			t.Errorf("a log that %s: the prolog took %v", name, took)
		}
	}
}

// install puts a program where the scripts look for the broker's; it is called with this line of shell.
func (w Way) install(t *testing.T, line string) {
	t.Helper()
	if err := os.WriteFile(w.broker, []byte("#!/bin/sh\n"+line+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// brokered are the scripts on a node where the broker of GPU 1 listens, and the folder of its stamps.
func brokered(t *testing.T) (w Way, dir string) {
	t.Helper()
	w = scripts(t)
	dir = w.turns
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w.install(t, fmt.Sprintf(`exec %q broker %q "$1"`, self, dir))
	listener, err := net.Listen("unix", onnode.SocketPath(dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return w, dir
}

const sharing = `SLURM_JOB_EXTRA={"v":1,"lua":0,"job":4711,"round":42,"begin":0,` +
	`"share":{"class":"low","gpu_memory_mib":6144,"slo_ms":50,"device":"g1"}}`

// onGPU is what Slurm says of a job of this user to Prolog.
func onGPU(index string) []string {
	return []string{"SLURM_JOB_GPUS=" + index, "SLURM_JOB_UID=" + strconv.Itoa(os.Getuid())}
}

func TestAJobThatSharesAGPUIsStampedAndItsTasksFindTheBroker(t *testing.T) {
	w, dir := brokered(t)
	if note := w.note(t, append(onGPU("1"), id, comment, sharing)...); note != "restarts=0\nround=42\n" {
		t.Errorf("the note is %q", note)
	}
	want := share.Stamp{V: 1, Job: 4711, UID: os.Getuid(), GPU: 1, Class: share.Low, Memory: 6144, SLO: 50}
	if stamp, err := onnode.ReadStamp(dir, 4711); err != nil || stamp != want {
		t.Errorf("%+v, %v; want %+v", stamp, err, want)
	}
	seat := granted("SLURM_GPUS_ON_NODE=-", "SLURM_SHARDS_ON_NODE=1", "SLURM_GPUS=1")
	env := w.environment(t, "restarts=0\nround=42\nenv=1\n", seat)
	if env["SYNERGY_TURN_SOCK"] != onnode.SocketPath(dir, 1) || env["SYNERGY_GPUS"] != "1" || env["SLURM_GPUS"] != "" {
		t.Errorf("a task has %q", asList(env))
	}
	// synergy-env=off is about cores; the job has asked for its share of a GPU by a word of its own
	if env := w.environment(t, "", seat); env["SYNERGY_TURN_SOCK"] == "" || env["SYNERGY_CPUS"] != "" {
		t.Errorf("with synergy-env=off a task has %q", asList(env))
	}
	if _, err := w.run("epilog", append(onGPU("1"), id, comment, sharing, "PATH=/usr/bin:/bin")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(onnode.StampPath(dir, 4711)); err == nil {
		t.Error("the stamp outlives the epilog")
	}
	if env := w.environment(t, "", seat); env["SYNERGY_TURN_SOCK"] != "" {
		t.Errorf("after it a task has %q", asList(env))
	}
}

func TestAJobThatSharesNothingIsAsOnANodeWithoutABroker(t *testing.T) {
	with, dir := brokered(t)
	without := scripts(t)
	for name, env := range map[string][]string{
		"no word of the daemon's": {id, comment, annotation},
		"several GPUs":            append(onGPU("0,1"), id, comment, sharing),
		"no GPU":                  {id, comment, sharing},
		"another job's":           append(onGPU("1"), id, comment, strings.Replace(sharing, "4711", "4712", 1)),
		"a class that is none":    append(onGPU("1"), id, comment, strings.Replace(sharing, "low", "$(id)", 1)),
	} {
		if one, other := with.note(t, env...), without.note(t, env...); one != other {
			t.Errorf("%s: keeps %q, without a broker %q", name, one, other)
		}
		if stamp, err := onnode.ReadStamp(dir, 4711); err == nil {
			t.Errorf("%s: stamped %+v", name, stamp)
		}
		one := with.environment(t, "restarts=0\nround=42\n", granted("SLURM_GPUS=1"))
		if other := without.environment(t, "restarts=0\nround=42\n", granted("SLURM_GPUS=1")); !maps.Equal(one, other) {
			t.Errorf("%s: a task has %q, without a broker %q", name, asList(one), asList(other))
		}
	}
}

// TestAJobRunsWhateverIsWrongWithTheBrokersProgram: it fails, says much, or is no program. Prolog would drain the node.
func TestAJobRunsWhateverIsWrongWithTheBrokersProgram(t *testing.T) {
	for name, line := range map[string]string{
		"it fails":           "echo broken >&2; exit 1",
		"it is killed":       "kill -9 $$",
		"it reads its input": "cat",
		"it is no program":   "\x00",
	} {
		w, sound := scripts(t), scripts(t)
		w.install(t, line)
		if err := os.MkdirAll(filepath.Join(w.turns, "jobs"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(onnode.StampPath(w.turns, 4711), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if one, other := w.note(t, id, comment, annotation), sound.note(t, id, comment, annotation); one != other {
			t.Errorf("%s: keeps %q, want %q", name, one, other)
		}
		one := w.environment(t, "restarts=1\nround=42\n", granted())
		if other := sound.environment(t, "restarts=1\nround=42\n", granted()); !maps.Equal(one, other) {
			t.Errorf("%s: a task has %q, want %q", name, asList(one), asList(other))
		}
		if _, err := w.run("epilog", []string{id, "PATH=/usr/bin:/bin"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(w.notes, job)); err == nil {
			t.Errorf("%s: the note outlives the epilog", name)
		}
	}
}

// TestAJobThatSharesNothingStartsNoProgramOfTheBrokers: what it costs is for those who want it.
func TestAJobThatSharesNothingStartsNoProgramOfTheBrokers(t *testing.T) {
	w := scripts(t)
	called := filepath.Join(w.turns, "called")
	w.install(t, fmt.Sprintf("echo $1 >>%q", called))
	calls := func() string {
		text, _ := os.ReadFile(called)
		_ = os.Remove(called)
		return strings.ReplaceAll(string(text), "\n", " ")
	}
	run := func(extra string, env ...string) string {
		w.note(t, append(onGPU("1"), id, comment, extra)...)
		w.environment(t, "restarts=0\nround=42\n", granted(env...))
		if _, err := w.run("epilog", []string{id, "PATH=/usr/bin:/bin"}); err != nil {
			t.Error(err)
		}
		return calls()
	}
	if got := run(annotation); got != "" {
		t.Errorf("a job that shares nothing: %s", got)
	}
	if got := run(sharing); got != "stamp " {
		t.Errorf("a job whose stamp could not be kept: %s", got)
	}
	for _, name := range []string{"SYNERGY_TURN_SOCK", "SYNERGY_SHARE_SET"} {
		if got := run(annotation, name+"=x"); got != "env " {
			t.Errorf("a job from inside of one that shares, by %s: %s", name, got)
		}
	}
	if err := os.MkdirAll(filepath.Join(w.turns, "jobs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(onnode.StampPath(w.turns, 4711), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := run(annotation); got != "stamp env unstamp " {
		t.Errorf("a job of which a run before has left a stamp: %s", got)
	}
}
