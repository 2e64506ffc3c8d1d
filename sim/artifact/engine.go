package artifact

import (
	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// engine is a simulation under way. Jobs are numbered as they come out of the source; lists of jobs hold these numbers.
type engine struct {
	Config
	shape
	models  []models.Model
	classes [][]*class // by model, then by GPUs
	sizes   []int      // GPU counts of the classes, descending
	key     key

	// exact says that all amounts so far are short in binary. Then what is added and taken away leaves nothing behind,
	// in whatever order, so that the same jobs in the same order are placed in the same way. Otherwise every lease is
	// ended one by one.
	exact bool

	given   []trace.Job // what the source said of each job
	jobs    []job
	arrived int  // the first so many jobs
	drained bool // the source has no more
	missing int  // jobs of the window that are known and have not finished
	done    int  // jobs that have finished

	unsorted bool    // somebody has come or become urgent since the queue was sorted
	queue    []entry // arrived and not finished; sorted by the policy in each round
	strays   []entry // see reorder
	starve   float64 // nobody has waited since before this moment without being urgent
	alarm    bool    // somebody has become urgent in this round

	servers   []server
	free      int     // GPUs
	opening   int     // counts the times at which something became free, see wish
	parts     []part  // of the jobs that run, job by job
	allocated []int32 // who runs, in the order of allocation
	seen      []int32 // the beginning of the queue, as far as the allocator looked at it
	selected  []int32 // the jobs of the round, where it has some before anybody is given anything
	left      int     // GPUs that these leave over
	targets   []part  // see tune
	peers     []peer

	agenda  agenda
	ordered bool // the agenda is kept, because the order of equal events can be seen
	lastTie int  // the last job that arrives together with the one before it

	opt   optimizer
	use   vector // what is held in this round, over all servers
	turns int    // of the main loop
	diary diary
	run   outcome.Run
}

// job is what changes of a job.
type job struct {
	*class
	arrival  float64
	total    int64 // iterations
	executed int64 // those of the current round included
	prev     int64 // executed before the current round
	credit   int64 // iterations of the current round
	speed    float64
	attained float64 // seconds
	lastExec float64 // end of the last round in which it ran; negative: it never did
	first    float64 // beginning of the first; negative: it never ran
	finish   float64 // negative: not yet
	held     int     // the last round in which it ran
	starts   int
	urgent   bool // the artifact's priority
	// Where it is: parts[from:to] of the engine.
	from, to int
}

// since is when the job began to wait.
func (j *job) since() float64 {
	if j.lastExec == never {
		return j.arrival
	}
	return j.lastExec
}

const never = -1

// progress credits one whole round, at its beginning, as the artifact does. What does not fill an iteration is lost.
func (j *job) progress(round float64, iterations int64) {
	j.attained += round
	j.prev = j.executed
	j.credit = iterations
	j.executed += min(iterations, j.total-j.executed)
}

// over says that the last iteration has been credited.
func (j *job) over() bool { return j.executed >= j.total }

// server is what is left of one server.
type server struct {
	used vector // the network is never used
	left vector // the capacity less what is used
	free int    // GPUs
	jobs []int32
}

// part is what a job has on one server.
type part struct {
	server, gpus int
	last         bool // they are the last free ones of the server, not the first
	held         vector
}
