package conformance

import (
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

func leasing() []claim {
	return []claim{
		{"ALeaseKeepsAJobWithOurWordFromStarting", leaseKeeps},
		{"AJobWithoutOurWordStartsByItself", othersStart},
		{"ALapsedLeaseLetsTheJobGo", lapsedLetsGo},
		{"ARenewedLeaseKeepsTheJobWaiting", renewedKeeps},
	}
}

func leaseKeeps(b *bench) {
	id := b.lab.Submit(b, Job{Partition: Managed, Comment: Word, Asks: bridge.Request{CPUsPerTask: 1, GPUs: 1}})
	b.until(id, "pending", soon, pending)
	b.lab.Sleep(6 * time.Second)
	observed := b.observe()
	job := seen(observed, id)
	if job.State != bridge.Pending || !job.Begin.After(observed.At) || job.Comment != Word {
		b.Errorf("at %s: %+v", observed.At, job)
	}
	// and what was asked for in so many words
	if want := `{"v":1,"lua":1,"begin":0`; !strings.HasPrefix(job.Extra, want) {
		b.Errorf("extra is %s, want %s", job.Extra, want)
	}
}

func othersStart(b *bench) {
	for _, job := range []Job{{Partition: Managed, Comment: "mine"}, {Partition: Plain, Comment: Word}} {
		if got := b.runs(job); got.Extra != "" {
			b.Errorf("%s: extra is %s", job.Partition, got.Extra)
		}
	}
}

func lapsedLetsGo(b *bench) {
	job := b.waits(Job{})
	begin := b.in(4 * time.Second)
	b.must(b.update(job, begin, func(*bridge.Request) {}))
	if got := b.until(job.ID, "running", patience, running); got.Started.Before(begin) {
		b.Errorf("started at %s, not before %s", got.Started, begin)
	}
}

func renewedKeeps(b *bench) {
	job := b.waits(Job{})
	for range 3 {
		b.must(b.update(job, b.in(8*time.Second), func(*bridge.Request) {}))
		b.lab.Sleep(3 * time.Second) // three of them last longer than one lease, and a slow update has five seconds
	}
	if got := b.job(job.ID); got.State != bridge.Pending {
		b.Errorf("got %+v", got)
	}
}
