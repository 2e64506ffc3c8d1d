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
	held, err := hold(files.Ledger)
	if err != nil {
		return content, nil, err
	}
	if held != nil {
		defer pages.Release(held)
	}
	fresh := Files{files.Ledger + ".restoring", files.History + ".restoring"}
	defer fresh.remove()
	fresh.remove() // what a restoration left that was killed
	if content.Days, err = unpackAll(source, fresh); err != nil {
		return content, nil, err
	}
	if err = content.of(fresh.Ledger); err != nil {
		return content, nil, err
	}
	suffix := ".before-" + now.UTC().Format("20060102T150405Z")
	// The ledger last: it alone says that all is done.
	if content.Days > 0 {
		if kept, err = exchangeFolder(fresh.History, files.History, files.History+suffix); err != nil {
			return content, kept, err
		}
	}
	had, err := exchange(fresh.Ledger, files.Ledger, files.Ledger+suffix)
	if had {
		kept = append(kept, files.Ledger+suffix)
	}
	return content, kept, err
}

// hold takes the lock of the ledger, so that no daemon can open it meanwhile; nil where there is none.
func hold(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w: stop the daemon first", path, ErrLocked)
	}
	return file, nil
}

// remove removes what was unpacked and has not moved.
func (f Files) remove() {
	os.Remove(f.Ledger)
	os.RemoveAll(f.History)
}

// unpackAll unpacks a backup beside what it is to replace, and reads all that it has, the days of its history among
// it. Nothing but the names of days is taken from it.
func unpackAll(source string, fresh Files) (days int, err error) {
	file, err := os.Open(source)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoBackup, err)
	}
	packed := tar.NewReader(zipped)
	header, err := packed.Next()
	if err != nil || header.Name != ledgerMember {
		return 0, fmt.Errorf("%w: it does not begin with a ledger", ErrNoBackup)
	}
	if err := unpackOne(packed, header, fresh.Ledger, checkedLedger); err != nil {
		return 0, err
	}
	if days, err = unpackDays(packed, fresh.History); err != nil {
		return 0, err
	}
	// To the end, where the checksum stands.
	rest, err := io.Copy(io.Discard, io.LimitReader(damageOf{zipped}, mostBehind))
	if err == nil && rest == mostBehind {
		err = fmt.Errorf("%w: more in it than it should have", ErrNoBackup)
	}
	return days, err
}

// mostBehind is what may stand between the last file of a backup and its end, in bytes.
const mostBehind = 1 << 20

func unpackDays(packed *tar.Reader, folder string) (days int, err error) {
	for last := ""; ; {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			return days, nil
		}
		if err != nil {
			return days, fmt.Errorf("%w: %w", ErrNoBackup, err)
		}
		name := dayMember.FindStringSubmatch(header.Name)
		if name == nil || name[1] <= last {
			return days, fmt.Errorf("%w: %.80q in it, want days, ascending", ErrNoBackup, header.Name)
		}
		last = name[1]
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return days, err
		}
		if err := unpackOne(packed, header, filepath.Join(folder, last), checkedPages); err != nil {
			return days, err
		}
		days++
	}
}

// unpackOne unpacks a file and reads it.
func unpackOne(packed *tar.Reader, header *tar.Header, path string, check func(string) error) error {
	if header.Typeflag != tar.TypeReg || header.Size > mostRestored {
		return fmt.Errorf("%w: %s is no file of at most %d bytes", ErrNoBackup, header.Name, int64(mostRestored))
	}
	if err := writeNew(path, copying(damageOf{packed})); err != nil {
		return err
	}
	switch err := check(path); {
	case errors.Is(err, ErrNewer):
		return fmt.Errorf("%w, of a later daemon: restore it by that one", ErrNewer)
	case err != nil:
		return fmt.Errorf("%w: %s in it: %w", ErrNoBackup, header.Name, findingOf(err))
	}
	return nil
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

// exchangeFolder does the same for a folder, which for a moment is not there: the daemon does not run.
func exchangeFolder(fresh, path, kept string) (had []string, err error) {
	err = os.Rename(path, kept)
	if err == nil {
		had = []string{kept}
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return had, replace(fresh, path)
}
