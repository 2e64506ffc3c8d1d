package bridge_test

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
)

func in(reservation string) func(*slurmtest.Spec) {
	return func(s *slurmtest.Spec) { s.Reservation = reservation }
}

// A reservation may be of licenses alone.
func TestAJobOfAReservationWithoutNodesIsStartedOnAnyOfItsPartition(t *testing.T) {
	w := newWorld(t, 2, server)
	w.slurm.Reserve(bridge.Reservation{Name: "matlab", From: epoch})
	w.slurm.Reserve(bridge.Reservation{Name: "course", From: epoch, Nodes: []string{"n1"}})
	id := w.submit(1, model("gnmt"), forAges, in("matlab"))
	w.rounds(1)
	w.mustRun(id, "n2", 1) // the other is reserved for others
}

// Of several reservations Slurm takes the first that will do; a job that waits for one named a,b would wait for ever.
func TestAJobOfSeveralReservationsIsLeftToSlurm(t *testing.T) {
	w := newWorld(t, 1, server)
	w.slurm.Reserve(bridge.Reservation{Name: "a,b", From: epoch, Nodes: []string{"n1"}}) // as the job has it
	id := w.submit(1, model("gnmt"), forAges, in("a,b"))
	report := w.rounds(1)
	if len(report.Outside) != 1 || report.Outside[0].Job != id {
		t.Errorf("outside: %v", report.Outside)
	}
	w.sleep(20 * time.Minute)
	if s := w.job(id).State; s != bridge.Running {
		t.Errorf("%s after its lease is over", s)
	}
}
