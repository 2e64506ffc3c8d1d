package bridge_test

import (
	"testing"
)

func TestEachRoundSaysHowGoodItsPlanIsWhoeverMadeIt(t *testing.T) {
	for name, planner := range map[string]advice{"ours": nil, "the site's": nobody} {
		w := newWorld(t, 1, server)
		w.runner.Settings.Certify = true
		if planner != nil {
			w.runner.Settings.Planner = planner
		}
		w.submit(1, model("res18"))
		cert := w.rounds(1).Certificate
		switch {
		case cert == nil:
			t.Errorf("%s: no certificate", name)
		case planner == nil && (cert.Value <= 1 || cert.Ratio() < 0.99):
			t.Errorf("%s: %s: want a job that is alone to have all that it can", name, cert)
		case planner != nil && cert.Value != 0:
			t.Errorf("%s: %s: want nothing for a job that waits", name, cert)
		}
	}
}

func TestASmallRoundDoesNotAskHowGoodItsPlanIs(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Certify = true
	w.rounds(1)
	w.submit(1, model("res18"), forAges)
	if report, held := w.small(); !held || report.Certificate != nil {
		t.Errorf("held %v: %v", held, report.Certificate)
	}
}

func TestWhoDoesNotAskHowGoodAPlanIsPaysNothingForIt(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(1, model("res18"))
	report := w.rounds(1)
	if report.Certificate != nil {
		t.Errorf("certified: %s", report.Certificate)
	}
	for _, phase := range report.Phases {
		if phase.Name == "certify" {
			t.Errorf("phases %v", report.Phases)
		}
	}
}
