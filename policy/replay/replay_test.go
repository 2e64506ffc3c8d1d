package replay_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/exam"
	"github.com/synergy-slurmd/synergy-slurmd/policy/replay"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
)

// kept is a round as it was planned.
func kept(n int) *replay.Round {
	c := exam.Snapshot(3, n)
	return &replay.Round{Round: 40 + n, Version: "1.0", Snapshot: c, Profiles: snapshot.ProfilesOf(&c), Policy: "srtf",
		Allocator: "greedy", Plan: policy.Decide(c, policy.SRTF(), policy.Greedy())}
}

func reread(t *testing.T, r *replay.Round) *replay.Round {
	t.Helper()
	text, err := r.Print()
	if err != nil {
		t.Fatal(err)
	}
	again, err := replay.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func TestAKeptRoundIsPlannedAgainByteForByteWhereverItIsRead(t *testing.T) {
	for n := range 60 {
		r := reread(t, kept(n))
		plan, err := r.Again("", "")
		if err != nil {
			t.Fatal(err)
		}
		if differs, err := replay.Compare(r.Plan, plan); err != nil || len(differs) > 0 {
			t.Fatalf("round %d: %+v differ, %v", r.Round, differs, err)
		}
	}
}

func TestAnotherPolicyDiffersInTheJobsThatItDecidesOtherwise(t *testing.T) {
	different := 0
	for n := range 60 {
		r := reread(t, kept(n))
		plan, err := r.Again("fifo", "tune")
		if err != nil {
			t.Fatal(err)
		}
		differs, err := replay.Compare(r.Plan, plan)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range plan.Decisions {
			was, is := inJSON(t, r.Plan.Decisions[i]), inJSON(t, d)
			found := len(differs) > 0 && differs[0].Job == d.Job
			if found != (was != is) {
				t.Fatalf("round %d, job %d: was %s, is %s, told: %v", r.Round, d.Job, was, is, found)
			}
			if found {
				differs, different = differs[1:], different+1
			}
		}
		if len(differs) > 0 {
			t.Fatalf("jobs of no plan differ: %+v", differs)
		}
	}
	if different < 20 {
		t.Errorf("only %d decisions differ", different)
	}
}

func inJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAJobThatOnlyOnePlanDecidesDiffers(t *testing.T) {
	plan := func(jobs ...int) (p policy.Plan) {
		for _, job := range jobs {
			p.Decisions = append(p.Decisions, policy.Decision{Job: job})
		}
		return p
	}
	differs, err := replay.Compare(plan(1, 3, 4), plan(2, 3, 5))
	text := ""
	for _, d := range differs {
		text += inJSON(t, d)
	}
	const want = `{"job":1,"was":{"job":1}}{"job":2,"is":{"job":2}}{"job":4,"was":{"job":4}}{"job":5,"is":{"job":5}}`
	if text != want || err != nil {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}

func TestAFileThatIsNoKeptRoundIsRefusedWithWhatItLacks(t *testing.T) {
	good := inJSON(t, kept(1))
	var whole map[string]any
	if err := json.Unmarshal([]byte(good), &whole); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"plan": "plan is missing", "profiles": "profiles are missing", "policy": "policy or allocator is missing",
		"allocator": "policy or allocator is missing", "snapshot": "unknown field",
	} {
		less := map[string]any{}
		for name, value := range whole {
			if name != field {
				less[name] = value
			}
		}
		if _, err := replay.Read([]byte(inJSON(t, less))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: %v, want %q", field, err, want)
		}
	}
	for old, c := range map[string][2]string{
		`"plan":{"decisions":[`: {`"plan":{"decisions":[{"job":-1},`,
			"plan.decisions[0].job = -1: want numbers from 1"},
		`"round":41`: {`"round":"x"`, "not a round that was kept"},
	} {
		if _, err := replay.Read([]byte(strings.Replace(good, old, c[0], 1))); err == nil ||
			!strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %q", c[0], err, c[1])
		}
	}
	r := kept(1)
	r.Policy = "nobody"
	if _, err := reread(t, r).Again("", ""); err == nil || !strings.Contains(err.Error(), `policy "nobody": want`) {
		t.Errorf("a policy that there is not: %v", err)
	}
}

// FuzzRead: a file from anywhere is refused, or planned again without harm.
func FuzzRead(f *testing.F) {
	for n := range 4 {
		text, err := kept(n).Print()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := replay.Read(text)
		if err != nil || len(r.Snapshot.Nodes) > 50 || len(r.Snapshot.Jobs) > 50 {
			return
		}
		plan, err := r.Again("fifo", "tune")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := replay.Compare(r.Plan, plan); err != nil {
			t.Fatal(err)
		}
	})
}
