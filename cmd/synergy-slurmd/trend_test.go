package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/page"
)

// ofDays books a round every six hours over so many days up to now, and says where.
func ofDays(t *testing.T, h *historian, days int, now time.Time) string {
	t.Helper()
	dir := t.TempDir()
	round := 0
	for at := now.AddDate(0, 0, -days); !at.After(now); at = at.Add(6 * time.Hour) {
		round++
		r := historic(round)
		r.Began, r.Snapshot.Now = at, at
		h.book(noted{memoir{Path: dir, Keep: 400 * day, MostGiB: 1}, r})
	}
	return dir
}

func TestWeeksAreDrawnFromTheHistoryAndADayThatIsOverIsReadOnce(t *testing.T) {
	h, text, stop := remembering(t)
	defer stop()
	now := time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour)
	dir := ofDays(t, h, 20, now)
	trend := newTrend()
	week, _ := page.ReachOf(7)
	month, _ := page.ReachOf(30)
	points, gaps, err := trend.points(t.Context(), h, week, now)
	if err != nil || gaps != nil || len(points) != 29 || points[0].GPUs.Share != 1 || points[28].Round != 81 {
		t.Fatalf("%v, %v: %d points: %+v", gaps, err, len(points), points)
	}
	if len(trend.known) != 7 { // and today is not over
		t.Errorf("%d days are remembered", len(trend.known))
	}
	// What was read once is not looked at again.
	if err := os.Truncate(filepath.Join(dir, now.AddDate(0, 0, -3).Format(time.DateOnly)+".history"), 100); err != nil {
		t.Fatal(err)
	}
	if points, gaps, err = trend.points(t.Context(), h, week, now); err != nil || gaps != nil || len(points) != 29 {
		t.Errorf("again: %v, %v: %d points", gaps, err, len(points))
	}
	// One that is damaged before it was read is a gap, and the others are drawn.
	damaged := now.AddDate(0, 0, -10).Format(time.DateOnly)
	if err := os.Truncate(filepath.Join(dir, damaged+".history"), 100); err != nil {
		t.Fatal(err)
	}
	points, gaps, err = trend.points(t.Context(), h, month, now)
	if err != nil || len(gaps) != 1 || !strings.Contains(gaps[0], damaged) || len(points) != 77 {
		t.Errorf("a damaged day: %v, %v: %d points", gaps, err, len(points))
	}
	if text.Len() > 0 && strings.Contains(text.String(), `"level":"error"`) {
		t.Error(text)
	}
}

// TestADayOfRoundsOfSecondsIsHeldAsItsMeans: the mean is that of all its rounds, in however many pieces it is made.
func TestADayOfRoundsOfSecondsIsHeldAsItsMeans(t *testing.T) {
	h, _, stop := remembering(t)
	defer stop()
	now := time.Now().UTC()
	dir := t.TempDir()
	where := memoir{Path: dir, Keep: 400 * day, MostGiB: 1}
	begin := now.Add(-time.Minute).Truncate(10 * time.Minute)
	const rounds = mostPoints/2 + 7
	for n := range 2 * rounds {
		r := historic(n + 1)
		r.Began = begin.Add(time.Duration(n) * time.Millisecond)
		h.book(noted{where, r})
	}
	fine, _ := page.ReachOf(1)
	points, _, err := newTrend().points(t.Context(), h, fine, now)
	if err != nil || len(points) != 1 || points[0].Rounds != 2*rounds || points[0].GPUs.Share != 1 {
		t.Errorf("%v: %d points: %+v", err, len(points), points)
	}
}

func TestWhoeverWaitsTooLongForTheHistoryIsToldSoAndBlocksNobody(t *testing.T) {
	h, _, stop := remembering(t)
	defer stop()
	now := time.Now()
	ofDays(t, h, 3, now)
	trend := newTrend()
	week, _ := page.ReachOf(7)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if points, gaps, err := trend.points(gone, h, week, now); err != nil || len(gaps) != 1 || len(points) > 0 {
		t.Errorf("%v, %v, %v", points, gaps, err)
	}
	trend.turn <- struct{}{} // somebody reads
	brief, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if points, gaps, err := trend.points(brief, h, week, now); err != nil || len(gaps) != 1 || len(points) > 0 {
		t.Errorf("%v, %v, %v", points, gaps, err)
	}
}

func TestThePageOfRoundsLooksBackAsFarAsItIsAsked(t *testing.T) {
	h, _, stop := remembering(t)
	defer stop()
	ofDays(t, h, 2, time.Now())
	all := pages(newHealth(fiveMinutes, time.Now()), testMetrics().registry, remembered{&ledger.Memory{}, h})
	none := pages(newHealth(fiveMinutes, time.Now()), testMetrics().registry, &ledger.Memory{})
	for path, want := range map[string]string{
		"/rounds":          `href="/rounds?days=365"`,
		"/rounds?days=1":   "the mean of each 10 minutes",
		"/rounds?days=7":   "9 rounds since",
		"/rounds?days=365": "the mean of each 2 days",
		"/rounds?days=8":   "want one of those that the page names",
		"/rounds?days=0":   "want one of those that the page names",
		"/rounds?days=x":   "want one of those that the page names",
	} {
		if text := browse(all, path).Body.String(); !strings.Contains(text, want) {
			t.Errorf("%s has no %q: %s", path, want, text)
		}
	}
	if text := browse(none, "/rounds?days=7").Body.String(); !strings.Contains(text, "history.path") ||
		!strings.Contains(text, "No round of that time is kept") {
		t.Error(text)
	}
}
