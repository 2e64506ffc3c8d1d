package local

import (
	"encoding/json"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// lookEvery is how often GPU use is sampled. A sample takes one or two milliseconds, and the driver's own figure is a
// mean over a large part of a second.
const lookEvery = time.Second

// useSampler collects the trainer's GPU use while it is measured.
type useSampler struct {
	next     time.Time
	sum      profiler.Use
	reported profiler.Use // the trainer's last own report
}

// sampleUse takes a sample if one is due.
func (l *Trainer) sampleUse(u *useSampler) {
	if l.Look == nil || time.Now().Before(u.next) {
		return
	}
	u.next = time.Now().Add(lookEvery)
	if now, is := l.Look(members(l.running.command.Process.Pid)); is {
		u.sum = u.sum.And(now)
	}
}

// readReport reads the trainer's own report of its GPU use in the progress file. While the trainer writes the file in
// place it may be empty or cut; then the last complete report stays.
func (l *Trainer) readReport(u *useSampler) {
	if l.Progress == "" {
		return
	}
	if text, err := fileTail(l.Progress); err == nil {
		u.reported = reportedUse(lastLine(text), u.reported)
	}
}

// measuredUse returns the trainer's GPU use: its own report, or else what was sampled.
func (l *Trainer) measuredUse(u *useSampler) *profiler.Use {
	l.readReport(u)
	use := u.sum
	if u.reported.Looks > 0 {
		use.Busy, use.Looks = u.reported.Busy, max(u.reported.Looks, use.Looks)
	}
	if u.reported.Memory > 0 {
		use.Memory = u.reported.Memory
	}
	if use == (profiler.Use{}) {
		return nil
	}
	return &use
}

// reportedUse updates a GPU use with what a line of progress reports. The trainer's own figure counts as if sampled
// often enough to be used (Believed). A field that is missing or out of range changes nothing.
func reportedUse(line string, otherwise profiler.Use) profiler.Use {
	var words struct {
		Busy   *float64 `json:"gpu_busy"`
		Memory *int64   `json:"gpu_memory_mib"`
	}
	if json.Unmarshal([]byte(line), &words) != nil {
		return otherwise
	}
	const most = 1 << 20 // MiB
	if b := words.Busy; b != nil && *b > 0 && *b <= 1 {
		otherwise.Busy, otherwise.Looks = *b, max(profiler.Believed, otherwise.Looks)
	}
	if m := words.Memory; m != nil && *m > 0 && *m <= most {
		otherwise.Memory = gres.Memory(*m)
	}
	return otherwise
}

// members returns the processes of a process group. If /proc cannot be listed, only the first process is known.
func members(group int) (all []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return []int{group}
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if of, err := syscall.Getpgid(pid); err == nil && of == group {
			all = append(all, pid)
		}
	}
	return all
}
