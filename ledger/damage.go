package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
)

// check reads everything there is, in this goroutine, where pages.Guard can catch a fault.
func check(tx *bolt.Tx) error {
	if err := checkFormat(tx); err != nil {
		return err
	}
	if _, err := loadRecords(tx.Bucket(recordsBucket)); err != nil {
		return err
	}
	if _, err := loadIntent(tx.Bucket(intentBucket)); err != nil {
		return err
	}
	if err := checkReports(tx.Bucket(reportsBucket)); err != nil {
		return err
	}
	return checkPages(tx)
}

func checkFormat(tx *bolt.Tx) error {
	meta := tx.Bucket(metaBucket)
	if meta == nil {
		return fmt.Errorf("%w: another program's database", ErrAlien)
	}
	if found := meta.Get(formatKey); !readable(found) {
		return fmt.Errorf(
			"%w: %x, this daemon writes %d: run the daemon that wrote it, or move it away to start without memory of "+
				"service",
			ErrNewer, found, format)
	}
	for _, name := range [][]byte{recordsBucket, intentBucket, reportsBucket} {
		if tx.Bucket(name) == nil {
			return fmt.Errorf("no bucket %s", name)
		}
	}
	return nil
}

// readable says that this daemon can read what is in a format.
func readable(found []byte) bool {
	return bytes.Compare(found, number(oldest)) >= 0 && bytes.Compare(found, number(format)) <= 0 &&
		len(found) == len(number(format))
}

func checkReports(bucket *bolt.Bucket) error {
	return bucket.ForEach(func(key, packed []byte) error {
		if len(key) != reportKeyLength {
			return fmt.Errorf("report under a key of %d bytes", len(key))
		}
		_, err := unpack(packed)
		return err
	})
}

// checkPages finds pages that are used twice or not at all, on which later writes would go wrong. It reads no page in
// its own goroutine that was not read before.
func checkPages(tx *bolt.Tx) (first error) {
	for err := range tx.Check() {
		if first == nil {
			first = fmt.Errorf("check pages: %w", err)
		}
	}
	return first
}

// The start of each of bbolt's two meta pages: sixteen bytes of page header, then its mark.
const (
	markOffset = 16
	mark       = 0xED0CDAED
	metaFlag   = 4 // in that header, after the page's number
)

// resemblesLedger says whether the file at path was once written by bbolt: one of its meta pages has the mark. A file
// that starts with nothing but zeros counts too; that is how some file systems leave a file that was being written at a
// power loss. Anything else is somebody's file under the wrong name.
func resemblesLedger(path string) bool {
	head, err := readHead(path, 2*os.Getpagesize())
	if err != nil {
		return false
	}
	return marked(head) || len(bytes.Trim(head, "\x00")) == 0 || bytes.HasPrefix(firstHeader, head) ||
		len(head) > os.Getpagesize() && marked(head[os.Getpagesize():])
}

// firstHeader is how every file of bbolt begins: page 0, a meta page. One that was cut before the mark has no more than
// that.
var firstHeader = binary.NativeEndian.AppendUint32(append(binary.NativeEndian.AppendUint16(make([]byte, 8), metaFlag),
	make([]byte, 6)...), mark)

func readHead(path string, length int) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, int64(length)))
}

func marked(page []byte) bool {
	return len(page) >= markOffset+4 && binary.NativeEndian.Uint32(page[markOffset:]) == mark
}

// SetAside renames a damaged ledger so that Open can make a new one, and returns its new name. Nothing is deleted: what
// the file holds may still be worth a look.
func SetAside(path string, now time.Time) (string, error) {
	aside := path + ".corrupt-" + now.UTC().Format("20060102T150405Z")
	if err := os.Rename(path, aside); err != nil {
		return "", fmt.Errorf("set ledger aside: %w", err)
	}
	return aside, nil
}
