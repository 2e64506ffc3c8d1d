package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// ending is how a service ended, as systemd tells the commands of ExecStopPost.
type ending struct {
	result string // $SERVICE_RESULT: success, exit-code, signal, watchdog, …
	status string // $EXIT_STATUS: the code, or the name of the signal
	job    string // systemd's queued job for the unit: restart, stop, …; empty: none
}

// comesBack reports whether systemd is about to start the unit again. If systemd cannot be asked, a service that ended
// well counts as stopped for good: handing jobs back once too often costs less than once too seldom.
func comesBack(ctx context.Context, unit string, log zerolog.Logger) bool {
	job, err := queued(ctx, unit)
	if err != nil {
		log.Warn().Err(err).Str("unit", unit).Msg("systemd does not say what is to become of the unit")
	}
	e := ending{os.Getenv("SERVICE_RESULT"), os.Getenv("EXIT_STATUS"), job}
	again := e.comesBack()
	log.Info().Str("unit", unit).Str("result", e.result).Str("status", e.status).Str("job", job).Bool("starts_again",
		again).Msg("stopped")
	return again
}

// comesBack follows the settings of the unit: Restart=on-failure and RestartPreventExitStatus=2. A queued job of the
// unit counts first. The status 2 is that of a wrong command line or configuration.
func (e ending) comesBack() bool {
	switch e.job {
	case "restart", "start", "try-restart", "reload-or-start":
		return true
	case "stop":
		return false
	}
	switch e.result {
	case "signal", "core-dump", "watchdog", "timeout", "oom-kill", "protocol":
		return true
	case "exit-code":
		return e.status != "2"
	}
	return false
}

// queued asks systemd for the job that waits or runs for a unit.
func queued(ctx context.Context, unit string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ask := exec.CommandContext(ctx, "systemctl", "list-jobs", "--full", "--plain", "--no-legend", "--no-pager")
	ask.Env = []string{"PATH=" + os.Getenv("PATH")}
	listing, err := ask.Output()
	return jobOf(unit, string(listing)), err
}

// jobOf reads the output of systemctl list-jobs: lines of number, unit, kind and state.
func jobOf(unit, listing string) string {
	for line := range strings.Lines(listing) {
		if words := strings.Fields(line); len(words) >= 3 && words[1] == unit {
			return words[2]
		}
	}
	return ""
}
