package shelf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
)

// How files are called.
const (
	ending     = ".json"
	unfinished = ".new" // behind the name of one that is being written, which begins with a dot then
)

// disk is what a shelf does to its folder. A daemon may die before and after each of these calls.
type disk interface {
	// write makes a file, whole and on the disk.
	write(name string, text []byte) error
	// rename puts a file in the place of another.
	rename(from, to string) error
	// remove says nothing of a file that there is not.
	remove(name string) error
	// sync has the folder itself on the disk.
	sync() error
}

// replace writes an entry's file under another name, and renames it when it is whole. Who has to make room for it goes
// between the two: there are never more files than may be, and none is lost for one that could not be written.
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

// folder is a directory of this host's.
type folder string

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

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
