package gres_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

func TestEveryFormOfGresThatSlurmPrintsIsRead(t *testing.T) {
	for text, want := range map[string][]gres.Count{
		"":                        nil,
		"(null)":                  nil,
		"N/A":                     nil,
		"gpu":                     {{Name: "gpu", Count: 1}},
		"gpu:8":                   {{Name: "gpu", Count: 8}},
		"gpu:a100":                {{Name: "gpu", Type: "a100", Count: 1}},
		"gpu:3g.20gb":             {{Name: "gpu", Type: "3g.20gb", Count: 1}},
		"gpu:a100:4(S:0-1)":       {{Name: "gpu", Type: "a100", Count: 4, Sockets: "0-1"}},
		"gres/gpu:2":              {{Name: "gpu", Count: 2}},
		"gres/gpu=2":              {{Name: "gpu", Count: 2}},
		"gres/gpu:a100=2":         {{Name: "gpu", Type: "a100", Count: 2}},
		"gres:gpu:1":              {{Name: "gpu", Count: 1}},
		"gpu:0(IDX:N/A)":          {{Name: "gpu"}},
		"gpu:(null):3(IDX:0-2)":   {{Name: "gpu", Count: 3, Index: "0-2"}},
		"gpu:g0:1(IDX:0),shard:0": {{Name: "gpu", Type: "g0", Count: 1, Index: "0"}, {Name: "shard"}},
		"gpu:2(IDX:0,2),gpu:b:1(IDX:5)": {{Name: "gpu", Count: 2, Index: "0,2"},
			{Name: "gpu", Type: "b", Count: 1, Index: "5"}},
		"shard:2(0/4,2/4,0/4,0/4)":       {{Name: "shard", Count: 2}},
		"shard:g1:3(3/4)":                {{Name: "shard", Type: "g1", Count: 3}},
		"bandwidth:lustre:no_consume:4G": {{Name: "bandwidth", Type: "lustre", Count: 4 << 30}},
		"mps:2k,cpu=6":                   {{Name: "mps", Count: 2048}, {Name: "cpu", Count: 6}},
		"gres":                           {{Name: "gres", Count: 1}},
	} {
		got, err := gres.ParseCounts(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestWhatIsNoGresIsRefusedByItsTerm(t *testing.T) {
	for text, part := range map[string]string{
		",":                     `term ""`,
		"gpu:1,":                `term ""`,
		"gpu:":                  `part ""`,
		"gpu::2":                `part ""`,
		":2":                    `part ""`,
		"gpu:a:b:2":             "want name[:type][:count]",
		"gpu:a100:many":         `count "many"`,
		"gpu:a100:-1":           `count "-1"`,
		"gpu:a100:+1":           `count "+1"`,
		"gpu:a100:k":            `count "k"`,
		"gpu:99999999999999999": `count "99999999999999999"`,
		"gpu:2T":                `count "2T"`,
		"gpu:2(IDX:0":           "parenthesis not closed",
		"gpu:2(IDX:0)x":         "parenthesis not closed",
		"gpu:2),shard:1":        `part "2)`,
		"gpu a100:2":            `part "gpu a100"`,
		"license/matlab=1":      `part "license/matlab"`,
		"gpu:\u202e:1":          `part "\u202e"`,
	} {
		got, err := gres.ParseCounts(text)
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, error %v; want an error with %q", text, got, err, part)
		}
	}
}

func TestPrintedCountsReadBackAsTheSame(t *testing.T) {
	word := rapid.StringMatching(`[A-Za-z0-9._+-]{1,12}`)
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) gres.Count {
			return gres.Count{
				Name:  word.Draw(t, "name"),
				Type:  rapid.OneOf(rapid.Just(""), word).Draw(t, "type"),
				Count: rapid.IntRange(0, 1<<40).Draw(t, "count"),
			}
		}), 1, 6).Draw(t, "counts")
		if got, err := gres.ParseCounts(print(counts)); err != nil || !slices.Equal(got, counts) {
			t.Fatalf("%q reads back as %v, %v", print(counts), got, err)
		}
	})
}

func TestGPUsOfTwoTypesHaveNoCommonType(t *testing.T) {
	for text, want := range map[string]struct {
		n       int
		gpuType string
	}{
		"":                          {0, ""},
		"shard:32":                  {0, ""},
		"gpu:8":                     {8, ""},
		"gpu:a100:4,gpu:a100:2":     {6, "a100"},
		"gpu:a100:4,gpu:h100:2":     {6, ""},
		"gpu:a100:4,gpu:2":          {6, ""},
		"gpu:a100:0,gpu:h100:2":     {2, "h100"},
		"shard:g0:4,gpu:h100:2,x:9": {2, "h100"},
	} {
		counts, err := gres.ParseCounts(text)
		if err != nil {
			t.Fatal(err)
		}
		if n, gpuType := gres.GPUs(counts); n != want.n || gpuType != want.gpuType {
			t.Errorf("%q: %d GPUs of type %q, want %d of %q", text, n, gpuType, want.n, want.gpuType)
		}
	}
}

func FuzzParseCounts(f *testing.F) {
	for _, seed := range []string{"gpu:8", "gpu:a100:4(S:0-1)", "gres/gpu:2,shard:1k", "gpu:(null):1(IDX:0,3)",
		"gres:gres", "a=1,b:c=2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		counts, err := gres.ParseCounts(text)
		if err != nil || len(counts) == 0 {
			return
		}
		again, err := gres.ParseCounts(print(counts))
		if err != nil {
			t.Fatalf("%q was read as %v, which does not read back: %v", text, counts, err)
		}
		if print(again) != print(counts) {
			t.Fatalf("%q was read as %v, which reads back as %v", text, counts, again)
		}
	})
}

func print(counts []gres.Count) string {
	terms := make([]string, len(counts))
	for i, c := range counts {
		terms[i] = c.String()
	}
	return strings.Join(terms, ",")
}

func TestARequestIsNarrowedToATypeAndWidenedAgain(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "gres/gpu:2": "gres/gpu:a:2", "gres/gpu": "gres/gpu:a:1", "cpu=4,gres/gpu=1": "cpu=4,gres/gpu:a:1",
		"gres/gpu:a:2": "gres/gpu:a:2", "gres/shard:1": "gres/shard:1",
	} {
		if got, err := gres.Retyped(text, "a"); got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	if got, err := gres.Retyped("gres/gpu:a:2", ""); got != "gres/gpu:2" || err != nil {
		t.Errorf("of any type: %q, %v", got, err)
	}
	if got, err := gres.Retyped("gpu:a:b:c", "a"); err == nil {
		t.Errorf("what is no request is %q", got)
	}
}
