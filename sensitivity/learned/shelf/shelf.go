// Package shelf keeps what running jobs taught in a directory: a readable JSON file for each owner and job name. A name
// of a user's is never part of a path: files are called by a hash of both. A file is replaced as a whole and synced, so
// that a crash leaves the one before or the one after.
package shelf

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
)

// Bounds of a shelf, so that nobody can fill a disk, or push out what others have, by inventing names.
const (
	MaxOfUser = 64
	MaxAll    = 4096
)

// Shelf is a directory of entries, all of which are in memory. It is safe for concurrent use.
type Shelf struct {
	dir string

	mu      sync.Mutex
	entries map[learned.Key]*learned.Entry
}

// Open reads the directory, which is made where it is missing. A file that cannot be read is left alone and told in
// wrong; the error is one of the directory.
func Open(dir string) (s *Shelf, wrong []error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("learned profiles: %w", err)
	}
	return Read(dir)
}

// Read is Open for who only looks: nothing is made.
func Read(dir string) (s *Shelf, wrong []error, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("learned profiles: %w", err)
	}
	s = &Shelf{dir: dir, entries: map[learned.Key]*learned.Entry{}}
	for _, file := range files {
		if strings.HasPrefix(file.Name(), ".") || !strings.HasSuffix(file.Name(), ".json") {
			continue // of a write that was cut off, or nothing of ours
		}
		if len(s.entries) == MaxAll {
			wrong = append(wrong, fmt.Errorf("more than %d learned profiles: the others are left unread", MaxAll))
			break
		}
		e, err := readEntry(dir, file.Name())
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", file.Name(), err))
			continue
		}
		s.entries[e.Key()] = e
	}
	return s, wrong, nil
}

func readEntry(dir, name string) (*learned.Entry, error) {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("not a regular file"))
	}
	text, err := io.ReadAll(io.LimitReader(file, learned.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	e, err := learned.Parse(text)
	if err == nil && fileOf(e.Key()) != name {
		err = fmt.Errorf("is of another user or job than its name says: want %s", fileOf(e.Key()))
	}
	return e, err
}

// fileOf is the name of a key's file: 128 bits, so that nobody finds two keys with one.
func fileOf(key learned.Key) string {
	sum := sha256.Sum256([]byte(key.User + "\x00" + key.Job))
	return hex.EncodeToString(sum[:16]) + ".json"
}

// Of is the entry of a key; nil: there is none. Nobody may change it.
func (s *Shelf) Of(key learned.Key) *learned.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[key]
}

// All are the entries, by user and job.
func (s *Shelf) All() []*learned.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*learned.Entry, 0, len(s.entries))
	for _, e := range s.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *learned.Entry) int { return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Job, b.Job)) })
	return all
}

// Keep writes an entry in place of the one that its key has. On an error that one stands, here and on the disk. An
// entry whose names are too long for the file is not kept.
func (s *Shelf) Keep(e *learned.Entry) error {
	text, err := e.Print()
	if err == nil {
		var read *learned.Entry
		if read, err = learned.Parse(text); err == nil && read.Key() != e.Key() {
			err = fmt.Errorf("job name %.40q: want UTF-8", e.Job)
		}
	}
	if err != nil {
		return fmt.Errorf("keep what was learned: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := replace(s.dir, fileOf(e.Key()), text); err != nil {
		return fmt.Errorf("keep what was learned: %w", err)
	}
	s.entries[e.Key()] = e
	return s.makeRoom(e)
}

// makeRoom drops the entry that was taught longest ago: of the user who has too many, or of the one who has the most
// where all have too many.
func (s *Shelf) makeRoom(kept *learned.Entry) error {
	of := map[string]int{}
	for key := range s.entries {
		of[key.User]++
	}
	greedy := kept.User
	if of[greedy] <= MaxOfUser {
		if len(s.entries) <= MaxAll {
			return nil
		}
		for user, n := range of {
			if n > of[greedy] || n == of[greedy] && user < greedy {
				greedy = user
			}
		}
	}
	var oldest *learned.Entry
	for _, e := range s.entries {
		if e.User == greedy && e != kept && (oldest == nil || older(e, oldest)) {
			oldest = e
		}
	}
	if oldest == nil {
		return nil
	}
	if err := os.Remove(filepath.Join(s.dir, fileOf(oldest.Key()))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep what was learned: %w", err)
	}
	delete(s.entries, oldest.Key())
	return nil
}

func older(a, b *learned.Entry) bool {
	return a.Updated.Before(b.Updated) || a.Updated.Equal(b.Updated) && a.Job < b.Job
}

// replace writes a file under another name, and renames it when it is whole and on the disk.
func replace(dir, name string, text []byte) error {
	next := filepath.Join(dir, "."+name+".new")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(next, filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(next)
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
