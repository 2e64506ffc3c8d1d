package bridge

import (
	"slices"
	"strings"
)

// Match is a rule of the administrator's that says, in the shadow, what a job is taken for whose user has said nothing:
// the first rule that fits counts. Switched on, nobody is matched: nothing is managed that did not opt in.
//
// User, Account, Partition, Name and Container are patterns in which * stands for any text; an empty one fits all. Of a
// job in several partitions one must fit. Container is what Slurm itself was told of it (--container): images of
// plugins as pyxis are known to these alone.
type Match struct {
	User, Account, Partition, Name, Container string
	// Profile is the file name of the profile that it is taken to have; empty: what its owner's jobs of its name have
	// taught.
	Profile string
	Saves   bool // it is taken to have declared a checkpoint, so that it could be sized anew in each round
}

// Fits says whether the rule is for a job.
func (m *Match) Fits(j *Job) bool {
	return fits(m.User, j.User) && fits(m.Account, j.Account) && fits(m.Name, j.Name) &&
		fits(m.Container, j.Container) &&
		slices.ContainsFunc(strings.Split(j.Partition, ","), func(p string) bool { return fits(m.Partition, p) })
}

// fits says whether text is as the pattern, in which * stands for any text. An empty pattern fits all.
func fits(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == text
	}
	rest, begins := strings.CutPrefix(text, parts[0])
	if !begins {
		return false
	}
	for _, part := range parts[1:last] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return strings.HasSuffix(rest, parts[last])
}

// matching is the part of a runner that takes jobs for what rules say.
type matching struct{ *Runner }

// said is what a job is taken to have said, by the first rule that fits; nil: by none, or it needs no rule.
func (r matching) said(t *managedJob) *comment {
	if !r.Settings.Shadow || t.said.managed || t.State == Finished || t.Request.GPUs < 1 {
		return nil
	}
	k := slices.IndexFunc(r.Settings.Match, func(m Match) bool { return m.Fits(t.Job) })
	if k < 0 {
		return nil
	}
	m, said := &r.Settings.Match[k], *t.said
	said.managed, said.wrong = true, nil
	said.word = Word{Profile: m.Profile, Auto: m.Profile == "", Saves: m.Saves, Signal: Signal{Name: "USR1"},
		Grace: defaultGrace}
	if m.Profile != "" {
		said.asks = r.reader.lookup(m.Profile)
	}
	return &said
}

// MatchesAll says that the rule is for every job.
func (m *Match) MatchesAll() bool {
	all := func(pattern string) bool { return strings.Trim(pattern, "*") == "" }
	return all(m.User) && all(m.Account) && all(m.Partition) && all(m.Name) && all(m.Container)
}
