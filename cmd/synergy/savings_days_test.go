package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/savings/book"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// stream are the runs of one owner under one name, which do the same work but for noise.
type stream struct {
	user, name, model string
	gpus, cores       int // cores of each GPU, as their user asks
	daily             int
	length            time.Duration // of a run as he asks, but for noise
	noise             float64       // standard deviation of its logarithm

	says   bool    // its user has written the profile's name from the beginning; otherwise a rule says it
	saves  bool    // it has a checkpoint
	out    bool    // it never opts in
	since  float64 // its first run comes on this day
	lie    float64 // the profile promises so many times too much of any other size than asked; 0: it does not lie
	flat   bool    // nothing that it is given makes it faster, or slower
	change float64 // its work doubles on this day; 0: never
}

// crew is a dozen streams, of models that gain from cores and such that do not. One says nothing to the daemon, and one
// comes only after it is switched on.
func crew() []stream {
	const h = time.Hour
	return []stream{
		{user: "ann", name: "img-a", model: "res18", gpus: 1, cores: 3, daily: 14, length: 3 * h, noise: 0.05},
		{user: "ann", name: "img-b", model: "alexnet", gpus: 1, cores: 3, daily: 14, length: 2 * h, noise: 0.1},
		{user: "bob", name: "img-c", model: "shufflenet", gpus: 2, cores: 3, daily: 7, length: 4 * h, noise: 0.08,
			says: true, saves: true},
		{user: "bob", name: "speech", model: "m5", gpus: 1, cores: 3, daily: 12, length: 5 * h, noise: 0.2},
		{user: "cem", name: "mobile", model: "mobilenet", gpus: 4, cores: 3, daily: 4, length: 3 * h, noise: 0.1,
			saves: true},
		{user: "cem", name: "guess", model: "res50", gpus: 1, cores: 2, daily: 16, length: 2 * h, noise: 0.1},
		{user: "dee", name: "lm-a", model: "gnmt", gpus: 1, cores: 3, daily: 14, length: 6 * h, noise: 0.1},
		{user: "dee", name: "lm-b", model: "lstm", gpus: 2, cores: 3, daily: 8, length: 4 * h, noise: 0.1, says: true,
			saves: true},
		{user: "eve", name: "lm-c", model: "transformer", gpus: 1, cores: 4, daily: 12, length: 5 * h, noise: 0.1},
		{user: "eve", name: "dsp", model: "deepspeech", gpus: 1, cores: 2, daily: 12, length: 3 * h, noise: 0.15},
		{user: "fay", name: "own", model: "res18", gpus: 1, cores: 3, daily: 6, length: 2 * h, noise: 0.1, out: true},
		{user: "gus", name: "late", model: "res50", gpus: 1, cores: 3, daily: 8, length: 2 * h, noise: 0.1, since: 8},
	}
}

// campaign is a site in virtual time: days in the shadow, and days switched on.
type campaign struct {
	t        *testing.T
	streams  []stream
	on, days int // switched on after so many, of so many
	round    time.Duration
	seed     uint64

	down     [2]float64 // the daemon is down from this day to that
	clock    *slurmtest.Clock
	slurm    *slurmtest.Slurm
	site     *abroad // as the daemon sees it
	runner   *bridge.Runner
	ledger   *book.Book
	dir      string
	of       []*stream // of jobs, by ID less one
	measured map[string]*sensitivity.Profile
}

// dawn is the first day, and winter when clocks of Europe are set back.
var (
	dawn   = time.Date(2026, 10, 21, 0, 0, 0, 0, time.UTC)
	winter = time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC)
)

func newCampaign(t *testing.T, on, days int, streams []stream) *campaign {
	c := &campaign{t: t, streams: streams, on: on, days: days, round: 10 * time.Minute, dir: t.TempDir(),
		clock: slurmtest.NewClock(dawn), measured: map[string]*sensitivity.Profile{}}
	c.slurm = slurmtest.New(c.clock, slurmtest.Options{
		Nodes: slurmtest.Rack(5, gres.Vector{GPUs: 8, CPUs: 24, Memory: 500_000}, "gpu")})
	c.site = &abroad{Manager: c.slurm, clock: c.clock}
	c.runner = &bridge.Runner{Ledger: &ledger.Memory{Keep: 1}, Settings: bridge.Settings{
		Partitions: []string{"gpu"}, Policy: policy.Slurm(), Allocator: policy.Tune(),
		Rules: policy.Rules{MinRun: 10 * time.Minute, MaxPreemptions: 20, MaxRestarts: 50,
			Stranded: policy.DefaultStranded}, Round: c.round,
		Lease: 3 * c.round, RestartCost: 2 * time.Minute, StartTimeout: time.Minute, Poll: time.Second, Parallel: 1,
		Ahead: 32, Keep: bridge.Keep{Memory: true, Steps: true}, Shadow: true, Savings: true}}
	for i := range streams {
		f := &streams[i]
		c.runner.Settings.Match = append(c.runner.Settings.Match,
			bridge.Match{User: f.user, Name: f.name, Profile: f.model + ".json", Saves: f.saves})
	}
	return c
}

func (c *campaign) profile(name string) (*sensitivity.Profile, error) {
	if p, known := c.measured[name]; known {
		return p, nil
	}
	text, err := profiles.FS.ReadFile(name)
	if err != nil {
		return nil, err
	}
	p, err := sensitivity.Parse(text)
	c.measured[name] = p
	return p, err
}

// arrive plans all submissions.
func (c *campaign) arrive() {
	random := rand.New(rand.NewPCG(c.seed, 11))
	for i := range c.streams {
		f := &c.streams[i]
		for d := range c.days {
			for range f.daily {
				at := float64(d) + random.Float64()
				length := time.Duration(float64(f.length) * math.Exp(f.noise*random.NormFloat64()))
				if f.change > 0 && at >= f.change {
					length *= 2
				}
				if at >= f.since {
					at := dawn.Add(time.Duration(at * float64(day))).Truncate(time.Second)
					c.clock.At(at, func() { c.submit(f, length) })
				}
			}
		}
	}
}

func (c *campaign) submit(f *stream, length time.Duration) {
	p, err := c.profile(f.model + ".json")
	if err != nil {
		c.t.Fatal(err)
	}
	asked := gres.Vector{GPUs: f.gpus, CPUs: f.cores * f.gpus, Memory: gres.Memory(62_500 * f.gpus)}
	spec := slurmtest.Spec{Name: f.name, User: f.user, Partition: "gpu",
		Request: slurm.Request{GPUs: f.gpus, CPUsPerTask: asked.CPUs, Memory: asked.Memory},
		Work: slurmtest.Work{Length: length, Launch: 5 * time.Second, Restart: 20 * time.Second, Save: 10 * time.Second,
			OnSignal: slurmtest.Saves, OnTerm: slurmtest.Saves,
			Rate: func(has slurm.Allocated) float64 { return f.truth(p, asked, has.PerNode) }}}
	shadow := c.runner.Settings.Shadow
	if f.says || !shadow && !f.out {
		spec.Comment = "synergy-profile=" + f.model + ".json"
		if f.saves {
			spec.Comment += " synergy-checkpoint=USR1@60"
		}
	}
	if !shadow && !f.out {
		spec.Lease = c.runner.Settings.Lease
	}
	if _, err := c.slurm.Submit(spec); err != nil {
		c.t.Fatal(err)
	}
	c.of = append(c.of, f)
}

// truth is how fast a run really is, relative to what its user asks for.
func (f *stream) truth(p *sensitivity.Profile, asked, has gres.Vector) float64 {
	if f.flat {
		return 1
	}
	faster := p.Rate(sensitivity.ShareOf(has)) / p.Rate(sensitivity.ShareOf(asked))
	if f.lie > 0 && math.Abs(faster-1) > 0.01 {
		return faster / f.lie
	}
	return faster
}

// play holds the rounds of all days.
func (c *campaign) play() *campaign {
	c.t.Helper()
	c.arrive()
	for c.clock.Elapsed() < time.Duration(c.days)*day {
		at := float64(c.clock.Elapsed()) / float64(day)
		c.runner.Settings.Shadow = at < float64(c.on)
		switch down := at >= c.down[0] && at < c.down[1]; {
		case down && c.ledger != nil:
			c.close()
		case !down && c.ledger == nil:
			c.open()
		}
		if c.ledger != nil {
			c.hold()
		}
		c.clock.Advance(c.round - c.clock.Elapsed()%c.round)
	}
	c.close()
	return c
}

// open starts the daemon anew.
func (c *campaign) open() {
	opened, err := book.Open(c.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	c.ledger = opened
	c.runner = &bridge.Runner{Slurm: c.site, Ledger: c.runner.Ledger, Clock: c.clock, Profiles: c.profile,
		Settings: c.runner.Settings}
}

func (c *campaign) close() {
	if c.ledger == nil {
		return
	}
	if err := c.ledger.Close(); err != nil {
		c.t.Fatal(err)
	}
	c.ledger = nil
}

// hold holds a round and books it.
func (c *campaign) hold() {
	report, err := c.runner.Round(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	if report.Savings != nil {
		if _, err := c.ledger.Note(*report.Savings, 2*c.round); err != nil {
			c.t.Fatal(err)
		}
	}
}

// abroad is a Slurm whose clock may be set back by an hour. What happened before shows the time that the clock showed
// then.
type abroad struct {
	slurm.Manager
	clock *slurmtest.Clock
	back  time.Time // when it is; zero: never
}

// shown is what the clock showed at a moment.
func (a *abroad) shown(at time.Time) time.Time {
	if a.back.IsZero() || at.Before(a.back) {
		return at
	}
	return at.Add(-time.Hour)
}

func (a *abroad) Observe(ctx context.Context) (slurm.Observed, error) {
	seen, err := a.Manager.Observe(ctx)
	jobs := make([]*slurm.Job, len(seen.Jobs))
	for k, j := range seen.Jobs {
		here := *j
		here.Submitted = a.shown(j.Submitted)
		if !j.Started.IsZero() {
			here.Started = a.shown(j.Started)
		}
		if !j.Begin.IsZero() {
			here.Begin = j.Begin.Add(a.shown(seen.At).Sub(seen.At))
		}
		jobs[k] = &here
	}
	seen.At, seen.Jobs = a.shown(seen.At), jobs
	return seen, err
}

func (a *abroad) Update(ctx context.Context, u slurm.Update) error {
	now := a.clock.Now()
	u.Begin = u.Begin.Add(now.Sub(a.shown(now)))
	return a.Manager.Update(ctx, u)
}

// berlin is a moment as sacct prints it in central Europe, where clocks are set back on the fifth day.
func berlin(at time.Time) string {
	offset := 2 * 3600
	if !at.Before(winter) {
		offset = 3600
	}
	return at.In(time.FixedZone("", offset)).Format("2006-01-02T15:04:05-0700")
}

// sacct is Slurm's accounting.
func (c *campaign) sacct(print func(time.Time) string) string {
	var b strings.Builder
	fmt.Fprintln(&b, "JobIDRaw|User|JobName|State|Submit|Start|End|ElapsedRaw|AllocTRES")
	for id, f := range c.of {
		h, _ := c.slurm.History(id + 1)
		submit := c.site.shown(h.Submitted)
		for k, r := range h.Runs {
			state, start, stop := string(slurmtest.Requeued), c.site.shown(r.Start), c.site.shown(r.Stop)
			if k == len(h.Runs)-1 {
				state = string(h.End)
			}
			ended := print(stop)
			if r.Stop.IsZero() {
				state, stop, ended = "RUNNING", c.site.shown(c.clock.Now()), "Unknown"
			}
			fmt.Fprintf(&b, "%d|%s|%s|%s|%s|%s|%s|%d|cpu=%d,mem=%dM,gres/gpu=%d\n", id+1, f.user, f.name, state,
				print(submit), print(start), ended, max(0, int(stop.Sub(start).Seconds())), r.PerNode.CPUs,
				r.PerNode.Memory, f.gpus)
			submit = stop
		}
	}
	return b.String()
}

// saved is how many GPU-seconds were really saved of those that were held since it was switched on.
func (c *campaign) saved() (saved float64) {
	on := dawn.Add(time.Duration(c.on) * day)
	for id, f := range c.of {
		h, _ := c.slurm.History(id + 1)
		p, _ := c.profile(f.model + ".json")
		asked := gres.Vector{GPUs: f.gpus, CPUs: f.cores * f.gpus, Memory: gres.Memory(62_500 * f.gpus)}
		for _, r := range h.Runs {
			from, to := r.Start, r.Stop
			if to.IsZero() {
				to = c.clock.Now()
			}
			if from.Before(on) {
				from = on
			}
			to = dawn.Add(to.Sub(dawn).Truncate(c.round)) // nobody looked at it later
			if held := to.Sub(from).Seconds() * float64(f.gpus); held > 0 && !f.out {
				saved += held * (1 - 1/f.truth(p, asked, r.PerNode))
			}
		}
	}
	return saved
}

// judged is what the command says.
type judged struct {
	Days          []book.Day
	Accounting    *accounting
	words, warned string
}

// real are the sums of what was switched on.
func (j *judged) real() (all savings.Sums) {
	for _, d := range j.Days {
		if !d.Shadow {
			all = all.Plus(d.Sums)
		}
	}
	return all
}

// judge runs the command over the time from one day on up to another.
func (c *campaign) judge(since, until float64, sacct string) (v judged) {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "sacct.txt")
	if err := os.WriteFile(path, []byte(sacct), 0o600); err != nil {
		c.t.Fatal(err)
	}
	now := c.clock.Now()
	ago := func(d float64) string { return now.Sub(dawn.Add(time.Duration(d * float64(day)))).String() }
	run := func(o savingsOptions) (out, warned string) {
		var text, warnings bytes.Buffer
		command := &cobra.Command{}
		command.SetOut(&text)
		command.SetErr(&warnings)
		o.book, o.since, o.sacct = c.dir, ago(since), path
		if until < float64(c.days) {
			o.until = ago(until)
		}
		if err := o.run(command, now); err != nil {
			c.t.Fatal(err)
		}
		return text.String(), warnings.String()
	}
	out, _ := run(savingsOptions{json: "-"})
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		c.t.Fatal(err)
	}
	v.words, v.warned = run(savingsOptions{})
	_, accounted, _ := strings.Cut(v.words, "By accounting")
	c.t.Logf("%d jobs; claimed %.0f of %.0f GPU-hours, truly %.0f%s%s", len(c.of), v.real().Saved/3600,
		v.real().Known/3600, c.saved()/3600, accounted, v.warned)
	return v
}

// mustHold makes sure that what was really saved is within what accounting leaves of the claim.
func (c *campaign) mustHold(v judged) {
	c.t.Helper()
	switch a := v.Accounting; {
	case a == nil || !a.Checked:
		c.t.Fatalf("it is not checked: %s", v.words)
	case c.saved() < *a.Low || c.saved() > *a.High:
		c.t.Errorf("%.0f GPU-hours were saved, said is %.0f to %.0f: %s", c.saved()/3600, *a.Low/3600, *a.High/3600,
			v.words)
	}
}

// mustHoldSpeeds makes sure that speeds were as was said, as far as that is known.
func (c *campaign) mustHoldSpeeds(v judged) {
	c.t.Helper()
	if r := v.Accounting; !r.Checked || math.Abs(math.Log(r.Ran/r.Said)) > math.Log(r.Within) {
		c.t.Errorf("%+v: %s", r, v.words)
	}
}

// fortnight is a week in the shadow, and one switched on.
func fortnight(t *testing.T, change func([]stream)) *campaign {
	t.Helper()
	streams := crew()
	change(streams)
	return newCampaign(t, 7, 14, streams).play()
}

func asItIs([]stream) {}

// TestOverDaysWhatIsSaidAgreesWithHowLongRunsTook where profiles tell the truth. What is booked and what was really
// saved until the last round differ by no more than profiles round.
func TestOverDaysWhatIsSaidAgreesWithHowLongRunsTook(t *testing.T) {
	c := fortnight(t, asItIs)
	v := c.judge(7, 14, c.sacct(berlin))
	c.mustHold(v)
	r, claimed := v.Accounting, v.real().Saved
	if r.Names != 7 || r.After < 400 || r.New == 0 || len(r.Apart)+r.Uneven+r.Drifting+r.Short != 0 {
		t.Errorf("%+v, want seven names that gain, and none apart", r)
	}
	if math.Abs(r.Error()) > 0.03 || r.Within > 1.1 || r.Said < 1.5 {
		t.Errorf("%+v, want speeds within 3 %%, known to 10 %%", r)
	}
	if math.Abs(claimed/c.saved()-1) > 0.01 {
		t.Errorf("%.0f GPU-hours are claimed, %.0f were saved", claimed/3600, c.saved()/3600)
	}
	if v.warned != "" {
		t.Errorf("warned: %s", v.warned)
	}
}

// TestOverDaysAProfileThatPromisesTooMuchIsNamed: 1.5 times too much of one name. Where all do, so does the range.
func TestOverDaysAProfileThatPromisesTooMuchIsNamed(t *testing.T) {
	c := fortnight(t, func(s []stream) { s[0].lie = 1.5 })
	v := c.judge(7, 14, c.sacct(berlin))
	c.mustHold(v)
	if a := v.Accounting.Apart; len(a) != 1 || math.Abs(a[0].Said/a[0].Ran-1.5) > 0.05 ||
		!strings.Contains(v.words, "img-a of ann, 1 GPU: said") {
		t.Errorf("%+v, want img-a alone, off by 1.5: %s", a, v.words)
	}
	c = fortnight(t, func(s []stream) {
		for k := range s {
			s[k].lie = 1.5
		}
	})
	v = c.judge(7, 14, c.sacct(berlin))
	c.mustHold(v)
	if e := v.Accounting.Error(); math.Abs(e+1./3) > 0.03 || *v.Accounting.High > 0.7*v.real().Saved {
		t.Errorf("off by %.3f, want a third, and much less than the claim: %s", e, v.words)
	}
}

// TestOverDaysAUserWhoTrainsForLongerMovesNoFigureUnsaid: work that doubles while nothing else changes is left out. At
// the very switch nobody can tell it from a lie: then it is named as either, and the range has room for both.
func TestOverDaysAUserWhoTrainsForLongerMovesNoFigureUnsaid(t *testing.T) {
	for _, on := range []float64{3.5, 10.5} {
		c := fortnight(t, func(s []stream) { s[0].change = on })
		v := c.judge(7, 14, c.sacct(berlin))
		c.mustHold(v)
		if r := v.Accounting; r.Drifting != 1 || len(r.Apart) != 0 || math.Abs(r.Error()) > 0.03 {
			t.Errorf("day %v: %+v, want the name left out", on, r)
		}
	}
	c := fortnight(t, func(s []stream) { s[0].change = 7 })
	v := c.judge(7, 14, c.sacct(berlin))
	c.mustHold(v)
	if a := v.Accounting.Apart; len(a) != 1 || a[0].Name != "img-a" ||
		!strings.Contains(v.words, "or with other work than before: img-a of ann") {
		t.Errorf("%+v: %s", a, v.words)
	}
}

// TestOverDaysNothingIsClaimedWhereNothingIsGained: in the shadow all the time; switched on for those who gain nothing;
// and where profiles promise what the hardware does not have.
func TestOverDaysNothingIsClaimedWhereNothingIsGained(t *testing.T) {
	c := newCampaign(t, 14, 14, crew()).play()
	v := c.judge(7, 14, c.sacct(berlin))
	if v.Accounting.Checked || v.Accounting.After+v.Accounting.New != 0 || v.real() != (savings.Sums{}) ||
		!strings.Contains(v.warned, "nothing was switched on") || strings.Contains(v.words, "By accounting") {
		t.Errorf("%+v: %s%s", v.Accounting, v.words, v.warned)
	}
	c = fortnight(t, func(s []stream) {
		for k := range s {
			s[k].model, s[k].cores = "gnmt", 3
		}
	})
	v = c.judge(7, 14, c.sacct(berlin))
	if v.Accounting.Checked || v.Accounting.After != 0 || math.Abs(v.real().Saved) > 1e-6*v.real().Known ||
		!strings.Contains(v.words, "not checked: of 0 runs") {
		t.Errorf("%+v: %s", v.Accounting, v.words)
	}
	c = fortnight(t, func(s []stream) {
		for k := range s {
			s[k].flat = true
		}
	})
	v = c.judge(7, 14, c.sacct(berlin))
	c.mustHold(v)
	if c.saved() != 0 || *v.Accounting.High > v.real().Saved/2 || math.Abs(v.Accounting.Ran-1) > 0.03 ||
		len(v.Accounting.Apart) != 7 {
		t.Errorf("a claim of %.0f GPU-hours that nothing came of: %s", v.real().Saved/3600, v.words)
	}
}

// TestOverDaysRunsThatEndBetweenRoundsTellNothing: of those only the long ones are seen.
func TestOverDaysRunsThatEndBetweenRoundsTellNothing(t *testing.T) {
	c := fortnight(t, func(s []stream) { s[0].length, s[0].daily, s[0].noise = 16*time.Minute, 60, 0.3 })
	v := c.judge(7, 14, c.sacct(berlin))
	c.mustHold(v)
	if r := v.Accounting; r.Short != 1 || r.Names != 6 || len(r.Apart) != 0 {
		t.Errorf("%+v, want the name left out", r)
	}
}

// TestOverDaysTimesWithoutTheirZoneAreToldWhereClocksAreSetForWinter: in London half of the runs would be found, and
// the rest be missed by nobody.
func TestOverDaysTimesWithoutTheirZoneAreToldWhereClocksAreSetForWinter(t *testing.T) {
	c := fortnight(t, asItIs)
	const zoneless = "2006-01-02T15:04:05"
	london := func(at time.Time) string {
		if at.Before(winter) {
			at = at.Add(time.Hour)
		}
		return at.UTC().Format(zoneless)
	}
	v := c.judge(7, 14, c.sacct(london))
	c.mustHold(v)
	if all := c.judge(7, 14, c.sacct(berlin)).Accounting; v.Accounting.Before >= all.Before*3/4 {
		t.Errorf("%d runs before of %d, want those of three days of seven", v.Accounting.Before, all.Before)
	}
	if !regexp.MustCompile(`: \d{3} of the \d{4} runs of the ledger started there at another time of day`).
		MatchString(v.warned) {
		t.Errorf("warned: %s", v.warned)
	}
	naive := c.judge(7, 14, c.sacct(func(at time.Time) string { return berlin(at)[:len(zoneless)] }))
	if naive.Accounting.Checked || !strings.Contains(naive.warned, "has times without their zone") {
		t.Errorf("warned: %s%s", naive.words, naive.warned)
	}
	utc := c.judge(7, 14, c.sacct(func(at time.Time) string { return at.UTC().Format(zoneless) }))
	if utc.warned != "" || !utc.Accounting.Checked {
		t.Errorf("warned where clocks go by UTC: %s%s", utc.words, utc.warned)
	}
}

// TestOverDaysAClockThatIsSetBackLosesAnHourAndNoRun: what is booked then may be an hour less, or more; runs are found
// in the accounting as ever, and none ends twice.
func TestOverDaysAClockThatIsSetBackLosesAnHourAndNoRun(t *testing.T) {
	c := newCampaign(t, 7, 14, crew())
	c.site.back = dawn.Add(9*day + 13*time.Hour)
	c.play()
	v := c.judge(7, 14, c.sacct(berlin))
	c.mustHold(v)
	if math.Abs(v.real().Saved/c.saved()-1) > 0.02 || v.warned != "" {
		t.Errorf("%.0f GPU-hours are claimed, %.0f were saved: %s", v.real().Saved/3600, c.saved()/3600, v.warned)
	}
	over, ended := map[int]int{}, 0
	_, err := book.ReadRuns(c.dir, c.clock.Now(), func(r book.Run) {
		over[r.Job]++
		h, _ := c.slurm.History(r.Job)
		began := func(run slurmtest.Run) bool { return c.site.shown(run.Start).Equal(r.Started) }
		if !slices.ContainsFunc(h.Runs, began) {
			t.Errorf("job %d: Slurm knows of no run from %s on", r.Job, r.Started)
		}
	})
	for id := range c.of {
		h, _ := c.slurm.History(id + 1)
		if over[id+1] > len(h.Runs) {
			t.Errorf("job %d ended %d times in %d runs", id+1, over[id+1], len(h.Runs))
		}
		if !h.Ended.IsZero() {
			ended++
		}
	}
	if err != nil || len(over) < ended*9/10 {
		t.Errorf("%d jobs of %d that ended are in the ledger, %v", len(over), ended, err)
	}
}

// TestOverDaysEachMomentIsBookedOnceWhereverTheTimeIsCut: at midnight or within a day, and with two weeks in which
// no daemon ran, of which nothing is claimed.
func TestOverDaysEachMomentIsBookedOnceWhereverTheTimeIsCut(t *testing.T) {
	c := newCampaign(t, 5, 23, crew()[:4])
	c.down = [2]float64{6.3, 20.6}
	c.play()
	sacct := c.sacct(berlin)
	sum := func(since, until float64) (all savings.Sums) {
		for _, d := range c.judge(since, until, sacct).Days {
			if d.Seconds > day.Seconds() || d.Known > d.There {
				t.Errorf("%s has %v s: %+v", d.Day, d.Seconds, d.Sums)
			}
			all = all.Plus(d.Sums)
		}
		return all
	}
	whole := sum(0, 23)
	if up := (23 - c.down[1] + c.down[0]) * day.Seconds(); math.Abs(whole.Seconds-up) > 3*c.round.Seconds() {
		t.Errorf("%v s are booked, the daemon ran for %v", whole.Seconds, up)
	}
	for _, cut := range []float64{1, 2.25, 5, 5.0001, 6.3, 7, 13, 20.6, 22.99} {
		parts := sum(0, cut).Plus(sum(cut, 23))
		if parts.Ended != whole.Ended || math.Abs(parts.Seconds-whole.Seconds)+math.Abs(parts.Saved-whole.Saved)+
			math.Abs(parts.Known-whole.Known) > 1e-3 {
			t.Errorf("cut at day %v: %+v, want %+v", cut, parts, whole)
		}
	}
	if none := sum(7, 20); none != (savings.Sums{}) {
		t.Errorf("%+v is claimed of time in which no daemon ran", none)
	}
	v := c.judge(20, 23, sacct)
	c.mustHoldSpeeds(v)
	if !strings.Contains(v.words, "80.1 % of the time was looked at") {
		t.Errorf("want that 2.4 days of 3 were looked at: %s", v.words)
	}
	both := c.judge(4, 6, sacct).words // one in the shadow, and one switched on
	if strings.Count(both, "100.0 % of the time was looked at") != 2 {
		t.Errorf("want that all of the time was looked at, in either mode: %s", both)
	}
}

// TestOverDaysALedgerOfASingleDayIsToldAsOne.
func TestOverDaysALedgerOfASingleDayIsToldAsOne(t *testing.T) {
	for _, on := range []int{0, 1} {
		c := newCampaign(t, on, 1, crew()).play()
		v := c.judge(0, 1, c.sacct(berlin))
		if len(v.Days) != 1 || v.Days[0].Day != "2026-10-21" || v.Accounting.Checked || v.Accounting.After != 0 {
			t.Errorf("%+v, %+v: want the one day, and nothing to compare", v.Days, v.Accounting)
		}
		if rows := strings.Count(v.words, "2026-10-21"); rows != 2 || strings.Contains(v.words, "all") && on == 1 {
			t.Errorf("want one row, and the sentence: %s", v.words)
		}
		seven := c.judge(-6, 1, c.sacct(berlin))
		if !strings.Contains(seven.words, "14.2 % of the time was looked at") {
			t.Errorf("of seven days one was looked at: %s", seven.words)
		}
	}
}
