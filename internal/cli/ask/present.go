package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
	"github.com/synergy-slurmd/synergy-slurmd/policy/whatif"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Present is where the present state is read: a daemon's last round, its ledger, or a file.
type Present struct {
	Source
	Snapshot string   // a file, or - for the standard input; empty: the last round is read
	Profiles []string // folders with the profiles that jobs name, where what is read does not bring them along

	started map[int]*policy.Placement // jobs that the last round has started; set by read
}

// read reads the state as a case, the input of forecasts and of what-if questions, and prints which profiles are
// missing. A round's snapshot is from before its starts, so it also keeps the jobs that the round has started, in
// p.started. A caller for which they must run applies them with whatif.Case.Started. A file has no steps, so it starts
// none.
func (p *Present) read(ctx context.Context, input io.Reader, notes io.Writer) (whatif.Case, error) {
	if p.Snapshot == "" {
		report, err := p.Latest(ctx)
		if err != nil {
			return whatif.Case{}, err
		}
		p.started = startedBy(&report)
		return p.caseOfReport(&report, notes)
	}
	if p.Ledger != "" || p.Daemon != "" {
		return whatif.Case{},
			errors.New("--snapshot: with a daemon or a ledger there are two states: want one of them")
	}
	text, err := readAll(p.Snapshot, input)
	if err != nil {
		return whatif.Case{}, err
	}
	s, err := loadProfileSet(p.Profiles)
	if err != nil {
		return whatif.Case{}, err
	}
	file, err := snapshot.Read(text, s.find)
	if err != nil {
		return whatif.Case{}, fmt.Errorf("%s: %w", p.Snapshot, err)
	}
	s.printMissing(notes)
	return caseOf(file, p.Snapshot)
}

// caseOfReport is the case that a round saw. It writes the report as the file of a snapshot and reads that again, so
// that it is checked as strictly as a file and its jobs get their profiles in the same way.
func (p *Present) caseOfReport(report *bridge.Report, notes io.Writer) (whatif.Case, error) {
	s, err := loadProfileSet(p.Profiles)
	if err != nil {
		return whatif.Case{}, err
	}
	text, err := snapshot.File{Cluster: report.Snapshot, Profiles: report.Profiles, Policy: report.Policy,
		Allocator: report.Allocator, Habits: report.Habits}.JSON()
	if err != nil {
		return whatif.Case{}, Failed{err}
	}
	file, err := snapshot.Read(text, s.find)
	if err != nil {
		return whatif.Case{}, Failed{fmt.Errorf("the last round: %w", err)}
	}
	s.printMissing(notes)
	return caseOf(file, "the last round")
}

// caseOf is the case of a snapshot, with its policy and allocator found by name. from names the snapshot in errors.
func caseOf(file snapshot.File, from string) (whatif.Case, error) {
	who, how, err := policyAndAllocator(file.Policy, file.Allocator)
	if err != nil {
		return whatif.Case{}, fmt.Errorf("%s: %w", from, err)
	}
	file.Now = file.Now.Local() // times are shown in this zone
	return whatif.Case{Cluster: file.Cluster, Policy: who, Allocator: how, Habits: forecast.Habits(file.Habits)}, nil
}

// startedBy are the jobs that a round has started, with their placements. They hold these now, and the snapshot, which
// is from before, does not say so. Starts that failed or were put off are left out, and those of a shadow round, which
// sends none.
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

// Policy and allocator if neither the flags nor the snapshot name them.
const (
	fallbackPolicy    = "fifo"
	fallbackAllocator = "tune"
)

// policyAndAllocator are the policy and the allocator of these names; empty names stand for the fallbacks.
func policyAndAllocator(who, how string) (policy.Policy, policy.Allocator, error) {
	first, err := policy.ParsePolicy(cmp.Or(who, fallbackPolicy))
	if err != nil {
		return policy.Policy{}, policy.Allocator{}, fmt.Errorf("%w: name it with --policy", err)
	}
	much, err := policy.ParseAllocator(cmp.Or(how, fallbackAllocator))
	if err != nil {
		return policy.Policy{}, policy.Allocator{}, fmt.Errorf("%w: name it with --allocator", err)
	}
	return first, much, nil
}

// stdinName names the standard input.
const stdinName = "-"

// maxSnapshotBytes bounds a file: several times a snapshot of a hundred thousand jobs. A larger file is a mistake, such
// as a log.
const maxSnapshotBytes = 1 << 28

// readAll reads a file of at most maxSnapshotBytes, or the standard input for "-".
func readAll(path string, input io.Reader) ([]byte, error) {
	if path != stdinName {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, withoutPath(err))
		}
		defer file.Close()
		input = file
	}
	text, err := io.ReadAll(io.LimitReader(input, maxSnapshotBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, withoutPath(err))
	case len(text) > maxSnapshotBytes:
		return nil, fmt.Errorf("%s: more than %d bytes: want a snapshot", path, maxSnapshotBytes)
	}
	return text, nil
}

// withoutPath drops the path from an operating system's error, since the message has it already.
func withoutPath(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// profileSet finds profiles by the names that jobs give, and remembers which are missing.
type profileSet struct {
	profiles map[string]*sensitivity.Profile // by file name, without its extension
	missing  map[string]int                  // number of jobs, by missing name
	names    []string                        // missing ones, in the order in which they came
}

// loadProfileSet reads the profiles of these folders, for jobs whose profiles do not come along with a snapshot.
// Without folders it takes the ten profiles of the paper, which are part of the program.
func loadProfileSet(folders []string) (*profileSet, error) {
	s := &profileSet{profiles: map[string]*sensitivity.Profile{}, missing: map[string]int{}}
	if len(folders) == 0 {
		return s, s.add(profiles.FS)
	}
	for _, folder := range folders {
		if err := s.add(os.DirFS(folder)); err != nil {
			return nil, fmt.Errorf("--profiles %s: %w", folder, withoutPath(err))
		}
	}
	return s, nil
}

const profileExtension = ".json"

// add reads the profiles of a folder. A name that is known already is skipped: the first folder wins.
func (s *profileSet) add(folder fs.FS) error {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), profileExtension)
		if !is || s.profiles[name] != nil || entry.IsDir() {
			continue
		}
		text, err := fs.ReadFile(folder, entry.Name())
		if err != nil {
			return err
		}
		p, err := sensitivity.Parse(text)
		if err != nil {
			return fmt.Errorf("profile %s: %w", entry.Name(), err)
		}
		s.profiles[name] = p
	}
	return nil
}

// find is the profile that a job names, with or without the extension. If there is none it returns nil, and counts the
// name as missing for printMissing.
func (s *profileSet) find(name string) *sensitivity.Profile {
	p := s.profiles[strings.TrimSuffix(name, profileExtension)]
	if p == nil {
		if s.missing[name] == 0 {
			s.names = append(s.names, name)
		}
		s.missing[name]++
	}
	return p
}

// maxMissingListed is how many missing profiles are named.
const maxMissingListed = 10

// printMissing prints which profiles are missing, since their jobs are planned without one.
func (s *profileSet) printMissing(notes io.Writer) {
	for i, name := range s.names {
		if i == maxMissingListed {
			fmt.Fprintf(notes, "synergy: %d more profiles are missing\n", len(s.names)-i)
			return
		}
		fmt.Fprintf(notes, "synergy: profile %s is missing: %d of the jobs are planned without one; "+
			"name its folder with --profiles\n", name, s.missing[name])
	}
}
