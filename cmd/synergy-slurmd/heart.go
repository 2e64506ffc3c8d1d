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

// heartbeatWriter writes the files from which job_submit.lua (the gate) knows that the daemon is alive: the time of its
// last good round, and the names of the profiles. A failure is logged once and fails no round: without a heartbeat jobs
// pass ungated, as they would without the daemon, and without a list any profile name passes.
type heartbeatWriter struct {
	log    zerolog.Logger
	silent bool // in shadow mode: no job may wait for a daemon that starts nothing
	ill    bool // the last heartbeat was not written
	mute   bool // the last list was not written
	shelf  catalogue
}

// beat writes the files that the configuration names.
func (h *heartbeatWriter) beat(config Config, now time.Time) {
	if h.silent {
		return
	}
	if config.Heartbeat != "" {
		h.logResult(&h.ill, writeTimestamped(config.Heartbeat, now, ""), "no heartbeat: new jobs pass ungated",
			"the heartbeat is written again")
	}
	if config.ProfilesFile != "" {
		names, err := h.shelf.names(config.ProfileDirs)
		if config.Learned != "" {
			names = "auto\n" + names
		}
		if err == nil {
			err = writeTimestamped(config.ProfilesFile, now, names)
		}
		h.logResult(&h.mute, err, "no list of profiles: the gate lets any name pass",
			"the list of profiles is written again")
	}
}

// logResult logs when writing begins to fail, and when it works again. ill and well are the messages, and failing is
// whether it failed the last time.
func (h *heartbeatWriter) logResult(failing *bool, err error, ill, well string) {
	if err != nil && !*failing {
		h.log.Error().Err(err).Str("remedy",
			"its folder must be the daemon's to write, and slurmctld's to read").Msg(ill)
	}
	if err == nil && *failing {
		h.log.Info().Msg(well)
	}
	*failing = err != nil
}

// writeTimestamped replaces a file in one step: the time in the first line, then more. The file is readable for all,
// since slurmctld is another user. A leftover .new of whatever kind is removed and never written through.
func writeTimestamped(path string, now time.Time, more string) error {
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	_, err = fmt.Fprintf(file, "%d\n%s", now.Unix(), more)
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err == nil { // whatever the umask is
		err = os.Rename(next, path)
	}
	if err != nil {
		os.Remove(next)
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// stop removes the files, so that no job waits for a daemon that has handed all jobs back.
func (h *heartbeatWriter) stop(config Config) {
	for _, path := range []string{config.Heartbeat, config.ProfilesFile} {
		if path == "" {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			h.log.Warn().Err(err).Msg("the file stays, until it is stale new jobs are gated by it")
		}
	}
}

// catalogue knows the names of the usable profiles. It reads a file again only when the file has changed.
type catalogue struct {
	dirs  []string
	shelf *library.Library
}

// maxCatalogue bounds the list. The gate reads files of up to 256 KiB, of which the line with the time and the word
// auto take a few bytes.
const maxCatalogue = 256<<10 - 32

// names lists the usable profiles, one in a line, ascending. If a folder cannot be read there is no list at all: a gate
// with half a list would refuse jobs whose profile exists.
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
