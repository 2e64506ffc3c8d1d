// Package book keeps the ledger of savings in a folder. Each day (UTC) has one file with lines of JSON for what was
// booked, at most one a minute, and one file with a line for each run that ended; both are kept for Keep. state.json
// holds what the next round's booking needs, so that a restart of the daemon loses no run. Only one daemon may write
// the files; anyone with access to the folder may read them at any time.
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

// Keep is how long the files of a day are kept.
const Keep = 400 * 24 * time.Hour

const (
	stateFile = "state.json"
	extension = ".jsonl"
	seldom    = time.Minute // the least time between two lines
	mostState = 64 << 20    // bytes; a run takes about 120
)

// Line is what was booked between the previous line and At.
type Line struct {
	At     time.Time `json:"at"`
	Shadow bool      `json:"shadow,omitempty"`
	savings.Sums
}

// Book is a ledger open for writing.
type Book struct {
	dir     string
	state   savings.State
	pending Line
	runs    []Run // that ended since the last line
	wrote   time.Time
}

// Open opens the ledger in a folder, which it creates if necessary.
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

// Note books a round and returns what was booked for it. A round's speeds count for at most the time most. Lines are
// written at most one a minute, and at once if the clock was set back, since the time to the last line is then unknown.
func (b *Book) Note(r savings.Round, most time.Duration) (savings.Sums, error) {
	sums, state := savings.Book(b.state, r, most)
	if b.pending.Seconds > 0 && b.pending.Shadow != r.Shadow { // shadow and live figures never share a line
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

// Close writes what is still pending.
func (b *Book) Close() error { return b.write() }

// write writes the state before the line. A daemon that dies in between loses the line but never books it twice. So
// what is pending is dropped once the state is written, even if the line is not; before that it is kept for the next
// write. If there is none, its time is zero; the first round has a time but no seconds, and makes a state alone.
func (b *Book) write() error {
	line, runs := b.pending, b.runs
	b.wrote = line.At
	if line.At.IsZero() {
		return nil
	}
	if err := b.writeState(); err != nil {
		return fmt.Errorf("write ledger of savings: %w", err)
	}
	b.pending, b.runs = Line{}, nil
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

// writeState replaces the state file in one step, by renaming a new file.
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

// appended adds lines to a file and begins on a new line even if a crash left an unfinished one.
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
	if endsMidLine(file) {
		text = append([]byte("\n"), text...)
	}
	_, err = file.Write(text)
	return err
}

// endsMidLine says whether a file ends within a line. A file that cannot be read counts as whole: writing will tell.
func endsMidLine(file *os.File) bool {
	end, err := file.Seek(0, io.SeekEnd)
	last := []byte{'\n'}
	if err == nil && end > 0 {
		_, err = file.ReadAt(last, end-1)
	}
	return err == nil && last[0] != '\n'
}

// Run is a run that ended, with what its time in Slurm's accounting is compared with; see savings.Run.
type Run struct {
	Job     int       `json:"job"`
	Started time.Time `json:"started"`
	Shadow  bool      `json:"shadow,omitempty"`
	Speed   float64   `json:"speed"`
	Of      string    `json:"of"`
}

const runsExtension = ".runs" + extension

func runsOf(at time.Time) string { return at.UTC().Format(time.DateOnly) + runsExtension }

// dayOfRuns returns the day of a runs file, and whether the name is one.
func dayOfRuns(name string) (time.Time, bool) {
	day, is := strings.CutSuffix(name, runsExtension)
	at, err := time.Parse(time.DateOnly, day)
	return at, is && err == nil
}

func nameOf(at time.Time) string { return at.UTC().Format(time.DateOnly) + extension }

// dayOf returns the day of a file of lines, and whether the name is one.
func dayOf(name string) (time.Time, bool) {
	day, is := strings.CutSuffix(name, extension)
	at, err := time.Parse(time.DateOnly, day)
	return at, is && err == nil
}

// Owns says whether a file of this name belongs to a ledger of savings.
func Owns(name string) bool {
	_, day := dayOf(name)
	_, runs := dayOfRuns(name)
	return day || runs || name == stateFile
}

// prune removes days older than Keep. A clock that jumps ahead removes nothing: see present.
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

// present is the time from which the age of days is measured: the end of the day after the last day written before
// today, or now if that is earlier.
func present(days []fs.DirEntry, now time.Time) time.Time {
	today, last := now.UTC().Truncate(24*time.Hour), time.Time{}
	for _, entry := range days {
		if day, is := dayOf(entry.Name()); is && day.Before(today) && day.After(last) {
			last = day
		}
	}
	if next := last.AddDate(0, 0, 2); !last.IsZero() && next.Before(now) { // the end of the day after last
		return next
	}
	return now
}
