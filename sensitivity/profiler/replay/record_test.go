package replay_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler/replay"
)

const small = `{"gpu": "H100", "models": [
 {"model": "a", "batch": 8, "gpu_bound_samples_per_s": 90, "points": [
  {"cores": 4, "samples_per_s": 80.5, "n": 5}, {"cores": 1, "samples_per_s": 30}]},
 {"model": "b", "points": [{"cores": 1, "samples_per_s": 10}, {"cores": 2, "samples_per_s": 9}]}]}`

func TestARecordReadsInAnyOrderOfPointsAndWhateverElseItSays(t *testing.T) {
	got, err := replay.Parse([]byte(small))
	want := []replay.Model{
		{Name: "a", Bound: 90, Points: []replay.Point{{Cores: 1, Rate: 30}, {Cores: 4, Rate: 80.5}}},
		{Name: "b", Points: []replay.Point{{Cores: 1, Rate: 10}, {Cores: 2, Rate: 9}}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// slips change the small record in one place each, and name what the error must say.
var slips = []struct{ old, new, want string }{
	{small, ``, `the record = "": want an object`},
	{small, `[]`, `the record = []: want an object`},
	{small, `{}`, `models is missing`},
	{small, `{"models": {}}`, `models = {}: want a list`},
	{small, `{"models": []}`, `models has 0 entries: want 1 to 1000`},
	{small, `{"models": [7]}`, `models[0] = 7: want an object`},
	{small, `{"models": [{"model": "a", "points": []}]}`, `models[0].points has 0 entries: want 2 to 1024`},
	{small, strings.Repeat(`{"a":`, 40), `the record is nested more than 32 deep`},
	{small, strings.Repeat(" ", replay.MaxBytes+1), `want at most 4194304`},
	{`9}]}]}`, `9}]}]}]`, `the record is no JSON: line 4, at ]: invalid character ']' after top-level value`},
	{`9}]}]}`, `9}]}]`, `the record is no JSON: line 4, at ]: unexpected end of JSON input`},
	{`H100`, "\xff", `the record is not UTF-8`},
	{`"models"`, `"model"`, `models is missing`},
	{`"gpu"`, `"models"`, `models is there twice: want it once`},
	{`"model": "a"`, `"name": "a"`, `models[0].model is missing`},
	{`"model": "a"`, `"model": 7`, `models[0].model = 7: want a name`},
	{`"model": "a"`, `"model": "  "`, `models[0].model = "  ": want a name`},
	{`"model": "a"`, "\"model\": \"\\u001b[2J\"", `models[0].model = "\u001b[2J": want a name`},
	{`"model": "a"`, `"model": "b"`, `models[1].model = b: is the name of models[0], too`},
	{`"points"`, `"point"`, `models[0].points is missing`},
	{`"cores": 4, `, ``, `models[0].points[0].cores is missing`},
	{`"cores": 4`, `"cores": "4"`, `models[0].points[0].cores = "4": want a number`},
	{`"cores": 4`, `"cores": 4.5`, `models[0].points[0].cores = 4.5: want a whole number from 1 to 4096`},
	{`"cores": 4`, `"cores": 0`, `models[0].points[0].cores = 0: want a whole number`},
	{`"cores": 4`, `"cores": 1e9`, `models[0].points[0].cores = 1e9: want a whole number`},
	{`"cores": 4`, `"cores": 1`, `models[0].points[1].cores = 1: is there twice`},
	{`"cores": 4`, `"cores": 4, "cores": 5`, `models[0].points[0].cores is there twice`},
	{`80.5`, `0`, `models[0].points[0].samples_per_s = 0: want samples a second`},
	{`80.5`, `-3`, `models[0].points[0].samples_per_s = -3: want samples a second`},
	{`80.5`, `1e300`, `models[0].points[0].samples_per_s = 1e300: want samples a second`},
	{`80.5`, `1e999`, `models[0].points[0].samples_per_s = 1e999: want a number`},
	{`80.5`, `null`, `models[0].points[0].samples_per_s = null: want a number`},
	{`80.5`, `NaN`,
		`the record is no JSON: line 3, at NaN, "n": 5}, {"cores": 1, "samples_per_…: invalid character 'N'`},
	{`_per_s": 90`, `_per_s": -90`, `models[0].gpu_bound_samples_per_s = -90: want samples a second`},
	{`_per_s": 90`, `_per_s": "90"`, `models[0].gpu_bound_samples_per_s = "90": want a number`},
}

func TestABrokenRecordIsRefusedWithFieldAndValue(t *testing.T) {
	for _, c := range slips {
		got, err := replay.Parse([]byte(strings.Replace(small, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%.40q for %.40q: %v, error %v;\nwant an error with %q", c.new, c.old, got, err, c.want)
		}
	}
}

// Without the fall the two ends would be enough.
func TestWhereRecordedPointsFallThereIsMoreToLookAt(t *testing.T) {
	m := replay.Model{Name: "flat", Points: []replay.Point{{Cores: 1, Rate: 100}, {Cores: 2, Rate: 99},
		{Cores: 4, Rate: 101}, {Cores: 16, Rate: 95}}}
	if o := replay.Of(m); len(o.Trials) != 4 {
		t.Errorf("%d trials, want all 4 points: %+v", len(o.Trials), o)
	}
	m.Points[3].Rate = 100
	if o := replay.Of(m); len(o.Trials) != 2 {
		t.Errorf("%d trials, want the 2 ends: %+v", len(o.Trials), o)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add(
		[]byte(
			`{"models": [{"model": "x", "points": [{"cores": 1, "samples_per_s": 1e-6}, {"cores": 4096, "samples_per_s": 1e9}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		models, err := replay.Parse(text)
		if err != nil {
			return
		}
		for _, m := range models {
			o := replay.Of(m)
			if len(o.Errors) != len(m.Points) || len(o.Trials) < 1 || len(o.Trials) > 5 || o.Stop == "" {
				t.Fatalf("%+v: %+v", m, o)
			}
			for _, e := range o.Errors {
				if math.IsNaN(e) || math.IsInf(e, 0) || e < 0 {
					t.Fatalf("%+v: errors %v", m, o.Errors)
				}
			}
		}
	})
}
