package share

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestARequestSaysItsClassFirst(t *testing.T) {
	for _, row := range []struct {
		value string
		want  Request
		wrong string // part of the error; empty: none
	}{
		{"high", Request{Class: High}, ""},
		{"low", Request{Class: Low}, ""},
		{"low,mem=6", Request{Low, 6144, 0}, ""},
		{"high,slo=50,mem=0.5", Request{High, 512, 50 * time.Millisecond}, ""},
		{"low,mem=0.001", Request{Low, 1, 0}, ""},
		{"low,mem=1024", Request{Low, 1 << 20, 0}, ""},
		{"high,slo=600000", Request{High, 0, 10 * time.Minute}, ""},

		{"", Request{}, "want high or low first"},
		{"HIGH", Request{}, "want high or low first"},
		{"mem=6,low", Request{}, "want high or low first"},
		{"low,", Request{}, "want mem= or slo="},
		{"low,level=L1", Request{}, "want mem= or slo="},
		{"low,mem", Request{}, "want GiB"},
		{"low,mem=0", Request{}, "want GiB"},
		{"low,mem=-6", Request{}, "want GiB"},
		{"low,mem=1025", Request{}, "want GiB"},
		{"low,mem=1e3", Request{}, "want GiB"},
		{"low,mem=6,mem=7", Request{}, "said twice"},
		{"high,slo=0", Request{}, "want whole milliseconds"},
		{"high,slo=600001", Request{}, "want whole milliseconds"},
		{"high,slo=1.5", Request{}, "want whole milliseconds"},
	} {
		got, err := ParseRequest(row.value)
		if got != row.want {
			t.Errorf("%q is %+v, want %+v", row.value, got, row.want)
		}
		if (err == nil) != (row.wrong == "") || err != nil && !strings.Contains(err.Error(), row.wrong) {
			t.Errorf("%q: %v, want %q", row.value, err, row.wrong)
		}
	}
}

func TestAStampWithOneFieldWrongIsNotBelieved(t *testing.T) {
	good := Stamp{StampVersion, 17, MostUID, 0, Low, 6144, 50}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*Stamp){
		"v":              func(s *Stamp) { s.V++ },
		"job":            func(s *Stamp) { s.Job = 0 },
		"uid":            func(s *Stamp) { s.UID = -1 },
		"uid = 42949672": func(s *Stamp) { s.UID = MostUID + 1 },
		"gpu":            func(s *Stamp) { s.GPU = -1 },
		"class":          func(s *Stamp) { s.Class = "urgent" },
		"gpu_memory_mib": func(s *Stamp) { s.Memory = 0 },
		"slo_ms":         func(s *Stamp) { s.SLO = -1 },
	} {
		s := good
		spoil(&s)
		if err := s.Check(); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%s spoilt: %v", field, err)
		}
	}
}

// FuzzParseRequest: what is read is within the bounds, and what is refused is said in one short line.
func FuzzParseRequest(f *testing.F) {
	for _, value := range []string{"high", "low,mem=6,slo=50", "low,mem=0.001", "low,mem=\x00", "high,,",
		"low,mem=1e300"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		r, err := ParseRequest(value)
		if err != nil {
			text := err.Error()
			if len(text) > 600 || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\x1b\x00") {
				t.Errorf("%q: %q", value, text)
			}
			return
		}
		if r.Class != High && r.Class != Low || r.Memory < 0 || r.Memory > mostMemory<<10 || r.SLO < 0 ||
			r.SLO > mostSLO {
			t.Errorf("%q is %+v", value, r)
		}
	})
}
