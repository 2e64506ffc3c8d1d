package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bookOf is a ledger of savings with one line of the moment before.
func bookOf(t *testing.T, now time.Time) string {
	t.Helper()
	folder := t.TempDir()
	line := `{"at":"` + now.Add(-time.Second).UTC().Format(time.RFC3339) + `","seconds":3600,"there":28800,` +
		`"held":28800,"known":28800,"asked":28800,"with":57600,"saved":14400}` + "\n"
	file := filepath.Join(folder, now.Add(-time.Second).UTC().Format(time.DateOnly)+".jsonl")
	if err := os.WriteFile(file, []byte(line), 0o644); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestWhatWasSavedIsReadOnceAMinuteAndByOneAtATime: a program that asks every second reads no week of lines each time,
// and waits for nobody who does.
func TestWhatWasSavedIsReadOnceAMinuteAndByOneAtATime(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	folder := bookOf(t, now)
	var l savingsCache
	first := l.sentence(folder, false, now)
	if !strings.Contains(first, "In the 8.0 GPU-hours") {
		t.Fatal(first)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if again := l.sentence(folder, false, now.Add(59*time.Second)); again != first {
		t.Errorf("within a minute: %s", again)
	}
	l.reading.Lock()
	if meanwhile := l.sentence(folder, false, now.Add(2*time.Minute)); meanwhile != first {
		t.Errorf("while somebody reads: %s", meanwhile)
	}
	if other := l.sentence(folder, true, now.Add(2*time.Minute)); other != "" {
		t.Errorf("of another mode: %s", other)
	}
	l.reading.Unlock()
	if later := l.sentence(folder, false, now.Add(2*time.Minute)); later != "" {
		t.Errorf("after two minutes: %s", later)
	}
}
