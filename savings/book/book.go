// Package book keeps the ledger of savings in a folder: for each day (UTC) a file with a line of JSON for what was
// booked, at most one a minute, and one with a line for each run that ended, for as long as Keep; and state.json, what
// the next round's booking rests on, so that a restart forgets no run. Files are written by one daemon and may be read
// meanwhile by anybody whom the folder lets in.
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
	mostState = 64 << 20    // bytes; a run has some 120
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
	runs    []Run // that ended since
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
	for _, o := range state.Ended {
		if o.Speed > 0 && o.Of != "" {
			b.runs = append(b.runs, Run{o.Job, o.Started.UTC(), o.Shadow, o.Speed, o.Of})
		}
	}
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
	line, runs := b.pending, b.runs
	b.pending, b.runs, b.wrote = Line{}, nil, line.At
	if line.At.IsZero() {
		return nil
	}
	if err := b.writeState(); err != nil {
		return fmt.Errorf("write ledger of savings: %w", err)
	}
	if err := appended(filepath.Join(b.dir, runsOf(line.At)), runs...); err != nil {
		return fmt.Errorf("write runs of the ledger of savings: %w", err)
	}
	if line.Seconds == 0 {
		return nil
	}
	if err := appended(filepath.Join(b.dir, nameOf(line.At)), line); err != nil {
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

// appended adds lines to a file, on lines of their own whatever a crash has left there.
func appended[T Line | Run](path string, lines ...T) (err error) {
	var text []byte
	for _, line := range lines {
		one, err := json.Marshal(line)
		if err != nil {
			return err
		}
		text = append(append(text, one...), '\n')
	}
	if len(text) == 0 {
		return nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if torn(file) {
		text = append([]byte("\n"), text...)
	}
	_, err = file.Write(text)
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

// Run is a run that ended, and what the accounting of its end can be held against: see savings.Run.
type Run struct {
	Job     int       `json:"job"`
	Started time.Time `json:"started"`
	Shadow  bool      `json:"shadow,omitempty"`
	Speed   float64   `json:"speed"`
	Of      string    `json:"of"`
}

const runsExtension = ".runs" + extension

func runsOf(at time.Time) string { return at.UTC().Format(time.DateOnly) + runsExtension }

// dayOfRuns is the day of a file of runs.
func dayOfRuns(name string) (time.Time, bool) {
	day, is := strings.CutSuffix(name, runsExtension)
	at, err := time.Parse(time.DateOnly, day)
	return at, is && err == nil
}

func nameOf(at time.Time) string { return at.UTC().Format(time.DateOnly) + extension }

// dayOf is the day of a file.
func dayOf(name string) (time.Time, bool) {
	day, is := strings.CutSuffix(name, extension)
	at, err := time.Parse(time.DateOnly, day)
	return at, is && err == nil
}

// Owns says that a file of a ledger of savings has this name.
func Owns(name string) bool {
	_, day := dayOf(name)
	_, runs := dayOfRuns(name)
	return day || runs || name == stateFile
}

// prune removes days that are too old. A clock that jumps ahead makes no day old: days age by the last one before that
// of the clock, too.
func (b *Book) prune(now time.Time) error {
	days, err := os.ReadDir(b.dir)
	if err != nil {
		return err
	}
	now = present(days, now)
	for _, entry := range days {
		day, is := dayOf(entry.Name())
		if !is {
			day, is = dayOfRuns(entry.Name())
		}
		if is && now.Sub(day) > Keep {
			err = errors.Join(err, os.Remove(filepath.Join(b.dir, entry.Name())))
		}
	}
	return err
}

// present is the day after the last one that was written before this one, or now if that is earlier.
func present(days []fs.DirEntry, now time.Time) time.Time {
	today, last := now.UTC().Truncate(24*time.Hour), time.Time{}
	for _, entry := range days {
		if day, is := dayOf(entry.Name()); is && day.Before(today) && day.After(last) {
			last = day
		}
	}
	if next := last.AddDate(0, 0, 2); !last.IsZero() && next.Before(now) { // its end is one day on
		return next
	}
	return now
}
