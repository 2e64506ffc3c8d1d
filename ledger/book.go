// Package ledger keeps what a round must remember beyond what Slurm keeps: the attained service of each job, what the
// round is about to do, and the last reports. Book keeps it in one file that survives a crash at any point and belongs
// to one process at a time; Memory keeps it for as long as the process lives. The package decides nothing and repairs
// nothing: a file that it cannot trust is refused with an error that says what to do, because everything in it can be
// had again from Slurm, at the price of forgotten service.
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

// Why a file cannot be used. The daemon starts with an empty ledger after ErrCorrupt, and refuses to start after the
// others.
var (
	ErrLocked = errors.New("another process has the ledger open") // most likely a second daemon
	// what it held is lost; SetAside makes room for a new one
	ErrCorrupt = errors.New("the ledger is damaged")
	ErrAlien   = errors.New("not a ledger")                  // somebody else's file: it must not be moved
	ErrNewer   = errors.New("the ledger has another format") // written by another version of the daemon
	// its disk is full or broken; what it held before stands
	ErrUnkept = errors.New("the ledger cannot be written")
)

// format is the version of what the buckets hold. Records are decoded strictly, so any change of their fields needs a
// new one. Those of oldest and later can be read, since they only lack fields, and become this one when they are
// opened: a daemon that would take the new fields for damage must refuse the file instead.
const (
	// 3, of v0.2.0, had no costs of restarts; 2 no debts with the intent and no losses; 1, of v0.1.0, no returns and
	// no audit
	format = 4
	oldest = 1
)

// Defaults for the zero values of Options.
const (
	DefaultWait = 3 * time.Second
	DefaultKeep = 50
)

// Options of a Book. The zero value is good.
type Options struct {
	// Wait is how long to wait for another process to let go of the file: a restart overlaps with the end of its
	// predecessor.
	Wait time.Duration
	// Keep is the number of reports that are kept.
	Keep int
}

// Book is a bridge.Ledger in a file. Reports may be read while a round writes.
type Book struct {
	db   *bolt.DB
	keep int
	last int // the last round that settled
}

// The buckets of the file.
var (
	metaBucket    = []byte("meta")    // "format" → format
	recordsBucket = []byte("records") // job → Record
	intentBucket  = []byte("intent")  // "intent" → Intent, or nothing
	reportsBucket = []byte("reports") // order of arrival, round → Report, compressed
	formatKey     = []byte("format")
	intentKey     = []byte("intent")
)

// Open opens the ledger at path, or makes one that only its owner can read. It checks the whole file, so that a round
// never meets damage half way.
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

// Read opens a ledger that no daemon has open, to read its reports; nothing is changed. ErrLocked: one has.
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

// readWait is how long a reader waits for the file, as for a daemon that ends.
const readWait = time.Second

// explain turns what went wrong at the opening into one of this package's errors, with the remedy.
func explain(path string, err error) error {
	var errno syscall.Errno
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		err = fmt.Errorf("%w: stop it, or give this one a file of its own", ErrLocked)
	case errors.Is(err, ErrAlien), errors.Is(err, ErrNewer), errors.As(err, &errno):
	case !resemblesLedger(path):
		err = fmt.Errorf("%w: name another path, the daemon will make the file", ErrAlien)
	default:
		err = fmt.Errorf("%w, move it away and start again: %w", ErrCorrupt, err)
	}
	return fmt.Errorf("open ledger %s: %w", path, err)
}

// prepare gives a new file its buckets, and checks everything in an old one.
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
	return b.renew()
}

// renew says that an older file has this format from now on.
func (b *Book) renew() error {
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

// empty says whether nothing was ever written: the file is new, or its maker died before it came to the buckets.
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

// Close lets go of the file.
func (b *Book) Close() error { return b.db.Close() }

// Size is the length of the file in bytes.
func (b *Book) Size() (int64, error) {
	info, err := os.Stat(b.db.Path())
	if err != nil {
		return 0, fmt.Errorf("measure ledger: %w", err)
	}
	return info.Size(), nil
}

// Load returns all records, and the intent that the last round did not clear, if any.
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

// loadRecords reads the records in the order of their keys, which is that of the jobs.
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

// Intend stores what the round is about to do.
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

// Settle replaces all records, stores the report among the last ones, and clears the intent, all or nothing. Jobs that
// are not among the records are forgotten. Reports of small rounds are not kept: hundreds of them may lie between two
// rounds.
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
		return b.file(tx.Bucket(reportsBucket), report.Round, packed)
	})
	if err != nil {
		return fmt.Errorf("settle round %d: %w: %w", report.Round, ErrUnkept, err)
	}
	b.last = report.Round
	return nil
}

// LastRound is the number of the last round that settled; 0 when there was none.
func (b *Book) LastRound() int { return b.last }

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

// inOrder refuses records that are not one for each job, ascending. The file keeps them in this order; written so,
// pages fill one after the other.
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

// number is n as a key: keys ascend as numbers do.
func number(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
