package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Unstamped is a job whose stamp could not be written, so it uses its GPU outside the turns. Each is a line in a file,
// from which the broker reports it; nothing else would.
type Unstamped struct {
	V     int       `json:"v"` // 1
	N     int       `json:"n"` // how many there have been up to this one since the node was started
	Job   int       `json:"job"`
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

const (
	maxUnstamped = 64 << 10 // size in bytes beyond which the file begins anew
	maxReason    = 300      // bytes
)

// UnstampedPath returns the path of the file with the jobs whose stamps could not be written. Readers lock it first, so
// only root may open it.
func UnstampedPath(dir string) string { return filepath.Join(dir, "stamp-errors") }

// writeUnstamped adds a line for a job whose stamp could not be written, with the reason. One lock covers reading the
// last count and writing the line, because the prologs of several jobs may run at the same time. A file that is too
// long begins anew; the count goes on.
func writeUnstamped(dir string, job int, why error) error {
	if err := ensureFolders(filepath.Dir(dir), dir); err != nil {
		return err
	}
	file, text, err := openUnstamped(dir, os.O_RDWR|os.O_CREATE|os.O_APPEND, syscall.LOCK_EX)
	if err != nil {
		return err
	}
	line, err := json.Marshal(Unstamped{V: 1, N: lastUnstamped(text).N + 1, Job: job,
		At: time.Now().UTC().Truncate(time.Second), Error: printable.Line(why.Error(), maxReason)})
	switch {
	case err != nil:
	case len(text) > maxUnstamped:
		err = file.Truncate(0)
	case len(text) > 0 && text[len(text)-1] != '\n': // the last line was not written in full
		line = append([]byte{'\n'}, line...)
	}
	if err == nil {
		_, err = file.Write(append(line, '\n'))
	}
	return errors.Join(err, file.Close())
}

// LastUnstamped returns the last job whose stamp could not be written, with the number of all such jobs (N), for the
// broker's status. N is 0 if there is none.
func LastUnstamped(dir string) (Unstamped, error) {
	file, text, err := openUnstamped(dir, os.O_RDONLY, syscall.LOCK_SH)
	if errors.Is(err, fs.ErrNotExist) {
		return Unstamped{}, nil
	}
	if err != nil {
		return Unstamped{}, err
	}
	return lastUnstamped(text), file.Close()
}

// openUnstamped opens the file, locks it (exclusively to write, shared to read) until it is closed, and reads it. A
// file that other users may open is an error, since they could keep it locked.
func openUnstamped(dir string, flag, lock int) (file *os.File, text []byte, err error) {
	path := UnstampedPath(dir)
	if file, err = os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600); err != nil {
		return nil, nil, err
	}
	about, err := file.Stat()
	if err == nil && (!about.Mode().IsRegular() || about.Mode().Perm()&0o077 != 0) {
		err = fmt.Errorf("%s: want an ordinary file of mode 0600", path)
	}
	if err == nil {
		err = syscall.Flock(int(file.Fd()), lock)
	}
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(file, 2*maxUnstamped))
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, text, nil
}

// lastUnstamped returns the last line that can be parsed; N is 0 if there is none. A line that was not written in full
// is skipped.
func lastUnstamped(text []byte) Unstamped {
	for len(text) > 0 {
		text = bytes.TrimSuffix(text, []byte{'\n'})
		line := text[bytes.LastIndexByte(text, '\n')+1:]
		var u Unstamped
		if json.Unmarshal(line, &u) == nil && u.N > 0 {
			return u
		}
		text = text[:len(text)-len(line)]
	}
	return Unstamped{}
}
