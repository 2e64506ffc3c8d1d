package emulate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/emulate"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// steady is a profile of a model that does one iteration a second on each core, up to four.
func steady() *sensitivity.Profile {
	return &sensitivity.Profile{
		Version: 1, Model: "steady", Task: "image", GPUType: "V100", Batch: 8,
		CoresPerGPU: []float64{1, 2, 4}, MemoryPerGPU: []gres.Memory{1000},
		Throughput:        [][]float64{{8}, {16}, {32}},
		CheckpointSeconds: 10, StartSeconds: 20,
	}
}

// bench is a job on a virtual clock, and what it logged.
type bench struct {
	*emulate.Job
	log     *bytes.Buffer
	signals chan os.Signal
}

// newBench is a job of 1000 iterations at two a second that takes 20 s to start and 10 s to save.
func newBench() bench {
	log, signals := &bytes.Buffer{}, make(chan os.Signal, 16)
	b := bench{log: log, signals: signals, Job: &emulate.Job{
		ID: "17", Profile: steady(), Grant: grant(1, 1, 2, 1000), Goal: emulate.Goal{Iterations: 1000}, Speedup: 1,
		Mode: emulate.VirtualCPU, Warmup: 20 * time.Second, Cost: 10 * time.Second, Interval: time.Minute,
		Leave: syscall.SIGUSR1, Signals: signals, Log: emulate.Log{To: log},
	}}
	return b
}

// run runs the job, sending signals at times after its start, and returns how long it took.
func (b bench) run(t *testing.T, at map[time.Duration]os.Signal) (emulate.Outcome, time.Duration) {
	t.Helper()
	b.Work = &emulate.Sleeper{Rate: b.Pace()}
	for after, signal := range at {
		timer := time.AfterFunc(after, func() { b.signals <- signal })
		defer timer.Stop()
	}
	begun := time.Now()
	out, err := b.Run()
	if err != nil {
		t.Fatal(err)
	}
	return out, time.Since(begun)
}

// records are the lines of the log with the given event.
func (b bench) records(t *testing.T, event string) []emulate.Record {
	t.Helper()
	var found []emulate.Record
	for line := range strings.Lines(b.log.String()) {
		var r emulate.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if r.Event == event {
			found = append(found, r)
		}
	}
	return found
}

// about allows for the wait after which a job looks at the clock again.
func about(got, want time.Duration) bool { return got >= want && got < want+5*time.Millisecond }

// virtual runs a test on a virtual clock.
func virtual(t *testing.T, test func(t *testing.T)) { synctest.Test(t, test) }

func TestAJobTakesItsWarmUpAndItsIterations(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := newBench()
		out, took := b.run(t, nil)
		if want := (emulate.Outcome{Reason: emulate.Finished, Done: 1000, Total: 1000, Goal: 1000,
			Starts: 1}); out != want {
			t.Errorf("%+v, want %+v", out, want)
		}
		if !about(took, 520*time.Second) {
			t.Errorf("took %v, want 20 s + 1000 / 2 s", took)
		}
	})
}

func TestCoresSpeedAJobUpAsItsProfileSays(t *testing.T) {
	for cores, want := range map[int]time.Duration{1: 1020, 2: 520, 3: 353333 * time.Millisecond / time.Second, 4: 270,
		8: 270} {
		virtual(t, func(t *testing.T) {
			b := newBench()
			b.Grant = grant(1, 1, cores, 1000)
			if _, took := b.run(t, nil); took.Truncate(time.Second) != want*time.Second {
				t.Errorf("%d cores: took %v, want %d s", cores, took, want)
			}
		})
	}
}

func TestSpeedupDividesEveryDuration(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := newBench()
		s := store(t)
		b.Store, b.Every, b.Speedup = &s, 100*time.Second, 10
		_, took := b.run(t, nil)
		if !about(took, (520+4*10)*time.Second/10) {
			t.Errorf("took %v, want a tenth of 560 s", took)
		}
	})
}

func TestTrainingTimeIsAGoalOverAllStarts(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := store(t)
		b := newBench()
		b.Store, b.Goal = &s, emulate.Goal{Training: 100 * time.Second}
		first, _ := b.run(t, map[time.Duration]os.Signal{50 * time.Second: syscall.SIGUSR1})
		b.Grant = grant(1, 1, 4, 1000)
		second, _ := b.run(t, map[time.Duration]os.Signal{60 * time.Second: syscall.SIGUSR1})
		b.Grant = grant(1, 1, 1, 1000)
		third, took := b.run(t, nil)
		if first.Done != 60 || second.Done != 160 || third.Done != 30 || !about(took, 50*time.Second) {
			t.Errorf("%+v, %+v, %+v in %v; want 30 s at 2 a second, 40 s at 4, 30 s at 1", first, second, third, took)
		}
	})
}

func TestAskedToLeaveAJobSavesAndResumesWithoutLoss(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := store(t)
		b := newBench()
		b.Store = &s
		first, took := b.run(t, map[time.Duration]os.Signal{120 * time.Second: syscall.SIGUSR1})
		if want := (emulate.Outcome{Reason: emulate.Left, Done: 200, Total: 200, Goal: 1000,
			Starts: 1}); first != want {
			t.Errorf("%+v, want %+v", first, want)
		}
		if !about(took, 130*time.Second) {
			t.Errorf("left after %v, want 120 s and the 10 s of a checkpoint", took)
		}
		b.Restart = 1
		second, took := b.run(t, nil)
		if want := (emulate.Outcome{Reason: emulate.Finished, Done: 800, Total: 1000, Goal: 1000,
			Starts: 2}); second != want {
			t.Errorf("%+v, want %+v", second, want)
		}
		if !about(took, 420*time.Second) {
			t.Errorf("took %v, want 20 s + 800 / 2 s", took)
		}
	})
}

func TestTheIterationUnderWayIsFinishedBeforeLeaving(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := store(t)
		b := newBench()
		b.Store = &s
		out, took := b.run(t, map[time.Duration]os.Signal{20*time.Second + 10100*time.Millisecond: syscall.SIGUSR1})
		if out.Total != 21 || !about(took, 40500*time.Millisecond) {
			t.Errorf("%d iterations in %v, want 21 in 20 s + 10.5 s + 10 s", out.Total, took)
		}
	})
}

func TestAJobThatIsAskedInItsLastIterationFinishes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := store(t)
		b := newBench()
		b.Store = &s
		out, _ := b.run(t, map[time.Duration]os.Signal{519900 * time.Millisecond: syscall.SIGUSR1})
		if out.Reason != emulate.Finished || out.Total != 1000 {
			t.Errorf("%+v", out)
		}
	})
}

func TestAJobThatIsAskedWhileItWarmsUpLeavesAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := store(t)
		b := newBench()
		b.Store = &s
		out, took := b.run(t, map[time.Duration]os.Signal{5 * time.Second: syscall.SIGUSR2,
			7 * time.Second: syscall.SIGUSR1})
		if out.Reason != emulate.Left || out.Total != 0 || !about(took, 7*time.Second) {
			t.Errorf("%+v after %v", out, took)
		}
	})
}

func TestTerminatedAJobSavesWhatIsDone(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := store(t)
		b := newBench()
		b.Store = &s
		out, took := b.run(t, map[time.Duration]os.Signal{30300 * time.Millisecond: syscall.SIGTERM})
		if out.Reason != emulate.Terminated || out.Total != 20 || out.Lost != 0 ||
			!about(took, 40300*time.Millisecond) {
			t.Errorf("%+v after %v", out, took)
		}
		if state, err := s.Load(); err != nil || state.Iterations != 20 {
			t.Errorf("%+v, %v", state, err)
		}
	})
}

func TestWithoutACheckpointAskingIsIgnoredAndTerminationLosesAll(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := newBench()
		out, took := b.run(t, map[time.Duration]os.Signal{
			30 * time.Second: syscall.SIGUSR1, 40 * time.Second: syscall.SIGUSR2, 50 * time.Second: syscall.SIGTERM,
		})
		if want := (emulate.Outcome{Reason: emulate.Killed, Done: 60, Total: 60, Goal: 1000, Starts: 1,
			Lost: 60}); out != want {
			t.Errorf("%+v, want %+v", out, want)
		}
		if !about(took, 50*time.Second) {
			t.Errorf("took %v", took)
		}
		ignored := b.records(t, "ignored")
		if len(ignored) != 2 || ignored[0].Signal != "USR1" || ignored[1].Signal != "USR2" || ignored[0].Why == "" {
			t.Errorf("warnings %+v", ignored)
		}
	})
}

func TestUSR2SavesAndGoesOn(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := store(t)
		b := newBench()
		b.Store = &s
		out, took := b.run(t, map[time.Duration]os.Signal{120 * time.Second: syscall.SIGUSR2})
		if out.Reason != emulate.Finished || !about(took, 530*time.Second) {
			t.Errorf("%+v after %v, want 10 s more than without", out, took)
		}
		if saves := b.records(t, "save"); len(saves) != 2 || saves[0].Iteration != 200 || saves[1].Iteration != 1000 {
			t.Errorf("saves %+v", saves)
		}
	})
}

func TestAnyAgreedSignalCanAsk(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := store(t)
		b := newBench()
		b.Store, b.Leave = &s, syscall.SIGUSR2
		out, _ := b.run(t, map[time.Duration]os.Signal{60 * time.Second: syscall.SIGUSR1,
			120 * time.Second: syscall.SIGUSR2})
		if out.Reason != emulate.Left || len(b.records(t, "save")) != 2 {
			t.Errorf("%+v", out)
		}
	})
}

func TestAJobSavesByItselfAndPaysForIt(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := store(t)
		b := newBench()
		b.Store, b.Every = &s, 100*time.Second
		out, took := b.run(t, nil)
		var at []int64
		for _, r := range b.records(t, "save") {
			at = append(at, r.Iteration)
		}
		if out.Reason != emulate.Finished || !about(took, 560*time.Second) || len(at) != 5 || at[0] != 200 ||
			at[3] != 800 {
			t.Errorf("%+v after %v, saves at %v", out, took, at)
		}
	})
}

func TestAStartAfterADeathCountsWhatWasLost(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := store(t)
		saved(t, s, 3)
		if err := s.Note(340); err != nil {
			t.Fatal(err)
		}
		b := newBench()
		b.Profile.Model = "res18"
		b.Store = &s
		out, _ := b.run(t, nil)
		if want := (emulate.Outcome{Reason: emulate.Finished, Done: 700, Total: 1000, Goal: 1000, Starts: 2,
			Lost: 40}); out != want {
			t.Errorf("%+v, want %+v", out, want)
		}
	})
}

func TestALossIsCountedOnce(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := store(t)
		saved(t, s, 3)
		if err := s.Note(340); err != nil {
			t.Fatal(err)
		}
		b := newBench()
		b.Profile.Model = "res18"
		b.Store = &s
		for range 2 {
			out, _ := b.run(t, map[time.Duration]os.Signal{time.Second: syscall.SIGTERM})
			if out.Lost != 40 {
				t.Errorf("lost %d, want 40", out.Lost)
			}
		}
	})
}

func TestSlurmsCountOfRestartsIsBelievedOverAnOldCheckpoint(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := store(t)
		saved(t, s, 1)
		b := newBench()
		b.Profile.Model = "res18"
		b.Store, b.Restart = &s, 6
		if out, _ := b.run(t, nil); out.Starts != 7 {
			t.Errorf("%+v", out)
		}
	})
}

func TestAJobThatHasReachedItsGoalDoesNothingMore(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := store(t)
		b := newBench()
		b.Store = &s
		b.run(t, nil)
		out, took := b.run(t, nil)
		if out.Reason != emulate.Finished || out.Done != 0 || out.Total != 1000 || took != 0 {
			t.Errorf("%+v after %v", out, took)
		}
	})
}

func TestACheckpointOfAnotherJobOrModelIsRefused(t *testing.T) {
	s := store(t)
	saved(t, s, 1) // of job 17 and res18
	for _, c := range []struct {
		id, model string
		adopt     bool
		want      string
	}{
		{"17", "res18", false, ""},
		{"", "res18", false, ""},
		{"18", "res18", false, "is a checkpoint of job 17, this is job 18"},
		{"18", "res18", true, ""},
		{"18", "m5", true, `is a checkpoint of model "res18", the profile is of "m5"`},
	} {
		b := newBench()
		copied := store(t)
		overwrite(t, copied.Path+".1", contents(t, s.Path+".1"))
		b.ID, b.Profile.Model, b.Adopt, b.Store = c.id, c.model, c.adopt, &copied
		b.Goal.Iterations, b.Work = 100, &emulate.Sleeper{Rate: 1}
		_, err := b.Run()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("job %q, model %s, adopt %v: %v; want %q", c.id, c.model, c.adopt, err, c.want)
		}
		if state, _ := copied.Load(); err == nil && state.Job != c.id {
			t.Errorf("job %q took a checkpoint up that is still of job %s", c.id, state.Job)
		}
	}
}

func TestADamagedCheckpointIsNotTakenForANewBeginning(t *testing.T) {
	s := store(t)
	overwrite(t, s.Path+".0", []byte("torn"))
	b := newBench()
	b.Store, b.Work = &s, &emulate.Sleeper{Rate: 1}
	if _, err := b.Run(); !errors.Is(err, emulate.ErrDamaged) {
		t.Errorf("%v", err)
	}
}

func TestTheLogTellsTheRateThatWasPredicted(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := newBench()
		b.Grant, b.Restart = grant(2, 3, 6, 3000), 4
		b.run(t, nil)
		start := b.records(t, "start")[0]
		if start.Mode != emulate.VirtualCPU || start.Model != "steady" || start.Cores != 6 || start.Memory != 3000 ||
			start.GPUs != 3 ||
			start.Nodes != 2 || *start.Restart != 4 || start.Predicted != 2 || start.Goal != 1000 {
			t.Errorf("start %+v", start)
		}
		lines := b.records(t, "run")
		if len(lines) != 8 {
			t.Errorf("%d lines in 500 s of training", len(lines))
		}
		for _, r := range lines {
			if math.Abs(r.Iterations-2) > 0.02 || math.Abs(r.Samples-2*6*8) > 1 || r.Cores != 6 || r.Nodes != 2 {
				t.Errorf("%+v", r)
			}
		}
		end := b.records(t, "end")[0]
		if end.Reason != emulate.Finished || *end.Done != 1000 || end.Starts != 5 || *end.Lost != 0 ||
			math.Abs(end.Wall-520) > .1 {
			t.Errorf("end %+v", end)
		}
	})
}

func TestALogThatCannotBeWrittenEndsTheJob(t *testing.T) {
	b := newBench()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	b.Log, b.Work = emulate.Log{To: full}, &emulate.Sleeper{Rate: 1}
	if _, err := b.Run(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
}
