package page

import (
	"time"
)

// Trouble is a fault, with its remedy. All texts may contain what Slurm or users wrote.
type Trouble struct {
	What   string
	Remedy string // empty: nothing has to be done
	Job    int    // 0: it does not concern one job
	At     time.Time
	Until  time.Time // when it was last seen; zero: it was seen once
	Times  int       // how often; 0 counts as 1
}

// Checkup is the health of the daemon.
type Checkup struct {
	Health
	Version string
	Round   int // the last stored one; 0: none
	Began   time.Time
	Shadow  bool
	Now     []Trouble // as of the last round
	Past    []Trouble // failed rounds, the newest first
}

// checkup is the data of the health page.
type checkup struct {
	Checkup
	Ago  time.Duration
	More int // faults that are left out
}

func checkupOf(c Checkup, now time.Time) checkup {
	page := checkup{Checkup: c, Ago: now.Sub(c.Began)}
	page.Now, page.More = first(c.Now)
	page.Past, _ = first(c.Past)
	return page
}
