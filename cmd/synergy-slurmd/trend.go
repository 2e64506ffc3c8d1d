package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/history"
	"github.com/synergy-slurmd/synergy-slurmd/page"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Limits on what a page of days and weeks reads.
const (
	trendLimit  = 10 * time.Second // of one request; the next one goes on from there
	trendLength = time.Hour        // of the means that are remembered: some 10 kB a day
	closedAfter = time.Hour        // how long after a day has ended its file may still be written
	mostPoints  = 2000             // that are held of one day before they are averaged
)

// trend has the points that are drawn of the history. A day that is over is read once, and its means are remembered.
// One request reads at a time.
type trend struct {
	turn  chan struct{}
	store *history.Store          // whose days are in known
	known map[string][]page.Point // means of trendLength, by day
}

func newTrend() *trend { return &trend{turn: make(chan struct{}, 1)} }

var errTrendLong = errors.New("reading takes too long: load this page again, it goes on from there")

// points are the means over a reach of time up to now, and which days are missing from them.
func (t *trend) points(ctx context.Context, past *historian, reach page.Reach, now time.Time) (points []page.Point,
	gaps []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, trendLimit)
	defer cancel()
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return nil, []string{errTrendLong.Error()}, nil
	}
	store := past.current()
	if store == nil {
		return nil, nil, nil // it was closed meanwhile
	}
	if store != t.store {
		t.store, t.known = store, nil
	}
	reader := store.Reader()
	since := now.AddDate(0, 0, -reach.Days)
	days, err := daysOf(reader, since, now)
	if err != nil {
		return nil, nil, err
	}
	if t.known == nil {
		t.known = map[string][]page.Point{}
	}
	if oldest := now.AddDate(0, 0, -page.Furthest).UTC().Format(time.DateOnly); len(t.known) > 0 {
		maps.DeleteFunc(t.known, func(day string, _ []page.Point) bool { return day < oldest })
	}
	for k := len(days) - 1; k >= 0; k-- { // the newest first
		if ctx.Err() != nil {
			gaps = append(gaps, fmt.Sprintf("%s and days before: %v", days[k], errTrendLong))
			break
		}
		some, err := t.day(reader, days[k], reach, now)
		if err != nil {
			past.tellGaps([]error{err})
			gaps = append(gaps, printable.Line(err.Error(), longestFault))
		}
		points = append(points, some...)
	}
	points = withinTime(points, since, now)
	return page.Mean(points, reach.Length), gaps, nil
}

// daysOf are the kept days in a span of time.
func daysOf(reader *history.Reader, since, now time.Time) (days []string, err error) {
	all, err := reader.Days()
	first, last := since.UTC().Format(time.DateOnly), now.UTC().Format(time.DateOnly)
	for _, day := range all {
		if day >= first && day <= last {
			days = append(days, day)
		}
	}
	return days, err
}

// day returns the points of one day as means of the reach's length, but at most trendLength.
func (t *trend) day(reader *history.Reader, day string, reach page.Reach, now time.Time) ([]page.Point,
	error) {
	coarse := reach.Length >= trendLength
	if means, known := t.known[day]; known && coarse {
		return means, nil
	}
	length := min(reach.Length, trendLength)
	var points []page.Point
	err := reader.Points(day, func(text []byte) {
		p, err := page.ReadPoint(text)
		if err != nil {
			return // a damaged point is not drawn
		}
		if points = append(points, p); len(points) == mostPoints { // rounds may be one second apart
			points = page.Mean(points, length)
		}
	})
	means := page.Mean(points, length)
	if !coarse {
		return means, err
	}
	if ends, wrong := time.Parse(time.DateOnly, day); err == nil && wrong == nil &&
		now.Sub(ends.AddDate(0, 0, 1)) > closedAfter {
		t.known[day] = means
	}
	return means, err
}

// withinTime keeps the points that began in a span of time.
func withinTime(points []page.Point, since, now time.Time) (some []page.Point) {
	for _, p := range points {
		if !p.Began.Before(since) && !p.Began.After(now) {
			some = append(some, p)
		}
	}
	return some
}

// reachAsked reads from a request how far back it wants to look.
func reachAsked(r *http.Request) (page.Reach, error) {
	text := r.URL.Query().Get("days")
	if text == "" {
		return page.Reach{}, nil
	}
	days, err := strconv.Atoi(text)
	reach, known := page.ReachOf(days)
	if err != nil || !known || days == 0 {
		return page.Reach{}, fmt.Errorf("days = %s: want one of those that the page names, as 7",
			printable.Quote(text, 60))
	}
	return reach, nil
}

// drawn is what the history keeps of a round for drawing.
func drawn(report *bridge.Report) ([]byte, error) {
	p := page.PointOf(*report)
	return p.Print()
}
