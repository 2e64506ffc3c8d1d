// Package replay plans a recorded round again and compares the plan with the original. A record has all inputs of its
// plan: the snapshot, the profiles at the time, and the planner's names. The package opens no files.
package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Round is a recorded round, with the JSON fields of a round's report.
type Round struct {
	Round    int       `json:"round"`
	Began    time.Time `json:"began"`
	Version  string    `json:"version,omitempty"`  // of the daemon; empty: unknown
	External bool      `json:"external,omitempty"` // the plan is by a planner plugin
	Shadow   bool      `json:"shadow,omitempty"`

	Snapshot  policy.Cluster    `json:"snapshot"`
	Profiles  snapshot.Profiles `json:"profiles"`  // of the snapshot's jobs, at the time
	Policy    string            `json:"policy"`    // by name
	Allocator string            `json:"allocator"` // by name
	Plan      policy.Plan       `json:"plan"`
}

// Print writes the round in the form that Read reads.
func (r *Round) Print() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write round %d: %w", r.Round, err)
	}
	return text, nil
}

// Read reads a recorded round or a round's report, which is not trusted: an error says what is missing or wrong. Its
// jobs have the profiles that they had in the round.
func Read(text []byte) (*Round, error) {
	// No profiles are looked up by name: those of today may differ from those of the round.
	file, err := snapshot.Read(text, func(string) *sensitivity.Profile { return nil })
	if err != nil {
		return nil, err
	}
	var r struct {
		Round    int          `json:"round"`
		Began    time.Time    `json:"began"`
		Version  string       `json:"version"`
		External bool         `json:"external"`
		Shadow   bool         `json:"shadow"`
		Plan     *policy.Plan `json:"plan"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("not a round that was kept: %w", err)
	}
	switch {
	case r.Plan == nil:
		return nil, errors.New("plan is missing: want a round with the plan that was made; " +
			"synergy plan plans a snapshot alone")
	case file.Profiles == nil:
		return nil, errors.New("profiles are missing: want a round that brings those of its jobs, as versions after " +
			"0.2.0 keep it; synergy plan --profiles plans others")
	case file.Policy == "" || file.Allocator == "":
		return nil, errors.New("policy or allocator is missing: want the names of those that planned")
	}
	if err := checkAscending(r.Plan); err != nil {
		return nil, err
	}
	return &Round{r.Round, r.Began, r.Version, r.External, r.Shadow, file.Cluster, file.Profiles, file.Policy,
		file.Allocator, *r.Plan}, nil
}

// checkAscending refuses a plan whose decisions do not ascend in job, since Compare walks two plans side by side.
func checkAscending(plan *policy.Plan) error {
	last := 0
	for i, d := range plan.Decisions {
		if d.Job <= last {
			return fmt.Errorf("plan.decisions[%d].job = %d: want numbers from 1, ascending", i, d.Job)
		}
		last = d.Job
	}
	return nil
}

// Again plans the round again and checks the plan. who names the policy and how the allocator; an empty name stands for
// the recorded one, so that both empty repeat the round. A plan that Check refuses is returned with the error, for
// comparison.
func (r *Round) Again(who, how string) (policy.Plan, error) {
	p, err := policy.ParsePolicy(nameOr(who, r.Policy))
	if err != nil {
		return policy.Plan{}, err
	}
	a, err := policy.ParseAllocator(nameOr(how, r.Allocator))
	if err != nil {
		return policy.Plan{}, err
	}
	plan := policy.Decide(r.Snapshot, p, a)
	if err := policy.Check(r.Snapshot, plan); err != nil {
		return plan, fmt.Errorf("check the plan: %w", err)
	}
	return plan, nil
}

// nameOr is a name, or the other one if it is empty.
func nameOr(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return name
}

// Difference is a job for which two plans decide differently; a nil decision means that the plan does not name it.
type Difference struct {
	Job int              `json:"job"`
	Was *policy.Decision `json:"was,omitempty"`
	Is  *policy.Decision `json:"is,omitempty"`
}

// Words is a decision in words, for people who compare two plans; nil: the plan has none for the job.
func Words(d *policy.Decision) string {
	switch {
	case d == nil:
		return "nothing is decided"
	case d.Grant == nil:
		return "waits: " + d.Why
	}
	text := fmt.Sprintf("%s on %s ×%.4g", d.Grant.PerNode, strings.Join(d.Grant.Nodes, ","), d.Gain)
	if d.Why != "" {
		text += ", " + d.Why
	}
	return text
}

// Compare lists the jobs whose decisions differ in JSON, ascending in job. It walks both plans side by side, so both
// must ascend in job; a job that only one plan names differs. An empty list means that the plans are equal, byte for
// byte.
func Compare(was, is policy.Plan) ([]Difference, error) {
	var list []Difference
	a, b := was.Decisions, is.Decisions
	for len(a) > 0 || len(b) > 0 {
		var d Difference
		if len(b) == 0 || len(a) > 0 && a[0].Job <= b[0].Job {
			d.Job, d.Was, a = a[0].Job, &a[0], a[1:]
		}
		if len(b) > 0 && (d.Was == nil || b[0].Job == d.Job) {
			d.Job, d.Is, b = b[0].Job, &b[0], b[1:]
		}
		equal, err := sameJSON(d.Was, d.Is)
		if err != nil {
			return nil, err
		}
		if !equal {
			list = append(list, d)
		}
	}
	return list, nil
}

// sameJSON reports whether two decisions have the same JSON. A nil decision equals only another nil.
func sameJSON(was, is *policy.Decision) (bool, error) {
	one, err := json.Marshal(was)
	if err != nil {
		return false, fmt.Errorf("compare plans: %w", err)
	}
	other, err := json.Marshal(is)
	if err != nil {
		return false, fmt.Errorf("compare plans: %w", err)
	}
	return bytes.Equal(one, other), nil
}
