package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/preflight"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

func TestTheSettingsOfTheGateAreReadAsTheyAreShipped(t *testing.T) {
	text, err := os.ReadFile("../../etc/synergy_settings.lua")
	if err != nil {
		t.Fatal(err)
	}
	want := preflight.Settings{Path: "x", Partitions: []string{"synergy"}}
	if got, err := parseSettings("x", string(text)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v: %v", got, want, err)
	}
	got, err := parseSettings("x", `return { managed_partitions = { "gpu", 'big', }, -- "old"
		lease_seconds=600, heartbeat_file = "/run/synergy/heartbeat", profiles_file='/run/synergy/profiles' }`)
	want = preflight.Settings{Path: "x", Partitions: []string{"gpu", "big"},
		Heartbeat: "/run/synergy/heartbeat", ProfilesFile: "/run/synergy/profiles"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v: %v", got, want, err)
	}
}

func TestWhetherTheGateKeepsShardsIsReadWhereItIsWrittenOut(t *testing.T) {
	for text, want := range map[string]bool{
		"return { keep_shards = true }":                                 true,
		"return { keep_shards=true,\n hints = false }":                  true,
		"return { -- keep_shards = true\n hints = true }":               false,
		"return { hints = true, keep_shards = false }":                  false,
		"local s = {}\ns.keep_shards = true\ns.hints = false\nreturn s": true,
	} {
		if s, err := parseSettings("x", text); err != nil || s.KeepShards != want {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
	}
}

func TestNodesAreLookedAtForWhetherTheirGPUsCanBeShared(t *testing.T) {
	all := slurm.Observed{Nodes: []slurm.Node{
		{Name: "n1", Features: []string{"h100", bridge.Served}, Partitions: []string{"gpu"},
			Total:   gres.Vector{GPUs: 2},
			Devices: []slurm.Device{{Type: "g0", Shards: 4}, {Type: "g1", Shards: 2}}},
		{Name: "n2", Partitions: []string{"gpu"}, Total: gres.Vector{GPUs: 8}},
		{Name: "n3", Partitions: []string{"cpu"}},
	}}
	want := []preflight.Node{{Name: "n1", Features: []string{"h100", bridge.Served}, Partitions: []string{"gpu"},
		GPUs: 2, Shards: []int{4, 2}, Broker: true}, {Name: "n2", Partitions: []string{"gpu"}, GPUs: 8}}
	if got := nodesOf(all); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestAnythingThatIsSaidUnderShareHasSharingChecked(t *testing.T) {
	if got := sharingOf(bridge.Sharing{}); got.Said {
		t.Error("a site that says nothing of it is taken to share GPUs")
	}
	for _, s := range []bridge.Sharing{{GPUMemory: 81559}, {Mode: share.Fill},
		{ByFeature: map[string]gres.Memory{"a": 1}}, {ModeByFeature: map[string]share.Mode{"a": share.Fill}}} {
		if got := sharingOf(s); !got.Said || got.Memory != (s.GPUMemory > 0) || got.Most != share.MostJobs ||
			len(got.ByFeature) != len(s.ByFeature) || len(got.ModeByFeature) != len(s.ModeByFeature) {
			t.Errorf("%+v: %+v", s, got)
		}
	}
}

func TestWhatTheGatesSettingsWorkOutIsNotKnown(t *testing.T) {
	for text, key := range map[string]string{
		`return { heartbeat_file = "/run/" .. name, lease_seconds = 900 }`:    "heartbeat_file",
		`local all = { "gpu" } return { managed_partitions = all }`:           "managed_partitions",
		`return { managed_partitions = { "gpu", other() } }`:                  "managed_partitions",
		`return { managed_partitions = { "gpu", ("big"):upper(), "small" } }`: "managed_partitions",
		`local s = {} s.profiles_file = os.getenv("LIST") return s`:           "profiles_file",
		`return { keep_shards = os.getenv("SHARES") ~= nil }`:                 "keep_shards",
	} {
		if s, err := parseSettings("x", text); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
	}
	for _, text := range []string{`local s = {} s.profiles_file = "/run/list" return s`,
		"local s = {}\ns.lease_seconds = 15 * 60\ns.profiles_file = '/run/list'\nreturn s"} {
		if s, err := parseSettings("x", text); err != nil || s.ProfilesFile != "/run/list" {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
	}
}

func TestWhatScontrolTellsIsReadLineByLine(t *testing.T) {
	got := pairs(
		[]byte(
			"Configuration data as of now\nKillWait                = 10 sec\nSchedulerParameters     = a=1,b=2\nName " +
				"= \x1b[31mred\n"))
	want := map[string]string{"KillWait": "10 sec", "SchedulerParameters": "a=1,b=2", "Name": " [31mred"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAPluginIsFoundInPlugstackAndWhatItIncludes(t *testing.T) {
	for _, place := range []string{"plugstack.conf", "plugstack.conf.d/synergy.conf"} {
		dir := t.TempDir()
		if pluginIn(dir).Value {
			t.Error("there is none")
		}
		path := filepath.Join(dir, place)
		if err := os.WriteFile(filepath.Join(dir, "plugstack.conf"),
			[]byte("include plugstack.conf.d/*\n# optional /usr/lib/slurm/synergy.so\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if pluginIn(dir).Value {
			t.Error("a comment is no plugin")
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("optional /usr/lib/slurm/synergy.so\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if !pluginIn(dir).Value {
			t.Errorf("it is in %s", place)
		}
	}
}

func TestAHeartbeatThatTheGateLooksForAndThatIsOldIsNoGateAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "heartbeat")
	facts := &preflight.Facts{Settings: preflight.Known[preflight.Settings]{Value: preflight.Settings{Heartbeat: path}}}
	if !isAway(facts) {
		t.Error("there is none")
	}
	if err := writeTimestamped(path, time.Now(), ""); err != nil {
		t.Fatal(err)
	}
	if isAway(facts) {
		t.Error("there is one")
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if !isAway(facts) {
		t.Error("it is an hour old")
	}
	facts.Settings.Value.Heartbeat = ""
	if isAway(facts) {
		t.Error("nobody looks for one")
	}
}

func TestTheGatesOwnRefusalIsKnownByItsNumber(t *testing.T) {
	for number, lua := range map[int]bool{notSupported: true, 2035: false} {
		g := gateOf(slurmrest.Rehearsal{Refused: &slurmrest.Failure{Number: number}}, false)
		if g.Lua != lua || g.Refused == "" {
			t.Errorf("error %d: %+v", number, g)
		}
	}
}

func TestOurPartitionsAreTriedFirstAndTheOthersBounded(t *testing.T) {
	facts := &preflight.Facts{Wanted: preflight.Wanted{Partitions: []string{"z", "none"}}}
	facts.Partitions.Value = map[string]int{"z": 8}
	for k := range 100 {
		facts.Partitions.Value[strings.Repeat("p", k+1)] = 0
	}
	if got := trialPartitions(facts); len(got) != 1+trials || got[0] != "z" || got[1] != "p" {
		t.Errorf("%v", got)
	}
}

func TestWhatARehearsalMayHaveLeftBehindIsNamedWhereItCouldNotBeFinished(t *testing.T) {
	for submit, want := range map[string]string{`{"job_id":7}`: "scancel 7", `{"job_id":`: "a held job synergy-check"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Method == http.MethodPost {
				fmt.Fprint(w, submit)
				return
			}
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, `{"errors":[{"error_number":1007,"error":"Protocol authentication error"}]}`)
		}))
		t.Cleanup(server.Close)
		token := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(token, []byte("token"), 0o600); err != nil {
			t.Fatal(err)
		}
		client, err := slurmrest.Open(t.Context(), slurmrest.Options{URL: server.URL, TokenFile: token,
			APIVersion: "v0.0.42"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		facts := &preflight.Facts{Partitions: preflight.Known[map[string]int]{Value: map[string]int{"gpu": 8}}}
		if got := rehearse(t.Context(), client, facts, flags{}); !strings.Contains(got.Why, want) {
			t.Errorf("%s: %+v, want %q", submit, got, want)
		}
	}
}
