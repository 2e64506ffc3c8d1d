package conformance_test

import (
	"context"
	"errors"
	"flag"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/conformance"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/guest/guesttest"
)

// helper is the name under which this program is a plugin that drives a slurmtest.
const helper = "slurmtest-plugin"

// atOnce is how many tests run at a time; empty: as many as there are cores.
var atOnce string

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == helper {
		plugin.Serve(openRack)
		return
	}
	flag.Parse()
	if atOnce != "" {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestSlurmtestInAnotherProcessKeepsThePromises(t *testing.T) {
	program := guesttest.Copy(t, helper)
	conformance.Run(t, func(t *testing.T) conformance.Lab { return newDistant(t, program) })
	conformance.RunDivided(t, func(t *testing.T) conformance.Lab { return newDistant(t, program) })
	conformance.RunLeaseJob(t, func(t *testing.T) conformance.LeaseLab { return newDistant(t, program) })
}

// openRack is the plugin: a cluster in memory, and beside what the daemon may ask of it a socket for what users and
// time do. Its configuration says where that is.
func openRack(_ context.Context, c plugin.Configuration) (plugin.Driven, error) {
	clock, manager := rack(divided)
	w := &World{clock: clock, slurm: manager}
	clock.AfterEach(w.look)
	door, err := net.Listen("unix", string(c.File))
	if err != nil {
		return plugin.Driven{}, err
	}
	server := rpc.NewServer()
	if err := server.Register(w); err != nil {
		return plugin.Driven{}, err
	}
	go server.Accept(door)
	return plugin.Driven{
		Slurm:   manager,
		Tickets: manager.Tickets(),
		Leases:  manager.Leases(),
		Version: "slurmtest",
	}, nil
}

// World is what a test does to a cluster that is no business of the daemon's, in the words of net/rpc.
type World struct {
	clock *slurmtest.Clock
	slurm *slurmtest.Slurm

	mu     sync.Mutex
	broken error // the first invariant that did not hold
}

func (w *World) look() {
	err := w.slurm.Invariants()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil {
		w.broken = err
	}
}

// Submit submits a job.
func (w *World) Submit(job conformance.Job, id *int) (err error) {
	*id, err = w.slurm.Submit(spec(job, w.clock.Now()))
	return err
}

// Pass lets time pass.
func (w *World) Pass(d time.Duration, _ *int) error {
	w.clock.Advance(d)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}

// Drain closes a node.
func (w *World) Drain(node string, _ *int) error { w.slurm.Drain(node); return nil }

// Resume opens it again.
func (w *World) Resume(node string, _ *int) error { w.slurm.Resume(node); return nil }

// Reserve makes a reservation.
func (w *World) Reserve(r conformance.Reservation, _ *int) error {
	w.slurm.Reserve(reservation(r, w.clock.Now()))
	return nil
}

// Release lets a held job go.
func (w *World) Release(job int, _ *int) error { w.slurm.Release(job); return nil }

// Said is what is said of a job.
type Said struct {
	Job  int
	Says string
}

// Administer says something of a job as an administrator.
func (w *World) Administer(said Said, _ *int) error {
	w.slurm.Modify(said.Job, func(s *slurmtest.Spec) { s.Admin = said.Says })
	return nil
}

// distant is a lab on a slurmtest in another process: each test has one of its own.
type distant struct {
	t      testing.TB
	client *plugin.Client
	world  *rpc.Client
}

func newDistant(t *testing.T, program string) distant {
	t.Helper()
	folder, err := os.MkdirTemp("", "synergy-lab-") // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket := filepath.Join(folder, "world")
	options := plugin.Options{Path: program, Config: plugin.Configuration{File: []byte(socket)}}
	client, err := plugin.Open(t.Context(), options)
	// a machine that has much else to do
	for attempt := 1; errors.Is(err, slurm.ErrUnreachable) && attempt < 5; attempt++ {
		client, err = plugin.Open(t.Context(), options)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	world, err := rpc.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { world.Close() })
	return distant{t, client, world}
}

func (d distant) Slurm() slurm.Manager    { return d.client }
func (d distant) Tickets() leader.Tickets { return d.client }
func (d distant) Leases() slurm.Leases    { return d.client }

func (d distant) do(t testing.TB, what string, with any) int {
	t.Helper()
	answer := 0
	if err := d.world.Call("World."+what, with, &answer); err != nil {
		t.Fatalf("%s %v: %v", what, with, err)
	}
	return answer
}

func (d distant) Sleep(passes time.Duration)                   { d.do(d.t, "Pass", passes) }
func (d distant) Release(t testing.TB, job int)                { d.do(t, "Release", job) }
func (d distant) Submit(t testing.TB, job conformance.Job) int { return d.do(t, "Submit", job) }

func (d distant) Reserve(t testing.TB, r conformance.Reservation) { d.do(t, "Reserve", r) }

func (d distant) Administer(t testing.TB, job int, says string) {
	d.do(t, "Administer", Said{job, says})
}

func (d distant) Drain(t testing.TB, node string) {
	d.do(t, "Drain", node)
	t.Cleanup(func() { _ = d.world.Call("World.Resume", node, new(int)) })
}
