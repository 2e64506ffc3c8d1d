package preflight

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// ready are the facts of a site at which all is well.
func ready() Facts {
	return Facts{
		Wanted: Wanted{User: "synergy", Partitions: []string{"gpu"}, Lease: 15 * time.Minute, Rate: 100,
			Heartbeat: "/run/synergy/heartbeat", Sharing: Sharing{Said: true, Memory: true, ByFeature: []string{"h100"},
				ModeByFeature: []string{"h100"}, Most: 4}},
		Here: Here{
			Profiles: []Folder{{Path: "/etc/synergy/profiles", Names: []string{"a.json", "b.json"}}},
			Programs: []Program{{Name: "checkpoint_hook.before", Path: "/sbin/save"}},
			Writable: []Place{{Name: "ledger", Path: "/var/lib/synergy", Made: true}},
			Scontrol: Program{Name: "scontrol", Path: "/usr/bin/scontrol"},
		},
		Token: Known[Token]{Value: Token{User: "synergy", Left: 8 * time.Hour}},
		Slurm: Known[Slurm]{Value: Slurm{API: "v0.0.42", Release: "24.11.5", Nodes: 4, Jobs: 17,
			Ahead: time.Second}},
		Partitions: Known[map[string]int]{Value: map[string]int{"gpu": 32, "cpu": 0}},
		Level:      Known[string]{Value: "Operator"},
		Names:      Known[Names]{Value: Names{Accounts: []string{"ml", "vision"}, Users: []string{"ann", "synergy"}}},
		Gates: Known[map[string]Gate]{Value: map[string]Gate{"gpu": {Annotated: true,
			Lease: 15*time.Minute + 300*time.Millisecond}, "cpu": {}}},
		Settings: Known[Settings]{Value: Settings{Path: "/etc/slurm/synergy_settings.lua", Partitions: []string{"gpu"},
			Heartbeat: "/run/synergy/heartbeat", KeepShards: true}},
		Nodes: Known[[]Node]{Value: []Node{
			{Name: "n1", Partitions: []string{"gpu"}, Features: []string{"h100"}, GPUs: 2, Shards: []int{4, 4},
				Broker: true},
			{Name: "n2", Partitions: []string{"gpu"}, Features: []string{"a100"}, GPUs: 1, Shards: []int{2},
				Broker: true},
			{Name: "n3", Partitions: []string{"cpu"}, GPUs: 8}, // of others
		}},
		Scontrol: Known[map[string]string]{Value: map[string]string{
			"JobSubmitPlugins": "lua", "RequeueExit": "98", "JobRequeue": "1", "KillWait": "60 sec",
			"CompleteWait": "0 sec", "MinJobAge": "300 sec",
			"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CORE_MEMORY",
			"SchedulerType": "sched/backfill", "SchedulerParameters": "(null)",
			"SlurmctldParameters": "(null)", "PreemptMode": "OFF", "PriorityType": "priority/multifactor",
			"PriorityWeightAge": "1000",
			"PriorityFlags":     "ACCRUE_ALWAYS", "AccountingStorageEnforce": "associations,limits,qos",
			"AccountingStoreFlags": "job_comment,job_extra",
			"CliFilterPlugins":     "lua", "GresTypes": "gpu,shard",
		}},
		Weights: Known[map[string]string]{Value: map[string]string{"gpu": "CPU=0,Mem=0,GRES/gpu=1", "cpu": "CPU=1"}},
		Threads: Known[int]{Value: 1},
		Options: Known[bool]{Value: true},
	}
}

func TestASiteAtWhichAllIsWellHasNothingButGoodLines(t *testing.T) {
	lines := All(ready())
	for _, line := range lines {
		if line.Verdict != OK || line.Remedy != "" {
			t.Error(line)
		}
	}
	if !Ready(lines) || len(lines) < 25 {
		t.Errorf("%d lines, ready %t", len(lines), Ready(lines))
	}
}

// of is the lines of one check.
func of(lines []Line, name string) (found []Line) {
	for _, line := range lines {
		if line.Check == name {
			found = append(found, line)
		}
	}
	return found
}

// set sets a key of slurm.conf.
func set(key, value string) func(*Facts) {
	return func(f *Facts) { f.Scontrol.Value[key] = value }
}

func tried(change func(*Gate)) func(*Facts) {
	return func(f *Facts) {
		g := f.Gates.Value["gpu"]
		change(&g)
		f.Gates.Value["gpu"] = g
	}
}

func TestEachFaultIsFoundByItsOwnCheckAndNoOther(t *testing.T) {
	for _, c := range []struct {
		name, check string
		verdict     Verdict
		says        string // in the text or the remedy
		broken      func(*Facts)
	}{
		{"a profile folder is missing", "profiles", Fail, "profile_dirs",
			func(f *Facts) { f.Here.Profiles[0] = Folder{Path: "/x", Why: "open /x: no such file"} }},
		{"a profile is broken", "profiles", Fail, "2 that can be used, and 1 that cannot: c.json",
			func(f *Facts) { f.Here.Profiles[0].Wrong = []string{"c.json: not JSON"} }},
		{"a profile folder is empty", "profiles", Warn, "has none", func(f *Facts) { f.Here.Profiles[0].Names = nil }},
		{"a hook is missing", "programs", Fail, "no such file",
			func(f *Facts) { f.Here.Programs[0].Why = "/sbin/save: no such file" }},
		{"the ledger has no place", "folders", Fail, "make it",
			func(f *Facts) { f.Here.Writable[0] = Place{Name: "ledger", Why: "/x: no such file"} }},
		{"a folder that the unit makes is not there yet", "folders", Skip, "which the unit makes",
			func(f *Facts) { f.Here.Writable[0].Why = "no such file" }},
		{"scontrol is missing", "scontrol", Fail, "--scontrol",
			func(f *Facts) { f.Here.Scontrol.Why = "/nope: no such file" }},
		{"the token cannot be read", "token", Fail, "scontrol token",
			func(f *Facts) { f.Token.Why = "open token: no such file" }},
		{"the token has ended", "token", Fail, "has ended 2m0s ago",
			func(f *Facts) { f.Token.Value.Left = -2 * time.Minute }},
		{"the token ends soon", "token", Warn, "ends in 2m0s", func(f *Facts) { f.Token.Value.Left = 2 * time.Minute }},
		{"the token is another's", "token", Fail, "of user root", func(f *Facts) { f.Token.Value.User = "root" }},
		{"Slurm is too old", "slurm", Fail, "23.11.4", func(f *Facts) { f.Slurm.Value.Release = "23.11.4" }},
		{"Slurm has no node", "slurm", Fail, "sinfo", func(f *Facts) { f.Slurm.Value.Nodes = 0 }},
		{"the clocks differ", "clock", Warn, "-2m0s ahead", func(f *Facts) { f.Slurm.Value.Ahead = -2 * time.Minute }},
		{"the user is no operator", "operator", Fail, "set adminlevel=operator",
			func(f *Facts) { f.Level.Value = "None" }},
		{"a partition is mistyped", "partitions", Fail, "no gqu; it has cpu, gpu",
			func(f *Facts) { f.Wanted.Partitions = append(f.Wanted.Partitions, "gqu") }},
		{"a partition has no GPU", "partitions", Warn, "gpu has no GPU",
			func(f *Facts) { f.Partitions.Value["gpu"] = 0 }},
		{"only the gate has a partition", "gate", Fail, "whole lease",
			func(f *Facts) { f.Gates.Value["cpu"] = Gate{Annotated: true} }},
		{"the gate refuses there", "gate", Fail, "whole lease",
			func(f *Facts) { f.Gates.Value["cpu"] = Gate{Lua: true, Refused: "error 2036"} }},
		{"a trial was left behind", "gate", Warn, "scancel 812", tried(func(g *Gate) { g.Left = 812 })},
		{"leases differ", "gate's lease", Warn, "is 5m0s, and the daemon's 15m0s",
			tried(func(g *Gate) { g.Lease = 5 * time.Minute })},
		{"the gate does not trust us", "trusted_uids", Fail, "uid of user synergy",
			tried(func(g *Gate) { g.Untrusted = "error 2002" })},
		{"the gate looks for another heartbeat", "gate's settings", Fail, "the same file in both",
			func(f *Facts) { f.Settings.Value.Heartbeat = "/tmp/beat" }},
		{"the gate looks for a list that nobody writes", "gate's settings", Fail, "writes none",
			func(f *Facts) { f.Settings.Value.ProfilesFile = "/run/synergy/profiles" }},
		{"a plugin without its filter", "options of sbatch", Fail, "cli_filter.lua", set("CliFilterPlugins", "(null)")},
		{"no gate in slurm.conf", "JobSubmitPlugins", Fail, "JobSubmitPlugins=lua", set("JobSubmitPlugins", "(null)")},
		{"another gate", "JobSubmitPlugins", Fail, "is throttle", set("JobSubmitPlugins", "throttle")},
		{"no RequeueExit", "RequeueExit", Fail, "RequeueExit=98", set("RequeueExit", "(null)")},
		{"another RequeueExit", "RequeueExit", Fail, "is 99,100-120", set("RequeueExit", "99,100-120")},
		{"jobs are not requeued", "JobRequeue", Warn, "JobRequeue=1", set("JobRequeue", "0")},
		{"a short KillWait", "KillWait", Warn, "KillWait=60", set("KillWait", "10 sec")},
		{"a long KillWait", "KillWait", Warn, "3600 s", set("KillWait", "3600 sec")},
		{"CompleteWait", "CompleteWait", Warn, "CompleteWait=0", set("CompleteWait", "32 sec")},
		{"jobs are forgotten", "MinJobAge", Warn, "after 2 s", set("MinJobAge", "2 sec")},
		{"whole nodes", "SelectType", Fail, "select/cons_tres", set("SelectType", "select/linear")},
		{"memory is not given out", "SelectTypeParameters", Warn, "no memory", set("SelectTypeParameters", "CR_CORE")},
		{"cores with threads", "SelectTypeParameters", Warn, "2 threads a core",
			func(f *Facts) { f.Threads.Value = 2 }},
		{"no backfill", "SchedulerType", Warn, "sched/backfill", set("SchedulerType", "sched/builtin")},
		{"late starts", "SchedulerParameters", Warn, "60 s",
			set("SchedulerParameters", "bf_interval=30,batch_sched_delay=60")},
		{"deferred starts", "SchedulerParameters", Warn, "defer", set("SchedulerParameters", "defer")},
		{"seldom backfill", "SchedulerParameters", Warn, "every 120 s", set("SchedulerParameters", "bf_interval=120")},
		{"a longer queue than the main scheduler looks at", "SchedulerParameters", Warn, "default_queue_depth=602",
			func(f *Facts) { f.Slurm.Value.Eligible = 301 }},
		{"a longer queue than backfill looks at", "SchedulerParameters", Warn, "bf_max_job_test=1002",
			func(f *Facts) { f.Slurm.Value.Eligible = 501 }},
		{"Slurm bounds requests", "SlurmctldParameters", Warn, "2 requests a second, and rate is 100",
			set("SlurmctldParameters", "idle_on_node_suspend,rl_enable")},
		{"in longer periods", "SlurmctldParameters", Warn, "20 requests a second",
			set("SlurmctldParameters", "rl_enable,rl_refill_rate=200,rl_refill_period=10")},
		{"to less than ours", "SlurmctldParameters", Warn, "50 requests",
			set("SlurmctldParameters", "rl_enable,rl_refill_rate=50")},
		{"Slurm preempts", "PreemptMode", Warn, "REQUEUE", set("PreemptMode", "REQUEUE")},
		{"age does not grow", "PriorityType", Warn, "ACCRUE_ALWAYS", set("PriorityFlags", "")},
		{"nobody says how much memory a GPU has", "share.gpu_memory", Warn, "as 80GiB",
			func(f *Facts) { f.Wanted.Sharing.Memory, f.Wanted.Sharing.ByFeature = false, nil }},
		{"it is said of some nodes", "share.gpu_memory", Warn, "the GPUs of n2, which are shared by nobody",
			func(f *Facts) { f.Wanted.Sharing.Memory = false }},
		{"a feature of the memory is mistyped", "share.by_feature", Warn, "has h10O; they have a100, h100",
			func(f *Facts) { f.Wanted.Sharing.ByFeature = []string{"h100", "h10O"} }},
		{"a feature of the mode is that of others' nodes", "share.mode_by_feature", Warn, "has v100; they have",
			func(f *Facts) {
				f.Wanted.Sharing.ModeByFeature, f.Nodes.Value[2].Features = []string{"v100"}, []string{"v100"}
			}},
		{"GPUs have no types of their own", "shards", Warn, "gres.conf Name=gpu Type=g0 File=/dev/nvidia0",
			func(f *Facts) { f.Nodes.Value[0].Shards = nil }},
		{"some nodes have no shards", "shards", Warn,
			"1 of 2 nodes have no type and shards of its own for each GPU, so nobody shares there: n2",
			func(f *Facts) { f.Nodes.Value[1].Shards = nil }},
		{"a GPU has one shard", "shards", Warn, "a GPU of n1 has fewer than 2 shards",
			func(f *Facts) { f.Nodes.Value[0].Shards = []int{4, 1} }},
		{"a GPU has more shards than jobs", "shards", Warn, "a GPU of n1 has more than 4 shards",
			func(f *Facts) { f.Nodes.Value[0].Shards = []int{8, 4} }},
		{"a node has no broker", "brokers", Warn, "start synergy-broker there",
			func(f *Facts) { f.Nodes.Value[1].Broker = false }},
		{"Slurm knows no shards", "GresTypes", Warn, "GresTypes=gpu,shard", set("GresTypes", "gpu")},
		{"anybody may have a shard", "keep_shards", Warn, "land beside who shares",
			func(f *Facts) { f.Settings.Value.KeepShards = false }},
		{"nodes are in others' partitions, too", "keep_shards", Warn, "nodes with shards are also in cpu, debug: who",
			func(f *Facts) { f.Nodes.Value[1].Partitions = []string{"debug", "gpu", "cpu"} }},
		{"accounting forgets", "AccountingStoreFlags", Warn, "no job_extra",
			set("AccountingStoreFlags", "job_comment,job_env")},
	} {
		f := ready()
		c.broken(&f)
		lines := All(f)
		var bad []Line
		for _, line := range lines {
			if line.Verdict != OK {
				bad = append(bad, line)
			}
		}
		if len(bad) != 1 || bad[0].Check != c.check || bad[0].Verdict != c.verdict ||
			!strings.Contains(bad[0].Text+" "+bad[0].Remedy, c.says) {
			t.Errorf("%s: %v", c.name, bad)
			continue
		}
		if needs := c.verdict == Warn || c.verdict == Fail; needs != (bad[0].Remedy != "") ||
			Ready(lines) == (c.verdict == Fail) {
			t.Errorf("%s: %v: ready %t", c.name, bad, Ready(lines))
		}
	}
}

func TestWhatIsRightInAnotherWordingIsRight(t *testing.T) {
	for name, change := range map[string]func(*Facts){
		"98 in a range":            set("RequeueExit", "1,90-99"),
		"the gate among others":    set("JobSubmitPlugins", "throttle,lua"),
		"the gate with its kind":   set("JobSubmitPlugins", "throttle,job_submit/lua"),
		"the filter with its kind": set("CliFilterPlugins", "cli_filter/lua"),
		"a deep look at a long queue": func(f *Facts) {
			set("SchedulerParameters", "default_queue_depth=1000,bf_max_job_test=1000")(f)
			f.Slurm.Value.Eligible = 999
		},
		"a small delay":               set("SchedulerParameters", "batch_sched_delay=3,defer_x=1"),
		"a bound above ours":          set("SlurmctldParameters", "rl_enable,rl_bucket_size=500,rl_refill_rate=200"),
		"a bound that is off":         set("SlurmctldParameters", "rl_refill_rate=1"),
		"age that has no weight":      func(f *Facts) { set("PriorityFlags", "")(f); set("PriorityWeightAge", "0")(f) },
		"no multifactor":              func(f *Facts) { set("PriorityFlags", "")(f); set("PriorityType", "priority/basic")(f) },
		"no limits":                   set("AccountingStorageEnforce", "none"),
		"threads with CR_CPU":         func(f *Facts) { set("SelectTypeParameters", "CR_CPU_MEMORY")(f); f.Threads.Value = 2 },
		"an administrator":            func(f *Facts) { f.Level.Value = "Administrator" },
		"no scontrol, and no need":    func(f *Facts) { f.Here.Scontrol.Why, f.Wanted.Requeues = "no such file", true },
		"a token that says nothing":   func(f *Facts) { f.Token.Value = Token{} },
		"a newer Slurm":               func(f *Facts) { f.Slurm.Value.Release = "26.05.5" },
		"no plugin on this host":      func(f *Facts) { f.Options.Value = false; set("CliFilterPlugins", "(null)")(f) },
		"a gate that refuses a trial": tried(func(g *Gate) { *g = Gate{Lua: true, Refused: "error 2036", Annotated: true, Lease: 15 * time.Minute} }),
	} {
		f := ready()
		change(&f)
		for _, line := range All(f) {
			if line.Verdict != OK {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

func TestAPartitionWithoutAGateIsFoundAndAStaleHeartbeatIsNoFault(t *testing.T) {
	f := ready()
	f.Gates.Value["gpu"] = Gate{}
	if got := of(All(f), "gate"); len(got) != 1 || got[0].Verdict != Fail ||
		!strings.Contains(got[0].Remedy, "JobSubmitPlugins=lua") {
		t.Errorf("no gate: %v", got)
	}
	f.Gates.Value["gpu"] = Gate{Away: true}
	if got := of(All(f), "gate"); len(got) != 1 || got[0].Verdict != Skip {
		t.Errorf("a gate without a heartbeat: %v", got)
	}
	f.Gates.Value["gpu"] = Gate{Refused: "error 2035"}
	if got := of(All(f), "gate"); len(got) != 1 || got[0].Verdict != Warn ||
		!strings.Contains(got[0].Text, "error 2035") {
		t.Errorf("a partition that is closed to us: %v", got)
	}
}

func TestWhereNoJobMayBeSubmittedTheGatesFileIsLookedAt(t *testing.T) {
	f := ready()
	f.Gates = Unknown[map[string]Gate]("--shadow")
	f.Settings.Value.Partitions = []string{"cpu"}
	got := of(All(f), "gate")
	if len(got) != 3 || got[0].Verdict != Fail || got[1].Verdict != Fail || got[2].Verdict != Skip ||
		!strings.Contains(got[0].Text, "manages cpu") || !strings.Contains(got[1].Text, "does not manage gpu") {
		t.Errorf("%v", got)
	}
}

// What is not known is never good, and never a fault of the site's.
func TestWhatIsNotKnownIsSkippedWithWhy(t *testing.T) {
	f := ready()
	const why = "nobody could find out"
	f.Level, f.Threads, f.Options = Unknown[string](why), Unknown[int](why), Unknown[bool](why)
	f.Partitions, f.Gates = Unknown[map[string]int](why), Unknown[map[string]Gate](why)
	f.Nodes, f.Wanted.Sharing.Memory = Unknown[[]Node](why), false
	f.Settings, f.Scontrol = Unknown[Settings](why), Unknown[map[string]string](why)
	f.Weights = Unknown[map[string]string](why)
	lines := All(f)
	for _, name := range []string{"operator", "TRESBillingWeights",
		"partitions", "gate", "gate's lease", "trusted_uids", "gate's settings",
		"options of sbatch", "slurm.conf", "share.gpu_memory", "share.by_feature", "share.mode_by_feature", "shards",
		"keep_shards", "seats"} {
		if got := of(lines, name); len(got) != 1 || got[0].Verdict != Skip {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !Ready(lines) {
		t.Error("what is not known keeps a site from being ready")
	}
	f.Slurm = Unknown[Slurm](why)
	if lines := All(f); Ready(lines) || of(lines, "clock")[0].Verdict != Skip {
		t.Errorf("Slurm does not answer: %v", lines)
	}
	f = ready()
	maps.DeleteFunc(f.Scontrol.Value, func(key, _ string) bool { return key == "RequeueExit" })
	if got := of(All(f), "RequeueExit"); got[0].Verdict != Skip {
		t.Errorf("a key that this release does not have: %v", got)
	}
}

func TestWhatAPluginDrivesNeedsNoTokenOfOurs(t *testing.T) {
	f := ready()
	f.Wanted.Plugin, f.Token = "/usr/lib/mine", Known[Token]{}
	lines := All(f)
	if got := of(lines, "token"); got[0].Verdict != Skip {
		t.Errorf("%v", got)
	}
	if got := of(lines, "slurm"); got[0].Verdict != OK || !strings.Contains(got[0].Text, "/usr/lib/mine") {
		t.Errorf("%v", got)
	}
	f.Slurm = Unknown[Slurm]("it has died")
	if got := of(All(f), "slurm"); got[0].Verdict != Fail || !strings.Contains(got[0].Remedy, "synergy plugin check") {
		t.Errorf("%v", got)
	}
}

func TestTheLocalHalfAsksForNothingElse(t *testing.T) {
	f := Facts{Wanted: ready().Wanted, Here: ready().Here}
	var checks []string
	for _, line := range Local(f) {
		checks = append(checks, line.Check)
		if line.Verdict != OK {
			t.Error(line)
		}
	}
	if want := []string{"profiles", "programs", "folders", "scontrol"}; !slices.Equal(checks, want) {
		t.Errorf("%v, want %v", checks, want)
	}
}

func TestASiteThatSharesNoGPUsIsToldNothingOfThat(t *testing.T) {
	f := ready()
	f.Wanted.Sharing, f.Settings.Value.KeepShards, f.Nodes = Sharing{Most: 4}, false, Known[[]Node]{}
	for _, line := range All(f) {
		if line.Verdict != OK || strings.Contains(line.Check, "share") || strings.Contains(line.Check, "shard") {
			t.Error(line)
		}
	}
}

func TestThatTheDaemonMayGivePartsOfGPUsIsSaidOnlyWhereItWasTried(t *testing.T) {
	for name, c := range map[string]struct {
		broken func(f *Facts)
		lines  int
	}{
		"no operator":             {func(f *Facts) { f.Level.Value = "None" }, 0},
		"not trusted by the gate": {tried(func(g *Gate) { g.Untrusted = "error 2002" }), 0},
		"not tried":               {func(f *Facts) { f.Gates = Unknown[map[string]Gate]("--shadow") }, 1},
	} {
		f := ready()
		c.broken(&f)
		if got := of(All(f), "seats"); len(got) != c.lines || c.lines > 0 && got[0].Verdict != Skip {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestManyNodesWithoutShardsAreNamedByAFew(t *testing.T) {
	f := ready()
	for _, name := range []string{"n4", "n5", "n6", "n7", "n8", "n9"} {
		f.Nodes.Value = append(f.Nodes.Value, Node{Name: name, Partitions: []string{"gpu"}, GPUs: 8})
	}
	const want = "6 of 8 nodes have no type and shards of its own for each GPU, so nobody shares there: " +
		"n4, n5, n6, n7, n8, and 1 more"
	if got := of(All(f), "shards"); len(got) != 1 || got[0].Text != want {
		t.Errorf("%v, want %q", got, want)
	}
}
