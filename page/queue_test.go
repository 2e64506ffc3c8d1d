package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
)

// waiting is a round in which so many jobs of two users wait, the first to come last in line, and one that is held.
func waiting(jobs int) bridge.Report {
	report := bridge.Report{Round: 7, Snapshot: policy.Cluster{Now: noon}}
	for id := 1; id <= jobs; id++ {
		report.Snapshot.Jobs = append(report.Snapshot.Jobs, policy.Job{ID: id, User: []string{"ann", "bob"}[id%2],
			GPUs: 1, Arrival: noon.Add(-time.Hour)})
		report.Waits = append(report.Waits, bridge.Wait{Job: id, Reason: bridge.ForRoom, Cause: bridge.CauseTurn,
			Why: "turn", Place: jobs + 1 - id})
	}
	held := bridge.Wait{Job: 9999, Reason: bridge.OnHold, Cause: bridge.CauseHeld, Why: "held"}
	report.Waits = append(report.Waits, held)
	return report
}

func jobsOf(q queue) string {
	var all []string
	for _, w := range q.Rows {
		all = append(all, fmt.Sprintf("%d:%s", w.Job, w.Ahead()))
	}
	return strings.Join(all, " ")
}

// TestTheQueueIsInTheOrderOfThePlan, and whom the policy has no place for stands behind it.
func TestTheQueueIsInTheOrderOfThePlan(t *testing.T) {
	q := queueOf(waiting(3), Asked{})
	if got := jobsOf(q); got != "3:0 2:1 1:2 9999:–" {
		t.Errorf("%s", got)
	}
	if len(q.Reasons) != 2 || q.Reasons[0].Cause != bridge.CauseHeld || q.Reasons[1].N != 3 {
		t.Errorf("%+v, want what binds first to stand first", q.Reasons)
	}
}

// TestAJobThatNoRoundPlansIsShownByItsOwnRequest: the snapshot does not have it.
func TestAJobThatNoRoundPlansIsShownByItsOwnRequest(t *testing.T) {
	report := waiting(1)
	report.Waits = append(report.Waits, bridge.Wait{Job: 17, Reason: bridge.OnHold, Cause: bridge.CauseHeld,
		Name: "train", User: "eve", GPUs: 4, Since: noon.Add(-time.Minute)})
	w := queueOf(report, Asked{User: "eve"}).Rows
	if len(w) != 1 || w[0].Name != "train" || w[0].GPUs != 4 || w[0].Since != time.Minute {
		t.Errorf("%+v", w)
	}
}

func TestWhomTheRoundHasStartedIsAheadOfNobody(t *testing.T) {
	report := waiting(3)
	report.Waits[0].Place, report.Waits[1].Place, report.Waits[2].Place = 9, 7, 4
	report.Waits[1].Reason, report.Waits[1].Cause = bridge.Misconfigured, bridge.CauseShape
	if got := jobsOf(queueOf(report, Asked{})); got != "3:0 2:1 1:1 9999:–" {
		t.Errorf("%s", got)
	}
}

// TestAPartOfTheQueueIsThatPart: of a user, for a cause, from a row on; places are those of the whole queue.
func TestAPartOfTheQueueIsThatPart(t *testing.T) {
	if got := jobsOf(queueOf(waiting(4), Asked{User: "ann"})); got != "4:0 2:2" {
		t.Errorf("of ann: %s", got)
	}
	if got := jobsOf(queueOf(waiting(4), Asked{Cause: bridge.CauseHeld})); got != "9999:–" {
		t.Errorf("held: %s", got)
	}
	if q := queueOf(waiting(4), Asked{User: "ann", Cause: bridge.CauseHeld}); q.Found != 0 || q.All != 5 {
		t.Errorf("%+v", q)
	}
	seen := 0
	for asked := (Asked{}); ; asked.From += maxTableRows {
		q := queueOf(waiting(900), asked)
		seen += len(q.Rows)
		if q.Next == "" {
			break
		}
	}
	if seen != 901 {
		t.Errorf("%d of 901 jobs are on some page", seen)
	}
	for _, from := range []int{-1, 1 << 62, -1 << 62} {
		queueOf(waiting(300), Asked{From: from}) // must not panic
	}
}

// TestWhenAJobIsExpectedToStart stands in the queue with its spread, where somebody has estimated it.
func TestWhenAJobIsExpectedToStart(t *testing.T) {
	report := waiting(5)
	in := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	for k, s := range []forecast.Spread{{P10: in(60), P50: in(90), P90: in(120)}, {P10: in(5), P50: in(10)},
		{P10: in(9)}, {P10: in(7), P50: in(7), P90: in(7)}} {
		report.Waits[k].Starts = &s
	}
	var said []string
	q := queueOf(report, Asked{})
	for _, w := range q.Rows {
		said = append(said, w.Soon)
	}
	const want = ";in 7 min 0 s;not in sight;in 10 min 0 s, or much later;in 1 h 30 min (1 h 0 min to 2 h 0 min);"
	if got := strings.Join(said, ";"); got != want || !q.Timed {
		t.Errorf("%s, want %s", got, want)
	}
	if queueOf(waiting(3), Asked{}).Timed {
		t.Error("nobody has estimated anything")
	}
}

func TestEveryCauseHasAMeaning(t *testing.T) {
	for _, cause := range bridge.WaitCauses() {
		if meanings[cause] == "" {
			t.Errorf("%s means nothing", cause)
		}
	}
	if len(meanings) != len(bridge.WaitCauses()) {
		t.Error("something else means something")
	}
}

// TestWhatIsNoUseToAnybodyIsTold: cores where no GPU is free, and GPUs that the certificate calls stranded.
func TestWhatIsNoUseToAnybodyIsTold(t *testing.T) {
	report := small()
	report.Certificate.StrandedOn = []bound.StrandedNode{{Node: "n1", GPUs: 5, Lacks: "cores"}}
	n := clusterOf(report, Health{}, Asked{}, noon).Nodes[0]
	if n.GPUs.Stranded != 5 || n.GPUs.Free != 0 || n.Cores.Stranded != 0 || n.Cells[7].Kind != "stranded" {
		t.Errorf("%+v", n)
	}
	report.Snapshot.Nodes[0].Foreign.GPUs = 6
	n = clusterOf(report, Health{}, Asked{}, noon).Nodes[0]
	if n.Cores.Stranded != 8 || n.Cores.Free != 0 {
		t.Errorf("no GPU is free, and of the cores are %+v", n.Cores)
	}
	report.Snapshot.Nodes[0].Closed = "drained"
	if n = clusterOf(report, Health{}, Asked{}, noon).Nodes[0]; n.Cores.Stranded != 0 || n.Cores.Closed != 8 {
		t.Errorf("on a closed node %+v", n.Cores)
	}
	page := drawn(t, report)
	if strings.Contains(page, "for want of GPUs") {
		t.Error("a closed node strands something")
	}
}
