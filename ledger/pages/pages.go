// Package pages opens bbolt files that a crash or a bad disk may have damaged. bbolt trusts its pages and panics or
// faults on a bad one; this package turns that into an error. The caller knows what a file contains and what to do
// about damage.
package pages

import (
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Open locks and maps the file, and walks its tree once. A new file is readable for its owner only. On some damage
// bbolt panics and leaves the file open and locked, so Open then releases it.
func Open(path string, wait time.Duration, readOnly bool) (*bolt.DB, error) {
	var file *os.File
	var db *bolt.DB
	err := Guard(func() (err error) {
		db, err = bolt.Open(path, 0o600, &bolt.Options{
			Timeout: wait, ReadOnly: readOnly,
			OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
				file, err = os.OpenFile(name, flag, mode)
				return file, err
			},
		})
		return err
	})
	if err != nil && file != nil {
		Release(file)
	}
	if err != nil {
		return nil, err
	}
	if !isSameFile(file, path) {
		db.Close()
		return nil, berrors.ErrTimeout
	}
	if err := walk(file, db.Info().PageSize); err != nil {
		db.Close()
		return nil, fmt.Errorf("read pages: %w", err)
	}
	return db, nil
}

// isSameFile says whether path still names the open file. It does not if a restore replaced the file while this process
// waited for the lock. Open then reports a timeout, as if the file were still locked.
func isSameFile(file *os.File, path string) bool {
	mine, err := file.Stat()
	now, gone := os.Stat(path)
	return err == nil && gone == nil && os.SameFile(mine, now)
}

// Release unlocks and closes a file that bbolt may have left open. Its memory map would otherwise keep the lock beyond
// Close.
func Release(file *os.File) {
	syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
	file.Close()
}

// Guard runs use and turns what a damaged file causes into an error. A bad page makes bbolt panic, and a page beyond
// the end of a truncated file is a memory fault, because the file is mapped.
func Guard(use func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("read pages: %v", cause)
		}
	}()
	return use()
}
