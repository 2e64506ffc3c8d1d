package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// mostModes is the largest value of a socket's permissions.
const mostModes = 0o777

// checkSocket says what is wrong with the flags of the socket.
func (f *flags) checkSocket() error {
	if f.socket != "" && !filepath.IsAbs(f.socket) {
		return fmt.Errorf("--socket %q: is not an absolute path: want a file as /run/synergy/synergy-slurmd.sock",
			f.socket)
	}
	if mode, err := strconv.ParseUint(f.socketMode, 8, 16); err != nil || mode > mostModes {
		return fmt.Errorf("--socket-mode %q: want permissions as chmod takes them, 0660 or 0666", f.socketMode)
	}
	return nil
}

// socketPermissions is the value of --socket-mode, which has been checked.
func (f *flags) socketPermissions() fs.FileMode {
	mode, _ := strconv.ParseUint(f.socketMode, 8, 16)
	return fs.FileMode(mode)
}

// listenAt answers at a socket. A socket left behind by a dead daemon is replaced. Any process that may write to the
// socket may read the pages.
func listenAt(path string, mode fs.FileMode, handler http.Handler) (*listening, error) {
	if err := clearSocket(path); err != nil {
		return nil, fmt.Errorf("listen at --socket %s: %w", path, err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w: name another --socket, or an empty one for none", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		listener.Close()
		return nil, fmt.Errorf("listen at --socket: %w", err)
	}
	return answer(listener, handler), nil
}

// errTaken means that a program answers at the socket.
var errTaken = errors.New("another program answers there: stop it, or name another file")

// answersWithin is how long such a program is given to accept a connection.
const answersWithin = time.Second

// clearSocket removes a socket at which no program listens. Anything but a socket is left alone.
func clearSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return errors.New("is a file and no socket: name another one")
	}
	conn, err := net.DialTimeout("unix", path, answersWithin)
	if err == nil {
		conn.Close()
		return errTaken
	}
	// Only a refused connection proves that no program listens. A slow one may be alive.
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w (%w)", errTaken, err)
	}
	return os.Remove(path)
}
