package history

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/replay"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

func openStore(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	if o.LeastFree == 0 {
		o.LeastFree = 1
	}
	s, err := Open(dir, o)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

var held = policy.Placement{Nodes: []string{"n1"}, PerNode: gres.Vector{GPUs: 2, CPUs: 12, Memory: 100_000}}

// report is a round in which job 17 of alice waits, or runs since a moment.
func report(round int, at, since time.Time) *bridge.Report {
	j := policy.Job{ID: 17, Name: "vision", User: "alice", GPUs: 2, Tasks: 1, Arrival: midnight.Add(-time.Hour)}
	d := policy.Decision{Job: 17, Reason: policy.Turn, Why: "others go first"}
	if !since.IsZero() {
		j.Running, j.Started, j.Attained = &held, since, 2*at.Sub(since).Seconds()
		d = policy.Decision{Job: 17, Grant: &held, Gain: 1.5, Fair: gres.Vector{GPUs: 2, CPUs: 6, Memory: 125_000}}
	}
	return &bridge.Report{Round: round, Began: at, Policy: "fifo", Allocator: "tune", Snapshot: policy.Cluster{Now: at,
		Nodes: []policy.Node{{Name: "n1", Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500_000}}},
		Jobs:  []policy.Job{j}}, Plan: policy.Plan{Decisions: []policy.Decision{d}}}
}

// over is a report without the job, which has ended.
func over(round int, at time.Time) *bridge.Report {
	r := report(round, at, time.Time{})
	r.Snapshot.Jobs, r.Plan.Decisions = nil, nil
	r.Ended = []bridge.Ended{{Job: 17, End: slurm.End{State: "COMPLETED"}, Attained: 2 * 26 * 3600}}
	return r
}

func note(t testing.TB, s *Store, reports ...*bridge.Report) {
	t.Helper()
	for _, r := range reports {
		must(t, s.Note(r))
	}
}

// told is a job's story in lines.
func told(t testing.TB, r *Reader, job int) string {
	t.Helper()
	passages, gaps, err := r.Story(t.Context(), job)
	must(t, errors.Join(append(gaps, err)...))
	var lines []string
	for _, e := range story.Join(job, passages, story.Story{}).Events {
		lines = append(lines, e.At.Format("02 15:04 ")+e.What)
	}
	return strings.Join(lines, "\n")
}

// life books a job that waits, is started by a small round, runs over midnight and ends. again opens the history anew
// wherever the daemon is to be restarted.
func life(t testing.TB, s *Store, again func(*Store) *Store) *Store {
	began := midnight.Add(time.Minute)
	started := report(1, midnight.Add(58*time.Second), time.Time{})
	started.Small = true
	started.Plan.Decisions[0] = report(1, midnight, began).Plan.Decisions[0]
	started.Plan.Decisions[0].Why = "its turn"
	started.Steps = []bridge.Step{{Job: 17, Verb: bridge.Start, Why: "its turn"}}
	runs, runsOn := report(2, midnight.Add(5*time.Minute), began), report(3, midnight.Add(25*time.Hour), began)
	runs.Speeds = []bridge.Speed{{Job: 17, Ran: 10, Claimed: 12}}
	runsOn.Speeds = []bridge.Speed{{Job: 17, Ran: 11, Claimed: 12}}
	for _, r := range []*bridge.Report{report(1, midnight, time.Time{}), started, runs, runsOn,
		over(4, midnight.Add(26*time.Hour)), over(5, midnight.Add(27*time.Hour))} {
		note(t, s, r)
		s = again(s)
	}
	return s
}

const lived = `23 00:00 waits: others go first
23 00:00 is given 2 GPUs, 12 cores, 100 GB on n1, where its share is 6 cores and 125 GB, its turn
23 00:00 started: its turn
23 00:05 runs since 2026-11-23 00:01:00 with 2 GPUs, 12 cores, 100 GB on n1, where its share is 6 cores and 125 GB, ` +
	`1.50 times as fast as with that
24 02:00 ran for 25h59m0s with 2 GPUs, 12 cores, 100 GB on n1, 1.50 times as fast as with its share by its profile; ` +
	`it reported 10.5 iterations/s, where its profile says 12
24 02:00 is over, COMPLETED: it had 52.0 GPU-hours`

func TestAStoryIsToldOverDaysWithTheStartsOfSmallRoundsAndWithTheSpeedThatWasSeen(t *testing.T) {
	s := life(t, openStore(t, t.TempDir(), Options{}), func(s *Store) *Store { return s })
	if got := told(t, s.Reader(), 17); got != lived {
		t.Errorf("told\n%s\nwant\n%s", got, lived)
	}
}

func TestAStoryThatTakesTooLongIsToldAsFarAsItWasReadWithAGap(t *testing.T) {
	s := life(t, openStore(t, t.TempDir(), Options{}), func(s *Store) *Store { return s })
	over, cancel := context.WithCancel(t.Context())
	cancel()
	passages, gaps, err := s.Reader().Story(over, 17)
	if err != nil || len(passages) > 0 || len(gaps) != 1 || !strings.Contains(gaps[0].Error(), "2026-11-24 and those") {
		t.Errorf("%v, %v, %v", passages, gaps, err)
	}
}

func TestARestartTellsNothingTwiceAndForgetsNoRun(t *testing.T) {
	dir := t.TempDir()
	reopened := func(s *Store) *Store {
		if s.notes < 3 && s.day == dayOf(midnight) {
			return s // between a small round and the next one it is forgotten why that started whom
		}
		must(t, s.Close())
		return openStore(t, dir, Options{})
	}
	life(t, openStore(t, dir, Options{}), reopened).Close()
	r, err := Read(dir)
	must(t, err)
	if got := told(t, r, 17); got != lived {
		t.Errorf("told\n%s\nwant\n%s", got, lived)
	}
	runs, _, gaps, err := r.Runs(t.Context(), Question{Until: midnight.Add(1000 * time.Hour)})
	must(t, errors.Join(append(gaps, err)...))
	if len(runs) != 1 || runs[0].Why != "its turn" || !runs[0].Small || runs[0].End != "COMPLETED" ||
		runs[0].GPUTime != 2*26*3600 {
		t.Errorf("the runs are %+v", runs)
	}
}

func TestARoundIsReadBackByteForByteAndPlansTheSame(t *testing.T) {
	s, site := openStore(t, t.TempDir(), Options{Version: "1.2.3"}), newSite(t, 6, 60)
	texts := map[int][]byte{}
	for range keyRounds + 5 {
		r := site.next(2 * time.Hour)
		note(t, s, r)
		text, err := s.frameOf(r)
		must(t, err)
		texts[r.Round] = text
	}
	for n, want := range texts {
		text, err := s.Reader().Round(n)
		must(t, err)
		if !bytes.Equal(text, want) {
			t.Fatalf("round %d is read otherwise", n)
		}
		if n%10 > 0 {
			continue
		}
		kept, err := replay.Read(text)
		must(t, err)
		plan, err := kept.Again("", "")
		must(t, err)
		if differs, err := replay.Compare(kept.Plan, plan); err != nil || len(differs) > 0 || kept.Version != "1.2.3" {
			t.Errorf("round %d of version %q: %d decisions differ, %v", n, kept.Version, len(differs), err)
		}
	}
	if _, err := s.Reader().Round(4711); !errors.Is(err, ErrNoRound) {
		t.Errorf("a round that is not kept: %v", err)
	}
}

func TestDaysThatAreTooOldAreRemovedFewAtATimeAndNobodyElsesFiles(t *testing.T) {
	dir := t.TempDir()
	for _, day := range []int{-30, -29, -28, -27, -26, -25, -24, -1} {
		s := openStore(t, dir, Options{})
		note(t, s, report(day+31, midnight.AddDate(0, 0, day), time.Time{}))
		must(t, s.Close())
	}
	must(t, os.WriteFile(filepath.Join(dir, "2020-01-01.txt"), nil, 0o600))
	left := func() int {
		entries, err := os.ReadDir(dir)
		must(t, err)
		return len(entries)
	}
	s := openStore(t, dir, Options{Keep: 10 * 24 * time.Hour})
	note(t, s, report(20, midnight, time.Time{}))
	if got := left(); got != 7-prunedAtOnce+3 {
		t.Errorf("%d files are left after the first report, want %d", got, 7-prunedAtOnce+3)
	}
	for n := range pruneEvery + 1 {
		note(t, s, report(21+n, midnight.Add(time.Duration(n)*time.Minute), time.Time{}))
	}
	if got := left(); got != 3 {
		t.Errorf("%d files are left, want today's, yesterday's and the one that is none of ours", got)
	}
}

// TestAClockThatJumpsAheadRemovesNoDay: it may be wrong for a minute only, and what is removed is gone.
func TestAClockThatJumpsAheadRemovesNoDay(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{Keep: 10 * 24 * time.Hour})
	for day := range 9 {
		note(t, s, report(day+1, midnight.AddDate(0, 0, day), time.Time{}))
	}
	for n := range 2 * pruneEvery {
		note(t, s, report(100+n, midnight.AddDate(12, 0, 0).Add(time.Duration(n)*time.Minute), time.Time{}))
	}
	must(t, s.Close())
	s = openStore(t, dir, Options{Keep: 10 * 24 * time.Hour})
	back := midnight.AddDate(0, 0, 9)
	for n := range 2 * pruneEvery {
		note(t, s, report(300+n, back.Add(time.Duration(n)*time.Minute), time.Time{}))
	}
	if days, err := s.days(); err != nil || len(days) != 11 {
		t.Errorf("%v are left, %v: want ten days, and the one of the jump", days, err)
	}
	if text := told(t, s.Reader(), 17); text != "23 00:00 waits: others go first" {
		t.Errorf("told\n%s\nwant once that it waits", text)
	}
}

func TestTheOldestDaysGoWhereAllTogetherHaveTooMuchAndTodayIsNotOverfilled(t *testing.T) {
	dir := t.TempDir()
	for day := range 3 {
		s := openStore(t, dir, Options{})
		note(t, s, report(day+1, midnight.AddDate(0, 0, day), time.Time{}))
		must(t, s.Close())
	}
	one, err := os.Stat(filepath.Join(dir, "2026-11-23.history"))
	must(t, err)
	s := openStore(t, dir, Options{MostBytes: 5 * one.Size() / 2})
	note(t, s, report(4, midnight.AddDate(0, 0, 2).Add(time.Hour), time.Time{}))
	if days, err := s.days(); err != nil || !slices.Equal(days, []string{"2026-11-24", "2026-11-25"}) {
		t.Errorf("%v are left, %v", days, err)
	}
	must(t, s.Close())
	s = openStore(t, dir, Options{MostBytes: 1})
	for n := range 3 {
		err := s.Note(report(5+n, midnight.AddDate(0, 0, 2).Add(2*time.Hour), time.Time{}))
		if !errors.Is(err, ErrRoom) || !strings.Contains(err.Error(), "the day alone has") {
			t.Errorf("a day that is full by itself: %v", err)
		}
	}
}

func TestWhatCouldNotBeWrittenIsToldByTheNextReportThatCan(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	note(t, s, report(1, midnight, time.Time{}))
	s.options.LeastFree = 1 << 62
	began := midnight.Add(time.Minute)
	if err := s.Note(report(2, midnight.Add(5*time.Minute), began)); !errors.Is(err, ErrRoom) ||
		!strings.Contains(err.Error(), "MiB are free") {
		t.Fatalf("on a disk that is full: %v", err)
	}
	s.options.LeastFree = 1
	note(t, s, report(2, midnight.Add(4*time.Minute), time.Time{}))
	must(t, s.db.Close()) // as if the disk broke in the middle
	if err := s.Note(report(2, midnight.Add(6*time.Minute), began)); err == nil {
		t.Fatal("nobody noticed that it was not written")
	}
	note(t, s, report(3, midnight.Add(10*time.Minute), began))
	if got := told(t, s.Reader(), 17); !strings.Contains(got, "23 00:10 runs since 2026-11-23 00:01:00") {
		t.Errorf("told\n%s", got)
	}
}

func TestADayThatIsDamagedIsSetAsideAndIsAGapForReaders(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	note(t, s, report(1, midnight, time.Time{}), report(2, midnight.Add(24*time.Hour), midnight.Add(time.Minute)))
	must(t, s.Close())
	path := s.path(dayOf(midnight.Add(24 * time.Hour)))
	good, err := os.ReadFile(path)
	must(t, err)
	for page := 1; page < len(good)/os.Getpagesize(); page++ {
		spoilt := bytes.Clone(good)
		for i := range os.Getpagesize() {
			spoilt[page*os.Getpagesize()+i] ^= 0xA5
		}
		must(t, os.WriteFile(path, spoilt, 0o600))
		r, err := Read(dir)
		must(t, err)
		passages, _, err := r.Story(t.Context(), 17) // the other day answers, whatever this one does
		if err != nil || len(passages) == 0 || !strings.Contains(passages[0].Events[0].What, "others go first") {
			t.Fatalf("page %d: told %+v, %v", page, passages, err)
		}
		_, _ = r.Round(2)
		s := openStore(t, dir, Options{})
		must(t, s.Note(report(3, midnight.Add(25*time.Hour), midnight.Add(time.Minute))))
		must(t, s.Close())
	}
	for _, end := range []int{1, 5000, len(good) / 2, len(good) - 1} {
		must(t, os.WriteFile(path, good[:end], 0o600))
		s := openStore(t, dir, Options{})
		must(t, s.Note(report(3, midnight.Add(25*time.Hour), midnight.Add(time.Minute))))
		must(t, s.Close())
	}
	if aside, err := filepath.Glob(filepath.Join(dir, "*.corrupt-*")); err != nil || len(aside) == 0 {
		t.Errorf("none was set aside: %v", err)
	}
}

func TestAnotherProcessThatWritesIsToldOfAndWaitsForNobody(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	note(t, s, report(1, midnight, time.Time{}))
	if err := openStore(t, dir, Options{}).Note(report(2, midnight, time.Time{})); !errors.Is(err, ErrLocked) {
		t.Errorf("a second writer: %v", err)
	}
	r, err := Read(dir)
	must(t, err)
	if _, gaps, err := r.Story(t.Context(), 17); err != nil || len(gaps) != 1 || !errors.Is(gaps[0], ErrLocked) {
		t.Errorf("a reader beside the daemon: %v, %v", gaps, err)
	}
}

func TestRunsAreFoundByUserAndTimeAlsoThoseThatBeganBefore(t *testing.T) {
	s, site := openStore(t, t.TempDir(), Options{}), newSite(t, 6, 60)
	for range 80 {
		note(t, s, site.next(6*time.Hour))
		site.cluster.Now = site.cluster.Now.Add(25 * time.Minute)
	}
	all, more, gaps, err := s.Reader().Runs(t.Context(), Question{Until: site.cluster.Now})
	must(t, errors.Join(append(gaps, err)...))
	if more || len(all) < 100 {
		t.Fatalf("%d runs, more: %v", len(all), more)
	}
	q := Question{Since: midnight.Add(30 * time.Hour), Until: midnight.Add(40 * time.Hour)}
	runs := map[string]int{} // in that time, by user
	for i := range all {
		if r := all[i]; r.Began.Before(q.Until) && (r.Ended.IsZero() || !r.Ended.Before(q.Since)) {
			if runs[r.User]++; runs[r.User] > runs[q.User] {
				q.User = r.User
			}
		}
	}
	want := runs[q.User]
	got, _, _, err := s.Reader().Runs(t.Context(), q)
	must(t, err)
	if len(got) != want || want < 2 {
		t.Errorf("%d runs of %s, want %d", len(got), q.User, want)
	}
	q.Most = 1
	if last, more, _, err := s.Reader().Runs(t.Context(), q); err != nil || !more || len(last) != 1 ||
		last[0].Job != got[len(got)-1].Job {
		t.Errorf("the last one is %+v, more: %v, %v", last, more, err)
	}
}

func TestEachDayKnowsWhoRanInItAlsoWhenTheDayOfHisStartIsGone(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	began := midnight.Add(time.Minute)
	note(t, s, report(1, midnight.Add(2*time.Minute), began), report(2, midnight.Add(25*time.Hour), began))
	must(t, os.Remove(s.path(dayOf(midnight))))
	for _, q := range []Question{{}, {User: "alice"}, {Job: 17}} {
		q.Since, q.Until = midnight.Add(24*time.Hour), midnight.Add(48*time.Hour)
		if runs, _, _, err := s.Reader().Runs(t.Context(), q); err != nil || len(runs) != 1 || runs[0].Job != 17 {
			t.Errorf("asked %+v: %+v, %v", q, runs, err)
		}
	}
}

func TestReadersAndTheWriterDoNotDisturbEachOther(t *testing.T) {
	s, site := openStore(t, t.TempDir(), Options{}), newSite(t, 4, 20)
	note(t, s, site.next(time.Hour))
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			for r := s.Reader(); ; {
				select {
				case <-stop:
					return
				default:
				}
				if _, gaps, err := r.Story(t.Context(), 100_001); err != nil || gaps != nil {
					t.Errorf("read beside the writer: %v, %v", gaps, err)
				}
				if _, err := r.Round(1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range 15 {
		site.cluster.Now = midnight.Add(time.Duration(n) * 5 * time.Hour) // over days
		note(t, s, site.next(time.Hour))
	}
	close(stop)
	readers.Wait()
}

// TestADayWithWhatOlderVersionsDrewIsReadAndGoesOn: they kept points of each round in a bucket that nothing reads.
func TestADayWithWhatOlderVersionsDrewIsReadAndGoesOn(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	note(t, s, report(1, midnight, time.Time{}))
	must(t, s.db.Update(func(tx *bolt.Tx) error {
		points, err := tx.CreateBucket([]byte("points"))
		if err != nil {
			return err
		}
		return points.Put(number(1), []byte(`{"Round":1}`))
	}))
	must(t, s.Close())
	s = openStore(t, dir, Options{})
	note(t, s, report(2, midnight.Add(time.Minute), time.Time{}))
	must(t, s.Close())
	r, err := Read(dir)
	must(t, err)
	for round := 1; round <= 2; round++ {
		if _, err := r.Round(round); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
	}
	if text := told(t, r, 17); text == "" {
		t.Error("nothing is told of that day")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v: want the one file of that day, and none that was set aside", entries, err)
	}
}

func TestTheSnapshotIsNotChanged(t *testing.T) {
	s, site := openStore(t, t.TempDir(), Options{}), newSite(t, 4, 20)
	r := site.next(time.Hour)
	before, err := s.frameOf(r)
	must(t, err)
	note(t, s, r)
	after, err := s.frameOf(r)
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("booking changed the report")
	}
}

// FuzzUnpack: no bytes of a file end the process or use up its memory.
func FuzzUnpack(f *testing.F) {
	text := bytes.Repeat([]byte("a round "), 40)
	var p packer
	first, _, err := p.pack(text)
	must(f, err)
	second, _, err := p.pack(append(text, '!'))
	must(f, err)
	f.Add(first, text)
	f.Add(second, text)
	f.Fuzz(func(_ *testing.T, packed, before []byte) {
		unpack(packed, before)
		unpackList[story.Passage](packed)
		unpackList[story.Run](packed)
	})
}
