//go:build live

package live

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// finding is a line of --check.
type finding struct{ Check, Verdict, Text, Remedy string }

// site is a place for a configuration that fits the cluster, to be looked at and broken.
type site struct {
	c   *Cluster
	dir string
}

func newSite(t *testing.T) *site {
	t.Helper()
	c, d := SetUp(t, "fifo", "tune")
	s := &site{c: c, dir: d.dir}
	s.configure("")
	return s
}

// configure writes the configuration, with more to it.
func (s *site) configure(more string) {
	s.c.t.Helper()
	text := fmt.Sprintf("partitions: [synergy]\nprofile_dirs: [/opt/synergy/etc/profiles]\nlease: %ds\n%s\n",
		s.c.Setting("LEASE"), more)
	_, err := s.c.ExecInput("login", "synergy", text, "tee", s.dir+"/config.yaml")
	if err != nil {
		s.c.t.Fatal(err)
	}
}

// look is what --check finds, and whether it takes the site for ready.
func (s *site) look(flags ...string) (found []finding, ready bool) {
	s.c.t.Helper()
	out, err := s.c.Exec("login", "synergy",
		append([]string{"/opt/synergy/bin/synergy-slurmd", "--check", "--json", "--round", "5s",
			"--config", s.dir + "/config.yaml", "--slurmrestd", "http://slurmrestd:6820", "--token-file",
			"/shared/synergy/token", "--ledger", s.dir + "/ledger"}, flags...)...)
	if wrong := json.Unmarshal([]byte(out), &found); wrong != nil {
		s.c.t.Fatalf("%v: %v\n%s", wrong, err, out)
	}
	if left := s.c.MustExec("login", "root", "squeue", "-h", "--name=synergy-check"); left != "" {
		s.c.t.Errorf("the check leaves %s", left)
	}
	return found, err == nil
}

// those are the checks with that verdict.
func those(found []finding, verdict string) (names []string) {
	for _, f := range found {
		if f.Verdict == verdict {
			names = append(names, f.Check)
		}
	}
	return names
}

// The cluster's KillWait is short, so that tests are.
func TestOnAClusterThatIsSetUpEverythingIsWell(t *testing.T) {
	s := newSite(t)
	began := time.Now()
	found, ready := s.look()
	t.Logf("%d lines in %s", len(found), time.Since(began).Round(time.Millisecond))
	if warned := those(found, "warn"); !ready || len(those(found, "fail")) > 0 ||
		!slices.Equal(warned, []string{"KillWait"}) {
		t.Errorf("ready %t: %v", ready, found)
	}
	// the settings are on the controller's host, and no daemon runs yet
	if skipped := those(found, "skip"); !slices.Equal(skipped, []string{"gate's settings", "stage"}) {
		t.Errorf("not looked at: %v", skipped)
	}
	found, ready = s.look("--shadow")
	if !ready || !slices.Contains(those(found, "skip"), "gate") {
		t.Errorf("in the shadow: ready %t: %v", ready, found)
	}
}

func TestASiteThatAPluginDrivesIsLookedAtAsFarAsItTells(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	s := &site{c: c, dir: d.dir}
	s.configure("")
	found, ready := s.look(d.drivenBy("slurmrest")...)
	if !ready || !slices.Contains(those(found, "ok"), "partitions") || !slices.Contains(those(found, "skip"), "token") {
		t.Errorf("ready %t: %v", ready, found)
	}
}

func TestEachFaultOfASiteIsFoundBeforeTheDaemonIsSwitchedOn(t *testing.T) {
	s := newSite(t)
	c := s.c
	conf := func(edit string) func() { return func() { c.conf(edit) } }
	sacctmgr := func(level string) func() {
		return func() {
			c.MustExec("slurmctld", "root", "sacctmgr", "-iQ", "modify", "user", "synergy", "set", "adminlevel="+level)
		}
	}
	lua := func(more string) func() { return func() { c.settings(more) } }
	config := func(more string) func() { return func() { s.configure(more) } }
	mintShort := func() {
		c.MustExec("slurmctld", "root", "sh", "-c",
			`umask 077; scontrol token username=synergy lifespan=1 > "$1"; chown synergy "$1"; sleep 2`, "sh",
			s.dir+"/old")
	}
	for _, fault := range []struct {
		name, check, remedy string
		broken, mended      func()
		flags               []string
	}{
		{name: "a mistyped partition", check: "partitions", remedy: "mend partitions",
			broken: func() {
				c.MustExec("login", "synergy", "sed", "-i", "s/\\[synergy\\]/[synergy, synrgy]/", s.dir+"/config.yaml")
			}, mended: config("")},
		{name: "a missing hook", check: "programs", remedy: "executable for user synergy",
			broken: config("checkpoint_hook: {before: [/no/such]}"), mended: config("")},
		{name: "a hook that nobody can run", check: "programs", remedy: "executable for user synergy",
			broken: config("checkpoint_hook: {after: [/etc/passwd]}"), mended: config("")},
		{name: "a wrong scontrol", check: "scontrol", remedy: "--scontrol", flags: []string{"--scontrol", "/nope"}},
		{name: "an expired token", check: "token", remedy: "scontrol token", broken: mintShort,
			flags: []string{"--token-file", s.dir + "/old"}},
		{name: "no RequeueExit", check: "RequeueExit", remedy: "RequeueExit=98", broken: conf("/^RequeueExit/d"),
			mended: conf("")},
		{name: "no lua", check: "JobSubmitPlugins", remedy: "JobSubmitPlugins=lua",
			broken: conf("/^JobSubmitPlugins/d"), mended: conf("")},
		{name: "a partition that only the gate has", check: "gate", remedy: "managed_partitions",
			broken: lua(`managed_partitions = { \"synergy\", \"plain\" },`), mended: lua("")},
		{name: "a partition that the gate lacks", check: "gate", remedy: "managed_partitions",
			broken: lua(`managed_partitions = { \"other\" },`), mended: lua("")},
		{name: "a gate that does not trust the daemon", check: "trusted_uids", remedy: "uid of user synergy",
			broken: lua("trusted_uids = { 4 },"), mended: lua("")},
		{name: "a user without rights", check: "operator", remedy: "adminlevel=operator", broken: sacctmgr("none"),
			mended: sacctmgr("operator")},
	} {
		mend := sync.OnceFunc(func() {
			if fault.mended != nil {
				fault.mended()
			}
		})
		t.Cleanup(mend)
		if fault.broken != nil {
			fault.broken()
		}
		var found []finding
		var ready bool
		c.WaitFor("the check finds "+fault.name, func() bool {
			found, ready = s.look(fault.flags...)
			return slices.Contains(those(found, "fail"), fault.check)
		})
		k := slices.IndexFunc(found, func(f finding) bool { return f.Check == fault.check && f.Verdict == "fail" })
		if ready || !strings.Contains(found[k].Remedy, fault.remedy) {
			t.Errorf("%s: ready %t: %+v", fault.name, ready, found[k])
		}
		t.Logf("%s: %s: %s: %s", fault.name, found[k].Check, found[k].Text, found[k].Remedy)
		mend()
	}
	c.WaitFor("all is well again", func() bool {
		found, ready := s.look()
		return ready && len(those(found, "fail")) == 0
	})
}
