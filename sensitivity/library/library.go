// Package library finds profiles by the names that users write into their jobs. A name is untrusted: it is looked up in
// the configured directories and nowhere else, and nothing but a regular file of sane size is read. It parses and
// remembers; what a profile means is package sensitivity's to say.
package library

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// What a caller can tell apart about a failed Lookup; any other error is of the file system.
var (
	ErrName      = errors.New("not a profile name")
	ErrNoProfile = errors.New("no such profile")
	ErrInvalid   = errors.New("invalid profile")
)

// Library is a list of directories with profiles. It is safe for concurrent use.
type Library struct {
	dirs []string

	mu   sync.Mutex
	read map[string]reading // by path
}

// reading is what a file said when it was last read. A file with the same identity, time and size says the same still.
type reading struct {
	info    fs.FileInfo
	profile *sensitivity.Profile
	err     error // why it is invalid
}

// New is a Library over dirs; the first that has a name wins. They are looked into at each Lookup and may come and go.
func New(dirs ...string) *Library {
	return &Library{dirs: slices.Clone(dirs), read: map[string]reading{}}
}

// names are what a profile may be called: a file name without a path, that ends in .json and does not start with a dot.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*\.json$`)

// maxName is the longest name in bytes.
const maxName = 128

// CheckName says why name cannot be that of a profile (ErrName), or nil.
func CheckName(name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("profile %q…: %w: longer than %d bytes", name[:maxName], ErrName, maxName)
	case !names.MatchString(name) || strings.Contains(name, ".."):
		return fmt.Errorf("profile %q: %w: want letters, digits and . _ - without a path, ending in .json", name,
			ErrName)
	}
	return nil
}

// MostNames bounds Names.
const MostNames = 10_000

// Names are what the directories have that can be a profile by its name, ascending, each once, MostNames at most. The
// error says which of them cannot be read; the names of the others are there all the same.
func (l *Library) Names() (names []string, err error) {
	for _, dir := range l.dirs {
		entries, fault := os.ReadDir(dir)
		err = errors.Join(err, fault)
		for _, entry := range entries {
			if CheckName(entry.Name()) == nil {
				names = append(names, entry.Name())
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), MostNames)], err
}

// Lookup is the profile called name. It is read again only when its file has changed; callers share it and must not
// change it.
func (l *Library) Lookup(name string) (*sensitivity.Profile, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, dir := range l.dirs {
		found, err := l.lookIn(dir, name)
		if err != nil {
			return nil, fmt.Errorf("profile %q in %s: %w", name, dir, err)
		}
		if found != nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("profile %q: %w in %s", name, ErrNoProfile, strings.Join(l.dirs, ", "))
}

// lookIn is the profile in one directory, nil where there is none.
func (l *Library) lookIn(dir, name string) (*sensitivity.Profile, error) {
	path := filepath.Join(dir, name)
	root, info, err := find(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		delete(l.read, path)
		return nil, nil
	}
	if err != nil {
		return nil, cause(err)
	}
	defer root.Close()
	if known, is := l.read[path]; is && same(known.info, info) {
		return known.profile, known.err
	}
	now, err := readAnew(root, name)
	if err != nil {
		return nil, cause(err)
	}
	l.read[path] = now
	return now.profile, now.err
}

// find looks for a file in a directory that no symbolic link leads out of; the caller closes the root.
func find(dir, name string) (*os.Root, fs.FileInfo, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	info, err := root.Stat(name)
	if err != nil {
		root.Close()
	}
	return root, info, err
}

func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// readAnew reads a file and what is wrong with it, if something is. Its error is one of the file system, which is not
// remembered: it may be gone the next time.
func readAnew(root *os.Root, name string) (reading, error) {
	file, info, err := openRegular(root, name)
	if errors.Is(err, ErrInvalid) {
		return reading{info: info, err: err}, nil
	}
	if err != nil {
		return reading{}, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, sensitivity.MaxBytes+1))
	if err != nil {
		return reading{}, err
	}
	profile, err := sensitivity.Parse(text)
	if err != nil {
		return reading{info: info, err: fmt.Errorf("%w: %w", ErrInvalid, err)}, nil
	}
	return reading{info: info, profile: profile}, nil
}

// openRegular opens a file that is one. What else the name may stand for is not even opened, since that alone can block
// or move a device; it is looked at again when open, in case the name was given to something else in between.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	info, err := root.Stat(name)
	if err == nil {
		err = regular(info)
	}
	if err != nil {
		return nil, info, err
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = file.Stat(); err == nil {
		err = regular(info)
	}
	if err != nil {
		file.Close()
	}
	return file, info, err
}

func regular(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: not a regular file but %s", ErrInvalid, info.Mode())
	}
	return nil
}

// cause is err without the operation and the path, which Lookup names.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
