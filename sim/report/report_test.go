package report

import (
	"bytes"
	"flag"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// look is where TestReportsOfAllShapesCanBeLookedAt leaves its reports for people.
var look = flag.String("look", "", "write the reports of TestReportsOfAllShapesCanBeLookedAt into this directory")

// shapes are runs for reports of all shapes. Their jobs are so many times as many as tests need.
func shapes(times int) map[string][]outcome.Run {
	six := []string{"fifo", "srtf", "las", "ftf", "drf", "tetris"}
	three := []string{"proportional", "greedy", "tune"}
	var loads []outcome.Run
	for _, load := range []float64{2, 3, 4, 5, 6, 7} {
		for seed := range int64(3) {
			loads = append(loads, toy{servers: 4, perServer: 8, jobs: 50 * times, load: load, seed: seed}.cross(six[:3],
				three)...)
		}
	}
	crowd := toy{servers: 16, perServer: 8, jobs: 250 * times, load: 14, seed: 42, users: 20}
	crowd.window = outcome.Window{First: 100 * times, End: 150 * times}
	return map[string][]outcome.Run{
		"policies-and-allocators": crowd.cross(six, three),
		"loads-and-seeds":         loads,
		"one-policy":              toy{servers: 4, perServer: 8, jobs: 100, load: 30, seed: 1}.cross(six[:1], three),
		"one-allocator": toy{servers: 4, perServer: 8, jobs: 200, load: 20, seed: 1}.cross(six[:3],
			three[2:]),
		"one-run": toy{servers: 1, perServer: 8, jobs: 20, load: 5, seed: 1}.cross(six[2:3], three[2:]),
	}
}

// TestReportsOfAllShapesCanBeLookedAt checks the texts of reports; -run LookedAt -look DIR writes larger ones for
// people.
func TestReportsOfAllShapesCanBeLookedAt(t *testing.T) {
	options := Options{Command: "go test -run LookedAt", Version: "of a test", Family: toyFamily}
	if *look == "" {
		for name, runs := range shapes(1) {
			for file, data := range text(t, runs, options) {
				checkFile(t, name+"/"+file, data)
			}
		}
		return
	}
	for name, runs := range shapes(10) {
		if err := Write(filepath.Join(*look, name), runs, options); err != nil {
			t.Error(err)
		}
	}
}

func TestEveryPictureIsWrittenAsPNG(t *testing.T) {
	for name, data := range written(t, small()[:3], Options{}) {
		checkFile(t, name, data)
	}
}

// mostBytes is how large a page may be.
const mostBytes = 5 << 20

func checkFile(t *testing.T, name string, data []byte) {
	t.Helper()
	switch filepath.Ext(name) {
	case ".png":
		if _, err := png.Decode(bytes.NewReader(data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	case ".svg", ".html":
		parse(t, data)
		if bytes.Contains(data, []byte("NaN")) || bytes.Contains(data, []byte("Inf")) {
			t.Errorf("%s has a number that is none", name)
		}
		if len(data) > mostBytes {
			t.Errorf("%s has %d bytes, want at most %d", name, len(data), mostBytes)
		}
	}
}

func TestEqualOutcomesGiveEqualBytesHoweverLongTheyTook(t *testing.T) {
	one, other := small()[:2], small()[:2]
	for i := range other {
		other[i].Wall = time.Duration(i) * time.Second
	}
	first, second := written(t, one, Options{}), written(t, other, Options{})
	for name, data := range first {
		if !bytes.Equal(data, second[name]) {
			t.Errorf("%s differs", name)
		}
	}
	if len(first) != len(second) {
		t.Errorf("%d and %d files", len(first), len(second))
	}
}

func TestARunWithoutFinishedJobsGetsANoteAndNoNumber(t *testing.T) {
	for name, some := range map[string]bool{"some runs": true, "all runs": false} {
		runs := small()
		for i := range runs {
			if some && i != 1 {
				continue
			}
			runs[i].Jobs = append([]outcome.Job(nil), runs[i].Jobs...)
			for j := range runs[i].Jobs {
				runs[i].Jobs[j].Finish = -1
			}
		}
		files := text(t, runs, Options{})
		row := cells(parse(t, files["index.html"]).below(t, "results"))[1]
		if len(row) != 3 || !strings.Contains(row[2], "none finished") {
			t.Errorf("%s: %q, want a note in place of figures", name, row)
		}
		for file, data := range files {
			checkFile(t, name+": "+file, data)
		}
	}
}

func TestARunWithoutRoundsAndSpansHasNoPlotsOverTime(t *testing.T) {
	runs := small()
	for i := range runs {
		runs[i].Rounds, runs[i].Spans = nil, nil
	}
	files := text(t, runs, Options{})
	for name := range files {
		if strings.HasPrefix(name, "gantt") || strings.HasPrefix(name, "allocation") {
			t.Errorf("there is %s", name)
		}
	}
	if !bytes.Contains(files["index.html"], []byte("No run recorded its rounds")) {
		t.Error("the page does not say why there is no plot over time")
	}
}

func TestAReportOverwritesItsFilesAndTouchesNothingElse(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"index.html", "mine.txt", "gantt-99.png"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Write(dir, small()[:1], Options{}); err != nil {
		t.Fatal(err)
	}
	files := read(t, dir)
	if string(files["mine.txt"]) != "mine" || string(files["gantt-99.png"]) != "mine" ||
		string(files["index.html"]) == "mine" {
		t.Error("a file that is none of the report's was touched, or one that is was not")
	}
}

func TestAnErrorNamesThePathThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	blocked := filepath.Join(dir, "blocked")
	if err := os.MkdirAll(filepath.Join(blocked, "index.html"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		taken:                       taken + " is a file: want a directory",
		filepath.Join(taken, "sub"): taken,
		blocked:                     filepath.Join(blocked, "index.html"),
	} {
		if err := Write(path, small()[:1], Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", path, err, want)
		}
	}
}

func TestWhatNoSimulationCanGiveIsAnErrorThatNamesIt(t *testing.T) {
	for want, spoil := range map[string]func(*outcome.Run){
		`load = NaN: want a number from 0`:                              func(r *outcome.Run) { r.Setting.Load = math.NaN() },
		`round 3: demand = +Inf: want a number from 0`:                  func(r *outcome.Run) { r.Rounds[3].Demand = math.Inf(1) },
		`round 3: GPUs = -1: want a number from 0`:                      func(r *outcome.Run) { r.Rounds[3].GPUs = -1 },
		`round 4: at 0 s, and the one before at 1200 s`:                 func(r *outcome.Run) { r.Rounds[4].At = 0 },
		`span 0: job 0: from 300 to 1 s: want moments from 0`:           func(r *outcome.Run) { r.Spans[0].To = 1 },
		`span 0: job 0: 1 GPUs of server -1: want numbers from 0`:       func(r *outcome.Run) { r.Spans[0].Server, r.Spans[0].GPUs = -1, 1 },
		`span 0: job 0: GPU 1073741824: want one from 0 to 1048576`:     func(r *outcome.Run) { r.Spans[0].Devices = []int{1 << 30} },
		`report: run 0 (fifo, proportional): round = -5: want a number`: func(r *outcome.Run) { r.Setting.RoundSeconds = -5 },
	} {
		run := small()[0]
		spoil(&run)
		if err := Write(t.TempDir(), []outcome.Run{run}, Options{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

func TestAReportOfNoRunIsAnErrorAndWritesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if err := Write(dir, nil, Options{}); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory was made")
	}
}

// TestAPageStaysBelowFiveMegabytesHoweverMuchIsSimulated has more policies, loads and seeds than are drawn, and every
// run at full length.
func TestAPageStaysBelowFiveMegabytesHoweverMuchIsSimulated(t *testing.T) {
	var runs []outcome.Run
	one := huge(2_000)
	for _, policy := range []string{"fifo", "srtf", "las", "ftf", "drf", "tetris"} {
		for _, allocator := range []string{"proportional", "greedy", "tune", "opt"} {
			for _, load := range []float64{1, 2, 3, 4, 5, 6} {
				run := one
				run.Setting.Policy, run.Setting.Allocator, run.Setting.Load = policy, allocator, load
				runs = append(runs, run)
			}
		}
	}
	if size := len(text(t, runs, Options{})["index.html"]); size > mostBytes {
		t.Errorf("%d bytes, want at most %d", size, mostBytes)
	}
}
