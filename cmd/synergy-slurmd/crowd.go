package main

import (
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// The bounds of a crowd.
const (
	// connections are open at once at most, or a quarter of the files that the process may have, if that is less:
	// rounds need some, too.
	connections = 512
	// toAsk is how long a connection is left alone until its request has come, toAnswer how long from then on. A client
	// that asks at once and takes the answer needs milliseconds.
	toAsk    = 400 * time.Millisecond
	toAnswer = time.Second
)

// boundedListener is a listener that is never full. When all places are taken, it closes the connection that has been
// silent for longest; if all have asked, the one that has been served for longest. So a client that opens many
// connections and keeps them has its own closed, and a client that asks at once waits for at most (connections before
// it / places) × toAnswer. Time limits alone do not achieve that, because a client that is thrown out after ten seconds
// returns at once.
type boundedListener struct {
	net.Listener
	most   int
	closed chan struct{}
	end    func()

	mu     sync.Mutex
	guests map[*boundedConn]struct{}
}

func newBoundedListener(listener net.Listener, most int) *boundedListener {
	c := &boundedListener{
		Listener: listener,
		most:     most,
		closed:   make(chan struct{}),
		guests:   make(map[*boundedConn]struct{}),
	}
	c.end = sync.OnceFunc(func() { close(c.closed) })
	return c
}

// placesHere is how many connections this process can afford: at most a quarter of its open files.
func placesHere() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur/4 > connections {
		return connections
	}
	return max(1, int(files.Cur/4))
}

// Accept takes the next connection, and makes room for it.
func (c *boundedListener) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &boundedConn{Conn: conn, crowd: c}
	for {
		wait := c.admit(g, time.Now())
		if wait == 0 {
			return g, nil
		}
		select {
		case <-time.After(wait):
		case <-c.closed:
			conn.Close()
			return nil, net.ErrClosed
		}
	}
}

// admit admits a connection. If all places are taken, it closes the connection to be closed first. If that may not be
// closed yet, it returns how long to wait.
func (c *boundedListener) admit(g *boundedConn, now time.Time) (wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.guests) >= c.most {
		out, due := c.evictionCandidate(now)
		if due > 0 {
			return due
		}
		delete(c.guests, out)
		// Not out.Close, which would wait for mu.
		out.Conn.Close()
	}
	g.since = now
	c.guests[g] = struct{}{}
	return 0
}

// evictionCandidate is the connection to be closed first, and how long until it may be: a connection that has not asked
// is closed before one that has.
func (c *boundedListener) evictionCandidate(now time.Time) (first *boundedConn, due time.Duration) {
	var silent, served *boundedConn
	for g := range c.guests {
		oldest := &silent
		if g.hasRequest {
			oldest = &served
		}
		if *oldest == nil || g.since.Before((*oldest).since) {
			*oldest = g
		}
	}
	// Without such a connection it is toAnswer, the longest, so that the other kind decides.
	left := func(g *boundedConn, limit time.Duration) time.Duration {
		if g == nil {
			return toAnswer
		}
		return max(0, limit-now.Sub(g.since))
	}
	ofSilent, ofServed := left(silent, toAsk), left(served, toAnswer)
	if silent != nil && (ofSilent == 0 || ofSilent <= ofServed) {
		return silent, ofSilent
	}
	return served, ofServed
}

// follow is the server's callback (http.Server.ConnState). It notes that a connection's request has come.
func (c *boundedListener) follow(conn net.Conn, state http.ConnState) {
	g, is := conn.(*boundedConn)
	if !is || state != http.StateActive {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g.hasRequest, g.since = true, time.Now()
}

// Close also ends an Accept that waits for a place.
func (c *boundedListener) Close() error {
	c.end()
	return c.Listener.Close()
}

// boundedConn is a connection that has a place.
type boundedConn struct {
	net.Conn
	crowd      *boundedListener
	hasRequest bool      // its request has come
	since      time.Time // when it was accepted, or its request came
}

// Close also frees the place.
func (g *boundedConn) Close() error {
	g.crowd.mu.Lock()
	delete(g.crowd.guests, g)
	g.crowd.mu.Unlock()
	return g.Conn.Close()
}
