package plugin_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/guest/guesttest"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/exam"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// TestMain is also the plugins that do wrong: a test copies its own program and has it behave as its name says.
func TestMain(m *testing.M) {
	if behave, known := misbehaviours[filepath.Base(os.Args[0])]; known {
		behave()
		return
	}
	goleak.VerifyTestMain(m)
}

// Snapshot and plan of the misbehaviours.
func always(plan func(c policy.Cluster) policy.Plan) func() {
	return func() {
		plugin.Serve(func(_ context.Context, r plugin.Round) (policy.Plan, error) { return plan(r.Cluster), nil })
	}
}

var misbehaviours = map[string]func(){
	"good": func() { plugin.Serve(plugin.Configured()) },
	"late": func() {
		plugin.Serve(func(ctx context.Context, _ plugin.Round) (policy.Plan, error) {
			time.Sleep(time.Hour)
			return policy.Plan{}, nil
		})
	},
	"dies": func() {
		plugin.Serve(func(context.Context, plugin.Round) (policy.Plan, error) {
			fmt.Fprintln(os.Stderr, "out of ideas")
			time.Sleep(100 * time.Millisecond)
			os.Exit(3)
			return policy.Plan{}, nil
		})
	},
	"refuses": func() {
		plugin.Serve(func(context.Context, plugin.Round) (policy.Plan, error) {
			return policy.Plan{}, errors.New("not today\x1b[2J")
		})
	},
	"forgets": always(func(policy.Cluster) policy.Plan { return policy.Plan{} }),
	"greedy": always(func(c policy.Cluster) policy.Plan {
		var plan policy.Plan
		for _, j := range c.Jobs {
			plan.Decisions = append(plan.Decisions, policy.Decision{Job: j.ID,
				Grant: &policy.Placement{Nodes: []string{c.Nodes[0].Name}, PerNode: c.Nodes[0].Total}})
		}
		return plan
	}),
	"wraps": always(func(c policy.Cluster) policy.Plan {
		return waiting(c, func(d *policy.Decision) {
			d.Grant = &policy.Placement{Nodes: []string{"n1"},
				PerNode: gres.Vector{GPUs: 1, CPUs: -1 << 62, Memory: 1 << 62}}
		})
	}),
	"paints": always(func(c policy.Cluster) policy.Plan {
		return waiting(c, func(d *policy.Decision) { d.Why = "\x1b[2Jall is well" })
	}),
	"counts": always(func(c policy.Cluster) policy.Plan {
		return waiting(c, func(d *policy.Decision) { d.Reason = "job \"1\"\n" })
	}),
	"silent": func() { time.Sleep(time.Hour) },
	"slow": func() { // to start
		time.Sleep(1500 * time.Millisecond)
		plugin.Serve(plugin.Configured())
	},
	"stops": func() { // itself, once it listens
		listener, err := net.Listen("unix", os.Getenv("PLUGIN_UNIX_SOCKET_DIR")+"/s")
		if err != nil {
			panic(err)
		}
		fmt.Println("1|1|unix|" + listener.Addr().String() + "|grpc")
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Hour) // the signal may come a moment later
	},
	"escapee": func() { // a child in a session of its own keeps the output open
		child := exec.Command("sleep", "20")
		child.Stdout, child.Stderr, child.SysProcAttr = os.Stdout, os.Stderr, &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			panic(err)
		}
		plugin.Serve(func(context.Context, plugin.Round) (policy.Plan, error) { return policy.Plan{}, nil })
	},
	"repeats": always(func(c policy.Cluster) policy.Plan {
		plan := waiting(c, func(*policy.Decision) {})
		for range 100_000 {
			plan.Decisions = append(plan.Decisions, plan.Decisions[0])
		}
		return plan
	}),
	"names": always(func(c policy.Cluster) policy.Plan {
		return waiting(c, func(d *policy.Decision) {
			d.Grant = &policy.Placement{Nodes: []string{"\x1b[2Jevil"},
				PerNode: gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500}}
		})
	}),
	"spreads": always(func(c policy.Cluster) policy.Plan {
		return waiting(c, func(d *policy.Decision) {
			d.Grant = &policy.Placement{Nodes: slices.Repeat([]string{"n1"}, 1000),
				PerNode: gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500}}
		})
	}),
	"boasts": always(func(c policy.Cluster) policy.Plan {
		return waiting(c, func(d *policy.Decision) {
			d.Gain, d.Grant = 1e9, &policy.Placement{Nodes: []string{"n1"},
				PerNode: gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500}}
		})
	}),
	"waits": always(func(c policy.Cluster) policy.Plan { return waiting(c, func(*policy.Decision) {}) }),
	"moody": func() { // as a file beside it says
		plugin.Serve(func(_ context.Context, r plugin.Round) (policy.Plan, error) {
			if _, err := os.Stat(os.Args[0] + ".mood"); err == nil {
				return policy.Plan{}, nil
			}
			return waiting(r.Cluster, func(*policy.Decision) {}), nil
		})
	},
	"changes": func() { // its mind
		asked := 0
		plugin.Serve(func(_ context.Context, r plugin.Round) (policy.Plan, error) {
			asked++
			return waiting(r.Cluster, func(d *policy.Decision) { d.Why = fmt.Sprint(asked, " were here before") }), nil
		})
	},
	"stranger": func() {
		fmt.Println("1|2|unix|" + os.Getenv("PLUGIN_UNIX_SOCKET_DIR") + "/s|grpc")
		time.Sleep(time.Hour)
	},
	"caller": func() {
		fmt.Println("1|1|tcp|127.0.0.1:22|grpc")
		time.Sleep(time.Hour)
	},
	"escapes": func() {
		fmt.Println("1|1|unix|/run/other.sock|grpc")
		time.Sleep(time.Hour)
	},
	"tells": func() { // what it was told
		plugin.Serve(func(context.Context, plugin.Round) (policy.Plan, error) {
			return policy.Plan{}, errors.New(strings.Join(os.Environ(), " "))
		})
	},
	"numbers": func() {
		plugin.Serve(func(context.Context, plugin.Round) (policy.Plan, error) {
			return policy.Plan{}, fmt.Errorf("process %d", os.Getpid())
		})
	},
	"host": func() { // a daemon that is killed: its argument is the plugin
		planner := plugin.New(os.Args[1], "", 10*time.Second, nil)
		_, err := planner.Ask(context.Background(), 1, small(), policy.FIFO(), policy.Tune())
		fmt.Println(err)
		time.Sleep(time.Hour)
	},
	"breeds": func() { // a child that would outlive it
		child := exec.Command("sleep", "3600")
		if err := child.Start(); err != nil {
			panic(err)
		}
		plugin.Serve(func(context.Context, plugin.Round) (policy.Plan, error) {
			return policy.Plan{}, fmt.Errorf("child %d", child.Process.Pid)
		})
	},
}

func waiting(c policy.Cluster, change func(d *policy.Decision)) policy.Plan {
	var plan policy.Plan
	for _, j := range c.Jobs {
		d := policy.Decision{Job: j.ID, Reason: policy.Turn, Why: "others go first"}
		change(&d)
		plan.Decisions = append(plan.Decisions, d)
	}
	return plan
}

// small is one node and one job.
func small() policy.Cluster {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	return policy.Cluster{
		Now:   now,
		Nodes: []policy.Node{{Name: "n1", Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}}},
		Jobs:  []policy.Job{{ID: 7, GPUs: 1, Arrival: now.Add(-time.Hour), Saves: true}},
	}
}

// open is a planner on a copy of this program under that name.
func open(t testing.TB, behaviour string, limit time.Duration) *plugin.Planner {
	t.Helper()
	planner := plugin.New(guesttest.Copy(t, behaviour), "", limit, nil)
	t.Cleanup(planner.Close)
	return planner
}

func ask(planner *plugin.Planner) (policy.Plan, error) {
	return planner.Plan(context.Background(), 1, small(), policy.FIFO(), policy.Tune())
}

func TestWhateverIsWrongWithAPluginHasItsWord(t *testing.T) {
	for behaviour, want := range map[string]struct {
		fault plugin.Fault
		says  string
	}{
		"late":     {plugin.Late, "no plan within 2s"},
		"dies":     {plugin.Ended, "out of ideas"},
		"refuses":  {plugin.Refused, "not today [2J"},
		"forgets":  {plugin.Invalid, "job 7: no decision"},
		"greedy":   {plugin.Invalid, "8 GPUs on each of 1 nodes, want 1 in all"},
		"wraps":    {plugin.Invalid, "want amounts from 0 to 2^40"},
		"paints":   {plugin.Invalid, "want printable characters"},
		"counts":   {plugin.Invalid, "want one word"},
		"silent":   {plugin.Absent, "still starting"},
		"stops":    {plugin.Absent, "still starting"},
		"repeats":  {plugin.Invalid, "larger than any plan"},
		"names":    {plugin.Invalid, `node "\x1b[2Jevil" is not in the snapshot`},
		"spreads":  {plugin.Invalid, "grant on 1000 nodes"},
		"stranger": {plugin.Absent, "Plugin version: 2"},
		"caller":   {plugin.Absent, "want a unix socket in the folder"},
		"escapes":  {plugin.Absent, "want a unix socket in the folder"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			limit := 30 * time.Second // a slow machine is not what is tried
			if behaviour == "late" || want.says == "still starting" {
				limit = 2 * time.Second
			}
			_, err := ask(open(t, behaviour, limit))
			var failure *plugin.Failure
			if !errors.As(err, &failure) || failure.Fault != want.fault || !strings.Contains(err.Error(), want.says) {
				t.Errorf("got %v, want %s with %q", err, want.fault, want.says)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%q is not fit for a log", err.Error())
			}
		})
	}
}

func TestAPluginThatIsSlowToStartIsThereForALaterRound(t *testing.T) {
	planner := open(t, "slow", 200*time.Millisecond)
	_, err := ask(planner)
	var failure *plugin.Failure
	if !errors.As(err, &failure) || failure.Fault != plugin.Absent {
		t.Fatalf("the first round: %v, want it to be told that the plugin is still starting", err)
	}
	for range 50 {
		if _, err = ask(planner); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("it has never planned: %v", err)
}

func TestNobodyWaitsForWhatAPluginHasLeftBehind(t *testing.T) {
	planner := open(t, "escapee", 5*time.Second)
	began := time.Now()
	_, err := ask(planner)
	planner.Close()
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("a round and the end took %s: %v", took, err)
	}
}

func TestAPluginCannotHaveTheDaemonCallSomebodyElse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	called := make(chan struct{})
	go func() {
		if conn, err := listener.Accept(); err == nil {
			conn.Close()
			close(called)
		}
	}()
	path := filepath.Join(t.TempDir(), "pointer")
	line := fmt.Sprintf("#!/bin/sh\necho '1|1|tcp|%s|grpc'\nsleep 60\n", listener.Addr())
	if err := os.WriteFile(path, []byte(line), 0o755); err != nil {
		t.Fatal(err)
	}
	planner := plugin.New(path, "", 3*time.Second, nil)
	defer planner.Close()
	if _, err := ask(planner); err == nil || !strings.Contains(err.Error(), "want a unix socket") {
		t.Errorf("got %v", err)
	}
	select {
	case <-called:
		t.Error("somebody was called at an address that a plugin had named")
	case <-time.After(300 * time.Millisecond):
	}
}

func TestWhatANewGrantIsWorthIsNotForAPluginToSay(t *testing.T) {
	plan, err := ask(open(t, "boasts", 5*time.Second))
	if err != nil || plan.Decisions[0].Gain != 1 || plan.Decisions[0].Fair.CPUs != 3 {
		t.Errorf("%+v, %v: want a gain of 1 over a share of 3 cores", plan, err)
	}
}

func TestAPluginThatFailedRestsBeforeItIsStartedAgain(t *testing.T) {
	planner := open(t, "forgets", 2*time.Second)
	_, first := ask(planner)
	_, second := ask(planner)
	var failure *plugin.Failure
	if !errors.As(first, &failure) || failure.Fault != plugin.Invalid {
		t.Fatalf("first: %v", first)
	}
	if !errors.As(second, &failure) || failure.Fault != plugin.Resting {
		t.Fatalf("at once after that: %v, want it to rest", second)
	}
	time.Sleep(1100 * time.Millisecond)
	if _, third := ask(planner); !errors.As(third, &failure) || failure.Fault != plugin.Invalid {
		t.Errorf("after its pause: %v, want it to be asked again", third)
	}
	time.Sleep(1100 * time.Millisecond)
	if _, fourth := ask(planner); !errors.As(fourth, &failure) || failure.Fault != plugin.Resting {
		t.Errorf("a second after its second failure: %v, want a longer pause", fourth)
	}
}

func TestARoundThatIsPlannedWellForgetsTheFailuresBeforeIt(t *testing.T) {
	path := guesttest.Copy(t, "moody")
	planner := plugin.New(path, "", 2*time.Second, nil)
	defer planner.Close()
	fault := func() plugin.Fault {
		_, err := ask(planner)
		var failure *plugin.Failure
		errors.As(err, &failure)
		if failure == nil {
			return ""
		}
		return failure.Fault
	}
	mood := func(bad string) {
		os.Remove(path + ".mood")
		if bad != "" {
			if err := os.WriteFile(path+".mood", nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	const pause = 1100 * time.Millisecond // the first one
	mood("bad")
	first := fault()
	mood("")
	time.Sleep(pause)
	second := fault()
	mood("bad")
	third := fault()
	time.Sleep(pause)
	if fourth := fault(); first != plugin.Invalid || second != "" || third != plugin.Invalid ||
		fourth != plugin.Invalid {
		t.Errorf("%q, %q, %q, %q: want the last one asked after the shortest pause, since the second went well", first,
			second, third, fourth)
	}
}

func TestAPluginLearnsNothingOfOurEnvironment(t *testing.T) {
	t.Setenv("SLURM_JWT", "a-token-that-nobody-must-see")
	t.Setenv("HOME", "/home/synergy")
	_, err := ask(open(t, "tells", 5*time.Second))
	if err == nil || !strings.Contains(err.Error(), "SYNERGY_PLUGIN=planner") {
		t.Fatalf("it says %v", err)
	}
	for _, secret := range []string{"SLURM_JWT", "nobody-must-see", "HOME=", "GOPATH", "USER="} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("it was told of %s: %v", secret, err)
		}
	}
}

func TestAllThatAPluginStartedEndsWithIt(t *testing.T) {
	_, err := ask(open(t, "breeds", 5*time.Second))
	var pid int
	if _, scan := fmt.Sscanf(err.Error()[strings.Index(err.Error(), "child"):], "child %d", &pid); scan != nil {
		t.Fatalf("%v: %v", err, scan)
	}
	if lives(pid) {
		t.Errorf("process %d, which the plugin had started, lives on", pid)
	}
}

// lives says whether a process is still there after a second.
func lives(pid int) bool {
	for range 50 {
		state, gone := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if gone != nil || strings.Contains(string(state), ") Z ") {
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
	return true
}

func TestAPluginEndsWithADaemonThatIsKilled(t *testing.T) {
	host := exec.Command(guesttest.Copy(t, "host"), guesttest.Copy(t, "numbers"))
	host.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // what it leaves behind
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	at := strings.Index(line, "process")
	if err != nil || at < 0 {
		t.Fatalf("%q: %v", line, err)
	}
	var pid int
	if _, err := fmt.Sscanf(line[at:], "process %d", &pid); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
		t.Fatalf("the plugin is gone before its daemon: %v", err)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	if lives(pid) {
		t.Errorf("plugin %d lives on without its daemon", pid)
	}
}

func TestOnlyAProgramThatNobodyElseCanChangeIsStarted(t *testing.T) {
	path := guesttest.Copy(t, "good")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(path) // it may be a link to this program
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	loose := filepath.Join(t.TempDir(), "loose")
	turned := filepath.Join(loose, "good")
	if err := errors.Join(os.Mkdir(loose, 0o700), os.Chmod(loose, 0o777), os.Symlink(path, turned)); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(t.TempDir(), "good")
	if err := errors.Join(os.WriteFile(foreign, text, 0o755), os.Chown(foreign, os.Geteuid()+1, -1)); err != nil &&
		os.Geteuid() == 0 {
		t.Fatal(err)
	}
	if err := plugin.Inspect(foreign, ""); os.Geteuid() == 0 &&
		(err == nil || !strings.Contains(err.Error(), "neither root's nor ours")) {
		t.Errorf("somebody else's program: %v", err)
	}
	for name, c := range map[string]struct {
		path, sum string
		before    func()
		says      string
	}{
		"a relative path":             {"good", "", func() {}, "not an absolute path"},
		"no such file":                {path + "x", "", func() {}, "no such file"},
		"a folder":                    {filepath.Dir(path), "", func() {}, "no program"},
		"a checksum that is none":     {path, "12", func() {}, "64 hexadecimal digits"},
		"another checksum":            {path, strings.Repeat("ab", 32), func() {}, "has the checksum"},
		"writable for others":         {path, "", func() { os.Chmod(path, 0o777) }, "chmod go-w"},
		"writable and sticky":         {path, "", func() { os.Chmod(path, 0o777|os.ModeSticky) }, "chmod go-w"},
		"a link that others can turn": {turned, "", func() {}, "chmod go-w"},
		"not to be run":               {path, "", func() { os.Chmod(path, 0o644) }, "no program"},
	} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
		c.before()
		if err := plugin.Inspect(c.path, c.sum); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestOurOwnPlannerPlansTheSameInAnotherProcess(t *testing.T) {
	planner := open(t, "good", 10*time.Second)
	for n := range 1000 {
		c := exam.Snapshot(uint64(n/100), n%100) // small ones, many times
		p, a := policy.Policies()[n%len(policy.Policies())], policy.Allocators()[n%len(policy.Allocators())]
		there, err := planner.Plan(context.Background(), n, c, p, a)
		if err != nil {
			t.Fatalf("snapshot %d, %s, %s: %v", n, p.Name, a.Name, err)
		}
		got, want := encoded(t, there), encoded(t, policy.Decide(c, p, a))
		if !bytes.Equal(got, want) {
			t.Fatalf("snapshot %d, %s, %s:\n%s\nhere:\n%s", n, p.Name, a.Name, got, want)
		}
	}
}

// TestJobsShareGPUsWhoeverPlans: the program plans those that lead, and knows nothing of the others.
func TestJobsShareGPUsWhoeverPlans(t *testing.T) {
	low := &share.Request{Class: share.Low, Memory: 9000}
	size := gres.Vector{GPUs: 1, CPUs: 2, Memory: 4000}
	on := &policy.Placement{Nodes: []string{"n1"}, PerNode: size, Device: "g0"}
	c := policy.Cluster{Now: time.Unix(9000, 0), Nodes: []policy.Node{{Name: "n1",
		Total:   gres.Vector{GPUs: 2, CPUs: 11, Memory: 100000},
		Devices: []policy.Device{{Name: "g0", Memory: 80000, Slots: 4}, {Name: "g1", Memory: 80000, Slots: 4}}}}}
	for id := 1; id <= 5; id++ {
		c.Jobs = append(c.Jobs, policy.Job{ID: id, GPUs: 1, Share: low, Floor: gres.Vector{CPUs: 1, Memory: 4000}})
	}
	c.Jobs[0].Running, c.Jobs[1].Running, c.Jobs[4].Share = on, on, nil
	plan, err := open(t, "good", 10*time.Second).Plan(context.Background(), 1, c, policy.FIFO(), policy.Tune())
	if err != nil {
		t.Fatal(err)
	}
	got, want := encoded(t, plan), encoded(t, policy.Decide(c, policy.FIFO(), policy.Tune()))
	if !bytes.Equal(got, want) {
		t.Errorf("%s\nhere:\n%s", got, want)
	}
	beside := 0
	for _, d := range plan.Decisions {
		if d.Grant != nil && d.Grant.Device != "" {
			beside++
		}
	}
	if beside != 4 {
		t.Errorf("%d jobs share, want 4: %s", beside, encoded(t, plan))
	}
}

func encoded(t testing.TB, plan policy.Plan) []byte {
	t.Helper()
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTheExamFindsWhoBreaksWhichPromise(t *testing.T) {
	for behaviour, want := range map[string]string{
		"good": "", "forgets": "complete", "greedy": "capacity", "wraps": "answers", "refuses": "answers",
		"late":    "in time",
		"changes": "deterministic",
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			within := 10 * time.Second // only being late is about time
			if behaviour == "late" {
				within = time.Second / 2
			}
			verdict, err := exam.Hold(context.Background(), open(t, behaviour, 2*within), exam.Paper{
				Seed: 1, Snapshots: 60, Within: within, Policy: policy.LAS(), Allocator: policy.Tune(),
			})
			if err != nil {
				t.Fatal(err)
			}
			failed := map[string]string{}
			for _, l := range verdict.Lines {
				if l.Failed > 0 {
					failed[l.Promise] = l.First.Wrong.Error()
				}
			}
			if _, found := failed[want]; want != "" && !found || want == "" && len(failed) > 0 ||
				verdict.Passed() != (want == "") {
				t.Errorf("passed %v, failed %v, want %q among them", verdict.Passed(), failed, want)
			}
		})
	}
}

func TestAPlannerThatGrantsNothingHasNotKeptWhatWasNeverPutToTheTest(t *testing.T) {
	verdict, err := exam.Hold(context.Background(), open(t, "waits", 5*time.Second), exam.Paper{
		Seed: 1, Snapshots: 10, Within: 5 * time.Second, Policy: policy.LAS(), Allocator: policy.Tune(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range verdict.Lines {
		if l.Promise == string(policy.Fair) && l.Asked > 0 || verdict.Passed() {
			t.Errorf("%s was asked %d times, passed %v", l.Promise, l.Asked, verdict.Passed())
		}
	}
}

func BenchmarkCrossing(b *testing.B) {
	c := exam.Snapshot(1, 1<<20)
	jobs := c.Jobs
	for len(c.Jobs) < 10_000 {
		for _, j := range jobs {
			j.ID, j.Running = len(c.Jobs)+100_000, nil
			c.Jobs = append(c.Jobs, j)
		}
	}
	b.Run("in process", func(b *testing.B) {
		var planner policy.Planner
		for b.Loop() {
			planner.Decide(c, policy.LAS(), policy.Tune())
		}
	})
	b.Run("in a plugin", func(b *testing.B) {
		planner := open(b, "good", time.Minute)
		for b.Loop() {
			if _, err := planner.Ask(context.Background(), 1, c, policy.LAS(), policy.Tune()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
