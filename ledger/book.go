// Package ledger stores what a round must remember and Slurm does not: the attained service of each job, what the round
// is about to do, and the last reports. Book stores it in a file that survives a crash at any point and belongs to one
// process at a time; Memory stores it for the life of the process. The package makes no decisions and repairs nothing:
// a file that it cannot trust is refused with an error that says what to do. Everything in it can be recovered from
// Slurm, except the attained service.
//
// A backup needs no cooperation of the process that holds the file. bbolt writes each new state beside the one in
// force, and one of the first two pages says which that is. So a copy is valid if these two pages are the same before
// and after it.
package ledger

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/ledger/pages"
)

// Reasons why a file cannot be used. After ErrCorrupt the daemon starts with an empty ledger; after the others it
// refuses to start.
var (
	ErrLocked = errors.New("another process has the ledger open") // usually a second daemon
	// ErrCorrupt: the content is lost; SetAside makes room for a new file.
	ErrCorrupt = errors.New("the ledger is damaged")
	ErrAlien   = errors.New("not a ledger")                  // another program's file, which must not be moved
	ErrNewer   = errors.New("the ledger has another format") // written by another version of the daemon
	// ErrUnkept: the disk is full or broken; the previous content is intact.
	ErrUnkept = errors.New("the ledger cannot be written")
)

// format is the version of what the buckets hold. Records are decoded strictly, so each change of their fields needs a
// new format; otherwise an older daemon would take new fields for damage instead of refusing the file. Formats from
// oldest on can be read, since they only lack fields, and the file gets the present format when it is opened.
const (
	// Format 3, of v0.2.0, had no restart costs; 2 no debts in the intent and no losses; 1, of v0.1.0, no returns and
	// no audit.
	format = 4
	oldest = 1
)

// Defaults for the zero values of Options.
const (
	DefaultWait = 3 * time.Second
	DefaultKeep = 50
)

// Options of a Book. The zero value selects the defaults.
type Options struct {
	// Wait is how long to wait for another process to close the file: a restarted daemon may overlap with the end of
	// the previous one.
	Wait time.Duration
	// Keep is the number of stored reports.
	Keep int
}

// Book is a bridge.Ledger in a file. Reports may be read while a round writes.
type Book struct {
	db   *bolt.DB
	keep int
	last int // the last settled round, full or small; after Open that of the newest report, and 0 after Read
}

// The buckets of the file.
var (
	metaBucket    = []byte("meta")    // "format" → format
	recordsBucket = []byte("records") // job → record
	intentBucket  = []byte("intent")  // "intent" → the intent of a round that has not settled
	reportsBucket = []byte("reports") // (order of arrival, round) → the report, compressed
	formatKey     = []byte("format")
	intentKey     = []byte("intent")
)

// Open opens the ledger at path, or creates one that only its owner can read. It checks the whole file, so that no
// round meets damage half way.
func Open(path string, options Options) (*Book, error) {
	if options.Wait == 0 {
		options.Wait = DefaultWait
	}
	if options.Keep == 0 {
		options.Keep = DefaultKeep
	}
	db, err := pages.Open(path, options.Wait, false)
	if err != nil {
		return nil, explain(path, err)
	}
	book := &Book{db: db, keep: options.Keep}
	if err := pages.Guard(book.prepare); err != nil {
		db.Close()
		return nil, explain(path, err)
	}
	book.last = book.newest()
	return book, nil
}

// Read opens a ledger that no daemon has open, to read it, and changes nothing. ErrLocked: a daemon has it open.
func Read(path string) (*Book, error) {
	db, err := pages.Open(path, readWait, true)
	if err != nil {
		return nil, explain(path, err)
	}
	if err := pages.Guard(func() error { return db.View(check) }); err != nil {
		db.Close()
		return nil, explain(path, err)
	}
	return &Book{db: db}, nil
}

// readWait is how long a reader waits for the file, for example for a daemon that is shutting down.
const readWait = time.Second

// explain turns an error of opening a file into one of this package's errors, with a remedy. An error of the operating
// system says nothing about the content, so it is never taken for damage.
func explain(path string, err error) error {
	var errno syscall.Errno
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		err = fmt.Errorf("%w: stop it, or give this one a file of its own", ErrLocked)
	case errors.Is(err, ErrAlien), errors.Is(err, ErrNewer), errors.As(err, &errno): // clear as it is
	case !resemblesLedger(path):
		err = fmt.Errorf("%w: name another path, the daemon will make the file", ErrAlien)
	default:
		err = fmt.Errorf("%w, move it away and start again: %w", ErrCorrupt, err)
	}
	return fmt.Errorf("open ledger %s: %w", path, err)
}

// prepare creates the buckets of a new file, and checks everything in an existing one.
func (b *Book) prepare() error {
	fresh, err := b.empty()
	if err != nil {
		return err
	}
	if fresh {
		return b.db.Update(create)
	}
	if err := b.db.View(check); err != nil {
		return err
	}
	return b.upgradeFormat()
}

// upgradeFormat gives a file of an older format the present one. Only the number changes: the records are valid as they
// are, and get their new fields when they are next written.
func (b *Book) upgradeFormat() error {
	current := false
	err := b.db.View(func(tx *bolt.Tx) error {
		current = bytes.Equal(tx.Bucket(metaBucket).Get(formatKey), number(format))
		return nil
	})
	if err != nil || current {
		return err
	}
	return b.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(metaBucket).Put(formatKey, number(format)) })
}

// empty says whether nothing was ever written: the file is new, or its creator died before it made the buckets.
func (b *Book) empty() (bool, error) {
	fresh := true
	err := b.db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func([]byte, *bolt.Bucket) error {
			fresh = false
			return nil
		})
	})
	return fresh, err
}

// create makes the buckets of a new file.
func create(tx *bolt.Tx) error {
	for _, name := range [][]byte{recordsBucket, intentBucket, reportsBucket} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	meta, err := tx.CreateBucket(metaBucket)
	if err != nil {
		return err
	}
	return meta.Put(formatKey, number(format))
}

// Close closes the file.
func (b *Book) Close() error { return b.db.Close() }

// Size returns the length of the file in bytes.
func (b *Book) Size() (int64, error) {
	info, err := os.Stat(b.db.Path())
	if err != nil {
		return 0, fmt.Errorf("measure ledger: %w", err)
	}
	return info.Size(), nil
}

// Load returns all records, and the intent of the last round if that did not settle.
func (b *Book) Load() (bridge.Records, *bridge.Intent, error) {
	var records bridge.Records
	var intent *bridge.Intent
	err := b.db.View(func(tx *bolt.Tx) (err error) {
		if records, err = loadRecords(tx.Bucket(recordsBucket)); err != nil {
			return err
		}
		intent, err = loadIntent(tx.Bucket(intentBucket))
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("load ledger: %w", err)
	}
	return records, intent, nil
}

// loadRecords reads the records in the order of their keys, which is that of the job IDs.
func loadRecords(bucket *bolt.Bucket) (bridge.Records, error) {
	var records bridge.Records
	err := bucket.ForEach(func(key, raw []byte) error {
		record, err := decodeRecord(key, raw)
		if err != nil {
			return err
		}
		records = append(records, &record)
		return nil
	})
	return records, err
}

// loadIntent reads the intent of a round that did not settle; nil: the last round settled.
func loadIntent(bucket *bolt.Bucket) (*bridge.Intent, error) {
	raw := bucket.Get(intentKey)
	if raw == nil {
		return nil, nil
	}
	intent, err := decode[bridge.Intent](raw)
	if err != nil {
		return nil, fmt.Errorf("decode intent: %w", err)
	}
	return &intent, nil
}

// Intend stores what a round is about to do.
func (b *Book) Intend(intent bridge.Intent) error {
	raw, err := json.Marshal(intent)
	if err != nil {
		return fmt.Errorf("write down round %d: %w", intent.Round, err)
	}
	err = b.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(intentBucket).Put(intentKey, raw) })
	if err != nil {
		return fmt.Errorf("write down round %d: %w: %w", intent.Round, ErrUnkept, err)
	}
	return nil
}

// Settle replaces all records, stores the report, and removes the intent, all or nothing. Jobs without a record are
// forgotten. Reports of small rounds are not stored, because hundreds of them may lie between two rounds.
func (b *Book) Settle(records bridge.Records, report bridge.Report) error {
	if err := inOrder(records); err != nil {
		return fmt.Errorf("settle round %d: %w", report.Round, err)
	}
	packed, err := pack(report)
	if err != nil {
		return fmt.Errorf("settle round %d: %w", report.Round, err)
	}
	err = b.db.Update(func(tx *bolt.Tx) error {
		if err := replaceRecords(tx, records); err != nil {
			return err
		}
		if err := tx.Bucket(intentBucket).Delete(intentKey); err != nil {
			return err
		}
		if report.Small {
			return nil
		}
		return b.storeReport(tx.Bucket(reportsBucket), report.Round, packed)
	})
	if err != nil {
		return fmt.Errorf("settle round %d: %w: %w", report.Round, ErrUnkept, err)
	}
	b.last = report.Round
	return nil
}

// LastRound returns the number of the last settled round; 0 if there is none.
func (b *Book) LastRound() int { return b.last }

// replaceRecords empties the bucket and writes all records.
func replaceRecords(tx *bolt.Tx, records bridge.Records) error {
	if err := tx.DeleteBucket(recordsBucket); err != nil {
		return err
	}
	bucket, err := tx.CreateBucket(recordsBucket)
	if err != nil {
		return err
	}
	for _, record := range records {
		raw, err := encodeRecord(record)
		if err != nil {
			return err
		}
		if err := bucket.Put(number(record.Job), raw); err != nil {
			return err
		}
	}
	return nil
}

// inOrder requires at most one record for each job, in ascending order. Written in key order, records fill one page
// after the other.
func inOrder(records bridge.Records) error {
	last := 0
	for _, record := range records {
		if record.Job <= last {
			return fmt.Errorf("record of job %d after that of job %d: want numbers from 1, ascending", record.Job, last)
		}
		last = record.Job
	}
	return nil
}

// number encodes n as a key, so that keys sort as the numbers do.
func number(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
