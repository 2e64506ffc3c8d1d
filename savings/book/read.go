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

// mostDay bounds the size of a day's file, in bytes: several times what a line a minute comes to.
const mostDay = 16 << 20

// missingFigure marks a figure that a line does not have, because the line is older than the figure. In such a line all
// of Known counts as Changed, which makes the bounds of what was saved wider and not narrower.
const missingFigure = -1

// Read returns what was booked after since and not after until, in the order of time. skipped counts lines that cannot
// be read, such as one that a crash cut off.
func Read(dir string, since, until time.Time) (lines []Line, skipped int, err error) {
	entries, err := os.ReadDir(dir) // ascending in name, which is the order of time
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
			line := Line{Sums: savings.Sums{Changed: missingFigure}}
			wrong := json.Unmarshal(raw, &line)
			if line.Changed == missingFigure {
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

// Pace is the typical time that a line stands for, the median: the time between two rounds, or a minute if rounds are
// more frequent.
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

// Day is what was booked on one day (UTC), in the shadow or not.
type Day struct {
	Day    string `json:"day"` // such as 2026-11-23
	Shadow bool   `json:"shadow"`
	savings.Sums
}

// ByDay sums lines by day. Shadow and live lines are summed separately, in the order of their first lines.
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

// possible says that a line's figures are consistent: no part is larger than its whole, but for rounding. Saved may be
// negative.
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

// readBounded reads a regular file of at most most bytes.
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

// ReadRuns calls each for every run that ended up to the day of until, day by day. skipped counts lines that cannot be
// read.
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
