package times

import (
	"math/rand"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestATimeIsANumberWithItsUnitAndMayHaveDaysAndWeeks(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "15m": 15 * time.Minute, "1h30m": 90 * time.Minute, "30d": 30 * Day, "1w": 7 * Day,
		"1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, "0.5h": 30 * time.Minute, "0": 0, "0s": 0,
		"-5m":   -5 * time.Minute,
		"250ms": 250 * time.Millisecond, "2w3d": 17 * Day, ".5m": 30 * time.Second, "100us": 100 * time.Microsecond,
	} {
		if d, err := Parse(text); d != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", text, d, err, want)
		}
	}
}

func TestWhatGoReadsIsReadAlike(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 2000 {
		d := time.Duration(r.Int63n(int64(1000*time.Hour))) / 1000 * 1000
		if got, err := Parse(d.String()); err != nil || (got-d).Abs() > time.Microsecond {
			t.Fatalf("%s: %s, %v", d, got, err)
		}
		d = d.Round(time.Second)
		if got, err := Parse(Text(d)); got != d || err != nil {
			t.Fatalf("%s is written %s, and read as %s, %v", d, Text(d), got, err)
		}
	}
}

// TestATimeThatIsNotUnderstoodIsAnsweredWithHowItIsWritten: what stands behind the last "want" is right.
func TestATimeThatIsNotUnderstoodIsAnsweredWithHowItIsWritten(t *testing.T) {
	for text, want := range map[string]string{
		"5 min": "want 5m", "5min": "want 5m", "5 minutes": "want 5m", "90 sec": "want 90s", "2 hours": "want 2h",
		"1h 30m": "want 1h30m", "1 hour and 30 min": "want 1h30m", "1 day": "want 1d", "2 weeks": "want 2w",
		"5M": "want 5m", "30D": "want 30d", "1,5h": "want 1.5h", "“15m”": "want 15m", "15m\u00a0": "want 15m",
		" 15m": "want 15m", "15m;": "want 15m",
		"300": "want 300s for seconds, 300m for minutes or 300h for hours", " 15 ": "want 15s for seconds",
		"1:30:00": "want 1h30m", "30:00": "want 30m", "1-00:00:00": "want 24h", "2-12": "want 2d12h",
		"7-00:00:00": "want 7d", "1-12:30": "want 36h30m",
		"1y": "want days, as 365d", "3mo": "want days, as 365d", "2 years": "want days, as 365d",
		"": "want a number with a unit", "soon": "want a number with a unit", "infinite": "want a number with a unit",
		"h": "want a number with a unit", "5m30": "want a number with a unit", "1e3s": "want a number with a unit",
		"99999999999w": "longer than 292 years",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestEveryTimeThatIsProposedIsOne: of numbers with all units that people write, in all ways to put them together.
func TestEveryTimeThatIsProposedIsOne(t *testing.T) {
	r, proposed := rand.New(rand.NewSource(2)), regexp.MustCompile(`want ([0-9][^ ,]*)`)
	names := []string{"s", "S", "m", "M", "h", "d", "w", "", ":"}
	for w := range words {
		names = append(names, w, strings.ToUpper(w))
	}
	told := 0
	for range 5000 {
		var text string
		for range 1 + r.Intn(2) {
			text += []string{"1", "30", "1.5", "007", "90"}[r.Intn(5)] + []string{"", " ", "  "}[r.Intn(3)] +
				names[r.Intn(len(names))] + []string{"", " ", "-"}[r.Intn(3)]
		}
		_, err := Parse(text)
		if err == nil {
			continue
		}
		if found := proposed.FindStringSubmatch(err.Error()); found != nil {
			told++
			if _, err := Parse(found[1]); err != nil {
				t.Errorf("for %q %s is proposed: %v", text, found[1], err)
			}
		}
	}
	if told < 1000 {
		t.Errorf("%d of 5000 have been proposed a better one", told)
	}
}

func TestAFlagTakesDaysAndShowsItsDefaultShort(t *testing.T) {
	var d, none time.Duration
	set := pflag.NewFlagSet("x", pflag.ContinueOnError)
	Var(set, &d, "keep", 5*time.Minute, "a time")
	Var(set, &none, "none", 0, "a time")
	if usage := set.FlagUsages(); !strings.Contains(usage, "--keep duration   a time (default 5m)") ||
		strings.Contains(usage, "default 0") {
		t.Error(usage)
	}
	if err := set.Parse([]string{"--keep", "30d"}); err != nil || d != 30*Day {
		t.Errorf("%s, %v", d, err)
	}
	if err := set.Parse([]string{"--keep", "5 min"}); err == nil || !strings.Contains(err.Error(), "want 5m") {
		t.Error(err)
	}
}
