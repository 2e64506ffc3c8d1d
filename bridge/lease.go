package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// A job that is to wait has a lease: it may not start until the lease ends, and a running daemon renews it. So when a
// daemon dies or its rounds fail, the jobs become free without anyone's action. There are two kinds of lease.
//
//   - The lease job: all jobs depend on its end, and each round moves its deadline with one request.
//   - A begin time of the job's own, renewed when half of it has passed. The gate gives one to each new job. A round
//     gives one where the lease job cannot serve: Slurm refuses it, a plugin has none, the job's dependencies are
//     alternatives (afterok:5?afterok:6), or its last run is still completing, after which Slurm sets a begin time.
//
// The lease job is renewed after a round has decided and before it acts, so that a daemon whose rounds fail before that
// holds no job for longer than the lease.

// leaseJobState is what is known of the lease job between rounds; zero: nothing yet.
type leaseJobState struct {
	job     int    // its ID; 0: there is none
	refused string // why there can be none, as of the last round that tried
}

// usesLeaseJob says whether a job, once we write to it, gets the lease job for its lease. If not, it gets a begin time.
func (r *Runner) usesLeaseJob(j *slurm.Job) bool {
	return r.Leases != nil && r.leasing.refused == "" && !j.Either && j.State == slurm.Pending && !j.Completing
}

// renewLease moves the deadline of the lease job, which renews the lease of all jobs that depend on it. If Slurm
// refuses the lease job, jobs get begin times from then on, and there is no error. A small round does nothing, since
// the full round before it has renewed the lease; nor does a round without a lease job (Leases is nil).
func (t *activeRound) renewLease(ctx context.Context) error {
	if t.runner.Leases == nil || t.small {
		return nil // the lease job was renewed by the round before
	}
	job, err := t.runner.Leases.Renew(ctx, t.runner.Settings.Lease)
	switch {
	case errors.Is(err, slurm.ErrRefused):
		t.runner.leasing = leaseJobState{refused: err.Error()}
	case err != nil:
		return err
	default:
		t.runner.leasing = leaseJobState{job: job}
	}
	t.report.NoLeaseJob = t.runner.leasing.refused
	return nil
}

// waitUpdate is the update that lets a job wait: its user's own request, and a lease. Under the lease job the begin
// time is only the user's own, or now. why is for the annotation.
func (r *Runner) waitUpdate(t *managedJob, round int, why string, now time.Time) slurm.Update {
	u := slurm.Update{
		Job: t.record.Job, Begin: r.leaseEnd(t.record, now), Request: t.record.Own,
		Extra: annotationOf(t.record, round, why, t.note).String(),
	}
	if r.leasing.job != 0 && r.usesLeaseJob(t.Job) {
		u.Begin, u.Lease = later(t.record.NotBefore, now), r.leasing.job
	}
	return u
}

// needsLease says whether a waiting job must be written to for its lease. A job that uses the lease job must if it does
// not depend on it, or if it still has a begin time of ours. Any other job must if less than half of the lease is left,
// or if its begin time is later than any that we would give now.
func (r *Runner) needsLease(t *managedJob, now time.Time) bool {
	if r.usesLeaseJob(t.Job) {
		return t.Lease == 0 || t.Begin.After(later(t.record.NotBefore, now).Add(beginTimeTolerance))
	}
	return t.Begin.Sub(now) < r.Settings.Lease/2 || t.Begin.After(r.leaseEnd(t.record, now).Add(beginTimeTolerance))
}

// beginTimeTolerance is by how much a begin time may lie beyond the one that we would give. One written before Slurm's
// clock was set back could last for hours, even after the daemon has died.
const beginTimeTolerance = time.Minute

// leaseEnd is the begin time of a job that gets a lease of its own now: the end of the lease, or the user's own begin
// time if that is later.
func (r *Runner) leaseEnd(rec *Record, now time.Time) time.Time {
	return later(rec.NotBefore, now.Add(r.leaseOf(rec.Job)))
}

// leaseOf is how long the lease of a job lasts if it is a begin time: up to an eighth longer than Settings.Lease, in 16
// steps by job ID. So jobs that arrived together are not all renewed in the same round for ever.
func (r *Runner) leaseOf(job int) time.Duration {
	const parts = 16
	return r.Settings.Lease + r.Settings.Lease/8*time.Duration(job%parts)/parts
}
