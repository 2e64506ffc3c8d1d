package slurmrest

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestSlurmsTimeIsItsOwnWhateverOurClockSays(t *testing.T) {
	for _, ahead := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour} {
		fake := startFake(t)
		fake.answers("GET", "/diag/", func(w http.ResponseWriter, _ *http.Request) {
			say(w, 200, fmt.Sprintf(`{"statistics":{"req_time":{"set":true,"infinite":false,"number":%d}}}`,
				time.Now().Add(ahead).Unix()))
		})
		client := fake.open(t, Options{})
		seen, err := client.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if off := seen.At.Sub(time.Now().Add(ahead)); off.Abs() > 5*time.Second {
			t.Errorf("a Slurm whose clock is ahead by %s is observed at %s, off by %s", ahead, seen.At, off)
		}
	}
}

func TestASlurmThatDoesNotSayItsTimeIsTakenToHaveOurs(t *testing.T) {
	for _, body := range []string{`{}`, `{"statistics":{"req_time":{"set":false}}}`,
		`{"statistics":{"req_time":"noon"}}`, `{"statistics":{"req_time":5}}`} {
		fake := startFake(t)
		fake.answers("GET", "/diag/", text(200, body))
		seen, err := fake.open(t, Options{}).Observe(t.Context())
		if err != nil || time.Since(seen.At).Abs() > 5*time.Second {
			t.Errorf("%s: observed at %s: %v", body, seen.At, err)
		}
	}
}

func TestWhatIsKnownOfSlurmsClockIsFinerThanItsSeconds(t *testing.T) {
	c := newTimepiece()
	second := c.began.Add(time.Hour).Truncate(time.Second)
	c.take(second, time.Second, time.Second)
	first := c.ahead
	for k := range 20 {
		passed := time.Second + time.Duration(k)*700*time.Millisecond
		c.take(c.began.Round(0).Add(passed+first).Truncate(time.Second), passed, passed)
	}
	if c.ahead != first {
		t.Errorf("%s ahead, then %s, of a clock that goes evenly", first, c.ahead)
	}
}
