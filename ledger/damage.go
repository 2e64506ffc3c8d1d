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

// check reads the whole content, in this goroutine, where pages.Guard can catch a fault.
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

// checkFormat requires the buckets of a ledger and a readable format.
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

// readable says whether this daemon can read a format. Numbers are stored big-endian, so their bytes compare as they
// do.
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

// checkPages finds pages that are used twice or not at all, which later writes would corrupt. tx.Check works in a
// goroutine of its own, where Guard catches no fault, so all pages must have been read before.
func checkPages(tx *bolt.Tx) (first error) {
	for err := range tx.Check() {
		if first == nil {
			first = fmt.Errorf("check pages: %w", err)
		}
	}
	return first
}

// The layout of the start of bbolt's two meta pages: sixteen bytes of page header, then a magic number.
const (
	markOffset = 16
	mark       = 0xED0CDAED
	metaFlag   = 4 // in the page header, behind the page's number
)

// resemblesLedger says whether bbolt may have written the file at path: one of its meta pages has the magic number. A
// file that starts with zeros only counts as well, since some file systems leave such a file after a power loss. Any
// other file belongs to another program.
func resemblesLedger(path string) bool {
	head, err := readHead(path, 2*os.Getpagesize())
	if err != nil {
		return false
	}
	return marked(head) || len(bytes.Trim(head, "\x00")) == 0 || bytes.HasPrefix(firstHeader, head) ||
		len(head) > os.Getpagesize() && marked(head[os.Getpagesize():])
}

// firstHeader is how every bbolt file begins: page 0, a meta page, up to the magic number. A truncated file may have
// only a part of it.
var firstHeader = binary.NativeEndian.AppendUint32(append(binary.NativeEndian.AppendUint16(make([]byte, 8), metaFlag),
	make([]byte, 6)...), mark)

// readHead reads the first length bytes of a file.
func readHead(path string, length int) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, int64(length)))
}

// marked says whether a page has the magic number of a meta page.
func marked(page []byte) bool {
	return len(page) >= markOffset+4 && binary.NativeEndian.Uint32(page[markOffset:]) == mark
}

// SetAside renames a damaged ledger so that Open can create a new one, and returns the new name. Nothing is deleted,
// since the content may still be useful.
func SetAside(path string, now time.Time) (string, error) {
	aside := path + ".corrupt-" + now.UTC().Format("20060102T150405Z")
	if err := os.Rename(path, aside); err != nil {
		return "", fmt.Errorf("set ledger aside: %w", err)
	}
	return aside, nil
}
