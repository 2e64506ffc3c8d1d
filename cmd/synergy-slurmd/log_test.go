package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
)

// busyReport is a round in which something of everything happened.
func busyReport() bridge.Report {
	grant := &policy.Placement{Nodes: []string{"n1", "n2"}, PerNode: gres.Vector{GPUs: 2, CPUs: 10, Memory: 50_000}}
	return bridge.Report{
		Round: 17,
		Phases: []bridge.Phase{{Name: "observe", Took: 250 * time.Millisecond},
			{Name: "settle", Took: time.Millisecond}},
		Snapshot: policy.Cluster{
			Nodes: []policy.Node{
				{Name: "n1", Total: gres.Vector{GPUs: 8}, Foreign: gres.Vector{GPUs: 1}},
				{Name: "n2", Total: gres.Vector{GPUs: 8}, Closed: "DRAIN"},
			},
			Jobs: []policy.Job{{ID: 12, User: "alice", ProfileName: "res18.json", Running: grant}},
		},
		Plan: policy.Plan{Decisions: []policy.Decision{
			{Job: 12, Grant: grant, Gain: 1.5, Fair: gres.Vector{GPUs: 2, CPUs: 6, Memory: 125_000}},
			{Job: 13, Reason: policy.Gang, Why: "no node has 8 free GPUs"},
			{Job: 14, Reason: "a word nobody knows", Why: "…"},
		}},
		Steps: []bridge.Step{
			{Job: 12, Verb: bridge.Start, Grant: grant, Why: "it waited and is granted", Took: 1500 * time.Millisecond,
				Changes: []bridge.Change{{Field: "cpus_per_task", Old: "3", New: "10"},
					{Field: "begin_time", Old: "2026-11-21T12:00:00Z", New: "at once"}}},
			{Job: 13, Verb: bridge.Renew, Why: "no node has 8 free GPUs",
				Changes: []bridge.Change{{Field: "begin_time", Old: "a", New: "b"}}},
			{Job: 15, Verb: bridge.Preempt, Why: "job 12 goes first", Error: "signal: slurmrestd: 500 error 2021",
				Cost: &bridge.RestartCost{Save: 12.5, Start: 30, By: bridge.ByRestarts}},
		},
		Waits: []bridge.Wait{
			{Job: 13, Reason: bridge.ForRoom, Cause: bridge.CauseGang, Why: "no node has 8 free GPUs"},
			{Job: 14, Reason: bridge.ForRoom, Cause: bridge.CauseOther, Why: "…"},
			{Job: 20, Reason: bridge.OnHold, Cause: bridge.CauseHeld, Why: "held"},
		},
		Outside: []bridge.Outside{{Job: 20, Why: "a job array is left to Slurm"}},
		Notes: []bridge.Note{{Job: 13, Text: "profile \"x.json\": no such profile"},
			{Job: 13, Text: "synergy-length=soon: want a number"}},
	}
}

// written is what a journal writes about rounds, without times.
func written(level zerolog.Level, rounds func(j *journal)) string {
	var lines bytes.Buffer
	rounds(&journal{log: zerolog.New(&lines).Level(level)})
	return lines.String()
}

func TestEveryChangedFieldIsOneLineOfTheLog(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("testdata", "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	got := written(zerolog.InfoLevel, func(j *journal) { j.round(busyReport(), 2*time.Second, nil) })
	if got != string(want) {
		t.Errorf("the log is\n%s, want\n%s", got, want)
	}
}

func TestARoundSaysInOneSentenceHowGoodItsPlanIs(t *testing.T) {
	report := busyReport()
	report.Certificate = &bound.Certificate{Value: 118.4, Bound: 119, Core: 0.004, Stranded: bound.Stranded{Cores: 3}}
	lines := written(zerolog.InfoLevel, func(j *journal) { j.round(report, time.Second, nil) })
	const want = `"plan":"value 118.4 of at most 119.0 (99.4 %); one more core a node is worth 0.4 %, one more GB nothing; ` +
		`3 GPUs stranded for want of cores","running":`
	if !strings.Contains(lines, want) {
		t.Errorf("there is no %s in\n%s", want, lines)
	}
}

func TestLeaseRenewalsAreForDebugging(t *testing.T) {
	lines := written(zerolog.DebugLevel, func(j *journal) { j.round(busyReport(), time.Second, nil) })
	if !strings.Contains(lines, `{"level":"debug","round":17,"job":13,"verb":"renew",`) {
		t.Errorf("there is none in\n%s", lines)
	}
}

func TestWhatWasSaidAboutAJobIsNotSaidAgainUntilItIsNews(t *testing.T) {
	quiet := bridge.Report{Outside: busyReport().Outside, Notes: busyReport().Notes}
	lines := written(zerolog.InfoLevel, func(j *journal) {
		for range 3 {
			j.round(quiet, time.Second, nil)
		}
		j.round(bridge.Report{}, time.Second, nil)
		j.round(quiet, time.Second, nil)
	})
	for text, times := range map[string]int{"left to slurm": 2, "no such profile": 2, "want a number": 2} {
		if got := strings.Count(lines, text); got != times {
			t.Errorf("%q is said %d times in\n%s", text, got, lines)
		}
	}
}

func TestAHealthyRoundDoesNotReadFailed(t *testing.T) {
	healthy := busyReport()
	healthy.Steps = healthy.Steps[:2]
	lines := written(zerolog.InfoLevel, func(j *journal) {
		j.round(healthy, time.Second, nil)
		j.smallRound(healthy, time.Second, nil)
	})
	if strings.Contains(lines, "failed") || strings.Contains(lines, "put_off") {
		t.Errorf("nothing failed, and the log says\n%s", lines)
	}
}

// waiting is a round in which these jobs wait, each for its reason.
func waiting(causes map[int]bridge.WaitCause, words string) bridge.Report {
	var report bridge.Report
	for _, id := range slices.Sorted(maps.Keys(causes)) {
		report.Snapshot.Jobs = append(report.Snapshot.Jobs, policy.Job{ID: id, User: "alice", ProfileName: "gnmt.json"})
		report.Waits = append(report.Waits,
			bridge.Wait{Job: id, Reason: causes[id].Reason(), Cause: causes[id], Why: words})
	}
	return report
}

func TestWhyAJobWaitsIsSaidWhenTheReasonChangesAndNotWhenTheWordsDo(t *testing.T) {
	lines := written(zerolog.InfoLevel, func(j *journal) {
		for _, words := range []string{"4 GPUs are free", "3 GPUs are free", "2 GPUs are free"} {
			j.round(waiting(map[int]bridge.WaitCause{7: bridge.CauseGang}, words), time.Second, nil)
		}
		j.round(waiting(map[int]bridge.WaitCause{7: bridge.CauseTurn}, "its turn comes later"), time.Second, nil)
		j.round(bridge.Report{}, time.Second, nil)
		j.round(waiting(map[int]bridge.WaitCause{7: bridge.CauseTurn}, "once more"), time.Second, nil)
	})
	if got := strings.Count(lines, `"message":"waits"`); got != 3 {
		t.Errorf("said %d times in\n%s", got, lines)
	}
	if want := `"job":7,"user":"alice","profile":"gnmt.json","waits_for":"room","cause":"gang","reason":"4 GPUs are free","message":"waits"`; !strings.Contains(lines, want) {
		t.Errorf("%s is not in\n%s", want, lines)
	}
}

func TestAFloodOfWaitingJobsIsNoFloodOfLines(t *testing.T) {
	many := make(map[int]bridge.WaitCause)
	for id := range 2000 {
		many[id+1] = bridge.CauseTurn
	}
	lines := written(zerolog.InfoLevel, func(j *journal) {
		for range 3 {
			j.round(waiting(many, "later"), time.Second, nil)
		}
	})
	if got := strings.Count(lines, "\n"); got != waitLines+1+3 || !strings.Contains(lines, `"jobs":1950`) {
		t.Errorf("%d lines:\n%.2000s", got, lines)
	}
}

func TestAStoppedJobDoesNotWait(t *testing.T) {
	report := waiting(map[int]bridge.WaitCause{7: bridge.CauseGaveWay}, "job 8 goes first")
	report.Snapshot.Jobs[0].Running = &policy.Placement{}
	if lines := written(zerolog.InfoLevel,
		func(j *journal) { j.round(report, time.Second, nil) }); strings.Contains(lines, `"waits"`) {
		t.Errorf("the log says\n%s", lines)
	}
}

func TestWhatHoldsForManyJobsIsSaidOnce(t *testing.T) {
	report := bridge.Report{}
	for id := range 76 {
		report.Notes = append(report.Notes, bridge.Note{Job: id + 1,
			Text: "no folder with profiles can be read: /etc/synergy/profiles"})
	}
	report.Notes = append(report.Notes, bridge.Note{Job: 99, Text: "another thing"})
	lines := written(zerolog.InfoLevel, func(j *journal) {
		for range 3 {
			j.round(report, time.Second, nil)
		}
	})
	if strings.Count(lines, `"message":"note"`) != 2 || !strings.Contains(lines, `"count":76`) ||
		!strings.Contains(lines, `"job":99`) {
		t.Errorf("the log says\n%s", lines)
	}
}

// BenchmarkRemarks is one round's remarks on 40,000 jobs: the same sentence for all, and one for each, since users'
// words stand in them. Compare the two.
func BenchmarkRemarks(b *testing.B) {
	for _, sentences := range []int{1, 40_000} {
		var r bridge.Report
		for id := range 40_000 {
			r.Notes = append(r.Notes, bridge.Note{Job: id + 1, Text: fmt.Sprintf("thing %06d", id%sentences)})
		}
		b.Run(fmt.Sprintf("%d sentences", sentences), func(b *testing.B) {
			for b.Loop() {
				(&journal{log: zerolog.Nop()}).remarks(r)
			}
		})
	}
}

func TestARefusalByRightAndNotByTokenNamesTheGateAndTheOperator(t *testing.T) {
	for number, want := range map[int]string{1007: "renew the token", 2002: "trusted_uids"} {
		lines := written(zerolog.InfoLevel, func(j *journal) {
			j.round(bridge.Report{}, time.Second, fmt.Errorf("restore job 7: %w",
				&slurmrest.Failure{Status: 500, Number: number, Kind: slurm.ErrDenied}))
		})
		if !strings.Contains(lines, want) || want != "renew the token" && strings.Contains(lines, "renew the token") {
			t.Errorf("error %d: the log says\n%s", number, lines)
		}
	}
}

// Who looks for failures by their words finds each once: neither its repetitions, nor the end of a round that is cut
// short by a stop.
func TestOnlyAFailureIsCalledOne(t *testing.T) {
	lines := written(zerolog.DebugLevel, func(j *journal) {
		for range 9 {
			j.round(bridge.Report{}, time.Second, fmt.Errorf("observe: %w", slurm.ErrUnreachable))
		}
		j.round(bridge.Report{}, time.Second, nil)
		j.round(bridge.Report{}, time.Second, errStopped)
	})
	if got := strings.Count(lines, "round failed"); got != 1 {
		t.Errorf("%d lines have the words in\n%s", got, lines)
	}
}

func TestAnOutageIsOneErrorAndOneRecovery(t *testing.T) {
	lines := written(zerolog.InfoLevel, func(j *journal) {
		for range 2 {
			for range 5 {
				j.round(bridge.Report{}, time.Second, fmt.Errorf("observe: %w", slurm.ErrUnreachable))
			}
			j.round(bridge.Report{}, time.Second, nil)
			j.round(bridge.Report{}, time.Second, nil)
		}
	})
	for text, times := range map[string]int{
		`"level":"error"`: 2, `"rounds_failed":5,"message":"rounds end well again"`: 2, "leases lapse": 2,
	} {
		if got := strings.Count(lines, text); got != times {
			t.Errorf("%q is said %d times in\n%s", text, got, lines)
		}
	}
}

func TestAnotherKindOfFailureIsNews(t *testing.T) {
	lines := written(zerolog.InfoLevel, func(j *journal) {
		for _, err := range []error{slurm.ErrUnreachable, slurm.ErrDenied, context.DeadlineExceeded,
			errors.New("check the plan: node n1"),
			errors.New("check the plan: node n1"), errors.New("check the plan: node n2")} {
			j.round(bridge.Report{}, time.Second, err)
		}
	})
	if got := strings.Count(lines, `"level":"error"`); got != 5 {
		t.Errorf("%d errors in\n%s", got, lines)
	}
}

// Each names its round, so that no two texts are the same.
func TestADiskThatIsFullIsSaidOnce(t *testing.T) {
	log := written(zerolog.InfoLevel, func(j *journal) {
		for round := range 3 {
			full := fmt.Errorf("write down round %d: %w: %w", round, ledger.ErrUnkept, syscall.ENOSPC)
			j.round(bridge.Report{Round: round}, time.Second, full)
		}
	})
	if strings.Count(log, "\n") != 1 || !strings.Contains(log, "make room on the ledger's disk") {
		t.Errorf("the log says\n%s", log)
	}
}

// Each is about another ticket: one is taken after the other.
func TestTicketsThatGoOneAfterTheOtherAreSaidOnce(t *testing.T) {
	log := written(zerolog.InfoLevel, func(j *journal) {
		for round := range 3 {
			j.round(bridge.Report{}, time.Second, fmt.Errorf("ticket %d: %w", 40+round, leader.ErrLost))
		}
	})
	if strings.Count(log, "\n") != 1 || !strings.Contains(log, "another ticket is taken") {
		t.Errorf("the log says\n%s", log)
	}
}

func TestWhatAFailedRoundDidIsStillInTheLog(t *testing.T) {
	lines := written(zerolog.InfoLevel, func(j *journal) { j.round(busyReport(), time.Second, slurm.ErrUnreachable) })
	if !strings.Contains(lines, `"field":"cpus_per_task","old":"3","new":"10"`) {
		t.Errorf("the log is\n%s", lines)
	}
}

func TestNoTextOfAUserBreaksALineOfTheLog(t *testing.T) {
	for _, format := range []string{logJSON, logConsole} {
		var lines bytes.Buffer
		log, err := newLog(&lines, format, "info")
		if err != nil {
			t.Fatal(err)
		}
		j := &journal{log: log}
		j.round(bridge.Report{Notes: []bridge.Note{{Job: 1, Text: hostile}},
			Steps: []bridge.Step{{Job: 1, Verb: bridge.Start, Why: hostile, Error: hostile,
				Changes: []bridge.Change{{Field: hostile, Old: hostile, New: hostile}}}},
		}, time.Second, nil)
		j.round(bridge.Report{}, time.Second, errors.New(hostile))
		got := lines.String()
		if strings.Count(got, "\n") != 5 || strings.ContainsFunc(got,
			func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }) {
			t.Errorf("%s: %q", format, got)
		}
	}
}

func TestWhatIsEscapedInTheLogReadsBackAsItWas(t *testing.T) {
	var lines bytes.Buffer
	log, err := newLog(&lines, logJSON, "info")
	if err != nil {
		t.Fatal(err)
	}
	log.Info().Str("said", hostile+"\U000e0001é🙂").Send()
	var line struct{ Said string }
	if err := json.Unmarshal(lines.Bytes(), &line); err != nil ||
		line.Said != strings.ToValidUTF8(hostile, "\ufffd")+"\U000e0001é🙂" {
		t.Errorf("%v: %q", err, line.Said)
	}
}

// hostile is a line break, a forged line, escape sequences in seven and in eight bits, a title for the terminal, a turn
// of the direction of writing, a deletion, and no UTF-8.
const hostile = "a\nlevel=error\x1b[31m\u009b31m\x1b]0;owned\x07 forged\u202e\u2028\x7f\xff"

func TestARefusedReloadSaysWhatToMend(t *testing.T) {
	lines := written(zerolog.InfoLevel, func(j *journal) {
		j.reload(errors.New("line 2: lease: soon"))
		j.reload(nil)
	})
	if !strings.Contains(lines, "line 2: lease: soon") || !strings.Contains(lines, "stays as it was") ||
		!strings.Contains(lines, "reloaded") {
		t.Errorf("the log is\n%s", lines)
	}
}

func TestThatLimitsAreNotKnownIsSaidOnceAndThatTheyAreAgain(t *testing.T) {
	lines := written(zerolog.InfoLevel, func(j *journal) {
		for _, gap := range []string{"slurmdbd is away", "slurmdbd is away", "something else", "", ""} {
			j.limits(bridge.Report{Round: 1, LimitsGap: gap})
		}
	})
	if strings.Count(lines, "limits are not known") != 1 || strings.Count(lines, "known again") != 1 ||
		!strings.Contains(lines, "slurmdbd is away") {
		t.Error(lines)
	}
}

func TestAFloodOfRemarksIsCutAndCounted(t *testing.T) {
	report := bridge.Report{Round: 1}
	for id := range 1000 {
		report.Notes = append(report.Notes, bridge.Note{Job: id + 1,
			Text: fmt.Sprintf("a word that only job %d has", id+1)})
	}
	var out bytes.Buffer
	(&journal{log: zerolog.New(&out)}).remarks(report)
	if lines := strings.Count(out.String(), "\n"); lines != remarkLines+1 ||
		!strings.Contains(out.String(), `"remarks":800`) {
		t.Errorf("%d lines, want %d and one that counts the other 800", lines, remarkLines)
	}
}
