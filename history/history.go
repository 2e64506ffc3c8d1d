// Package history remembers rounds for a year: what each job was told and given and how fast it ran, an index by job
// and by user, and what it takes to plan a round again. It is a folder with a file of bbolt for each day (UTC), so that
// a day that is too old gives its place back to the disk, and one that is damaged costs no more than itself. One
// process writes, to the file of the day; the files of days before may be read by anybody whom the folder lets in.
//
// It is a convenience: no round waits for it, nothing is decided by it, and what cannot be written is left out.
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

// What a caller branches on.
var (
	ErrLocked  = errors.New("another process writes this day")
	ErrRoom    = errors.New("too little room is left")
	ErrNoRound = errors.New("no such round is kept")
)

// format is the version of what a file holds. A day of another one is not read.
const format = "1"

// The buckets of a day.
var (
	metaBucket    = []byte("meta")    // "format" → format
	passageBucket = []byte("told")    // place → what one round told, compressed
	runBucket     = []byte("runs")    // place → the runs that began or ended in it, compressed
	jobBucket     = []byte("jobs")    // jobKey → nothing
	userBucket    = []byte("users")   // user → nothing
	frameBucket   = []byte("frames")  // place → a round to be planned again: its key's place, and the text packed
	numberBucket  = []byte("numbers") // round → place, of the last one of that number
	formatKey     = []byte("format")
	pointBucket   = []byte("points") // place → what is drawn of a round; a day of before there were any has none
)

func buckets() [][]byte {
	return [][]byte{metaBucket, passageBucket, runBucket, jobBucket, userBucket, frameBucket, numberBucket}
}

const extension = ".history"

// dayOf is the name of a moment's day.
func dayOf(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// archive is the folder as it is read.
type archive struct{ dir string }

func (a archive) path(day string) string { return filepath.Join(a.dir, day+extension) }

// days are those that are kept, ascending.
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
	return days, nil // as ReadDir sorts them
}

// open opens the file of a day, to read it.
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

// readWait is how long a reader waits for a file that somebody writes.
const readWait = 50 * time.Millisecond

// look reads a day that was opened.
func look(db *bolt.DB, day string, read func(tx *bolt.Tx) error) error {
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

// recognise refuses what is no day, or one of another format.
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

// number is n as a key: keys ascend as numbers do.
func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// jobKey is the key of what a place tells of a job: there are many, so that both have four bytes.
func jobKey(job int, place []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(job)), place[placeBytes-jobBytes:]...)
}

// placeOf is the place in such a key.
func placeOf(key []byte) []byte {
	return append(make([]byte, placeBytes-jobBytes), key[jobBytes:]...)
}

// The bytes of a place, and of a job in a key.
const (
	placeBytes = 8
	jobBytes   = 4
)

// mostUser is how much of a user's name is a key.
const mostUser = 256

func userKey(user string) []byte { return []byte(user[:min(len(user), mostUser)]) }
