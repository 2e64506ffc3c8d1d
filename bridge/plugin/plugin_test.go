package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin/slurmpb"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/guest"
	"github.com/synergy-slurmd/synergy-slurmd/guest/guesttest"
	planning "github.com/synergy-slurmd/synergy-slurmd/policy/plugin"
)

// TestMain is also the plugins, good ones and others: a test copies its own program and has it behave as its name says.
func TestMain(m *testing.M) {
	if behave, known := behaviours[filepath.Base(os.Args[0])]; known {
		behave()
		return
	}
	goleak.VerifyTestMain(m)
}

var behaviours = map[string]func(){
	"good": func() { plugin.Serve(cluster) },
	"planner": func() {
		planning.Serve(planning.Configured())
	},
	"silent": func() { time.Sleep(time.Hour) },
	"older": func() {
		guest.Serve(guest.Slurm, func(server grpc.ServiceRegistrar) { slurmpb.RegisterSlurmServer(server, older{}) })
	},
	"choosy": func() {
		plugin.Serve(func(_ context.Context, c plugin.Configuration) (plugin.Driven, error) {
			return plugin.Driven{}, fmt.Errorf("configuration %q: want more\n%w", c.File, slurm.ErrDenied)
		})
	},
	"empty": func() {
		plugin.Serve(func(context.Context, plugin.Configuration) (plugin.Driven, error) { return plugin.Driven{}, nil })
	},
	"hesitates": func() {
		plugin.Serve(func(ctx context.Context, _ plugin.Configuration) (plugin.Driven, error) {
			<-ctx.Done()
			time.Sleep(time.Hour)
			return plugin.Driven{}, nil
		})
	},
	"crowd": crowded(0), "crowd-hundredth": crowded(100), "crowd-all": crowded(1),
	"lonely": with(func(d *plugin.Driven) { d.Tickets = nil }),
	"deaf":   with(func(d *plugin.Driven) { d.Slurm = deaf{d.Slurm} }),
	"dies":   with(func(d *plugin.Driven) { d.Slurm = dying{d.Slurm} }),
	"absurd": with(func(d *plugin.Driven) { d.Slurm = absurd{d.Slurm} }),
	"echoes": with(func(d *plugin.Driven) {
		d.Version = strings.Join(os.Environ(), " ") + "\n" + strings.Join(os.Args[1:], " ")
	}),
}

// with is a good plugin but for something.
func with(change func(*plugin.Driven)) func() {
	return func() {
		plugin.Serve(func(ctx context.Context, c plugin.Configuration) (plugin.Driven, error) {
			driven, err := cluster(ctx, c)
			change(&driven)
			return driven, err
		})
	}
}

// cluster is a slurmtest with so many jobs as the configuration says, and the number of the process as its version.
func cluster(_ context.Context, c plugin.Configuration) (plugin.Driven, error) {
	clock := slurmtest.NewClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	manager := slurmtest.New(clock, slurmtest.Options{Nodes: slurmtest.Rack(2,
		gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}, "gpu")})
	jobs, err := strconv.Atoi(string(c.File))
	for range jobs {
		_, _ = manager.Submit(slurmtest.Spec{Name: "job", User: "alice", Lease: time.Hour,
			Request: slurm.Request{GPUs: 1}})
	}
	return plugin.Driven{Slurm: manager, Tickets: manager.Tickets(), Version: strconv.Itoa(os.Getpid())}, err
}

// older was written before signals had targets: it signals batch scripts.
type older struct {
	slurmpb.UnimplementedSlurmServer
}

func (older) Configure(context.Context, *slurmpb.ConfigureRequest) (*slurmpb.ConfigureResponse, error) {
	return &slurmpb.ConfigureResponse{Version: "older"}, nil
}

func (older) Signal(context.Context, *slurmpb.SignalRequest) (*slurmpb.DoneResponse, error) {
	return &slurmpb.DoneResponse{}, nil
}

func TestAPluginThatKnowsNoTargetsIsNotAskedToSignalSteps(t *testing.T) {
	client := open(t, "older")
	if err := client.Signal(t.Context(), 1, slurm.Signal{Name: "USR1"}); err != nil {
		t.Error(err)
	}
	err := client.Signal(t.Context(), 1, slurm.Signal{Name: "USR1", To: slurm.Steps})
	if !errors.Is(err, slurm.ErrRefused) || !strings.Contains(err.Error(), "spare its batch script") {
		t.Errorf("%v, want a refusal that says why", err)
	}
}

type deaf struct{ slurm.Manager }

func (deaf) Requeue(context.Context, int) error { time.Sleep(time.Hour); return nil }

type dying struct{ slurm.Manager }

func (dying) Requeue(context.Context, int) error {
	fmt.Fprintln(os.Stderr, "out of ideas")
	time.Sleep(100 * time.Millisecond)
	os.Exit(3)
	return nil
}

type absurd struct{ slurm.Manager }

func (a absurd) Observe(ctx context.Context) (slurm.Observed, error) {
	seen, err := a.Manager.Observe(ctx)
	seen.Nodes = slices.Clone(seen.Nodes)
	slices.Reverse(seen.Nodes)
	return seen, err
}

func open(t testing.TB, behaviour string, change ...func(*plugin.Options)) *plugin.Client {
	t.Helper()
	options := plugin.Options{Path: guesttest.Copy(t, behaviour), Config: plugin.Configuration{File: []byte("3")}}
	for _, f := range change {
		f(&options)
	}
	client, err := plugin.Open(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func within(limit time.Duration) func(*plugin.Options) {
	return func(o *plugin.Options) { o.Timeout = limit }
}

func observe(t testing.TB, client *plugin.Client) slurm.Observed {
	t.Helper()
	seen, err := client.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestAProgramThatCannotBeUsedSaysWhyAtOnce(t *testing.T) {
	for behaviour, want := range map[string]struct {
		says string
		is   error
	}{
		"planner":   {"the plugin does not start", slurm.ErrUnreachable}, // it is of another kind
		"silent":    {"still starting", slurm.ErrUnreachable},
		"choosy":    {`configuration "3": want more permission denied`, slurm.ErrDenied},
		"empty":     {"has opened nothing", nil},
		"hesitates": {"no answer in time", slurm.ErrUnreachable},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			_, err := plugin.Open(context.Background(), plugin.Options{
				Path: guesttest.Copy(t, behaviour), Config: plugin.Configuration{File: []byte("3")},
				Timeout: 2 * time.Second,
			})
			if err == nil || !strings.Contains(err.Error(), want.says) || want.is != nil && !errors.Is(err, want.is) {
				t.Fatalf("got %v, want %q", err, want.says)
			}
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%q is not fit for a log", err.Error())
			}
		})
	}
}

func TestAConfigurationIsNoFileOfAnySize(t *testing.T) {
	_, err := plugin.Open(context.Background(), plugin.Options{
		Path: guesttest.Copy(t, "good"), Config: plugin.Configuration{File: make([]byte, plugin.MaxConfig+1)},
	})
	if err == nil || !strings.Contains(err.Error(), "want at most 1048576") {
		t.Errorf("got %v", err)
	}
}

func TestAPluginThatDrivesLearnsNothingOfOurEnvironment(t *testing.T) {
	t.Setenv("SLURM_JWT", "a-token-that-nobody-must-see")
	version := open(t, "echoes").Version()
	if !strings.Contains(version, "SYNERGY_PLUGIN=slurm") || strings.Contains(version, "nobody-must-see") ||
		strings.Contains(version, "HOME=") {
		t.Errorf("it was told %q", version)
	}
}

func TestOnlyWhatChangedHasAnotherPointer(t *testing.T) {
	client := open(t, "good")
	first := observe(t, client)
	job := first.Jobs[1]
	if len(first.Jobs) != 3 || job.ID != 2 || job.State != slurm.Pending {
		t.Fatalf("got %+v", first.Jobs)
	}
	if err := client.Update(t.Context(), slurm.Update{Job: 2, Begin: job.Begin.Add(time.Hour), Request: job.Request,
		Extra: "told"}); err != nil {
		t.Fatal(err)
	}
	second := observe(t, client)
	if second.Jobs[0] != first.Jobs[0] || second.Jobs[2] != first.Jobs[2] || second.Jobs[1] == first.Jobs[1] ||
		second.Jobs[1].Extra != "told" {
		t.Errorf("first %+v, then %+v", first.Jobs, second.Jobs)
	}
	if job.Extra == "told" {
		t.Error("a job that was handed out has changed")
	}
}

func TestAPluginThatDiedIsNotHeardAndTheNextOneIsToldAllAgain(t *testing.T) {
	var mu sync.Mutex
	var calls []plugin.Call
	client := open(t, "dies", func(o *plugin.Options) {
		o.OnCall = func(c plugin.Call) { mu.Lock(); calls = append(calls, c); mu.Unlock() }
	})
	first, before := observe(t, client), client.Version()
	var asking sync.WaitGroup
	for job := range 3 { // one death, however many notice
		asking.Go(func() {
			err := client.Requeue(context.Background(), job+1)
			if !errors.Is(err, slurm.ErrUnreachable) || !strings.Contains(err.Error(),
				"requeue job "+strconv.Itoa(job+1)) {
				t.Errorf("of a program that dies: %v", err)
			}
		})
	}
	asking.Wait()
	if _, err := client.Observe(t.Context()); !errors.Is(err, slurm.ErrUnreachable) ||
		!strings.Contains(err.Error(), "not started again yet") {
		t.Fatalf("at once after that: %v, want it to rest", err)
	}
	time.Sleep(1100 * time.Millisecond)
	second := observe(t, client)
	if client.Version() == before || len(second.Jobs) != len(first.Jobs) || second.Jobs[0] == first.Jobs[0] {
		t.Errorf("process %s, then %s: %+v, then %+v", before, client.Version(), first.Jobs, second.Jobs)
	}
	mu.Lock()
	defer mu.Unlock()
	var told []string
	for _, c := range calls {
		told = append(told, strings.TrimSpace(c.Verb+" "+c.Err))
		if (c.Bytes > 0) != (c.Err == "") || c.Took <= 0 {
			t.Errorf("counted %+v", c)
		}
	}
	const want = "configure, observe, requeue unreachable, requeue unreachable, requeue unreachable, observe " +
		"unreachable, configure, observe"
	if got := strings.Join(told, ", "); got != want {
		t.Errorf("counted %s\nwant    %s", got, want)
	}
}

func TestTheLastWordsOfAPluginAreKept(t *testing.T) {
	client := open(t, "dies")
	if err := client.Requeue(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "out of ideas") {
		t.Errorf("got %v", err)
	}
}

func TestAPluginThatSaysWhatCannotBeIsEnded(t *testing.T) {
	client := open(t, "absurd")
	if _, err := client.Observe(t.Context()); !errors.Is(err, slurm.ErrUnreachable) ||
		!strings.Contains(err.Error(), `"n1" comes after "n2"`) {
		t.Fatalf("got %v", err)
	}
	if _, err := client.Observe(t.Context()); err == nil || !strings.Contains(err.Error(), "not started again yet") {
		t.Errorf("at once after that: %v, want it to rest", err)
	}
}

func TestACallHasItsTimeAndAPluginThatTakesMoreIsEnded(t *testing.T) {
	client := open(t, "deaf", within(500*time.Millisecond))
	if err := client.Requeue(t.Context(), 1); !errors.Is(err, slurm.ErrUnreachable) ||
		errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want that nothing was heard", err)
	}
	if _, err := client.Observe(t.Context()); err == nil || !strings.Contains(err.Error(), "not started again yet") {
		t.Errorf("at once after that: %v, want it to rest", err)
	}
}

func TestACallerWhoGivesUpHearsOfHimselfAndThePluginGoesOn(t *testing.T) {
	client := open(t, "deaf")
	before := client.Version()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := client.Requeue(ctx, 1); !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, slurm.ErrUnreachable) {
		t.Errorf("his time was over: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if err := client.Requeue(ctx, 1); !errors.Is(err, context.Canceled) || errors.Is(err, slurm.ErrUnreachable) {
		t.Errorf("he was told to stop: %v", err)
	}
	if _, err := client.Observe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("he had been told to stop before: %v", err)
	}
	if observe(t, client); client.Version() != before {
		t.Error("another process answers")
	}
}

func TestAPluginThatHangsIsEndedAlsoWhenEverybodyIsImpatient(t *testing.T) {
	client := open(t, "good", within(time.Second))
	pid, err := strconv.Atoi(client.Version())
	if err != nil {
		t.Fatal(err)
	}
	stop(t, pid)
	for began := time.Now(); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := client.Observe(ctx)
		cancel()
		if err == nil {
			t.Fatal("a stopped process has answered")
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			if took := time.Since(began); took < time.Second || took > 3*time.Second {
				t.Errorf("after %s: %v", took, err)
			}
			break
		}
	}
	time.Sleep(1100 * time.Millisecond)
	if observe(t, client); client.Version() == strconv.Itoa(pid) {
		t.Error("the same process answers")
	}
}

func TestTimeInWhichNobodyAskedIsNotHeldAgainstAPlugin(t *testing.T) {
	client := open(t, "deaf", within(500*time.Millisecond))
	before := client.Version()
	observe(t, client)
	time.Sleep(700 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := client.Requeue(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if observe(t, client); client.Version() != before {
		t.Error("another process answers")
	}
}

// stop returns when a process does nothing any more.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil &&
			strings.Contains(string(state), ") T ") {
			time.Sleep(50 * time.Millisecond) // the state is that of the first thread
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("process %d does not stop", pid)
}

func TestAPluginWithoutTicketsIsForADaemonThatIsAlone(t *testing.T) {
	client := open(t, "lonely")
	if _, err := client.Take(t.Context(), leader.Words{}); !errors.Is(err, slurm.ErrRefused) ||
		!strings.Contains(err.Error(), "--alone") {
		t.Errorf("got %v", err)
	}
	observe(t, client)
}

func TestAClosedClientIsNotHeard(t *testing.T) {
	client := open(t, "good")
	client.Close()
	if _, err := client.Observe(t.Context()); !errors.Is(err, slurm.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}
