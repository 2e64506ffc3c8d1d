package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"
)

// heart writes the file by which job_submit.lua knows that the daemon lives: the time of its last good round. It is told once that this
// does not work, and no round fails for it: without a heartbeat jobs pass ungated, as they would without the daemon.
type heart struct {
	log    zerolog.Logger
	silent bool // in the shadow: nobody may wait for a daemon that starts nothing
	ill    bool // the last beat was not written
}

// beat writes the time into the file. An empty path is none.
func (h *heart) beat(path string, now time.Time) {
	if path == "" || h.silent {
		return
	}
	err := pulse(path, now)
	if err != nil && !h.ill {
		h.log.Error().Err(err).Str("remedy", "its folder must be the daemon's to write, and slurmctld's to read").
			Msg("no heartbeat: new jobs pass ungated")
	}
	if err == nil && h.ill {
		h.log.Info().Str("file", path).Msg("the heartbeat is written again")
	}
	h.ill = err != nil
}

// pulse replaces the file as a whole, readable for all: slurmctld is another user. A name that is left over, of whatever kind, is
// removed and never written through.
func pulse(path string, now time.Time) error {
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("write heartbeat: %w", err)
	}
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write heartbeat: %w", err)
	}
	_, err = fmt.Fprintf(file, "%d\n", now.Unix())
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err == nil { // whatever the umask
		err = os.Rename(next, path)
	}
	if err != nil {
		os.Remove(next)
		return fmt.Errorf("write heartbeat: %w", err)
	}
	return nil
}

// stop takes the file away: nothing is to wait for a daemon that has handed everything back.
func (h *heart) stop(path string) {
	if path == "" {
		return
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		h.log.Warn().Err(err).Msg("the heartbeat stays, until it is stale new jobs are gated")
	}
}
