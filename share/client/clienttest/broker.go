// Package clienttest is a broker for the tests of clients: it grants the GPU in the order of the requests, wants it
// back as soon as another client waits, and can be silent, refuse and go away. It does not check identities.
package clienttest

import (
	"bufio"
	"encoding/json"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// Broker listens on one socket. Its fields are set before Start. A Lease, the code in Refuse and the two kinds of a
// broker that does not answer let a test see how a client behaves then.
type Broker struct {
	Lease  time.Duration // of each grant; 0: a minute
	Refuse string        // the code with which each HELLO is refused
	Silent bool          // it reads and answers nothing
	Deaf   bool          // it answers HELLO and grants nothing

	listener net.Listener
	ends     sync.WaitGroup

	mu    sync.Mutex
	peers map[*peer]bool
	queue []*peer // the first holds the GPU
	count map[wire.Type]int
	used  time.Duration
	wrong []string
}

// peer is a connected client.
type peer struct {
	conn net.Conn
	seq  uint64
}

// Start listens at the path, in goroutines, until the test ends or Stop is called.
func (b *Broker) Start(t testing.TB, path string) *Broker {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	b.listener, b.peers, b.count = listener, map[*peer]bool{}, map[wire.Type]int{}
	b.ends.Go(b.accept)
	t.Cleanup(b.Stop)
	return b
}

// Path returns the path of the socket.
func (b *Broker) Path() string { return b.listener.Addr().String() }

// Stop ends all connections, as those of a broker that dies, and waits for its goroutines.
func (b *Broker) Stop() {
	_ = b.listener.Close()
	b.mu.Lock()
	for p := range b.peers {
		_ = p.conn.Close()
	}
	b.mu.Unlock()
	b.ends.Wait()
}

// Said returns how many messages of the type clients have sent.
func (b *Broker) Said(what wire.Type) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count[what]
}

// Used returns how long clients say they have used the GPU.
func (b *Broker) Used() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Wrong returns what clients have sent against the protocol.
func (b *Broker) Wrong() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wrong
}

// Held reports whether a client holds the GPU.
func (b *Broker) Held() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue) > 0
}

// Want tells the holder, if there is one, that the GPU is wanted back, as if another client waited.
func (b *Broker) Want() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) > 0 {
		b.queue[0].send(wire.Message{Type: wire.Yield, Seq: b.queue[0].seq, Grace: 100_000})
	}
}

// accept serves each connection in a goroutine until the listener is closed.
func (b *Broker) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		p := &peer{conn: conn}
		b.mu.Lock()
		b.peers[p] = true
		b.mu.Unlock()
		b.ends.Go(func() { b.serve(p) })
	}
}

// serve reads a client's messages until it leaves or sends what is no message, which is then kept for Wrong. A client
// that has left is out of the queue, so the next one gets the GPU.
func (b *Broker) serve(p *peer) {
	lines := bufio.NewScanner(p.conn)
	for lines.Scan() {
		var m wire.Message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil || m.V != wire.Version {
			b.mu.Lock()
			b.wrong = append(b.wrong, lines.Text())
			b.mu.Unlock()
			break
		}
		b.handleMessage(p, m)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.peers, p)
	b.dequeue(p)
	_ = p.conn.Close()
}

// handleMessage counts a message for Said and answers it as Silent, Refuse and Deaf say. What is against the protocol
// is kept for Wrong.
func (b *Broker) handleMessage(p *peer, m wire.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count[m.Type]++
	switch {
	case b.Silent:
	case m.Type == wire.Hello && b.Refuse != "":
		p.send(wire.Message{Type: wire.Error, Code: b.Refuse, Text: "it is refused"})
	case m.Type == wire.Hello:
		p.send(wire.Message{Type: wire.Welcome, Class: "low"})
	case m.Type == wire.Ask && !b.Deaf:
		b.queueRequest(p, m)
	case m.Type == wire.Release:
		if !slices.Contains(b.queue, p) || p.seq != m.Seq { // a waiting client withdraws its request in this way
			b.wrong = append(b.wrong, "a release of nothing")
		}
		b.used += time.Duration(m.Used) * time.Microsecond
		b.dequeue(p)
	}
}

// queueRequest queues a request: it is granted at once if the GPU is free; otherwise the holder is told to yield. A
// client may have one request at a time.
func (b *Broker) queueRequest(p *peer, m wire.Message) {
	if slices.Contains(b.queue, p) {
		b.wrong = append(b.wrong, "a second request while one is open")
		return
	}
	p.seq = m.Seq
	b.queue = append(b.queue, p)
	if len(b.queue) == 1 {
		b.grantFirst()
		return
	}
	b.queue[0].send(wire.Message{Type: wire.Yield, Seq: b.queue[0].seq, Grace: 100_000})
}

// grantFirst gives the GPU to the first client of the queue, and wants it back at once if others wait.
func (b *Broker) grantFirst() {
	lease := b.Lease
	if lease == 0 {
		lease = time.Minute
	}
	b.queue[0].send(wire.Message{Type: wire.Grant, Seq: b.queue[0].seq, Lease: lease.Microseconds()})
	if len(b.queue) > 1 {
		b.queue[0].send(wire.Message{Type: wire.Yield, Seq: b.queue[0].seq, Grace: 100_000})
	}
}

// dequeue takes a client and its request out of the queue. If it held the GPU, the next client gets it.
func (b *Broker) dequeue(p *peer) {
	for i, other := range b.queue {
		if other == p {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			if i == 0 && len(b.queue) > 0 {
				b.grantFirst()
			}
			return
		}
	}
}

// send sends a message to the client. An error means that the client has left, which serve sees as well.
func (p *peer) send(m wire.Message) {
	m.V = wire.Version
	line, _ := json.Marshal(m) // a Message can always be encoded
	_, _ = p.conn.Write(append(line, '\n'))
}
