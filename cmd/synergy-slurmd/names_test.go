package main

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/preflight"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// judged is how a text of the configuration, or of a flag, is looked up: by the check of that name, which is shown a
// mistyped value by the function; or why there is nothing to look up.
type judged struct {
	by, key string
	mistype func(f *flags, c *Config) (typed string)
	right   string // what the finding has to propose; empty: whatever its remedy says
	not     string
}

// texts are all texts of Config by their paths in it, and those of flags behind two dashes.
var texts = map[string]judged{
	"Partitions": {by: "partitions", mistype: func(_ *flags, c *Config) string {
		c.Partitions = []string{"gqu"}
		return "gqu"
	}, right: "gpu"},
	"Canary.Partitions": {not: "each is one of partitions, or the file is refused"},
	"Canary.Accounts": {by: "canary.accounts", mistype: func(_ *flags, c *Config) string {
		c.Canary.Accounts = []string{"ml", "visoin"}
		return "visoin"
	}, right: "did you mean vision?"},
	"Policy.Name":    {not: "one of a fixed set, or the file is refused"},
	"Allocator.Name": {not: "one of a fixed set, or the file is refused"},

	"Allocator.placing.name":   {not: "the name of a pass in the program"},
	"Allocator.improving.name": {not: "the name of a pass in the program"},
	"Allocator.filling.name":   {not: "the name of a pass in the program"},

	"ProfileDirs": {by: "profiles", mistype: func(_ *flags, c *Config) string {
		c.ProfileDirs = append(c.ProfileDirs, "/no/such/profiles")
		return "/no/such/profiles"
	}},
	"Learned":      folderKey("learned", func(c *Config) *string { return &c.Learned }),
	"Savings":      folderKey("savings", func(c *Config) *string { return &c.Savings }),
	"History.Path": folderKey("history.path", func(c *Config) *string { return &c.History.Path }),
	"Heartbeat":    folderKey("heartbeat", func(c *Config) *string { return &c.Heartbeat }),
	"ProfilesFile": folderKey("profiles_file", func(c *Config) *string { return &c.ProfilesFile }),
	"Match.User":   ruleKey("user", "amn", "ann", func(m *bridge.Match) *string { return &m.User }),
	"Match.Account": ruleKey("account", "speach", "speech",
		func(m *bridge.Match) *string { return &m.Account }),
	"Match.Partition": ruleKey("partition", "gqu", "gpu", func(m *bridge.Match) *string { return &m.Partition }),
	"Match.Name":      {not: "a job's name, which its user gives"},
	"Match.Container": {not: "a container's name, which a job's user gives"},
	"Match.Profile": ruleKey(
		"profile",
		"rse18.json",
		"res18.json",
		func(m *bridge.Match) *string { return &m.Profile },
	),
	"Sharing.Mode": {not: "one of a fixed set, or the file is refused"},
	"Sharing.ByFeature": {by: "share.by_feature", mistype: func(_ *flags, c *Config) string {
		c.Sharing.ByFeature = map[string]gres.Memory{"h10": 1}
		return "h10"
	}, right: "did you mean h100?"},
	"Sharing.ModeByFeature": {by: "share.mode_by_feature", mistype: func(_ *flags, c *Config) string {
		c.Sharing.ModeByFeature = map[string]share.Mode{"h10": share.Fill}
		return "h10"
	}, right: "did you mean h100?"},
	"Hook.before": {by: "programs", key: "checkpoint_hook.before", mistype: func(_ *flags, c *Config) string {
		c.Hook.before = []string{"/no/such/hook"}
		return "/no/such/hook"
	}},
	"Hook.after": {by: "programs", key: "checkpoint_hook.after", mistype: func(_ *flags, c *Config) string {
		c.Hook.after = []string{"/no/such/hook"}
		return "/no/such/hook"
	}},

	"--config":     {not: "what cannot be read is refused before anything is looked at"},
	"--slurmrestd": {not: "it is asked: the check slurm says that it does not answer"},
	"--user": {by: "--user", mistype: func(f *flags, _ *Config) string {
		f.user = "sinergy"
		return "sinergy"
	}, right: "did you mean --user synergy?"},
	"--tokenFile": {by: "token", mistype: func(f *flags, _ *Config) string {
		f.tokenFile = "/no/such/token"
		return "/no/such/token"
	}},
	"--apiVersion": {not: "it is asked for: the check slurm says that slurmrestd has none such"},
	"--scontrol": {by: "scontrol", mistype: func(f *flags, _ *Config) string {
		f.scontrol = "/no/such/scontrol"
		return "/no/such/scontrol"
	}},
	"--slurmPlugin": {by: "programs", key: "--slurm-plugin", mistype: func(f *flags, _ *Config) string {
		f.slurmPlugin = "/no/such/plugin"
		return "/no/such/plugin"
	}},
	"--slurmSum": {not: "a checksum, which is held against the plugin's"},
	"--slurmConfig": {by: "programs", key: "--slurm-plugin-config", mistype: func(f *flags, _ *Config) string {
		f.slurmConfig = "/no/such/file"
		return "/no/such/file"
	}},
	"--planner": {by: "programs", key: "--planner-plugin", mistype: func(f *flags, _ *Config) string {
		f.planner = "/no/such/planner"
		return "/no/such/planner"
	}},
	"--plannerSum": {not: "a checksum, which is held against the plugin's"},
	"--ledger": {by: "folders", key: "ledger", mistype: func(f *flags, _ *Config) string {
		f.ledger = "/no/such/folder/ledger"
		return "/no/such/folder"
	}},
	"--listen": {not: "an address of this host, which is taken or refused at the start"},
	"--socket": {by: "folders", key: "socket", mistype: func(f *flags, _ *Config) string {
		f.socket = "/no/such/folder/socket"
		return "/no/such/folder"
	}},
	"--socketMode": {not: "permissions, which are read with the flags"},
	"--stopPost":   {not: "of release: systemd's own name of the unit"},
	"--logFormat":  {not: "one of a fixed set, or the flags are refused"},
	"--logLevel":   {not: "one of a fixed set, or the flags are refused"},
}

// folderKey is one whose path is below a folder that is there, but for two letters.
func folderKey(key string, field func(c *Config) *string) judged {
	return judged{by: "folders", key: key, right: "did you mean ",
		mistype: func(_ *flags, c *Config) string {
			base := filepath.Dir(c.ProfileDirs[0])
			*field(c) = filepath.Join(base, "sateroom", "own")
			return filepath.Join(base, "sateroom")
		}}
}

func ruleKey(key, typed, right string, field func(m *bridge.Match) *string) judged {
	return judged{by: "match", key: "rule 2: " + key, right: "did you mean " + right + "?",
		mistype: func(_ *flags, c *Config) string {
			c.Match = append(slices.Clone(c.Match), bridge.Match{Profile: "res18.json"})
			*field(&c.Match[1]) = typed
			return typed
		}}
}

// textsOf are the paths of all texts below a type: texts, and lists and maps of them.
func textsOf(kind reflect.Type, path string) (all []string) {
	switch kind.Kind() {
	case reflect.String:
		return []string{path}
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return textsOf(kind.Elem(), path)
	case reflect.Map:
		return append(textsOf(kind.Key(), path), textsOf(kind.Elem(), path)...)
	case reflect.Struct:
		if kind == reflect.TypeFor[time.Time]() {
			return nil
		}
		for i := range kind.NumField() {
			name := kind.Field(i).Name
			if path != "" {
				name = path + "." + name
			}
			all = append(all, textsOf(kind.Field(i).Type, name)...)
		}
	}
	return all
}

// TestEachNameAndPathThatAnAdministratorCanWriteIsLookedUpOrSaidToBeNone: who adds a key says here which check has it.
func TestEachNameAndPathThatAnAdministratorCanWriteIsLookedUpOrSaidToBeNone(t *testing.T) {
	all := textsOf(reflect.TypeFor[Config](), "")
	for _, name := range textsOf(reflect.TypeFor[flags](), "") {
		all = append(all, "--"+name)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if known := slices.Sorted(maps.Keys(texts)); !slices.Equal(all, known) {
		t.Errorf("there are\n%v\nand known are\n%v", all, known)
	}
	for name, j := range texts {
		if (j.by == "") == (j.not == "") || (j.by == "") != (j.mistype == nil) {
			t.Errorf("%s: is looked up by %q, and not since %q", name, j.by, j.not)
		}
	}
}

// goodSite is a daemon's flags and configuration at a site where everything is there, and what is known of that.
func goodSite(t *testing.T) (flags, Config, func(flags, Config) preflight.Facts) {
	t.Helper()
	base := t.TempDir()
	for _, dir := range []string{"profiles", "stateroom"} {
		if err := os.Mkdir(filepath.Join(base, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("../../etc/profiles/res18.json")
	if err == nil {
		err = os.WriteFile(filepath.Join(base, "profiles", "res18.json"), text, 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(base, "token"), []byte("token"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(base, "stateroom", name) }
	f, err := parseFlags([]string{"--ledger", in("ledger"), "--scontrol", "/bin/true", "--token-file",
		filepath.Join(base, "token"), "--socket", in("socket")}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	c := defaults(5 * time.Minute)
	c.Partitions, c.ProfileDirs = []string{"gpu"}, []string{filepath.Join(base, "profiles")}
	c.Canary = bridge.Canary{Partitions: []string{"gpu"}, Accounts: []string{"ml", "vision"}}
	c.Learned, c.Savings, c.History.Path = in("learned"), in("savings"), in("history")
	c.Heartbeat, c.ProfilesFile = in("heartbeat"), in("list")
	c.Match = []bridge.Match{{User: "an*", Account: "speech", Partition: "*", Profile: "res18.json"}}
	c.Hook.before, c.Hook.after = []string{"/bin/true"}, []string{"/bin/true", "--all"}
	c.Sharing = bridge.Sharing{ByFeature: map[string]gres.Memory{"h100": 80000}}
	return f, c, func(f flags, c Config) preflight.Facts {
		facts := preflight.Facts{Wanted: wanted(f, c), Here: here(f, c), Token: tokenOf(f)}
		facts.Partitions.Value = map[string]int{"gpu": 8, "cpu": 0}
		facts.Names.Value = preflight.Names{Accounts: []string{"ml", "speech", "vision"},
			Users: []string{"ann", "synergy"}}
		facts.Nodes.Value = []preflight.Node{{Name: "n1", Partitions: []string{"gpu"}, Features: []string{"h100"},
			GPUs: 8}}
		return facts
	}
}

// TestWhateverIsMistypedIsNamedWithItsKeyAndWhatWouldBeRight makes each name and path wrong in turn.
func TestWhateverIsMistypedIsNamedWithItsKeyAndWhatWouldBeRight(t *testing.T) {
	for name, j := range texts {
		if j.mistype == nil {
			continue
		}
		f, c, factsOf := goodSite(t)
		if wrong := wrongBy(factsOf(f, c), j.by); len(wrong) > 0 {
			t.Fatalf("nothing is mistyped, and there is %v", wrong)
		}
		typed := j.mistype(&f, &c)
		wrong := wrongBy(factsOf(f, c), j.by)
		good := func(l preflight.Line) bool {
			said := l.String()
			return strings.Contains(said, typed) && strings.Contains(said, j.key) && l.Remedy != "" &&
				strings.Contains(said, j.right)
		}
		if !slices.ContainsFunc(wrong, good) {
			t.Errorf("%s is %s: %v, want one that names %q and proposes %q", name, typed, wrong, j.key, j.right)
		}
	}
}

func wrongBy(facts preflight.Facts, check string) (wrong []preflight.Line) {
	for _, line := range preflight.All(facts) {
		if line.Check == check && (line.Verdict == preflight.Fail || line.Verdict == preflight.Warn) {
			wrong = append(wrong, line)
		}
	}
	return wrong
}

// TestWhatNobodyCanBeAskedForIsSaidToBeUnchecked: a name that was not looked up is never a good one.
func TestWhatNobodyCanBeAskedForIsSaidToBeUnchecked(t *testing.T) {
	f, c, factsOf := goodSite(t)
	facts := factsOf(f, c)
	facts.Names = preflight.Unknown[preflight.Names]("there is no slurmdbd")
	for _, check := range []string{"canary.accounts", "match"} {
		skipped := 0
		for _, line := range preflight.All(facts) {
			switch {
			case line.Check != check:
			case line.Verdict == preflight.Skip && strings.Contains(line.Text, "there is no slurmdbd"):
				skipped++
			default:
				t.Error(line)
			}
		}
		if skipped == 0 {
			t.Errorf("%s: nothing is said", check)
		}
	}
}

func TestAFolderIsProposedWhereAPartOfThePathIsMistyped(t *testing.T) {
	base := t.TempDir()
	for _, dir := range []string{"srv/synergy/state", "srv/other"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for typed, want := range map[string]string{
		"srv/synegry/state": "srv/synergy/state", "svr/synergy/state": "srv/synergy/state",
		"srv/synergy/stat":    "srv/synergy/state",
		"srv/synergy/nothing": "", "quite/different": "", "srv/synegry/nothing": "",
	} {
		if want != "" {
			want = filepath.Join(base, want)
		}
		if got := nearestPath(filepath.Join(base, typed)); got != want {
			t.Errorf("%s: %q, want %q", typed, got, want)
		}
	}
}

// TestAFolderThatTheDaemonWouldMakeIsFineAlsoWithASlashBehindIt.
func TestAFolderThatTheDaemonWouldMakeIsFineAlsoWithASlashBehindIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "savings")
	for _, typed := range []string{path, path + "/"} {
		if place := folderFor("savings", typed, ""); place.Why != "" || place.Path != path {
			t.Errorf("%s: %+v", typed, place)
		}
	}
}

func TestAFolderOfRootsOwnIsNoneOfTheDaemonsUser(t *testing.T) {
	base := t.TempDir()
	for _, up := range []string{base, filepath.Dir(base)} {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(base, "own")
	for mode, want := range map[os.FileMode]bool{0o777: true, 0o700: false, 0o775: false, 0o776: false} {
		if err := os.MkdirAll(own, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(own, mode); err != nil {
			t.Fatal(err)
		}
		if got := mayWrite("nobody", own); got != want {
			t.Errorf("mode %o: nobody may write: %v", mode, got)
		}
	}
}
