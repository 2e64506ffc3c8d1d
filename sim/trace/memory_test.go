package trace_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

var errFull = errors.New("no space left")

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func unzipped(t *testing.T, text []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// repeated hands out texts one behind the other, and looks how much memory is in use meanwhile.
type repeated struct {
	text func(i int) string // empty at the end
	i    int
	rest string
	peak uint64
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.i%1000 == 0 {
			r.peak = max(r.peak, held())
		}
		r.rest = r.text(r.i)
		r.i++
	}
	if r.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// held is what is still needed: the collector, which goes on beside the program, may be as late as it likes.
func held() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

const jobsOfPhilly = 82_000

func condensedLine(i int) string {
	switch {
	case i == 0:
		return condensedHeader
	case i > jobsOfPhilly:
		return ""
	}
	at := (i * 7919) % (100 * 86400) // unsorted
	return fmt.Sprintf("2017-%02d-%02d %02d:%02d:%02d,%d.0,%d,%d.0,6214e9\n", 8+at/86400/28, 1+at/86400%28, at/3600%24,
		at/60%60, at%60, 60+i, 1<<(i%4), i)
}

func sacctLine(i int) string {
	switch {
	case i == 0:
		return sacctHeader
	case i > jobsOfPhilly:
		return ""
	}
	line := "%[1]d|2026-03-%02[2]dT08:00:00|2026-03-%02[2]dT08:05:00|2026-03-%02[2]dT10:05:00|02:00:00|billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1\n"
	return fmt.Sprintf(line+strings.Replace(line, "%[1]d|", "%[1]d.batch|", 1), i, 1+i%28)
}

// phillyJob is twelve kilobytes of attempts.
func phillyJob(i int) string {
	const attempt = `{"start_time": "2017-10-07 01:13:30", "end_time": "2017-10-07 03:13:30", "detail": [{"ip": "m41", "gpus": ["gpu0", "gpu1"]}]}`
	switch {
	case i == 0:
		return "["
	case i > 5000:
		return ""
	}
	job := fmt.Sprintf(
		`{"jobid": "application_%d", "status": "Pass", "submitted_time": "2017-10-07 01:11:39", "attempts": [%s%s]}`,
		i, attempt, strings.Repeat(","+attempt, 100))
	if i == 5000 {
		return job + "]"
	}
	return job + ",\n"
}

func TestALogOf82000JobsTakesWellUnder50MB(t *testing.T) {
	for name, line := range map[string]func(int) string{"condensed": condensedLine, "sacct": sacctLine} {
		inMemory(t, name, &repeated{text: line}, jobsOfPhilly, 24<<20)
	}
}

func TestAPhillyLogIsNotHeldInMemory(t *testing.T) {
	inMemory(t, "60 MB of JSON", &repeated{text: phillyJob}, 5000, 8<<20)
}

// inMemory reads a log, and makes sure how much memory that took.
func inMemory(t *testing.T, name string, r *repeated, jobs int, most uint64) {
	t.Helper()
	before := held()
	got, err := trace.Read(name, r, "")
	if err != nil || len(got.Entries) != jobs {
		t.Fatalf("%s: %v, %+v", name, err, got)
	}
	if peak := max(r.peak, held()) - before; peak > most {
		t.Errorf("%s: %d MB at a time, want at most %d", name, peak>>20, most>>20)
	} else {
		t.Logf("%s: %d MB at a time", name, peak>>20)
	}
}

func BenchmarkACondensedLogOf82000Jobs(b *testing.B) {
	var text strings.Builder
	for i := range jobsOfPhilly + 1 {
		text.WriteString(condensedLine(i))
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := trace.Read("a", strings.NewReader(text.String()), ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAPhillyLogOf5000JobsWithAHundredAttempts(b *testing.B) {
	var text strings.Builder
	for i := range 5001 {
		text.WriteString(phillyJob(i))
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := trace.Read("a", strings.NewReader(text.String()), ""); err != nil {
			b.Fatal(err)
		}
	}
}
