//go:build live

package live

import (
	"testing"
	"time"
)

// TestRoundsGoOnAfterWhatBreaks is a part of make test-faults that is short enough for every day.
func TestRoundsGoOnAfterWhatBreaks(t *testing.T) {
	s := setStage(t, "30s")
	s.slurmrestd(AtRandom, unheard(Fault{lasts: 12 * time.Second}))
	s.slurmctld("restarts", 0, []string{"restart", "--time=5"}, nil)
	s.token("expired", "1007", "echo '"+s.c.expired()+"' > \"$1\"")
	s.nodeKilled()
	s.done()
}
