package bridge

import (
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/spelling"
)

// Match is an administrator's rule for shadow mode. It says how to treat a job without a directive; the first rule that
// fits counts. Outside shadow mode no rule applies: only jobs whose users opted in are managed.
//
// User, Account, Partition, Name and Container are patterns in which * stands for any text; an empty one fits all. For
// a job in several partitions it is enough that one fits. Container is compared with Slurm's own --container; images of
// plugins such as pyxis are unknown to Slurm.
type Match struct {
	User, Account, Partition, Name, Container string
	// Profile is the file name of the assumed profile; empty: what was learned from its owner's jobs of the same name.
	Profile string
	Saves   bool // it is assumed to have declared a checkpoint, so that each round could resize it
}

// Fits says whether the rule is for a job: all of its patterns fit.
func (m *Match) Fits(j *slurm.Job) bool {
	return matchesPattern(m.User, j.User) && matchesPattern(m.Account, j.Account) && matchesPattern(m.Name, j.Name) &&
		matchesPattern(m.Container, j.Container) &&
		slices.ContainsFunc(
			strings.Split(j.Partition, ","),
			func(p string) bool { return matchesPattern(m.Partition, p) },
		)
}

// matchesPattern says whether text matches the pattern. An empty pattern fits all.
func matchesPattern(pattern, text string) bool { return pattern == "" || spelling.Fits(pattern, text) }

// assumedDirectives are the directives that the first fitting rule assumes for a job without one, so that shadow mode
// shows what the site would gain if its users opted in. The job's own reports are kept. It is nil if no rule fits, or
// if none is needed: outside shadow mode, and for jobs that have a directive, ask for no GPU or have ended.
func assumedDirectives(r *Runner, t *managedJob) *directive.Directives {
	own := t.directives
	if !r.Settings.Shadow || own.Managed || t.State == slurm.Finished || t.Request.GPUs < 1 {
		return nil
	}
	k := slices.IndexFunc(r.Settings.Match, func(m Match) bool { return m.Fits(t.Job) })
	if k < 0 {
		return nil
	}
	m := &r.Settings.Match[k]
	return &directive.Directives{
		Managed: true, Profile: m.Profile, Auto: m.Profile == "", Saves: m.Saves, Signal: "USR1",
		Grace: directive.DefaultGrace, Reports: own.Reports, Progress: own.Progress, BadProgress: own.BadProgress,
		Teaches: own.Teaches, Curve: own.Curve, BadCurve: own.BadCurve,
	}
}

// MatchesAll says whether the rule is for every job, so that rules after it never count.
func (m *Match) MatchesAll() bool {
	all := func(pattern string) bool { return strings.Trim(pattern, "*") == "" }
	return all(m.User) && all(m.Account) && all(m.Partition) && all(m.Name) && all(m.Container)
}
