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

// Reporter tells the daemon that a job would not give its turn back again and again. It may take its time: nobody's
// turn waits for it.
type Reporter func(ctx context.Context, job int, o share.Offence) error

// offence is a line of the file of them.
type offence struct {
	V   int `json:"v"`
	Job int `json:"job"`
	UID int `json:"uid"`
	share.Offence
}

const (
	mostOffences = 1 << 20 // how long the file of them may grow, bytes, before it begins anew
	mostQueued   = 64      // offences that are not yet reported: a job's third yield that it ignored in ten minutes

	firstReport = time.Second // after a report that failed, and twice as long each time
	lastReport  = time.Minute
	reportFor   = 10 * time.Minute // then it is given up: a job that goes on so is reported again
)

// accuse has an offence reported. Who calls it holds a GPU's lock and does not wait.
func (b *Broker) accuse(job, uid, gpu int) {
	select {
	case b.offences <- offence{1, job, uid, share.Offence{GPU: gpu, At: time.Now().UTC().Truncate(time.Second)}}:
	default:
		b.Log.Error("report an offence: too many are on their way", "job", job)
	}
}

// keepReporting reports offences one after the other until the context ends: into the file, for whoever looks at this
// node, and to the daemon.
func (b *Broker) keepReporting(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-b.offences:
			if err := b.writeDown(o); err != nil {
				b.Log.Error("write an offence down", "job", o.Job, "error", err)
			}
			if b.Report != nil {
				b.report(ctx, o)
			}
		}
	}
}

// report tries until it succeeds: slurmctld may be away for a while.
func (b *Broker) report(ctx context.Context, o offence) {
	ctx, cancel := context.WithTimeout(ctx, reportFor)
	defer cancel()
	for retry := firstReport; ; retry = min(2*retry, lastReport) {
		err := b.Report(ctx, o.Job, o.Offence)
		if err == nil {
			b.Log.Info("the daemon is told that a job should not share", "job", o.Job)
			return
		}
		b.Log.Warn("report an offence", "job", o.Job, "error", err, "again_in", retry)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
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
