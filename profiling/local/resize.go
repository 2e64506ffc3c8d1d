package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// A trainer that says in its progress file for how many cores its loader's workers are, follows the cores that it may
// use (docs/python.md). It needs no restart for another size: it is given these, and says when it has workers for them.

// follows is how long it may take to say so: the rest of a step, with the workers that it had.
const follows = 30 * time.Second

// resize has the trainer that runs go on with the trial's cores, and says whether it does. What keeps it from that is
// no error, since a restart gives a trainer whatever a trial wants; what ends the wait for its first iteration is.
func (l *Trainer) resize(ctx context.Context, t profiler.Trial) (bool, error) {
	if !l.resizable(t) {
		return false, nil
	}
	process := l.now.command.Process.Pid
	if err := l.Confine(process, l.CPUs[:t.Cores]); err != nil {
		return false, nil
	}
	err := l.until(ctx, min(follows, l.Patience), func() bool { return l.told() == t.Cores })
	if errors.Is(err, errEnded) || errors.Is(err, errSilent) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l.now.trial = t
	if l.now.log != nil {
		fmt.Fprintf(l.now.log, "== goes on with %d cores\n", t.Cores)
	}
	done := l.now.source.total()
	return true, l.until(ctx, l.Patience, func() bool { return l.now.source.total() > done })
}

// resizable says that a trainer runs that follows its cores, and that a trial changes nothing else: of memory it is
// told at its start only. One that says another number than we gave is confined by somebody else, as a task of srun.
func (l *Trainer) resizable(t profiler.Trial) bool {
	if l.Confine == nil || l.now == nil || l.Virtual > 0 || t.Cores > len(l.CPUs) {
		return false
	}
	select {
	case <-l.now.ended:
		return false
	default:
		return l.now.trial.Memory == t.Memory && l.told() == l.now.trial.Cores
	}
}

// told is for how many cores the trainer's workers are, as its progress file says; 0: it does not.
func (l *Trainer) told() int {
	var said struct {
		Cores int `json:"cores"`
	}
	if l.Progress == "" {
		return 0
	}
	text, err := end(l.Progress)
	if err != nil || json.Unmarshal([]byte(lastLine(text)), &said) != nil {
		return 0
	}
	return said.Cores
}
