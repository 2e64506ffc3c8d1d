package bridge

import "github.com/synergy-slurmd/synergy-slurmd/policy/bound"

// certify adds a proven bound to the report: how near the plan comes to the best one. Small rounds have none, since
// they must be quick.
func (t *activeRound) certify() {
	if t.small || !t.runner.Settings.Certify {
		return
	}
	cert := bound.Certify(&t.report.Snapshot, t.report.Plan)
	t.report.Certificate = &cert
	t.phase("certify")
}
