// Package book keeps the ledger of savings in a folder: a file for each day (UTC) with a line of JSON for what was
// booked, at most one a minute, for as long as Keep; and state.json, what the next round's booking rests on, so that a
// restart forgets no run. Files are written by one daemon and may be read meanwhile by anybody whom the folder lets in.
package book

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/savings"
)

// Keep is for how long days are kept.
const Keep = 400 * 24 * time.Hour

const (
	stateFile = "state.json"
	extension = ".jsonl"
	seldom    = time.Minute // between two lines
	mostState = 64 << 20    // bytes; a run has some 60
)

// Line is what was booked up to a moment, since the last one.
type Line struct {
	At     time.Time `json:"at"`
	Shadow bool      `json:"shadow,omitempty"`
	savings.Sums
}

// Book is a ledger that is written to.
type Book struct {
	dir     string
	state   savings.State
	pending Line
	wrote   time.Time
}

// Open opens the ledger in the folder, which is made if need be.
func Open(dir string) (*Book, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open ledger of savings: %w", err)
	}
	b := &Book{dir: dir}
	path := filepath.Join(dir, stateFile)
	text, err := readBounded(path, mostState)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b, nil
	case err == nil:
		err = json.Unmarshal(text, &b.state)
	}
	if err != nil {
		return nil, fmt.Errorf("open ledger of savings: read %s: %w", path, err)
	}
	return b, nil
}

// Note books a round, and says what was booked for it. The speeds of a round stand for no more time than most.
func (b *Book) Note(r savings.Round, most time.Duration) (savings.Sums, error) {
	sums, state := savings.Book(b.state, r, most)
	if b.pending.Seconds > 0 && b.pending.Shadow != r.Shadow { // never one line for both
		if err := b.write(); err != nil {
			return sums, err
		}
	}
	b.state = state
	b.pending = Line{At: r.At.UTC(), Shadow: r.Shadow, Sums: b.pending.Plus(sums)}
	if since := r.At.Sub(b.wrote); since >= 0 && since < seldom {
		return sums, nil
	}
	return sums, b.write()
}

// Close writes what is still to be written.
func (b *Book) Close() error { return b.write() }

// write writes the state, and then the line: who dies in between loses the line, and claims nothing twice. So does who
// finds no room for it.
func (b *Book) write() error {
	line := b.pending
	b.pending, b.wrote = Line{}, line.At
	if line.At.IsZero() {
		return nil
	}
	if err := b.writeState(); err != nil {
		return fmt.Errorf("write ledger of savings: %w", err)
	}
	if line.Seconds == 0 {
		return nil
	}
	if err := b.append(line); err != nil {
		return fmt.Errorf("write ledger of savings: %w", err)
	}
	return b.prune(line.At)
}

func (b *Book) writeState() error {
	text, err := json.Marshal(b.state)
	if err != nil {
		return err
	}
	path := filepath.Join(b.dir, stateFile)
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// append adds a line to the file of its day, on a line of its own whatever a crash has left there.
func (b *Book) append(line Line) (err error) {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(b.dir, nameOf(line.At)), os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if torn(file) {
		text = append([]byte("\n"), text...)
	}
	_, err = file.Write(append(text, '\n'))
	return err
}

func torn(file *os.File) bool {
	end, err := file.Seek(0, io.SeekEnd)
	last := []byte{'\n'}
	if err == nil && end > 0 {
		_, err = file.ReadAt(last, end-1)
	}
	return err == nil && last[0] != '\n'
}

func nameOf(at time.Time) string { return at.UTC().Format(time.DateOnly) + extension }

// dayOf is the day of a file.
func dayOf(name string) (time.Time, bool) {
	day, is := strings.CutSuffix(name, extension)
	at, err := time.Parse(time.DateOnly, day)
	return at, is && err == nil
}

// prune removes days that are too old.
func (b *Book) prune(now time.Time) error {
	days, err := os.ReadDir(b.dir)
	if err != nil {
		return err
	}
	for _, entry := range days {
		if day, is := dayOf(entry.Name()); is && now.Sub(day) > Keep {
			err = errors.Join(err, os.Remove(filepath.Join(b.dir, entry.Name())))
		}
	}
	return err
}
