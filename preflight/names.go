package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/spelling"
)

// Names are the accounts and users that accounting knows, each ascending.
type Names struct{ Accounts, Users []string }

// Rule is a rule under match in the configuration.
type Rule struct {
	Number                   int
	User, Account, Partition string // patterns, in which * matches any text; empty: any
	Profile                  string // empty: auto
}

// namedChecks are the checks of names in the configuration that must exist in Slurm or in accounting.
var namedChecks = []check{
	{"--user", daemonsUser},
	{"canary.accounts", canary},
	{"match", matches},
}

// daemonsUser requires that accounting knows the daemon's user.
func daemonsUser(f *Facts) []finding {
	user := f.Wanted.User
	switch {
	case f.Wanted.Plugin != "" || f.Names.Why != "":
		return nil // no accounting is reported by the checks that need it
	case !slices.Contains(f.Names.Value.Users, user):
		return []finding{fail(orNearest(user, f.Names.Value.Users, "--user ", "sacctmgr add user "+user+
			", or name another as --user"), "accounting has no user %s", user)}
	}
	return nil
}

// canary requires that the accounts of the canary exist.
func canary(f *Facts) []finding {
	return requireNames("canary.accounts", f.Wanted.Canary, f.Names.Why, f.Names.Value.Accounts, "account",
		"mend the name: no job of such an account is managed")
}

// requireNames requires that all names of a list exist. kind is what they name. why is why the existing names are
// unknown, if they are. An empty list is not reported.
func requireNames(key string, said []string, why string, all []string, kind, remedy string) (found []finding) {
	switch {
	case len(said) == 0:
		return nil
	case why != "":
		return []finding{skip("%s not looked up: %s", strings.Join(said, ", "), why)}
	}
	for _, name := range said {
		if !slices.Contains(all, name) {
			found = append(
				found,
				fail(orNearest(name, all, "", remedy), "the cluster has no %s %s; it has %s", kind, name,
					nameList(all)),
			)
		}
	}
	if len(found) == 0 {
		found = append(found, ok("%s", strings.Join(said, ", ")))
	}
	return found
}

// orNearest is the remedy for an unknown name: the nearest existing name if one is close, and otherwise the given text.
func orNearest(name string, all []string, before, otherwise string) string {
	if near := spelling.Nearest(name, all); near != "" {
		return fmt.Sprintf("did you mean %s%s? If not, %s", before, near, otherwise)
	}
	return otherwise
}

// fewNames is how many names are listed.
const fewNames = 8

// nameList lists the first names and counts the rest.
func nameList(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	text := strings.Join(names[:min(len(names), fewNames)], ", ")
	if more := len(names) - fewNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// matches judges each rule under match: its patterns must match existing names, and its profile must exist.
func matches(f *Facts) (found []finding) {
	if len(f.Wanted.Match) == 0 {
		return nil
	}
	unknown := map[string]bool{}
	for _, rule := range f.Wanted.Match {
		for _, part := range []struct {
			key, pattern, why string
			all               []string
		}{
			{"user", rule.User, f.Names.Why, f.Names.Value.Users},
			{"account", rule.Account, f.Names.Why, f.Names.Value.Accounts},
			{"partition", rule.Partition, f.Partitions.Why, names(f.Partitions.Value)},
		} {
			switch {
			case part.pattern == "":
			case part.why != "":
				unknown[fmt.Sprintf("no %s of a rule was looked up: %s", part.key, part.why)] = true
			case !slices.ContainsFunc(part.all, func(name string) bool { return spelling.Fits(part.pattern, name) }):
				found = append(found, fail(orNearest(part.pattern, part.all, "", "mend the rule: it fits no job"),
					"rule %d: %s: %s fits none; there are %s", rule.Number, part.key, part.pattern, nameList(part.all)))
			}
		}
		found = append(found, profileOf(rule, f.Here.Profiles)...)
	}
	for _, why := range names(unknown) {
		found = append(found, skip("%s", why))
	}
	if len(found) == 0 {
		found = append(found, ok("each of %d rules fits somebody, and has a profile", len(f.Wanted.Match)))
	}
	return found
}

// profileOf requires that the profile of a rule is in one of the profile folders.
func profileOf(rule Rule, folders []Folder) []finding {
	if rule.Profile == "" {
		return nil
	}
	var all []string
	for _, folder := range folders {
		all = append(all, folder.Names...)
	}
	if slices.Contains(all, rule.Profile) {
		return nil
	}
	return []finding{fail(orNearest(rule.Profile, all, "", "put it into one of profile_dirs, or mend the rule"),
		"rule %d: profile: %s is in none of profile_dirs, or cannot be used; they have %s", rule.Number, rule.Profile,
		nameList(all))}
}
