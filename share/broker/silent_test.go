package broker_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/broker"
	"github.com/synergy-slurmd/synergy-slurmd/share/node"
	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// soon has jobs be silent at once.
func soon(c *broker.Config) { c.SilentAfter = time.Millisecond }

// mute is a process of a job that knows of no broker.
func mute(t *testing.T, b *bench, job int) *child {
	t.Helper()
	stamp(t, b.dir, job, 0, share.Low, 1024)
	c := startJob(t, job, os.Getuid(), "tick")
	go c.drain()
	return c
}

// tell has the broker look.
func tell(t testing.TB, b *bench) {
	t.Helper()
	if err := broker.Tell(t.Context(), b.dir); err != nil {
		t.Fatal(err)
	}
}

// silentOf are the jobs whose client the broker is.
func silentOf(b *bench) (jobs []int) {
	for _, c := range b.Status().GPUs[0].Clients {
		if c.IsSilent() {
			jobs = append(jobs, c.Job)
		}
	}
	slices.Sort(jobs)
	return jobs
}

// silentPair is a broker with a job that does not speak, and an important client of another.
func silentPair(t *testing.T, change ...func(*broker.Config)) (*bench, *child, *caller) {
	t.Helper()
	b := serve(t, func(c *broker.Config) {
		for _, set := range append([]func(*broker.Config){soon, ofJob(important)}, change...) {
			set(c)
		}
	})
	stamp(t, b.dir, important, 0, share.High, 1024)
	quiet := mute(t, b, ruder)
	high := join(t, b.dir, 0)
	await(t, "a job that is silent", func() bool {
		tell(t, b)
		return slices.Equal(silentOf(b), []int{ruder})
	})
	return b, quiet, high
}

// keptFrozen are the files of what is stopped.
func keptFrozen(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "frozen", "*.json"))
	return files
}

// goesOn waits until a job does.
func goesOn(t *testing.T, what string, c *child) {
	t.Helper()
	ticks := c.count("tick")
	await(t, what+": a job that goes on", func() bool { return c.count("tick") > ticks+3 })
}

func TestAJobThatNeverSpeaksStandsWhenTheImportantOneHasTheGPU(t *testing.T) {
	b, quiet, high := silentPair(t)
	for range 4 {
		goesOn(t, "in between", quiet)
		high.ask()
		high.want(wire.Grant)
		if !stands(t, quiet.pid) {
			t.Error("it runs when the important one begins")
		}
		if stands(t, quiet.cmd.Process.Pid) {
			t.Error("Slurm's own process was stopped")
		}
		if !quietFor(quiet, 250*time.Millisecond) {
			t.Error("it runs beside the important one")
		}
		if c := b.Status().GPUs[0].Clients[1]; c.State != wire.Frozen || c.Kind != wire.Silent || c.PID != 0 ||
			c.UID != os.Getuid() {
			t.Errorf("it is shown as %+v", c)
		}
		high.release()
	}
	if s := b.Status().GPUs[0]; s.Freezes != 0 || s.Offences != 0 || s.Classes["low"].Turns < 4 {
		t.Errorf("status is %+v", s)
	}
	if text := broker.Metrics(b.Status()); !strings.Contains(text, "synergy_broker_silent{gpu=\"0\"} 1\n") ||
		!strings.Contains(text, "synergy_broker_clients{gpu=\"0\"} 1\n") {
		t.Errorf("metrics are\n%s", text)
	}
}

// TestAJobThatNeverSpeaksHasItsLeastShare though the important one wants the GPU all the time; and that keeps the rest.
func TestAJobThatNeverSpeaksHasItsLeastShare(t *testing.T) {
	_, quiet, high := silentPair(t, func(c *broker.Config) {
		c.Rules = turns.Rules{LookAhead: true, MinShare: 0.2}
	})
	high.ask()
	high.want(wire.Grant)
	before, began, held := quiet.count("tick"), time.Now(), time.Now()
	var had time.Duration
	grants := 0
	for time.Since(began) < 5*time.Second {
		m, err := high.next(patience)
		switch {
		case err != nil:
			t.Fatal(err)
		case m.Type == wire.Yield:
			had += time.Since(held)
			high.release()
			high.ask()
		case m.Type == wire.Grant:
			held = time.Now()
			grants++
			if !stands(t, quiet.pid) {
				t.Error("it runs when the important one begins")
			}
		}
	}
	ticks := quiet.count("tick") - before
	part := had.Seconds() / time.Since(began).Seconds()
	t.Logf("%d ticks in %d turns; the important one had %.2f", ticks, grants, part)
	if ticks < 50 { // of some 1000 alone, 150 of which it is to have
		t.Errorf("it said %d times that it lives", ticks)
	}
	if part < 0.6 {
		t.Errorf("the important one had %.2f of the time, want 0.8", part)
	}
}

// TestAJobThatNeverSpeaksIsOutOfTheWayWhenTheImportantOneIsExpected: it has its turns in the gaps, and ends them by
// itself. If it were stopped when the other is back, that would wait for a drain each time. When the important one is
// expected is learned from its gaps, and a machine with other work makes those uneven: it has three tries.
func TestAJobThatNeverSpeaksIsOutOfTheWayWhenTheImportantOneIsExpected(t *testing.T) {
	b, quiet, high := silentPair(t, func(c *broker.Config) { c.Rules = turns.Rules{LookAhead: true} })
	for range 3 {
		before := b.Status().GPUs[0].Clients[1].Turns
		median := medianWait(high, 10)
		had := b.Status().GPUs[0].Clients[1].Turns - before
		t.Logf("median wait %v; the silent one had %d turns and said %d times that it lives", median, had,
			quiet.count("tick"))
		if had >= 5 && median < turns.DefaultDrain {
			return
		}
	}
	t.Error("in no try the important one waited for nothing and the silent one had 5 turns in 10 gaps")
}

// TestAJobWhoseFirstStopWasSlowHasTurnsAgain as soon as it is stopped quickly: if that one stop were believed for ever,
// no gap would be long enough for a slice, and without a slice no other stop is measured.
func TestAJobWhoseFirstStopWasSlowHasTurnsAgain(t *testing.T) {
	jobs := make(chan int, 1)
	b, c := slowly(t, identifyBy(jobs), soon, func(c *settings) { c.Rules = turns.Rules{LookAhead: true} })
	stamp(t, b.dir, 7, 0, share.Low, 1024)
	stamp(t, b.dir, 8, 0, share.High, 1024)
	jobs <- 8
	high := join(t, b.dir, 0)
	await(t, "a job that is silent", func() bool {
		tell(t, b)
		return slices.Equal(silentOf(b), []int{7})
	})
	high.ask()
	time.Sleep(400 * time.Millisecond)
	c.takes("1")
	high.want(wire.Grant)
	high.release()
	turnsOf := func() int { return b.Status().GPUs[0].Clients[1].Turns }
	for range 5 {
		before := turnsOf()
		medianWait(high, 10)
		if turnsOf()-before >= 5 {
			return
		}
	}
	t.Errorf("it had %d turns in 50 gaps: %+v", turnsOf(), b.Status().GPUs[0])
}

// medianWait is how long the client waits for its turn, over turns of 20 ms with gaps of half a second.
func medianWait(c *caller, rounds int) time.Duration {
	waits := make([]time.Duration, rounds)
	for k := range waits {
		asked := time.Now()
		c.ask()
		c.want(wire.Grant)
		waits[k] = time.Since(asked)
		time.Sleep(20 * time.Millisecond)
		c.release()
		time.Sleep(500 * time.Millisecond) // two turns of the silent one and a half
	}
	slices.Sort(waits)
	return waits[len(waits)/2]
}

func TestAJobThatNeverSpeaksGoesOnWhenItsTurnsAreOver(t *testing.T) {
	var fills atomic.Bool
	for what, end := range map[string]func(*testing.T, *bench, *caller){
		"the broker ends": func(_ *testing.T, b *bench, _ *caller) { b.stop() },
		"it speaks": func(t *testing.T, b *bench, _ *caller) {
			c := startJob(t, ruder, os.Getuid(), "hold", node.SocketPath(b.dir, 0))
			c.hears("joined")
			tell(t, b)
			if clients := b.Status().GPUs[0].Clients; len(clients) != 2 || clients[1].IsSilent() {
				t.Errorf("clients are %+v", clients)
			}
		},
		"its stamp goes": func(t *testing.T, b *bench, _ *caller) {
			if err := os.Remove(node.StampPath(b.dir, ruder)); err != nil {
				t.Fatal(err)
			}
			tell(t, b)
		},
		"it shares another GPU": func(t *testing.T, b *bench, _ *caller) {
			stamp(t, b.dir, ruder, 1, share.Low, 1024)
			tell(t, b)
		},
		"it is important by now": func(t *testing.T, b *bench, _ *caller) {
			stamp(t, b.dir, ruder, 0, share.High, 1024)
			for range 3 {
				time.Sleep(5 * time.Millisecond)
				tell(t, b)
			}
		},
		"all have the GPU at once": func(t *testing.T, b *bench, _ *caller) {
			fills.Store(true)
			tell(t, b)
		},
		"the others leave": func(_ *testing.T, _ *bench, high *caller) { high.conn.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			fills.Store(false)
			b, quiet, high := silentPair(t, func(c *broker.Config) {
				c.Fill = func(context.Context, int, []node.Run) (bool, error) { return fills.Load(), nil }
			})
			high.ask()
			high.want(wire.Grant)
			if !stands(t, quiet.pid) {
				t.Fatal("it does not stand: the test shows nothing")
			}
			end(t, b, high)
			goesOn(t, what, quiet)
			await(t, "an end of it", func() bool { return len(silentOf(b)) == 0 && len(keptFrozen(b.dir)) == 0 })
			if still := b.Status().StillFrozen; len(still) != 0 {
				t.Errorf("%+v stand", still)
			}
		})
	}
}

func TestNobodyIsSilentWhoNeedNotBe(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*broker.Config)
		class  share.Class // of the job that does not speak
		speaks int         // the job of the client that is there
	}{
		"it is too early":           {func(c *broker.Config) { c.SilentAfter = time.Hour }, share.Low, important},
		"it is switched off":        {func(c *broker.Config) { c.SilentAfter = 0 }, share.Low, important},
		"it is the important one":   {nil, share.High, important},
		"nobody else takes turns":   {nil, share.Low, 0},
		"it has a client of itself": {nil, share.Low, ruder},
	} {
		b := serve(t, func(s *broker.Config) {
			soon(s)
			ofJob(c.speaks)(s)
			if c.change != nil {
				c.change(s)
			}
		})
		stamp(t, b.dir, important, 0, share.Low, 1024)
		stamp(t, b.dir, ruder, 0, c.class, 1024)
		if c.speaks != 0 {
			join(t, b.dir, 0)
		}
		if c.speaks != important { // which is silent beside a client then, else
			if err := os.Remove(node.StampPath(b.dir, important)); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			tell(t, b)
			time.Sleep(5 * time.Millisecond)
		}
		if jobs := silentOf(b); len(jobs) > 0 {
			t.Errorf("%s: %v are silent", what, jobs)
		}
		b.stop()
	}
}

// TestNobodyIsGrantedTheGPUUntilAJobThatNeverSpeaksStands on a machine that is slow to stop it.
func TestNobodyIsGrantedTheGPUUntilAJobThatNeverSpeaksStands(t *testing.T) {
	b, c := slowly(t, soon, anyOf(8))
	stamp(t, b.dir, 7, 0, share.Low, 1024)
	stamp(t, b.dir, 8, 0, share.High, 1024)
	high := join(t, b.dir, 0)
	await(t, "a job that is silent", func() bool {
		tell(t, b)
		return slices.Equal(silentOf(b), []int{7})
	})
	high.ask()
	for range 20 { // longer than a drain, and than its grace
		high.quiet()
	}
	c.takes("1")
	high.want(wire.Grant)
	high.release()
	c.takes("0")
}

// TestAJobThatCannotBeStoppedIsLeftToTimeSlices, and that is said once.
func TestAJobThatCannotBeStoppedIsLeftToTimeSlices(t *testing.T) {
	said := new(strings.Builder)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "frozen"), nil, 0o644); err != nil { // where a folder is to be
		t.Fatal(err)
	}
	b, quiet, high := silentPair(t, func(c *broker.Config) {
		c.RunDir = dir
		c.Log = slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelError}))
	})
	high.ask()
	high.want(wire.Grant)
	await(t, "an end of it", func() bool { return len(silentOf(b)) == 0 })
	for range 3 {
		tell(t, b)
	}
	if jobs := silentOf(b); len(jobs) > 0 {
		t.Errorf("it is tried again with %v", jobs)
	}
	goesOn(t, "it cannot be stopped", quiet)
	high.release()
	high.ask()
	high.want(wire.Grant)
	b.stop()
	if n := strings.Count(said.String(), "cannot be stopped"); n != 1 {
		t.Errorf("said %d times:\n%s", n, said)
	}
}

func TestAJobThatNeverSpeaksAndIsSuspendedStandsAndTakesNoTurns(t *testing.T) {
	b, quiet, high := silentPair(t)
	goesOn(t, "before", quiet)
	if err := syscall.Kill(quiet.pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	await(t, "a stop", func() bool { return stands(t, quiet.pid) })
	high.ask()
	high.want(wire.Grant)
	high.release()
	await(t, "an end of its turns", func() bool { return len(silentOf(b)) == 0 })
	b.stop()
	if !stands(t, quiet.pid) {
		t.Error("it goes on though Slurm has suspended it")
	}
	if err := syscall.Kill(quiet.pid, syscall.SIGCONT); err != nil {
		t.Error(err)
	}
}

// TestWhateverHappensNoJobThatNeverSpeaksStandsThatShouldNot tries sequences of what may happen, and asks after each
// thing whether at most those stand that are silent, and at last whether none does.
func TestWhateverHappensNoJobThatNeverSpeaksStandsThatShouldNot(t *testing.T) {
	var fills atomic.Bool
	for seed := range uint64(2) {
		r := rand.New(rand.NewPCG(seed, 7))
		fills.Store(false)
		b := serve(t, func(c *broker.Config) {
			soon(c)
			ofJob(important)(c)
			c.Rules = turns.Rules{LookAhead: seed%2 == 0, MinShare: 0.2}
			c.Fill = func(context.Context, int, []node.Run) (bool, error) { return fills.Load(), nil }
		})
		stamp(t, b.dir, important, 0, share.High, 1024)
		jobs := map[int]*child{ruder: mute(t, b, ruder), third: mute(t, b, third)}
		var high *caller
		for range 50 {
			job := []int{ruder, third}[r.IntN(2)]
			switch r.IntN(7) {
			case 0:
				fills.Store(r.IntN(3) == 0)
			case 1:
				stamp(t, b.dir, job, r.IntN(2), share.Low, 1024)
			case 2:
				_ = os.Remove(node.StampPath(b.dir, job))
			case 3, 4:
				if high == nil {
					high = join(t, b.dir, 0)
				} else {
					high.conn.Close()
					high = nil
				}
			case 5, 6:
				if high != nil {
					high.ask()
				}
			}
			if r.IntN(2) == 0 {
				tell(t, b)
			}
			time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
			for _, path := range keptFrozen(b.dir) {
				job, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), ".json"))
				if slices.Contains(silentOf(b), job) {
					continue
				}
				await(t, "a file that goes", func() bool {
					_, err := os.Stat(path)
					return errors.Is(err, os.ErrNotExist) || slices.Contains(silentOf(b), job)
				})
			}
		}
		if high != nil {
			high.conn.Close()
		}
		await(t, "no silent job", func() bool { return len(silentOf(b)) == 0 && len(keptFrozen(b.dir)) == 0 })
		for _, c := range jobs {
			goesOn(t, "at last", c)
		}
		if still := b.Status().StillFrozen; len(still) > 0 {
			t.Errorf("seed %d: %+v stand", seed, still)
		}
		b.stop()
		for _, c := range jobs {
			goesOn(t, "after the broker", c)
			c.kill()
			_ = syscall.Kill(c.pid, syscall.SIGKILL)
		}
	}
}
