// Package history keeps rounds for a year: what was decided about each job, what it was given, how fast it ran, an
// index by job and by user, and everything needed to plan a round again. It is a folder with one bbolt file for each
// day (UTC), so that removing an old day frees its disk space and a damaged day affects no other. One process writes,
// and only to the present day's file; older files may be read by anyone with access to the folder.
//
// The history is optional: no round waits for it, no decision depends on it, and what cannot be written is left out. A
// round is kept as text with its profiles, compressed against the round before. Of small rounds only the passages are
// kept. There is no further state: a daemon that starts continues from the last kept round.
package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/synergy-slurmd/synergy-slurmd/ledger/pages"
)

// Errors that callers branch on.
var (
	ErrLocked  = errors.New("another process writes this day")
	ErrRoom    = errors.New("too little room is left")
	ErrNoRound = errors.New("no such round is kept")
)

// format is the version of a file's content. A file with another version is not read.
const format = "1"

// The buckets of a day's file. A place is the sequence number of a report in it. Files of older versions have another
// bucket, "points", which nothing reads.
var (
	metaBucket    = []byte("meta")    // "format" → format
	passageBucket = []byte("told")    // place → the passages of one report, compressed
	runBucket     = []byte("runs")    // place → the runs that began or ended in it, compressed
	jobBucket     = []byte("jobs")    // jobKey (job, place) → nothing
	userBucket    = []byte("users")   // user → nothing
	frameBucket   = []byte("frames")  // place → a frame, from which a round can be planned again: see putFrame
	numberBucket  = []byte("numbers") // round → the place of the last round with that number
	formatKey     = []byte("format")
)

// buckets lists the buckets that every day's file must have.
func buckets() [][]byte {
	return [][]byte{metaBucket, passageBucket, runBucket, jobBucket, userBucket, frameBucket, numberBucket}
}

const extension = ".history"

// dayOf is the name of the day (UTC) of a moment.
func dayOf(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// archive is the folder, for reading.
type archive struct{ dir string }

func (a archive) path(day string) string { return filepath.Join(a.dir, day+extension) }

// days lists the days that are kept, ascending.
func (a archive) days() ([]string, error) {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return nil, err
	}
	var days []string
	for _, entry := range entries {
		day, is := strings.CutSuffix(entry.Name(), extension)
		if _, err := time.Parse(time.DateOnly, day); is && err == nil && entry.Type().IsRegular() {
			days = append(days, day)
		}
	}
	return days, nil // ReadDir sorts them
}

// open opens a day's file for reading.
func (a archive) open(day string) (*bolt.DB, error) {
	db, err := pages.Open(a.path(day), readWait, true)
	if errors.Is(err, berrors.ErrTimeout) {
		err = ErrLocked
	}
	if err != nil {
		return nil, fmt.Errorf("open day %s: %w", day, err)
	}
	return db, nil
}

// readWait is how long a reader waits for a file that another process has open.
const readWait = 50 * time.Millisecond

// viewFile runs read in a transaction on an open day; damage becomes an error.
func viewFile(db *bolt.DB, day string, read func(tx *bolt.Tx) error) error {
	err := pages.Guard(func() error {
		return db.View(func(tx *bolt.Tx) error {
			if err := recognise(tx); err != nil {
				return err
			}
			return read(tx)
		})
	})
	if err != nil {
		return fmt.Errorf("read day %s: %w", day, err)
	}
	return nil
}

// recognise refuses a database that is no day's file, and a file of another format.
func recognise(tx *bolt.Tx) error {
	for _, name := range buckets() {
		if tx.Bucket(name) == nil {
			return fmt.Errorf("it has no bucket %s", name)
		}
	}
	if found := tx.Bucket(metaBucket).Get(formatKey); string(found) != format {
		return fmt.Errorf("it has format %.20q, want %s: read it with the version that wrote it", found, format)
	}
	return nil
}

// number encodes n as a key, so that keys sort as the numbers do.
func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// jobKey is the key for a job's passages at a place. There are many such keys, so both parts have only four bytes.
func jobKey(job int, place []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(job)), place[placeBytes-jobBytes:]...)
}

// placeOf extracts the place from a jobKey.
func placeOf(key []byte) []byte {
	return append(make([]byte, placeBytes-jobBytes), key[jobBytes:]...)
}

// The bytes of a place, and of a job in a jobKey.
const (
	placeBytes = 8
	jobBytes   = 4
)

// mostUser is how many bytes of a user's name are used as key.
const mostUser = 256

func userKey(user string) []byte { return []byte(user[:min(len(user), mostUser)]) }
