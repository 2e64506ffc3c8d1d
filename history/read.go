package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// Reader answers questions from the kept days. A day that cannot be read is reported as a gap, and the other days
// answer.
type Reader struct {
	archive
	// live reads from the day that this process is writing; false if day is another one.
	live func(day string, read func(tx *bolt.Tx) error) (bool, error)
}

// Read returns a reader of a folder that other processes write.
func Read(dir string) (*Reader, error) {
	r := &Reader{archive{dir}, func(string, func(*bolt.Tx) error) (bool, error) { return false, nil }}
	days, err := r.days()
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	if len(days) == 0 {
		return nil, fmt.Errorf("read history %s: it has no day: %w", dir, fs.ErrNotExist)
	}
	return r, nil
}

// Reader returns a reader of the history that s writes.
func (s *Store) Reader() *Reader { return &Reader{s.archive, s.live} }

// live runs read on the open day; false if another day, or none, is open. This process holds the lock of the open day's
// file, so it could not open the file once more.
func (s *Store) live(day string, read func(tx *bolt.Tx) error) (bool, error) {
	s.writing.RLock()
	defer s.writing.RUnlock()
	if s.db == nil || s.day != day {
		return false, nil
	}
	return true, viewFile(s.db, day, read)
}

// viewDay runs read on a day: on this process's own file if that is the day, and else on a file that it opens.
func (r *Reader) viewDay(day string, read func(tx *bolt.Tx) error) error {
	if is, err := r.live(day, read); is || err != nil {
		return err
	}
	db, err := r.open(day)
	if err != nil {
		return err
	}
	defer db.Close()
	return viewFile(db, day, read)
}

// Story returns the passages about a job, the oldest first. It reads the newest days first, until ctx ends, which is
// reported as a gap.
func (r *Reader) Story(ctx context.Context, job int) (told []story.Passage, gaps []error, err error) {
	days, err := r.days()
	if err != nil {
		return nil, nil, fmt.Errorf("read history: %w", err)
	}
	var all [][]story.Passage // by day, the newest first
	for _, day := range slices.Backward(days) {
		if ctx.Err() != nil {
			gaps = append(gaps, fmt.Errorf("day %s and those before: it takes too long: %w", day, ctx.Err()))
			break
		}
		var of []story.Passage
		err := r.viewDay(day, func(tx *bolt.Tx) (err error) {
			of, err = storyIn(tx, job)
			return err
		})
		if all = append(all, of); err != nil {
			gaps = append(gaps, err)
		}
	}
	slices.Reverse(all)
	return slices.Concat(all...), gaps, nil
}

// mostPassages bounds what is read about a job in one day.
const mostPassages = 10_000

// storyIn returns the passages about a job in a day.
func storyIn(tx *bolt.Tx, job int) (told []story.Passage, err error) {
	cursor, prefix := tx.Bucket(jobBucket).Cursor(), jobKey(job, number(0))[:jobBytes]
	key, _ := cursor.Seek(prefix)
	for ; bytes.HasPrefix(key, prefix) && len(told) < mostPassages; key, _ = cursor.Next() {
		place := placeOf(key)
		all, err := unpackList[story.Passage](tx.Bucket(passageBucket).Get(place))
		if err != nil {
			return told, err
		}
		runs, err := unpackList[story.Run](tx.Bucket(runBucket).Get(place))
		if err != nil {
			return told, err
		}
		for _, p := range all {
			if p.Job == job {
				p.Runs = slices.DeleteFunc(runs, func(run story.Run) bool { return run.Job != job })
				told = append(told, p)
			}
		}
	}
	return told, nil
}

// unpackList decodes a list of passages or runs; nil gives none.
func unpackList[T story.Passage | story.Run](packed []byte) (list []T, err error) {
	if packed == nil {
		return nil, nil
	}
	text, err := decompress(packed)
	if err != nil {
		return nil, err
	}
	return listOf[T](text)
}

func listOf[T story.Passage | story.Run](text []byte) (list []T, err error) {
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read what was told: %w", err)
	}
	return list, nil
}

// Question selects runs: those that ran at some time between Since and Until, including those still running.
type Question struct {
	User  string // empty: any
	Job   int    // 0: any
	Since time.Time
	Until time.Time
	Most  int // runs, the last ones if there are more; 0: no bound
}

// wants says whether the question selects a run.
func (q *Question) wants(r *story.Run) bool {
	return (q.User == "" || r.User == q.User) && (q.Job == 0 || r.Job == q.Job) && r.Began.Before(q.Until) &&
		(r.Ended.IsZero() || !r.Ended.Before(q.Since))
}

// Runs returns the selected runs, by start and then by job. It reads the newest days first, until it has enough runs or
// ctx ends, which is reported as a gap. Days before Since need not be read: each day's file begins with the runs that
// were running then (see Store.carriedRuns). more says that further runs match.
func (r *Reader) Runs(ctx context.Context, q Question) (runs []story.Run, more bool, gaps []error, err error) {
	days, err := r.days()
	if err != nil {
		return nil, false, nil, fmt.Errorf("read history: %w", err)
	}
	found := collectorOf(q)
	for _, day := range slices.Backward(days) {
		if day < dayOf(q.Since) {
			break
		}
		if ctx.Err() != nil {
			gaps = append(gaps, fmt.Errorf("day %s and those before: %w", day, errLong))
			break
		}
		if err := r.viewDay(day, found.collect); err != nil {
			gaps = append(gaps, err)
		}
		if q.Most > 0 && found.wanted() > q.Most {
			break
		}
	}
	runs, more = found.sorted()
	return runs, more, gaps, nil
}

var errLong = errors.New("it takes too long: ask for less time")

// Of returns the selected runs from reports, by start and then by job.
func Of(reports []bridge.Report, q Question) (runs []story.Run, more bool) {
	found, teller := collectorOf(q), &story.Teller{}
	for i := range reports {
		for _, p := range teller.Tell(&reports[i]) {
			for k := range p.Runs {
				found.add(&p.Runs[k])
			}
		}
	}
	return found.sorted()
}

// runKey identifies a run.
type runKey struct {
	job   int
	began int64
}

// collector gathers runs and merges what several rounds say of the same one.
type collector struct {
	question Question
	marks    [][]byte // bytes that the JSON of every selected run contains
	runs     []story.Run
	places   map[runKey]int
}

// collectorOf makes a collector. Its marks let collect skip texts without parsing them.
func collectorOf(q Question) *collector {
	c := &collector{question: q, places: map[runKey]int{}}
	if user, err := json.Marshal(q.User); q.User != "" && err == nil {
		c.marks = append(c.marks, append([]byte(`"user":`), user...))
	}
	if q.Job != 0 {
		c.marks = append(c.marks, fmt.Appendf(nil, `"job":%d,`, q.Job))
	}
	return c
}

// collect adds the runs of a day.
func (c *collector) collect(tx *bolt.Tx) error {
	if q := c.question; q.User != "" && !hasKey(tx.Bucket(userBucket), userKey(q.User)) {
		return nil
	}
	if q := c.question; q.Job != 0 && !hasPrefix(tx.Bucket(jobBucket), jobKey(q.Job, number(0))[:jobBytes]) {
		return nil
	}
	return tx.Bucket(runBucket).ForEach(func(_, packed []byte) error {
		text, err := decompress(packed)
		if err != nil {
			return err
		}
		for _, mark := range c.marks {
			if !bytes.Contains(text, mark) {
				return nil
			}
		}
		runs, err := listOf[story.Run](text)
		for i := range runs {
			c.add(&runs[i])
		}
		return err
	})
}

// hasKey says whether a bucket has a key, whatever its value.
func hasKey(bucket *bolt.Bucket, key []byte) bool {
	found, _ := bucket.Cursor().Seek(key)
	return bytes.Equal(found, key)
}

func hasPrefix(bucket *bolt.Bucket, prefix []byte) bool {
	found, _ := bucket.Cursor().Seek(prefix)
	return bytes.HasPrefix(found, prefix)
}

// add adds a run of the selected user and job, or merges it into the same run found before. The times are not compared
// here: a run's end may be in a record that is found later.
func (c *collector) add(r *story.Run) {
	if q := c.question; q.User != "" && r.User != q.User || q.Job != 0 && r.Job != q.Job {
		return
	}
	key := runKey{r.Job, r.Began.UnixNano()}
	place, known := c.places[key]
	if !known {
		c.places[key] = len(c.runs)
		c.runs = append(c.runs, *r)
		return
	}
	c.runs[place] = story.MergeRuns(c.runs[place:place+1:place+1], []story.Run{*r})[0]
}

// wanted counts the runs that the question selects.
func (c *collector) wanted() (n int) {
	for i := range c.runs {
		if c.question.wants(&c.runs[i]) {
			n++
		}
	}
	return n
}

// sorted returns the selected runs, at most question.Most; more says whether further ones were dropped.
func (c *collector) sorted() (runs []story.Run, more bool) {
	runs = slices.DeleteFunc(c.runs, func(r story.Run) bool { return !c.question.wants(&r) })
	slices.SortStableFunc(runs, func(a, b story.Run) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Job, b.Job))
	})
	if over := len(runs) - c.question.Most; c.question.Most > 0 && over > 0 {
		return runs[over:], true
	}
	return runs, false
}

// Round returns the text of the last round with this number, from which it can be planned again. ErrNoRound: none is
// kept.
func (r *Reader) Round(n int) ([]byte, error) {
	days, err := r.days()
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	var gaps []error
	for _, day := range slices.Backward(days) {
		var text []byte
		err := r.viewDay(day, func(tx *bolt.Tx) (err error) {
			place := tx.Bucket(numberBucket).Get(number(uint64(n)))
			text, err = frameAt(tx, place)
			return err
		})
		if err == nil {
			return text, nil
		}
		if !errors.Is(err, ErrNoRound) {
			gaps = append(gaps, err)
		}
	}
	return nil, fmt.Errorf("round %d: %w", n, errors.Join(append([]error{ErrNoRound}, gaps...)...))
}

// frameAt reconstructs the text of the frame at a place, which may be nil: ErrNoRound. A chain is never longer than
// keyRounds; a longer one is damage, and may be a loop.
func frameAt(tx *bolt.Tx, place []byte) ([]byte, error) {
	var chain [][]byte // from the requested frame back to one compressed by itself
	frames := tx.Bucket(frameBucket)
	for at := place; ; {
		packed := frames.Get(at)
		switch {
		case len(at) == 0 || packed == nil && len(chain) == 0:
			return nil, ErrNoRound
		case len(packed) < placeBytes || len(chain) == keyRounds:
			return nil, fmt.Errorf("%w: one that it is written against is missing", errFrame)
		}
		chain = append(chain, packed[placeBytes:])
		if bytes.Equal(packed[:placeBytes], at) {
			break
		}
		at = packed[:placeBytes]
	}
	last := len(chain) - 1
	text, err := decompress(chain[last])
	for _, packed := range slices.Backward(chain[:last]) {
		if err == nil {
			text, err = unpack(packed, text)
		}
	}
	return text, err
}
