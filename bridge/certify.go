package bridge

import "github.com/synergy-slurmd/synergy-slurmd/policy/bound"

// certify says how good the plan is that the round goes by.
func (t *turn) certify() {
	if t.small || !t.Settings.Certify {
		return
	}
	cert := bound.Certify(&t.report.Snapshot, t.report.Plan)
	t.report.Certificate = &cert
	t.phase("certify")
}
