package users

// Habits says which features the simulated users use. In the zero value all jobs opt in and have checkpoints, and no
// job shares a GPU.
type Habits struct {
	Outside float64 // part of the jobs that do not opt in, 0 to 1
	Unsaved float64 // part of the jobs without a checkpoint, 0 to 1
	// Limited is the part of the jobs, 0 to 1, whose users declare no length and keep the time limit of the log, if the
	// log has one.
	Limited float64
	// Sharing is the part of the jobs with one GPU, 0 to 1, whose users allow sharing it. Half of these jobs have class
	// high.
	Sharing float64
	Seed    int64
}

// The independent draws for a job. The numbers go into the draw, so a new one belongs at the end: otherwise the same
// seed would choose other jobs.
const (
	drawsOptIn = iota + 1
	drawsCheckpoint
	drawsLimit
	drawsShare
	drawsClass
)

// OptsIn says whether a job has a directive. A job that opts in also does so if Outside is smaller.
func (h Habits) OptsIn(job int) bool { return h.draw(job, drawsOptIn) >= h.Outside }

// Saves says whether a job has a checkpoint, independent of whether it opts in.
func (h Habits) Saves(job int) bool { return h.draw(job, drawsCheckpoint) >= h.Unsaved }

// Declares says whether a job's user declares its length, independent of the other draws.
func (h Habits) Declares(job int) bool { return h.draw(job, drawsLimit) >= h.Limited }

// Shares says whether a job with one GPU may share it. A job that shares also does so if Sharing is larger.
func (h Habits) Shares(job int) bool { return h.draw(job, drawsShare) < h.Sharing }

// Important says whether a job has class high on a shared GPU.
func (h Habits) Important(job int) bool { return h.draw(job, drawsClass) < 0.5 }

// draw returns a number from 0 up to but not including 1 that depends only on the seed, the job and what is drawn (one
// of the constants above), not on other draws or the order of jobs. So all schedules of an experiment have the same
// users. It is splitmix64.
func (h Habits) draw(job int, what uint64) float64 {
	const step = 0x9e3779b97f4a7c15
	x := uint64(0)
	for _, word := range []uint64{uint64(h.Seed), uint64(job), what} {
		x = mixed(x + step + word)
	}
	return float64(x>>11) / (1 << 53)
}

// mixed is the mixing function of splitmix64.
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
