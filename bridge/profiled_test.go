package bridge_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

func TestAReportThatIsKeptIsPlannedAgainWithoutTheFoldersOfProfiles(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Profiled = true
	w.submit(1, model("res18"))
	w.submit(2, model("gnmt"))
	w.submit(3, model("res18"))
	report := w.rounds(1)
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	file, err := snapshot.Read(text, func(name string) *sensitivity.Profile { t.Errorf("sought %s", name); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Profiles) != 2 || file.Policy != "fifo" || file.Allocator != "tune" {
		t.Errorf("%d profiles, by %s and %s: want 2, by fifo and tune", len(file.Profiles), file.Policy, file.Allocator)
	}
	if again := policy.Decide(file.Cluster, policy.FIFO(), policy.Tune()); !reflect.DeepEqual(again, report.Plan) {
		t.Errorf("planned %+v, and again %+v", report.Plan, again)
	}
}
