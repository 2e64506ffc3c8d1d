package bridge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/limits"
)

// halves is a world of two partitions with so many servers each, both managed: n1, … in gpu, and the others in big.
func halves(t *testing.T, each int) *world {
	t.Helper()
	nodes := slurmtest.Rack(2*each, server, "gpu")
	for i := range nodes[each:] {
		nodes[each+i].Partitions = []string{"big", "other"}
	}
	w := newSite(t, nodes)
	w.runner.Settings.Partitions = []string{"gpu", "big"}
	w.start(nil)
	return w
}

func inBoth(s *slurmtest.Spec) { s.Partition = "gpu,big" }

func (w *world) mustRunIn(id int, partition, nodes string) {
	w.t.Helper()
	if j := w.job(id); j.State != slurm.Running || j.Partition != partition ||
		strings.Join(j.Runs.Nodes, "+") != nodes {
		w.t.Errorf("job %d: %s in %s on %v, told %s; want running in %s on %s", id, j.State, j.Partition, j.Runs.Nodes,
			j.Extra, partition, nodes)
	}
}

// Slurm would try the other partition first, and keep the nodes that the job names from it.
func TestAJobOfSeveralPartitionsStartsInTheOneThatHasItsNodes(t *testing.T) {
	w := halves(t, 1)
	first, second, third := w.submit(8, model("res18"), inBoth), w.submit(8, model("res18"), inBoth),
		w.submit(8, model("res18"), inBoth)
	w.round()
	w.mustRunIn(first, "gpu", "n1")
	w.mustRunIn(second, "big", "n2")
	if j := w.job(third); j.Partition != "gpu,big" || j.State != slurm.Pending {
		t.Errorf("the third is %s in %s", j.State, j.Partition)
	}
}

func TestAJobThatComesBackHasAllOfItsPartitionsAgain(t *testing.T) {
	w := halves(t, 1)
	filler := w.submit(8, model("res18"))
	id := w.submit(8, model("res18"), inBoth)
	w.round()
	w.mustRunIn(id, "big", "n2")
	w.slurm.Down("n2")
	w.rounds(2)
	if j := w.job(id); !slurm.SamePartitions(j.Partition, "gpu,big") || len(j.Request.Pin) != 0 {
		t.Errorf("after its node is lost it waits in %s for %v", j.Partition, j.Request.Pin)
	}
	w.slurm.Cancel(filler)
	w.sleep(time.Minute)
	w.round()
	w.mustRunIn(id, "gpu", "n1")
}

func TestAJobThatCouldStartInAPartitionThatIsNotOursIsLeftToSlurm(t *testing.T) {
	w := halves(t, 1)
	id := w.submit(8, model("res18"), func(s *slurmtest.Spec) { s.Partition = "gpu,other" })
	own := w.job(id)
	w.rounds(2)
	if j := w.job(id); j.State != slurm.Pending || j.Extra != own.Extra || w.line.Count(slurmtest.Update) > 0 {
		t.Errorf("it was touched: %+v", j)
	}
}

// A gang is in one partition: n2 is free, and n3 and n4 are.
func TestTheNodesOfAGangAreOfOnePartition(t *testing.T) {
	w := halves(t, 2)
	w.submit(8, model("res18"))
	w.round()
	gang := w.submit(16, model("res18"), inBoth, func(s *slurmtest.Spec) { s.Request.Nodes, s.Request.Tasks = 2, 2 })
	w.round()
	w.mustRunIn(gang, "big", "n3+n4")
}

func TestWhatAnAdministratorMovesStaysWhereItWasMoved(t *testing.T) {
	w := halves(t, 1)
	w.submit(8, model("res18"))
	w.submit(8, model("res18"), func(s *slurmtest.Spec) { s.Partition = "big" })
	id := w.submit(8, model("res18"), inBoth)
	w.rounds(1)
	w.slurm.Modify(id, func(s *slurmtest.Spec) { s.Partition = "other" })
	w.rounds(3)
	if j := w.job(id); j.Partition != "other" {
		t.Errorf("it was moved to other, and is in %s", j.Partition)
	}
}

// Slurm refuses it in one partition, for a reason that nobody but Slurm knows. It has another.
func TestAPartitionThatRefusesAJobIsLeftOutAndTheOtherTaken(t *testing.T) {
	w := halves(t, 1)
	id := w.submit(8, model("res18"), inBoth)
	s := refusing(w, "AccountNotAllowed", 0, id)
	s.in = "gpu"
	report := w.round()
	if why := step(t, report, id, bridge.Start).Error; !strings.Contains(why, "in partition gpu") {
		t.Errorf("the first start: %q", why)
	}
	w.round()
	w.mustRunIn(id, "big", "n2")
	if s.tries != 1 {
		t.Errorf("%d tries in the partition that refuses", s.tries)
	}
}

// Once all have refused, the job is refused like any other, and tried again.
func TestAJobThatAllOfItsPartitionsRefuseIsTriedAgainLater(t *testing.T) {
	w := halves(t, 1)
	id := w.submit(8, model("res18"), inBoth)
	s := refusing(w, "AccountNotAllowed", 0, id)
	w.round()
	w.round()
	if j := w.job(id); !slurm.SamePartitions(j.Partition, "gpu,big") ||
		!strings.Contains(j.Extra, "Slurm does not start it (AccountNotAllowed)") {
		t.Errorf("%s, told %s", j.Partition, j.Extra)
	}
	s.most = 1
	w.rounds(2)
	if j := w.job(id); j.State != slurm.Running {
		t.Errorf("%+v", j)
	}
}

// In gpu each user may have two GPUs, in big a job five cores on a node.
func TestNoLimitOfThePartitionThatItStartsInIsExceeded(t *testing.T) {
	w := halves(t, 1)
	a := &accounting{site: limits.Site{
		Enforced: true, Associations: []limits.Association{{Account: "ml"}},
		QOS: []limits.QOS{{Name: "small",
			Limits: []limits.Limit{{Kind: limits.MaxTRESPerUser, TRES: "gres/gpu", Most: 2}}}},
		Partitions: []limits.Partition{{Name: "gpu", QOS: "small"}, {Name: "big", MaxCPUs: 5}},
	}}
	w.runner.Slurm, w.runner.Limits = ml{w.runner.Slurm}, &bridge.LimitsCache{Source: a}
	first, second := w.submit(4, model("res18"), inBoth), w.submit(4, model("res18"), inBoth)
	w.rounds(1)
	w.mustRunIn(first, "big", "n2")
	w.mustRunIn(second, "big", "n2")
	two := w.submit(2, model("res18"), inBoth)
	w.rounds(1)
	w.mustRun(two, "n1", 5)
	one := w.submit(1, model("res18"), inBoth)
	w.rounds(2)
	if j := w.job(one); j.State != slurm.Pending {
		t.Errorf("its user has all that gpu leaves him, and big is full: %s in %s, told %s", j.State, j.Partition,
			j.Extra)
	}
}

// Whose turn is next waits in all of its partitions but the one that refused it, and Slurm starts it by itself.
func TestAnArmedJobMayStartInEachOfItsPartitions(t *testing.T) {
	for _, refuses := range []string{"", "gpu"} {
		w := halves(t, 1)
		w.runner.Settings.Ahead = 2
		inGPU := w.submit(8, "synergy-profile=res18.json")
		inBig := w.submit(8, "synergy-profile=res18.json", func(s *slurmtest.Spec) { s.Partition = "big" })
		w.rounds(1)
		want, ends, runsOn := "gpu,big", inGPU, "gpu n1"
		if refuses != "" {
			want, ends, runsOn = "big", inBig, "big n2"
		}
		id := w.submit(8, "synergy-profile=res18.json", inBoth)
		w.rounds(1)
		if refuses != "" {
			records, _, err := w.book.Load()
			if err != nil {
				t.Fatal(err)
			}
			records.Of(id).Avoids = []bridge.Avoided{{Partition: refuses, Until: epoch.Add(24 * time.Hour)}}
			if err := w.book.Settle(records, bridge.Report{}); err != nil {
				t.Fatal(err)
			}
		}
		w.rounds(2)
		j := w.job(id)
		if !slurm.SamePartitions(j.Partition, want) || j.Begin.After(w.clock.Now()) || len(j.Request.Pin) != 0 {
			t.Errorf("%q refuses: it waits in %s until %s", refuses, j.Partition, j.Begin)
		}
		w.slurm.Cancel(ends)
		w.sleep(time.Minute)
		if j := w.job(id); j.State != slurm.Running || j.Partition+" "+strings.Join(j.Runs.Nodes, "+") != runsOn {
			t.Errorf("%q refuses: it is %s in %s on %v, want %s", refuses, j.State, j.Partition, j.Runs.Nodes, runsOn)
		}
	}
}

func TestAPartitionThatTakesNoJobsIsLeftForTheOther(t *testing.T) {
	w := halves(t, 1)
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Verb == slurmtest.Update && at == slurmtest.Before && c.Update.Request.Partition == "gpu" {
			return fmt.Errorf("slurmrestd: 500 error 2015 partition not available: %w", slurm.ErrRefused)
		}
		return nil
	})
	id := w.submit(8, model("res18"), inBoth)
	w.rounds(3)
	w.mustRunIn(id, "big", "n2")
}

func TestAJobThatIsArmedInOneOfItsPartitionsIsArmedOnce(t *testing.T) {
	w := halves(t, 1)
	w.runner.Settings.Ahead = 2
	w.submit(8, "synergy-profile=res18.json", forAges)
	w.submit(8, "synergy-profile=res18.json", forAges, func(s *slurmtest.Spec) { s.Partition = "big" })
	w.rounds(1)
	id := w.submit(8, "synergy-profile=res18.json", forAges, inBoth)
	w.rounds(1)
	records, _, err := w.book.Load()
	if err != nil {
		t.Fatal(err)
	}
	records.Of(id).Avoids = []bridge.Avoided{{Partition: "gpu", Until: epoch.Add(24 * time.Hour)}}
	if err := w.book.Settle(records, bridge.Report{}); err != nil {
		t.Fatal(err)
	}
	armed := 0
	for range 5 {
		for _, s := range w.rounds(1).Steps {
			if s.Job == id && s.Verb == bridge.Arm {
				armed++
			}
		}
	}
	if armed > 1 {
		t.Errorf("it is armed %d times in five rounds", armed)
	}
}
