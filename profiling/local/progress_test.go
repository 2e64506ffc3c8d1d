package local

import "testing"

func TestReadyMadePatternsFindTheIterationsInWhatTrainersPrint(t *testing.T) {
	for _, c := range []struct {
		pattern, line string
		want          int64 // -1: none
	}{
		{"tqdm", " 5%|▌         | 50/1000 [00:05<01:35,  9.95it/s]", 50},
		{"tqdm", "50it [00:05,  9.95it/s]", 50},
		{"tqdm", "train:  12%|█▏        | 12/100 [00:01<00:09, 9.13it/s, loss=2.1]", 12},
		{"tqdm", "44.7M/97.8M [00:01<00:01, 44.7MB/s]", -1},
		{"tqdm", "saved 3/5 [ok]", -1},
		{"lightning", "Epoch 3:  12%|█▏        | 12/100 [00:01<00:09, 9.13it/s, v_num=3]", 12},
		{"lightning", "Validation DataLoader 0:  50%|█████     | 5/10 [00:00<00:00, 50.1it/s]", -1},
		{"huggingface", "  0%|          | 7/3000 [00:02<12:31,  3.98it/s]", 7},
		{"torchvision", "Epoch: [2]  [  310/5005]  eta: 0:20:10  lr: 0.1  img/s: 612.3 (640.1)  loss: 6.9", 310},
		{"torchvision", "Test:   [ 10/196]  eta: 0:00:30", -1},
		{"json", `{"t":"2026-11-22T10:00:00Z","ev":"run","iteration":4711,"gpus":1}`, 4711},
		{"json", `{"loss": 2.3, "global_step": 12}`, 12},
		{"step", "step: 120 loss 3.1", 120},
		{"step", "[Iter 17/900] loss=2", 17},
		{"step", "stepping stones 5", -1},
		{`done (\d+)`, "done 4 done 5", 5},
		{`(?P<epoch>\d+)/(?P<iteration>\d+)`, "3/77", 77},
		{`done (\d+)`, "done 99999999999999999999", -1},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		n, found := p.find(c.line)
		if !found {
			n = -1
		}
		if n != c.want {
			t.Errorf("%s in %q: %d, want %d", c.pattern, c.line, n, c.want)
		}
	}
}

func TestAPatternWithoutIterationsIsRefused(t *testing.T) {
	for _, text := range []string{"", "step", "(", `step \d+`} {
		if _, err := ParsePattern(text); (err == nil) != (text == "step") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCountingGoesOnWhenANewEpochBegins(t *testing.T) {
	var c counter
	for _, n := range []int64{10, 90, 100, 5, 20, 3} {
		c.say(n)
	}
	if c.total() != 123 {
		t.Errorf("%d, want 100 + 20 + 3", c.total())
	}
}

// TestRanksThatPrintToOneFileAreCountedOnce: each is a step behind another now and then, and the epochs are theirs
// together.
func TestRanksThatPrintToOneFileAreCountedOnce(t *testing.T) {
	var c counter
	for range 3 {
		for n := int64(4); n <= 400; n++ {
			for _, behind := range []int64{0, 1, 0, 2} {
				c.say(n - behind)
			}
		}
	}
	if c.total() != 1200 {
		t.Errorf("%d iterations of three epochs of 400", c.total())
	}
}

func TestAFileOfProgressIsJSONOrANumber(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64 // -1: says nothing
	}{
		{`{"version": 1, "job": "17", "iterations": 1200, "at": 1767268800}` + "\n", 1200},
		{"1200\n", 1200}, {"1200@1767268800", 1200}, {"1200 of 5000", 1200},
		{"", -1}, {"{", -1}, {`{"iterations": -4}`, -1}, {`{"at": 1}`, -1}, {"soon", -1}, {"-3", -1},
		{"99999999999999999999", -1},
	} {
		n, said := reported(c.text)
		if !said {
			n = -1
		}
		if n != c.want {
			t.Errorf("%q: %d, want %d", c.text, n, c.want)
		}
	}
}

func TestABarThatIsRedrawnIsReadAtEachCarriageReturnAndLongLinesAreCut(t *testing.T) {
	p, err := ParsePattern("tqdm")
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{pattern: p}
	for _, text := range []string{
		"\r 1%| | 1/100 [00:01<", "01:00, 1it/s]\r 2%| | 2/1", "00 [00:02<01:00, 1it/s]\r", string(make([]byte, 1<<20)),
		"\n",
	} {
		if n, err := r.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	if n, said := r.iterations(); n != 2 || !said {
		t.Errorf("%d, %t", n, said)
	}
	if len(r.line) > maxLine {
		t.Errorf("a line of %d bytes is kept", len(r.line))
	}
}
