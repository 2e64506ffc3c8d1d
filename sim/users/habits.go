package users

// Habits are what of a site's users join in. The zero value is all of them, with checkpoints.
type Habits struct {
	Outside float64 // part of the jobs that does not opt in, from 0 to 1
	Unsaved float64 // part of the jobs that has no checkpoint, from 0 to 1
	// Limited is the part of the jobs, from 0 to 1, whose users declare no length and have the time limit of the log,
	// where that has one.
	Limited float64
	// Sharing is the part of the jobs of one GPU, from 0 to 1, whose users say that they may share it. Half of them are
	// important.
	Sharing float64
	Seed    int64
}

// What is drawn of a job, each by itself.
const (
	drawsOptIn = iota + 1
	drawsCheckpoint
	drawsLimit
	drawsShare
	drawsClass
)

// OptsIn says whether a job is the daemon's to schedule. A job that does so does so at any larger part, too.
func (h Habits) OptsIn(job int) bool { return h.draw(job, drawsOptIn) >= h.Outside }

// Saves says whether a job has a checkpoint. It has nothing to do with whether it opts in.
func (h Habits) Saves(job int) bool { return h.draw(job, drawsCheckpoint) >= h.Unsaved }

// Declares says whether a job's user says how long it is. It has nothing to do with the others.
func (h Habits) Declares(job int) bool { return h.draw(job, drawsLimit) >= h.Limited }

// Shares says whether a job of one GPU may share it. Whoever does so does so at any larger part, too.
func (h Habits) Shares(job int) bool { return h.draw(job, drawsShare) < h.Sharing }

// Important says whether a job is so where it shares a GPU.
func (h Habits) Important(job int) bool { return h.draw(job, drawsClass) < 0.5 }

// draw is a number from 0 to 1, 1 excluded, that follows from the seed and the job alone: whatever else is drawn, and
// in which order jobs come, makes no difference. It is splitmix64.
func (h Habits) draw(job int, what uint64) float64 {
	const step = 0x9e3779b97f4a7c15
	x := uint64(0)
	for _, word := range []uint64{uint64(h.Seed), uint64(job), what} {
		x = mixed(x + step + word)
	}
	return float64(x>>11) / (1 << 53)
}

func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
