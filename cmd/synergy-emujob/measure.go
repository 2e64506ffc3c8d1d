package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pretended reads from a file how many cores the job may use; all if the file is missing or invalid.
func pretended(path string, all int) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return all
	}
	cores, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || cores < 1 {
		return all
	}
	return cores
}

// writeProgress replaces the progress file by a rename, as python/synergy does, so that no reader sees half of it.
func writeProgress(path string, iterations int64) error {
	next := path + ".new"
	if err := os.WriteFile(next, fmt.Appendf(nil, "{\"version\": 1, \"iterations\": %d, \"at\": %d}\n", iterations,
		time.Now().Unix()), 0o644); err != nil {
		return fmt.Errorf("write progress: %w", err)
	}
	return os.Rename(next, path)
}

// windows is the longest measurement, in windows: three minutes if a window is 20 s.
const windows = 9

// measureIt starts `synergy measure` for this job, with files in a temporary folder. If that fails, the error is
// printed, and the job runs unmeasured. stop ends the measurement.
func (f *flags) measureIt() (stop func()) {
	stop = func() {}
	if f.measure <= 0 || isFollower(os.Getenv) {
		return stop
	}
	dir, err := os.MkdirTemp("", "synergy-emujob-")
	if err != nil {
		complain(0, err)
		return stop
	}
	f.progress, f.pretend = filepath.Join(dir, "progress"), filepath.Join(dir, "cores")
	self, err := os.Executable()
	if err != nil {
		complain(0, err)
		return stop
	}
	window := time.Duration(f.measure)
	command := exec.Command(filepath.Join(filepath.Dir(self), "synergy"), "measure", "--pid", strconv.Itoa(os.Getpid()),
		"--progress", f.progress,
		"--pretend", f.pretend, "--window", window.String(), "--total", (windows * window).String())
	command.Stderr = os.Stderr
	// It gets no signals that are for the job, and dies with it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		complain(0, fmt.Errorf("not measured: %w", err))
		return stop
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // it has printed its own errors
		close(ended)
	}()
	return func() {
		_ = command.Process.Kill()
		<-ended
		_ = os.RemoveAll(dir)
	}
}
