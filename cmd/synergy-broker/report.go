package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/broker"
)

// slurmPrograms runs Slurm's programs as root of a node.
type slurmPrograms struct {
	scontrol, squeue, sinfo string // paths
}

// onPath finds the programs on the PATH. It is an error if one of them is missing.
func onPath() (a slurmPrograms, err error) {
	for name, path := range map[string]*string{"scontrol": &a.scontrol, "squeue": &a.squeue, "sinfo": &a.sinfo} {
		var wrong error
		*path, wrong = exec.LookPath(name)
		err = errors.Join(err, wrong)
	}
	return a, err
}

// slurmWithin limits the calls of Slurm's programs for one report or announcement.
const slurmWithin = 30 * time.Second

// mostComment is the longest AdminComment that the broker writes, in bytes. Slurm sets no limit, and sends the comment
// in each answer about the job.
const mostComment = 4096

// reporter returns the function that reports jobs which do not give turns back to the daemon; nil if they are not
// reported.
func (f *flags) reporter(log *slog.Logger) broker.Reporter {
	if !f.report {
		return nil
	}
	a, err := onPath()
	if err != nil {
		log.Warn("jobs that do not give turns back are only written down: want Slurm's programs on the PATH, or "+
			"--report=false", "error", err)
		return nil
	}
	return a.accuse
}

// accuse adds an offence to a job's AdminComment. scontrol has no += for that, so the comment is read first; what
// somebody else writes between the two would be lost, but an offence is reported about once in a job's life. A job that
// has ended is not reported. A job counts as ended, too, if the job with its number belongs to another user, as after
// slurmctld has lost its state.
func (a slurmPrograms) accuse(ctx context.Context, job, uid int, o share.Offence) error {
	ctx, cancel := context.WithTimeout(ctx, slurmWithin)
	defer cancel()
	name, before, err := a.comment(ctx, job, uid)
	if err != nil {
		return err
	}
	// This offence, or a later one, is there already.
	if last, accused := share.ParseOffence(before); accused && !last.At.Before(o.At) {
		return nil
	}
	after := o.AddedTo(before)
	if len(after) > mostComment {
		return fmt.Errorf("%w: AdminComment of job %s has %d bytes, want at most %d with %s", broker.ErrNotReported,
			name, len(before), mostComment, o)
	}
	err = eachLine(ctx, func(string) {}, a.scontrol, "update", "JobId="+name, "AdminComment="+after)
	if err != nil && strings.Contains(err.Error(), "already finished") {
		return errOver
	}
	return err
}

// format makes squeue print columns of fixed widths. `scontrol show job` is not used, because it prints the
// AdminComment among lines that the job's user writes. The last column is wider than mostComment.
const format = "--Format=JobID:20,JobArrayID:30,UserID:20,admin_comment:8192"

// record matches the first columns of what squeue prints of a job. For the number of an array squeue prints all tasks.
var record = regexp.MustCompile(`^([0-9]+) +([0-9]+(?:_[0-9]+)?) +([0-9]+) +$`)

// columnsOf is the width of these columns, in characters, which are bytes here.
const columnsOf = 20 + 30 + 20

// errOver means that Slurm does not know the job any more.
var errOver = fmt.Errorf("%w: the job is over", broker.ErrNotReported)

// comment returns a job's AdminComment, and the name under which scontrol changes this job only: the number of an
// array's last task is also that of the whole array, so a task is named as 17_3.
func (a slurmPrograms) comment(ctx context.Context, job, uid int) (name, comment string, err error) {
	var own strings.Builder
	found := false
	err = eachLine(ctx, func(line string) {
		var match []string
		if len(line) >= columnsOf { // a squeue that is killed leaves a part of a line
			match = record.FindStringSubmatch(line[:columnsOf])
		}
		if match != nil {
			if found = match[1] == strconv.Itoa(job) && match[3] == strconv.Itoa(uid); found {
				name = match[2]
			}
			line = line[columnsOf:]
		} // else the line continues the last comment, which may have several lines
		if found && own.Len() <= mostComment {
			own.WriteString(line)
		}
	}, a.squeue, "--noheader", "--jobs="+strconv.Itoa(job), format)
	if err != nil && strings.Contains(err.Error(), "Invalid job id") {
		return "", "", errOver
	}
	if err != nil {
		return "", "", err
	}
	if name == "" {
		return "", "", errOver
	}
	return name, strings.TrimRight(own.String(), " \n"), nil
}

// eachLine runs a program and calls read with each line that it prints, whole or in parts of 16 KiB. Lines are not
// collected: for an array of ten thousand tasks squeue prints a hundred megabytes, of which one line is wanted.
func eachLine(ctx context.Context, read func(line string), argv ...string) error {
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	var problem bytes.Buffer
	command.Stderr = &problem
	command.WaitDelay = time.Second
	if err = command.Start(); err == nil {
		// A script in the program's place may have left a child behind that keeps the pipe open.
		defer context.AfterFunc(ctx, func() { _ = out.Close() })()
		for lines := bufio.NewReaderSize(out, 16<<10); err == nil; {
			var line []byte
			if line, err = lines.ReadSlice('\n'); errors.Is(err, bufio.ErrBufferFull) {
				err = nil
			}
			if len(line) > 0 {
				read(string(line))
			}
		}
		err = command.Wait()
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", argv[0], argv[1], err, printable.Quote(problem.String(), 200))
	}
	return nil
}
