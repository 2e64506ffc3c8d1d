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
	dir  string
	disk disk

	mu      sync.Mutex
	entries map[learned.Key]*learned.Entry
}

// Open reads the directory, which is made where it is missing, and clears away what a crash has cut off. A file that
// cannot be read is left alone and told in wrong; the error is one of the directory.
func Open(dir string) (s *Shelf, wrong []error, err error) {
	if err := prepare(dir); err != nil {
		return nil, nil, fmt.Errorf("learned profiles: %w", err)
	}
	return Read(dir)
}

func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode()&0o002 != 0 {
		return fmt.Errorf("%s has mode %04o: want no right to write for everybody, who could teach in any name", dir,
			info.Mode().Perm())
	}
	cut, err := filepath.Glob(filepath.Join(dir, ".*"+ending+unfinished))
	for _, file := range cut {
		_ = os.Remove(file) // its entry is written over it, where it stays
	}
	return err
}

// Read is Open for who only looks: nothing is made.
func Read(dir string) (s *Shelf, wrong []error, err error) {
	s = &Shelf{dir: dir, disk: folder(dir)}
	if s.entries, wrong, err = readAll(dir); err != nil {
		return nil, nil, fmt.Errorf("learned profiles: %w", err)
	}
	return s, wrong, nil
}

// Renew reads the directory again, for who was not the only one to write there. On an error all stays as it was.
func (s *Shelf) Renew() (wrong []error, err error) {
	entries, wrong, err := readAll(s.dir)
	if err != nil {
		return nil, fmt.Errorf("learned profiles: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = entries
	return wrong, nil
}

func readAll(dir string) (entries map[learned.Key]*learned.Entry, wrong []error, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	entries = map[learned.Key]*learned.Entry{}
	for _, file := range files {
		if strings.HasPrefix(file.Name(), ".") || !strings.HasSuffix(file.Name(), ending) {
			continue // of a write that was cut off, or nothing of ours
		}
		if len(entries) == MaxAll {
			return entries, append(wrong,
				fmt.Errorf("more than %d learned profiles: the others are left unread", MaxAll)), nil
		}
		e, err := readEntry(dir, file.Name())
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", file.Name(), err))
			continue
		}
		entries[e.Key()] = e
	}
	return entries, wrong, nil
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
	return hex.EncodeToString(sum[:16]) + ending
}

// Of is the entry of a key; nil: there is none. Nobody may change it.
func (s *Shelf) Of(key learned.Key) *learned.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[key]
}

// Known is how many entries know something: of the others all was forgotten.
func (s *Shelf) Known() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if len(e.Points) > 0 {
			n++
		}
	}
	return n
}

// All are the entries, by user and job.
func (s *Shelf) All() []*learned.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*learned.Entry, 0, len(s.entries))
	for _, e := range s.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *learned.Entry) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Job, b.Job))
	})
	return all
}

// Keep writes an entry in place of the one that its key has. On an error that one stands, here and on the disk, and so
// does what somebody else has taught there since this shelf was read. An entry whose names are too long for the file is
// not kept.
func (s *Shelf) Keep(e *learned.Entry) error {
	if err := s.keep(e); err != nil {
		return fmt.Errorf("keep what was learned: %w", err)
	}
	return nil
}

func (s *Shelf) keep(e *learned.Entry) error {
	text, err := e.Print()
	if err != nil {
		return err
	}
	if !e.Key().Valid() {
		return fmt.Errorf("user %.40q, job name %.40q: want UTF-8 of at most %d bytes, and a user", e.User, e.Job,
			learned.MaxText)
	}
	if _, err := learned.Parse(text); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.yield(e.Key()); err != nil {
		return err
	}
	return s.put(e, text)
}

// put has the disk do it, and then the memory. What the disk has done counts, though it may not outlast a crash.
func (s *Shelf) put(e *learned.Entry, text []byte) error {
	crowded := s.crowdedOut(e)
	if err := s.replace(fileOf(e.Key()), text, crowded); err != nil {
		return err
	}
	for _, gone := range crowded {
		delete(s.entries, gone.Key())
	}
	s.entries[e.Key()] = e
	return s.disk.sync()
}

// errOvertaken says that another daemon has taught the same since this shelf was read: what it wrote is taken over, and
// what was to be kept follows from something older.
var errOvertaken = errors.New("another daemon has written it meanwhile: want a folder for each")

// yield takes over what somebody else has written of a key since.
func (s *Shelf) yield(key learned.Key) error {
	there, err := readEntry(s.dir, fileOf(key))
	if err != nil {
		return nil // there is none, or none that counts
	}
	if known := s.entries[key]; known != nil && !there.Updated.After(known.Updated) && !there.Since.After(known.Since) {
		return nil
	}
	s.entries[key] = there
	return errOvertaken
}

// crowdedOut are the entries that a new one takes the place of: those that were taught longest ago, of the user who has
// too many, or of the one who has the most where all have too many.
func (s *Shelf) crowdedOut(next *learned.Entry) (gone []*learned.Entry) {
	of, all := map[string]int{}, 0
	for key := range s.entries {
		if key != next.Key() {
			of[key.User]++
			all++
		}
	}
	for of[next.User] >= MaxOfUser || all >= MaxAll {
		greedy := next.User
		if of[greedy] < MaxOfUser {
			greedy = greediest(of, next.User)
		}
		gone = append(gone, s.oldestOf(greedy, next, gone))
		of[greedy]--
		all--
	}
	return gone
}

// greediest is the user with the most entries, of whom next is about to have one more. Who has none loses none.
func greediest(of map[string]int, next string) (greedy string) {
	most := 0
	for user, n := range of {
		if n > 0 && user == next {
			n++
		}
		if n > most || n == most && n > 0 && user < greedy {
			greedy, most = user, n
		}
	}
	return greedy
}

func (s *Shelf) oldestOf(user string, next *learned.Entry, but []*learned.Entry) (oldest *learned.Entry) {
	for key, e := range s.entries {
		if key.User == user && key != next.Key() && !slices.Contains(but, e) && (oldest == nil || older(e, oldest)) {
			oldest = e
		}
	}
	return oldest
}

func older(a, b *learned.Entry) bool {
	return a.Updated.Before(b.Updated) || a.Updated.Equal(b.Updated) && a.Job < b.Job
}
