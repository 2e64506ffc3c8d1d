package ledger

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/synergy-slurmd/synergy-slurmd/ledger/pages"
)

// ErrNoBackup says that a file is not a backup or is damaged. A restore from it has changed nothing.
var ErrNoBackup = errors.New("not a whole backup")

// Files are the files of one daemon: the ledger, and the history's folder with a database for each day, if there is
// one.
type Files struct{ Ledger, History string }

// Content says what a backup contains.
type Content struct {
	Round   int      // the last settled round
	Jobs    int      // jobs with a record
	Days    int      // days of the history
	Damaged []string // days that were left out because they are damaged
}

// A backup is a tar archive, compressed with gzip, whose checksum reveals damage. It holds the ledger and then the
// days, ascending.
const ledgerMember = "ledger"

// dayMember matches a day's name in the archive; the last part is its file name.
var dayMember = regexp.MustCompile(`^history/([0-9]{4}-[0-9]{2}-[0-9]{2}\.history)$`)

// mostRestored bounds the size of one unpacked file, in bytes.
const mostRestored = 64 << 30

// Backup writes the files to a new file at target that only its owner can read; an existing one is replaced when the
// new one is complete. A daemon may have the files open and keep writing. A missing history and damaged days are left
// out.
func Backup(files Files, target string) (Content, error) {
	content, err := backup(files, target)
	if err != nil {
		return Content{}, fmt.Errorf("back up to %s: %w", target, err)
	}
	return content, nil
}

// backup does the work of Backup. It writes into a temporary folder beside target, on the same file system, so that the
// complete archive can be renamed to target.
func backup(files Files, target string) (content Content, err error) {
	place, err := os.MkdirTemp(filepath.Dir(target), ".synergy-backup-")
	if err != nil {
		return content, err
	}
	defer os.RemoveAll(place)
	whole := filepath.Join(place, "whole")
	if err := writeNew(whole, func(to io.Writer) error { return packAll(to, files, place, &content) }); err != nil {
		return content, err
	}
	return content, replace(whole, target)
}

// packAll packs all files. Each is copied into the folder place first, so that the archive holds one consistent state
// of it.
func packAll(to io.Writer, files Files, place string, content *Content) error {
	zipped := gzip.NewWriter(to)
	packed := tar.NewWriter(zipped)
	still := filepath.Join(place, ledgerMember)
	if err := copyStill(files.Ledger, still, checkedLedger); err != nil {
		return err
	}
	if err := content.of(still); err != nil {
		return err
	}
	if err := packOne(packed, ledgerMember, still); err != nil {
		return err
	}
	if err := packDays(packed, files.History, place, content); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return zipped.Close()
}

// packDays packs the undamaged days of the history. A day that disappears meanwhile was removed for its age.
func packDays(packed *tar.Writer, folder, place string, content *Content) error {
	entries, err := os.ReadDir(folder) // sorted
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	still := filepath.Join(place, "day")
	for _, entry := range entries {
		name := "history/" + entry.Name()
		if !dayMember.MatchString(name) || !entry.Type().IsRegular() {
			continue
		}
		err := copyStill(filepath.Join(folder, entry.Name()), still, checkedPages)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case errors.Is(err, ErrCorrupt), errors.Is(err, ErrAlien):
			content.Damaged = append(content.Damaged, entry.Name())
			continue
		case err != nil:
			return err
		}
		if err := packOne(packed, name, still); err != nil {
			return err
		}
		content.Days++
	}
	return nil
}

// The number of attempts to copy a file, and the pause between them. A round writes for milliseconds and then not for a
// second.
const (
	copyTries = 100
	copyPause = 20 * time.Millisecond
)

// errMoved says that a file was written to while it was copied.
var errMoved = errors.New("the daemon wrote to it all the time: try again")

// copyStill copies a database while its owner may write to it. bbolt never overwrites a page of the state in force: it
// writes a new state elsewhere in the file and then puts it in force by one of the two pages at the beginning. If these
// two are the same before and after the copy, the copy is of one state.
func copyStill(from, to string, check func(string) error) error {
	var err error
	for range copyTries {
		if err = copyOnce(from, to); !errors.Is(err, errMoved) {
			break
		}
		time.Sleep(copyPause)
	}
	if errors.Is(err, errMoved) {
		return fmt.Errorf("%s: %w", from, err)
	}
	if err != nil {
		return err
	}
	if err := check(to); err != nil {
		return fmt.Errorf("%s: %w", from, findingOf(err))
	}
	return nil
}

// copyOnce copies a regular file once; errMoved if it changed meanwhile.
func copyOnce(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	if info, err := source.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%w: no regular file", ErrAlien))
	}
	return unmoved(from, func() error { return writeNew(to, copying(source)) })
}

// unmoved runs read and returns errMoved if another state of the database came into force meanwhile.
func unmoved(path string, read func() error) error {
	before, err := readHead(path, 2*os.Getpagesize())
	if err != nil {
		return err
	}
	if err := read(); err != nil {
		return err
	}
	after, err := readHead(path, 2*os.Getpagesize())
	if err == nil && !bytes.Equal(before, after) {
		err = errMoved
	}
	return err
}

// writeNew creates a file that only its owner can read, and returns when its content is on the disk.
func writeNew(path string, fill func(io.Writer) error) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := fill(file); err != nil {
		return err
	}
	return file.Sync()
}

// copying returns a function that copies everything from a reader.
func copying(from io.Reader) func(io.Writer) error {
	return func(to io.Writer) error {
		_, err := io.Copy(to, from)
		return err
	}
}

func packOne(packed *tar.Writer, name, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: name, Mode: 0o600, Size: info.Size(), ModTime: info.ModTime().UTC()}
	if err := packed.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(packed, file)
	return err
}

// replace renames a file and returns when the new name is on the disk.
func replace(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to))
}

// syncFolder returns when the names in a folder are on the disk; a file's own Sync does not include its name.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// checkedLedger reads a whole ledger and returns what is wrong with it.
func checkedLedger(path string) error {
	book, err := Read(path)
	if err != nil {
		return err
	}
	return book.Close()
}

// checkedPages reads a whole database of any content and returns what is wrong with it.
func checkedPages(path string) error {
	db, err := pages.Open(path, readWait, true)
	if err != nil {
		return explain(path, err)
	}
	defer db.Close()
	if err := pages.Guard(func() error { return db.View(checkAny) }); err != nil {
		return explain(path, err)
	}
	return nil
}

// findingOf reduces an error to what is wrong with a copy, without the remedies meant for a daemon's administrator.
func findingOf(err error) error {
	for _, finding := range []error{ErrCorrupt, ErrAlien, ErrNewer} {
		if errors.Is(err, finding) {
			return finding
		}
	}
	return err
}

// checkAny reads all values before checkPages, which requires that.
func checkAny(tx *bolt.Tx) error {
	err := tx.ForEach(func(_ []byte, bucket *bolt.Bucket) error { return walk(bucket, 0) })
	if err != nil {
		return err
	}
	return checkPages(tx)
}

// deepest bounds the nesting of buckets.
const deepest = 16

// walk reads all values of a bucket and of the buckets in it.
func walk(bucket *bolt.Bucket, depth int) error {
	if depth > deepest {
		return fmt.Errorf("buckets within buckets, more than %d deep", deepest)
	}
	return bucket.ForEach(func(key, value []byte) error {
		if value == nil {
			return walk(bucket.Bucket(key), depth+1)
		}
		_ = bytes.Count(value, key) // touches every page of the value
		return nil
	})
}

// of fills in what a ledger contains. A ledger opened by Read does not know its last round; the newest report has it.
func (c *Content) of(path string) error {
	book, err := Read(path)
	if err != nil {
		return err
	}
	defer book.Close()
	records, _, err := book.Load()
	c.Round, c.Jobs = book.newest(), len(records)
	return err
}
