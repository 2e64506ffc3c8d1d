package directive

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestAReportSaysWhatTheContractSays(t *testing.T) {
	for comment, want := range map[string]Progress{
		"synergy-profile=a.json":                                  {},
		"synergy-profile=a.json synergy-progress":                 {},
		"synergy-progress=0@1767268800":                           {0, noon},
		"mine synergy-progress=12345@1767268800,synergy-x":        {12345, noon},
		"synergy-progress=999999999999999@1767268800":             {999999999999999, noon},
		strings.Repeat("x", maxComment) + " synergy-progress=1@1": {},
	} {
		d := Parse(comment)
		if got := d.Progress; d.BadProgress != nil || got.Iterations != want.Iterations || !got.At.Equal(want.At) {
			t.Errorf("%.60q: %+v, %+v; want %+v", comment, got, d.BadProgress, want)
		}
	}
	for _, value := range []string{"", "5", "@5", "5@", "-5@1767268800", "+5@1767268800", "05@1767268800",
		"5@01767268800", "5.5@1767268800",
		"1e9@1767268800", "NaN@1767268800", "5@-1", "5@1767268800.5", "5@99999999999", "9999999999999999@1767268800",
		"5@1767268800@1", "5@\u202e1"} {
		comment := "synergy-profile=res18.json synergy-progress=" + value
		d := Parse(comment)
		if d.BadProgress == nil || d.BadProgress.Word != "synergy-progress="+value || d.Progress != (Progress{}) {
			t.Errorf("%q is taken for a report", value)
		}
		if d.Err() != nil || d.Profile != "res18.json" {
			t.Errorf("%q costs the job its profile: %v", value, d.Err())
		}
	}
	if d := Parse("synergy-profile=a.json synergy-progress synergy-progress=1@1"); d.Err() == nil {
		t.Error("it is taken though it is said twice")
	}
}

func TestAutoIsAProfileAndACurveIsReadApart(t *testing.T) {
	d := Parse("synergy-profile=auto synergy-curve=nonsense synergy-checkpoint")
	if d.Err() != nil || !d.Auto || !d.Teaches || d.Profile != "" || !d.Saves {
		t.Errorf("%+v", d)
	}
	if d := Parse("synergy-profile=auto.json"); d.Err() != nil || d.Auto || d.Teaches || d.Profile != "auto.json" {
		t.Errorf("%+v", d)
	}
	d = Parse("mine synergy-profile=auto,synergy-curve=1:0.58/2:1.13@1767268800")
	if c := d.Curve; d.BadCurve != nil || len(c.Rates) != 2 || c.Rates[1].Cores != 2 || c.Rates[1].Rate != 1.13 ||
		!c.At.Equal(noon) {
		t.Errorf("%+v", d)
	}
	if d := Parse("synergy-profile=auto synergy-curve=1:1@1 synergy-curve=1:1@1"); d.Err() == nil {
		t.Error("a curve that is said twice is taken")
	}
}

// TestTheFirstReportCounts, and reports are heard in a comment that has a control character. In one that is too long
// only what the job is to be watched for is.
func TestTheFirstReportCounts(t *testing.T) {
	curve := Curve{Rates: []learned.Rate{{Cores: 1, Rate: 1}}, At: time.Unix(1, 0)}
	five := Progress{5, time.Unix(1767268800, 0)}
	for comment, want := range map[string]Directives{
		"synergy-progress synergy-progress=5@1767268800 synergy-progress=7@1767268800": {Reports: true, Progress: five},
		"synergy-curve=1:1@1 synergy-curve=2:2@2":                                      {Curve: curve},
		"synergy-progress=5@1767268800\tsynergy-curve=1:1@1,synergy-profile=auto": {Managed: true, Reports: true,
			Teaches: true, Progress: five, Curve: curve},
		"synergy-profile=a.json synergy-profile=auto": {Managed: true, Teaches: true, Profile: "a.json"},
		strings.Repeat("x ", maxComment) + "synergy-progress=5@1767268800 synergy-curve=1:1@1 synergy-profile=auto": {
			Managed: true, Reports: true, Teaches: true},
	} {
		got := Parse(comment)
		got.Mistakes = nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%.90q: %+v, want %+v", comment, got, want)
		}
	}
	if d := Parse("synergy-curve synergy-curve=1:1@1"); d.BadCurve == nil || d.BadCurve.Word != "synergy-curve" {
		t.Errorf("%+v: want the curve that has no value refused", d)
	}
	if d := Parse("synergy-progress=x synergy-progress=5@1"); d.BadProgress == nil || d.Progress != (Progress{}) {
		t.Errorf("%+v: want the first report refused, and none taken", d)
	}
}

// FuzzCurve: what is taken is bounded, ascending and positive, and nothing that is refused reaches a terminal.
func FuzzCurve(f *testing.F) {
	for _, value := range []string{"1:0.58/2:1.13/3:1.56@1767268800", "1:1@1", "", "@", "1:@1",
		"9999:1000000@8589934592", "1:1/1:1@1", "1:1//2:2@1", "1:\u202e@1"} {
		f.Add("synergy-profile=auto synergy-curve=" + value)
	}
	f.Fuzz(func(t *testing.T, comment string) {
		d := Parse(comment)
		c := d.Curve
		if bad := d.BadCurve; bad != nil {
			if len(c.Rates) > 0 || len(bad.Text) > 1024 || strings.ContainsFunc(bad.Text, unicode.IsControl) {
				t.Errorf("%+v, %v", c, bad)
			}
			return
		}
		if len(c.Rates) > maxRates || len(c.Rates) > 0 && (c.At.IsZero() || c.At.Unix() > maxEpoch) {
			t.Errorf("%+v of %q", c, comment)
		}
		for k, r := range c.Rates {
			if !(r.Rate > 0 && r.Rate <= MaxSpeed) || r.Cores < 1 || k > 0 && r.Cores <= c.Rates[k-1].Cores {
				t.Errorf("%+v of %q", c, comment)
			}
		}
	})
}
