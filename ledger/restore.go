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

// Restore replaces the files by those of a backup, after it has read the whole backup; before that nothing changes. The
// previous files are kept under the returned names. If the backup has no history, the present one stays. ErrLocked: a
// daemon runs. ErrNewer: a later version wrote the backup. ErrNoBackup: it is damaged or something else.
func Restore(source string, files Files, now time.Time) (content Content, kept []string, err error) {
	content, kept, err = restore(source, files, now)
	if err != nil {
		return Content{}, kept, fmt.Errorf("restore %s: %w", source, err)
	}
	return content, kept, nil
}

// restore does the work of Restore: it locks the ledger, unpacks and checks the backup beside the files, and exchanges
// them.
func restore(source string, files Files, now time.Time) (content Content, kept []string, err error) {
	held, err := lockLedger(files.Ledger)
	if err != nil {
		return content, nil, err
	}
	if held != nil {
		defer pages.Release(held)
	}
	// A folder that is named as history/ would get its copies inside of it.
	files = Files{filepath.Clean(files.Ledger), filepath.Clean(files.History)}
	fresh := Files{files.Ledger + ".restoring", files.History + ".restoring"}
	defer fresh.remove()
	fresh.remove() // left by a restore that was killed
	if content.Days, err = unpackAll(source, fresh); err != nil {
		return content, nil, err
	}
	if err = content.of(fresh.Ledger); err != nil {
		return content, nil, err
	}
	suffix := ".before-" + now.UTC().Format("20060102T150405Z")
	// The ledger is replaced last: it alone says that the restore is complete.
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

// lockLedger locks the ledger, so that no daemon can open it meanwhile; nil if there is none.
func lockLedger(path string) (*os.File, error) {
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

// remove removes unpacked files that have not been moved to their place.
func (f Files) remove() {
	os.Remove(f.Ledger)
	os.RemoveAll(f.History)
}

// unpackAll unpacks a backup beside the files that it is to replace, and checks everything in it. From the archive's
// names only the days are used.
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
	// Read to the end, where gzip's checksum is.
	rest, err := io.Copy(io.Discard, io.LimitReader(backupReader{zipped}, mostBehind))
	if err == nil && rest == mostBehind {
		err = fmt.Errorf("%w: more in it than it should have", ErrNoBackup)
	}
	return days, err
}

// mostBehind bounds what may follow the last file in a backup, in bytes.
const mostBehind = 1 << 20

// unpackDays unpacks the days of the history, which must ascend.
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

// unpackOne unpacks a file and checks it.
func unpackOne(packed *tar.Reader, header *tar.Header, path string, check func(string) error) error {
	if header.Typeflag != tar.TypeReg || header.Size > mostRestored {
		return fmt.Errorf("%w: %s is no file of at most %d bytes", ErrNoBackup, header.Name, int64(mostRestored))
	}
	if err := writeNew(path, copying(backupReader{packed})); err != nil {
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

// backupReader marks errors of reading the backup as ErrNoBackup, to distinguish them from errors of writing to the
// disk.
type backupReader struct{ inner io.Reader }

func (d backupReader) Read(into []byte) (int, error) {
	n, err := d.inner.Read(into)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", ErrNoBackup, err)
	}
	return n, err
}

// exchange gives the file fresh the name path, and the file that had it the name kept. At every moment some file has
// the name path.
func exchange(fresh, path, kept string) (had bool, err error) {
	err = os.Link(path, kept)
	switch {
	case errors.Is(err, os.ErrNotExist):
		// A daemon started meanwhile may have created one: Link fails then, and Rename would have replaced it.
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

// exchangeFolder does the same for a folder. For a moment no folder has the name, which is harmless because no daemon
// runs.
func exchangeFolder(fresh, path, kept string) (had []string, err error) {
	err = os.Rename(path, kept)
	if err == nil {
		had = []string{kept}
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return had, replace(fresh, path)
}
