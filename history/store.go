package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/ledger/pages"
	"github.com/synergy-slurmd/synergy-slurmd/policy/replay"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// Options of a Store. The zero value selects the defaults.
type Options struct {
	Keep      time.Duration // how long days are kept; 0: DefaultKeep
	MostBytes int64         // bound of all files together; 0: DefaultMostBytes
	LeastFree int64         // bytes that stay free on the disk; 0: DefaultLeastFree
	Version   string        // of the program that made the rounds
}

// Defaults for the zero values of Options.
const (
	DefaultKeep      = 400 * 24 * time.Hour
	DefaultMostBytes = 20 << 30
	DefaultLeastFree = 1 << 30
)

func (o Options) orDefaults() Options {
	if o.Keep == 0 {
		o.Keep = DefaultKeep
	}
	if o.MostBytes == 0 {
		o.MostBytes = DefaultMostBytes
	}
	if o.LeastFree == 0 {
		o.LeastFree = DefaultLeastFree
	}
	return o
}

// Store is a history open for writing. Its methods may be called from several goroutines.
type Store struct {
	archive
	options Options

	mu      sync.Mutex // held while a report is stored; guards the fields below
	teller  *story.Teller
	packer  packer
	frameAt uint64       // place of the last frame in the present day's file
	notes   int          // reports since the present day's file was opened
	begun   bool         // the present day's file holds a report
	full    error        // why nothing is written at present
	writing sync.RWMutex // guards day and db against readers, which do not hold mu
	day     string       // whose file is open
	db      *bolt.DB     // nil: no file is open
}

// Open opens the history in a folder, which it creates if necessary. The first report opens a file.
func Open(dir string, options Options) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	return &Store{archive: archive{dir}, options: options.orDefaults()}, nil
}

// Close closes the day's file.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.shut()
}

// shut closes the open file. The caller holds writing, so no reader uses it. It discards the packer, since a frame must
// not be compressed against one in another file.
func (s *Store) shut() error {
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	s.db, s.day, s.packer = nil, "", packer{}
	return err
}

// Note stores a report. A report that cannot be written counts as not seen: the next one that is written contains
// everything new since the last one written.
func (s *Store) Note(report *bridge.Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.note(report); err != nil {
		s.writing.Lock()
		s.shut() // a fault of the file shows when it is opened again
		s.writing.Unlock()
		return fmt.Errorf("book round %d in the history: %w", report.Round, err)
	}
	return nil
}

// note stores a report, unless it is a small one without new passages.
func (s *Store) note(report *bridge.Report) error {
	if err := s.room(); err != nil {
		return err
	}
	if err := s.turnTo(dayOf(report.Began), report.Began); err != nil {
		return err
	}
	next := s.teller.Clone()
	told := next.Tell(report)
	if report.Small && len(told) == 0 {
		s.teller = next
		return nil
	}
	if err := s.write(report, told); err != nil {
		return err
	}
	s.teller = next
	return nil
}

// room checks that enough space is left on the disk.
func (s *Store) room() error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(s.dir, &disk); err != nil {
		return err
	}
	if free := int64(disk.Bavail) * int64(disk.Bsize); free < s.options.LeastFree {
		return fmt.Errorf("%w: %d MiB are free on the disk of %s, and %d are left to others", ErrRoom, free>>20, s.dir,
			s.options.LeastFree>>20)
	}
	return nil
}

// turnTo opens the file of a day unless it is open, and prunes at the first report after that and from time to time. If
// the day is too large, or pruning fails, nothing more is written until a later pruning succeeds.
func (s *Store) turnTo(day string, now time.Time) error {
	if s.db == nil || s.day != day {
		if err := s.begin(day, now); err != nil {
			return err
		}
	}
	if s.notes++; s.notes%pruneEvery == 1 {
		s.full = s.prune(now)
	}
	return s.full
}

// begin opens a day's file in place of the open one. A damaged file is renamed, and the day starts anew. The first file
// after a start also tells the teller what was stored last, so that nothing is told twice.
func (s *Store) begin(day string, now time.Time) error {
	s.writing.Lock() // readers wait, since this process holds the file's lock
	defer s.writing.Unlock()
	if err := s.shut(); err != nil {
		return err
	}
	path := s.path(day)
	db, err := openDay(path)
	if errors.Is(err, errDamaged) {
		if err := os.Rename(path, path+".corrupt-"+now.UTC().Format("20060102T150405.000Z")); err != nil {
			return fmt.Errorf("set a damaged day aside: %w", err)
		}
		db, err = openDay(path)
	}
	if err != nil {
		return err
	}
	if s.teller == nil {
		s.teller = s.recall(db, day)
	}
	err = viewFile(db, day, func(tx *bolt.Tx) error {
		s.begun = tx.Bucket(passageBucket).Sequence() > 0
		return nil
	})
	if err != nil {
		db.Close()
		return err
	}
	s.db, s.day, s.notes = db, day, 0
	return nil
}

var errDamaged = errors.New("the file is damaged")

// openDay opens a day's file for writing, creates it if necessary, and checks its pages.
func openDay(path string) (*bolt.DB, error) {
	db, err := pages.Open(path, time.Second, false)
	var errno syscall.Errno
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	case errors.As(err, &errno):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %w", path, errDamaged, err)
	}
	db.AllocSize = growth
	err = pages.Guard(func() error {
		if err := db.Update(prepare); err != nil {
			return err
		}
		return db.View(checkPages)
	})
	if err == nil {
		return db, nil
	}
	db.Close()
	if errors.As(err, &errno) {
		return nil, err
	}
	return nil, fmt.Errorf("%s: %w: %w", path, errDamaged, err)
}

// growth is by how many bytes a day's file grows at a time.
const growth = 1 << 20

// prepare creates the buckets of a new day, or checks those of an existing file.
func prepare(tx *bolt.Tx) error {
	if tx.Bucket(metaBucket) != nil {
		return recognise(tx)
	}
	for _, name := range buckets() {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return tx.Bucket(metaBucket).Put(formatKey, []byte(format))
}

// checkPages finds pages that are used twice or not at all, which later writes would corrupt.
func checkPages(tx *bolt.Tx) error {
	ends := byte(0)
	// All values are read in this goroutine first, where Guard can catch a fault: tx.Check reads in one of its own.
	err := tx.ForEach(func(_ []byte, bucket *bolt.Bucket) error {
		return bucket.ForEach(func(_, value []byte) error {
			for at := 0; at < len(value); at += os.Getpagesize() {
				ends ^= value[at]
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	var first error
	for err := range tx.Check() {
		if first == nil {
			first = err
		}
	}
	_ = ends
	return first
}

// recall returns a teller that knows the last stored round, of this day or of the day before, so that a restart repeats
// no passages.
func (s *Store) recall(db *bolt.DB, day string) *story.Teller {
	teller := &story.Teller{}
	if recallFrom(db, day, teller) == nil {
		return teller
	}
	days, _ := s.days() // without older days everything counts as new
	for _, before := range slices.Backward(days) {
		if before >= day { // this day, and files from a clock that was ahead
			continue
		}
		if old, err := s.open(before); err == nil {
			defer old.Close()
			recallFrom(old, before, teller)
		}
		break
	}
	return teller
}

// recallFrom feeds the last stored round of a day to a teller.
func recallFrom(db *bolt.DB, day string, teller *story.Teller) error {
	text, err := lastFrame(db, day)
	if err != nil {
		return err
	}
	round, err := replay.Read(text)
	if err != nil {
		return err
	}
	teller.Tell(&bridge.Report{Round: round.Round, Began: round.Began, Snapshot: round.Snapshot, Plan: round.Plan,
		Shadow: round.Shadow})
	found := collectorOf(Question{})
	err = viewFile(db, day, found.collect)
	teller.Remind(found.runs)
	return err
}

// lastFrame is the text of the last frame of a day.
func lastFrame(db *bolt.DB, day string) (text []byte, err error) {
	err = viewFile(db, day, func(tx *bolt.Tx) (err error) {
		place, _ := tx.Bucket(frameBucket).Cursor().Last()
		text, err = frameAt(tx, place)
		return err
	})
	return text, err
}

// write stores a report and its passages, all or nothing.
func (s *Store) write(report *bridge.Report, told []story.Passage) error {
	text, err := s.frameOf(report)
	if err != nil {
		return err
	}
	e, err := entryOf(told, s.carriedRuns())
	if err != nil {
		return err
	}
	err = pages.Guard(func() error {
		return s.db.Update(func(tx *bolt.Tx) error {
			place, err := tx.Bucket(passageBucket).NextSequence()
			if err != nil {
				return err
			}
			if err := e.put(tx, number(place)); err != nil || text == nil {
				return err
			}
			if err := s.putFrame(tx, place, text); err != nil {
				return err
			}
			return tx.Bucket(numberBucket).Put(number(uint64(report.Round)), number(place))
		})
	})
	if err != nil {
		s.packer = packer{} // the next frame must not depend on one that was not written
	}
	s.begun = s.begun || err == nil
	return err
}

// frameOf is the text from which a round can be planned again; nil for small rounds, of which there are hundreds. A
// report without profiles gets those of its snapshot, since without them it could not be planned again.
func (s *Store) frameOf(report *bridge.Report) ([]byte, error) {
	if report.Small {
		return nil, nil
	}
	round := replay.Round{Round: report.Round, Began: report.Began, Version: s.options.Version,
		External: report.External, Shadow: report.Shadow, Snapshot: report.Snapshot, Profiles: report.Profiles,
		Policy: report.Policy, Allocator: report.Allocator, Plan: report.Plan}
	if round.Profiles == nil {
		round.Profiles = snapshot.ProfilesOf(&report.Snapshot)
	}
	return round.Print()
}

// carriedRuns returns the running runs if the day's file is empty. They are stored again, so that each day's file lists
// all runs of that day.
func (s *Store) carriedRuns() []story.Run {
	if s.begun {
		return nil
	}
	return s.teller.Running()
}

// entry is what is stored of one report.
type entry struct {
	told, runs []byte // compressed; runs is nil if none began or ended
	jobs       []int
	users      map[string]bool
}

// entryOf encodes passages and runs. Runs are stored apart from their passages, so that a search for runs reads nothing
// else.
func entryOf(told []story.Passage, runs []story.Run) (e entry, err error) {
	e.users = map[string]bool{}
	for _, r := range runs {
		e.users[r.User] = true
		e.jobs = append(e.jobs, r.Job)
	}
	bare := make([]story.Passage, len(told))
	for i, p := range told {
		e.jobs = append(e.jobs, p.Job)
		runs = append(runs, p.Runs...)
		for _, r := range p.Runs {
			e.users[r.User] = true
		}
		bare[i] = p
		bare[i].Runs = nil
	}
	if e.told, err = compressJSON(bare); err != nil || runs == nil {
		return e, err
	}
	e.runs, err = compressJSON(runs)
	return e, err
}

func compressJSON[T []story.Passage | []story.Run](list T) ([]byte, error) {
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("write what was told: %w", err)
	}
	return compress(text)
}

// put writes the entry under its place and indexes it by job and by user.
func (e *entry) put(tx *bolt.Tx, place []byte) error {
	for _, name := range [][]byte{passageBucket, runBucket, frameBucket} {
		tx.Bucket(name).FillPercent = 1 // places ascend, so pages can be filled completely
	}
	if err := tx.Bucket(passageBucket).Put(place, e.told); err != nil {
		return err
	}
	if e.runs != nil {
		if err := tx.Bucket(runBucket).Put(place, e.runs); err != nil {
			return err
		}
	}
	for _, job := range e.jobs {
		if err := tx.Bucket(jobBucket).Put(jobKey(job, place), nil); err != nil {
			return err
		}
	}
	for user := range e.users {
		if user == "" { // bbolt refuses an empty key
			continue
		}
		if err := tx.Bucket(userBucket).Put(userKey(user), nil); err != nil {
			return err
		}
	}
	return nil
}

// putFrame writes a packed frame. It begins with the place of the frame that it is compressed against, or with its own
// place if it is compressed by itself. frameAt is wrong if the transaction fails after that; write then discards the
// packer, so that the next frame is compressed by itself.
func (s *Store) putFrame(tx *bolt.Tx, place uint64, text []byte) error {
	packed, alone, err := s.packer.pack(text)
	if err != nil {
		return err
	}
	against := s.frameAt
	if alone {
		against = place
	}
	s.frameAt = place
	return tx.Bucket(frameBucket).Put(number(place), append(number(against), packed...))
}

// pruneEvery is the number of reports between two prunings. prunedAtOnce bounds the days removed by one, since removing
// a large file takes a while on some disks.
const (
	pruneEvery   = 50
	prunedAtOnce = 4
)

// present is the time from which the age of days is measured: the end of the day after the last stored day before the
// open one, or now if that is earlier. So a single day without rounds makes no difference.
func (s *Store) present(days []string, now time.Time) time.Time {
	for _, day := range slices.Backward(days) {
		if at, err := time.Parse(time.DateOnly, day); err == nil && day < s.day {
			if next := at.AddDate(0, 0, 2); next.Before(now) { // the end of the day after at
				return next
			}
			break
		}
	}
	return now
}

// prune removes days that are too old, and the oldest ones if all together are too large, but never the open day. A
// clock that jumps ahead removes nothing: see present.
func (s *Store) prune(now time.Time) error {
	days, err := s.days()
	if err != nil {
		return err
	}
	sum, today := int64(0), int64(0)
	sizes := make([]int64, len(days))
	for i, day := range days {
		if info, err := os.Stat(s.path(day)); err == nil {
			sizes[i] = info.Size()
			sum += sizes[i]
		}
		if day == s.day {
			today = sizes[i]
		}
	}
	oldest := dayOf(s.present(days, now).Add(-s.options.Keep))
	for i, day := range days {
		if i == prunedAtOnce || day == s.day || day >= oldest && sum <= s.options.MostBytes {
			break
		}
		if err := os.Remove(s.path(day)); err != nil {
			return err
		}
		sum -= sizes[i]
	}
	if today > s.options.MostBytes {
		return fmt.Errorf("%w: the day alone has %d MiB, and all may have %d", ErrRoom, today>>20,
			s.options.MostBytes>>20)
	}
	return nil
}
