package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/broker"
	"github.com/synergy-slurmd/synergy-slurmd/share/mps"
	"github.com/synergy-slurmd/synergy-slurmd/share/node"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
	rules "github.com/synergy-slurmd/synergy-slurmd/share/turns"
)

// flags are the flags of the command line.
type flags struct {
	dir       string
	gpus      string
	policy    string
	minShare  float64
	concede   float64
	quantum   time.Duration
	lookAhead bool
	mode      string
	threads   int
	report    bool
	announce  bool
	node      string
	silent    time.Duration
}

// The values of --mode.
const (
	auto  = "auto"
	fill  = "fill"
	turns = "turns"
)

func (f *flags) define(set *pflag.FlagSet) {
	defaults := rules.Defaults()
	set.StringVar(&f.gpus, "gpus", "", "`indexes` of the GPUs, as 0-3,6, counted as gres.conf does; without it those "+
		"of /dev/nvidia*")
	set.StringVar(&f.mode, "mode", auto, "how jobs share a GPU: auto (those of one user at the same time by NVIDIA's "+
		"MPS where that is installed, others by turns), fill (the same, and MPS has to be there), turns")
	set.IntVar(&f.threads, "low-threads", mps.LowThreads, "`percent` of the GPU's threads that a job of the lower "+
		"class may use beside others by MPS")
	set.BoolVar(&f.report, "report", true, "have a job that does not give its turns back leave the GPU: say so in its "+
		"AdminComment, by scontrol, for the daemon to read; else it is only written down on this node")
	set.BoolVar(&f.announce, "announce", true, "say to Slurm that this node has a broker, by the word "+
		share.Announced+" in the node's Comment: the daemon puts jobs on one GPU only where one is")
	set.StringVar(&f.node, "node", "", "`name` of this node in slurm.conf; without it the host's, up to the first dot")
	set.StringVar(&f.policy, "policy", string(defaults.Policy), "who goes first: strict (by class), weighted (by "+
		"GPU time), slo (by deadline)")
	set.Float64Var(&f.minShare, "min-share", defaults.MinShare, "`part` of the GPU's time that each class has if it "+
		"wants it, 0 to 0.5; with 0 a class may starve")
	set.Float64Var(&f.concede, "concede", defaults.Concede, "`part` of its time that an important job may lose to "+
		"turns that do not fit into its gaps, 0 to 0.5; 0.1 fills more of the GPU and keeps it at 0.9")
	times.Var(set, &f.quantum, "quantum", defaults.Quantum, "how long a turn lasts while an equal waits")
	set.BoolVar(&f.lookAhead, "lookahead", defaults.LookAhead, "give nobody a turn that does not fit into the gap "+
		"that a more important job is expected to leave")
	times.Var(set, &f.silent, "silent-after", silentAfter, "for how long a job of class low asks for no turns until "+
		"it is stopped while others have theirs, where jobs take turns; 0: never")
}

// silentAfter is how long a job that takes turns may load its data before its first turn. A job that asks for no turn
// for longer counts as one that takes none.
const silentAfter = time.Minute

// mostIndex is above the index of any GPU of a node.
const mostIndex = 1023

var indexes = regexp.MustCompile(`^([0-9]{1,4})(?:-([0-9]{1,4}))?$`)

// parseGPUs reads --gpus and returns the indexes in order.
func parseGPUs(text string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		match := indexes.FindStringSubmatch(part)
		if match == nil {
			return nil, fmt.Errorf("--gpus %.40q: want indexes as 0-3,6", text)
		}
		first, _ := strconv.Atoi(match[1])
		last := first
		if match[2] != "" {
			last, _ = strconv.Atoi(match[2])
		}
		if last > mostIndex || first > last {
			return nil, fmt.Errorf("--gpus %.40q: want indexes as 0-3,6, of at most %d", text, mostIndex)
		}
		for index := first; index <= last; index++ {
			all = append(all, index)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

var device = regexp.MustCompile(`^nvidia([0-9]{1,4})$`)

// present returns the indexes of the GPUs that have a device file in the folder dev.
func present(dev string) ([]int, error) {
	files, err := filepath.Glob(filepath.Join(dev, "nvidia*"))
	if err != nil {
		return nil, err
	}
	var all []int
	for _, file := range files {
		if match := device.FindStringSubmatch(filepath.Base(file)); match != nil {
			index, _ := strconv.Atoi(match[1])
			all = append(all, index)
		}
	}
	if len(all) == 0 {
		// After a reboot the driver may load later. So the error is a failed, for which the unit tries again, unlike
		// for a wrong flag.
		return nil, runtimeError{fmt.Errorf("there is no GPU in %s: name them by --gpus", dev)}
	}
	slices.Sort(all)
	return all, nil
}

// config is the broker's configuration by the flags. dev is the folder of device files.
func (f *flags) config(dev string, log *slog.Logger) (broker.Config, error) {
	policies := []rules.Policy{rules.Strict, rules.Weighted, rules.SLO}
	switch {
	case !slices.Contains(policies, rules.Policy(f.policy)):
		return broker.Config{}, fmt.Errorf("--policy %.20q: want strict, weighted or slo", f.policy)
	case !(f.minShare >= 0 && f.minShare <= 0.5):
		return broker.Config{}, fmt.Errorf("--min-share %g: want 0 to 0.5", f.minShare)
	case !(f.concede >= 0 && f.concede <= 0.5):
		return broker.Config{}, fmt.Errorf("--concede %g: want 0 to 0.5", f.concede)
	case f.quantum < time.Millisecond || f.quantum > time.Minute:
		return broker.Config{}, fmt.Errorf("--quantum %v: want 1ms to 1m", f.quantum)
	case f.silent != 0 && (f.silent < 5*time.Second || f.silent > time.Hour):
		return broker.Config{}, fmt.Errorf("--silent-after %v: want 0, or 5s to 1h", f.silent)
	case !filepath.IsAbs(f.dir):
		return broker.Config{}, fmt.Errorf("--run-dir %.80q: want an absolute path", f.dir)
	}
	gpus, err := parseGPUs(f.gpus)
	if f.gpus == "" {
		gpus, err = present(dev)
	}
	if err != nil {
		return broker.Config{}, err
	}
	filler, err := f.filler(log)
	if err != nil {
		return broker.Config{}, err
	}
	r := rules.Defaults()
	r.Policy, r.Quantum, r.LookAhead, r.MinShare = rules.Policy(f.policy), f.quantum, f.lookAhead, f.minShare
	r.Concede = f.concede
	return broker.Config{RunDir: f.dir, GPUs: gpus, Rules: r, Proc: proc(), Fill: filler,
		Report: f.reporter(log), SilentAfter: f.silent, Release: programVersion(), Log: log,
		Ready: func() { _, _ = sd.SdNotify(false, sd.SdNotifyReady) }}, nil
}

// filler returns the function that has the jobs of a GPU run at the same time by MPS where possible, and else take
// turns. A missing MPS is an error only for --mode fill.
func (f *flags) filler(log *slog.Logger) (broker.Filler, error) {
	switch {
	case f.mode == turns:
		return f.byTurns(), nil
	case f.mode != auto && f.mode != fill:
		return nil, fmt.Errorf("--mode %.20q: want auto, fill or turns", f.mode)
	case f.threads < 1 || f.threads > 100:
		return nil, fmt.Errorf("--low-threads %d: want 1 to 100", f.threads)
	}
	program, err := exec.LookPath(mps.Program)
	if err != nil && f.mode == fill {
		return nil, fmt.Errorf("--mode fill: %s is not installed: want auto, or that program on the PATH", mps.Program)
	}
	if err != nil {
		log.Info("jobs take turns: there is no MPS", "program", mps.Program)
		return f.byTurns(), nil
	}
	m := &mps.Manager{Dir: f.dir, Program: program, LowThreads: f.threads}
	return func(ctx context.Context, gpu int, jobs []node.Run) (bool, error) {
		mode, err := m.Serve(ctx, gpu, jobs)
		return mode == predict.Fill, err
	}, nil
}

// byTurns makes all jobs take turns. MPS daemons of an earlier broker end with the jobs that they serve.
func (f *flags) byTurns() broker.Filler {
	m := &mps.Manager{Dir: f.dir}
	return func(ctx context.Context, gpu int, jobs []node.Run) (bool, error) {
		return false, m.Retire(ctx, gpu, jobs)
	}
}

// serve runs the broker until the context ends. The broker is announced once it is ready.
func (f *flags) serve(ctx context.Context, to io.Writer) error {
	log := slog.New(slog.NewTextHandler(to, nil))
	config, err := f.config("/dev", log)
	if err != nil {
		return err
	}
	if config.Rules.MinShare == 0 {
		log.Warn("with --min-share 0 a job of the lower class may get nothing for ever")
	}
	announcer, err := f.announcer(log)
	if err != nil {
		return err
	}
	var announcing sync.WaitGroup
	defer announcing.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ready := config.Ready
	config.Ready = func() {
		ready()
		if announcer != nil {
			announcing.Go(func() { announcer.keep(ctx) })
		}
	}
	if err := broker.New(config).Serve(ctx); err != nil {
		// Its text says all: another broker has the lock.
		if errors.Is(err, broker.ErrRunning) {
			return runtimeError{err}
		}
		return runtimeError{fmt.Errorf("serve: %w", err)}
	}
	return nil
}
