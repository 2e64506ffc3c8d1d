package bridge_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/guest/guesttest"
)

// A plugin that drives a Slurm dies in every call of an eventful round in turn, before and after Slurm has heard of it.
// The Slurm is that of the test, so that it outlives the plugin, which is this program under another name and does
// nothing but pass on what it is asked.

const relayName = "relay-plugin"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == relayName {
		plugin.Serve(func(_ context.Context, c plugin.Configuration) (plugin.Driven, error) {
			line, err := rpc.Dial("unix", string(c.File))
			return plugin.Driven{Slurm: relay{line}, Version: relayName}, err
		})
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // who runs beside others mostly waits
		panic(err)
	}
	os.Exit(m.Run())
}

// relay passes on what it is asked, and dies when it is told to.
type relay struct{ line *rpc.Client }

// Asked is a call on its way to the far end, and Answered what comes back.
type (
	Asked struct {
		Verb   slurmtest.Verb
		Job    int
		Update slurm.Update
		Signal slurm.Signal
	}
	Answered struct {
		Seen slurm.Observed
		Text string // of an error
		Kind int    // 1 is the first of kinds; 0: none of them
		Dies bool
	}
)

var kinds = []error{slurm.ErrNotPending, slurm.ErrNotRunning, slurm.ErrHeld, slurm.ErrGone, slurm.ErrRefused}

func (r relay) say(asked Asked) (slurm.Observed, error) {
	var got Answered
	if err := r.line.Call("Far.Do", asked, &got); err != nil {
		return slurm.Observed{}, err
	}
	switch {
	case got.Dies:
		os.Exit(3)
	case got.Kind > 0:
		return got.Seen, fmt.Errorf("%s: %w", got.Text, kinds[got.Kind-1])
	case got.Text != "":
		return got.Seen, errors.New(got.Text)
	}
	return got.Seen, nil
}

func (r relay) Observe(context.Context) (slurm.Observed, error) {
	return r.say(Asked{Verb: slurmtest.Observe})
}

func (r relay) Update(_ context.Context, u slurm.Update) error {
	_, err := r.say(Asked{Verb: slurmtest.Update, Update: u})
	return err
}

func (r relay) Signal(_ context.Context, job int, signal slurm.Signal) error {
	_, err := r.say(Asked{Verb: slurmtest.Signal, Job: job, Signal: signal})
	return err
}

func (r relay) Requeue(_ context.Context, job int) error {
	_, err := r.say(Asked{Verb: slurmtest.Requeue, Job: job})
	return err
}

// Far is the end of the line that stays: one call at a time, of which one is deadly.
type Far struct {
	slurm  slurm.Manager
	dieAt  int // 0: never
	moment slurmtest.Moment

	mu     sync.Mutex
	calls  int
	sturdy bool // nothing else goes wrong any more
}

// Do does what the relay was asked.
func (f *Far) Do(asked Asked, got *Answered) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	got.Dies = f.calls == f.dieAt
	if got.Dies && f.moment == slurmtest.Before {
		return nil
	}
	err := f.do(asked, got)
	if err != nil {
		got.Text = err.Error()
		got.Kind = 1 + slices.IndexFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
	}
	return nil
}

func (f *Far) do(asked Asked, got *Answered) (err error) {
	switch asked.Verb {
	case slurmtest.Observe:
		got.Seen, err = f.slurm.Observe(ctx)
	case slurmtest.Update:
		err = f.slurm.Update(ctx, asked.Update)
	case slurmtest.Signal:
		err = f.slurm.Signal(ctx, asked.Job, asked.Signal)
	default:
		err = f.slurm.Requeue(ctx, asked.Job)
	}
	return err
}

// startBehind starts a daemon that drives its Slurm through the relay, which dies at that call; 0: never.
func (w *world) startBehind(program string, dieAt int, moment slurmtest.Moment) *Far {
	w.t.Helper()
	folder, err := os.MkdirTemp("", "synergy-relay-") // a socket's path has to be short
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { os.RemoveAll(folder) })
	door, err := net.Listen("unix", filepath.Join(folder, "far"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { door.Close() })
	far := &Far{dieAt: dieAt, moment: moment}
	drained := fragile(w, nil)
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if far.sturdy {
			return nil
		}
		return drained(c, at)
	})
	far.slurm = w.line
	server := rpc.NewServer()
	if err := server.Register(far); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		for {
			line, err := door.Accept()
			if err != nil {
				return // it was closed
			}
			go server.ServeConn(line)
		}
	}()
	client := w.open(plugin.Options{Path: program, Config: plugin.Configuration{File: []byte(door.Addr().String())}})
	w.runner.Slurm = client
	return far
}

// open starts the relay. A machine that has much else to do may need more than one attempt.
func (w *world) open(options plugin.Options) *plugin.Client {
	w.t.Helper()
	client, err := plugin.Open(ctx, options)
	for attempt := 1; errors.Is(err, slurm.ErrUnreachable) && attempt < 5; attempt++ {
		client, err = plugin.Open(ctx, options)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return client
}

// back waits until the relay runs again, which it does after a pause.
func (w *world) back() {
	w.t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		_, err := w.runner.Slurm.Observe(ctx)
		if err == nil {
			return
		}
		if time.Since(began) > time.Minute {
			w.t.Fatal(err)
		}
	}
}

func TestAPluginThatDiesAtAnyCallLosesNoJob(t *testing.T) {
	program := guesttest.Copy(t, relayName)
	whole := newWorld(t, 2, small)
	stage(whole)
	far := whole.startBehind(program, 0, slurmtest.Before)
	whole.round()
	if far.calls < 10 {
		t.Fatalf("the round has %d calls: nothing much can die there", far.calls)
	}
	t.Logf("%d calls", far.calls)
	for _, moment := range []slurmtest.Moment{slurmtest.Before, slurmtest.After} {
		for n := 1; n <= far.calls; n++ {
			t.Run(fmt.Sprintf("%s call %d", moment, n), func(t *testing.T) {
				t.Parallel()
				relayDiesOnce(t, program, n, moment)
			})
		}
	}
}

func relayDiesOnce(t *testing.T, program string, n int, moment slurmtest.Moment) {
	w := newWorld(t, 2, small)
	ids := stage(w)
	far := w.startBehind(program, n, moment)
	if _, err := w.runner.Round(ctx); !errors.Is(err, slurm.ErrUnreachable) {
		t.Fatalf("the round ended with %v, want it to hear nothing", err)
	}
	far.mu.Lock()
	far.sturdy = true
	far.mu.Unlock()
	w.back()
	w.mustEndWell(ids)
	if far.calls <= n {
		t.Errorf("%d calls, and the relay was to die at %d", far.calls, n)
	}
}
