package trace_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

func read(t *testing.T, text string) *trace.Trace {
	t.Helper()
	got, err := trace.Read("a", strings.NewReader(text), "")
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func open(t *testing.T, name string) *trace.Trace {
	t.Helper()
	got, err := trace.Open(filepath.Join("testdata", name), "")
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

var samples = map[string]trace.Format{
	"recorded.csv": trace.Recorded, "philly.json": trace.Philly, "condensed.csv": trace.Condensed,
	"openb.csv": trace.Openb, "sacct.txt": trace.Sacct,
}

func TestEveryFormatIsRecognisedFromItsContentAlsoWhenItIsCompressed(t *testing.T) {
	for name, format := range samples {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		plain := read(t, string(text))
		same(t, name, plain.Format, format)
		same(t, name+" behind a byte order mark, with carriage returns",
			read(t, "\ufeff"+strings.ReplaceAll(string(text), "\n", "\r\n")), plain)
		same(t, name+" compressed", read(t, zipped(string(text))), plain)
		named, err := trace.Read("a", bytes.NewReader(text), format)
		if err != nil {
			t.Fatal(err)
		}
		same(t, name+" by the name of its format", named, plain)
	}
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(text))
	w.Close()
	return b.String()
}

func TestARecordedTraceIsInTheOrderOfArrivalWhateverItsHeaderAndRemarks(t *testing.T) {
	got := open(t, "recorded.csv")
	same(t, "jobs", got.Jobs, []trace.Job{
		{ID: 0, Model: "alexnet", User: "ann", GPUs: 1, Arrival: 0, Iterations: 8176},
		{ID: 1, Model: "gnmt", User: "bob", GPUs: 1, Arrival: 2212, Iterations: 610813},
		{ID: 2, Model: "transformer", User: "cat", GPUs: 2, Arrival: 2212, Iterations: 22651},
		{ID: 3, Model: "m5", User: "bob", GPUs: 4, Arrival: 2874, Iterations: 8265},
		{ID: 4, Model: "lstm", User: "ann", GPUs: 8, Arrival: 4107, Iterations: 295105},
	})
	same(t, "ratio", got.CPUsPerGPU, 4)
}

func TestAHeaderPutsTheColumnsOfARecordedTraceInAnyOrder(t *testing.T) {
	got := read(t, "gpus,model_name,remark,JOB_ID,total_iterations,arrival_s\n2,res18,x,7,100,0.25\n")
	same(t, "jobs", got.Jobs, []trace.Job{{ID: 7, Model: "res18", GPUs: 2, Arrival: 0.25, Iterations: 100}})
}

func TestAModelMayBeCalledAsACompressedFileBegins(t *testing.T) {
	same(t, "jobs", read(t, "0,BZh,0,1,1\n").Jobs, []trace.Job{{Model: "BZh", GPUs: 1, Iterations: 1}})
}

func TestAJobOfAnUnknownModelOrTooManyGPUsIsAnErrorOfItsLine(t *testing.T) {
	got := open(t, "recorded.csv")
	want := "trace testdata/recorded.csv: line 5: model = m5: want one of alexnet, gnmt, transformer, lstm"
	if err := got.CheckModels([]string{"alexnet", "gnmt", "transformer", "lstm"}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	want = "trace testdata/recorded.csv: line 6: gpus = 8: want no more than the 4 of the cluster"
	if err := got.CheckGPUs(4); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := got.CheckModels([]string{"alexnet", "gnmt", "transformer", "lstm", "m5"}); err != nil {
		t.Error(err)
	}
	if err := got.CheckGPUs(8); err != nil {
		t.Error(err)
	}
}

func TestAPhillyJobRunsForItsAttemptsThatCountOnTheGPUsOfTheLast(t *testing.T) {
	got := open(t, "philly.json")
	same(t, "entries", got.Entries, []trace.Entry{
		{ID: "application_2", User: "u2", Queue: "ee9e8c", Submitted: 3600, Duration: 1800, GPUs: 1, State: "Killed",
			Place: 1},
		{ID: "application_1", User: "u1", Queue: "ee9e8c", Submitted: 7899, Duration: 7274, GPUs: 5, State: "Pass",
			Place: 0},
		{ID: "application_7", User: "u3", Queue: "6214e9", Submitted: 90000, Duration: 3600, GPUs: 1, State: "Pass",
			Place: 2},
	})
	same(t, "dropped", got.Dropped, []trace.Dropped{
		{Why: "no attempt", Count: 1}, {Why: "never started", Count: 1}, {Why: "no GPU", Count: 1},
		{Why: "no time of submission", Count: 1},
	})
	same(t, "adjusted", got.Adjusted, []trace.Adjusted{
		{How: "counted without the last attempt: no end (still running, or not logged)", Count: 1},
	})
}

// attempted reads a Philly log of one job with these attempts.
func attempted(t *testing.T, attempts string) (*trace.Trace, error) {
	t.Helper()
	job := `[{"user": "a\"}\\", "jobid": "j", "submitted_time": "2017-10-07 00:00:00", "attempts": [` + attempts + `]}]`
	return trace.Read("a", strings.NewReader(job), trace.Philly)
}

func TestAnAttemptWithoutTimeOrGPUsAddsNothingAndChangesNothing(t *testing.T) {
	const counts = `{"start_time": "2017-10-07 00:00:00", "end_time": "2017-10-07 01:00:00", "detail": [{"gpus": ["a", "b"]}]}`
	for _, attempt := range []string{
		`{"start_time": "2017-10-07 02:00:00", "end_time": "2017-10-07 02:00:00", "detail": [{"gpus": ["a"]}]}`,
		`{"start_time": "2017-10-07 02:00:00", "end_time": "2017-10-07 01:59:00", "detail": [{"gpus": ["a"]}]}`,
		`{"start_time": "2017-10-07 02:00:00", "end_time": "2017-10-07 03:00:00", "detail": []}`,
		`{"start_time": "2017-10-07 02:00:00", "end_time": null, "detail": [{"gpus": ["a"]}]}`,
		`{"start_time": "None", "end_time": "2017-10-07 03:00:00", "detail": [{"gpus": ["a"]}]}`,
	} {
		for order, attempts := range map[string]string{"last": counts + "," + attempt,
			"first": attempt + "," + counts} {
			got, err := attempted(t, attempts)
			if err != nil {
				t.Fatal(err)
			}
			same(t, order+" "+attempt, got.Entries, []trace.Entry{{ID: "j", User: `a"}\`, Duration: 3600, GPUs: 2}})
			if adjusted := len(got.Adjusted) == 1; adjusted != (order == "last") {
				t.Errorf("%s %s: %v", order, attempt, got.Adjusted)
			}
		}
	}
}

func TestNoJobRunsForCenturies(t *testing.T) {
	const long = `{"start_time": "1970-01-01 00:00:00", "end_time": "2199-12-31 00:00:00", "detail": [{"gpus": ["a"]}]}`
	_, err := attempted(t, long+","+long)
	if want := "trace a: has no job that could be simulated (1: ran for centuries): want at least one"; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestPhillysTimeBeginsWithTheFirstJobThatWasAttemptedEvenIfItIsLeftOut(t *testing.T) {
	same(t, "begin", open(t, "philly.json").Begin, time.Date(2017, 10, 6, 23, 0, 0, 0, time.UTC))
}

func TestEntriesCanBeHadInTheOrderOfTheFile(t *testing.T) {
	var ids []string
	for _, e := range open(t, "philly.json").InFileOrder() {
		ids = append(ids, e.ID)
	}
	same(t, "order", ids, []string{"application_1", "application_2", "application_7"})
}

func TestACondensedLogIsInTheOrderOfSubmission(t *testing.T) {
	got := open(t, "condensed.csv")
	same(t, "entries", got.Entries, []trace.Entry{
		{ID: "3", Queue: "6c71a0", Submitted: 0, Duration: 860662, GPUs: 1, Place: 2},
		{ID: "4", Queue: "ee9e8c", Submitted: 666787, Duration: 193256, GPUs: 8, Place: 3},
		{ID: "5", Queue: "ee9e8c", Submitted: 666787, Duration: 12.5, GPUs: 4, Place: 4},
		{ID: "2", Queue: "6214e9", Submitted: 857671, Duration: 2951, GPUs: 1, Place: 1},
		{ID: "1", Queue: "11cb48", Submitted: 860603, Duration: 66, GPUs: 1, Place: 0},
	})
	same(t, "dropped", got.Dropped, []trace.Dropped{{Why: "ran for no time at all", Count: 1},
		{Why: "no GPU", Count: 1}})
	same(t, "begin", got.Begin, time.Date(2017, 9, 29, 7, 58, 32, 0, time.UTC))
}

func TestASecondIsEnoughForACondensedLogThatCountsThem(t *testing.T) {
	got := read(t, `"num_gpus","duration","timestamp",,`+"\n\n# a remark\n4,60,100.5,,\n1,30.25,40,,\n")
	same(t, "entries", got.Entries, []trace.Entry{
		{ID: "2", Submitted: 0, Duration: 30.25, GPUs: 1, Place: 1},
		{ID: "1", Submitted: 60.5, Duration: 60, GPUs: 4, Place: 0},
	})
	same(t, "begin", got.Begin, time.Time{})
}

func TestAPodThatSharesAGPUGetsAWholeOneAndOneWithoutIsLeftOut(t *testing.T) {
	got := open(t, "openb.csv")
	same(t, "entries", got.Entries, []trace.Entry{
		{ID: "pod-a", Submitted: 0, Duration: 12537396, GPUs: 1, State: "Running", Place: 0},
		{ID: "pod-b", Submitted: 426961, Duration: 12475899, GPUs: 1, State: "Running", Place: 1},
		{ID: "pod-d", Submitted: 9437397, Duration: 1332354, GPUs: 8, State: "Succeeded", Place: 2},
		{ID: "pod-g", Submitted: 10028200, Duration: 90, GPUs: 1, State: "Failed", Place: 3},
	})
	same(t, "dropped", got.Dropped, []trace.Dropped{
		{Why: "no GPU", Count: 1}, {Why: "never started", Count: 1}, {Why: "ran for no time at all", Count: 1},
		{Why: "no end", Count: 1},
	})
	same(t, "adjusted", got.Adjusted, []trace.Adjusted{{How: "a share of a GPU taken for a whole one", Count: 2}})
	same(t, "begin", got.Begin, time.Time{})
}

func TestAccountingIsPutTogetherToJobs(t *testing.T) {
	got := open(t, "sacct.txt")
	same(t, "entries", noReckoning(got.Entries), []trace.Entry{
		{ID: "1005", User: "bob", Queue: "gpu", Submitted: 0, Duration: 5400, GPUs: 4, State: "COMPLETED", Place: 4},
		{ID: "1001", User: "ann", Queue: "gpu", Submitted: 3600, Duration: 7200, GPUs: 2, State: "COMPLETED", Place: 0},
		{ID: "1003_1", User: "ann", Queue: "gpu", Submitted: 7200, Duration: 600, GPUs: 2, State: "FAILED", Place: 1},
		{ID: "1003_2", User: "ann", Queue: "gpu", Submitted: 7200, Duration: 1800, GPUs: 1, State: "CANCELLED",
			Place: 2},
		{ID: "1004", User: "cat", Queue: "gpu", Submitted: 10800, Duration: 3610, GPUs: 6, State: "COMPLETED",
			Place: 3},
		{ID: "1006", User: "cat", Queue: "gpu", Submitted: 14400, Duration: 9000, GPUs: 1, State: "RUNNING", Place: 5},
		{ID: "1007", User: "cat", Queue: "gpu", Submitted: 14400, Duration: 10, GPUs: 1, State: "COMPLETED", Place: 6},
	})
	same(t, "dropped", got.Dropped, []trace.Dropped{
		{Why: "no GPU", Count: 1}, {Why: "never started", Count: 2},
	})
	same(t, "adjusted", got.Adjusted, []trace.Adjusted{
		{How: "heterogeneous, its components taken for one job", Count: 1},
		{How: "restarted, all runs counted together", Count: 1},
		{How: "still running, counted for as long as it had run", Count: 1},
	})
}
