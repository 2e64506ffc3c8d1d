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

// Unstamped is a job whose stamp could not be written: it uses its GPU out of turn. Each is a line of a file, so that
// the broker can say so, which nobody else would.
type Unstamped struct {
	V     int       `json:"v"` // 1
	N     int       `json:"n"` // how many there have been with this one, since the node was started
	Job   int       `json:"job"`
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

const (
	mostUnstamped = 64 << 10 // how long the file may grow, bytes, before it begins anew
	mostSentence  = 300      // bytes
)

// UnstampedPath is the file of the jobs whose stamps could not be written. Who looks at it locks it first, so nobody
// else may open it.
func UnstampedPath(dir string) string { return filepath.Join(dir, "stamp-errors") }

// writeUnstamped adds a line. The number before it is read and the line is written under one lock: the prologs of
// several jobs may run at the same time.
func writeUnstamped(dir string, job int, why error) error {
	if err := ownFolders(filepath.Dir(dir), dir); err != nil {
		return err
	}
	file, text, err := openUnstamped(dir, os.O_RDWR|os.O_CREATE|os.O_APPEND, syscall.LOCK_EX)
	if err != nil {
		return err
	}
	line, err := json.Marshal(Unstamped{V: 1, N: lastUnstamped(text).N + 1, Job: job,
		At: time.Now().UTC().Truncate(time.Second), Error: printable.Line(why.Error(), mostSentence)})
	switch {
	case err != nil:
	case len(text) > mostUnstamped:
		err = file.Truncate(0)
	case len(text) > 0 && text[len(text)-1] != '\n': // there was no room for all of the line before
		line = append([]byte{'\n'}, line...)
	}
	if err == nil {
		_, err = file.Write(append(line, '\n'))
	}
	return errors.Join(err, file.Close())
}

// LastUnstamped is the last job whose stamp could not be written; none where N is 0.
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

// openUnstamped opens the file, locks it until it is closed, and reads it.
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
		text, err = io.ReadAll(io.LimitReader(file, 2*mostUnstamped))
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, text, nil
}

// lastUnstamped is what the last line says that can be read.
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
