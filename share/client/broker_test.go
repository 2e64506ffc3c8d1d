package client_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/broker"
	"github.com/synergy-slurmd/synergy-slurmd/share/client"
	"github.com/synergy-slurmd/synergy-slurmd/share/node"
	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
)

// nodesBroker is the one that nodes have. This process is of job 1, which is important, and any other of job 2. It runs
// until stop.
func nodesBroker(t *testing.T, dir string) (stop func()) {
	t.Helper()
	ready, ended := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	b := broker.New(broker.Config{
		RunDir: dir, GPUs: []int{0}, Rules: turns.Defaults(), Log: slog.New(slog.DiscardHandler),
		Proc:  broker.Proc{Root: "/proc", Cgroups: t.TempDir(), Owner: os.Geteuid()},
		Ready: func() { close(ready) },
		Identify: func(pid, _ int) (int, error) {
			if pid == os.Getpid() {
				return 1, nil
			}
			return 2, nil
		},
	})
	go func() { ended <- b.Serve(ctx) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func stamps(t *testing.T, dir string) {
	t.Helper()
	for job, class := range map[int]share.Class{1: share.High, 2: share.Low} {
		text := `{"v":1,"job":` + strconv.Itoa(job) + `,"uid":` + strconv.Itoa(os.Geteuid()) + `,"gpu":0,"class":"` +
			string(class) + `","gpu_memory_mib":100000}`
		path := node.StampPath(dir, job)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// lockStep is a step that notices another.
func lockStep(c *client.Client, file string) error {
	done, err := c.Turn(context.Background(), time.Millisecond)
	if err != nil {
		return err
	}
	defer done()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(file)
	return f.Close()
}

const inPython = `
import os, sys, synergy
for _ in range(100):
    with synergy.turn(0.001):
        os.close(os.open(sys.argv[1], os.O_CREAT | os.O_EXCL)); os.unlink(sys.argv[1])
client = sys.modules["synergy.turn"]._client
sys.exit(client.unmanaged or client.steps != 100)
`

// TestClientsOfAllLanguagesShareAGPUByTheNodesBroker: none uses it while another does, and all come to their end.
func TestClientsOfAllLanguagesShareAGPUByTheNodesBroker(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "gpu")
	stamps(t, dir)
	defer nodesBroker(t, dir)()
	program := compile(t, "testdata/steps.c")
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		if c, err := steps(t, program, node.SocketPath(dir, 0), 100, time.Millisecond, 0, "next", file); err != nil ||
			c.Unmanaged > 0 {
			t.Errorf("in C: %+v, %v", c, err)
		}
	})
	all.Go(func() {
		command := exec.Command("timeout", "60", "python3", "-c", inPython, file)
		command.Env = append(os.Environ(), "SYNERGY_TURN_SOCK="+node.SocketPath(dir, 0), "PYTHONPATH=../../python",
			"PYTHONDONTWRITEBYTECODE=1")
		if said, err := command.CombinedOutput(); err != nil {
			t.Errorf("in Python: %v\n%s", err, said)
		}
	})
	c := open(t, node.SocketPath(dir, 0))
	for range 100 {
		if err := lockStep(c, file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Millisecond)
	}
	if n := c.Count(); n.Unmanaged > 0 {
		t.Errorf("in Go: %+v", n)
	}
}

func TestAClientTakesTurnsAgainWhenTheNodesBrokerIsStartedAgain(t *testing.T) {
	dir := t.TempDir()
	stamps(t, dir)
	stop := nodesBroker(t, dir)
	c := open(t, node.SocketPath(dir, 0))
	step(t, c, time.Millisecond)
	stop()
	for range 10 {
		step(t, c, time.Millisecond)
	}
	before := c.Count()
	if before.Grants == 0 || before.Unmanaged < 9 {
		t.Errorf("without the broker: %+v", before)
	}
	defer nodesBroker(t, dir)()
	within(t, 6*time.Second, "a grant of the new broker", func() bool {
		step(t, c, time.Millisecond)
		return c.Count().Grants > before.Grants
	})
}
