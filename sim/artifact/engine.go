package artifact

import (
	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// engine is the state of a simulation. Jobs are numbered in the order of the source; lists of jobs contain these
// numbers.
type engine struct {
	Config
	shape
	models  []models.Model
	classes [][]*class // by model, each sorted by GPUs
	sizes   []int      // the GPU counts of the classes, descending
	key     key

	// exact says that all amounts so far have few binary digits. Then adding and subtracting them leaves no residues in
	// any order, so the same jobs in the same order are always placed in the same way. Otherwise each lease is ended
	// individually.
	exact bool

	given       []trace.Job // the jobs as the source described them
	jobs        []job
	arrived     int  // how many jobs have arrived; they are the first ones
	sourceEmpty bool // the source has no more jobs
	missing     int  // jobs of the window that are known and have not finished
	done        int  // finished jobs

	unsorted     bool    // a job has arrived or become urgent since the queue was last sorted
	queue        []entry // arrived and unfinished jobs; sorted by the policy in each round
	strays       []entry // see reorder
	oldestWait   float64 // no job that is not urgent has waited since before this time
	becameUrgent bool    // a job has become urgent in this round

	servers      []server
	free         int     // number of free GPUs
	releaseCount int     // counts the times at which resources were freed; see request
	parts        []part  // of the running jobs, job by job
	allocated    []int32 // the running jobs, in the order of allocation
	seen         []int32 // the beginning of the queue, as far as the allocator has gone through it
	selected     []int32 // the jobs selected for the round, if the policy or allocator selects before it places
	left         int     // GPUs that the selected jobs leave free
	targets      []part  // see chooseTargets
	peers        []peer  // see rankPeers

	agenda  agenda
	ordered bool // the agenda is kept, because the order of equal events can be visible
	lastTie int  // the last job that arrives at the same time as the one before it

	opt       optimizer
	use       vector // what jobs hold in this round, over all servers
	turns     int    // iterations of the main loop
	recording recorder
	run       outcome.Run
}

// job is the changing state of a job.
type job struct {
	*class
	arrival   float64
	total     int64 // iterations
	executed  int64 // including those of the current round
	prev      int64 // executed before the current round
	credit    int64 // iterations of the current round
	speed     float64
	attained  float64 // seconds
	lastExec  float64 // end of the last round in which it ran; negative: it never ran
	first     float64 // beginning of the first round in which it ran; negative: it never ran
	finish    float64 // negative: not finished
	lastRound int     // number of the last round in which it ran
	starts    int
	urgent    bool // the artifact's priority flag
	// The job's place is parts[from:to] of the engine.
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

// progress credits a whole round at its beginning, as the artifact does. Time that does not complete an iteration is
// lost.
func (j *job) progress(round float64, iterations int64) {
	j.attained += round
	j.prev = j.executed
	j.credit = iterations
	j.executed += min(iterations, j.total-j.executed)
}

// isDone says whether the last iteration has been credited.
func (j *job) isDone() bool { return j.executed >= j.total }

// server is the state of one server.
type server struct {
	used vector // network is never counted
	left vector // the capacity minus what is used
	free int    // number of free GPUs
	jobs []int32
}

// part is what a job has on one server.
type part struct {
	server, gpus int
	last         bool // its GPUs are the last free ones of the server instead of the first
	held         vector
}
