package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/emulate"
	"github.com/synergy-slurmd/synergy-slurmd/share/client/clienttest"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// sharer is a job of two seconds alone, in steps of some milliseconds.
func sharer(t *testing.T, more ...string) *exec.Cmd {
	return job(t, append([]string{"--profile", "res18.json", "--duration", "2000", "--speedup", "1000", "--virtual-cpu",
		"--gpus", "1", "--cpus", "3", "--memory", "62500", "--start-cost", "0"}, more...)...)
}

func last(t *testing.T, command *exec.Cmd) emulate.Record {
	t.Helper()
	all := output(t, command)
	return all[len(all)-1]
}

// together runs two jobs and returns how each ended.
func together(t *testing.T, one, two *exec.Cmd) [2]emulate.Record {
	t.Helper()
	other := make(chan []byte, 1)
	go func() {
		said, _ := two.Output() // what is missing in it, is missed below
		other <- said
	}()
	first, rest := last(t, one), records(t, <-other)
	if len(rest) == 0 {
		t.Fatal("one of two jobs said nothing")
	}
	return [2]emulate.Record{first, rest[len(rest)-1]}
}

func TestTwoJobsThatFillAGPUEachHaveHalfOfIt(t *testing.T) {
	b := (&clienttest.Broker{}).Start(t, filepath.Join(t.TempDir(), "turn-0.sock"))
	for _, end := range together(t, sharer(t, "--turn="+b.Path()), sharer(t, "--turn="+b.Path(), "--gpu-busy", "1")) {
		if end.Wall < 3 || end.Turns == 0 || end.Waited < 1 {
			t.Errorf("beside another, a job of 2 s took %v s, %d turns, %v s of waiting", end.Wall, end.Turns,
				end.Waited)
		}
	}
	if wrong := b.Wrong(); len(wrong) > 0 {
		t.Errorf("the broker was told %q", wrong)
	}
}

func TestTwoJobsThatNeedAThirdOfAGPUEachHardlyFeelEachOther(t *testing.T) {
	b := (&clienttest.Broker{}).Start(t, filepath.Join(t.TempDir(), "turn-0.sock"))
	third := []string{"--turn=" + b.Path(), "--gpu-busy", "0.33"}
	both := func() []emulate.Record {
		ends := together(t, sharer(t, third...), sharer(t, third...))
		return ends[:]
	}
	inTime(t, both, func(end emulate.Record) bool { return end.Turns > 0 })
}

// inTime runs jobs of 2 s, which are to take no more than 3 s. A machine with other work makes them slower: they have
// three tries.
func inTime(t *testing.T, run func() []emulate.Record, also func(end emulate.Record) bool) {
	t.Helper()
	var said []string
	for range 3 {
		slow := false
		for _, end := range run() {
			if !also(end) {
				t.Fatalf("%+v", end)
			}
			slow = slow || end.Wall > 3
			said = append(said, fmt.Sprintf("%.2f s", end.Wall))
		}
		if !slow {
			return
		}
	}
	t.Errorf("jobs of 2 s took %v", said)
}

func TestTheSocketComesFromTheEnvironment(t *testing.T) {
	b := (&clienttest.Broker{}).Start(t, filepath.Join(t.TempDir(), "turn-0.sock"))
	for _, c := range []struct {
		more  []string
		turns bool
	}{{nil, true}, {[]string{"--turn"}, true}, {[]string{"--turn="}, false}} {
		command := sharer(t, append(c.more, "--speedup", "20000")...)
		command.Env = append(command.Env, "SYNERGY_TURN_SOCK="+b.Path())
		if end := last(t, command); (end.Turns > 0) != c.turns {
			t.Errorf("with %q: %d turns", c.more, end.Turns)
		}
	}
}

func TestWithoutABrokerAJobRunsAsIfAlone(t *testing.T) {
	alone := func() []emulate.Record {
		return []emulate.Record{last(t, sharer(t, "--turn="+filepath.Join(t.TempDir(), "turn-0.sock")))}
	}
	inTime(t, alone, func(end emulate.Record) bool { return end.Waited <= 0.5 })
}

func TestAJobForWhichTheGPUHasNoRoomEndsWithout(t *testing.T) {
	b := (&clienttest.Broker{Refuse: wire.MemoryCap}).Start(t, filepath.Join(t.TempDir(), "turn-0.sock"))
	said, err := sharer(t, "--turn="+b.Path(), "--gpu-memory", "90000").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 75 || !strings.Contains(string(said), "emulated out of memory") {
		t.Errorf("%v: %s", err, said)
	}
}
