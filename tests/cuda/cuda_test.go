//go:build preload

package cuda

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
)

// ways are those by which a program finds the driver's functions, and what is launched by then.
var ways = map[string][]string{
	"linked":     {"plain", "ex", "coop", "graph"},
	"dlsym":      {"plain", "ex", "coop", "graph"},
	"default":    {"plain", "ex", "coop", "graph"},
	"dlvsym":     {"plain", "ex", "coop", "graph"},
	"proc":       {"plain", "ex", "coop", "graph"},
	"proc2":      {"plain", "ex", "coop", "graph"},
	"ptsz":       {"ptsz", "ex_p", "coop_p", "graph_p"},
	"proc_ptsz":  {"ptsz", "ex_p", "coop_p", "graph_p"},
	"proc2_ptsz": {"ptsz", "ex_p", "coop_p", "graph_p"},
}

func TestAProgramTakesTurnsHoweverItFindsCUDAAndHoweverItLaunches(t *testing.T) {
	for how, want := range ways {
		t.Run(how, func(t *testing.T) {
			b := withBroker(t)
			said := b.run(b.program(2, how, "every", "0", "100"))
			if said.Kernels != 8 || said.Grants == 0 || said.Unmanaged != 0 {
				t.Errorf("said %+v, want 8 kernels and a turn", said)
			}
			var by []string
			for _, r := range b.records() {
				by = append(by, r.by())
			}
			if !slices.Equal(by, want) {
				t.Errorf("launched by %v, want %v", by, want)
			}
		})
	}
}

func TestAFunctionThatTheDriverGivesAndDoesNotExportIsHookedByItsName(t *testing.T) {
	b := withBroker(t)
	program := b.program(2, "proc2", "every", "0", "100")
	program.Env = append(program.Env, "STUB_INNER=yes")
	said := b.run(program)
	if got := b.records()[0].by(); said.Kernels != 8 || got != "inner" {
		t.Errorf("said %+v and launched by %s", said, got)
	}
}

// TestTwoProgramsAreNeverOnTheGPUAtOnce has two of equal class change often. Without turns they are there at once, or
// the test would show nothing.
func TestTwoProgramsAreNeverOnTheGPUAtOnce(t *testing.T) {
	for name, c := range map[string]struct{ args, env []string }{
		"one thread that never waits":              {args: []string{"dlsym", "kernels", "1500", "200"}},
		"one thread that waits often":              {args: []string{"proc2", "kernels", "1000", "200", "20"}},
		"threads and streams":                      {args: []string{"proc2_ptsz", "threads", "300", "200"}},
		"contexts":                                 {args: []string{"linked", "contexts", "200", "3000"}},
		"graphs, longer than the gate is open for": {args: []string{"dlsym", "graphs", "25", "100", "80"}},
		"threads, and a driver that is slow to launch": {args: []string{"dlsym", "threads", "250", "300"},
			env: []string{"STUB_SLOW_US=2000"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := exclusive(t, turns.Rules{Quantum: 20 * time.Millisecond}, func(b *bench) { b.both(c.args, c.env) })
			b.short()
			if n := changes(b.records()); n < 4 {
				t.Errorf("the GPU changed hands %d times", n)
			}
			free := noBroker(t)
			free.both(c.args, c.env)
			if overlaps(free.records()) == 0 {
				t.Error("without turns they do not meet either")
			}
		})
	}
}

// both runs the same as two jobs.
func (b *bench) both(args, env []string) {
	var all sync.WaitGroup
	for _, job := range []int{2, 3} {
		program := b.program(job, args...)
		program.Env = append(program.Env, env...)
		all.Go(func() { b.run(program) })
	}
	all.Wait()
}

// TestTheImportantProgramWaitsForWhatIsInAQueueOfFiveMilliseconds: the other launches without end, and never waits.
func TestTheImportantProgramWaitsForWhatIsInAQueueOfFiveMilliseconds(t *testing.T) {
	exclusive(t, turns.Defaults(), func(b *bench) {
		low := b.program(2, "dlsym", "forever", "0", "300")
		b.begun(low)
		for range 5 {
			said := b.run(b.program(1, "dlsym", "kernels", "100", "100", "10"))
			if said.Grants == 0 || said.Unmanaged > 0 {
				t.Errorf("the important one said %+v", said)
			}
		}
		_ = low.Process.Kill()
	}).short()
}

func TestAProgramThatIsAloneKeepsItsTurnAndIsBoundedAllTheSame(t *testing.T) {
	b := withBroker(t)
	said := b.run(b.program(2, "dlsym", "kernels", "3000", "100", "500"))
	took := said.Waits
	if said.Grants > 20 || took < 20 || took > 2800 {
		t.Errorf("300 ms alone: %+v", said)
	}
	if said.Most < 2 || said.KernelUs < 50 || float64(said.Most)*100 > 5000 {
		t.Errorf("learned %+v of kernels of 100 us", said)
	}
}

func TestAGraphCountsAsItsKernels(t *testing.T) {
	for _, how := range []string{"linked", "proc", "proc2", "proc2_ptsz"} {
		b := withBroker(t)
		said := b.run(b.program(2, how, "graphs", "15", "20", "40"))
		if said.Kernels != 40*30 || len(b.records()) != 40 {
			t.Errorf("%s: 40 graphs of 30 kernels: %+v", how, said)
		}
		if said.Waits < 39 {
			t.Errorf("%s: a graph is launched behind another of 30 kernels: %+v", how, said)
		}
	}
}

// TestAGraphThatIsBeingRecordedIsNotSpoiled: CUDA does not allow anybody to wait for the context meanwhile, and nothing
// that goes into a graph is on the GPU.
func TestAGraphThatIsBeingRecordedIsNotSpoiled(t *testing.T) {
	exclusive(t, turns.Rules{Quantum: 5 * time.Millisecond}, func(b *bench) {
		other := b.program(3, "dlsym", "forever", "0", "200")
		b.begun(other)
		for _, how := range []string{"dlsym", "proc2"} {
			if said := b.run(b.program(2, how, "capture", "12", "200")); said.Kernels != 1+12+12 {
				t.Errorf("%s: said %+v", how, said)
			}
		}
		_ = other.Process.Kill()
	})
}

func TestAProgramThatIsKilledHandsTheGPUOn(t *testing.T) {
	b := withBroker(t)
	for range 5 {
		holder := b.program(1, "dlsym", "forever", "0", "500")
		b.begun(holder)
		await(t, "a holder", func() bool { return b.Status().GPUs[0].Clients[0].State == "holding" })
		began := time.Now()
		_ = holder.Process.Kill()
		_ = holder.Wait()
		if said := b.run(b.program(2, "dlsym", "kernels", "10", "100")); said.Grants == 0 || said.Unmanaged > 0 {
			t.Errorf("said %+v", said)
		}
		t.Logf("done %v after the kill", time.Since(began))
	}
}

// TestAProgramThatComputesElsewhereHasGivenTheGPUBack: nothing waits for its next launch, as in Deft.
func TestAProgramThatComputesElsewhereHasGivenTheGPUBack(t *testing.T) {
	b := noBroker(t)
	b.serve(turns.Rules{Quantum: 10 * time.Minute}) // no lease ends while the test waits
	program := b.program(2, "dlsym", "pause", "10", "100")
	b.begun(program)
	await(t, "an end of its turn", func() bool { return b.Status().GPUs[0].Clients[0].State == "idle" })
	if said := b.run(b.program(3, "dlsym", "kernels", "10", "100")); said.Grants == 0 {
		t.Errorf("said %+v", said)
	}
}

func TestWithoutABrokerAProgramRunsOn(t *testing.T) {
	b := noBroker(t)
	if said := b.run(b.program(2, "dlsym", "kernels", "500", "20", "50")); said.Unmanaged == 0 || said.Kernels != 500 {
		t.Errorf("without one: %+v", said)
	}
	connected := listener(b)
	began := time.Now()
	said := b.run(b.program(2, "dlsym", "kernels", "500", "20", "50"))
	if said.Grants != 0 || said.Kernels != 500 || connected() == 0 {
		t.Errorf("with one that says nothing: %+v", said)
	}
	t.Logf("beside a silent broker it took %v", time.Since(began))
}

func TestABrokerThatComesIsTakenAndOneThatGoesIsDoneWithout(t *testing.T) {
	b := noBroker(t)
	program := b.program(2, "dlsym", "kernels", "30000", "100", "20")
	done := make(chan told)
	go func() { done <- b.run(program) }()
	await(t, "a launch", func() bool { return len(b.records()) > 0 })
	b.serve(turns.Defaults())
	await(t, "a turn", func() bool {
		clients := b.Status().GPUs[0].Clients
		return len(clients) == 1 && clients[0].Turns > 0
	})
	b.stop()
	before := len(b.records())
	await(t, "a thousand launches without a broker", func() bool { return len(b.records()) > before+1000 })
	b.serve(turns.Defaults())
	await(t, "a turn of the next one", func() bool {
		clients := b.Status().GPUs[0].Clients
		return len(clients) == 1 && clients[0].Turns > 0
	})
	if said := <-done; said.Kernels != 30000 || said.Grants == 0 || said.Unmanaged == 0 {
		t.Errorf("said %+v", said)
	}
}

func TestAProgramThatIsToldOfNoBrokerIsLeftAlone(t *testing.T) {
	b := noBroker(t)
	connected := listener(b)
	for how, want := range ways {
		program := without("SYNERGY_TURN_SOCK", b.program(2, how, "every", "0", "20"))
		if said := b.run(program); said != (told{Bound: 1}) {
			t.Errorf("%s: did %+v, want nothing", how, said)
		}
		if r := b.records(); r[len(r)-1].by() != want[3] {
			t.Errorf("%s: launched by %s", how, r[len(r)-1].by())
		}
	}
	if connected() != 0 {
		t.Error("somebody connected")
	}
}

func TestAProgramThatNeitherLaunchesNorAllocatesNeverConnects(t *testing.T) {
	b := noBroker(t)
	connected := listener(b)
	if said := b.run(b.program(2, "proc2", "look")); said.Kernels != 0 || connected() != 0 {
		t.Errorf("%d connections: %+v", connected(), said)
	}
	other := exec.Command("sh", "-c", "ls / >/dev/null && echo none")
	other.Env = b.program(2, "dlsym").Env
	if out, err := other.CombinedOutput(); err != nil || string(out) != "none\n" || connected() != 0 {
		t.Errorf("a program without CUDA: %s %v, %d connections", out, err, connected())
	}
}

func TestAChildOfForkHasNoPartInItsParentsTurns(t *testing.T) {
	b := withBroker(t)
	program := b.program(2, "dlsym", "forks", "200", "100")
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a child that hangs is ended, too
	timer := time.AfterFunc(patience, func() { _ = syscall.Kill(-program.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	out, err := program.Output()
	if err != nil || strings.Count(string(out), "\n") != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	pids := map[int32]int{}
	for _, r := range b.records() {
		pids[r.PID]++
	}
	if len(pids) != 2 || pids[int32(program.Process.Pid)] != 400 {
		t.Errorf("launched by %v", pids)
	}
	if !strings.Contains(string(out), `"Kernels":400,`) {
		t.Errorf("the parent said %s", out)
	}
}

func TestAProgramHasNoMoreMemoryThanItsJobMayUse(t *testing.T) {
	const mib = 1 << 20
	for _, how := range []string{"linked", "proc2"} {
		b := withBroker(t)
		said := b.run(b.program(2, how, "memory", "9", "30"))
		if said.Got != 3 || said.Last != 2 || said.Zero != 1 {
			t.Errorf("%s: pieces of 30 MiB out of 100: %+v", how, said)
		}
		if said.Available != 10*mib || said.Total != 100*mib || said.Memory != 30*mib {
			t.Errorf("%s: was told %+v", how, said)
		}
		free := noBroker(t)
		if said := free.run(free.program(2, how, "memory", "9", "30")); said.Got != 9 || said.Total != 80<<30 {
			t.Errorf("%s: without a broker: %+v", how, said)
		}
	}
}

// TestWhoAsksForTheNextFunctionOfANameIsAnsweredAsIfNobodyStoodBetween: libc looks who calls dlsym, and that must not
// be this library, which stands elsewhere.
func TestWhoAsksForTheNextFunctionOfANameIsAnsweredAsIfNobodyStoodBetween(t *testing.T) {
	b := noBroker(t)
	dir := t.TempDir()
	first, program := filepath.Join(dir, "first.so"), filepath.Join(dir, "program")
	for _, args := range [][]string{
		{"-fPIC", "-shared", "-DLIBRARY", "-o", first, "testdata/next.c", "-ldl"},
		{"-o", program, "testdata/next.c", first, "-Wl,-rpath," + dir, "-ldl"},
	} {
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	cmd := exec.Command(program)
	cmd.Env = b.program(2, "dlsym").Env
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "libc's\n" {
		t.Errorf("the next is %s(%v)", out, err)
	}
}

// TestALaunchCostsLittle logs what a launch takes that has nothing to wait for.
func TestALaunchCostsLittle(t *testing.T) {
	b := noBroker(t)
	bare := without("LD_PRELOAD", b.program(2, "proc2", "cost", "200"))
	off := b.program(2, "proc2", "cost", "200")
	off.Env = append(off.Env, "SYNERGY_TURN_SOCK=")
	alone, idle, on := b.run(bare).Ns, b.run(off).Ns, b.run(b.program(2, "proc2", "cost", "200")).Ns
	t.Logf("the driver's launch takes %.0f ns, with the library %.0f without a socket and %.0f with an open gate",
		alone, idle, on)
	if on > alone+2000 {
		t.Errorf("a launch takes %.0f ns more", on-alone)
	}
}

func TestNothingIsTouchedThatIsNotOnesOwn(t *testing.T) {
	build, err := sanitized()
	if err != nil {
		t.Fatal(err)
	}
	b := benchOf(t, build)
	b.serve(turns.Rules{Quantum: 5 * time.Millisecond})
	b.begun(b.program(3, "dlsym", "forever", "0", "200"))
	for how, args := range map[string][]string{
		"linked": {"threads", "100", "100"}, "proc2": {"graphs", "20", "20", "10"}, "proc": {"memory", "9", "30"},
		"dlsym": {"forks", "50", "100"}, "default": {"capture", "10", "100"}, "dlvsym": {"contexts", "50", "100"},
	} {
		program := b.program(2, append([]string{how}, args...)...)
		out, err := program.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Grants") {
			t.Errorf("%s %v: %v\n%s", how, args, err, out)
		}
	}
}

// TestTheBoundIsTheRootOfWhatAWaitCosts: after Deft's own figures, and no queue is longer than 5 ms.
func TestTheBoundIsTheRootOfWhatAWaitCosts(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pace")
	args := []string{"-std=gnu11", "-fsanitize=undefined", "-fno-sanitize-recover=all", "-I", sources, "-o", program,
		"testdata/pace.c", sources + "/pace.c"}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range []struct{ waitUs, kernels, kernelUs, want string }{
		{"11.5", "913", "104", "10"},
		{"11.5", "954", "33.3", "18"},
		{"11.5", "2475", "21.7", "36"},
		{"11.5", "246", "727", "2"},
		{"11.5", "4745", "90", "25"},
		{"11.5", "1", "100", "1"},
		{"11.5", "1000", "0", "1"},             // the first kernel may be of any length
		{"0", "913", "104", "10"},              // nobody has timed a wait yet
		{"11.5", "1000", "20000", "1"},         // one kernel is longer than all that may wait
		{"500", "10000", "1000", "5"},          // 71 of them were 71 ms
		{"11.5", "1000000000", "0.1", "50000"}, // 5 ms
	} {
		out, err := exec.Command(program, c.waitUs, c.kernels, c.kernelUs).Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	out, err := exec.Command(program, "pause").Output()
	if bound, wrong := strconv.Atoi(strings.TrimSpace(string(out))); err != nil || wrong != nil || bound < 8 {
		t.Errorf("after a pause of a second in 913 kernels of 104 us: %s %v, want nearly 10", out, err)
	}
}
