package broker

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// TestNobodysReportWaitsForOneThatFails, and nobody is reported twice, though who keeps his turns goes on so.
func TestNobodysReportWaitsForOneThatFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	tries := map[int]int{}
	report := func(_ context.Context, job, uid int, _ share.Offence) error {
		if uid != 1001 && uid != 1002 {
			t.Errorf("reported of user %d", uid)
		}
		mu.Lock()
		defer mu.Unlock()
		tries[job]++
		return map[int]error{1: errors.New("slurmctld is away"), 2: ErrNotReported}[job]
	}
	dir := t.TempDir()
	b := New(Config{RunDir: dir, Report: report, Log: slog.New(slog.DiscardHandler)})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.keepReporting(ctx)
	}()
	for range 3 {
		for job := 1; job <= 3; job++ {
			b.queueOffence(job, 1001, 0)
		}
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		mu.Lock()
		now := [3]int{tries[1], tries[2], tries[3]}
		mu.Unlock()
		if now[0] >= 2 {
			if now[1] != 1 || now[2] != 1 {
				t.Errorf("tried %v times, want the first again, and the others once", now)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("tried %v times, want the first again", now)
		}
	}
	mu.Lock()
	before := tries[3]
	mu.Unlock()
	b.offences <- offence{V: 1, Job: 3, UID: 1001 + 1} // another's job has the number
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		mu.Lock()
		now := tries[3]
		mu.Unlock()
		if now > before {
			break
		}
		if time.Now().After(end) {
			t.Fatal("of another user's job with that number nothing is reported")
		}
	}
	cancel()
	<-ended
	if text, err := os.ReadFile(filepath.Join(dir, "offences")); err != nil || strings.Count(string(text), "\n") != 10 {
		t.Errorf("written down are %s, %v, want all ten", text, err)
	}
}
