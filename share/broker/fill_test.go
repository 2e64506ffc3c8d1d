package broker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/broker"
	"github.com/synergy-slurmd/synergy-slurmd/share/node"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

func TestJobsThatRunAtTheSameTimeWaitForNobodyUntilTheyTakeTurnsAgain(t *testing.T) {
	var fills atomic.Bool
	fills.Store(true)
	b := serve(t, func(c *settings) {
		anyOf(7)(c)
		c.Fill = func(context.Context, int, []node.Run) (bool, error) { return fills.Load(), nil }
	})
	stamp(t, b.dir, 7, 0, share.Low, 1024)
	if err := broker.Tell(t.Context(), b.dir); err != nil {
		t.Fatal(err)
	}
	first, second := join(t, b.dir, 0), join(t, b.dir, 0)
	for range 3 {
		first.ask()
		first.want(wire.Grant)
		second.ask()
		second.want(wire.Grant)
		second.release()
		first.release()
	}
	if mode := b.Status().GPUs[0].Mode; mode != "fill" {
		t.Errorf("the mode is %s", mode)
	}
	first.ask()
	first.want(wire.Grant)
	second.ask()
	second.want(wire.Grant)
	fills.Store(false)
	if err := broker.Tell(t.Context(), b.dir); err != nil {
		t.Fatal(err)
	}
	first.want(wire.Yield)
	second.want(wire.Yield)
	first.release()
	second.release()
	first.ask()
	first.want(wire.Grant)
	second.ask()
	second.quiet()
	fills.Store(true)
	if err := broker.Tell(t.Context(), b.dir); err != nil {
		t.Fatal(err)
	}
	first.release()
	second.want(wire.Grant)
}

func TestWhoFillsAGPUIsSaidByTheStampsOfItsJobs(t *testing.T) {
	var told sync.Map // the users that were told last, by GPU: it looks by itself, too
	b := serve(t, func(c *settings) {
		c.Fill = func(_ context.Context, gpu int, jobs []node.Run) (bool, error) {
			var users []int
			for _, job := range jobs {
				if age := time.Since(time.Unix(0, job.Stamped)); job.UID != 10+job.Job || age < 0 || age > time.Hour {
					t.Errorf("told of %+v, which has a stamp for %v", job, age)
				}
				users = append(users, job.UID)
			}
			told.Store(gpu, slices.Sorted(slices.Values(users)))
			return true, errors.New("and yet it cannot")
		}
	})
	for job, s := range map[int]share.Stamp{
		1: {UID: 11, GPU: 0}, 2: {UID: 12, GPU: 0}, 3: {UID: 13, GPU: 1}, 4: {UID: 14, GPU: 5},
	} {
		s.V, s.Job, s.Class, s.Memory = 1, job, share.Low, 1
		stampOf(t, b.dir, s)
	}
	stampOf(t, b.dir, share.Stamp{V: 1, Job: ruder, UID: 16}) // a bad one, of no cluster's job
	if err := os.WriteFile(node.StampPath(b.dir, 9)+".new", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := broker.Tell(t.Context(), b.dir); err != nil {
		t.Fatal(err)
	}
	for gpu, want := range [][]int{{11, 12}, {13}} {
		if users, _ := told.Load(gpu); !reflect.DeepEqual(users, want) {
			t.Errorf("GPU %d is of %v, want %v", gpu, users, want)
		}
	}
	if mode := b.Status().GPUs[0].Mode; mode != "turns" {
		t.Errorf("what cannot be is the mode: %s", mode)
	}
}

// asks is a Filler that says of which GPUs it was asked.
type asks struct {
	mu   sync.Mutex
	gpus []int
}

func (a *asks) fill(_ context.Context, gpu int, _ []node.Run) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gpus = append(a.gpus, gpu)
	return false, nil
}

// of are the GPUs that are asked of in a look.
func (a *asks) of(t *testing.T, dir string) []int {
	t.Helper()
	a.mu.Lock()
	a.gpus = nil
	a.mu.Unlock()
	if err := broker.Tell(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.Sort(a.gpus)
	return a.gpus
}

// TestAStampThatCannotBeReadLeavesItsGPUAsItIsAsLongAsItsJobRuns: what serves the job would be ended under it. One that
// a job left behind keeps nobody from anything, and one that names its GPU leaves the others.
func TestAStampThatCannotBeReadLeavesItsGPUAsItIsAsLongAsItsJobRuns(t *testing.T) {
	said, asked := new(strings.Builder), &asks{}
	b := serve(t, func(c *settings) {
		c.Fill = asked.fill
		c.Log = slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelError}))
	})
	asked.of(t, b.dir) // by then also of those that nobody told of
	path := node.StampPath(b.dir, ruder)
	text := fmt.Sprintf(`{"v":2,"job":%d,"uid":0,"gpu":1,"class":"low","gpu_memory_mib":1}`, ruder)
	write := func(what string, mode os.FileMode) {
		t.Helper()
		stamp(t, b.dir, ruder, 0, share.Low, 1)
		if err := errors.Join(os.WriteFile(path, []byte(what), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, gpus ...int) {
		t.Helper()
		if got := asked.of(t, b.dir); !slices.Equal(got, gpus) {
			t.Errorf("%s: asked of %v, want %v", what, got, gpus)
		}
	}
	write(text, 0o644)
	want("its job is over", 0, 1)
	job := startJob(t, ruder, os.Getuid(), "sit")
	want("one of a later version", 0)
	write(text, 0o666)
	want("others may write it")
	write(`{"v":1,"job":`, 0o644)
	for range 3 {
		want("it is cut")
	}
	_ = syscall.Kill(job.pid, syscall.SIGKILL)
	job.kill()
	await(t, "an end of it", func() bool { return slices.Equal(asked.of(t, b.dir), []int{0, 1}) })
	if err := errors.Join(os.RemoveAll(filepath.Dir(path)), os.WriteFile(filepath.Dir(path), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	want("the folder is none")
	want("nor is it now")
	b.stop()
	if lines := strings.Count(said.String(), "\n"); lines != 6 {
		t.Errorf("said %d times, want once for each of 6 things:\n%s", lines, said)
	}
}

// TestWhoComesWhileAGPUCannotBeAskedOfHasBegun: no prolog waits there, nor for a broker that is not there yet. A GPU
// that is filled is so no longer, since nobody knows whether he is a client.
func TestWhoComesWhileAGPUCannotBeAskedOfHasBegun(t *testing.T) {
	var mu sync.Mutex
	begun := map[int]bool{}
	dir := t.TempDir()
	before := func(job int) { stamp(t, dir, job, 0, share.Low, 1) }
	before(1)
	b := serve(t, func(c *settings) {
		c.RunDir = dir
		c.Fill = func(_ context.Context, gpu int, jobs []node.Run) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, job := range jobs {
				begun[job.Job] = job.Begun
			}
			return gpu == 0, nil
		}
	})
	look := func(what, mode string, want map[int]bool) {
		t.Helper()
		if err := broker.Tell(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if now := b.Status().GPUs[0].Mode; now != mode || !reflect.DeepEqual(begun, want) {
			t.Errorf("%s: %s, begun had %v, want %s, %v", what, now, begun, mode, want)
		}
		clear(begun)
	}
	look("who was there", "fill", map[int]bool{1: true})
	before(2)
	look("who comes then", "fill", map[int]bool{1: true, 2: false})
	job := startJob(t, ruder, os.Getuid(), "sit")
	bad := node.StampPath(dir, ruder)
	if err := os.WriteFile(bad, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	look("one that cannot be read", "fill", map[int]bool{})
	before(3)
	look("one that comes beside it", "turns", map[int]bool{})
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	before(4)
	look("when it is mended", "fill", map[int]bool{1: true, 2: false, 3: true, 4: true})
	before(5)
	look("and afterwards", "fill", map[int]bool{1: true, 2: false, 3: true, 4: true, 5: false})
	jobs := filepath.Dir(bad)
	if err := errors.Join(os.Rename(jobs, jobs+"-"), os.WriteFile(jobs, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	look("the folder is none", "fill", map[int]bool{})
	if err := errors.Join(os.Remove(jobs), os.Rename(jobs+"-", jobs)); err != nil {
		t.Fatal(err)
	}
	before(6)
	look("it is one again", "fill", map[int]bool{1: true, 2: false, 3: true, 4: true, 5: false, 6: true})
	_ = syscall.Kill(job.pid, syscall.SIGKILL)
	job.kill()
}

func TestNoTaskIsSentToAnMPSThatNobodyWatches(t *testing.T) {
	b := serve(t, nil)
	fill := node.FillPath(b.dir, 0)
	write := func() {
		t.Helper()
		if err := os.WriteFile(fill, []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write()
	b.stop()
	if _, err := os.Stat(fill); err == nil {
		t.Error("a broker that ended left it")
	}
	write()
	if _, err := broker.Thaw(b.dir, here()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(fill); err == nil {
		t.Error("what comes after one that was killed left it")
	}
}

// TestAGPUThatIsNotAnsweredForDelaysNoOther: neither those who wait for another, nor its own clients, and of what is to
// be asked of it meanwhile the last alone is.
func TestAGPUThatIsNotAnsweredForDelaysNoOther(t *testing.T) {
	asked, answer := make(chan int, 100), make(chan error)
	b := serve(t, func(c *settings) {
		anyOf(7)(c)
		c.Fill = func(ctx context.Context, gpu int, jobs []node.Run) (bool, error) {
			if gpu == 1 {
				return true, nil
			}
			asked <- len(jobs)
			select {
			case err := <-answer:
				return err == nil, err
			case <-ctx.Done():
				return false, ctx.Err()
			}
		}
	})
	<-asked
	answer <- nil
	stamp(t, b.dir, 7, 0, share.Low, 1024)
	c := join(t, b.dir, 0)
	told := make(chan error, 2)
	tell := func() { told <- broker.Tell(t.Context(), b.dir, 0) }
	go tell()
	if n := <-asked; n != 1 {
		t.Errorf("asked of %d jobs", n)
	}
	for job := range 3 {
		stamp(t, b.dir, job, 1, share.Low, 1024)
		stamp(t, b.dir, 10+job, 0, share.Low, 1024)
		if err := broker.Tell(t.Context(), b.dir, 1); err != nil {
			t.Fatal(err)
		}
		turn(c)
	}
	select {
	case err := <-told:
		t.Errorf("who waits for GPU 0 does so no longer: %v", err)
	case n := <-asked:
		t.Errorf("it is asked of %d jobs at the same time", n)
	case <-time.After(30 * time.Millisecond):
	}
	wrong := errors.New("it hangs")
	answer <- wrong
	if n := <-asked; n != 4 {
		t.Errorf("asked of %d jobs then, want the 4 that there are", n)
	}
	if s := b.Status().GPUs; s[0].WhyTurns != wrong.Error() || s[0].Mode != "turns" || s[1].Mode != "fill" {
		t.Errorf("status is %+v", s)
	}
	answer <- nil
	if err := <-told; err != nil {
		t.Error(err)
	}
	await(t, "that it is filled", func() bool { return b.Status().GPUs[0].Mode == "fill" })
	if s := b.Status().GPUs[0]; s.WhyTurns != "" || s.Mode != "fill" {
		t.Errorf("status is %+v", s)
	}
	go tell()
	<-asked // and nobody answers: it ends with the broker
	b.stop()
	<-told
}

// TestAConnectionThatOutlivesItsStampIsDropped: an epilog has removed it, or a prolog of another run. The GPU is the
// next one's then.
func TestAConnectionThatOutlivesItsStampIsDropped(t *testing.T) {
	kept := share.Stamp{V: 1, Job: 7, UID: os.Getuid(), GPU: 0, Class: share.Low, Memory: 1024}
	with := func(change func(*share.Stamp)) func(string) error {
		return func(dir string) error {
			s := kept
			change(&s)
			stampOf(t, dir, s)
			return nil
		}
	}
	write := func(text string, mode os.FileMode) func(string) error {
		return func(dir string) error {
			path := node.StampPath(dir, 7)
			return errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode))
		}
	}
	for what, c := range map[string]struct {
		change func(dir string) error
		says   string // empty: it stays
	}{
		"there is none": {func(dir string) error { return os.Remove(node.StampPath(dir, 7)) },
			"no GPU any more"},
		"it is of another user": {with(func(s *share.Stamp) { s.UID = 4101 }), "is of user 4101"},
		"it is of another GPU":  {with(func(s *share.Stamp) { s.GPU = 1 }), "shares GPU 1"},
		"it has another class":  {with(func(s *share.Stamp) { s.Class = share.High }), "HELLO again"},
		"it is written anew":    {with(func(*share.Stamp) {}), ""},
		"it cannot be read":     {write("{", 0o644), ""},
		"others may write it":   {write("{}", 0o666), ""},
		"the folder is none": {func(dir string) error {
			jobs := filepath.Dir(node.StampPath(dir, 7))
			return errors.Join(os.RemoveAll(jobs), os.WriteFile(jobs, nil, 0o644))
		}, ""},
	} {
		jobs := make(chan int, 1)
		b := serve(t, identifyBy(jobs))
		stampOf(t, b.dir, kept)
		stamp(t, b.dir, 8, 0, share.Low, 1024)
		jobs <- 7
		first := join(t, b.dir, 0)
		jobs <- 8
		second := join(t, b.dir, 0)
		first.ask()
		first.want(wire.Grant)
		second.ask()
		if err := errors.Join(c.change(b.dir), broker.Tell(t.Context(), b.dir)); err != nil {
			t.Fatal(err)
		}
		if c.says == "" {
			first.quiet()
			b.stop()
			continue
		}
		if m := first.refused(wire.NotSharing); !strings.Contains(m.Text, c.says) {
			t.Errorf("%s: it is told %q", what, m.Text)
		}
		second.want(wire.Grant)
		if n := b.Status().GPUs[0].Dropped; n != 1 {
			t.Errorf("%s: %d were dropped", what, n)
		}
		b.stop()
	}
}

func TestNobodyWaitsForABrokerThatIsNotThere(t *testing.T) {
	if err := broker.Tell(t.Context(), t.TempDir()); err == nil {
		t.Error("it was told")
	}
}
