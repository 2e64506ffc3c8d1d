package sim

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

func TestTheEmbeddedProfilesAreThePapersModels(t *testing.T) {
	own, err := Profiles(profiles.FS)
	if err != nil {
		t.Fatal(err)
	}
	table, err := workload.Paper(3)
	if err != nil {
		t.Fatal(err)
	}
	if len(own) != len(table) {
		t.Errorf("%d profiles, %d models", len(own), len(table))
	}
	drawn := make(map[string]workload.Class)
	for _, class := range Classes(own, cluster.Paper()) {
		drawn[class.Name] = class
	}
	for _, want := range table {
		got := drawn[want.Name]
		if got.Family != want.Family || got.Iteration < 0.999*want.Iteration || got.Iteration > 1.001*want.Iteration {
			t.Errorf("the profile is drawn as %+v, the table's model as %+v", got, want)
		}
	}
}

func TestARestartThatIsImposedLeavesTheProfilesAlone(t *testing.T) {
	own, err := Profiles(profiles.FS)
	if err != nil {
		t.Fatal(err)
	}
	before := own["gnmt"].RestartCost()
	imposed := WithRestart(own, 7*time.Second, 13*time.Second)
	if got := own["gnmt"].RestartCost(); got != before {
		t.Errorf("the profile itself costs %s now", got)
	}
	if p := imposed["gnmt"]; p.CheckpointSeconds != 7 || p.StartSeconds != 13 || p.Model != "gnmt" {
		t.Errorf("a restart costs %g + %g s", p.CheckpointSeconds, p.StartSeconds)
	}
}

func TestAFolderOfProfilesIsReadWholeOrNotAtAll(t *testing.T) {
	good, err := profiles.FS.ReadFile("gnmt.json")
	if err != nil {
		t.Fatal(err)
	}
	for want, folder := range map[string]fstest.MapFS{
		"no profile is there: want files that end in .json": {"readme.txt": {Data: good}},
		"profile b.json: model = gnmt: a.json has it":       {"a.json": {Data: good}, "b.json": {Data: good}},
		"profile b.json: ": {"a.json": {Data: good}, "b.json": {Data: []byte("{}")}},
	} {
		if _, err := Profiles(folder); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
