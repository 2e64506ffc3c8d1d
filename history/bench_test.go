package history

import (
	"errors"
	"os"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// BenchmarkADayOf5000Jobs books the 288 rounds of a day on 512 nodes of eight GPUs, on which 5,000 jobs wait or run at
// any time; one runs for ten hours in the mean.
func BenchmarkADayOf5000Jobs(b *testing.B) {
	for b.Loop() {
		dir := b.TempDir()
		store, err := Open(dir, Options{LeastFree: 1})
		must(b, err)
		s, day, least := newSite(b, 512, 5000), time.Duration(0), time.Duration(0)
		const rounds = 288
		running := 0
		for range rounds {
			report := s.next(10 * time.Hour)
			began := time.Now()
			must(b, store.Note(report))
			took := time.Since(began)
			day, least = day+took, max(least, took)
			running = len(store.teller.Running())
		}
		must(b, store.Close())
		r, err := Read(dir)
		must(b, err)
		ask(b, "story", func() error {
			_, gaps, err := r.Story(b.Context(), 101_000)
			return errors.Join(append(gaps, err)...)
		})
		ask(b, "replay", func() error {
			_, err := r.Round(rounds / 2)
			return err
		})
		ask(b, "runs", func() error {
			_, _, gaps, err := r.Runs(b.Context(), Question{Until: midnight.Add(24 * time.Hour)})
			return errors.Join(append(gaps, err)...)
		})
		frames := 0
		must(b, r.viewDay(dayOf(midnight), func(tx *bolt.Tx) error {
			return tx.Bucket(frameBucket).ForEach(func(_, packed []byte) error {
				frames += len(packed)
				return nil
			})
		}))
		b.ReportMetric(float64(frames)/1e6, "frames-MB")
		info, err := os.Stat(store.path(dayOf(midnight)))
		must(b, err)
		b.ReportMetric(float64(info.Size())/1e6, "MB/day")
		b.ReportMetric(float64(day.Milliseconds())/rounds, "ms/round")
		b.ReportMetric(float64(least.Milliseconds()), "worst-ms")
		b.ReportMetric(float64(s.last-100_000-5000), "jobs-ended/day")
		b.ReportMetric(float64(running), "running")
	}
}

// ask says how long an answer from that day takes.
func ask(b *testing.B, what string, question func() error) {
	b.Helper()
	began := time.Now()
	must(b, question())
	b.ReportMetric(float64(time.Since(began).Milliseconds()), what+"-ms")
}
