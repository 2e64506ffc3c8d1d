package trace_test

import (
	"bytes"
	"cmp"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// recorded are beginnings of traces that the paper's artifact wrote: of a dynamic workload, of a static one, and of one
// with several GPUs.
var recorded = []string{
	"0,alexnet,409,3447,1\n1,gnmt,951,34181,1\n2,transformer,1053,29317,1\n",
	"0,alexnet,0.0,3349,1\n1,gnmt,0.001,26435,1\n2,deepspeech,0.002,11905,1\n10,gnmt,0.01,1,1\n1000,gnmt,1.0,1,1\n",
	"0,alexnet,1050,8176,1\n3,m5,2874,8265,4\n4,lstm,4107,295105,8\n",
}

func TestARecordedTraceIsWrittenByteForByteAsTheArtifactDoes(t *testing.T) {
	for _, text := range append(recorded, published(t)...) {
		var b strings.Builder
		if err := trace.WriteRecorded(&b, read(t, text).Jobs); err != nil || b.String() != text {
			t.Errorf("%v, wrote\n%.300s\nwant\n%.300s", err, b.String(), text)
		}
	}
}

// published are the recorded traces that are laid beside the repository, where they are.
func published(t *testing.T) []string {
	files, err := filepath.Glob("../../../shared/parity/traces/*")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f, ".gz") {
			text = unzipped(t, text)
		}
		texts = append(texts, string(text))
	}
	return texts
}

func TestUsersAreWrittenBehindAHeader(t *testing.T) {
	var b strings.Builder
	if err := trace.WriteRecorded(&b, []trace.Job{{ID: 1, Model: "m", User: "ann", GPUs: 2, Arrival: 3, Iterations: 4},
		{ID: 2, Model: "m", GPUs: 1, Iterations: 1}}); err != nil {
		t.Fatal(err)
	}
	same(t, "text", b.String(), "job_id,model,arrival,iterations,gpus,user\n1,m,3,4,2,ann\n2,m,0,1,1,\n")
}

func TestTheRatioOfARecordedTraceIsReadAgain(t *testing.T) {
	var b bytes.Buffer
	if err := trace.WriteRatio(&b, 5); err != nil {
		t.Fatal(err)
	}
	b.WriteString(recorded[0])
	same(t, "ratio", read(t, b.String()).CPUsPerGPU, 5)
}

func jobs() *rapid.Generator[[]trace.Job] {
	one := rapid.Custom(func(t *rapid.T) trace.Job {
		return trace.Job{
			ID: rapid.IntRange(0, math.MaxInt32).Draw(t, "id"), Model: label(1).Draw(t, "model"),
			User:       label(0).Draw(t, "user"),
			GPUs:       rapid.IntRange(1, 1_000_000).Draw(t, "gpus"),
			Arrival:    float64(rapid.Int64Range(0, 7_258_118_400_000).Draw(t, "arrival")) / 1000,
			Iterations: rapid.Int64Range(1, 1e12).Draw(t, "iterations"),
		}
	})
	return rapid.Map(rapid.SliceOfNDistinct(one, 1, 20, func(j trace.Job) int { return j.ID }),
		func(jobs []trace.Job) []trace.Job {
			slices.SortStableFunc(jobs, func(a, b trace.Job) int { return cmp.Compare(a.Arrival, b.Arrival) })
			return jobs
		})
}

// label is a text that may stand in a file, with what CSV has to quote.
func label(least int) *rapid.Generator[string] {
	text := rapid.StringOfN(rapid.RuneFrom([]rune(`aZ0-_.,"# '|ü`)), least, 8, -1)
	return rapid.Map(text, func(s string) string { return strings.TrimSpace(s) + strings.Repeat("x", least) })
}

func TestWhatIsRecordedIsReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := jobs().Draw(t, "jobs")
		var b bytes.Buffer
		if err := trace.WriteRecorded(&b, want); err != nil {
			t.Fatal(err)
		}
		got, err := trace.Read("a", &b, "")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Jobs, want) {
			t.Fatalf("got %+v, want %+v", got.Jobs, want)
		}
	})
}

func entries() *rapid.Generator[[]trace.Entry] {
	one := rapid.Custom(func(t *rapid.T) trace.Entry {
		return trace.Entry{
			Queue: label(0).Draw(t, "queue"), GPUs: rapid.IntRange(1, 1_000_000).Draw(t, "gpus"),
			Submitted: float64(rapid.Int64Range(0, 3e12).Draw(t, "submitted")) / 1000,
			Duration:  rapid.Float64Range(1e-3, 7e9).Draw(t, "duration"),
		}
	})
	return rapid.Map(rapid.SliceOfN(one, 1, 20), func(entries []trace.Entry) []trace.Entry {
		slices.SortStableFunc(entries, func(a, b trace.Entry) int { return cmp.Compare(a.Submitted, b.Submitted) })
		first := entries[0].Submitted
		for i := range entries {
			entries[i].Submitted = math.Round((entries[i].Submitted-first)*1000) / 1000
			entries[i].ID, entries[i].Place = string(rune('1'+i)), i
		}
		return entries
	})
}

func TestWhatIsCondensedIsReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := entries().Draw(t, "entries")
		begin := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "begin"), 0).UTC()
		var b bytes.Buffer
		if err := trace.WriteCondensed(&b, begin, want); err != nil {
			t.Fatal(err)
		}
		got, err := trace.Read("a", &b, "")
		if err != nil {
			t.Fatal(err)
		}
		for i := range got.Entries {
			want[i].ID = got.Entries[i].ID // a condensed log has none
		}
		if !slices.Equal(got.Entries, want) || !got.Begin.Equal(begin) {
			t.Fatalf("got %+v since %s, want %+v since %s", got.Entries, got.Begin, want, begin)
		}
	})
}

func TestACondensedLogLooksAsPhillysDoes(t *testing.T) {
	got := open(t, "condensed.csv")
	var b strings.Builder
	if err := trace.WriteCondensed(&b, got.Begin, got.Entries); err != nil {
		t.Fatal(err)
	}
	same(t, "text", b.String(), `timestamp,duration,num_gpus,gpu_time,cluster
2017-09-29 07:58:32,860662.0,1,860662.0,6c71a0
2017-10-07 01:11:39,193256.0,8,1546048.0,ee9e8c
2017-10-07 01:11:39,12.5,4,50.0,ee9e8c
2017-10-09 06:13:03,2951.0,1,2951.0,6214e9
2017-10-09 07:01:55,66.0,1,66.0,11cb48
`)
}

func TestWhatCouldNotBeReadAgainIsNotWritten(t *testing.T) {
	good := trace.Job{ID: 1, Model: "m", GPUs: 1, Arrival: 1, Iterations: 1}
	for want, change := range map[string]func(*trace.Job){
		"write job -1: id = -1: want a whole number from 0 to 2147483647":                 func(j *trace.Job) { j.ID = -1 },
		`write job 1: model = "": want printable text of at most 256 bytes`:               func(j *trace.Job) { j.Model = "" },
		`write job 1: user = " a": want printable text of at most 256 bytes`:              func(j *trace.Job) { j.User = " a" },
		"write job 1: arrival = NaN: want seconds, not negative and before the year 2200": func(j *trace.Job) { j.Arrival = math.NaN() },
		"write job 1: arrival = -1: want seconds, not negative and before the year 2200":  func(j *trace.Job) { j.Arrival = -1 },
		"write job 1: iterations = 0: want a whole number from 1 to 1000000000000":        func(j *trace.Job) { j.Iterations = 0 },
		"write job 1: gpus = 0: want a whole number from 1 to 1000000":                    func(j *trace.Job) { j.GPUs = 0 },
	} {
		j := good
		change(&j)
		if err := trace.WriteRecorded(io.Discard, []trace.Job{good, j}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, e := range []trace.Entry{
		{Duration: 0, GPUs: 1}, {Duration: math.Inf(1), GPUs: 1}, {Duration: 1}, {Duration: 1, GPUs: 1, Submitted: -1},
		{Duration: 1, GPUs: 1, Queue: "a\nb"},
	} {
		if err := trace.WriteCondensed(io.Discard, time.Time{}, []trace.Entry{e}); err == nil {
			t.Errorf("%+v was written", e)
		}
	}
}

func TestAFullDiskIsAnError(t *testing.T) {
	if err := trace.WriteRecorded(full{}, read(t, recorded[0]).Jobs); err != errFull {
		t.Errorf("recorded: got %v", err)
	}
	if err := trace.WriteCondensed(full{}, time.Time{}, open(t, "condensed.csv").Entries); err != errFull {
		t.Errorf("condensed: got %v", err)
	}
}
