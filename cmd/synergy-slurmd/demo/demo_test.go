package demo

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

var update = flag.Bool("update", false, "write the drawings in testdata anew")

var ctx = context.Background()

// shownWith is what Run writes.
func shownWith(t *testing.T, o Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := Run(ctx, &out, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// scenes plays a workload and keeps every round.
func scenes(t *testing.T, seed uint64, p policy.Policy, a policy.Allocator) ([]*scene, outcome) {
	t.Helper()
	y, err := newPlay(deal(seed), p, a)
	if err != nil {
		t.Fatal(err)
	}
	var all []*scene
	o, err := y.run(ctx, func(_ context.Context, s *scene) error {
		all = append(all, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, o
}

// TestThePromisesHoldAfterEveryRound looks at each allocator's plays, of the story and of a workload dealt anew.
func TestThePromisesHoldAfterEveryRound(t *testing.T) {
	promises := []struct {
		name string
		test func(*testing.T, []*scene)
	}{
		{"every job arrives once and is done", everyJobArrivesOnceAndIsDone},
		{"nobody is seen below the proportional speed", nobodyIsBelowTheProportionalSpeed},
		{"what is held and what is free is the whole node", heldAndFreeIsTheWholeNode},
		{"every job runs or waits until it is done", everyJobRunsOrWaits},
		{"a job that gave way goes on where it was", nothingIsLost},
	}
	for _, a := range policy.Allocators() {
		for _, p := range []policy.Policy{policy.FIFO(), policy.LAS()} {
			for seed := range uint64(2) {
				all, _ := scenes(t, seed, p, a)
				for _, promise := range promises {
					t.Run(fmt.Sprintf("%s %s seed %d %s", a.Name, p.Name, seed, promise.name), func(t *testing.T) {
						promise.test(t, all)
					})
				}
			}
		}
	}
}

func everyJobArrivesOnceAndIsDone(t *testing.T, all []*scene) {
	arrived, done := map[int]int{}, map[int]int{}
	for _, s := range all {
		for _, a := range s.arrived {
			arrived[a.id]++
		}
		for _, e := range s.ended {
			done[e.id]++
			if e.text != "is done" {
				t.Errorf("round %d: %s %s", s.number, e.ticket, e.text)
			}
		}
	}
	for id := 1; id <= len(workload()); id++ {
		if arrived[id] != 1 || done[id] != 1 {
			t.Errorf("job %d arrived %d times and was done %d times", id, arrived[id], done[id])
		}
	}
}

func nobodyIsBelowTheProportionalSpeed(t *testing.T, all []*scene) {
	for _, s := range all {
		for _, r := range s.racks {
			for _, seat := range r.seats {
				if seat.speed < 1 {
					t.Errorf("round %d: %s trains at %.3f with %s", s.number, seat.ticket, seat.speed, seat.size)
				}
			}
		}
		if s.running() > 0 && s.slowest < 1 {
			t.Errorf("round %d: slowest of %d is %.3f", s.number, s.running(), s.slowest)
		}
	}
}

func heldAndFreeIsTheWholeNode(t *testing.T, all []*scene) {
	for _, s := range all {
		if len(s.racks) != nodes {
			t.Fatalf("round %d: %d nodes", s.number, len(s.racks))
		}
		for _, r := range s.racks {
			whole(t, s.number, r)
		}
	}
}

// whole checks that a node's amounts add up, and that every GPU of it is drawn once.
func whole(t *testing.T, round int, r rack) {
	t.Helper()
	sum, drawn := r.free, slices.Clone(r.spare)
	for _, seat := range r.seats {
		sum = sum.Plus(seat.size)
		drawn = append(drawn, seat.devices...)
		if len(seat.devices) != seat.size.GPUs {
			t.Errorf("round %d: %s holds GPUs %v, want %d", round, seat.ticket, seat.devices, seat.size.GPUs)
		}
	}
	slices.Sort(drawn)
	if sum != server || r.free != r.free.Max(gres.Vector{}) || fmt.Sprint(drawn) != "[0 1 2 3 4 5 6 7]" {
		t.Errorf("round %d: %s adds up to %s and GPUs %v", round, r.name, sum, drawn)
	}
}

func everyJobRunsOrWaits(t *testing.T, all []*scene) {
	for _, s := range all {
		if shown := s.running() + len(s.waiting); shown != s.jobs {
			// One may have ended while the round acted.
			if shown > s.jobs || shown < s.jobs-2 {
				t.Errorf("round %d: %d run, %d wait, of %d", s.number, s.running(), len(s.waiting), s.jobs)
			}
		}
	}
}

func TestUnderTuneJobsAreDoneSoonerOnAverage(t *testing.T) {
	for _, p := range []policy.Policy{policy.FIFO(), policy.LAS()} {
		for seed := range uint64(2) {
			_, share := scenes(t, seed, p, policy.Proportional())
			_, tune := scenes(t, seed, p, policy.Tune())
			if tune.mean > share.mean || tune.gpuTime > share.gpuTime {
				t.Errorf("%s seed %d: mean %s with Tune, %s with the share; %s and %s GPU time",
					p.Name, seed, tune.mean, share.mean, tune.gpuTime, share.gpuTime)
			}
		}
	}
}

func TestTheStoryHasAJobThatGivesWayAndGoesOnAndOneThatGivesBack(t *testing.T) {
	all, o := scenes(t, 0, policy.FIFO(), policy.Tune())
	gaveWay, wentOn, gaveBack := map[int]bool{}, 0, 0
	for _, s := range all {
		for _, p := range s.paused {
			gaveWay[p.id] = true
		}
		for _, id := range s.started {
			if gaveWay[id] {
				wentOn++
			}
		}
		for _, r := range s.resized {
			if strings.Contains(r.text, "gives back") {
				gaveBack++
			}
		}
	}
	if len(all[0].started) == 0 {
		t.Error("nobody starts in the first round")
	}
	if len(gaveWay) == 0 || wentOn < len(gaveWay) || gaveBack == 0 || o.restarts == 0 {
		t.Errorf("%d gave way, %d went on, %d gave back, %d restarts", len(gaveWay), wentOn, gaveBack, o.restarts)
	}
}

func nothingIsLost(t *testing.T, all []*scene) {
	done := map[int]float64{}
	for _, s := range all {
		for _, r := range s.racks {
			for _, seat := range r.seats {
				if seat.done < done[seat.id] {
					t.Errorf("round %d: %s is %.2f done after %.2f", s.number, seat.ticket, seat.done, done[seat.id])
				}
				done[seat.id] = seat.done
			}
		}
	}
}

func TestARestartCostsASaveAndAWarmUp(t *testing.T) {
	y, err := newPlay(workload(), policy.FIFO(), policy.Proportional())
	if err != nil {
		t.Fatal(err)
	}
	o, err := y.run(ctx, unseen)
	if err != nil || o.restarts == 0 {
		t.Fatalf("%d restarts, %v", o.restarts, err)
	}
	for k, j := range y.jobs {
		h, _ := y.slurm.History(k + 1)
		var held time.Duration
		for _, run := range h.Runs {
			held += run.Freed.Sub(run.Start)
		}
		want := j.length + time.Duration(h.Restarts)*y.profiles[j.model].RestartCost()
		if off := held - want; off < 0 || off > time.Duration(len(h.Runs))*time.Second {
			t.Errorf("job %d held its GPUs for %s, want %s after %d restarts", k+1, held, want, h.Restarts)
		}
	}
}

func TestTheOutcomeIsWhatThreeLonelyJobsDid(t *testing.T) {
	jobs := []job{
		{0, "gnmt", 2, 60 * time.Minute},
		{10 * time.Minute, "lstm", 1, 20 * time.Minute},
		{15 * time.Minute, "transformer", 1, 30 * time.Minute},
	}
	wants := []struct {
		allocator       policy.Allocator
		coreTime, lent  string
		lenders, gained int
	}{
		{policy.Proportional(), "8:30", "0:00", 0, 0},
		{policy.Tune(), "2:50", "5:40", 3, 0},
	}
	for _, want := range wants {
		o, err := perform(ctx, jobs, policy.FIFO(), want.allocator, unseen)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintln(hours(o.mean), hours(o.median), hours(o.makespan), hours(o.gpuTime), hours(o.coreTime),
			hours(o.lent),
			len(o.lenders), len(o.gainers), o.restarts, percent(o.gpus()))
		if wanted := fmt.Sprintln("0:37 0:30 1:00 2:50", want.coreTime, want.lent, want.lenders, want.gained,
			"0 18 %"); got != wanted {
			t.Errorf("%s: %swant %s", want.allocator.Name, got, wanted)
		}
	}
}

func TestTheSlowestOfAllRoundsIsRemembered(t *testing.T) {
	g := newStage(io.Discard, Options{Width: 60})
	for k, speed := range []float64{1.5, 1.2, 0, 2} {
		if err := g.show(ctx, &scene{number: k + 1, slowest: speed}); err != nil {
			t.Fatal(err)
		}
	}
	if g.slowest != 1.2 {
		t.Errorf("slowest %.2f, want 1.20", g.slowest)
	}
}

func TestEqualOptionsGiveEqualBytes(t *testing.T) {
	for _, o := range []Options{{}, {Seed: 7, Policy: policy.LAS(), Width: 90, Color: true}} {
		if first, second := shownWith(t, o), shownWith(t, o); first != second {
			t.Errorf("%+v: two runs differ", o)
		}
	}
	if shownWith(t, Options{}) == shownWith(t, Options{Seed: 1}) {
		t.Error("another seed tells the same story")
	}
}

var escape = regexp.MustCompile("\x1b\\[[0-9]*m")

func TestColoursChangeNothingElse(t *testing.T) {
	with, without := shownWith(t, Options{Color: true}), shownWith(t, Options{})
	if strings.Contains(without, "\x1b") {
		t.Error("escapes without colours")
	}
	if !strings.Contains(with, "\x1b[32m") {
		t.Error("no green with colours")
	}
	trailing := regexp.MustCompile(" +\n")
	if plain := trailing.ReplaceAllString(escape.ReplaceAllString(with, ""), "\n"); plain != without {
		t.Error("without its escapes the coloured text is another")
	}
}

func TestNoLineIsWiderThanThePaper(t *testing.T) {
	for _, columns := range []int{60, 80, 100, 130} {
		for k, line := range strings.Split(shownWith(t, Options{Width: columns}), "\n") {
			if n := width(line); n > columns {
				t.Errorf("line %d of %d columns on paper of %d: %s", k+1, n, columns, line)
			}
		}
	}
}

func TestOnAHundredColumnsNothingIsCutOffInsideAClause(t *testing.T) {
	for line := range strings.SplitSeq(shownWith(t, Options{}), "\n") {
		if strings.HasSuffix(line, "…") {
			t.Errorf("cut off: %s", line)
		}
	}
}

func TestASentenceIsCutAfterAClauseThatFits(t *testing.T) {
	const sentence = "9 lstm: 4 → 2 cores: gives back what it lent, for job 7"
	for room, want := range map[int]string{
		100: sentence, 54: "9 lstm: 4 → 2 cores: gives back what it lent", 43: "9 lstm: 4 → 2 cores", 6: "9 lstm",
		4: "9 l…", 0: "",
	} {
		if got := fit(sentence, room); got != want {
			t.Errorf("in %d columns %q, want %q", room, got, want)
		}
	}
}

func TestRoundsInWhichNothingChangesAreOneLine(t *testing.T) {
	var out bytes.Buffer
	g := newStage(&out, Options{Width: 60})
	for _, n := range []int{4, 5, 6} {
		if err := g.show(ctx, &scene{number: n, at: time.Duration(n-1) * round, jobs: 2}); err != nil {
			t.Fatal(err)
		}
	}
	g.unfold()
	if text := out.String(); !strings.HasPrefix(text, "── rounds 4–6 ── 0:15–0:25 ── ") ||
		strings.Count(text, "\n") != 2 {
		t.Errorf("shown as %q", text)
	}
}

func TestAllPausesTogetherStayUnderAMinute(t *testing.T) {
	g := newStage(io.Discard, Options{Pace: 20 * time.Second})
	var all time.Duration
	for range 1000 {
		all += g.spend()
	}
	if all != patience || patience >= time.Minute {
		t.Errorf("pauses of %s in all", all)
	}
}

func TestAPauseEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(ctx)
	out := writer(func(text []byte) (int, error) {
		if bytes.Contains(text, []byte("round 1")) {
			cancel()
		}
		return len(text), nil
	})
	if err := Run(ctx, out, Options{Pace: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestAnOutputThatBreaksEndsTheDemonstration(t *testing.T) {
	broken := errors.New("broken pipe")
	lines := 0
	out := writer(func(text []byte) (int, error) {
		if lines++; lines > 40 {
			return 0, broken
		}
		return len(text), nil
	})
	if err := Run(ctx, out, Options{}); !errors.Is(err, broken) || lines != 41 {
		t.Errorf("%v after %d lines", err, lines)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(text []byte) (int, error) { return w(text) }

func TestTheWorkloadIsWhatTheDocumentationSays(t *testing.T) {
	jobs := workload()
	models, sizes, together := map[string]bool{}, map[int]bool{}, map[time.Duration]int{}
	for k, j := range jobs {
		models[j.model], sizes[j.gpus] = true, true
		together[j.at]++
		if j.length < 20*time.Minute || j.length > 3*time.Hour || j.at > 2*time.Hour {
			t.Errorf("job %d: %+v", k+1, j)
		}
		if k > 0 && j.at < jobs[k-1].at {
			t.Errorf("job %d arrives before the one above it", k+1)
		}
	}
	if len(jobs) != 24 || len(models) != 10 || len(sizes) != 4 || len(together) > 20 {
		t.Errorf("%d jobs of %d models and %d sizes at %d times", len(jobs), len(models), len(sizes), len(together))
	}
}

func TestASeedDealsTheSameSizesAndLengths(t *testing.T) {
	sum := func(jobs []job) (gpus int, length time.Duration, models []string) {
		for _, j := range jobs {
			gpus, length, models = gpus+j.gpus, length+j.length, append(models, j.model)
		}
		slices.Sort(models)
		return gpus, length, models
	}
	for seed := range uint64(5) {
		if got, want := fmt.Sprint(sum3(sum(deal(seed)))), fmt.Sprint(sum3(sum(workload()))); got != want {
			t.Errorf("seed %d: %s, want %s", seed, got, want)
		}
	}
}

func sum3(gpus int, length time.Duration, models []string) []any { return []any{gpus, length, models} }

func TestTheGPUsThatSlurmNamesAreRead(t *testing.T) {
	for printed, want := range map[string]string{
		"gpu:3(IDX:0-1,3)": "[0 1 3]", "gpu:a100:1(IDX:7)": "[7]", "gpu:2(IDX:N/A)": "[]", "gpu:2": "[]",
		"nonsense(": "[]",
	} {
		if got := fmt.Sprint(indices(printed)); got != want {
			t.Errorf("%s: %s, want %s", printed, got, want)
		}
	}
}

func TestATerminalIsReadAtAPaceAndNowhereElse(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if o := OptionsFor(w); o.Pace != 0 || o.Color || o.Width != 0 {
		t.Errorf("for a pipe %+v", o)
	}
	environment := map[string]string{"TERM": "xterm"}
	getenv := func(name string) string { return environment[name] }
	if o := onTerminal(300, getenv); o.Pace == 0 || !o.Color || o.Width != widest {
		t.Errorf("for a terminal %+v", o)
	}
	environment["NO_COLOR"] = "1"
	if o := onTerminal(80, getenv); o.Color || o.Width != 80 {
		t.Errorf("with NO_COLOR %+v", o)
	}
}

// The drawings are of made-up scenes, so that no change of a plan changes them.

func TestDrawings(t *testing.T) {
	drawings := map[string]func(*stage){
		"opening": func(g *stage) { g.announce(workload(), policy.FIFO()) },
		"round":   func(g *stage) { g.draw(madeUp()) },
		"arrival": func(g *stage) { g.draw(arrivalOnly()) },
		"verdict": func(g *stage) { g.slowest = 1; g.conclude(madeUpOutcomes()) },
	}
	for name, draw := range drawings {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			draw(newStage(&out, Options{Width: 100}))
			path := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Errorf("drawn:\n%swant:\n%s", out.Bytes(), want)
			}
		})
	}
}

func madeUp() *scene {
	gnmt, alexnet, m5 := ticket{1, "gnmt", 2}, ticket{2, "alexnet", 1}, ticket{11, "m5", 4}
	return &scene{
		number: 12, at: 55 * time.Minute, jobs: 9,
		arrived: []ticket{m5}, ended: []remark{{ticket{3, "lstm", 1}, 38 * time.Minute, "is done"}},
		started: []int{11}, resized: []remark{{alexnet, 0,
			"12 → 6 cores: gives back what it held beyond its share, for job 11"}},
		paused: []remark{{ticket{9, "transformer", 4}, 0, "gives way to job 11"}},
		racks: []rack{
			{"n1", []seat{
				{gnmt, []int{0, 1}, gres.Vector{GPUs: 2, CPUs: 2, Memory: 41660}, 1, .994},
				{alexnet, []int{2}, gres.Vector{GPUs: 1, CPUs: 6, Memory: 62500}, 1.75, .5},
				{m5, []int{3, 4, 5, 6}, gres.Vector{GPUs: 4, CPUs: 16, Memory: 250000}, 1.2, 0},
			}, gres.Vector{GPUs: 1, CPUs: 0, Memory: 145840}, []int{7}},
			{"n2", nil, server, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		},
		waiting: madeUpQueue(),
		plan: "value 9.6 of at most 9.7 (98.9 %); one more core a node is worth 0.4 %, one more GB nothing; " +
			"3 GPUs stranded for want of cores",
	}
}

func madeUpQueue() []remark {
	var all []remark
	for id := 5; id <= 10; id++ {
		all = append(all, remark{ticket{id, "res18", 8}, time.Duration(id) * time.Minute, "no GPU is free, it needs 8"})
	}
	all[4].ticket, all[4].text = ticket{9, "transformer", 4}, "gives way to job 11"
	return all
}

func arrivalOnly() *scene {
	s := madeUp()
	s.ended, s.started, s.resized, s.paused, s.waiting = nil, nil, nil, nil, madeUpQueue()[:5]
	for id := 12; id < 18; id++ {
		s.arrived = append(s.arrived, ticket{id, "transformer", id / 6})
	}
	return s
}

func madeUpOutcomes() []outcome {
	share := outcome{allocator: "proportional", took: make([]time.Duration, 24), mean: 120 * time.Minute,
		median:   100 * time.Minute,
		makespan: 4 * time.Hour, gpuTime: 50 * time.Hour, coreTime: 150 * time.Hour}
	tune := outcome{allocator: "tune", took: share.took, mean: 80 * time.Minute, median: 60 * time.Minute,
		makespan: 3 * time.Hour,
		gpuTime:  40 * time.Hour, coreTime: 130 * time.Hour, restarts: 12, lost: 6 * time.Minute, lent: 40 * time.Hour,
		lenders: []string{"gnmt", "lstm"}, gainers: []string{"alexnet"}, fastest: 2.94}
	return []outcome{share, tune}
}
