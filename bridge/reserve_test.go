package bridge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
)

func in(reservation string) func(*slurmtest.Spec) {
	return func(s *slurmtest.Spec) { s.Reservation = reservation }
}

// A reservation may be of licenses alone.
func TestAJobOfAReservationWithoutNodesIsStartedOnAnyOfItsPartition(t *testing.T) {
	w := newWorld(t, 2, server)
	w.slurm.Reserve(slurm.Reservation{Name: "matlab", From: epoch})
	w.slurm.Reserve(slurm.Reservation{Name: "course", From: epoch, Nodes: []string{"n1"}})
	id := w.submit(1, model("gnmt"), forAges, in("matlab"))
	w.rounds(1)
	w.mustRun(id, "n2", 1) // the other is reserved for others
}

// Of several reservations Slurm takes the first that will do; a job that waits for one named a,b would wait for ever.
func TestAJobOfSeveralReservationsIsLeftToSlurm(t *testing.T) {
	w := newWorld(t, 1, server)
	w.slurm.Reserve(slurm.Reservation{Name: "a,b", From: epoch, Nodes: []string{"n1"}}) // as the job has it
	id := w.submit(1, model("gnmt"), forAges, in("a,b"))
	report := w.rounds(1)
	if len(report.Outside) != 1 || report.Outside[0].Job != id {
		t.Errorf("outside: %v", report.Outside)
	}
	w.sleep(20 * time.Minute)
	if s := w.job(id).State; s != slurm.Running {
		t.Errorf("%s after its lease is over", s)
	}
}

// The reservation is made after the round has looked, in the moment in which the job is to start: before Slurm shows it
// to anybody.
func TestAReservationThatIsMadeWhileAJobStartsIsNamedAndIsNoFailureOfTheJob(t *testing.T) {
	for _, from := range []time.Duration{0, time.Minute} {
		w := newWorld(t, 1, server)
		id := w.submit(1, model("gnmt"), forAges, func(s *slurmtest.Spec) { s.TimeLimit = time.Hour })
		w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
			if len(c.Update.Request.Pin) > 0 && at == slurmtest.Before {
				w.slurm.Reserve(
					slurm.Reservation{Name: "repair", From: w.clock.Now().Add(from), Nodes: []string{"n1"}},
				)
			}
			return nil
		})
		report := w.rounds(1)
		s := step(t, report, id, bridge.Start)
		if !strings.Contains(s.Error, `reservation "repair" keeps n1`) || s.Took > 3*time.Second {
			t.Errorf("begins in %s: %q after %s, want the reservation named in seconds", from, s.Error, s.Took)
		}
		if r := w.record(id); r.Failed != 0 {
			t.Errorf("begins in %s: %d starts have failed", from, r.Failed)
		}
		w.runner.Settings.Explain = true
		if report = w.rounds(1); len(report.Waits) != 1 || !strings.Contains(report.Waits[0].Why, "repair") {
			t.Errorf("begins in %s: waits for %+v", from, report.Waits)
		}
	}
}
