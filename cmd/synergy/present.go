package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
	"github.com/synergy-slurmd/synergy-slurmd/policy/whatif"
)

// present is where the present state is read: a daemon's last round, its ledger, or a file.
type present struct {
	source
	snapshot string
	profiles []string
	started  map[int]*policy.Placement // jobs that the last round has started
}

func (p *present) register(where group) {
	p.define(where)
	where.give(&p.snapshot, "snapshot", "", "a `file` that the daemon's page /snapshot or /round gave, "+
		"instead; - is the standard input")
	where.flags.StringArrayVar(&p.profiles, "profiles", nil,
		"`folder` with the profiles that jobs name, where what is read does not bring them along")
}

// read reads the state, and prints which profiles are missing.
func (p *present) read(ctx context.Context, input io.Reader, notes io.Writer) (whatif.Case, error) {
	if p.snapshot != "" && (p.ledger != "" || p.daemon != "") {
		return whatif.Case{},
			errors.New("--snapshot: with a daemon or a ledger there are two states: want one of them")
	}
	shelf, err := (&planning{profiles: p.profiles}).shelf()
	if err != nil {
		return whatif.Case{}, err
	}
	file, from, err := p.file(ctx, input, shelf)
	if err != nil {
		return whatif.Case{}, err
	}
	shelf.tell(notes)
	who, how, err := rulers(file.Policy, file.Allocator)
	if err != nil {
		return whatif.Case{}, fmt.Errorf("%s: %w", from, err)
	}
	file.Now = file.Now.Local() // times are shown in this zone
	return whatif.Case{Cluster: file.Cluster, Policy: who, Allocator: how, Habits: forecast.Habits(file.Habits)}, nil
}

// file is the snapshot, and where it is from.
func (p *present) file(ctx context.Context, input io.Reader, s *shelf) (snapshot.File, string, error) {
	if p.snapshot == "" {
		file, err := p.round(ctx, s)
		return file, "the last round", err
	}
	text, err := readAll(p.snapshot, input)
	if err != nil {
		return snapshot.File{}, "", err
	}
	file, err := snapshot.Read(text, s.find)
	if err != nil {
		return file, "", fmt.Errorf("%s: %w", p.snapshot, err)
	}
	return file, p.snapshot, nil
}

// round is what the last round saw. The daemon's answer is checked as strictly as a file.
func (p *present) round(ctx context.Context, s *shelf) (snapshot.File, error) {
	report, err := p.latest(ctx)
	if err != nil {
		return snapshot.File{}, err
	}
	p.started = startedBy(&report)
	text, err := snapshot.File{Cluster: report.Snapshot, Profiles: report.Profiles, Policy: report.Policy,
		Allocator: report.Allocator, Habits: report.Habits}.JSON()
	if err != nil {
		return snapshot.File{}, failed{err}
	}
	file, err := snapshot.Read(text, s.find)
	if err != nil {
		return file, failed{fmt.Errorf("the last round: %w", err)}
	}
	return file, nil
}

// startedBy are the jobs that a round has started, with their placements.
func startedBy(report *bridge.Report) map[int]*policy.Placement {
	started := map[int]*policy.Placement{}
	for i := range report.Steps {
		s := &report.Steps[i]
		if s.Verb == bridge.Start && s.Grant != nil && s.Error == "" && !s.PutOff && !report.Shadow {
			started[s.Job] = s.Grant
		}
	}
	return started
}
