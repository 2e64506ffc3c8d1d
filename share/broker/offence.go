package broker

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Reporter tells the daemon that a job of a user would not give its turn back again and again. It may take
// its time: nobody's turn waits for it.
type Reporter func(ctx context.Context, job, uid int, o share.Offence) error

// offence is a line of the file of them.
type offence struct {
	V   int `json:"v"`
	Job int `json:"job"`
	UID int `json:"uid"`
	share.Offence
}

const (
	mostOffences = 1 << 20 // how long the file of them may grow, bytes, before it begins anew
	mostQueued   = 64      // offences that are not yet written down: a job's third yield that it ignored in ten minutes

	reportEvery = time.Second // how often those that are due are reported
	firstReport = time.Second // after a report that failed, and twice as long each time
	lastReport  = time.Minute
	reportFor   = 10 * time.Minute // then it is given up: a job that goes on so is reported again
	// reportAgain is when a job of which it was reported is reported again at the earliest: one that was forgiven
	// meanwhile, too.
	reportAgain = time.Hour
)

// ErrNotReported is of an offence of which the daemon cannot be told, however often that is tried.
var ErrNotReported = errors.New("it cannot be reported")

// accuse has an offence reported. Who calls it holds a GPU's lock and does not wait.
func (b *Broker) accuse(job, uid, gpu int) {
	select {
	case b.offences <- offence{1, job, uid, share.Offence{GPU: gpu, At: time.Now().UTC().Truncate(time.Second)}}:
	default:
		b.Log.Error("report an offence: too many are on their way", "job", job)
	}
}

// accused is whose dockets are apart: a number may be another user's job by now.
type accused struct{ job, uid int }

// docket is what is to be reported of a job, and when next.
type docket struct {
	offence
	until, next time.Time
	wait        time.Duration
	done        bool // and until then it is not said again
}

// keepReporting reports offences until the context ends: into the file, for whoever looks at this node, and to the
// daemon, which may have to be tried again while slurmctld is away. Nobody's report waits for one that is to be tried
// again, but for as long as one try takes.
func (b *Broker) keepReporting(ctx context.Context) {
	dockets := map[accused]*docket{}
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-b.offences:
			if err := b.writeDown(o); err != nil {
				b.Log.Error("write an offence down", "job", o.Job, "error", err)
			}
			who := accused{o.Job, o.UID}
			if now := time.Now(); b.Report != nil && dockets[who] == nil {
				dockets[who] = &docket{offence: o, until: now.Add(reportFor), next: now, wait: firstReport}
			}
		case <-ticker.C:
		}
		for who, d := range dockets {
			if ctx.Err() != nil {
				return
			}
			now := time.Now()
			switch {
			case now.After(d.until):
				delete(dockets, who)
			case !d.done && !now.Before(d.next):
				b.report(ctx, d)
			}
		}
	}
}

// report tells the daemon once.
func (b *Broker) report(ctx context.Context, d *docket) {
	err := b.Report(ctx, d.Job, d.UID, d.Offence)
	now := time.Now()
	switch {
	case err == nil:
		b.Log.Info("the daemon is told that a job should not share", "job", d.Job)
		d.done, d.until = true, now.Add(reportAgain)
	case errors.Is(err, ErrNotReported):
		b.Log.Warn("report an offence", "job", d.Job, "error", err)
		d.done, d.until = true, now.Add(reportAgain)
	default:
		b.Log.Warn("report an offence", "job", d.Job, "error", err, "again_in", d.wait)
		d.next, d.wait = now.Add(d.wait), min(2*d.wait, lastReport)
	}
}

// writeDown adds a line to the file.
func (b *Broker) writeDown(o offence) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	path := filepath.Join(b.RunDir, "offences")
	if info, err := os.Lstat(path); err == nil && info.Size() > mostOffences {
		if err := os.Rename(path, path+".1"); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}
