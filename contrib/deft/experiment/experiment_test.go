package experiment_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/contrib/deft/experiment"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// entry is a model of a file as Deft's shipped ones have it.
func entry(name, weight, out string, priority, pause int, resize, control string, more string) string {
	return fmt.Sprintf(`    {
      "model_name": %q, "model_weight": %q,
      "sleep_time": %d, "input_file_path": "../data/street.png", "output_file_path": "./logs",
      "output_file_name": %q, "priority": %d, %s, "control": %s%s
    }`, name, weight, pause, out, priority, resize, control, more)
}

func held(control, sync, event bool, bound, group int) string {
	return fmt.Sprintf(`{"control": %t, "controlsync": %t, "controlEvent": %t, `+
		`"queue_limit": {"sync": %d, "event_group": %d}}`, control, sync, event, bound, group)
}

func file(models ...string) string {
	return "{\n  \"models\": [\n" + strings.Join(models, ",\n") + "\n  ],\n  \"exp_dur\": 30,\n  \"device_id\": 1\n}\n"
}

const (
	faster = "fasterrcnn_resnet50_fpn"
	large  = `"resize": true, "resize_size": [1440, 2560]`
	small  = `"resize": false, "resize_size": [720, 1280]`
)

// shapes are what Deft ships, by the names of its files.
var shapes = map[string]string{
	"input.json": file(
		entry(faster, "W", "model_A", 0, 0, large, held(false, true, false, 1, 2), ""),
		entry(faster, "W", "model_B", 1, 1, small, held(false, false, false, 0, 2), "")),
	"input_controlsync.json": file(
		entry(faster, "W", "model_A", 0, 0, large, held(true, true, false, 10, 2), `, "batch_size": 1`),
		entry(faster, "W", "model_B", 1, 1, small, held(true, false, false, 0, 2), `, "batch_size": 1`)),
	"input_controlevent.json": file(
		entry(faster, "W", "model_A", 0, 0, large, held(true, false, true, 1, 2), ""),
		entry(faster, "W", "model_B", 1, 1, small, held(true, false, false, 0, 2), "")),
	"1model.json": file(
		entry(faster, "W", "model_A", 0, 0, large, held(false, false, false, 1, 2), "")),
	"3models.json": file(
		entry(faster, "W", "model_A", 0, 0, large, held(true, false, false, 100, 2), ""),
		entry("mobilenet_v3_small", "W", "model_B", 1, 1, small, held(true, false, false, 0, 2), ""),
		entry("mobilenet_v3_small", "W", "model_C", 1, 2, small, held(true, false, false, 0, 2), "")),
	"input_control.json": file(
		entry(faster, "W", "model_A", 0, 0, large, held(true, true, false, 1, 2), `, "batch_size": 1,`),
		entry(faster, "W", "model_B", 1, 1, small, held(true, false, false, 0, 2), `, "batch_size": 1,`)),
}

func TestTheShippedFilesAreTakenUnchanged(t *testing.T) {
	for name, c := range map[string]struct {
		queue  int // of the first model
		models int
		remark string
	}{
		"input.json": {0, 2,
			"models[0].control: controlsync and controlEvent have no effect without control"},
		"input_controlsync.json":  {10, 2, ""},
		"input_controlevent.json": {4, 2, ""},
		"1model.json":             {0, 1, ""},
		"3models.json": {0, 3, "control: nobody is held back, as with the preset none: want controlsync or " +
			"controlEvent in a model of priority 0, or the sync_level layer"},
		"input_control.json": {1, 2,
			"2 commas before a closing bracket, which JSON does not allow, are passed over"},
	} {
		f, remarks, err := experiment.Parse([]byte(shapes[name]))
		if err != nil || len(f.Models) != c.models || f.Duration != 30*time.Second || f.Device != 1 {
			t.Errorf("%s: %+v, %v", name, f, err)
			continue
		}
		if got := strings.Join(remarks, "; "); got != c.remark {
			t.Errorf("%s: remarks %q, want %q", name, got, c.remark)
		}
		if got := f.Models[0].Control.Queue(); got != c.queue {
			t.Errorf("%s: at most %d kernels in the queue, want %d", name, got, c.queue)
		}
		for i, m := range f.Models {
			if _, err := experiment.WorkOf(m); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if want := []share.Class{share.Low, share.High, share.High}[i]; m.Class() != want {
				t.Errorf("%s: %s is %s, want %s", name, m.Out, m.Class(), want)
			}
		}
	}
}

func TestEachFieldOfAFileIsRead(t *testing.T) {
	f, _, err := experiment.Parse([]byte(file(entry("m", "w", "out", 1, 2, large, held(true, true, true, 7, 9),
		`, "batch_size": 4, "sync_level": "layer", "python_path": "/p"`))))
	want := experiment.Model{
		Name: "m", Weight: "w", Pause: 2 * time.Second, Input: "../data/street.png", Folder: "./logs", Out: "out",
		Priority: 1, Resize: true, Height: 1440, Width: 2560, Batch: 4, Level: "layer",
		Control: experiment.Control{On: true, Sync: true, Event: true, Bound: 7, Group: 9},
	}
	if err != nil || len(f.Models) != 1 || !reflect.DeepEqual(f.Models[0], want) {
		t.Fatalf("%+v, %v", f, err)
	}
	if got := want.Title(); got != "m_2560x1440_batch_4_sleep_2" {
		t.Error(got)
	}
	if got := want.Control.Queue(); got != 18 {
		t.Errorf("two groups of nine: %d", got)
	}
}

func TestWhatIsUnknownInAFileIsTold(t *testing.T) {
	text := strings.Replace(shapes["1model.json"], `"exp_dur"`, `"colour\u001b": 3, "exp_dur": 1, "exp_dur"`, 1)
	_, remarks, err := experiment.Parse([]byte(text))
	got := strings.Join(remarks, "; ")
	if err != nil || !strings.Contains(got, `"colour\x1b" is unknown here`) ||
		!strings.Contains(got, "exp_dur is there twice") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAWrongFileIsRefusedWithFieldValueAndRemedy(t *testing.T) {
	one := shapes["input_controlsync.json"]
	for _, c := range []struct{ old, new, want string }{
		{one, "", `the file = "": want an object in braces`},
		{one, "[]", "want an object in braces"},
		{one, "{}", "exp_dur is missing: want seconds; models is missing: want a list of 1 to 4"},
		{one, `{"models": [], "exp_dur": 5}`, "models = []: want a list of 1 to 4, for at most so many share a GPU"},
		{one, `{"models": [7], "exp_dur": 5}`, "models[0] = 7: want an object"},
		{"\n}\n", "\n}\n{}", "goes on after its end"},
		{`"exp_dur": 30`, `"exp_dur": 0`, "exp_dur = 0: want seconds from 1 to 86400"},
		{`"exp_dur": 30`, `"exp_dur": 1e999`, "exp_dur = 1e999: want seconds"},
		{`"device_id": 1`, `"device_id": -1`, "device_id = -1: want a whole number from 0"},
		{`"priority": 0`, `"priority": 10`, "models[0].priority = 10: want a whole number from 0 to 1"},
		{`"sleep_time": 1`, `"sleep_time": -1`, "models[1].sleep_time = -1: want seconds from 0"},
		{`"model_A"`, `"../../etc/passwd"`, "models[0].output_file_name = ../../etc/passwd: want the name of a file"},
		{`"model_A"`, `""`, `models[0].output_file_name = "": want printable text`},
		{`"model_A"`, `"model_B"`, "models[0] and models[1] both write model_B: want an output_file_name of its own"},
		{`"model_A"`, `"a\u001b[2J"`, "want printable text in quotes"},
		{`[1440, 2560]`, `[1440]`, "models[0].resize_size = [1440]: want [height, width]"},
		{`[1440, 2560]`, `[0, 5]`, "want [height, width], each from 1 to 16384"},
		{`"resize": true`, `"resize": "yes"`, `models[0].resize = "yes": want true or false`},
		{`"sync": 10`, `"sync": 0`, "models[0].control.queue_limit: want sync of at least 1"},
		{`"sync": 10`, `"sync": "ten"`, `models[0].control.queue_limit.sync = "ten": want a whole number`},
		{`"batch_size": 1`, `"batch_size": 0`, "models[0].batch_size = 0: want a whole number from 1 to 4096"},
		{`"batch_size": 1`, `"sync_level": "core"`, "models[0].sync_level = core: want one of"},
	} {
		_, _, err := experiment.Parse([]byte(strings.Replace(one, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q for %.40q: error %v;\nwant %q", c.new, c.old, err, c.want)
		}
	}
}

func TestACommaWithinTextIsNoTrailingComma(t *testing.T) {
	f, remarks, err := experiment.Parse([]byte(strings.Replace(shapes["1model.json"], `"W"`, `"a,} \",]"`, 1)))
	if err != nil || len(remarks) > 0 || f.Models[0].Weight != `a,} ",]` {
		t.Errorf("%+v, %q, %v", f, remarks, err)
	}
}

func TestControlThatHoldsNobodyBackIsTold(t *testing.T) {
	one := func(priority int, control, more string) string {
		return entry(faster, "W", fmt.Sprintf("m%d%d", priority, len(more)), priority, 0, small, control, more)
	}
	idle, bounded := held(true, false, false, 5, 2), held(true, true, false, 5, 2)
	const nobody = "control: nobody is held back, as with the preset none: want controlsync or controlEvent in a " +
		"model of priority 0, or the sync_level layer"
	for _, c := range []struct{ text, want string }{
		{file(one(0, idle, "")), nobody},
		{file(one(1, bounded, "")), nobody}, // there is nobody whom it preempts
		{file(one(0, idle, `, "sync_level": "kernel"`)), nobody},
		{file(one(0, idle, `, "sync_level": "layer"`)), ""},
		{file(one(0, held(false, false, false, 0, 0), "")), ""},
		{file(one(0, bounded, ""), one(1, idle, "")), ""}, // whoever preempts needs no bound
		{file(one(0, bounded, ""), one(0, idle, " ")),
			"models[1].control: it is not held back: want controlsync or controlEvent"},
	} {
		_, remarks, err := experiment.Parse([]byte(c.text))
		if got := strings.Join(remarks, "; "); err != nil || got != c.want {
			t.Errorf("%s: remarks %q, %v, want %q", c.text, got, err, c.want)
		}
	}
}

func model(name string, height, width, batch int) experiment.Model {
	return experiment.Model{Name: name, Out: "model_A", Height: height, Width: width, Batch: batch}
}

func TestAModelThatNobodyMeasuredIsTakenForTheNearestAndThatIsTold(t *testing.T) {
	for _, c := range []struct {
		model experiment.Model
		want  string
	}{
		{model("resnet18", 720, 1280, 1), "nothing is known of it: assumed are 247 kernels of 0.189 ms in 48 ms, " +
			"those of deeplabv3_resnet50 with 720 lines and batch 1, scaled by the power 0.85 to 720 x 1280 pixels " +
			"and batch 1; --kernels model_A=COUNT,MS says it better"},
		{model("vgg16_bn", 720, 1280, 1), "those of deeplabv3_resnet50 with 720 lines"},
		{model("densenet121", 1440, 2560, 1), "those of deeplabv3_resnet50 with 1440 lines"},
		{model("fasterrcnn_mobilenet_v3_large_fpn", 720, 1280, 1), "assumed are 954 kernels of 0.0333 ms in 31.77 " +
			"ms, those of fasterrcnn_resnet50_fpn with 720 lines"},
		{model("ssd300_vgg16", 720, 1280, 8), "assumed are 2820 kernels of 0.08 ms in 243.1 ms, those " +
			"of retinanet_resnet50_fpn with 720 lines and batch 8,"},
		{model("bloom-560m", 1440, 2560, 1), "assumed are 1556 kernels of 0.0344 ms in 53.53 ms, those of bloom with " +
			"batch 1, scaled by the power 0.85 to batch 1;"},
		{model("CodeGen-350M-mono", 720, 1280, 1), "those of bloom with batch 1"},
		{model("gpt9", 720, 1280, 2), "assumed are 1867 kernels of 0.0517 ms in 96.48 ms, those of bloom"},
		{model("something", 720, 1280, 1), "assumed are 1000 kernels of 0.033 ms in 34.4 ms, those of fcos"},
		{model("alexnet", 224, 224, 1), "assumed are 200 kernels of 0.005 ms in 1 ms, those of mobilenet_v3_small " +
			"with 720 lines and batch 1, scaled by the power 0.85 to 224 x 224 pixels and batch 1;"},
		{model(faster, 720, 1280, 2), "of this size nothing is known: assumed are 1096 kernels of 0.0481 ms in " +
			"53.76 ms, those of fasterrcnn_resnet50_fpn with 1440 lines and batch 1,"},
	} {
		w, err := experiment.WorkOf(c.model)
		if err != nil || !strings.Contains(w.Remark, c.want) {
			t.Errorf("%s: %q, %v, want %q", c.model.Name, w.Remark, err, c.want)
		}
		if w.Count < 1 || w.Each <= 0 || w.Host() != w.Alone-w.GPU() {
			t.Errorf("%s: %+v", c.model.Name, w)
		}
	}
	w, err := experiment.WorkOf(model(faster, 720, 1280, 1))
	if err != nil || w.Remark != "" {
		t.Errorf("of one that was measured it is told: %q, %v", w.Remark, err)
	}
}

// TestABatchBetweenTwoThatWereMeasuredTakesATimeBetweenTheirs asks for RetinaNet, of which four sizes are known.
func TestABatchBetweenTwoThatWereMeasuredTakesATimeBetweenTheirs(t *testing.T) {
	last := experiment.Work{}
	for batch := range 20 {
		w, err := experiment.WorkOf(model("retinanet_resnet50_fpn", 720, 1280, batch+1))
		if err != nil || w.Alone <= last.Alone || w.Count <= last.Count {
			t.Errorf("batch %d: %+v after %+v, %v", batch+1, w, last, err)
		}
		last = w
	}
}

func TestWhatIsNoNameOfAModelIsNotTakenForOne(t *testing.T) {
	for _, name := range []string{"../etc/passwd", "/etc/passwd", "a b", "-rf", ".hidden", "a;b", "résnet", "a[2J",
		strings.Repeat("resnet", 1<<18), "$(id)"} {
		_, err := experiment.WorkOf(model(name, 720, 1280, 1))
		if err == nil || len(err.Error()) > 300 || strings.Contains(err.Error(), "\x1b") ||
			!strings.Contains(err.Error(), "nothing is known of it, and no model is called so: say its kernels with "+
				"--kernels model_A=COUNT,MS") {
			t.Errorf("%.40q: %v", name, err)
		}
	}
	_, err := experiment.WorkOf(model(faster, 1<<14, 1<<14, 1<<12))
	if err == nil || !strings.Contains(err.Error(), "16384 x 16384 pixels and batch 4096: a job would take") {
		t.Error(err)
	}
}

func TestAJobOfAModelIsItsKernelsAndTheTimeThatTheGPUWaitsForIt(t *testing.T) {
	w, err := experiment.WorkOf(experiment.Model{Name: faster, Height: 1440, Batch: 1})
	if err != nil || w.GPU() != 94952*time.Microsecond || w.Host() != 1948*time.Microsecond {
		t.Fatalf("%v of the GPU, %v of the host, %v", w.GPU(), w.Host(), err)
	}
	if got := w.Busy(0); math.Abs(got-.98) > .001 {
		t.Errorf("busy %.3f", got)
	}
	if got := w.Busy(w.Alone); math.Abs(got-.49) > .001 {
		t.Errorf("with a pause as long as itself busy %.3f", got)
	}
}

func jobsOf(ms ...int) []experiment.Job {
	var jobs []experiment.Job
	at := time.Unix(1700000000, 0)
	for _, m := range ms {
		end := at.Add(time.Duration(m) * time.Millisecond)
		jobs = append(jobs, experiment.Job{Start: at, End: end, Allocated: 5, Reserved: 7})
		at = end
	}
	return jobs
}

func TestJobsAreWrittenInDeftsColumnsAndReadBack(t *testing.T) {
	var out bytes.Buffer
	jobs := jobsOf(42, 43)
	if err := experiment.WriteJobs(&out, jobs); err != nil {
		t.Fatal(err)
	}
	const want = "start_timestamp_ns,end_timestamp_ns,jct_ms,max_allocated_gpu_memory_allocated_byte," +
		"max_reserved_gpu_memory_byte\n1700000000000000000,1700000000042000000,42.000000,5,7\n"
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("%s", &out)
	}
	got, err := experiment.ReadJobs(&out)
	if err != nil || !reflect.DeepEqual(got, jobs) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAWrongFileOfJobsIsRefused(t *testing.T) {
	const head = "start_timestamp_ns,end_timestamp_ns,jct_ms,max_allocated_gpu_memory_allocated_byte," +
		"max_reserved_gpu_memory_byte\n"
	for text, want := range map[string]string{
		"":                            "read the columns: EOF",
		"a,b,c,d,e\n":                 "column 1 is called a: want start_timestamp_ns",
		head + "1,2\n":                "row 1: record on line 2: wrong number of fields",
		head + "1,2,3,4,x\n":          "row 1: max_reserved_gpu_memory_byte = x: want a whole number from 0",
		head + "1,2,3,-4,5\n":         "row 1: max_allocated_gpu_memory_allocated_byte = -4",
		head + "1,2,1,4,5\n5,4,1,1,1": "row 2: end_timestamp_ns = 4: want no less than start_timestamp_ns, 5",
	} {
		if _, err := experiment.ReadJobs(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestTheFirstJobIsNotOfTheExperiment(t *testing.T) {
	s := experiment.Summarise(jobsOf(5000, 40, 40, 50, 70), 40*time.Millisecond)
	if s.Jobs != 4 || s.Mean != 50*time.Millisecond || s.P50 != 40*time.Millisecond || s.P95 != 70*time.Millisecond ||
		s.Late != 1 || s.Inflation != 1.25 || math.Abs(s.Rate-20) > 1e-9 {
		t.Errorf("%+v", s)
	}
	if s := experiment.Summarise(jobsOf(5000), 0); s.Jobs != 0 || !math.IsNaN(s.Inflation) {
		t.Errorf("of one job: %+v", s)
	}
}

func TestProcessesAreNamedByTheirModels(t *testing.T) {
	f, _, _ := experiment.Parse([]byte(shapes["input.json"]))
	text, err := experiment.Processes(f.Models, []int{17, 18})
	const want = `[["fasterrcnn_resnet50_fpn_2560x1440_batch_1_sleep_0",17],` +
		`["fasterrcnn_resnet50_fpn_1280x720_batch_1_sleep_1",18]]` + "\n"
	if err != nil || string(text) != want || !json.Valid(text) {
		t.Errorf("%s%v", text, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range shapes {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, remarks, err := experiment.Parse(text)
		if len(remarks) > 10 {
			t.Fatalf("%d remarks", len(remarks))
		}
		if err != nil {
			return
		}
		if n := len(got.Models); n < 1 || n > share.MostJobs || got.Duration < time.Second {
			t.Fatalf("accepted %+v", got)
		}
		for _, m := range got.Models {
			if m.Out == "" || strings.ContainsAny(m.Out, "/\x00") || m.Batch < 1 || m.Height < 1 || m.Width < 1 ||
				m.Pause < 0 || m.Control.Queue() < 0 || m.Priority < 0 || m.Priority > 1 {
				t.Fatalf("accepted %+v", m)
			}
			_, _ = experiment.WorkOf(m)
		}
	})
}

func FuzzReadJobs(f *testing.F) {
	var out bytes.Buffer
	_ = experiment.WriteJobs(&out, jobsOf(42, 43))
	f.Add(out.String())
	f.Fuzz(func(t *testing.T, text string) {
		jobs, err := experiment.ReadJobs(strings.NewReader(text))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := experiment.WriteJobs(&again, jobs); err != nil {
			t.Fatal(err)
		}
		if rows, err := csv.NewReader(&again).ReadAll(); err != nil || len(rows) != len(jobs)+1 {
			t.Fatalf("%d rows of %d jobs, %v", len(rows), len(jobs), err)
		}
		_ = experiment.Summarise(jobs, time.Millisecond)
	})
}
