package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Bad is the error for a line that is no message. What follows it cannot be trusted, so the connection ends.
type Bad struct {
	Code string // the code of the ERR message
	Text string
}

func (b *Bad) Error() string { return b.Text }

// maxTime is the largest time in a message. A longer one is a mistake and would overflow in sums.
const maxTime = time.Hour

// mostMemory is more than any GPU has, MiB.
const mostMemory = 1 << 20

// Decode parses one line, with or without its newline, and checks it. The error is always a *Bad, which says what to
// answer.
func Decode(line []byte) (Message, error) {
	if len(line) > MaxLine {
		return Message{}, tooLong()
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	var m Message
	if err := json.Unmarshal(line, &m); err != nil {
		return Message{}, &Bad{BadMessage, fmt.Sprintf("no JSON object of the protocol: %.120q", err)}
	}
	if m.V != Version {
		return Message{}, &Bad{BadVersion, fmt.Sprintf("v = %d: want %d", m.V, Version)}
	}
	if err := m.check(); err != nil {
		return Message{}, &Bad{BadMessage, err.Error()}
	}
	return m, nil
}

// tooLong returns the error for a line of more than MaxLine bytes.
func tooLong() error {
	return &Bad{BadMessage, fmt.Sprintf("a line of more than %d bytes: want one message a line", MaxLine)}
}

// check returns an error for an unknown type or an amount out of range, so that what Decode returns can be computed
// with.
func (m *Message) check() error {
	switch m.Type {
	case Hello, Welcome, Ask, Grant, Yield, Release, Bye, Error:
	default:
		return fmt.Errorf("type %.20q: want one of HELLO, WELCOME, ACQ, GRANT, YIELD, REL, BYE, ERR", m.Type)
	}
	for _, f := range []struct {
		name string
		us   int64
	}{
		{"step_us", m.Step}, {"quantum_us", m.Quantum}, {"est_us", m.Estimate}, {"deadline_us", m.Deadline},
		{"lease_us", m.Lease}, {"grace_us", m.Grace}, {"used_us", m.Used},
	} {
		if f.us < 0 || f.us > maxTime.Microseconds() {
			return fmt.Errorf("%s = %d: want 0 to %d", f.name, f.us, maxTime.Microseconds())
		}
	}
	if m.Memory < 0 || m.Memory > mostMemory {
		return fmt.Errorf("mem_mib = %d: want 0 to %d", m.Memory, mostMemory)
	}
	return nil
}

// Encode returns the message as a line with its newline, and sets its version. A message of more than MaxLine bytes is
// an error, since the other side would end the connection.
func Encode(m Message) ([]byte, error) {
	m.V = Version
	line, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(line) >= MaxLine {
		return nil, tooLong()
	}
	return append(line, '\n'), nil
}

// Reader reads messages from a stream and buffers at most one line.
type Reader struct{ lines *bufio.Reader }

// NewReader returns a Reader that must be the stream's only one.
func NewReader(from io.Reader) *Reader { return &Reader{bufio.NewReaderSize(from, MaxLine)} }

// Next returns the next message. At the end of the stream it returns io.EOF, also within a line, since the writer has
// ended then. After a *Bad the connection must be ended: what follows cannot be trusted.
func (r *Reader) Next() (Message, error) {
	line, err := r.lines.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return Message{}, tooLong()
	}
	if err != nil {
		return Message{}, err
	}
	return Decode(line)
}
