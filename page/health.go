package page

import (
	"time"
)

// Trouble is something that is not as it should be, and what can be done about it. All texts may repeat what Slurm or
// users wrote.
type Trouble struct {
	What   string
	Remedy string // empty: nothing needs to be done
	Job    int    // 0: it is of no one job
	At     time.Time
	Until  time.Time // when it was seen last; zero: it was seen once
	Times  int       // 0 counts as 1
}

// Checkup is how the daemon does.
type Checkup struct {
	Health
	Version string
	Round   int // the last one that is kept; 0: none
	Began   time.Time
	Shadow  bool
	Now     []Trouble // as of the last round
	Past    []Trouble // rounds that failed, the newest first
}

// checkup is what the page shows of it.
type checkup struct {
	Checkup
	Ago  time.Duration
	More int // troubles that are left out
}

func checkupOf(c Checkup, now time.Time) checkup {
	page := checkup{Checkup: c, Ago: now.Sub(c.Began)}
	page.Now, page.More = first(c.Now)
	page.Past, _ = first(c.Past)
	return page
}
