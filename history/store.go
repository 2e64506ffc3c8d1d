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

// Options of a Store. The zero value is good.
type Options struct {
	Keep      time.Duration // for how long days are kept; 0: DefaultKeep
	MostBytes int64         // that all days together may have; 0: DefaultMostBytes
	LeastFree int64         // bytes, which are left to others on the disk; 0: DefaultLeastFree
	Version   string        // of the program whose rounds are kept
	// Point is what is kept of a round to be drawn, in words that are the caller's own; nil: nothing is.
	Point func(*bridge.Report) ([]byte, error)
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

// Store is a history that is written to. Its methods may be called from several goroutines.
type Store struct {
	archive
	options Options

	mu      sync.Mutex // of what follows, while a report is booked
	teller  *story.Teller
	packer  packer
	frameAt uint64 // place of the last frame in the day's file
	notes   int    // since the day's file was opened
	begun   bool   // the day's file holds a report
	full    error  // why nothing is written for now
	writing sync.RWMutex
	day     string   // whose file is open
	db      *bolt.DB // nil: none is
}

// Open opens the history in the folder, which is made if need be. The first report opens a file.
func Open(dir string, options Options) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	return &Store{archive: archive{dir}, options: options.orDefaults()}, nil
}

// Close lets go of the day's file.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.shut()
}

// shut closes the file that is open. It is called with writing held: nobody reads in it.
func (s *Store) shut() error {
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	s.db, s.day, s.packer = nil, "", packer{}
	return err
}

// Note books a report. What cannot be written is as if it had not been seen: the next report that can be tells what is
// new since the last one that was.
func (s *Store) Note(report *bridge.Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.note(report); err != nil {
		s.writing.Lock()
		s.shut() // what is wrong with the file shows when it is opened again
		s.writing.Unlock()
		return fmt.Errorf("book round %d in the history: %w", report.Round, err)
	}
	return nil
}

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

// room says whether enough is left on the disk.
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

// turnTo opens the file of a day, where another one or none is open.
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

// begin opens a day's file in place of the one that is open. One that is damaged is set aside: its day is told from
// here.
func (s *Store) begin(day string, now time.Time) error {
	s.writing.Lock() // who reads meanwhile waits until it is open: nobody else could open it
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
	err = look(db, day, func(tx *bolt.Tx) error {
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

// openDay opens the file to write, makes it if need be, and checks its pages.
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

// growth is by how many bytes a day's file grows.
const growth = 1 << 20

// prepare makes the buckets of a new day, and knows those of one that has begun.
func prepare(tx *bolt.Tx) error {
	if _, err := tx.CreateBucketIfNotExists(pointBucket); err != nil {
		return err
	}
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

// checkPages finds pages that are used twice or not at all, on which later writes would go wrong.
func checkPages(tx *bolt.Tx) error {
	ends := byte(0)
	// all is read in this goroutine first, where Guard can catch a fault
	for _, name := range append(buckets(), pointBucket) {
		err := tx.Bucket(name).ForEach(func(_, value []byte) error {
			for at := 0; at < len(value); at += os.Getpagesize() {
				ends ^= value[at]
			}
			return nil
		})
		if err != nil {
			return err
		}
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

// recall is a teller that remembers the last round that was booked, in this day or the one before: so a restart tells
// nothing again.
func (s *Store) recall(db *bolt.DB, day string) *story.Teller {
	teller := &story.Teller{}
	if recallFrom(db, day, teller) == nil {
		return teller
	}
	days, _ := s.days() // where there are none, or that fails, all is new
	for _, before := range slices.Backward(days) {
		if before >= day { // this one, and what a clock left that was ahead
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

// recallFrom has a teller remember the last round of a day.
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
	err = look(db, day, found.collect)
	teller.Remind(found.runs)
	return err
}

// lastFrame is the text of a day's last frame.
func lastFrame(db *bolt.DB, day string) (text []byte, err error) {
	err = look(db, day, func(tx *bolt.Tx) (err error) {
		place, _ := tx.Bucket(frameBucket).Cursor().Last()
		text, err = frameAt(tx, place)
		return err
	})
	return text, err
}

// write books a report and what it tells, all or nothing.
func (s *Store) write(report *bridge.Report, told []story.Passage) error {
	text, err := s.frameOf(report)
	if err != nil {
		return err
	}
	point, err := s.pointOf(report)
	if err != nil {
		return err
	}
	e, err := entryOf(told, s.opening())
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
			if point != nil {
				if err := tx.Bucket(pointBucket).Put(number(place), point); err != nil {
					return err
				}
			}
			return tx.Bucket(numberBucket).Put(number(uint64(report.Round)), number(place))
		})
	})
	if err != nil {
		s.packer = packer{} // the last frame was not written
	}
	s.begun = s.begun || err == nil
	return err
}

// frameOf is the text by which a round can be planned again; none of small rounds, of which there are hundreds.
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

// pointOf is what is drawn of a round; nothing of small rounds.
func (s *Store) pointOf(report *bridge.Report) ([]byte, error) {
	if report.Small || s.options.Point == nil {
		return nil, nil
	}
	return s.options.Point(report)
}

// opening are the runs under way when a day begins, which are told again so that each day knows who ran in it.
func (s *Store) opening() []story.Run {
	if s.begun {
		return nil
	}
	return s.teller.Running()
}

// entry is what one report tells, as it is written.
type entry struct {
	told, runs []byte // compressed; runs: nil where none began or ended
	jobs       []int
	users      map[string]bool
}

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

func (e *entry) put(tx *bolt.Tx, place []byte) error {
	for _, name := range [][]byte{passageBucket, runBucket, frameBucket, pointBucket} {
		tx.Bucket(name).FillPercent = 1 // places ascend
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
		if user == "" {
			continue
		}
		if err := tx.Bucket(userBucket).Put(userKey(user), nil); err != nil {
			return err
		}
	}
	return nil
}

// putFrame writes a round that can be planned again, behind the place of the one that it is compressed against, which
// is its own where it stands by itself.
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

// pruneEvery is after how many reports the sizes are looked at, and prunedAtOnce how many days are removed then at
// most: the removal of a large file takes a while on some disks.
const (
	pruneEvery   = 50
	prunedAtOnce = 4
)

// present is the day after the last one that was written before this one, or now if that is earlier.
func (s *Store) present(days []string, now time.Time) time.Time {
	for _, day := range slices.Backward(days) {
		if at, err := time.Parse(time.DateOnly, day); err == nil && day < s.day {
			if next := at.AddDate(0, 0, 2); next.Before(now) { // its end is one day on, and a gap of a day is none
				return next
			}
			break
		}
	}
	return now
}

// prune removes days that are too old, and the oldest ones where all together have too much; never the day that is
// written. A clock that jumps ahead makes no day old: days age by the last one before that of the clock, too.
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
