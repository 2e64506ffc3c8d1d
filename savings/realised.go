package savings

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Who identifies runs that are assumed to do the same work: one owner, job name, number of GPUs, profile and kind of
// GPUs. Of stands for the last two.
type Who struct {
	User, Name string
	GPUs       int
	Of         string
}

func (w Who) compare(o Who) int {
	return cmp.Or(strings.Compare(w.User, o.User), strings.Compare(w.Name, o.Name), cmp.Compare(w.GPUs, o.GPUs),
		strings.Compare(w.Of, o.Of))
}

// Run is a run that completed, by the site's accounting, with what the ledger knows of it.
type Run struct {
	Who    Who
	At     time.Time // its start
	Before bool      // it held what its user asked for
	Speed  float64   // by its profile with what it held, relative to the proportional share; above 0
	Took   float64   // seconds, above 0
}

// Realised compares the speeds that profiles promised with how long runs really took.
type Realised struct {
	Names  int `json:"names"`       // names (see Who) with runs before and after
	Before int `json:"runs_before"` // their runs with their users' requests
	After  int `json:"runs_after"`  // their later runs, with granted sizes of another speed by the profile
	// The runs left out. Uneven counts names whose earlier runs took such different times that they prove nothing,
	// Drifting names whose work changed within a period, Short names whose runs may end between two rounds, so that
	// mostly the long ones are known, and New later runs of names with too few runs before.
	Uneven   int `json:"names_uneven"`
	Drifting int `json:"names_drifting"`
	Short    int `json:"names_short"`
	New      int `json:"runs_new"`
	// Said is how many times as fast as before the later runs should have been by their profiles, and Ran how many
	// times as fast they were: geometric means in which names weigh by run time. Within is the factor for the 95 %
	// range of Ran, from Ran/Within to Ran*Within.
	Said   float64 `json:"said"`
	Ran    float64 `json:"ran"`
	Within float64 `json:"within"`
	// Apart are the names that deviate from their profiles by more than chance explains; the furthest first.
	Apart []Apart `json:"apart,omitempty"`
}

// Apart compares the speeds of one name with those promised.
type Apart struct {
	User   string  `json:"user"`
	Name   string  `json:"name"`
	GPUs   int     `json:"gpus"`
	After  int     `json:"runs_after"`
	Said   float64 `json:"said"`
	Ran    float64 `json:"ran"`
	Within float64 `json:"within"`
}

const (
	// enoughNames is the least number of names: with fewer, one user who now trains for longer looks like a wrong
	// profile.
	enoughNames = 3

	fewest   = 3    // runs before; with fewer their own scatter is unknown
	uneven   = 0.5  // largest standard deviation of the logarithm of earlier runs' work: a factor of 1.6
	changed  = 0.02 // least relative difference of speed that can be checked
	notable  = 0.05 // least deviation of a name's speed, as a logarithm, that is reported
	unknown  = 100  // bound of a logarithm; a range as wide as this says nothing
	drift    = 0.22 // change of the logarithm of the work: a factor of 1.25
	unlikely = 1.75 // times the bound for 1 of 20 by chance, which leaves about 1 of 1000
)

// Realise compares runs with granted sizes with earlier runs of the same name as asked. Means are geometric, so a run
// that takes twice as long weighs as much as one that takes half. Names whose runs take less than shortest are left
// out, because such runs may end unseen.
func Realise(runs []Run, shortest time.Duration) Realised {
	t := comparison{shortest: math.Log(shortest.Seconds())}
	names := map[Who][]Run{}
	for _, run := range runs {
		names[run.Who] = append(names[run.Who], run)
	}
	for _, who := range slices.SortedFunc(maps.Keys(names), Who.compare) {
		t.name(splitRuns(names[who]))
	}
	t.sum()
	t.setApart()
	return t.Realised
}

// comparison is the state of a comparison.
type comparison struct {
	Realised
	shortest float64 // logarithm of seconds
	names    []nameComparison
}

// nameComparison is the comparison of one name. said and ran are means of logarithms over its later runs; variance is
// that of ran, from the scatter among its own runs.
type nameComparison struct {
	who                 Who
	before, after       int
	weight              float64 // GPU-seconds of the later runs, divided by their promised speedup: see compare
	said, ran, variance float64
}

// name compares the runs of one name, or counts why they are left out. Later runs with nearly the speed of the earlier
// ones, by the profile, are dropped uncounted: they say nothing about what a profile promises for other sizes.
func (t *comparison) name(before, after []Run) {
	if len(before) < fewest {
		t.New += len(after)
		return
	}
	speed, _ := spreadOf(before, logSpeed)
	after = slices.DeleteFunc(after, func(run Run) bool { return math.Abs(logSpeed(run)-speed) < changed })
	if len(after) == 0 {
		return
	}
	work, differs := spreadOf(before, logWork)
	long, _ := spreadOf(before, logTook)
	longAfter, _ := spreadOf(after, logTook)
	switch {
	case differs > uneven:
		t.Uneven++
	case min(long, longAfter) < t.shortest:
		t.Short++
	case drifts(before) || drifts(after):
		t.Drifting++
	default:
		t.compare(before, after, work-speed)
	}
}

// compare adds the comparison of one name. asked is the mean logarithm of the seconds that its runs take as asked. A
// name weighs as much as it does in Changed - Saved, which Range scales: there a run counts with what it held, divided
// by its promised speedup.
func (t *comparison) compare(before, after []Run, asked float64) {
	n, m := float64(len(after)), float64(len(before))
	speed, _ := spreadOf(before, logSpeed)
	given, _ := spreadOf(after, logSpeed)
	took, _ := spreadOf(after, logTook)
	_, differs := spreadOf(before, logWork)
	_, differ := spreadOf(after, logWork)
	pooled := (float64((m-1)*differs*differs) + float64((n-1)*differ*differ)) / (m + n - 2)
	c := nameComparison{
		who:      after[0].Who,
		before:   len(before),
		after:    len(after),
		said:     given - speed,
		ran:      asked - took,
		variance: pooled * (1/n + 1/m),
	}
	c.weight = n * float64(max(1, c.who.GPUs)) * math.Exp(took-c.said)
	t.names = append(t.names, c)
}

func logSpeed(run Run) float64 { return math.Log(run.Speed) }
func logTook(run Run) float64  { return math.Log(run.Took) }
func logWork(run Run) float64  { return math.Log(run.Speed) + math.Log(run.Took) }

// drifts says whether the later half of the runs did other work than the earlier half: by a noticeable factor (drift)
// that chance does not explain. It is false if the halves are too small to tell.
func drifts(runs []Run) bool {
	half := len(runs) / 2
	if half < fewest {
		return false
	}
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b Run) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Speed, b.Speed), cmp.Compare(a.Took, b.Took))
	})
	early, differs := spreadOf(runs[:half], logWork)
	late, differ := spreadOf(runs[half:], logWork)
	a, b := float64(half), float64(len(runs)-half)
	chance := math.Sqrt(differs*differs/a + differ*differ/b)
	return math.Abs(late-early) > max(drift, unlikely*quantile(len(runs)-2)*chance)
}

// sum computes the weighted mean over all names and its range: by the scatter within names or by the effect of leaving
// out one name (the jackknife), whichever is larger.
func (t *comparison) sum() {
	all, said, ran, within := 0., 0., 0., 0.
	for _, c := range t.names {
		t.Names, t.Before, t.After = t.Names+1, t.Before+c.before, t.After+c.after
		all += c.weight
	}
	if t.Names == 0 {
		return
	}
	for _, c := range t.names {
		w := c.weight / all
		said, ran, within = said+float64(w*c.said), ran+float64(w*c.ran), within+float64(w*w*c.variance)
	}
	// 2 standard deviations are about 95 %. The bound keeps the exponential finite if quantile is infinite.
	known := max(2*math.Sqrt(within), t.between(all, ran-said))
	t.Said, t.Ran, t.Within = math.Exp(said), math.Exp(ran), math.Exp(min(known, unknown))
}

// between is the range of the mean deviation by how much names differ (jackknife); 0 for one name, which shows no
// difference.
func (t *comparison) between(all, mean float64) float64 {
	sum, n := 0., float64(t.Names)
	if n < 2 {
		return 0
	}
	for _, c := range t.names {
		without := c.weight / (all - c.weight) * (c.ran - c.said - mean) // by how much the mean moves without this name
		sum += float64(without * without)
	}
	return quantile(t.Names-1) * math.Sqrt(sum*(n-1)/n)
}

// setApart lists the names whose deviation is beyond chance and at least notable. With many names some deviate by
// chance, so the bound is higher than that of one name (unlikely).
func (t *comparison) setApart() {
	for _, c := range t.names {
		known := quantile(c.before+c.after-2) * math.Sqrt(c.variance)
		if math.Abs(c.ran-c.said) > max(notable, unlikely*known) {
			t.Apart = append(t.Apart, Apart{c.who.User, c.who.Name, c.who.GPUs, c.after, math.Exp(c.said),
				math.Exp(c.ran), math.Exp(known)})
		}
	}
	far := func(a Apart) float64 { return -math.Abs(math.Log(a.Ran / a.Said)) }
	slices.SortStableFunc(t.Apart, func(a, b Apart) int { return cmp.Compare(far(a), far(b)) })
}

// quantile is the two-sided 95 % quantile of Student's t with free degrees of freedom, approximated from ten on. With
// none it is infinite: nothing can be said of the scatter then.
func quantile(free int) float64 {
	few := []float64{math.Inf(1), 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26}
	if free < len(few) {
		return few[max(0, free)]
	}
	return 1.96 + 2.7/float64(free)
}

// splitRuns splits runs into those before and after, without unusable figures.
func splitRuns(runs []Run) (before, after []Run) {
	for _, run := range runs {
		switch {
		case !(run.Speed > 0) || !(run.Took > 0) || math.IsInf(run.Speed, 0) || math.IsInf(run.Took, 0):
		case run.Before:
			before = append(before, run)
		default:
			after = append(after, run)
		}
	}
	return before, after
}

// spreadOf returns the mean and the standard deviation of a figure over runs; the deviation of one run is 0.
func spreadOf(runs []Run, of func(Run) float64) (mean, off float64) {
	n := float64(len(runs))
	for _, run := range runs {
		mean += of(run) / n
	}
	for _, run := range runs {
		d := of(run) - mean
		off += float64(d * d)
	}
	return mean, math.Sqrt(off / max(1, n-1))
}

// Checked says whether there are enough runs and names for a statement.
func (r Realised) Checked() bool { return r.After >= enough && r.Names >= enoughNames }

// Error is the relative deviation of speeds from the promise: -0.03 is 3 % slower.
func (r Realised) Error() float64 { return r.Ran/r.Said - 1 }

// Range returns the bounds of what was saved, if all changed speeds deviate from their profiles as those of the
// compared runs.
func (r Realised) Range(s Sums) (low, high float64) {
	takes := (s.Changed - s.Saved) * r.Said / r.Ran
	return s.Changed - float64(takes*r.Within), s.Changed - takes/r.Within
}

// Words summarises the check by accounting in sentences.
func (r Realised) Words(s Sums) string {
	if !r.Checked() {
		return fmt.Sprintf("By accounting it is not checked: of %s of %s with other sizes than before, whose "+
			"owners ran the same name before, at least %d of %d names would say something.%s%s",
			several(r.After, "run"), several(r.Names, "name"), enough, enoughNames, r.apart(), r.leftOut())
	}
	direction := "above"
	if r.Error() < 0 {
		direction = "below"
	}
	low, high := r.Range(s)
	return fmt.Sprintf("By accounting, %d runs of %s ought to have been %.2f times as fast as the %d before them, "+
		"by their profiles, and were %.2f times (%.2f to %.2f): %s %s. If all were, it is between %s and %s "+
		"GPU-hours.%s%s", r.After, several(r.Names, "name"), r.Said, r.Before, r.Ran, r.Ran/r.Within,
		float64(r.Ran*r.Within), percent(math.Abs(r.Error())), direction, grouped(low/hour), grouped(high/hour),
		r.apart(), r.leftOut())
}

// mostApart is how many deviating names are listed.
const mostApart = 3

// apart lists the names that deviate, in a sentence.
func (r Realised) apart() string {
	if len(r.Apart) == 0 {
		return ""
	}
	var list []string
	for _, a := range r.Apart[:min(len(r.Apart), mostApart)] {
		list = append(list, fmt.Sprintf("%s of %s, %s: said %.2f, ran %.2f (%.2f to %.2f)", a.Name, a.User,
			several(a.GPUs, "GPU"), a.Said, a.Ran, a.Ran/a.Within, float64(a.Ran*a.Within)))
	}
	if more := len(r.Apart) - len(list); more > 0 {
		list = append(list, several(more, "other"))
	}
	return " Not as their profiles say, or with other work than before: " + strings.Join(list, "; ") + "."
}

// leftOut says which runs and names were left out, and why.
func (r Realised) leftOut() (words string) {
	if r.New > 0 {
		words = " Left out: " + several(r.New, "run") +
			fmt.Sprintf(" whose owners had fewer than %d of that name before.", fewest)
	}
	if r.Uneven > 0 {
		words += " Left out: " + several(r.Uneven, "name") + " whose runs differ too much by themselves."
	}
	if r.Drifting > 0 {
		words += " Left out: " + several(r.Drifting, "name") + " whose work changed while nothing else did."
	}
	if r.Short > 0 {
		words += " Left out: " + several(r.Short, "name") + " whose runs take less than two rounds."
	}
	return words
}

// several formats a count with a noun in the singular or plural.
func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
