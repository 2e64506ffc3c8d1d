package savings

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Run is a run that ended well, by the site's accounting, and what the ledger knows of it.
type Run struct {
	// Who stands for the owner, the job's name, its GPUs and what its profile is of: runs in which that is the same are
	// taken to do the same work.
	Who    string
	Before bool    // it held what its user asked for
	Speed  float64 // by its profile with what it held, relative to the proportional share; above 0
	Took   float64 // seconds, above 0
}

// Realised is what became of promised speeds, by how long runs took.
type Realised struct {
	Names  int `json:"names"`       // owners' job names that ran before and after
	Before int `json:"runs_before"` // their runs with what their users asked for,
	After  int `json:"runs_after"`  // and those with another speed by their profile, which were given it
	// Uneven are the names left out whose runs before took so different times that they tell nothing, and New the runs
	// after whose name ran too seldom before.
	Uneven int `json:"names_uneven"`
	New    int `json:"runs_new"`
	// Said is how many times as fast the latter ought to have been by their profiles, and Ran how many times as fast
	// they were. Within is the factor, either way, within which Ran is known: two standard errors.
	Said   float64 `json:"said"`
	Ran    float64 `json:"ran"`
	Within float64 `json:"within"`
}

const (
	fewest  = 3    // runs before: fewer do not tell how far they differ by themselves
	uneven  = 0.5  // standard deviation of the logarithm of the work of runs before: a factor of 1.6
	changed = 0.02 // of a speed: less is no promise that could be checked
)

// Realise holds the runs that were given other sizes against those of the same name before. Means are geometric: a run
// that takes twice as long weighs as much as one that takes half.
func Realise(runs []Run) Realised {
	var t realising
	names := map[string][]Run{}
	for _, run := range runs {
		names[run.Who] = append(names[run.Who], run)
	}
	for _, who := range slices.Sorted(maps.Keys(names)) {
		t.name(parted(names[who]))
	}
	if t.After > 0 {
		n := float64(t.After)
		t.Said, t.Ran, t.Within = math.Exp(t.said/n), math.Exp(t.ran/n), math.Exp(2*math.Sqrt(t.variance)/n)
	}
	return t.Realised
}

// realising is a comparison under way, with sums of logarithms over the runs after.
type realising struct {
	Realised
	said, ran, variance float64
}

// name takes the runs of one name.
func (t *realising) name(before, after []Run) {
	if len(before) < fewest {
		t.New += len(after)
		return
	}
	work, off := spreadOf(before, func(run Run) float64 { return math.Log(float64(run.Speed * run.Took)) })
	speed, _ := spreadOf(before, func(run Run) float64 { return math.Log(run.Speed) })
	after = slices.DeleteFunc(after, func(run Run) bool { return math.Abs(math.Log(run.Speed)-speed) < changed })
	switch {
	case len(after) == 0:
		return
	case off > uneven:
		t.Uneven++
		return
	}
	t.Names, t.Before, t.After = t.Names+1, t.Before+len(before), t.After+len(after)
	for _, run := range after {
		t.said += math.Log(run.Speed) - speed
		t.ran += work - speed - math.Log(run.Took)
	}
	// Each of them is off by itself, and all of them by what the mean before is off.
	n := float64(len(after))
	t.variance += float64(float64(off*off) * (n + float64(n*n)/float64(len(before))))
}

// parted are the runs before and after, of those that can be reckoned with.
func parted(runs []Run) (before, after []Run) {
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

// spreadOf is the mean and the standard deviation of a figure of at least two runs.
func spreadOf(runs []Run, of func(Run) float64) (mean, off float64) {
	n := float64(len(runs))
	for _, run := range runs {
		mean += of(run) / n
	}
	for _, run := range runs {
		d := of(run) - mean
		off += float64(d * d)
	}
	return mean, math.Sqrt(off / (n - 1))
}

// Checked says that there are enough runs to say something.
func (r Realised) Checked() bool { return r.After >= enough }

// Error is how far speeds were from what was said: -0.03 is 3 % slower.
func (r Realised) Error() float64 { return r.Ran/r.Said - 1 }

// Range is what is saved of the sums, at least and at most, if all speeds that were changed are as far from their
// profiles as those of the runs that could be compared.
func (r Realised) Range(s Sums) (low, high float64) {
	takes := (s.Changed - s.Saved) * r.Said / r.Ran
	return s.Changed - float64(takes*r.Within), s.Changed - takes/r.Within
}

// Words says what accounting has shown of the sums.
func (r Realised) Words(s Sums) string {
	if !r.Checked() {
		return fmt.Sprintf("By accounting it is not checked: of %d runs with other sizes than before, whose owners "+
			"ran the same name before, at least %d would say something.%s", r.After, enough, r.leftOut())
	}
	direction := "above"
	if r.Error() < 0 {
		direction = "below"
	}
	low, high := r.Range(s)
	return fmt.Sprintf("By accounting, %d runs of %s ought to have been %.2f times as fast as the %d before them, "+
		"by their profiles, and were %.2f times (%.2f to %.2f): %s %s. If all were, it is between %s and %s "+
		"GPU-hours.%s", r.After, several(r.Names, "name"), r.Said, r.Before, r.Ran, r.Ran/r.Within,
		float64(r.Ran*r.Within), percent(math.Abs(r.Error())), direction, grouped(low/hour), grouped(high/hour),
		r.leftOut())
}

// leftOut says which runs tell nothing.
func (r Realised) leftOut() (words string) {
	if r.New > 0 {
		words = " Left out: " + several(r.New, "run") +
			fmt.Sprintf(" whose owners had fewer than %d of that name before.", fewest)
	}
	if r.Uneven > 0 {
		words += " Left out: " + several(r.Uneven, "name") + " whose runs differ too much by themselves."
	}
	return words
}

func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
