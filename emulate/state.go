package emulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// State is the content of a checkpoint.
type State struct {
	Version    int     `json:"version"` // stateVersion
	Job        string  `json:"job"`     // Slurm's job ID; empty outside Slurm
	Model      string  `json:"model"`
	Saves      int     `json:"saves"`      // number of this checkpoint, from 1, over all starts
	Starts     int     `json:"starts"`     // including this one
	Iterations int64   `json:"iterations"` // in all starts
	Trained    float64 `json:"trained_s"`  // seconds that they took by the profile
	Lost       int64   `json:"lost"`       // iterations that were done twice, as far as known
	Checksum   string  `json:"checksum"`   // of the JSON with an empty checksum
}

const stateVersion = 1

// Errors of Load that a caller can distinguish.
var (
	ErrNoState = errors.New("no checkpoint")
	ErrDamaged = errors.New("damaged checkpoint")
)

// Store keeps the last two checkpoints in Path.0 and Path.1, so that one is always complete, whatever happens while the
// next is written. Only one process may write.
type Store struct {
	Path string
	// Follows means that another process writes the checkpoints and this one only reads them.
	Follows bool
}

// Load returns the newest complete checkpoint. If there are checkpoints and none is complete it returns ErrDamaged,
// rather than silently starting over; if there is none at all, ErrNoState. Which one is newest is decided by the
// number, not by the time of the file. A damaged file is passed over if the other one is complete.
func (s Store) Load() (State, error) {
	var newest State
	var damage []error
	for slot := range 2 {
		found, err := read(s.slot(slot))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			damage = append(damage, err)
		case found.Saves > newest.Saves:
			newest = found
		}
	}
	switch {
	case newest.Saves > 0:
		return newest, nil
	case len(damage) > 0:
		return State{}, errors.Join(damage...)
	}
	return State{}, fmt.Errorf("%s: %w", s.Path, ErrNoState)
}

// slot returns the file for the checkpoint with this number. Numbers alternate between the two files, so the newest
// checkpoint is never overwritten.
func (s Store) slot(saves int) string { return s.Path + "." + strconv.Itoa(saves%2) }

// read reads a checkpoint and checks it: encoding it again must give the same bytes, with the same checksum.
func read(path string) (State, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return State{}, err
	}
	var found State
	if err := json.Unmarshal(text, &found); err != nil {
		return State{}, fmt.Errorf("%s: %w: %w", path, ErrDamaged, err)
	}
	if found.Version != stateVersion {
		return State{}, fmt.Errorf("%s: %w: version %d, want %d", path, ErrDamaged, found.Version, stateVersion)
	}
	whole, err := found.encode()
	if err != nil || !bytes.Equal(whole, text) {
		return State{}, fmt.Errorf("%s: %w: it does not say what was saved", path, ErrDamaged)
	}
	return found, nil
}

// encode returns the JSON of s with its checksum.
func (s State) encode() ([]byte, error) {
	s.Version, s.Checksum = stateVersion, ""
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode checkpoint: %w", err)
	}
	s.Checksum = fmt.Sprintf("crc32:%08x", crc32.ChecksumIEEE(text))
	text, err = json.Marshal(s)
	return append(text, '\n'), err
}

// Save makes state the newest checkpoint, in place of the older of the two. It is on disk when Save returns.
func (s Store) Save(state State) error {
	if s.Follows {
		return nil
	}
	text, err := state.encode()
	if err != nil {
		return err
	}
	temporary := s.Path + ".tmp"
	if err := writeThrough(temporary, text); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	if err := os.Rename(temporary, s.slot(state.Saves)); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	if err := syncDirectory(filepath.Dir(s.Path)); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	return nil
}

// writeThrough writes a file and syncs it to disk.
func writeThrough(path string, text []byte) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Note records how far the job has come, without waiting for the disk. It is no checkpoint: a later start only learns
// from it how much was lost.
func (s Store) Note(iterations int64) error {
	if s.Follows {
		return nil
	}
	return os.WriteFile(s.Path+".seen", strconv.AppendInt(nil, iterations, 10), 0o644)
}

// Seen returns the last Note; 0 if there is none that can be read.
func (s Store) Seen() int64 {
	text, err := os.ReadFile(s.Path + ".seen")
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
