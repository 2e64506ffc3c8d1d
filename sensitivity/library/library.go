// Package library finds profiles by the names that users write into their jobs. A name is untrusted: it is looked up in
// the configured directories only, and only regular files of limited size are read. The package parses and caches
// profiles; package sensitivity interprets them.
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

// Errors of Lookup that a caller can distinguish; any other error is of the file system.
var (
	ErrName      = errors.New("not a profile name")
	ErrNoProfile = errors.New("no such profile")
	ErrInvalid   = errors.New("invalid profile")
)

// Library is a list of directories with profiles. It is safe for concurrent use.
type Library struct {
	dirs []string

	mu    sync.Mutex
	cache map[string]cachedProfile // by path
}

// cachedProfile is the result of the last read of a file. It is valid while the file has the same identity, time and
// size.
type cachedProfile struct {
	info    fs.FileInfo
	profile *sensitivity.Profile
	err     error // why it is invalid
}

// New returns a Library of the directories; the first one with a name wins. They are searched at each Lookup and may
// come and go.
func New(dirs ...string) *Library {
	return &Library{dirs: slices.Clone(dirs), cache: map[string]cachedProfile{}}
}

// names matches the names of profiles: a file name without a path that ends in .json and does not start with a dot.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*\.json$`)

// maxName is the longest name in bytes.
const maxName = 128

// CheckName returns ErrName with a reason if name cannot be a profile's.
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

// MostNames is the most names that Names returns.
const MostNames = 10_000

// Names returns the files in the directories whose names a profile may have, ascending, without duplicates, at most
// MostNames. The error names the directories that cannot be read; the names from the others are returned all the same.
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

// Lookup returns the profile with this name. Its file is read again only when it has changed; callers share the profile
// and must not change it.
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

// lookIn returns the profile in one directory, nil if it is not there. That a file is invalid is cached as well, since
// it is read again once it has changed.
func (l *Library) lookIn(dir, name string) (*sensitivity.Profile, error) {
	path := filepath.Join(dir, name)
	root, info, err := find(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		delete(l.cache, path)
		return nil, nil
	}
	if err != nil {
		return nil, cause(err)
	}
	defer root.Close()
	if known, is := l.cache[path]; is && same(known.info, info) {
		return known.profile, known.err
	}
	now, err := readAnew(root, name)
	if err != nil {
		return nil, cause(err)
	}
	l.cache[path] = now
	return now.profile, now.err
}

// find looks for a file in a directory, following no symbolic link out of it. The caller closes the root.
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

// readAnew reads a file; a reading may also say why the file is invalid. An error is one of the file system and is not
// cached, since it may be gone the next time.
func readAnew(root *os.Root, name string) (cachedProfile, error) {
	file, info, err := openRegular(root, name)
	if errors.Is(err, ErrInvalid) {
		return cachedProfile{info: info, err: err}, nil
	}
	if err != nil {
		return cachedProfile{}, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, sensitivity.MaxBytes+1))
	if err != nil {
		return cachedProfile{}, err
	}
	profile, err := sensitivity.Parse(text)
	if err != nil {
		return cachedProfile{info: info, err: fmt.Errorf("%w: %w", ErrInvalid, err)}, nil
	}
	return cachedProfile{info: info, profile: profile}, nil
}

// openRegular opens a regular file. Anything else is not even opened, since opening alone can block or move a device;
// the check is repeated after opening, in case the name was given to something else in between.
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

// cause returns err without operation and path, which Lookup adds itself.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
