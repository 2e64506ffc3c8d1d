package local

import (
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// Allowed returns the CPUs that this process may use, by kernel number, ascending.
func Allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	var cpus []int
	for cpu := range len(set) * wordBits {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// wordBits is the number of CPUs in a word of a CPUSet.
const wordBits = 64

// startOn starts a command that may use only these CPUs. A process inherits the CPUs of the thread that starts it, so
// this thread takes them on and then restores its own. If it cannot, the thread ends with its goroutine, and no other
// goroutine runs on it.
func startOn(cpus []int, command *exec.Cmd) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		var before, set unix.CPUSet
		if err := unix.SchedGetaffinity(0, &before); err != nil {
			result <- fmt.Errorf("sched_getaffinity: %w", err)
			return
		}
		for _, cpu := range cpus {
			set.Set(cpu)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			result <- fmt.Errorf("sched_setaffinity: CPUs %v: %w", cpus, err)
			return
		}
		err := command.Start()
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}
