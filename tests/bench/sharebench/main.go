// Command sharebench is what tests/bench/share_gpu.py needs of this module on a machine without Slurm: the node's
// broker for processes that say themselves which job they belong to, its MPS daemon, and the emulated GPU.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/broker"
	"github.com/synergy-slurmd/synergy-slurmd/share/mps"
	"github.com/synergy-slurmd/synergy-slurmd/share/node"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sharebench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	set := flag.NewFlagSet("sharebench broker|mps|emulated", flag.ContinueOnError)
	dir := set.String("dir", "", "absolute `folder` for sockets")
	lookAhead := set.Bool("lookahead", true, "broker: with look-ahead; without: turns by class alone")
	threads := set.Int("threads", mps.LowThreads, "mps: `percent` of the threads for the other job")
	plan := set.String("plan", "", "emulated: `file` of trials, as share_gpu.py writes it")
	if len(args) == 0 {
		return errors.New("want broker, mps or emulated")
	}
	if err := set.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "broker":
		return serve(ctx, *dir, *lookAhead, out)
	case "mps":
		return fill(ctx, *dir, *threads, out)
	case "emulated":
		return emulate(*plan, out)
	}
	return fmt.Errorf("%q: want broker, mps or emulated", args[0])
}

// jobWord is the variable by which a process says of which job it is. Jobs 1 and 4 have class high.
const jobWord = "SHAREBENCH_JOB="

// serve is the node's broker until it is told to end. It says ready when it is. It does what root does on a node: it
// writes the stamp of each job itself, owned by its own user. A process is believed which job it belongs to, since
// there are no cgroups of Slurm. Without look-ahead the zero rules hold: turns by class alone, with no least share.
func serve(ctx context.Context, dir string, lookAhead bool, out io.Writer) error {
	for job, class := range map[int]share.Class{1: share.High, 2: share.Low, 3: share.Low, 4: share.High} {
		s := share.Stamp{V: share.StampVersion, Job: job, UID: os.Geteuid(), Class: class, Memory: 1 << 17}
		if err := stamp(dir, s); err != nil {
			return err
		}
	}
	rules := turns.Defaults()
	if !lookAhead {
		rules = turns.Rules{}
	}
	return broker.New(broker.Config{RunDir: dir, GPUs: []int{0}, Rules: rules, Identify: jobOf,
		Proc:  broker.Proc{Root: "/proc", Cgroups: filepath.Join(dir, "none"), Owner: os.Geteuid()},
		Log:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Ready: func() { fmt.Fprintln(out, "ready", node.SocketPath(dir, 0)) }}).Serve(ctx)
}

// stamp writes the file from which the broker knows a job, as the prolog does. The first error explains the others.
func stamp(dir string, s share.Stamp) error {
	path := node.StampPath(dir, s.Job)
	text, err := json.Marshal(s)
	return errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o644))
}

// jobOf is the job that a process names in its environment when it starts.
func jobOf(pid, _ int) (int, error) {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return 0, err
	}
	for word := range strings.SplitSeq(string(environ), "\x00") {
		if job, is := strings.CutPrefix(word, jobWord); is {
			return strconv.Atoi(job)
		}
	}
	return 0, errors.New("it says nothing of a job")
}

// fill keeps the MPS daemon of this user until it is told to end, and says what each class needs. Serve must have seen
// the GPU without jobs before: a job that it finds at its first look may have begun without the daemon, and would take
// turns.
func fill(ctx context.Context, dir string, threads int, out io.Writer) error {
	m := mps.Manager{Dir: dir, LowThreads: threads}
	if _, err := m.Serve(ctx, 0, nil); err != nil { // no job runs yet
		return err
	}
	mode, err := m.Serve(ctx, 0, []node.Run{{Job: 1, UID: os.Geteuid(), Stamped: time.Now().UnixNano()}})
	if mode != predict.Fill {
		return errors.Join(errors.New("MPS cannot be had"), err)
	}
	f, err := node.ReadFill(dir, 0)
	if err == nil {
		err = json.NewEncoder(out).Encode(f)
	}
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, m.Stop(context.Background()))
}
