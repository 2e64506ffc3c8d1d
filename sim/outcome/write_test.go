package outcome_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// pair is the same three jobs under two allocators.
func pair() []outcome.Run {
	base := run(3600, 7200, 10800)
	base.Setting = outcome.Setting{Engine: "production", Policy: "fifo", Allocator: "proportional", Load: 9,
		Cluster: "1x2:6:125", Seed: 42,
		RoundSeconds: 300, RestartSeconds: 60}
	base.BusyGPUs, base.BusyCPUs, base.BusyMemory = 2*10800, 3*10800, 12.5*10800
	tune := run(1800, 3600, 9000)
	tune.Setting = base.Setting
	tune.Setting.Allocator = "tune"
	tune.BusyGPUs, tune.BusyCPUs, tune.Held, tune.Jobs[2].Starts = 9000, 6*9000, 1200, 3
	return []outcome.Run{base, tune}
}

var redraw = flag.Bool("redraw", false, "rewrite the drawings of tables in testdata")

// drawn compares what is written with a drawing in testdata.
func drawn(t *testing.T, name string, write func(w io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *redraw {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got.String() != string(want) {
		t.Errorf("%v: %s is\n%s\nwant\n%s", err, name, &got, want)
	}
}

func TestTheTableSaysOnceWhatRunsHaveInCommon(t *testing.T) {
	drawn(t, "compared.txt", func(w io.Writer) error { return outcome.WriteTable(w, pair()) })
}

func TestTheTableHasAColumnForEachThingInWhichRunsDiffer(t *testing.T) {
	runs := pair()
	runs[0].Setting.Window = outcome.Window{First: 1, End: 3}
	runs[1].Setting = outcome.Setting{Engine: "artifact", Policy: "las", Allocator: "tune", Placement: "random",
		Ratio: 3, Static: true,
		Workload: "a \x1b[31mred\x1b[0m file " + strings.Repeat("with a long name ", 9), Until: 9000, AtRounds: true,
		Strict: true}
	runs[1].Jobs[2].Finish, runs[1].Wall = -1, 90*time.Second
	drawn(t, "different.txt", func(w io.Writer) error { return outcome.WriteTable(w, runs) })
}

func TestTimesAreInTheUnitThatSuitsTheirMeans(t *testing.T) {
	runs := pair()
	runs[0].Jobs, runs[1].Jobs = run(10, 20, 4000).Jobs, run(1, 50, 100).Jobs
	runs[0].Wall, runs[1].Wall = 7*time.Millisecond, 70*time.Microsecond
	drawn(t, "units.txt", func(w io.Writer) error { return outcome.WriteTable(w, runs) })
}

func TestARunWithoutFiguresIsShownEmptyAndTheErrorSaysWhy(t *testing.T) {
	runs := pair()
	runs[1].Setting.Window = outcome.Window{First: 7, End: 9}
	const want = "fifo × tune at 9 jobs/h: window of jobs 7 to 8: none arrived: 3 jobs arrived, with IDs from 0 to 2"
	drawn(t, "empty.txt", func(w io.Writer) error {
		if err := outcome.WriteTable(w, runs); err == nil || err.Error() != want {
			t.Errorf("the error is %v", err)
		}
		return nil
	})
	var written bytes.Buffer
	if err := outcome.WriteJSON(&written, runs); err == nil || err.Error() != want {
		t.Errorf("the error is %v", err)
	}
	var document outcome.Document
	if err := json.Unmarshal(written.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	if r := document.Runs; len(r) != 2 || r[0].Summary == nil || r[0].Fault != "" || r[1].Summary != nil ||
		r[1].Fault != want {
		t.Errorf("the document has %+v", r)
	}
}

func TestATableOfNothingIsAnError(t *testing.T) {
	if err := outcome.WriteTable(io.Discard, nil); err == nil {
		t.Error("no runs are a table")
	}
	if err := outcome.WriteRows(io.Discard, nil); err == nil {
		t.Error("no rows are a table")
	}
}

func TestTheTableOfModelsLeavesTimesOutWhereNoneHasFinished(t *testing.T) {
	r := run(3600, 60, -1)
	r.Jobs[1].Model, r.Jobs[2].Model = "gnmt", "\x1bc"
	drawn(t, "models.txt", func(w io.Writer) error { return outcome.WriteRows(w, outcome.ByModel(r)) })
	r.Jobs[1].GPUs = 16
	drawn(t, "gpus.txt", func(w io.Writer) error { return outcome.WriteRows(w, outcome.ByGPUs(r)) })
}

func TestTheDocumentIsDrawnFieldByField(t *testing.T) {
	runs := pair()
	runs[1].Setting.Window, runs[1].Setting.Allocator = outcome.Window{First: 0, End: 2}, "proportional"
	runs[1].Wall = 250 * time.Millisecond
	drawn(t, "document.json", func(w io.Writer) error { return outcome.WriteJSON(w, runs) })
}

func TestTheDocumentReadsBackAsItWas(t *testing.T) {
	var written bytes.Buffer
	if err := outcome.WriteJSON(&written, pair()); err != nil {
		t.Fatal(err)
	}
	var document outcome.Document
	decoder := json.NewDecoder(&written)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&document); err != nil {
		t.Fatal(err)
	}
	results, err := outcome.Results(pair())
	if err != nil || document.Version != outcome.Version || !reflect.DeepEqual(document.Runs, results) {
		t.Errorf("%v: %+v\nwas %+v", err, document, results)
	}
}

func TestTheJobsFileHasTheHeaderThatIsPromisedAndEmptyFieldsForWhatNeverHappened(t *testing.T) {
	r := run(0.1, -1, -1)
	r.Jobs[0].Arrival, r.Jobs[0].FirstRun, r.Jobs[0].Finish, r.Jobs[0].AttainedGPU = 0.1, 0.2, 0.3, 1e-7
	r.Jobs[1].Model, r.Jobs[1].FirstRun, r.Jobs[1].Starts, r.Jobs[1].GPUs = "a,b", 1e21, 2, 16
	r.Jobs[2].Model, r.Jobs[2].FirstRun, r.Jobs[2].Starts = "\x1b[2J", -1, 0
	written(t, `job_id,model,gpus,arrival_s,first_run_s,finish_s,jct_s,starts,attained_gpu_s
0,res50,1,0.1,0.2,0.3,0.19999999999999998,1,0.0000001
1,"a,b",16,0,1000000000000000000000,,,2,0
2,"""\x1b[2J""",1,0,,,,0,0
`, func(w io.Writer) error { return outcome.WriteJobs(w, []outcome.Run{r}) })
}

func TestTheRoundsFileHasTheHeaderThatIsPromised(t *testing.T) {
	r := run(1)
	r.Rounds = []outcome.Round{
		{At: 300.5, Running: 1, Waiting: 2, GPUs: 3, CPUs: 4.5, Memory: 62.5, Demand: 7, Started: 8, Stopped: 9,
			Value: 1.25, Bound: 1.5},
		{At: 600.5},
	}
	written(t, `at_s,running,waiting,gpus,cpus,memory_gb,demand_gpus,started,stopped,value,bound
300.5,1,2,3,4.5,62.5,7,8,9,1.25,1.5
600.5,0,0,0,0,0,0,0,0,,
`, func(w io.Writer) error { return outcome.WriteRounds(w, []outcome.Run{r}) })
}

func TestFilesOfSeveralRunsSayInFrontWhichRunALineIsOf(t *testing.T) {
	runs := pair()
	for i := range runs {
		runs[i].Jobs = runs[i].Jobs[:1]
		runs[i].Rounds = []outcome.Round{{At: 300}}
	}
	runs[1].Setting.Load = 3.5
	written(t, `policy,allocator,load,job_id,model,gpus,arrival_s,first_run_s,finish_s,jct_s,starts,attained_gpu_s
fifo,proportional,9,0,res50,1,0,0,3600,3600,1,0
fifo,tune,3.5,0,res50,1,0,0,1800,1800,1,0
`, func(w io.Writer) error { return outcome.WriteJobs(w, runs) })
	written(t, `policy,allocator,load,at_s,running,waiting,gpus,cpus,memory_gb,demand_gpus,started,stopped,value,bound
fifo,proportional,9,300,0,0,0,0,0,0,0,0,,
fifo,tune,3.5,300,0,0,0,0,0,0,0,0,,
`, func(w io.Writer) error { return outcome.WriteRounds(w, runs) })
}

func written(t *testing.T, want string, write func(w io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil || got.String() != want {
		t.Errorf("%v: written\n%s\nwant\n%s", err, &got, want)
	}
}

func TestNumbersInTheJobsFileReadBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		moment := rapid.Float64Range(0, 1e9)
		job := outcome.Job{ID: 1, Arrival: moment.Draw(t, "arrival"), FirstRun: moment.Draw(t, "first run"),
			Finish: moment.Draw(t, "finish")}
		var file bytes.Buffer
		if err := outcome.WriteJobs(&file, []outcome.Run{{Jobs: []outcome.Job{job}}}); err != nil {
			t.Fatal(err)
		}
		lines, err := csv.NewReader(&file).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []float64{job.Arrival, job.FirstRun, job.Finish, job.Finish - job.Arrival} {
			if got := number(t, lines[1][3+i]); got != want {
				t.Fatalf("%s: %v, want %v", lines[0][3+i], got, want)
			}
		}
	})
}

// TestNothingThatIsWrittenMovesATerminal draws names from outside that may hold anything.
func TestNothingThatIsWrittenMovesATerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()),
			func(b []byte) string { return string(b) }))
		runs := pair()
		for i := range runs {
			s := &runs[i].Setting
			for _, field := range []*string{&s.Engine, &s.Policy, &s.Placement, &s.Split, &s.Workload, &s.Cluster} {
				*field = name.Draw(t, "setting")
			}
			runs[i].Jobs[0].Model = name.Draw(t, "model")
		}
		runs[1].Setting.Window = outcome.Window{First: 9, End: 10} // its error names the setting
		var out bytes.Buffer
		for _, err := range []error{
			outcome.WriteTable(&out, runs), outcome.WriteRows(&out, outcome.ByModel(runs[0])),
			outcome.WriteJSON(&out, runs),
			outcome.WriteJobs(&out, runs), outcome.WriteRounds(&out, runs),
		} {
			fmt.Fprintln(&out, err)
		}
		if !utf8.Valid(out.Bytes()) {
			t.Fatalf("written in no encoding:\n%s", &out)
		}
		for _, r := range out.String() {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q is written in\n%s", r, &out)
			}
		}
	})
}

// narrow is a disk that is full after some bytes.
type narrow struct{ left int }

var errFull = errors.New("no space")

func (n *narrow) Write(p []byte) (int, error) {
	if n.left -= len(p); n.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestAFullDiskIsAnErrorOfEveryWriter(t *testing.T) {
	runs := pair()
	runs[0].Rounds = []outcome.Round{{}}
	for name, write := range map[string]func(w io.Writer) error{
		"table":  func(w io.Writer) error { return outcome.WriteTable(w, runs) },
		"rows":   func(w io.Writer) error { return outcome.WriteRows(w, outcome.ByGPUs(runs[0])) },
		"JSON":   func(w io.Writer) error { return outcome.WriteJSON(w, runs) },
		"jobs":   func(w io.Writer) error { return outcome.WriteJobs(w, runs) },
		"rounds": func(w io.Writer) error { return outcome.WriteRounds(w, runs) },
	} {
		var whole bytes.Buffer
		if err := write(&whole); err != nil {
			t.Fatal(err)
		}
		for room := whole.Len() - 1; room >= 0; room -= 41 {
			if err := write(&narrow{room}); !errors.Is(err, errFull) {
				t.Errorf("%s with room for %d of %d bytes: %v", name, room, whole.Len(), err)
			}
		}
	}
}

func TestAResultThatIsNotANumberIsNeverWritten(t *testing.T) {
	runs := pair()
	runs[0].Setting.RoundSeconds = math.NaN()
	if err := outcome.WriteJSON(io.Discard, runs); err == nil {
		t.Error("NaN is written")
	}
}
