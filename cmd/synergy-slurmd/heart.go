package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/library"
)

// heart writes the files by which job_submit.lua knows that the daemon lives: the time of its last good round, and the
// profiles that there are. It is told once that this does not work, and no round fails for it: without a heartbeat jobs
// pass ungated, as they would without the daemon, and without a list any name of a profile passes.
type heart struct {
	log    zerolog.Logger
	silent bool // in the shadow: nobody may wait for a daemon that starts nothing
	ill    bool // the last beat was not written
	mute   bool // the last list was not
	shelf  catalogue
}

// beat writes the files that the configuration names, as of now.
func (h *heart) beat(config Config, now time.Time) {
	if h.silent {
		return
	}
	if config.Heartbeat != "" {
		h.told(&h.ill, pulse(config.Heartbeat, now, ""), "no heartbeat: new jobs pass ungated",
			"the heartbeat is written again")
	}
	if config.ProfilesFile != "" {
		names, err := h.shelf.names(config.ProfileDirs)
		if config.Learned != "" {
			names = "auto\n" + names
		}
		if err == nil {
			err = pulse(config.ProfilesFile, now, names)
		}
		h.told(&h.mute, err, "no list of profiles: the gate lets any name pass",
			"the list of profiles is written again")
	}
}

// told says when writing begins to fail, and when it ends to.
func (h *heart) told(failing *bool, err error, ill, well string) {
	if err != nil && !*failing {
		h.log.Error().Err(err).Str("remedy",
			"its folder must be the daemon's to write, and slurmctld's to read").Msg(ill)
	}
	if err == nil && *failing {
		h.log.Info().Msg(well)
	}
	*failing = err != nil
}

// pulse replaces the file as a whole, by the time in one line and what comes after it, readable for all: slurmctld is
// another user. A name that is left over, of whatever kind, is removed and never written through.
func pulse(path string, now time.Time, more string) error {
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	_, err = fmt.Fprintf(file, "%d\n%s", now.Unix(), more)
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err == nil { // whatever the umask
		err = os.Rename(next, path)
	}
	if err != nil {
		os.Remove(next)
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// stop takes the files away: nothing is to wait for a daemon that has handed everything back.
func (h *heart) stop(config Config) {
	for _, path := range []string{config.Heartbeat, config.ProfilesFile} {
		if path == "" {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			h.log.Warn().Err(err).Msg("the file stays, until it is stale new jobs are gated by it")
		}
	}
}

// catalogue knows the names of the profiles that can be used. What it has read of a file is kept until that changes.
type catalogue struct {
	dirs  []string
	shelf *library.Library
}

// maxCatalogue bounds the list: the gate does not read a file of more than 256 KiB, of which the line with the time is
// some, and auto.
const maxCatalogue = 256<<10 - 32

// names lists them, one in a line, ascending. A folder that cannot be read makes the list an unknown one: who does not
// know what there is must refuse nobody.
func (c *catalogue) names(dirs []string) (string, error) {
	if c.shelf == nil || !slices.Equal(c.dirs, dirs) {
		c.dirs, c.shelf = slices.Clone(dirs), library.New(dirs...)
	}
	var names []string
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return "", fmt.Errorf("list profiles: %w", err)
		}
		for _, entry := range entries {
			if _, err := c.shelf.Lookup(entry.Name()); err == nil {
				names = append(names, entry.Name()+"\n")
			}
		}
	}
	slices.Sort(names)
	list := strings.Join(slices.Compact(names), "")
	if len(list) > maxCatalogue {
		return "", fmt.Errorf("list profiles: %d names take more than %d bytes: the gate reads no longer list",
			len(names), maxCatalogue)
	}
	return list, nil
}
