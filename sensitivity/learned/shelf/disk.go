package shelf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
)

// Names of files.
const (
	ending     = ".json"
	unfinished = ".new" // ending of a file that is being written, whose name begins with a dot
)

// disk is what a shelf does in its directory. A daemon may die before and after each of these calls.
type disk interface {
	// write creates a file, complete and synced to disk.
	write(name string, text []byte) error
	// rename replaces one file by another.
	rename(from, to string) error
	// remove ignores a file that does not exist.
	remove(name string) error
	// sync syncs the directory itself to disk.
	sync() error
}

// replace writes an entry's file under another name, and renames it when it is complete. The entries that make room are
// removed between the two: so there are never too many files, and no entry is lost for one that could not be written.
func (s *Shelf) replace(name string, text []byte, crowded []*learned.Entry) error {
	next := "." + name + unfinished
	if err := s.disk.remove(next); err != nil {
		return err
	}
	err := s.disk.write(next, text)
	for _, gone := range crowded {
		if err == nil {
			err = s.disk.remove(fileOf(gone.Key()))
		}
	}
	if err == nil {
		err = s.disk.rename(next, name)
	}
	if err != nil {
		_ = s.disk.remove(next)
	}
	return err
}

// folder is a directory on this host.
type folder string

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// write fails if the file exists: replace has removed an unfinished one.
func (f folder) write(name string, text []byte) error {
	file, err := os.OpenFile(f.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

func (f folder) rename(from, to string) error { return os.Rename(f.path(from), f.path(to)) }

func (f folder) remove(name string) error {
	if err := os.Remove(f.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f folder) sync() error {
	dir, err := os.Open(string(f))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
