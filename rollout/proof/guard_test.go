package proof_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/rollout/proof"
)

// watched runs a guard whom the program on the other side tells what said tells: has it started the daemon?
func watched(t *testing.T, limit time.Duration, said func(program net.Conn)) (fired bool) {
	t.Helper()
	program, guard := net.Pipe()
	over := make(chan struct{})
	go func() {
		defer close(over)
		said(program)
	}()
	starts := 0
	fired, err := proof.Watch(guard, new(strings.Builder), limit, func() error { starts++; return nil })
	guard.Close()
	<-over
	if err != nil || fired != (starts == 1) || starts > 1 {
		t.Fatalf("%v: fired %t, with %d starts", err, fired, starts)
	}
	return fired
}

func TestAGuardStartsTheDaemonOfAProgramThatIsGoneOrHangsAndOfNoOther(t *testing.T) {
	send := func(words ...string) func(net.Conn) {
		return func(program net.Conn) {
			for _, word := range words {
				program.Write([]byte(word))
			}
			program.Close()
		}
	}
	for name, c := range map[string]struct {
		said  func(net.Conn)
		fires bool
	}{
		"gone before it ended the daemon": {send(), false},
		"ended and started again":         {send("s", "d"), false},
		"gone while it was ended":         {send("s"), true},
		"gone with a word nobody knows":   {send("s", "x"), true},
	} {
		if fired := watched(t, time.Minute, c.said); fired != c.fires {
			t.Errorf("%s: fired %t", name, fired)
		}
	}
	release := make(chan struct{})
	hangs := func(program net.Conn) {
		program.Write([]byte("s"))
		<-release
		program.Close()
	}
	time.AfterFunc(200*time.Millisecond, func() { close(release) })
	if !watched(t, 10*time.Millisecond, hangs) {
		t.Error("one that hangs is waited for")
	}
}

func TestWithoutAGuardNothingIsEnded(t *testing.T) {
	for name, argv := range map[string][]string{"none such": {"/nowhere/guard"}, "one that says nothing": {"/bin/true"},
		"one that says something else": {"/bin/echo", "watching you"}} {
		if g, err := proof.Guard(newSite(), argv[0], argv...); err == nil {
			t.Errorf("%s: %+v", name, g)
		}
	}
	s := newSite()
	g, err := proof.Guard(s, "/bin/sh", "sh", "-c", "echo watching")
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
		if err = g.Stop(context.Background()); err != nil { // it is gone, at the latest now
			break
		}
		s.said, s.running = nil, true
	}
	if err == nil || !strings.Contains(err.Error(), "is gone") || len(s.said) > 0 {
		t.Errorf("a guard that is gone: %v, %v", err, s.said)
	}
	g.Release()
}

func TestADaemonThatCouldNotBeStartedIsLeftToTheGuard(t *testing.T) {
	s := newSite()
	out := t.TempDir() + "/word"
	g, err := proof.Guard(s, "/bin/sh", "sh", "-c", "echo watching; cat > "+out)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(context.Background()); err != nil || len(s.said) > 0 {
		t.Errorf("one that was not ended is started: %v, %v", err, s.said)
	}
	s.startFails = errors.New("busy")
	if err := g.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := g.Start(context.Background()); err == nil {
		t.Error("the start did not fail")
	}
	if err := g.Release(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(out); err != nil || string(text) != "s" {
		t.Errorf("the guard was told %q, %v: want that it was ended and no more", text, err)
	}
}
