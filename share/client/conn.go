package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// keepConnected keeps up a connection to the broker, and tries again while there is none, at longer and longer
// intervals, until the context is done. It closes firstTry after the first attempt, for which Open waits.
func (c *Client) keepConnected(ctx context.Context) {
	pause := firstRetry
	for first := true; ; first = false {
		conn, lines, err := connect(c.path, c.as)
		var refused *Refused
		switch {
		case err == nil:
			pause = firstRetry
			c.setConn(ctx, conn)
		case errors.As(err, &refused):
			pause = longestRetry // the answer will hardly change soon
		}
		if first {
			c.noteRefusal(refused)
			close(c.firstTry)
		}
		if err == nil {
			c.listen(conn, lines)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longestRetry)
	}
}

// setConn makes the connection the client's. If Close was called while it was being made, Close did not see it, so it
// is ended here.
func (c *Client) setConn(ctx context.Context, conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	if ctx.Err() != nil {
		c.dropConn()
	}
}

// noteRefusal keeps a refusal of the first message for too much memory, which Open returns. It is called after the
// first attempt only: later the program already holds its memory, and ending it would not help. r may be nil.
func (c *Client) noteRefusal(r *Refused) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r != nil && r.Code == wire.MemoryCap {
		c.refusal = r
	}
}

// listen handles the broker's messages until the connection ends or brings what is not understood, and then drops it,
// so that a waiting program runs on. By then the client may have dropped this connection itself and have a new one.
func (c *Client) listen(conn net.Conn, lines *wire.Reader) {
	for {
		m, err := lines.Next()
		if err == nil {
			err = c.handleMessage(m)
		}
		if err == nil {
			continue
		}
		c.mu.Lock()
		if c.conn == conn {
			c.dropConn()
		}
		c.mu.Unlock()
		return
	}
}

// send sends a message to the broker; net.ErrClosed if there is none. The lock is held, so it waits for a broker that
// does not read for answerWithin at most.
func (c *Client) send(m wire.Message) error {
	if c.conn == nil {
		return net.ErrClosed
	}
	return write(c.conn, m)
}

// write sends a message and waits at most answerWithin.
func write(conn net.Conn, m wire.Message) error {
	line, err := wire.Encode(m)
	if err != nil {
		return err
	}
	if err := conn.SetWriteDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	_, err = conn.Write(line)
	return err
}

// connect connects to a broker and introduces the program. It returns the connection and the reader of its messages.
// The error is a *Refused if the broker refused, and then a broker lives; any other means that none answers as it
// should.
func connect(path string, as Introduction) (net.Conn, *wire.Reader, error) {
	conn, err := net.DialTimeout("unix", path, answerWithin)
	if err != nil {
		return nil, nil, err
	}
	lines := wire.NewReader(conn)
	answer, err := sendHello(conn, lines, as)
	switch {
	case err != nil:
	case answer.Type == wire.Error:
		err = &Refused{Code: answer.Code, Text: answer.Text}
	case answer.Type != wire.Welcome:
		err = fmt.Errorf("%.20q: want %s", answer.Type, wire.Welcome)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, lines, conn.SetReadDeadline(time.Time{})
}

// sendHello sends HELLO and returns the broker's answer, for which it waits for answerWithin at most.
func sendHello(conn net.Conn, lines *wire.Reader, as Introduction) (wire.Message, error) {
	if err := conn.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
		return wire.Message{}, err
	}
	if err := write(conn, wire.Message{Type: wire.Hello, PID: os.Getpid(), Kind: as.Kind,
		Step: bounded(as.Step).Microseconds(), Memory: int64(as.Memory)}); err != nil {
		return wire.Message{}, err
	}
	return lines.Next()
}
