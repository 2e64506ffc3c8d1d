package ledger

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/ledger/pages"
)

// Restore puts what a backup has in the place of the files, after it was read whole; until then they stand. What was
// there is kept under the names that are returned. A history that the backup has not stays as it is. ErrLocked: a
// daemon runs. ErrNewer: a later daemon wrote the backup. ErrNoBackup: it is damaged, or something else.
func Restore(source string, files Files, now time.Time) (content Content, kept []string, err error) {
	content, kept, err = restore(source, files, now)
	if err != nil {
		return Content{}, kept, fmt.Errorf("restore %s: %w", source, err)
	}
	return content, kept, nil
}

func restore(source string, files Files, now time.Time) (content Content, kept []string, err error) {
	held, err := holdAll(files)
	if err != nil {
		return content, nil, err
	}
	defer held.let()
	fresh, err := unpackAll(source, files)
	defer fresh.remove()
	if err != nil {
		return content, nil, err
	}
	if content, err = contentOf(fresh); err != nil {
		return content, nil, err
	}
	suffix := ".before-" + now.UTC().Format("20060102T150405Z")
	// The ledger last: it alone says that all is done.
	for _, f := range []struct{ from, to string }{{fresh.History, files.History}, {fresh.Ledger, files.Ledger}} {
		if f.from == "" {
			continue
		}
		had, err := exchange(f.from, f.to, f.to+suffix)
		if had {
			kept = append(kept, f.to+suffix)
		}
		if err != nil {
			return content, kept, err
		}
	}
	return content, kept, nil
}

// holding are files that no daemon can open meanwhile.
type holding []*os.File

func (h holding) let() {
	for _, file := range h {
		pages.Release(file)
	}
}

// holdAll takes the locks of those files that are there.
func holdAll(files Files) (held holding, err error) {
	for _, path := range []string{files.Ledger, files.History} {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			held.let()
			return nil, err
		}
		held = append(held, file)
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			held.let()
			return nil, fmt.Errorf("%s: %w: stop the daemon first", path, ErrLocked)
		}
	}
	return held, nil
}

// unpackAll unpacks a backup, each file beside that which it is to replace, and reads all that it has. Nothing but the
// two names is taken from it.
func unpackAll(source string, files Files) (fresh Files, err error) {
	file, err := os.Open(source)
	if err != nil {
		return fresh, err
	}
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		return fresh, fmt.Errorf("%w: %w", ErrNoBackup, err)
	}
	packed := tar.NewReader(zipped)
	if fresh.Ledger, err = unpackOne(packed, ledgerMember, files.Ledger); err != nil {
		return fresh, err
	}
	fresh.History, err = unpackOne(packed, historyMember, files.History)
	if err != nil && !errors.Is(err, io.EOF) {
		return fresh, err
	}
	// To the end, where the checksum stands.
	if rest, err := io.Copy(io.Discard, io.LimitReader(damageOf{zipped}, mostBehind)); err != nil {
		return fresh, err
	} else if rest == mostBehind {
		return fresh, fmt.Errorf("%w: more in it than two files", ErrNoBackup)
	}
	return fresh, fresh.check()
}

// mostBehind is what may stand between the last file of a backup and its end, in bytes.
const mostBehind = 1 << 20

// check reads what was unpacked.
func (f Files) check() error {
	err := checkedLedger(f.Ledger)
	if err == nil && f.History != "" {
		err = checkedPages(f.History)
	}
	switch {
	case errors.Is(err, ErrNewer):
		return fmt.Errorf("%w, of a later daemon: restore it by that one", ErrNewer)
	case err != nil:
		return fmt.Errorf("%w: in it %w", ErrNoBackup, findingOf(err))
	}
	return nil
}

// remove removes what was unpacked and has not moved.
func (f Files) remove() {
	for _, path := range []string{f.Ledger, f.History} {
		if path != "" {
			os.Remove(path)
		}
	}
}

// unpackOne unpacks the next file, which has to have that name, to one beside another. io.EOF: there is no other.
func unpackOne(packed *tar.Reader, name, beside string) (path string, err error) {
	header, err := packed.Next()
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrNoBackup, err)
	case header.Name != name || header.Typeflag != tar.TypeReg:
		return "", fmt.Errorf("%w: %.80q in it, want %s", ErrNoBackup, header.Name, name)
	case header.Size > mostRestored:
		return "", fmt.Errorf("%w: %s of %d bytes, want at most %d", ErrNoBackup, name, header.Size,
			int64(mostRestored))
	}
	path = beside + ".restoring"
	return path, writeNew(path, copying(damageOf{packed}))
}

// damageOf tells what is wrong with what is read from what is wrong with the disk that it is written to.
type damageOf struct{ inner io.Reader }

func (d damageOf) Read(into []byte) (int, error) {
	n, err := d.inner.Read(into)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", ErrNoBackup, err)
	}
	return n, err
}

// exchange gives the file at fresh the name of another, which goes on under a third. At no moment is there none.
func exchange(fresh, path, kept string) (had bool, err error) {
	err = os.Link(path, kept)
	switch {
	case errors.Is(err, os.ErrNotExist):
		// A daemon that was started meanwhile has made one: by a link it is not lost.
		if err := os.Link(fresh, path); err != nil {
			return false, err
		}
	case err != nil:
		return false, err
	default:
		had = true
		if err := os.Rename(fresh, path); err != nil {
			return had, err
		}
	}
	return had, syncFolder(filepath.Dir(path))
}
