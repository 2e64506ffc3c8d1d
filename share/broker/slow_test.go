package broker_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/broker"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// cgroup is one of a job on a pretended machine. Its file for the freezer is a pipe: who writes there first waits until
// the test reads it.
type cgroup struct {
	t    *testing.T
	path string
	file *os.File // once it is read
}

// slowMachine pretends one with a process of that job.
func slowMachine(t *testing.T, job int) (broker.Proc, *cgroup) {
	t.Helper()
	p := broker.Proc{Root: t.TempDir(), Cgroups: t.TempDir(), Owner: os.Getuid()}
	in := fmt.Sprintf("/system.slice/slurmstepd.scope/job_%d/step_0/user/task_0", job)
	uid := strings.Repeat("\t"+strconv.Itoa(os.Getuid()), 4)
	dir := filepath.Join(p.Cgroups, in)
	err := errors.Join(os.MkdirAll(filepath.Join(p.Root, "11"), 0o755), os.MkdirAll(dir, 0o755),
		syscall.Mkfifo(filepath.Join(dir, "cgroup.freeze"), 0o600))
	for path, text := range map[string]string{
		filepath.Join(p.Root, "11", "status"): "PPid:\t1\nUid:" + uid + "\n",
		filepath.Join(p.Root, "11", "cgroup"): "0::" + in + "\n",
		filepath.Join(dir, "cgroup.procs"):    "11\n",
	} {
		err = errors.Join(err, os.WriteFile(path, []byte(text), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	return p, &cgroup{t: t, path: filepath.Join(dir, "cgroup.freeze")}
}

// takes lets all be written from now on, and says what the next is.
func (c *cgroup) takes(want string) {
	c.t.Helper()
	c.open()
	text := make([]byte, 1)
	err := c.file.SetReadDeadline(time.Now().Add(patience))
	if err == nil {
		_, err = c.file.Read(text)
	}
	if err != nil || string(text) != want {
		c.t.Errorf("its cgroup is told %q, %v, want %q", text, err, want)
	}
}

func (c *cgroup) open() {
	c.t.Helper()
	if c.file != nil {
		return
	}
	file, err := os.OpenFile(c.path, os.O_RDWR, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	c.file = file
}

// slowly is a broker on a machine with a process of job 7 that is slow to stop it.
func slowly(t *testing.T, changes ...func(*settings)) (*bench, *cgroup) {
	t.Helper()
	proc, c := slowMachine(t, 7)
	b := serve(t, func(s *settings) {
		for _, change := range changes {
			change(s)
		}
		s.Proc = proc
	})
	t.Cleanup(func() {
		c.open()
		b.stop()
		c.file.Close()
	})
	return b, c
}

// slowPair is a broker with a client of an unimportant job that has the GPU and will not yield, on a machine that is
// slow to stop it, and one of an important job that waits. A third is of neither.
func slowPair(t *testing.T) (b *bench, c *cgroup, rude, high, other *caller) {
	t.Helper()
	jobs := make(chan int, 1)
	b, c = slowly(t, identifyBy(jobs))
	stamp(t, b.dir, 7, 0, share.Low, 1024)
	stamp(t, b.dir, 8, 0, share.High, 1024)
	stamp(t, b.dir, 9, 0, share.Low, 1024)
	joined := func(job int) *caller {
		jobs <- job
		return join(t, b.dir, 0)
	}
	rude, high, other = joined(7), joined(8), joined(9)
	rude.ask()
	rude.want(wire.Grant)
	high.ask()
	rude.want(wire.Yield)
	await(t, "a freeze", func() bool {
		_, err := os.Stat(filepath.Join(b.dir, "frozen", "7.json"))
		return err == nil && b.Status().GPUs[0].Clients[0].State == wire.Frozen
	})
	return b, c, rude, high, other
}

func TestWhileAJobIsBeingStoppedEverybodyIsHeardAndNobodyIsGranted(t *testing.T) {
	b, c, rude, high, other := slowPair(t)
	for range 5 { // longer than a drain
		high.quiet()
	}
	other.ask()
	other.send(wire.Message{Type: wire.Ask, Seq: 2})
	if m := other.want(wire.Error); m.Code != wire.Busy {
		t.Errorf("it hears %+v", m)
	}
	for range 5 {
		high.quiet()
		other.quiet()
	}
	if s := b.Status().GPUs[0]; s.Clients[0].State != wire.Frozen || s.Clients[1].State != wire.Waiting {
		t.Errorf("status is %+v", s)
	}
	c.takes("1")
	if m := high.want(wire.Grant); m.Lease <= 0 {
		t.Errorf("granted by %+v", m)
	}
	high.release()
	c.takes("0")
	rude.release()
	other.want(wire.Grant)
}

func TestAJobThatReleasesWhileItIsBeingStoppedIsLetGoOnAfterwards(t *testing.T) {
	for what, ends := range map[string]func(*caller){
		"releases": (*caller).release,
		"leaves":   func(c *caller) { c.conn.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			_, c, rude, high, _ := slowPair(t)
			ends(rude)
			high.want(wire.Grant) // the GPU is free
			c.takes("1")
			c.takes("0")
		})
	}
}

func TestAJobThatNobodyWantsStoppedAnyMoreIsLetGoOnAfterwards(t *testing.T) {
	b, c, rude, high, other := slowPair(t)
	high.conn.Close()
	await(t, "its turn again", func() bool { return b.Status().GPUs[0].Clients[0].State == wire.Yielding })
	c.takes("1")
	c.takes("0")
	rude.release()
	other.ask()
	other.want(wire.Grant)
}

// TestAFreezeThatTakesForEverIsGivenUp: both use the GPU then.
func TestAFreezeThatTakesForEverIsGivenUp(t *testing.T) {
	_, _, _, high, _ := slowPair(t)
	began := time.Now()
	high.want(wire.Grant)
	if took := time.Since(began); took < time.Second {
		t.Errorf("granted after %v beside one that runs", took)
	}
}

func TestABrokerThatEndsDuringAFreezeLeavesNothingStopped(t *testing.T) {
	b, c, _, _, _ := slowPair(t)
	c.open()
	b.stop()
	if left, err := os.ReadDir(filepath.Join(b.dir, "frozen")); err != nil || len(left) > 0 {
		t.Errorf("left stopped: %v, %v", left, err)
	}
}

// TestWhatCannotBeThawedIsShownAndThawedWhenItCan: the last broker has stopped it, and a folder is in the way.
func TestWhatCannotBeThawedIsShownAndThawedWhenItCan(t *testing.T) {
	for what, mend := range map[string]func(process, file string) error{
		"the cgroup is mended": func(_, file string) error {
			return errors.Join(os.Remove(file), os.WriteFile(file, nil, 0o644))
		},
		"its job is gone": func(process, _ string) error { return os.RemoveAll(process) },
	} {
		proc, c := slowMachine(t, 7)
		dir := t.TempDir()
		record := filepath.Join(dir, "frozen", "7.json")
		text := fmt.Sprintf(`{"v":1,"job":7,"cgroups":[%q]}`, filepath.Dir(c.path))
		if err := errors.Join(os.Remove(c.path), os.Mkdir(c.path, 0o755), os.Mkdir(filepath.Dir(record), 0o755),
			os.WriteFile(record, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		b := serve(t, func(s *settings) { s.RunDir, s.Proc = dir, proc })
		await(t, "a try", func() bool { return len(b.Status().StillFrozen) > 0 })
		s := b.Status()
		if s.StillFrozen[0].Job != 7 || s.StillFrozen[0].Error == "" || s.ThawFailures == 0 {
			t.Errorf("%s: status is %+v", what, s)
		}
		if text := broker.Metrics(s); !strings.Contains(text, "synergy_broker_still_frozen 1\n") ||
			!strings.Contains(text, fmt.Sprintf("synergy_broker_thaw_failures_total %d\n", s.ThawFailures)) {
			t.Errorf("%s: metrics are %s", what, text)
		}
		if err := mend(filepath.Join(proc.Root, "11"), c.path); err != nil {
			t.Fatal(err)
		}
		await(t, "that it goes on", func() bool { return len(b.Status().StillFrozen) == 0 })
		if _, err := os.Stat(record); err == nil {
			t.Errorf("%s: it is still said to be stopped", what)
		}
		b.stop()
	}
}
