package sensitivity_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

const small = `{
  "version": 1,
  "model": "tiny",
  "task": "image",
  "gpu_type": "V100",
  "batch": 8,
  "source": "measured by hand",
  "cores_per_gpu": [0.5, 2, 4],
  "memory_per_gpu_mib": [1000, 4000],
  "throughput_samples_per_s": [
    [10, 20],
    [10, 35.5],
    [10, 60]
  ],
  "checkpoint_s": 1.5,
  "start_s": 0
}
`

func TestAProfileReadsAsItIsWritten(t *testing.T) {
	got, err := sensitivity.Parse([]byte(small))
	want := &sensitivity.Profile{
		Version: 1, Model: "tiny", Task: "image", GPUType: "V100", Batch: 8, Source: "measured by hand",
		CoresPerGPU: []float64{.5, 2, 4}, MemoryPerGPU: []gres.Memory{1000, 4000},
		Throughput:        [][]float64{{10, 20}, {10, 35.5}, {10, 60}},
		CheckpointSeconds: 1.5,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	if text, err := got.Print(); err != nil || string(text) != small {
		t.Errorf("printed as\n%s%v", text, err)
	}
}

// slips change the small profile in one place each, and name what the error must say.
var slips = []struct{ old, new, want string }{
	{small, "", "does not start as a JSON object"},
	{small, "[]", "does not start as a JSON object"},
	{small, "null", "does not start as a JSON object"},
	{small, "{", "reading the end of the object: EOF"},
	{small, "{}", "version is missing; model is missing; task is missing; gpu_type is missing; batch is missing; " +
		"cores_per_gpu is missing; memory_per_gpu_mib is missing; throughput_samples_per_s is missing"},
	{"\n}\n", "\n}\n{}", "document goes on after its object"},
	{"\n}\n", "\n}]", "document goes on after its object"},
	{"tiny", "\xff", "document is not UTF-8"},
	{"measured", strings.Repeat("x", sensitivity.MaxBytes), "want at most 1048576"},

	{`"task"`, `"tsak"`, "field tsak is unknown: want version, model, task,"},
	{`"task"`, `"Task"`, "field Task is unknown"},
	{`"task"`, `""`, `field "" is unknown`},
	{`"task"`, "\"\\u001b[2J\"", `field "\x1b[2J" is unknown`},
	{`"start_s": 0`, `"batch": 8`, "field batch is there twice"},
	{`  "start_s": 0`, `  "start_s": `, "reading start_s: invalid character"},
	{`"version": 1,`, ``, "version is missing"},

	{`"version": 1`, `"version": 3`, "version = 3: want 1 or 2"},
	{`"version": 1`, `"version": "1"`, `version = "1": want 1 or 2`},
	{`"version": 1`, `"version": null`, "version = null: want 1 or 2"},
	{`"start_s": 0`, `"gpu_busy": 0.5`, `gpu_busy is a field of version 2: want "version": 2, or the field left out`},
	{`"start_s": 0`, `"gpu_memory_mib": 5`, `gpu_memory_mib is a field of version 2: want "version": 2`},
	{`"batch": 8`, `"batch": 0`, "batch = 0: want a whole number from 1 to 16777216"},
	{`"batch": 8`, `"batch": 1.5`, "batch = 1.5: want a whole number"},
	{`"batch": 8`, `"batch": 99999999999999999999`, "batch = 99999999999999999999: want a whole number"},

	{`"tiny"`, `""`, `model = "": want a name in quotes`},
	{`"tiny"`, `"  "`, `want a name in quotes`},
	{`"tiny"`, `7`, "model = 7: want text in quotes"},
	{`"tiny"`, `null`, "model = null: want a name in quotes"},
	{`"image"`, `"im\nage"`, `task = "im\nage": want printable characters only`},
	{`"V100"`, `"V\u202e100"`, `gpu_type = "V\u202e100": want printable characters only`},
	{`"V100"`, `"` + strings.Repeat("V", 129) + `"`, "want at most 128 bytes, not 129"},
	{`"measured by hand"`, `["no"]`, `source = ["no"]: want text in quotes`},
	{`measured by hand`, strings.Repeat("é", 600), "want at most 1024 bytes, not 1200"},

	{`[0.5, 2, 4]`, `[]`, "cores_per_gpu has 0 entries: want 1 to 256"},
	{`[0.5, 2, 4]`, `7`, "cores_per_gpu = 7: want a list"},
	{`[0.5, 2, 4]`, `null`, "cores_per_gpu = null: want a list"},
	{`[0.5, 2, 4]`, `[0.5, "2", 4]`, `cores_per_gpu[1] = "2": want a number`},
	{`[0.5, 2, 4]`, `[0.5, null, 4]`, `cores_per_gpu[1] = null: want a number`},
	{`[0.5, 2, 4]`, `[0, 2, 4]`, "cores_per_gpu[0] = 0: want a number from 0.01 to 4096"},
	{`[0.5, 2, 4]`, `[0.5, 2, 4097]`, "cores_per_gpu[2] = 4097: want a number from 0.01 to 4096"},
	{`[0.5, 2, 4]`, `[0.5, 2, 2]`, "cores_per_gpu[2] = 2: want more than the 2 before it"},
	{`[0.5, 2, 4]`, `[0.5, 4]`, "throughput_samples_per_s has 3 rows: want 2, one for each of cores_per_gpu"},
	{`[0.5, 2, 4]`, `[` + count(257) + `]`, "cores_per_gpu has 257 entries: want 1 to 256"},
	{`[1000, 4000]`, `[` + count(65) + `]`, "memory_per_gpu_mib has 65 entries: want 1 to 64"},
	{`[1000, 4000]`, `[1000, 1000]`, "memory_per_gpu_mib[1] = 1000: want more than the 1000 before it"},
	{`[1000, 4000]`, `[4000, 1000]`, "memory_per_gpu_mib[1] = 1000: want more than the 4000 before it"},
	{`[1000, 4000]`, `[1000, 4000.5]`, "memory_per_gpu_mib[1] = 4000.5: want a whole number of MiB from 1 to 67108864"},
	{`[1000, 4000]`, `[0, 4000]`, "memory_per_gpu_mib[0] = 0: want a whole number"},
	{`[1000, 4000]`, `[1000, 67108865]`, "memory_per_gpu_mib[1] = 6.7108865e+07: want a whole number"},
	{`[1000, 4000]`, `[1000]`, "throughput_samples_per_s[0] has 2 numbers: want 1, one for each of memory_per_gpu_mib"},

	{`[10, 60]`, `[10, -4]`, "throughput_samples_per_s[2][1] = -4: want a number greater than 0"},
	{`[10, 60]`, `[10, 0]`, "throughput_samples_per_s[2][1] = 0: want a number greater than 0"},
	{`[10, 60]`, `[10, 1e308]`, "throughput_samples_per_s[2][1] = 1e+308: want a number from 1e-06 to 1e+09"},
	{`[10, 60]`, `[10, 1e999]`, "throughput_samples_per_s[2][1] = 1e999: want a number"},
	{`[10, 20]`, `[1e-300, 20]`, "throughput_samples_per_s[0][0] = 1e-300: want a number from 1e-06 to 1e+09"},
	{`[10, 60]`, `[10, NaN]`, "reading throughput_samples_per_s: invalid character 'N'"},
	{`[10, 60]`, `[10, [60]]`, `throughput_samples_per_s[2][1] = [60]: want a number`},
	{`[10, 60]`, `60`, "throughput_samples_per_s[2] = 60: want a list"},
	{`[10, 60]`, `[10]`, "throughput_samples_per_s[2] has 1 numbers: want 2"},
	{`[10, 60]`, `[10, 30]`, "throughput_samples_per_s[2][1] = 30: want no less than the 35.5 with fewer cores"},
	{`[10, 60]`, `[70, 60]`, "throughput_samples_per_s[2][1] = 60: want no less than the 70 with less memory"},

	{`"checkpoint_s": 1.5`, `"checkpoint_s": -1`, "checkpoint_s = -1: want seconds from 0 to 86400"},
	{`"start_s": 0`, `"start_s": 86401`, "start_s = 86401: want seconds from 0 to 86400"},
	{`"start_s": 0`, `"start_s": "0"`, `start_s = "0": want a number`},
}

// ofTheGPU is small with what the second version adds.
var ofTheGPU = strings.NewReplacer(`"version": 1`, `"version": 2`, `"start_s": 0`, `"start_s": 0,
  "gpu_busy": 0.55,
  "gpu_memory_mib": 3468`).Replace(small)

func TestAProfileSaysWhatItsModelNeedsOfTheGPU(t *testing.T) {
	p, err := sensitivity.Parse([]byte(ofTheGPU))
	if err != nil || p.Version != 2 || p.GPUBusy != .55 || p.GPUMemory != 3468 {
		t.Fatalf("%+v, %v", p, err)
	}
	if text, err := p.Print(); err != nil || string(text) != ofTheGPU {
		t.Errorf("printed as\n%s%v", text, err)
	}
}

func TestAProfileIsWrittenInTheFirstVersionThatHasAllOfIt(t *testing.T) {
	p, err := sensitivity.Parse([]byte(strings.Replace(small, `"version": 1`, `"version": 2`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := p.Print(); err != nil || string(text) != small {
		t.Errorf("what is known of no GPU was printed as\n%s%v", text, err)
	}
	p.GPUMemory = 7
	text, err := p.Print()
	again, wrong := sensitivity.Parse(text)
	if err != nil || wrong != nil || again.Version != 2 || again.GPUMemory != 7 {
		t.Errorf("read again: %+v, %v, %v\n%s", again, err, wrong, text)
	}
}

func TestWhatAProfileSaysOfTheGPUIsBounded(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"0.55", "0", "gpu_busy = 0: want a number from 1e-06 to 1, or the field left out"},
		{"0.55", "-0.1", "gpu_busy = -0.1: want a number from"},
		{"0.55", "1.01", "gpu_busy = 1.01: want a number from"},
		{"0.55", `"0.5"`, `gpu_busy = "0.5": want a number`},
		{"0.55", "1e999", "gpu_busy = 1e999: want a number"},
		{"3468", "0", "gpu_memory_mib = 0: want a whole number from 1 to 1048576"},
		{"3468", "-5", "gpu_memory_mib = -5: want a whole number"},
		{"3468", "1048577", "gpu_memory_mib = 1048577: want a whole number"},
		{"3468", "3468.5", "gpu_memory_mib = 3468.5: want a whole number"},
		{"3468", "null", "gpu_memory_mib = null: want a whole number"},
	} {
		p, err := sensitivity.Parse([]byte(strings.Replace(ofTheGPU, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: %v, error %v;\nwant an error with %q", c.new, c.old, p, err, c.want)
		}
	}
}

func TestAWrongProfileIsRefusedWithFieldValueAndRemedy(t *testing.T) {
	for _, c := range slips {
		got, err := sensitivity.Parse([]byte(strings.Replace(small, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q for %.40q: %v, error %v;\nwant an error with %q", c.new, c.old, got, err, c.want)
		}
	}
}

func TestWhatFollowsFromAnotherProblemIsNotReported(t *testing.T) {
	_, err := sensitivity.Parse([]byte(strings.Replace(small, "[0.5, 2, 4]", `[0.5, "2", 4]`, 1)))
	if want := `cores_per_gpu[1] = "2": want a number`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestAProfileMayComeWithoutASource(t *testing.T) {
	p, err := sensitivity.Parse([]byte(strings.Replace(small, `  "source": "measured by hand",`+"\n", "", 1)))
	if err != nil || p.Source != "" {
		t.Fatalf("%v, %v", p, err)
	}
}

func TestTenProblemsAreListedAndTheRestCounted(t *testing.T) {
	text := strings.Replace(small, "[10, 20]", "[-1, -2]", 1)
	rows := strings.Repeat("[-1, -2],", 7)
	text = strings.Replace(text, "[0.5, 2, 4]", "[1,2,3,4,5,6,7,8,9,10]", 1)
	_, err := sensitivity.Parse([]byte(strings.Replace(text, "[10, 35.5]", rows+"[-1, -2]", 1)))
	if err == nil || strings.Count(err.Error(), "want a number greater than 0") != 10 ||
		!strings.HasSuffix(err.Error(), "; and 8 more") {
		t.Errorf("%v", err)
	}
}

func TestAMeasurementThatFallsWithinNoiseIsLifted(t *testing.T) {
	for _, row := range []string{"[9.9, 35]", "[9.67, 34.4]"} { // by 1 %, and by 3.3 % as two runs of a minute do
		p, err := sensitivity.Parse([]byte(strings.Replace(small, "[10, 60]", row, 1)))
		if err != nil || !reflect.DeepEqual(p.Throughput[2], []float64{10, 35.5}) {
			t.Errorf("%s: %v, %v", row, p, err)
		}
	}
	if _, err := sensitivity.Parse([]byte(strings.Replace(small, "[10, 60]", "[9.4, 60]", 1))); err == nil {
		t.Error("a fall by 6 % is taken for noise")
	}
}

// Each step down is within noise of the one before it, but not of the first.
func TestNoiseDoesNotAddUp(t *testing.T) {
	text := strings.Replace(small, "[10, 20]", "[10, 100]", 1)
	text = strings.Replace(text, "[10, 35.5]", "[10, 96]", 1)
	_, err := sensitivity.Parse([]byte(strings.Replace(text, "[10, 60]", "[10, 93]", 1)))
	if err == nil || !strings.Contains(err.Error(), "want no less than the 100 with fewer cores") {
		t.Errorf("%v", err)
	}
}

func TestEveryValidProfileReadsBackAsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := profiles().Draw(t, "profile")
		text, err := p.Print()
		if err != nil {
			t.Fatal(err)
		}
		again, err := sensitivity.Parse(text)
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Fatalf("%s\nreads back as %+v, %v", text, again, err)
		}
	})
}

func TestWhatIsNoNumberIsNotPrinted(t *testing.T) {
	if text, err := (&sensitivity.Profile{Model: "x", StartSeconds: math.NaN()}).Print(); err == nil {
		t.Errorf("printed as %s", text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(ofTheGPU))
	for _, m := range paperModels {
		text, err := m.profile().Print()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := sensitivity.Parse(text)
		if err != nil {
			return
		}
		printed, err := p.Print()
		if err != nil {
			t.Fatal(err)
		}
		again, err := sensitivity.Parse(printed)
		if err != nil {
			t.Fatalf("%s\ndoes not read back: %v", printed, err)
		}
		if twice, _ := again.Print(); !bytes.Equal(twice, printed) {
			t.Fatalf("%s\nreads back as\n%s", printed, twice)
		}
		usable(t, p)
	})
}

// usable sees to it that what follows from a valid profile is a number, and that a planner finds something to choose.
func usable(t *testing.T, p *sensitivity.Profile) {
	fair, limit := gres.Proportional(paperServer, 2), paperServer
	for _, o := range p.Options(fair, limit) {
		if o.Gain < 1 || math.IsInf(o.Gain, 0) || math.IsNaN(o.Gain) || !o.Size.Fits(limit) {
			t.Fatalf("option %v ×%v of %v", o.Size, o.Gain, p)
		}
	}
}

// count is the list 1,2,…,n.
func count(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, ",%d", i+1)
	}
	return text.String()[1:]
}

// TestAProfileMayLeaveTheCostsOfARestartOut: what is measured of the job itself, or configured, then stands in for
// them.
func TestAProfileMayLeaveTheCostsOfARestartOut(t *testing.T) {
	for _, c := range []struct {
		without []string
		save    float64
		start   float64
	}{
		{nil, 1.5, 0}, {[]string{"start_s"}, 1.5, 0}, {[]string{"checkpoint_s"}, 0, 0},
		{[]string{"checkpoint_s", "start_s"}, 0, 0},
	} {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte(small), &fields); err != nil {
			t.Fatal(err)
		}
		for _, name := range c.without {
			delete(fields, name)
		}
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		p, err := sensitivity.Parse(text)
		if err != nil || p.CheckpointSeconds != c.save || p.StartSeconds != c.start {
			t.Errorf("without %v: %+v, %v", c.without, p, err)
		}
	}
}
