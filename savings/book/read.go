package book

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/savings"
)

// mostDay bounds the file of a day: several times what lines of a minute make.
const mostDay = 16 << 20

// untold stands for a figure that lines of before it was booked do not have.
const untold = -1

// Read reads what was booked after since and not after until, in the order of time, and says how many lines were
// skipped because they cannot be read: what a crash has left of one.
func Read(dir string, since, until time.Time) (lines []Line, skipped int, err error) {
	entries, err := os.ReadDir(dir) // ascending in name, and so in time
	if err != nil {
		return nil, 0, fmt.Errorf("read ledger of savings: %w", err)
	}
	for _, entry := range entries {
		day, is := dayOf(entry.Name())
		if !is || day.After(until) || !day.Add(24*time.Hour).After(since) {
			continue
		}
		text, err := readBounded(filepath.Join(dir, entry.Name()), mostDay)
		if err != nil {
			return nil, 0, fmt.Errorf("read ledger of savings: %w", err)
		}
		for raw := range bytes.Lines(text) {
			line := Line{Sums: savings.Sums{Changed: untold}}
			wrong := json.Unmarshal(raw, &line)
			if line.Changed == untold {
				line.Changed = line.Known
			}
			switch {
			case len(bytes.TrimSpace(raw)) == 0:
			case wrong != nil || !line.possible():
				skipped++
			case line.At.After(since) && !line.At.After(until):
				lines = append(lines, line)
			}
		}
	}
	return lines, skipped, nil
}

// Pace is for how long lines were booked, as a rule: the time between two rounds, or a minute where that is less.
func Pace(lines []Line) time.Duration {
	seconds := make([]float64, len(lines))
	for i := range lines {
		seconds[i] = lines[i].Seconds
	}
	slices.Sort(seconds)
	if len(seconds) == 0 {
		return 0
	}
	return time.Duration(seconds[len(seconds)/2] * float64(time.Second))
}

// Day is what was booked on a day (UTC), in the shadow or not.
type Day struct {
	Day    string `json:"day"` // as 2026-11-23
	Shadow bool   `json:"shadow"`
	savings.Sums
}

// ByDay adds lines up, those in the shadow and others apart, in the order of the first line of each.
func ByDay(lines []Line) (days []Day) {
	places := map[Day]int{}
	for _, l := range lines {
		key := Day{Day: l.At.UTC().Format(time.DateOnly), Shadow: l.Shadow}
		k, known := places[key]
		if !known {
			k = len(days)
			places[key], days = k, append(days, key)
		}
		days[k].Sums = days[k].Plus(l.Sums)
	}
	return days
}

// possible says that a line claims no more than was there.
func (l *Line) possible() bool {
	const rounding = 1e-6
	most := float64(l.There*(1+rounding)) + rounding
	return l.Seconds >= 0 && l.Known >= 0 && l.Known <= l.Held+rounding && l.Unmatched >= 0 &&
		l.Saved <= l.Known+rounding && l.Changed >= 0 && l.Changed <= l.Known+rounding &&
		l.Supposed >= 0 && l.Supposed <= l.Known+rounding &&
		l.SavedWithout <= l.Supposed+rounding && l.SavedWith <= l.Supposed+rounding &&
		l.Held+l.Unmatched+l.Idle() <= most && l.Idle() >= 0 &&
		l.Filled >= 0 && l.Filled <= l.Idle()+rounding && l.Ended >= 0 && l.Checks >= 0
}

// readBounded reads an ordinary file of at most so many bytes.
func readBounded(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: is no ordinary file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(text)) > most:
		return nil, fmt.Errorf("%s: has more than %d bytes: want the file of a ledger of savings", path, most)
	}
	return text, nil
}

// ReadRuns hands out the runs that ended up to a moment's day, in the order of days, and says how many lines were
// skipped because they cannot be.
func ReadRuns(dir string, until time.Time, each func(Run)) (skipped int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("read ledger of savings: %w", err)
	}
	for _, entry := range entries {
		day, is := dayOfRuns(entry.Name())
		if !is || day.After(until) {
			continue
		}
		text, err := readBounded(filepath.Join(dir, entry.Name()), mostDay)
		if err != nil {
			return skipped, fmt.Errorf("read ledger of savings: %w", err)
		}
		for raw := range bytes.Lines(text) {
			var run Run
			switch wrong := json.Unmarshal(raw, &run); {
			case len(bytes.TrimSpace(raw)) == 0:
			case wrong != nil || run.Job < 1 || !(run.Speed > 0) || run.Of == "" || run.Started.IsZero():
				skipped++
			default:
				each(run)
			}
		}
	}
	return skipped, nil
}
