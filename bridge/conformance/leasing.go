package conformance

import (
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// leasing lists the claims about leases by begin times.
func leasing() []claim {
	return []claim{
		{"ALeaseKeepsAJobWithOurWordFromStarting", leaseKeeps},
		{"AJobWithoutOurWordStartsByItself", othersStart},
		{"ALapsedLeaseLetsTheJobGo", lapsedLetsGo},
		{"ARenewedLeaseKeepsTheJobWaiting", renewedKeeps},
	}
}

// leaseKeeps: the gate gives a managed job a begin time in the future at its submission, which keeps it waiting for a
// round, and an annotation in Extra.
func leaseKeeps(b *bench) {
	id := b.lab.Submit(b, Job{Partition: Managed, Comment: Directive, Asks: slurm.Request{CPUsPerTask: 1, GPUs: 1}})
	b.waitFor(id, "pending", shortLimit, isPending)
	b.lab.Sleep(6 * time.Second)
	observed := b.observe()
	job := jobIn(observed, id)
	if job.State != slurm.Pending || !job.Begin.After(observed.At) || job.Comment != Directive {
		b.Errorf("at %s: %+v", observed.At, job)
	}
	// The annotation records that the user named no begin time.
	if want := `{"v":1,"lua":1,"begin":0`; !strings.HasPrefix(job.Extra, want) {
		b.Errorf("extra is %s, want %s", job.Extra, want)
	}
}

// othersStart: the gate does not touch a job without our directive, nor one with it in a partition that the gate does
// not manage: no daemon would ever start these.
func othersStart(b *bench) {
	for _, job := range []Job{{Partition: Managed, Comment: "mine"}, {Partition: Plain, Comment: Directive}} {
		if got := b.submitRunning(job); got.Extra != "" {
			b.Errorf("%s: extra is %s", job.Partition, got.Extra)
		}
	}
}

// lapsedLetsGo: a job starts by itself when its begin time comes, and not before. So jobs start without the daemon,
// too.
func lapsedLetsGo(b *bench) {
	job := b.submitWaiting(Job{})
	begin := b.beginIn(4 * time.Second)
	b.must(b.update(job, begin, func(*slurm.Request) {}))
	if got := b.waitFor(job.ID, "running", longLimit, isRunning); got.Started.Before(begin) {
		b.Errorf("started at %s, not before %s", got.Started, begin)
	}
}

// renewedKeeps: a begin time that is moved again before it comes keeps a job waiting.
func renewedKeeps(b *bench) {
	job := b.submitWaiting(Job{})
	for range 3 {
		b.must(b.update(job, b.beginIn(8*time.Second), func(*slurm.Request) {}))
		b.lab.Sleep(3 * time.Second) // three of them exceed one lease, and a slow update may take five seconds
	}
	if got := b.job(job.ID); got.State != slurm.Pending {
		b.Errorf("got %+v", got)
	}
}
