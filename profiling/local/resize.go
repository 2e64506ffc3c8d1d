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

// resizeTimeout is how long that report may take: the rest of a step, with the workers that it had.
const resizeTimeout = 30 * time.Second

// resize lets the running trainer go on with the trial's cores, and reports whether it does. If it cannot, that is no
// error, since a restart will do. An error is what ended the wait for its first iteration.
func (l *Trainer) resize(ctx context.Context, t profiler.Trial) (bool, error) {
	if !l.resizable(t) {
		return false, nil
	}
	process := l.running.command.Process.Pid
	if err := l.Confine(process, l.CPUs[:t.Cores]); err != nil {
		return false, nil
	}
	err := l.until(ctx, min(resizeTimeout, l.Patience), func() bool { return l.reportedCores() == t.Cores })
	if errors.Is(err, errEnded) || errors.Is(err, errSilent) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l.running.trial = t
	if l.running.log != nil {
		fmt.Fprintf(l.running.log, "== goes on with %d cores\n", t.Cores)
	}
	done := l.running.source.total()
	return true, l.until(ctx, l.Patience, func() bool { return l.running.source.total() > done })
}

// resizable reports whether a trainer runs that adapts to its cores, and the trial changes only these; memory is told
// only at the start. A trainer that reports another number of cores than we gave it is confined by something else, such
// as srun.
func (l *Trainer) resizable(t profiler.Trial) bool {
	if l.Confine == nil || l.running == nil || l.Virtual > 0 || t.Cores > len(l.CPUs) {
		return false
	}
	select {
	case <-l.running.ended:
		return false
	default:
		return l.running.trial.Memory == t.Memory && l.reportedCores() == l.running.trial.Cores
	}
}

// reportedCores returns for how many cores the trainer has workers, by its progress file; 0: it does not say.
func (l *Trainer) reportedCores() int {
	var said struct {
		Cores int `json:"cores"`
	}
	if l.Progress == "" {
		return 0
	}
	text, err := fileTail(l.Progress)
	if err != nil || json.Unmarshal([]byte(lastLine(text)), &said) != nil {
		return 0
	}
	return said.Cores
}
