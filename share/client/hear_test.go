package client

import (
	"bufio"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/client/clienttest"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// TestABrokerThatIsStoppedIsLetGo: it keeps its sockets open, so that only asking it tells.
func TestABrokerThatIsStoppedIsLetGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "turn-0.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan net.Conn, 1)
	go func() { // says WELCOME to the first, and nothing to anybody later
		conn, err := listener.Accept()
		if err == nil {
			_, _ = bufio.NewReader(conn).ReadSlice('\n')
			_ = write(conn, wire.Message{Type: wire.Welcome})
		}
		accepted <- conn
	}()
	c, err := Open(t.Context(), path, Introduction{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer (<-accepted).Close()
	c.mu.Lock()
	c.ask(0)
	c.checkLiveness()
	if c.phase != phaseIdle || c.conn != nil {
		t.Errorf("a broker that answers nobody is still waited for: phase %d", c.phase)
	}
	c.mu.Unlock()
}

func TestABrokerThatLivesIsWaitedFor(t *testing.T) {
	b := (&clienttest.Broker{Deaf: true}).Start(t, filepath.Join(t.TempDir(), "turn-0.sock"))
	c, err := Open(t.Context(), b.Path(), Introduction{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ask(0)
	c.checkLiveness()
	if c.phase != phaseAsking {
		t.Errorf("a broker that answers is not waited for any more: phase %d", c.phase)
	}
}

// TestAStepInWhichTheGPUWasWantedEndsTheGrant, at once and not when the client has been idle for a while.
func TestAStepInWhichTheGPUWasWantedEndsTheGrant(t *testing.T) {
	b := (&clienttest.Broker{}).Start(t, filepath.Join(t.TempDir(), "turn-0.sock"))
	c, err := Open(t.Context(), b.Path(), Introduction{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, wanted := range []bool{true, false} {
		if err := c.beginStep(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		c.yield = wanted
		c.mu.Unlock()
		c.endStep(0)
		c.mu.Lock()
		if (c.phase == phaseIdle) != wanted {
			t.Errorf("wanted back %v, and the phase after the step is %d", wanted, c.phase)
		}
		c.mu.Unlock()
	}
}

// FuzzWhatABrokerSays: no line makes a client panic, hold the GPU for more than an hour, or hold what it did not ask
// for.
func FuzzWhatABrokerSays(f *testing.F) {
	f.Add([]byte(`{"v":1,"type":"GRANT","seq":7,"lease_us":9223372036854775807}`), 1)
	f.Add([]byte(`{"v":1,"type":"YIELD","seq":7}`), 4)
	f.Add([]byte(`{"v":1,"type":"ERR","code":"mem-cap","msg":"no"}`), 1)
	f.Add([]byte(`{"v":1,"type":"ERR","code":"busy"}`), 0)
	f.Add([]byte(`[]`), 2)
	f.Fuzz(func(t *testing.T, line []byte, at int) {
		before := phase(at % int(phaseHolding+1))
		if before < 0 {
			return
		}
		c := &Client{phase: before, seq: 7, changed: make(chan struct{})}
		m, err := wire.Decode(line)
		if err != nil {
			return
		}
		_ = c.handleMessage(m)
		if c.phase == phaseStepping && before != phaseStepping && before != phaseAsking {
			t.Errorf("%q made phase %d a holder", line, before)
		}
		if time.Until(c.lease) > time.Hour {
			t.Errorf("%q gave a lease of %v", line, time.Until(c.lease))
		}
	})
}
