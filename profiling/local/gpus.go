package local

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/profiling"
)

// otherGPUs returns a fault if the driver says that the trainer uses another number of GPUs than it was told to. Rates
// are per GPU, so the profile would be wrong. If the driver's tool is missing, slow or sees no process of ours, as in
// some containers, it returns nil.
func (l *Trainer) otherGPUs(ctx context.Context) error {
	used, wanted := usedGPUs(ctx, l.running.command.Process.Pid), max(1, l.GPUs)
	if used == 0 || used == wanted {
		return nil
	}
	return &profiling.Fault{Why: fmt.Sprintf(
		"the trainer uses %d of the GPUs here, and --gpus says %d: say --gpus %d, or have it use %d", used, wanted,
		used, wanted)}
}

// usedGPUs counts the GPUs on which processes of a process group compute; 0: unknown.
func usedGPUs(ctx context.Context, group int) int {
	const answers = 5 * time.Second
	within, stop := context.WithTimeout(ctx, answers)
	defer stop()
	command := exec.CommandContext(within, "nvidia-smi", "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader")
	command.WaitDelay = time.Second
	out, err := command.Output()
	if err != nil {
		return 0
	}
	used := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		process, gpu, _ := strings.Cut(strings.TrimSpace(line), ", ")
		pid, err := strconv.Atoi(process)
		if err != nil || pid < 1 {
			continue
		}
		if of, err := syscall.Getpgid(pid); err == nil && of == group {
			used[gpu] = true
		}
	}
	return len(used)
}
