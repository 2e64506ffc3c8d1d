// Package pages opens files of bbolt as what they may be after a crash or on a bad disk: bbolt trusts its pages and
// panics, or faults, on one that is wrong. Here that is an error. What a file means, and what is done about one that
// is damaged, is the business of who opens it.
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

// Open locks and maps the file, which only its owner can read where it is made, and walks its tree once. bbolt panics
// on some damage, and then leaves the file open and locked.
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
	if !named(file, path) {
		db.Close()
		return nil, berrors.ErrTimeout
	}
	if err := walk(file, db.Info().PageSize); err != nil {
		db.Close()
		return nil, fmt.Errorf("read pages: %w", err)
	}
	return db, nil
}

// named says that the file still has its name. It has not when another was restored in its place while this process
// waited for it.
func named(file *os.File, path string) bool {
	mine, err := file.Stat()
	now, gone := os.Stat(path)
	return err == nil && gone == nil && os.SameFile(mine, now)
}

// Release gives up a file that bbolt may have closed itself. Its memory map would keep the lock beyond Close.
func Release(file *os.File) {
	syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
	file.Close()
}

// Guard runs use and turns what a damaged file does to it into an error. bbolt trusts its pages: a wrong one makes it
// panic, and a page that a truncated file no longer has is a memory fault, because the file is mapped.
func Guard(use func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("read pages: %v", cause)
		}
	}()
	return use()
}
