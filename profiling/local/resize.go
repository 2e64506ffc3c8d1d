package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// A trainer whose progress file says for how many cores its loader has workers adapts to the cores that it may use
// (docs/python.md). It needs no restart for another size: it gets the cores, and reports when it has workers for them.

// follows is how long that report may take: the rest of a step, with the workers that it had.
const follows = 30 * time.Second

// resize lets the running trainer go on with the trial's cores, and reports whether it does. If it cannot, that is no
// error, since a restart will do. An error is what ended the wait for its first iteration.
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

// resizable reports whether a trainer runs that adapts to its cores, and the trial changes only these; memory is told
// only at the start. A trainer that reports another number of cores than we gave it is confined by something else, such
// as srun.
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

// told returns for how many cores the trainer has workers, by its progress file; 0: it does not say.
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
