package ledger_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
)

var (
	_ bridge.Ledger = (*ledger.Book)(nil)
	_ bridge.Ledger = (*ledger.Memory)(nil)
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// shelf is what both kinds of ledger are asked in these tests.
type shelf interface {
	bridge.Ledger
	LastRound() int
	Rounds() ([]int, error)
	Report(round int) (bridge.Report, error)
	Latest() (bridge.Report, error)
	Reports() ([]bridge.Report, error)
}

// onEach runs a test on both kinds, each of which keeps three reports.
func onEach(t *testing.T, test func(t *testing.T, l shelf)) {
	t.Run("Book", func(t *testing.T) { test(t, open(t, filepath.Join(t.TempDir(), "ledger"))) })
	t.Run("Memory", func(t *testing.T) { test(t, &ledger.Memory{Keep: 3}) })
}

func open(t *testing.T, path string) *ledger.Book {
	t.Helper()
	book, err := ledger.Open(path, ledger.Options{Keep: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	return book
}

func recordOf(job int) *bridge.Record {
	return &bridge.Record{Job: job, First: noon, Attained: 1.5 * float64(job), Until: noon, Starts: 2,
		Own: slurm.Request{Nodes: 1, Tasks: 1, GRES: "gres/gpu:1", GPUs: 1, Pin: []string{"n1", "n2"}}}
}

func recordsOf(jobs ...int) bridge.Records {
	var records bridge.Records
	for _, job := range jobs {
		records = append(records, recordOf(job))
	}
	return records
}

func intentOf(round int) bridge.Intent {
	return bridge.Intent{Round: round, At: noon, Steps: []bridge.Step{{Job: 1, Verb: bridge.Renew, Why: "it waits"}}}
}

func reportOf(round int) bridge.Report {
	return bridge.Report{Round: round, Began: noon,
		Plan: policy.Plan{Decisions: []policy.Decision{{Job: 1, Why: "no GPU is free"}}}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, l bridge.Ledger) (bridge.Records, *bridge.Intent) {
	t.Helper()
	records, intent, err := l.Load()
	must(t, err)
	return records, intent
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s is\n%+v, want\n%+v", what, got, want)
	}
}

func TestANewLedgerKnowsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, l shelf) {
		records, intent := load(t, l)
		if len(records) != 0 || intent != nil {
			t.Errorf("loaded %v and %v", records, intent)
		}
		if _, err := l.Latest(); !errors.Is(err, ledger.ErrNoReport) {
			t.Errorf("the last report: %v", err)
		}
		equal(t, "the last round", l.LastRound(), 0)
	})
}

func TestHowGoodAPlanWasIsKeptAndAReportThatDoesNotSayItIsReadAllTheSame(t *testing.T) {
	onEach(t, func(t *testing.T, l shelf) {
		must(t, l.Settle(recordsOf(1), reportOf(1)))
		certified := reportOf(2)
		certified.Certificate = &bound.Certificate{Value: 2, Bound: 2.5, Method: bound.ByConfigurations}
		must(t, l.Settle(recordsOf(1), certified))
		before, err := l.Report(1)
		must(t, err)
		after, err := l.Report(2)
		must(t, err)
		if before.Certificate != nil || after.Certificate == nil || after.Certificate.Ratio() != 0.8 {
			t.Errorf("round 1: %v, round 2: %v", before.Certificate, after.Certificate)
		}
	})
}

func TestAnIntentStandsUntilItsRoundIsSettled(t *testing.T) {
	onEach(t, func(t *testing.T, l shelf) {
		must(t, l.Intend(intentOf(4)))
		_, intent := load(t, l)
		want := intentOf(4)
		equal(t, "the intent", intent, &want)

		must(t, l.Settle(recordsOf(1), reportOf(4)))
		if _, intent := load(t, l); intent != nil {
			t.Errorf("after the settlement: %v", intent)
		}
	})
}

func TestAJobThatIsNotSettledAgainIsForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, l shelf) {
		must(t, l.Settle(recordsOf(1, 2, 300), reportOf(1)))
		must(t, l.Settle(recordsOf(2, 4), reportOf(2)))
		records, _ := load(t, l)
		equal(t, "the records", records, recordsOf(2, 4))
	})
}

func TestRecordsThatAreNotOneForEachJobInOrderAreRefusedAndNothingChanges(t *testing.T) {
	onEach(t, func(t *testing.T, l shelf) {
		must(t, l.Settle(recordsOf(1), reportOf(1)))
		must(t, l.Intend(intentOf(2)))
		for _, jobs := range [][]int{{0}, {-1, 1}, {1, 3, 2}, {1, 2, 2}} {
			if err := l.Settle(recordsOf(jobs...), reportOf(2)); err == nil {
				t.Errorf("the records of jobs %v were settled", jobs)
			}
		}
		records, intent := load(t, l)
		equal(t, "the records", records, recordsOf(1))
		if intent == nil {
			t.Error("the intent is gone")
		}
	})
}

func TestOnlyTheLastReportsAreKeptOldestFirst(t *testing.T) {
	onEach(t, func(t *testing.T, l shelf) {
		for round := 7; round <= 12; round++ {
			must(t, l.Settle(nil, reportOf(round)))
		}
		rounds, err := l.Rounds()
		must(t, err)
		equal(t, "the rounds", rounds, []int{10, 11, 12})

		reports, err := l.Reports()
		must(t, err)
		equal(t, "the reports", reports, []bridge.Report{reportOf(10), reportOf(11), reportOf(12)})
		if _, err := l.Report(9); !errors.Is(err, ledger.ErrNoReport) {
			t.Errorf("the report of round 9: %v", err)
		}
		report, err := l.Report(11)
		must(t, err)
		equal(t, "the report of round 11", report, reportOf(11))
	})
}

func TestTheNewestReportIsTheLastSettledWhateverItsNumber(t *testing.T) {
	onEach(t, func(t *testing.T, l shelf) {
		for _, round := range []int{900, 901, 902, 1} {
			must(t, l.Settle(nil, reportOf(round)))
		}
		report, err := l.Latest()
		must(t, err)
		equal(t, "the last report", report, reportOf(1))
		equal(t, "the last round", l.LastRound(), 1)
	})
}

func TestWhatIsLoadedIsTheCallersToChange(t *testing.T) {
	onEach(t, func(t *testing.T, l shelf) {
		given := recordsOf(1, 2)
		must(t, l.Settle(given, reportOf(1)))
		given[0].Own.Pin[0] = "n9"

		loaded, _ := load(t, l)
		loaded[0].Own.Pin[1], loaded[0].Starts = "n9", 9
		loaded[1] = recordOf(7)
		records, _ := load(t, l)
		equal(t, "the records", records, recordsOf(1, 2))
	})
}

func TestALedgerSurvivesAReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	book := open(t, path)
	must(t, book.Settle(recordsOf(1, 2), reportOf(3)))
	must(t, book.Intend(intentOf(4)))
	must(t, book.Close())

	book = open(t, path)
	records, intent := load(t, book)
	equal(t, "the records", records, recordsOf(1, 2))
	want := intentOf(4)
	equal(t, "the intent", intent, &want)
	report, err := book.Latest()
	must(t, err)
	equal(t, "the last report", report, reportOf(3))
	equal(t, "the last round", book.LastRound(), 3)
}

func TestARoundIsToldWhenTheLedgerCannotBeWritten(t *testing.T) {
	book := open(t, filepath.Join(t.TempDir(), "ledger"))
	must(t, book.Close())
	if err := book.Intend(intentOf(1)); !errors.Is(err, ledger.ErrUnkept) {
		t.Errorf("the intent: %v", err)
	}
	if err := book.Settle(nil, reportOf(1)); !errors.Is(err, ledger.ErrUnkept) {
		t.Errorf("the settlement: %v", err)
	}
}

func TestOnlyItsOwnerReadsALedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	book := open(t, path)
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
	size, err := book.Size()
	must(t, err)
	equal(t, "its size", size, info.Size())
}

func TestASecondOpenerIsToldThatTheLedgerIsInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	open(t, path)
	_, err := ledger.Open(path, ledger.Options{Wait: time.Millisecond})
	if !errors.Is(err, ledger.ErrLocked) {
		t.Errorf("the second opener got %v", err)
	}
}

func TestWhatIsSettledIsLoaded(t *testing.T) {
	dir := t.TempDir()
	files := 0
	rapid.Check(t, func(t *rapid.T) {
		files++
		path := filepath.Join(dir, fmt.Sprint(files))
		settled := bridge.Records(rapid.SliceOfNDistinct(rapid.Custom(drawRecord), 0, 20,
			func(r *bridge.Record) int { return r.Job }).Draw(t, "records"))
		slices.SortFunc(settled, func(a, b *bridge.Record) int { return cmp.Compare(a.Job, b.Job) })
		book, err := ledger.Open(path, ledger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := book.Settle(settled, reportOf(1)); err != nil {
			t.Fatal(err)
		}
		book.Close()
		if book, err = ledger.Open(path, ledger.Options{}); err != nil {
			t.Fatal(err)
		}
		defer book.Close()
		loaded, _, err := book.Load()
		if err != nil || len(loaded)+len(settled) > 0 && !reflect.DeepEqual(loaded, settled) {
			t.Fatalf("loaded %v, %v", loaded, err)
		}
	})
}

func drawRecord(t *rapid.T) *bridge.Record {
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
	})
	return &bridge.Record{
		Job:      rapid.IntRange(1, 1<<31).Draw(t, "job"),
		First:    moment.Draw(t, "first"),
		Attained: rapid.Float64Range(0, 1e12).Draw(t, "attained"),
		Done:     time.Duration(rapid.Int64().Draw(t, "done")),
		Until:    moment.Draw(t, "until"),
		Starts:   rapid.Int().Draw(t, "starts"),
		Failed:   rapid.Int().Draw(t, "failed"),
		Refused:  bridge.Refusal{Reason: rapid.String().Draw(t, "refused"), Times: rapid.Int().Draw(t, "times")},
		Own:      rapid.Custom(drawRequest).Draw(t, "own"),
	}
}

func drawRequest(t *rapid.T) slurm.Request {
	request := slurm.Request{
		Nodes:       rapid.Int().Draw(t, "nodes"),
		CPUsPerTask: rapid.Int().Draw(t, "cpus per task"),
		GRES:        rapid.String().Draw(t, "gres"),
		GPUType:     rapid.String().Draw(t, "type"),
	}
	if pin := rapid.SliceOfN(rapid.String(), 1, 4).Draw(t, "pin"); rapid.Bool().Draw(t, "pinned") {
		request.Pin = pin
	}
	return request
}
