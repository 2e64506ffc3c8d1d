package workload_test

import (
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

func TestASplitIsReadAndPrintedAlike(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"20,70,10", "20,70,10"},
		{" 20, 70 ,10", "20,70,10"},
		{"33,33,33", "33,33,33"},
		{"50,0,50", "50,0,50"},
		{"image=20,language=70,speech=10", "20,70,10"},
		{"language=70,image=20,speech=10", "language=70,image=20,speech=10"},
		{"res18=33.5,gnmt=66.5", "res18=33.5,gnmt=66.5"},
		{"speech=1e2", "speech=100"},
	} {
		split, err := workload.ParseSplit(c.text)
		if err != nil || split.String() != c.want {
			t.Errorf("%s: %s, %v; want %s", c.text, split, err, c.want)
		}
	}
}

func TestWrongOptionsAreErrorsThatSayWhatWouldBeRight(t *testing.T) {
	for _, c := range []struct {
		parse      func(string) error
		text, want string
	}{
		{parseSplit, "20,70",
			"split = 20,70: want three percentages, of image, language and speech, or FAMILY=PERCENT,…"},
		{parseSplit, "20,70,ten", `split = 20,70,ten: want percentages from 0 to 100, where it has "ten"`},
		{parseSplit, "20,70,-1", `split = 20,70,-1: want percentages from 0 to 100, where it has "-1"`},
		{parseSplit, "nan,70,30", `split = nan,70,30: want percentages from 0 to 100, where it has "nan"`},
		{parseSplit, "20,70,20", "split = 20,70,20: want percentages that add up to 100; these to 110"},
		{parseSplit, "0,0,0", "split = 0,0,0: want percentages that add up to 100; these to 0"},
		{parseSplit, "image=200,language=-100",
			`split = image=200,language=-100: want NAME=NUMBER,… with numbers from 0, where it has "language=-100"`},
		{parseSplit, "image=120", "split = image=120: want percentages from 0 to 100"},
		{parseSplit, "image=50,speech",
			`split = image=50,speech: want NAME=NUMBER,… with numbers from 0, where it has "speech"`},
		{parseSplit, "=100", `split = =100: want NAME=NUMBER,… with numbers from 0, where it has "=100"`},
		{parseSplit, "image=50,image=50", "split = image=50,image=50: want every name once; image is there twice"},
		{parseMix, "two", "gpus = two: want one, paper, or GPUS=WEIGHT,… such as 1=70,2=10,4=15,8=5"},
		{parseMix, "0=1",
			"gpus = 0=1: want whole numbers of GPUs from 1 to 1048576, each once, with weights above 0, where it " +
				"has 0=1"},
		{parseMix, "1=1,01=2",
			"gpus = 1=1,01=2: want whole numbers of GPUs from 1 to 1048576, each once, with weights above 0, where " +
				"it has 01=2"},
		{parseMix, "1=0,2=1",
			"gpus = 1=0,2=1: want whole numbers of GPUs from 1 to 1048576, each once, with weights above 0, where it " +
				"has 1=0"},
		{parseDurations, "long",
			"durations = long: want paper, small, fixed:2h, exponential:90m, lognormal:30m,2.0 or uniform:10m-2h"},
		{parseDurations, "paper:2h",
			"durations = paper:2h: want paper, small, fixed:2h, exponential:90m, lognormal:30m,2.0 or uniform:10m-2h"},
		{parseDurations, "fixed:2",
			"durations = fixed:2: want lengths of time above 0, at most ten years, as in fixed:2h"},
		{parseDurations, "fixed:-2h",
			"durations = fixed:-2h: want lengths of time above 0, at most ten years, as in fixed:2h"},
		{parseDurations, "exponential:90000h",
			"durations = exponential:90000h: want lengths of time above 0, at most ten years, as in exponential:90m"},
		{parseDurations, "lognormal:30m",
			"durations = lognormal:30m: want lengths of time above 0, at most ten years, " +
				"as in lognormal:30m,2.0 with a standard deviation from 0 to 10"},
		{parseDurations, "lognormal:30m,nan",
			"durations = lognormal:30m,nan: want lengths of time above 0, at most ten years, " +
				"as in lognormal:30m,2.0 with a standard deviation from 0 to 10"},
		{parseDurations, "uniform:2h-10m",
			"durations = uniform:2h-10m: want lengths of time above 0, at most ten years, as in uniform:10m-2h, " +
				"the shorter one first"},
		{parseArrivals, "weekly", "arrivals = weekly: want poisson, static, uniform or daily"},
		{parseAssign, "", "assign = : want split, random or roundrobin"},
		{parseLogMix, "two", "gpus = two: want log, one, powers, powers-or-one, up or down"},
		{parseLogDurations, "long",
			"durations = long: want paper, small, fixed:2h, exponential:90m, lognormal:30m,2.0 or " +
				"uniform:10m-2h; or log"},
		{parseLogArrivals, "weekly", "arrivals = weekly: want log, poisson, static, uniform or daily"},
	} {
		if err := c.parse(c.text); err == nil || err.Error() != c.want {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

func parseSplit(text string) error        { _, err := workload.ParseSplit(text); return err }
func parseMix(text string) error          { _, err := workload.ParseMix(text); return err }
func parseDurations(text string) error    { _, err := workload.ParseDurations(text); return err }
func parseArrivals(text string) error     { _, err := workload.ParseArrivals(text); return err }
func parseAssign(text string) error       { _, err := workload.ParseAssign(text); return err }
func parseLogMix(text string) error       { _, err := workload.ParseLogMix(text); return err }
func parseLogDurations(text string) error { _, err := workload.ParseLogDurations(text); return err }
func parseLogArrivals(text string) error  { _, err := workload.ParseLogArrivals(text); return err }

func TestWordsAreReadWhateverTheirCase(t *testing.T) {
	mix, err1 := workload.ParseMix(" Paper ")
	durations, err2 := workload.ParseDurations("LogNormal:30M,2")
	arrivals, err3 := workload.ParseArrivals("Daily")
	assign, err4 := workload.ParseAssign("RoundRobin ")
	gpus, err5 := workload.ParseLogMix("UP")
	lengths, err6 := workload.ParseLogDurations("Log")
	moments, err7 := workload.ParseLogArrivals("LOG")
	for _, err := range []error{err1, err2, err3, err4, err5, err6, err7} {
		if err != nil {
			t.Error(err)
		}
	}
	if mix != workload.PaperMix || durations != "lognormal:30m,2" || arrivals != workload.Daily ||
		assign != workload.RoundRobin ||
		gpus != workload.RoundUp || lengths != workload.OwnDurations || moments != workload.OwnArrivals {
		t.Error(mix, durations, arrivals, assign, gpus, lengths, moments)
	}
}

func TestAWorkloadThatCannotBeDrawnIsAnErrorThatSaysWhy(t *testing.T) {
	for _, c := range []struct {
		change func(*workload.Config)
		want   string
	}{
		{func(c *workload.Config) { c.Load = 0 }, "load = 0: want jobs an hour, from 0.000001"},
		{func(c *workload.Config) { c.Jobs = -1 }, "jobs = -1: want a number, or 0 for a workload without end"},
		{func(c *workload.Config) { c.Arrivals = workload.Static },
			"arrivals = static: want a number of jobs, since all of them are there at the beginning"},
		{func(c *workload.Config) { c.Classes = nil }, "no classes: want at least one model that jobs may have"},
		{func(c *workload.Config) { c.Classes[3].Iteration = 0 },
			"class 3, mobilenet: iteration = 0: want seconds, from 0.000001 to 1000000"},
		{func(c *workload.Config) { c.Classes[3].Name = "" }, "class 3: name is empty: want the name of a profile"},
		{func(c *workload.Config) { c.Classes[3].Name = "gnmt" }, "class 5: name = gnmt: want each model once"},
		{func(c *workload.Config) { c.Split = workload.Split{{"vision", 40}, {"gnmt", 60}} },
			"split = vision=40,gnmt=60: want families and models of image, language, speech, alexnet, res18, res50, " +
				"mobilenet, shufflenet, " +
				"gnmt, transformer, lstm, m5, deepspeech; vision is none"},
		{func(c *workload.Config) { c.Split = workload.Split{{"image", 40}} },
			"split = image=40: want percentages that add up to 100; these to 40"},
		{func(c *workload.Config) { c.Split = workload.Split{{"image", 40}, {"image", 60}} },
			"split = image=40,image=60: want each family once, by its name"},
		{func(c *workload.Config) { c.GPUs = "2" },
			"gpus = 2: want one, paper, or GPUS=WEIGHT,… such as 1=70,2=10,4=15,8=5"},
		{func(c *workload.Config) { c.Durations = "2h" },
			"durations = 2h: want paper, small, fixed:2h, exponential:90m, lognormal:30m,2.0 or uniform:10m-2h"},
		{func(c *workload.Config) { c.Arrivals = "now" }, "arrivals = now: want poisson, static, uniform or daily"},
		{func(c *workload.Config) { c.Assign = "fair" }, "assign = fair: want split, random or roundrobin"},
	} {
		config := single(t)
		c.change(&config)
		if _, err := workload.New(config); err == nil || err.Error() != c.want {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

func FuzzParseSplit(f *testing.F) {
	for _, text := range []string{
		"20,70,10", "33,33,33", "image=50,language=50", "res18=50,gnmt=50", "0,0,1e2", "a=99.5,=1", ",,", "nan,inf,-0",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		split, err := workload.ParseSplit(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "split = ") {
				t.Errorf("the error does not name its option: %v", err)
			}
			return
		}
		sum := 0.0
		for _, p := range split {
			sum += p.Percent
		}
		if again, err := workload.ParseSplit(split.String()); err != nil || again.String() != split.String() ||
			!(sum >= 99 && sum <= 101) {
			t.Errorf("%q is %s with the sum %g; read again: %s, %v", text, split, sum, again, err)
		}
		var classes []workload.Class
		for _, p := range split {
			classes = append(classes, workload.Class{Name: p.Family, Iteration: 1})
		}
		mustDraw(t, workload.Config{Classes: classes, Split: split, Load: 1})
	})
}

func FuzzParseMix(f *testing.F) {
	for _, text := range []string{"one", "paper", "1=70,2=10,4=15,8=5", "3=1", "1=1e9,2=1e-9", "1=nan", "1048577=1",
		"1="} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if mix, err := workload.ParseMix(text); err == nil {
			mustDraw(t, workload.Config{Classes: metronome, Load: 1, GPUs: mix})
		}
	})
}

func FuzzParseDurations(f *testing.F) {
	for _, text := range []string{"paper", "small", "fixed:2h", "exponential:90m", "lognormal:30m,2.0",
		"uniform:10m-2h", "log", "fixed:1ns",
		"lognormal:87600h,10", "exponential:87600h", "uniform:-1m-2h"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		durations, err := workload.ParseDurations(text)
		own, logErr := workload.ParseLogDurations(text)
		if (err == nil) != (logErr == nil && own != workload.OwnDurations) {
			t.Errorf("%q: %v, of a log %v", text, err, logErr)
		}
		if err == nil {
			mustDraw(t, workload.Config{Classes: metronome, Load: 1, Durations: durations})
		}
	})
}

// mustDraw draws jobs that can be simulated.
func mustDraw(t *testing.T, config workload.Config) {
	for _, j := range draw(t, config, 20) {
		if j.Iterations < 1 || j.Iterations > 10*365*24*3600 || j.GPUs < 1 || j.GPUs > 1<<20 || j.Model == "" {
			t.Errorf("job %+v", j)
		}
	}
}
