package broker

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// peer is the process at the other end of a connection, as the kernel identifies it.
type peer struct {
	pid, uid int
	// pidfd is a pidfd, which is readable when the process has ended; nil: this kernel has none.
	pidfd *os.File
}

// peerOf asks the kernel which process connected; only such an answer cannot be forged by the client. With SO_PEERPIDFD
// the pidfd is that of the process that connected, even if its PID belongs to another process by now. An older kernel
// (ENOPROTOOPT) gives the pidfd of the process that has the PID now. If the kernel has no pidfds, pidfd stays nil. A
// PID of 0 is an error: the process is in a PID namespace that the broker does not see, so its job cannot be found. The
// pidfd is made non-blocking, so that Go's poller can wait for it (waitEnd).
func peerOf(conn *net.UnixConn) (*peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	p, fd := &peer{}, -1
	var wrong error
	err = raw.Control(func(socket uintptr) {
		var cred *unix.Ucred
		if cred, wrong = unix.GetsockoptUcred(int(socket), unix.SOL_SOCKET, unix.SO_PEERCRED); wrong != nil {
			return
		}
		p.pid, p.uid = int(cred.Pid), int(cred.Uid)
		if fd, wrong = unix.GetsockoptInt(int(socket), unix.SOL_SOCKET, unix.SO_PEERPIDFD); wrong != nil {
			fd = -1
		}
		if errors.Is(wrong, unix.ENOPROTOOPT) {
			fd, wrong = unix.PidfdOpen(p.pid, 0)
		}
	})
	switch {
	case err != nil:
		return nil, err
	case p.pid <= 0:
		return nil, errors.New("its process is not seen from here: connect from inside of a job")
	case wrong != nil && withoutPidfd(wrong):
		return p, nil
	case wrong != nil:
		return nil, fmt.Errorf("process %d is gone", p.pid)
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	p.pidfd = os.NewFile(uintptr(fd), "pidfd")
	return p, nil
}

// close closes the pidfd, which also ends a waitEnd.
func (p *peer) close() {
	if p.pidfd != nil {
		p.pidfd.Close()
	}
}

// stillRuns reports whether the process that connected still runs. It is called after something was read about its PID:
// only if it still runs then was that about this process. It is true if the kernel has no pidfds.
func (p *peer) stillRuns() bool {
	if p.pidfd == nil {
		return true // unknown here
	}
	raw, err := p.pidfd.SyscallConn()
	ended := true
	if err == nil {
		err = raw.Control(func(fd uintptr) { ended = hasEnded(fd) })
	}
	return err == nil && !ended
}

// waitEnd waits until the process has ended, so that its connection can be closed: a child may have inherited the
// connection, such as a data loader of a trainer that was killed, and would keep it open. It returns false if close was
// called, and at once if the kernel has no pidfds.
func (p *peer) waitEnd() bool {
	if p.pidfd == nil {
		return false
	}
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return false
	}
	return raw.Read(hasEnded) == nil
}

// hasEnded reports whether the process of a pidfd has ended, without waiting.
func hasEnded(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}
