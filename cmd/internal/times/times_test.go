package times

import (
	"math/rand"
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

func TestATimeThatIsNotUnderstoodIsNamedWithTheFormThatIsWanted(t *testing.T) {
	for text, want := range map[string]string{
		"300":  `"300" has no unit: want 300s for seconds, 300m for minutes or 300h for hours`,
		"+1.5": `"+1.5" has no unit: want 1.5s for seconds`,
		"":     `"" is no time: want a number with a unit, as 90s, 15m, 2h or 30d`,
		"soon": `"soon" is no time: want`, "h": "is no time", "d": "is no time", "5m30": "is no time",
		"1e3s": "is no time", "5 min": "is no time", "5days": "is no time", "1-00:00:00": "is no time",
		"1:30:00": "is no time", "1y": "is no time", "30D": "is no time", "15m;": "is no time",
		"99999999999w": "is no time", strings.Repeat("9", 400) + "d": "is no time",
	} {
		d, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v, want %q", text, d, err, want)
		}
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
	if err := set.Parse([]string{"--keep", "5 min"}); err == nil || !strings.Contains(err.Error(), `"5 min" is no time`) {
		t.Error(err)
	}
}
