package rollout_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/preflight"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// well are facts of a site in the canary with which all is well.
func well() rollout.Facts {
	f := rollout.Facts{Now: noon, Wanted: rollout.Usual()}
	f.Daemon.Value = rollout.Daemon{Version: "v1", Healthy: true, Well: 12, Round: 300, Lease: 900,
		Says: "round 12 ended well 2s ago", Canary: bridge.Canary{Accounts: []string{"vision"}}}
	for i := range 12 {
		f.Rounds.Value = append(f.Rounds.Value, rollout.Round{Number: i + 1, Period: 5 * time.Minute,
			Took: 2 * time.Second, Ended: []int{i, i + 1}})
	}
	f.Checks.Value = []preflight.Line{{Check: "token", Verdict: preflight.OK}}
	f.Savings.Value = rollout.Savings{Known: 30, Saved: 3, Ended: 20}
	f.Proof.Value = proven()
	return f
}

// proven is a proof that shows what it should.
func proven() rollout.Proof {
	at := noon.Add(-24 * time.Hour)
	request := map[string]string{"NumCPUs": "1", "TresPerNode": "gres/gpu:1"}
	return rollout.Proof{V: 1, At: at, Version: "v1", Job: 17, GPUs: 1, How: "killed synergy-slurmd.service",
		Stopped: at.Add(time.Minute), Silent: true, Begin: at.Add(50 * time.Second), Lease: at.Add(15 * time.Minute),
		Started: at.Add(15*time.Minute + 3*time.Second), Asked: request, Had: request, Back: 4}
}

func criterion(t *testing.T, s rollout.Status, name string) rollout.Criterion {
	t.Helper()
	for _, c := range s.Criteria {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no criterion %s in %+v", name, s)
	return rollout.Criterion{}
}

func TestTheStageIsWhatTheDaemonTells(t *testing.T) {
	for want, change := range map[rollout.Stage]func(f *rollout.Facts){
		rollout.Preflight: func(f *rollout.Facts) { f.Daemon.Why = "connection refused" },
		rollout.Shadow:    func(f *rollout.Facts) { f.Daemon.Value.Shadow = true },
		rollout.Canary:    func(*rollout.Facts) {},
		rollout.On:        func(f *rollout.Facts) { f.Daemon.Value.Canary = bridge.Canary{} },
	} {
		f := well()
		change(&f)
		s := rollout.Judge(f)
		if s.Stage != want || !s.Ready || s.Next != want.Next() {
			t.Errorf("%+v, want stage %s, in which all is well", s, want)
		}
		if want.Next() != "" && want.Next().Last() != want {
			t.Errorf("the stage before %s is %s", want.Next(), want.Next().Last())
		}
	}
}

// Each of these keeps a site from the next stage by itself, with a remedy.
func TestEachCriterionAloneKeepsASiteFromTheNextStage(t *testing.T) {
	shadow := func(f *rollout.Facts) { f.Daemon.Value.Shadow = true }
	const proof, period, slow = "proof of failing open", "time of a round", "speed by progress"
	last := func(f *rollout.Facts) *rollout.Round { return &f.Rounds.Value[len(f.Rounds.Value)-1] }
	for name, c := range map[string]struct {
		change    func(f *rollout.Facts)
		criterion string
		says      string
	}{
		"a check that fails": {func(f *rollout.Facts) {
			f.Checks.Value = append(f.Checks.Value, preflight.Line{Check: "gate", Verdict: preflight.Fail})
		}, "checks", "1 fail: gate"},
		"no checks":         {func(f *rollout.Facts) { f.Checks.Value = nil }, "checks", "nothing was checked"},
		"unknown checks":    {func(f *rollout.Facts) { f.Checks.Why = "no such program" }, "checks", "no such program"},
		"an ill daemon":     {func(f *rollout.Facts) { f.Daemon.Value.Healthy = false }, "health", "round 12"},
		"one that is idle":  {func(f *rollout.Facts) { f.Daemon.Value.Behind = true }, "health", "round 12"},
		"nine rounds":       {func(f *rollout.Facts) { f.Rounds.Value = f.Rounds.Value[:9] }, "rounds", "9 in a row"},
		"a failure lately":  {func(f *rollout.Facts) { f.Daemon.Value.Well = 9 }, "rounds", "9 in a row"},
		"no rounds":         {func(f *rollout.Facts) { f.Rounds.Why = "refused" }, "rounds", "refused"},
		"a slow round":      {func(f *rollout.Facts) { last(f).Took = 31 * time.Second }, period, "31s of 5m0s"},
		"an unknown period": {func(f *rollout.Facts) { last(f).Period = 0 }, period, "round 12"},
		"no known job": {func(f *rollout.Facts) { shadow(f); f.Savings.Value.Known = 0 }, "savings",
			"no job with a profile"},
		"no ledger": {func(f *rollout.Facts) { shadow(f); f.Savings.Why = "there is none" }, "savings",
			"there is none"},
		"nine jobs": {func(f *rollout.Facts) {
			for i := range f.Rounds.Value {
				f.Rounds.Value[i].Ended = []int{i % 9}
			}
		}, "ended jobs", "9 in the 12 rounds"},
		"a lost job": {func(f *rollout.Facts) { last(f).Lost = []string{"job 7, by-signal"} }, "lost jobs",
			"1: job 7, by-signal"},
		"a slow job":         {func(f *rollout.Facts) { last(f).Slow = []string{"job 7"} }, slow, "1: job 7"},
		"a later run":        {func(f *rollout.Facts) { f.Savings.Value.Later = 2 }, "ended runs", "2 of"},
		"a refusal":          {func(f *rollout.Facts) { last(f).Refused = []string{"job 7"} }, "updates", "1: job 7"},
		"no proof":           {func(f *rollout.Facts) { f.Proof.Why = "none was made" }, proof, "none"},
		"an old proof":       {func(f *rollout.Facts) { f.Now = noon.AddDate(0, 0, 30) }, proof, "2026-11-22"},
		"one of the future":  {func(f *rollout.Facts) { f.Now = noon.AddDate(0, 0, -3) }, proof, "2026"},
		"one of another":     {func(f *rollout.Facts) { f.Daemon.Value.Version = "v2" }, proof, "version v1; v2"},
		"one that shows not": {func(f *rollout.Facts) { f.Proof.Value.Silent = false }, proof, "answering"},
	} {
		f := well()
		c.change(&f)
		s := rollout.Judge(f)
		found := criterion(t, s, c.criterion)
		if s.Ready || found.Verdict == preflight.OK || !strings.Contains(found.Measured, c.says) || found.Remedy == "" {
			t.Errorf("%s: ready %t: %+v, want %q", name, s.Ready, found, c.says)
		}
		for _, other := range s.Criteria {
			if other.Name != c.criterion && other.Verdict != preflight.OK && c.criterion != "rounds" {
				t.Errorf("%s: %+v too", name, other)
			}
		}
	}
}

func TestHowMuchProgressWasLookedAtIsTold(t *testing.T) {
	f := well()
	if got := criterion(t, rollout.Judge(f), "speed by progress").Measured; !strings.HasSuffix(got,
		"; no job reported progress lately") {
		t.Error(got)
	}
	f.Savings.Value.Checks, f.Savings.Value.Ran = 41, 1.02
	if got := criterion(t, rollout.Judge(f), "speed by progress").Measured; !strings.HasSuffix(got,
		"; 41 windows of progress lately, at 1.02 of what profiles say") {
		t.Error(got)
	}
}

func TestTheGateMayBeMissingInTheShadowAndNotAfterwards(t *testing.T) {
	f := well()
	f.Checks.Value = append(f.Checks.Value, preflight.Line{Check: "JobSubmitPlugins", Verdict: preflight.Fail},
		preflight.Line{Check: "gate", Verdict: preflight.Fail})
	if got := criterion(t, rollout.Judge(f), "checks"); got.Verdict != preflight.Fail {
		t.Errorf("in the canary: %+v", got)
	}
	f.Daemon.Value.Shadow = true
	if got := criterion(t, rollout.Judge(f), "checks"); got.Verdict != preflight.OK ||
		!strings.Contains(got.Measured, "the gate is to come") {
		t.Errorf("in the shadow: %+v", got)
	}
	f.Checks.Value = append(f.Checks.Value, preflight.Line{Check: "token", Verdict: preflight.Fail})
	if got := criterion(t, rollout.Judge(f), "checks"); got.Measured != "1 fail: token" {
		t.Errorf("in the shadow: %+v", got)
	}
}

func TestOnlyRoundsOfThisStageAndThisCanaryCount(t *testing.T) {
	vision, text := bridge.Canary{Accounts: []string{"vision"}}, bridge.Canary{Accounts: []string{"text"}}
	reports := []bridge.Report{{Round: 1, Canary: vision}, {Round: 2, Shadow: true}, {Round: 3, Canary: text},
		{Round: 4, Canary: vision}, {Round: 5, Canary: vision}}
	for want, d := range map[string]rollout.Daemon{
		"[4 5]": {Canary: vision}, "[]": {}, "[] ": {Canary: text}, "[]  ": {Shadow: true},
	} {
		var numbers []int
		for _, r := range rollout.OfStage(&d, reports) {
			numbers = append(numbers, r.Number)
		}
		if got := fmt.Sprint(numbers); got != strings.TrimSpace(want) {
			t.Errorf("%+v: rounds %s, want %s", d, got, want)
		}
	}
}

func TestWhatOfARoundMattersIsTakenFromItsReport(t *testing.T) {
	r := bridge.Report{Round: 9, Phases: []bridge.Phase{{Took: time.Second}, {Took: 2 * time.Second}},
		Snapshot: policy.Cluster{Rules: policy.Rules{Round: time.Minute}},
		Ended:    []bridge.Ended{{Job: 4}}, Lost: []bridge.Loss{{Job: 5, Cause: "x"}},
		Contradicting: []bridge.Contradicting{{Job: 6}},
		Steps: []bridge.Step{{Job: 7, Verb: bridge.Start, Error: "refused"}, {Job: 8, Verb: bridge.Renew},
			{Job: 9, Verb: bridge.Renew, PutOff: true}}}
	got := rollout.RoundOf(r)
	if got.Number != 9 || got.Took != 3*time.Second || got.Period != time.Minute || len(got.Ended) != 1 ||
		len(got.Lost) != 1 || len(got.Slow) != 1 || len(got.Refused) != 1 || got.Refused[0] != "job 7, start: refused" {
		t.Errorf("%+v", got)
	}
}

func TestAProofShowsNothingUnlessTheJobWaitedForItsLeaseAloneAndStartedAsAskedFor(t *testing.T) {
	whole := proven()
	if err := whole.Passed(); err != nil || !whole.Lapsed() ||
		whole.Sentence() != "job 17 started 14m3s after the stop, 3s after its lease was over, as asked for" {
		t.Fatalf("%v: %s", err, whole.Sentence())
	}
	back := proven()
	back.Started = back.Stopped.Add(2 * time.Second)
	if err := back.Passed(); err != nil || back.Lapsed() ||
		back.Sentence() != "job 17 was handed back and started 2s after the stop, as asked for" {
		t.Errorf("%v: %s", err, back.Sentence())
	}
	for want, change := range map[string]func(p *rollout.Proof){
		"went on answering":       func(p *rollout.Proof) { p.Silent = false },
		"its own begin time":      func(p *rollout.Proof) { p.Begin = p.Lease },
		"over before the daemon":  func(p *rollout.Proof) { p.Stopped = p.Lease.Add(time.Minute) },
		"somebody renewed":        func(p *rollout.Proof) { p.Moved = p.Lease.Add(time.Minute) },
		"did not start, for Reso": func(p *rollout.Proof) { p.Started, p.Reason = time.Time{}, "Resources" },
		"started before the":      func(p *rollout.Proof) { p.Started = p.Stopped.Add(-time.Minute) },
		"is not known":            func(p *rollout.Proof) { p.Asked = nil },
		"NumCPUs=9, asked 1": func(p *rollout.Proof) {
			p.Had = map[string]string{"NumCPUs": "9", "TresPerNode": "gres/gpu:1"}
		},
	} {
		p := proven()
		change(&p)
		if err := p.Passed(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestAProofIsReadAsItWasWritten(t *testing.T) {
	p := proven()
	again, err := rollout.ReadProof(strings.NewReader(string(p.Text())))
	if err != nil || string(again.Text()) != string(p.Text()) || again.Passed() != nil {
		t.Errorf("%v: %s", err, again.Text())
	}
}

func TestAWrongProofIsRefusedWithASentence(t *testing.T) {
	good := string(proven().Text())
	for text, want := range map[string]string{
		"":                                  "EOF",
		good + good:                         "something follows it",
		`{"v":2}`:                           "v is 2: want 1",
		`{"v":1,"passed":true}`:             `unknown field "passed"`,
		`{"v":1,"job":"x"}`:                 "cannot unmarshal",
		good + strings.Repeat(" ", 64<<10):  "more than 65536 bytes",
		`{"v":1,"stopped":"the other day"}`: "parsing time",
	} {
		if _, err := rollout.ReadProof(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	broken := errors.New("no disk")
	if _, err := rollout.ReadProof(failing{broken}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func FuzzReadProof(f *testing.F) {
	f.Add(string(proven().Text()))
	f.Add(`{"v":1,"asked":{"a":"b"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := rollout.ReadProof(strings.NewReader(text))
		if err != nil {
			return
		}
		p.Sentence()
		facts := well()
		facts.Proof.Value = p
		rollout.Judge(facts)
		if again, err := rollout.ReadProof(strings.NewReader(string(p.Text()))); err != nil ||
			(again.Passed() == nil) != (p.Passed() == nil) {
			t.Errorf("%q: %v, %v", text, err, p.Passed())
		}
	})
}
