package history

import (
	"os"
	"testing"
	"time"
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
		info, err := os.Stat(store.path(dayOf(midnight)))
		must(b, err)
		b.ReportMetric(float64(info.Size())/1e6, "MB/day")
		b.ReportMetric(float64(day.Milliseconds())/rounds, "ms/round")
		b.ReportMetric(float64(least.Milliseconds()), "worst-ms")
		b.ReportMetric(float64(s.last-100_000-5000), "jobs-ended/day")
		b.ReportMetric(float64(running), "running")
	}
}
