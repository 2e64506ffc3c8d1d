package page

import "time"

// Health says whether the daemon works, and what is wrong. All texts may contain what Slurm or users wrote.
type Health struct {
	Well    bool
	Says    string
	Version string
	Now     []Trouble // what is not as it should be, as of the last round
	Past    []Trouble // rounds that failed since the daemon started, the newest first
}

// Trouble is a fault, with its remedy.
type Trouble struct {
	What   string
	Remedy string // empty: nothing has to be done
	Job    int    // 0: it does not concern one job
	At     time.Time
	Until  time.Time // when it was last seen; zero: it was seen once
	Times  int       // how often; 0 counts as 1
}
