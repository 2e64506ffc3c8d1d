package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// LeaseLab is a lab that has a lease job.
type LeaseLab interface {
	Lab
	Leases() slurm.Leases
}

// RunLeaseJob tests the promises of the lease job. A cluster has one for all jobs, so nothing else may use it at the
// same time.
func RunLeaseJob(t *testing.T, open func(t *testing.T) LeaseLab) {
	for _, claim := range []struct {
		name string
		test func(*bench, slurm.Leases)
	}{
		{"ItIsOneJobHoweverOftenItIsRenewed", leaseIsOne},
		{"AJobThatWaitsForItStartsWhenItNeedNotAnyMore", leaseHolds},
		{"WhatAJobsUserHasItWaitForStays", leaseJoins},
		{"ItsEndLetsAllGo", leaseEnds},
		{"SlurmEndsItWhenNobodyRenewsIt", leaseLapses},
		{"AUsersJobOfItsNameIsNone", leaseIsOurs},
	} {
		t.Run(claim.name, func(t *testing.T) {
			lab := open(t)
			b := newBench(t, lab)
			b.Cleanup(func() { _ = lab.Leases().End(context.Background()) })
			claim.test(b, lab.Leases())
		})
	}
}

const leaseOfLab = 10 * time.Minute

// leaseJob renews the lease for length from now and returns the ID of the lease job.
func (b *bench) leaseJob(leases slurm.Leases, length time.Duration) int {
	b.Helper()
	id, err := leases.Renew(context.Background(), length)
	b.must(err)
	return id
}

// setLease makes a job depend on a lease job instead of a begin time; with 0 on none, so that it may start now.
func (b *bench) setLease(job slurm.Job, lease int) {
	b.Helper()
	b.must(b.slurm.Update(context.Background(), slurm.Update{Job: job.ID, Begin: b.observe().At, Lease: lease,
		Request: job.Request, Extra: job.Extra}))
}

// leaseIsOne: a second Renew keeps the lease job and moves its deadline: the dependencies of all waiting jobs name that
// job. It is held and without GPUs and our directive, so that nothing starts it.
func leaseIsOne(b *bench, leases slurm.Leases) {
	first := b.leaseJob(leases, leaseOfLab)
	before := b.job(first)
	b.lab.Sleep(3 * time.Second)
	second := b.leaseJob(leases, leaseOfLab+time.Minute)
	end := before.Deadline.Add(time.Minute)
	after := b.job(first)
	if second != first || after.State != slurm.Pending || !after.Held || after.Deadline.Before(end) {
		b.Fatalf("job %d, then %d: %+v, want a deadline after %s", first, second, after, end)
	}
	if before.Request.GPUs != 0 || before.Comment != "" {
		b.Errorf("got %+v", before)
	}
}

// leaseHolds: a job waits while it depends on the lease job, although its begin time has passed, and starts when an
// update takes the dependency away.
func leaseHolds(b *bench, leases slurm.Leases) {
	job := b.submitWaiting(Job{})
	lease := b.leaseJob(leases, leaseOfLab)
	b.setLease(job, lease)
	b.lab.Sleep(8 * time.Second)
	got := b.job(job.ID)
	if got.State != slurm.Pending || got.Lease != lease || got.Dependency || got.Begin.After(b.observe().At) {
		b.Fatalf("got %+v", got)
	}
	b.setLease(got, lease) // it may be repeated
	b.setLease(b.job(job.ID), 0)
	if got = b.waitFor(job.ID, "running", longLimit, isRunning); got.Lease != 0 {
		b.Errorf("got %+v", got)
	}
}

// leaseJoins: a lease is added to a user's own dependency, and its removal leaves that one: a round must not start a
// job before the job that its user named has ended.
func leaseJoins(b *bench, leases slurm.Leases) {
	first := b.submitRunning(Job{Lasts: 20 * time.Second})
	job := b.waitFor(b.lab.Submit(b, Job{After: first.ID, Comment: Directive}), "waiting for the other", shortLimit,
		func(j slurm.Job, _ time.Time) bool { return j.Dependency })
	lease := b.leaseJob(leases, leaseOfLab)
	b.setLease(job, lease)
	if got := b.job(job.ID); got.Lease != lease || !got.Dependency {
		b.Errorf("with a lease: %+v", got)
	}
	b.waitFor(job.ID, "waiting for its lease alone", longLimit,
		func(j slurm.Job, _ time.Time) bool { return !j.Dependency && j.Lease == lease })
	b.lab.Sleep(5 * time.Second)
	got := b.job(job.ID)
	if got.State != slurm.Pending {
		b.Fatalf("got %+v", got)
	}
	b.setLease(got, 0)
	b.waitFor(job.ID, "running", longLimit, isRunning)

	other := b.waitFor(b.lab.Submit(b, Job{After: job.ID}), "waiting for the other", shortLimit,
		func(j slurm.Job, _ time.Time) bool { return j.Dependency })
	b.setLease(other, lease)
	b.setLease(b.job(other.ID), 0)
	if got := b.job(other.ID); got.Lease != 0 || !got.Dependency || got.State != slurm.Pending {
		b.Errorf("without a lease: %+v", got)
	}
}

// leaseEnds: End frees all jobs that depend on the lease job at once, may be repeated, and the next Renew makes another
// lease job.
func leaseEnds(b *bench, leases slurm.Leases) {
	first, second := b.submitWaiting(Job{}), b.submitWaiting(Job{})
	lease := b.leaseJob(leases, leaseOfLab)
	b.setLease(first, lease)
	b.setLease(second, lease)
	for range 2 { // it may be repeated
		b.must(leases.End(context.Background()))
	}
	for _, job := range []slurm.Job{first, second} {
		if got := b.waitFor(job.ID, "running", longLimit, isRunning); got.Lease != 0 {
			b.Errorf("got %+v", got)
		}
	}
	if again := b.leaseJob(leases, leaseOfLab); again == lease {
		b.Errorf("job %d is renewed, which is over", again)
	}
}

// leaseLapses: without a Renew, Slurm ends the lease job at its deadline, and the jobs that depend on it start: no
// daemon is needed to let them go.
func leaseLapses(b *bench, leases slurm.Leases) {
	job := b.submitWaiting(Job{})
	b.setLease(job, b.leaseJob(leases, 5*time.Second))
	began := b.observe().At
	got := b.waitFor(job.ID, "running", 3*time.Minute, isRunning)
	if waited := got.Started.Sub(began); waited < 3*time.Second {
		b.Errorf("it started after %s", waited)
	}
}

// leaseIsOurs: a user's job with the name of the lease job is never renewed or ended, and jobs are not made to depend
// on it.
func leaseIsOurs(b *bench, leases slurm.Leases) {
	theirs := b.lab.Submit(b, Job{Name: slurm.LeaseName, Held: true})
	ours := b.leaseJob(leases, leaseOfLab)
	if ours == theirs {
		b.Errorf("job %d of a user is the lease job", theirs)
	}
	b.must(leases.End(context.Background()))
	if got := b.job(theirs); got.State != slurm.Pending || !got.Deadline.IsZero() {
		b.Errorf("it was touched: %+v", got)
	}
}
