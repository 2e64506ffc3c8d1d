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
	models  []models.Model // by ID, at the cluster's cores per GPU
	classes [][]*class     // by model, each sorted by GPUs
	sizes   []int          // the GPU counts of the classes, descending
	key     key            // the policy's; nil under FIFO

	// exact says that all amounts so far have few binary digits. Then adding and subtracting them leaves no residues in
	// any order, so the same jobs in the same order are always placed in the same way. Otherwise each job's parts are
	// subtracted one by one, because the residues decide what fits later.
	exact bool

	given              []trace.Job // the jobs as the source described them
	jobs               []job
	arrived            int  // how many jobs have arrived; they are the first ones
	sourceEmpty        bool // the source has no more jobs
	unfinishedInWindow int  // jobs of the window that have been read and have not finished
	done               int  // finished jobs

	unsorted     bool    // a job has arrived or become urgent since the queue was last sorted
	queue        []entry // arrived and unfinished jobs; sorted by the policy in each round
	outOfOrder   []entry // entries out of order, while reorder sorts the queue
	oldestWait   float64 // every job that is not urgent began to wait at this time or later, in seconds
	becameUrgent bool    // a job has become urgent in this round

	servers            []server
	free               int     // number of free GPUs
	releaseCount       int     // how often resources were freed; the cache of a request is valid for one value
	parts              []part  // of the running jobs, job by job
	allocated          []int32 // the running jobs, in the order of allocation
	considered         []int32 // the beginning of the queue: the jobs that the allocator has considered
	selected           []int32 // the jobs selected for the round, if the policy or allocator selects before it places
	freeAfterSelection int     // GPUs that the selected jobs leave free
	targets            []part  // servers on which tune makes room for a job
	peers              []peer  // jobs on one of these servers, which may be downgraded

	agenda    agenda // empty or outdated unless it is kept
	hasAgenda bool   // the agenda is kept, because the order of equal events can change the result
	lastTie   int    // the last job that arrives at the same time as the one before it

	opt       optimizer
	use       vector // what jobs hold in this round, over all servers
	turns     int    // iterations of the main loop
	recording recorder
	run       outcome.Run
}

// job is the changing state of a job.
type job struct {
	*class
	arrival        float64 // seconds
	total          int64   // iterations
	executed       int64   // including those of the current round
	executedBefore int64   // executed before the current round
	credit         int64   // iterations of the current round
	speed          float64 // relative to that with the share; 1 if it has only its share
	attained       float64 // seconds in which it ran
	lastExec       float64 // end of the last round in which it ran, in seconds; negative: it never ran
	firstStart     float64 // beginning of the first round in which it ran, in seconds; negative: it never ran
	finish         float64 // seconds; negative: not finished
	lastRound      int     // number of the last round in which it ran
	starts         int     // rounds in which it ran although it did not in the one before
	urgent         bool    // the artifact's priority flag
	// The job's place is parts[from:to] of the engine.
	from, to int
}

// waitingSince is when the job began to wait, in seconds: its arrival, or the end of the last round in which it ran. It
// decides when the job becomes urgent.
func (j *job) waitingSince() float64 {
	if j.lastExec == never {
		return j.arrival
	}
	return j.lastExec
}

// never is the time or round of what has not happened yet.
const never = -1

// progress credits a whole round (in seconds) and its iterations at the round's beginning, as the artifact does,
// although the job may end within it. It remembers the iterations before the round, so that a downgrade can take the
// credit back.
func (j *job) progress(round float64, iterations int64) {
	j.attained += round
	j.executedBefore = j.executed
	j.credit = iterations
	j.executed += min(iterations, j.total-j.executed)
}

// isDone says whether the last iteration has been credited.
func (j *job) isDone() bool { return j.executed >= j.total }

// server is the state of one server.
type server struct {
	used vector  // network is never counted
	left vector  // the capacity minus what is used
	free int     // number of free GPUs
	jobs []int32 // on it; tune sorts them
}

// part is what a job has on one server.
type part struct {
	server, gpus int
	last         bool   // its GPUs are the last free ones of the server instead of the first
	held         vector // its amounts
}
