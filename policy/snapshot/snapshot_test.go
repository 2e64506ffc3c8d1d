package snapshot_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/exam"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

func without(string) *sensitivity.Profile { return nil }

func TestWhatTheDaemonSavesIsReadBackAsItWas(t *testing.T) {
	for n := range 30 {
		c := exam.Snapshot(1, n)
		profiles := map[string]*sensitivity.Profile{}
		for _, j := range c.Jobs {
			profiles[j.ProfileName] = j.Profile
		}
		find := func(name string) *sensitivity.Profile { return profiles[name] }
		for what, value := range map[string]any{"by itself": c, "in a report": bridge.Report{Round: 17, Snapshot: c}} {
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			got, err := snapshot.Read(text, find)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			want, have := inJSON(t, c), inJSON(t, got.Cluster)
			if want != have || !reflect.DeepEqual(got.Jobs[0].Profile, c.Jobs[0].Profile) || got.Profiles != nil {
				t.Fatalf("%s: read\n%s\nwant\n%s", what, have, want)
			}
		}
	}
}

func TestASnapshotThatBringsItsProfilesIsPlannedAnywhereAsWhereItWasTaken(t *testing.T) {
	asked := func(name string) *sensitivity.Profile {
		t.Fatalf("asked for profile %s", name)
		return nil
	}
	for n := range 60 {
		c := exam.Snapshot(3, n)
		file := snapshot.File{Cluster: c, Profiles: snapshot.ProfilesOf(&c), Policy: "las", Allocator: "opt",
			Habits: []float64{0, 0.5, 1}}
		report := bridge.Report{Snapshot: c, Profiles: snapshot.ProfilesOf(&c), Policy: "las", Allocator: "opt",
			Habits: []float64{0, 0.5, 1}}
		for what, value := range map[string]any{"by itself": file, "in a report": report} {
			got, err := snapshot.Read([]byte(inJSON(t, value)), asked)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if want, have := inJSON(t, file), inJSON(t, got); want != have {
				t.Fatalf("%s: read\n%s\nwant\n%s", what, have, want)
			}
			plan := func(c policy.Cluster) string { return inJSON(t, policy.Decide(c, policy.FIFO(), policy.Tune())) }
			if want, have := plan(c), plan(got.Cluster); want != have {
				t.Fatalf("%s: planned\n%s\nwant\n%s", what, have, want)
			}
		}
	}
}

// mine is a profile under a pointer of its own.
func mine(rate float64) *sensitivity.Profile {
	return &sensitivity.Profile{Version: 1, Model: "m", Task: "t", GPUType: "g", Batch: 1, CoresPerGPU: []float64{1},
		MemoryPerGPU: []gres.Memory{1}, Throughput: [][]float64{{rate}}}
}

func TestAProfileIsWrittenOnceForAllThatHaveItByWhatItSaysAndNotByItsName(t *testing.T) {
	c := policy.Cluster{Jobs: []policy.Job{{ID: 3, ProfileName: "auto", Profile: mine(1)}, {ID: 4, ProfileName: "auto"},
		{ID: 5, ProfileName: "auto", Profile: mine(2)}, {ID: 9, ProfileName: "x", Profile: mine(1)}}}
	got := snapshot.ProfilesOf(&c)
	want := snapshot.Profiles{{Jobs: []int{3, 9}, Profile: mine(1)}, {Jobs: []int{5}, Profile: mine(2)}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s, want %s", inJSON(t, got), inJSON(t, want))
	}
	if none := inJSON(t, snapshot.File{Profiles: snapshot.ProfilesOf(&policy.Cluster{})}); !strings.Contains(none,
		`"profiles":[]`) {
		t.Errorf("%s does not say that there are no profiles", none)
	}
}

func inJSON(t testing.TB, c any) string {
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const good = `{"now": "2026-01-02T12:00:00Z",
 "nodes": [{"name": "n1", "total": {"gpus": 8, "cpus": 24, "memory_mib": 500000}}],
 "jobs": [{"id": 1, "gpus": 1, "profile": "res18", "saves": true}], "rules": {}}`

// sharing has two jobs on one GPU and one that could join them.
const sharing = `{"now": "2026-01-02T12:00:00Z",
 "nodes": [{"name": "n1", "total": {"gpus": 1, "cpus": 24, "memory_mib": 500000}, "foreign": {},
  "devices": [{"name": "g0", "memory_mib": 80000, "seats": 4}]}],
 "jobs": [{"id": 1, "gpus": 1, "share": {"class": "low", "gpu_memory_mib": 9000}, "running":
   {"nodes": ["n1"], "per_node": {"gpus": 1, "cpus": 3, "memory_mib": 9000}, "device": "g0"}},
  {"id": 2, "gpus": 1, "share": {"class": "low", "gpu_memory_mib": 9000}, "saves": true, "running":
   {"nodes": ["n1"], "per_node": {"gpus": 1, "cpus": 3, "memory_mib": 9000}, "device": "g0"}},
  {"id": 3, "gpus": 1, "share": {"class": "low", "gpu_memory_mib": 9000, "slo_ns": 50000000},
   "floor": {"cpus": 3, "memory_mib": 9000}}], "rules": {}}`

func TestWhoSharesAGPUIsReadAndWrittenAndPlanned(t *testing.T) {
	file, err := snapshot.Read([]byte(sharing), without)
	if err != nil {
		t.Fatal(err)
	}
	again, err := snapshot.Read([]byte(inJSON(t, file)), without)
	if err != nil || inJSON(t, again) != inJSON(t, file) {
		t.Fatalf("written and read again: %v", err)
	}
	plan := policy.Decide(again.Cluster, policy.FIFO(), policy.Tune())
	if g := plan.Decisions[2].Grant; g == nil || g.Device != "g0" || plan.Decisions[2].Reason != policy.Shares {
		t.Errorf("job 3: %+v, want a seat on g0", plan.Decisions[2])
	}
}

func TestTheModeOfADeviceIsReadAndWrittenAndPlannedWith(t *testing.T) {
	filled := strings.NewReplacer(`"seats": 4`, `"seats": 4, "mode": "fill"`, `"gpus": 1, "share"`,
		`"gpus": 1, "user": "ann", "share"`).Replace(sharing)
	for text, mode := range map[string]string{sharing: "by turns with look-ahead", filled: "by MPS"} {
		file, err := snapshot.Read([]byte(text), without)
		if err != nil {
			t.Fatal(err)
		}
		again, err := snapshot.Read([]byte(inJSON(t, file)), without)
		if err != nil {
			t.Fatal(err)
		}
		plan := policy.Decide(again.Cluster, policy.FIFO(), policy.Tune())
		if why := plan.Decisions[2].Why; !strings.Contains(why, mode) {
			t.Errorf("job 3 %s, want it reckoned %s", why, mode)
		}
	}
}

func TestWhatIsWrongIsNamedWithItsValueAndWhatWouldBeRight(t *testing.T) {
	if _, err := snapshot.Read([]byte(good), without); err != nil {
		t.Fatal(err)
	}
	text := inJSON(t, mine(1))
	for _, c := range []struct{ old, put, want string }{
		{`"cpus": 24`, `"cpus": -1`, "nodes[0].total.cpus = -1: want a whole number from 0 to 65536"},
		{`"cpus": 24`, `"cpus": 4000000000`, "nodes[0].total.cpus = 4000000000: want"},
		{`"cpus": 24`, `"cores": 24`, `unknown field "cores"`},
		{`"cpus": 24`, `"cpus": "many"`, "cannot unmarshal string"},
		{`"name": "n1"`, `"name": ""`, `nodes[0].name = "": want a name`},
		{`"name": "n1"`, `"name": "\u001b[2J"`, `nodes[0].name = "\x1b[2J": want at most 1024 printable characters`},
		{`"gpus": 1,`, `"gpus": 0,`, "jobs[0].gpus = 0: want a whole number from 1 to"},
		{`"id": 1`, `"id": 0`, "jobs[0].id = 0: want a number above 0"},
		{`"saves": true}`, `"saves": true}, {"id": 1, "gpus": 1}`, "jobs[1].id = 1: want a number above 0 that no"},
		{`"saves": true`, `"quotas": [3]`, "jobs[0].quotas[0] = 3: want numbers of the snapshot's 0 quotas"},
		{`"saves": true`, `"running": {"nodes": [], "per_node": {}}`, "jobs[0].running.nodes = []: want at least one"},
		{`"saves": true`, `"share": {"class": "vip"}`, `jobs[0].share.class = "vip": want high or low`},
		{`"saves": true`, `"share": {"class": "low", "gpu_memory_mib": -1}`, "jobs[0].share.gpu_memory_mib = -1: want"},
		{`"saves": true`, `"kept": {"part": 1.5}`, "jobs[0].kept.part = 1.5: want a part of the speed alone"},
		{`"saves": true`, `"share": {"class": "low", "slo_ns": -1}`, "jobs[0].share.slo_ns = -1ns: want"},
		{`"gpus": 1,`, `"gpus": 2, "share": {"class": "low"},`, "jobs[0].share = low: want none, since the job needs 2"},
		{`"saves": true`, `"running": {"nodes": ["n1"], "per_node": {}, "device": "\u001b"}`,
			`jobs[0].running.device = "\x1b": want`},
		{`"name": "n1"`, `"name": "n1", "devices": [{"name": ""}]`, `nodes[0].devices[0].name = "": want a name that`},
		{`"name": "n1"`, `"name": "n1", "devices": [{"name": "g"}, {"name": "g"}]`, `nodes[0].devices[1].name = "g"`},
		{`"name": "n1"`, `"name": "n1", "devices": [{"name": "g", "seats": 5}]`, `nodes[0].devices[0].seats = 5: want`},
		{`"name": "n1"`, `"name": "n1", "devices": [{"name": "g", "mode": "mps"}]`,
			`nodes[0].devices[0].mode = "mps": want turns or fill`},
		{`"name": "n1"`, `"name": "n1", "devices": [{"name": "g", "job": -1}]`, `nodes[0].devices[0].job = -1: want`},
		{`"name": "n1"`, `"name": "n1", "devices": [{"name": "g", "memory_mib": -1}]`, `devices[0].memory_mib = -1: want`},
		{`"saves": true`, `"restart_ns": -5`, "jobs[0].restart_ns = -5ns: want nanoseconds from 0"},
		{`"rules": {}`, `"rules": {"stranded": 2}`, "rules.stranded = 2: want a number from 0 to 1"},
		{`"nodes": [{`, `"nodes": [{"name": "n1", "total": {}}, {`, `nodes[1].name = "n1": want a name that no`},
		{`"rules": {}`, `"rules": {}, "profiles": {}`, "profiles: json: cannot unmarshal object"},
		{`"rules": {}`, `"rules": {}, "profiles": [{"job": [1]}]`, `profiles: json: unknown field "job"`},
		{`"rules": {}`, `"rules": {}, "profiles": [{"jobs": [1]}]`, "profiles[0].profile: document does not start"},
		{`"rules": {}`, `"rules": {}, "profiles": [{"jobs": [1], "profile": {"version": 1}}]`, "model is missing"},
		{`"rules": {}`, `"rules": {}, "profiles": [{"jobs": [1, 1], "profile": ` + text + `}]`,
			"profiles[0].jobs[1] = 1: want a job of the snapshot that has no other profile"},
		{`"rules": {}`, `"rules": {}, "profiles": [{"jobs": [7], "profile": ` + text + `}]`, "profiles[0].jobs[0] = 7"},
		{`"rules": {}`, `"rules": {}, "habits": [0.5, 0.4]`, "habits[1] = 0.4: want numbers from 0 to 1, ascending"},
		{`"rules": {}`, `"rules": {}, "habits": [2]`, "habits[0] = 2: want"},
		{`"rules": {}`, `"rules": {}, "policy": "\u001b[2J"`, `policy = "\x1b[2J": want`},
		{good, `{"nodes": []}`, "nodes = 0: want a whole number from 1"},
		{good, `{"round": 3}`, `unknown field "round"`},
		{good, good + good, "not JSON"},
		{good, "", "not JSON of a snapshot or a round"},
	} {
		text := strings.Replace(good, c.old, c.put, 1)
		_, err := snapshot.Read([]byte(text), without)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", text, err, c.want)
		}
	}
}

// FuzzRead holds that whatever is read can be planned and certified.
func TestAJobsNameKeepsNobodyFromReadingTheSnapshot(t *testing.T) {
	for _, name := range []string{"\x1b[2J\nevil", strings.Repeat("long", 1000), "a\xff"} {
		c := exam.Snapshot(3, 7)
		c.Jobs[0].Name = name
		file, err := snapshot.Read([]byte(inJSON(t, snapshot.File{Cluster: c})), without)
		if err != nil {
			t.Fatal(err)
		}
		if got := file.Jobs[0].Name; strings.ContainsAny(got, "\x1b\n") || got == "" || len(got) > 1030 {
			t.Errorf("%.20q is read as %.40q", name, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"snapshot": ` + good + `}`))
	f.Add([]byte(sharing))
	for n := range 4 {
		c := exam.Snapshot(2, n)
		text, err := json.Marshal(snapshot.File{Cluster: c, Profiles: snapshot.ProfilesOf(&c), Policy: "srtf"})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := snapshot.Read(text, without)
		if err != nil || len(file.Nodes) > 50 || len(file.Jobs) > 50 {
			return
		}
		again, err := snapshot.Read([]byte(inJSON(t, file)), without)
		if err != nil || inJSON(t, again) != inJSON(t, file) {
			t.Fatalf("written and read again: %v", err)
		}
		c := file.Cluster
		plan := policy.Decide(c, policy.FIFO(), policy.Tune())
		if err := policy.Check(c, plan); err != nil {
			t.Fatal(err)
		}
		if cert := bound.Certify(&c, plan); cert.Value > cert.Bound*(1+1e-9) || !(cert.Bound >= 0) {
			t.Fatalf("%+v", cert)
		}
	})
}
