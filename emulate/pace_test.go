package emulate_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/emulate"
)

func TestASleeperKeepsPartsOfAnIterationOverAStop(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := &emulate.Sleeper{Rate: 2}
		for range 4 {
			s.Start()
			time.Sleep(200 * time.Millisecond)
			s.Stop()
			time.Sleep(time.Hour)
		}
		if got := s.Done(); got < 1.599 || got > 1.601 {
			t.Errorf("%v iterations in 0.8 s at 2 a second", got)
		}
		s.Start()
		s.Finish()
		if got := s.Done(); got != 2 {
			t.Errorf("finished at %v", got)
		}
	})
}

// CPU time does not depend on what else the machine does, and a slow machine makes the iterations take longer, not
// shorter.
func TestABurnerUsesTheCPUTimeOfItsIterationsAndIsNoFasterThanItsRate(t *testing.T) {
	b := &emulate.Burner{Rate: 400, CPUSeconds: 0.002, Cores: 2}
	cpu, begun := cpuTime(t), time.Now()
	b.Start()
	for b.Done() < 80 {
		time.Sleep(10 * time.Millisecond)
	}
	b.Stop()
	n := b.Done()
	burnt, took := (cpuTime(t) - cpu).Seconds(), time.Since(begun).Seconds()
	if burnt < n*0.002*0.9 || burnt > n*0.002*1.6 {
		t.Errorf("%v iterations of 2 ms used %v s of CPU", n, burnt)
	}
	if took < n/400 {
		t.Errorf("%v iterations at 400 a second in %v s", n, took)
	}
	b.Stop()
	time.Sleep(20 * time.Millisecond)
	if b.Done() != n {
		t.Errorf("%v iterations, after the stop %v", n, b.Done())
	}
}

func TestABurnerGoesOnAfterAStop(t *testing.T) {
	b := &emulate.Burner{Rate: 100, CPUSeconds: 0.001, Cores: 1}
	b.Finish() // before it was ever started
	for range 2 {
		before := b.Done()
		b.Start()
		for b.Done() == before {
			time.Sleep(time.Millisecond)
		}
		b.Stop()
	}
}

// cpuTime is what this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
