package local

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// follower counts iterations in what is appended to a file, such as a job's output. It reads everything, and once, so
// that an epoch that begins between two looks is not taken for a part of the one before.
type follower struct {
	path  string
	lines reader
	was   os.FileInfo // the file at the last look; nil: there was none
	read  int64       // bytes read of it
}

// behind is the most that is read at a look. If a trainer prints faster than that, the beginning is skipped.
const behind = 1 << 20

// follow begins at the end of a file, since what it has is of an earlier run. A file that does not exist yet is read
// from its beginning.
func follow(path string, pattern *Pattern) *follower {
	f := &follower{path: path, lines: reader{pattern: pattern}}
	if file, info, err := openRegular(path); err == nil {
		f.was, f.read = info, info.Size()
		_ = file.Close()
	}
	return f
}

// iterations returns how many were found so far. A file that cannot be read has nothing new.
func (f *follower) iterations() (int64, bool) {
	if file, info, err := openRegular(f.path); err == nil {
		f.take(file, info)
		_ = file.Close()
	}
	return f.lines.iterations()
}

// take reads what is new. A file that was replaced, or is shorter than before, is read from its beginning.
func (f *follower) take(file *os.File, info os.FileInfo) {
	if f.was == nil || !os.SameFile(f.was, info) || info.Size() < f.read {
		f.read = 0
	}
	f.was, f.read = info, max(f.read, info.Size()-behind)
	text := io.NewSectionReader(file, f.read, behind)
	n, _ := io.Copy(&f.lines, text)
	f.read += n
}

// errIrregular means that the path is a pipe or a device, whose reader might wait for ever.
var errIrregular = errors.New("not an ordinary file")

// openRegular opens an ordinary file, and refuses what a reader might have to wait for.
func openRegular(path string) (*os.File, os.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errIrregular
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, info, nil
}
