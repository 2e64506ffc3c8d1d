// Package shelf stores learned entries in a directory: a readable JSON file for each owner and job name. A user's name
// is never part of a path: files are named by a hash of both. A file is replaced as a whole and synced, so a crash
// leaves the old one or the new one.
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

// Bounds of the store, so that no user can fill the disk, or displace the entries of others, by inventing names.
const (
	MaxOfUser = 64
	MaxAll    = 4096
)

// Shelf is the store: a directory of entries, all of which are also in memory. It is safe for concurrent use.
type Shelf struct {
	dir  string
	disk disk

	mu      sync.Mutex
	entries map[learned.Key]*learned.Entry
}

// Open reads the directory, creates it if it is missing, and removes unfinished files left by a crash. Files that
// cannot be read are left alone and returned in wrong; err is an error of the directory.
func Open(dir string) (s *Shelf, wrong []error, err error) {
	if err := prepare(dir); err != nil {
		return nil, nil, fmt.Errorf("learned profiles: %w", err)
	}
	return Read(dir)
}

// prepare creates the directory, refuses one that everybody may write to, and removes unfinished files.
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
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, ".") && strings.HasSuffix(name, ending+unfinished) {
			_ = os.Remove(filepath.Join(dir, name)) // a file that stays is overwritten by the next write
		}
	}
	return err
}

// Read is Open for reading only: it creates and removes nothing.
func Read(dir string) (s *Shelf, wrong []error, err error) {
	s = &Shelf{dir: dir, disk: folder(dir)}
	if s.entries, wrong, err = readAll(dir); err != nil {
		return nil, nil, fmt.Errorf("learned profiles: %w", err)
	}
	return s, wrong, nil
}

// Renew reads the directory again, for a caller that was not the only writer. After an error everything stays as it
// was.
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

// readAll reads all entries, at most MaxAll. Files that cannot be read are returned in wrong.
func readAll(dir string) (entries map[learned.Key]*learned.Entry, wrong []error, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	entries = map[learned.Key]*learned.Entry{}
	for _, file := range files {
		if strings.HasPrefix(file.Name(), ".") || !strings.HasSuffix(file.Name(), ending) {
			continue // unfinished, or not ours
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

// readEntry reads an entry from a regular file, whose name must be the one of its key.
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

// fileOf returns the name of a key's file: 128 bits of a hash, so that nobody can find two keys with the same name.
func fileOf(key learned.Key) string {
	sum := sha256.Sum256([]byte(key.User + "\x00" + key.Job))
	return hex.EncodeToString(sum[:16]) + ending
}

// Of returns the entry of a key, which must not be changed; nil: there is none.
func (s *Shelf) Of(key learned.Key) *learned.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[key]
}

// Known returns the number of entries with points; in the others everything was forgotten.
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

// All returns the entries, by user and job.
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

// Keep stores an entry in place of the one with its key. After an error the old one stays, in memory and on disk. What
// another daemon has written since this store was read stays, too. An entry whose names are too long for the file is
// not kept.
func (s *Shelf) Keep(e *learned.Entry) error {
	if err := s.keep(e); err != nil {
		return fmt.Errorf("keep what was learned: %w", err)
	}
	return nil
}

// keep checks an entry, takes over what another daemon has written, and stores the entry.
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
	if err := s.adoptNewer(e.Key()); err != nil {
		return err
	}
	return s.put(e, text)
}

// put writes the entry to disk and then to memory. What was written counts even if the final sync fails, although it
// may then not outlast a crash. Entries in memory go only after their files are gone.
func (s *Shelf) put(e *learned.Entry, text []byte) error {
	crowded := s.evictedBy(e)
	if err := s.replace(fileOf(e.Key()), text, crowded); err != nil {
		return err
	}
	for _, gone := range crowded {
		delete(s.entries, gone.Key())
	}
	s.entries[e.Key()] = e
	return s.disk.sync()
}

// errNewerEntry means that another daemon has written this entry since the store was read. Its entry is taken over, and
// the new one is dropped, since it follows from older data.
var errNewerEntry = errors.New("another daemon has written it meanwhile: want a folder for each")

// adoptNewer takes over a newer entry that another daemon has written for the key. It then returns errNewerEntry. If no
// valid file is there, the new entry may be written.
func (s *Shelf) adoptNewer(key learned.Key) error {
	there, err := readEntry(s.dir, fileOf(key))
	if err != nil {
		return nil // there is none, or it is not valid
	}
	if known := s.entries[key]; known != nil && !there.Updated.After(known.Updated) && !there.Since.After(known.Since) {
		return nil
	}
	s.entries[key] = there
	return errNewerEntry
}

// evictedBy returns the entries that make room for a new one: those with the oldest updates, of its user if that user
// has too many entries, and of the user with the most if the store is full.
func (s *Shelf) evictedBy(next *learned.Entry) (gone []*learned.Entry) {
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

// greediest returns the user with the most entries, counting the one that user next is about to add. A user without
// entries cannot lose any.
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

// oldestOf returns the user's entry with the oldest update, without that of next and those in but.
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
