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

// Reporter tells the daemon that a user's job repeatedly did not yield. It may take long; no slice waits for it.
type Reporter func(ctx context.Context, job, uid int, o share.Offence) error

// offence is a line of the file of offences.
type offence struct {
	V   int `json:"v"`
	Job int `json:"job"`
	UID int `json:"uid"`
	share.Offence
}

const (
	mostOffences = 1 << 20 // size of the file, bytes, beyond which it begins anew
	mostQueued   = 64      // offences not yet written down; a job has one at its third ignored yield in ten minutes

	reportEvery = time.Second      // how often due reports are sent
	firstReport = time.Second      // the wait after a failed report, doubled each time
	lastReport  = time.Minute      // the longest such wait
	reportFor   = 10 * time.Minute // after that the report is given up; a job that goes on is reported again
	// reportAgain is how long a job that was reported is not reported again, even if it was forgiven meanwhile.
	reportAgain = time.Hour
)

// ErrNotReported means that the daemon cannot be told of the offence, however often it is tried.
var ErrNotReported = errors.New("it cannot be reported")

// queueOffence queues an offence to be reported. It does not wait, since the caller holds a GPU's lock. If the queue is
// full the offence is logged and dropped.
func (b *Broker) queueOffence(job, uid, gpu int) {
	select {
	case b.offences <- offence{1, job, uid, share.Offence{GPU: gpu, At: time.Now().UTC().Truncate(time.Second)}}:
	default:
		b.Log.Error("report an offence: too many are on their way", "job", job)
	}
}

// jobKey identifies a job whose report is pending. It has the user, because the same job ID may be another user's job
// later.
type jobKey struct{ job, uid int }

// pendingReport is a report about a job, and when it is next tried. It is kept for a while after it was sent, so that
// the job is not reported again soon.
type pendingReport struct {
	offence
	until, next time.Time
	wait        time.Duration
	done        bool // reported; until then the job is not reported again
}

// keepReporting reports offences until the context ends: into a file on this node, and to the daemon, with retries,
// since slurmctld may be away. A report that is retried delays others by at most one try. While a report of a job is
// pending, or was sent less than reportAgain ago, its further offences are only written to the file.
func (b *Broker) keepReporting(ctx context.Context) {
	dockets := map[jobKey]*pendingReport{}
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
			who := jobKey{o.Job, o.UID}
			if now := time.Now(); b.Report != nil && dockets[who] == nil {
				dockets[who] = &pendingReport{offence: o, until: now.Add(reportFor), next: now, wait: firstReport}
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

// report tells the daemon once and plans the next try. After ErrNotReported no try can succeed, so the job counts as
// reported, too, and is left alone until reportAgain is over. After any other error the wait before the next try
// doubles, up to lastReport.
func (b *Broker) report(ctx context.Context, d *pendingReport) {
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

// writeDown adds a line to the file of offences, which the administrator can read although the daemon was not reached.
// A file that is too long is renamed first, and replaces the one that was renamed before.
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
