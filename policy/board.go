package policy

import (
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// board is the working state of one round: which job is where with how much, and what is left. It is set up from a
// snapshot, which it never changes, and read off into a Plan. Jobs are numbered by ID and servers by name, so that the
// order in which a snapshot lists them cannot be seen in a plan.
type board struct {
	c     *Cluster  // the snapshot
	alloc Allocator // the allocator of this round
	jobs  []*Job    // ascending in ID
	// hiddenJobs are jobs that share a GPU with their leader. They have no state here; only the policy's order counts
	// them.
	hiddenJobs []*Job
	ids        []int               // of jobs
	servers    []server            // ascending in name
	states     []jobState          // of each job
	order      []int               // jobs, in the policy's order
	rank       []int               // of each job, its position in order
	stake      func(i int) float64 // see Policy.stake
	topology
	past
	menus menus // of all classes, kept from round to round

	byFreeGPUs        *levelIndex // open servers by the GPUs that are free now
	byReclaimableGPUs *levelIndex // open servers by the GPUs that are free once every displaceable job has left
	closed            serverSet   // servers on which no job may be started
	roomyServers      serverSet   // servers with more cores left than go with one GPU
	uncontested       serverSet   // servers that no job waiting for GPUs could use

	round          int        // counts up, so that what was cached in another round is recognised
	stops          int        // running jobs that may still be stopped in this round
	freedCount     int        // how often something was freed
	lastBackfill   int        // freedCount at the last backfill
	limit          limit      // what kept the job whose turn it is from taking another job's place
	preemptibleEnd int        // no job is preemptible from this position of order on
	keptNodes      *keptNodes // nodes kept for a job that has waited longer than rules.patience

	stopped        []int     // running jobs that stop or change, and some that go on after all
	started        []int     // jobs whose size is free to choose, and some whose size was
	stirredServers serverSet // servers on which those are or were
	grown          serverSet // servers on which no job gains by growing, as they stand
	noTradeGains   serverSet // servers on which no job gains by a trade, as they stand
	market         market    // servers as partners for exchanges, see swap

	reservations   roundReservations // of Slurm, as far as they concern this round
	balances       []quotaBalance    // what is left of the cluster's quotas
	idle           int               // GPUs that are free on open servers
	calledBackGPUs int               // GPUs of unmanaged jobs for which this round calls loans back
	interest       *gpuDemand        // demand for free GPUs; nil until first used
	stranded       int               // GPUs that are free but cannot be given their proportional share
	maxStranded    int               // how many GPUs jobs that cannot give back may leave stranded

	scratch
}

// scratch is reused memory. A result in it is valid until the next call of the function that is named beside it.
type scratch struct {
	nodesByName    []*Node          // setUpServers: ascending in name
	line           jobSorter        // orderJobs
	plans          []preemptionPlan // makeRoom
	visitedServers serverSet        // visitLastFirst
	shrinkList     []shrink         // listShrinks
	borrowerList   []int            // borrowersOn
	tradeShrinks   []shrink         // bestTrade
	overdueList    []int            // findOverdue

	tenures struct { // pinnedByServer: valid for the round
		round int
		of    []pinnedJobs
	}
}

// server is the state of a node during the round.
type server struct {
	*Node
	shape       int         // equal for servers with equal totals and GPU types
	model       int         // the smallest of the servers that are equal to it for a gang, see findModels
	share       gres.Vector // the proportional share of one GPU
	free        gres.Vector // what no fixed, kept or starting job holds; it includes preemptible
	preemptible gres.Vector // what running jobs hold whose turn has not come and that may be displaced
	// wishedBeyond is what the jobs that start here would get beyond their least sizes if there were room; only while
	// they are arranged (arrangement.go), else zero.
	wishedBeyond gres.Vector
	foreign      gres.Vector // Node.Foreign, kept to be compared in the next round
	strandedPart int         // its part of board.stranded, see server.stranded
	idle         int         // free GPUs; 0 if it is closed
	jobs         []int       // numbers of the jobs on it that are not fixed, ascending
	// borrowers are the fixed jobs on it that can be asked to give back what they were lent, ascending.
	borrowers []int
	withheld  gres.Vector // what is kept for unmanaged jobs
}

// available is what can be given away without touching any job.
func (s *server) available() gres.Vector { return s.free.Minus(s.preemptible) }

// runStatus is how a job stands during the round.
type runStatus uint8

const (
	statusWaiting     runStatus = iota // not granted so far
	statusFixed                        // running, not to be touched, but it may be asked for loans (server.borrowers)
	statusPreemptible                  // running, its turn has not come: it may be displaced
	statusKept                         // running, stays on its servers; with another size if it was stopped
	statusStarting                     // granted, and started or restarted: its size is free to choose
)

// limit is what keeps a job from taking the place of others.
type limit uint8

const (
	noLimit    limit = iota
	byRule           // the rules allow no more stops
	byCost           // the restarts would cost more than the place is worth
	byQuota          // its quotas leave it nothing, whatever is free on servers
	limitCount       // how many limits there are
)

// jobState is the state of one job during the round: how it stands, where, and what it has been given.
type jobState struct {
	class          *jobClass   // the jobs that can be placed in the same way
	menu           *menu       // on the first of its servers
	answer         *answer     // why it waits or was stopped; nil: not told
	servers        []int       // ascending
	size           gres.Vector // on each server
	gain           float64     // throughput relative to the proportional share of the first of its servers
	speedBefore    float64     // speed of a running job before the round
	status         runStatus
	limit          limit   // what kept a waiting job from the place of others
	stopped        bool    // a running job that stops or restarts
	onClearedPlace bool    // other jobs were stopped so that it fits exactly here
	overdue        bool    // see findOverdue
	key            float64 // policy key, whether it is overdue or not
	// The rest is of a running job, and is compared with the last round by standsAs.
	isBarred bool          // Job.Barred names a reason
	timeLeft time.Duration // see remaining
	earned   bool          // see hasEarned
	restart  time.Duration // Job.Restart
}

// occupy books what job i holds on its servers and in its quotas.
func (b *board) occupy(i int) { b.bookJob(i, 1) }

// vacate undoes occupy.
func (b *board) vacate(i int) { b.bookJob(i, -1) }

// bookJob adds what job i holds to what its servers and quotas have given away, or takes it off with sign -1, and
// updates the sums and indexes that depend on it. A job without servers holds nothing, so it does no harm that a gang
// is taken off once for each server that it has to leave. What a preemptible job holds counts as free, so only the
// server's preemptible amount changes by it.
func (b *board) bookJob(i, sign int) {
	s := &b.states[i]
	held := s.size.Times(sign)
	if len(s.class.quotas) > 0 && len(s.servers) > 0 {
		b.charge(i, quotaUseFor(len(s.servers), s.size), sign)
	}
	for _, n := range s.servers {
		sv := &b.servers[n]
		if s.status == statusPreemptible {
			sv.preemptible = sv.preemptible.Plus(held)
		} else {
			sv.free = sv.free.Minus(held)
		}
		b.updateSums(sv)
		b.listJob(sv, i, sign)
		b.reindex(n)
		b.noteDisturbed(n)
	}
}

// updateSums updates the board's numbers of stranded and idle GPUs after a change of server sv, so that no other server
// has to be looked at.
func (b *board) updateSums(sv *server) {
	b.stranded, b.idle = b.stranded-sv.strandedPart, b.idle-sv.idle
	sv.strandedPart, sv.idle = sv.stranded(), 0
	if sv.Closed == "" {
		sv.idle = max(0, sv.available().GPUs)
	}
	b.stranded, b.idle = b.stranded+sv.strandedPart, b.idle+sv.idle
}

// noteDisturbed notes that server n has changed, so that searches for a gain there are made again. The other servers of
// gangs on it count as changed, too: a gang can have more only where all its servers have it.
func (b *board) noteDisturbed(n int) {
	b.forgetSearches(n)
	for _, i := range b.servers[n].jobs {
		if servers := b.states[i].servers; len(servers) > 1 {
			for _, m := range servers {
				b.forgetSearches(m)
			}
		}
	}
}

// forgetSearches forgets what was searched for in vain on server n, so that it is searched for again.
func (b *board) forgetSearches(n int) {
	b.grown.removeOne(n)
	b.noTradeGains.removeOne(n)
	b.market.stamps[n]++
	b.market.searchedInVain = false
}

// listJob adds job i to the server's list of jobs that are not fixed, or with sign -1 removes it. A fixed job is in no
// list.
func (b *board) listJob(sv *server, i, sign int) {
	at, listed := slices.BinarySearch(sv.jobs, i)
	switch {
	case b.states[i].status == statusFixed:
	case sign > 0 && !listed:
		sv.jobs = slices.Insert(sv.jobs, at, i)
	case sign < 0 && listed:
		sv.jobs = slices.Delete(sv.jobs, at, at+1)
	}
}

// reindex updates the indexes in which searches look for servers, after a change of server n: by the GPUs that are free
// now (byFreeGPUs), and by those that are free once every displaceable job has left (byReclaimableGPUs). It also notes
// whether more cores are left than go with one GPU (roomyServers). Closed servers are in none of them.
func (b *board) reindex(n int) {
	sv := &b.servers[n]
	if sv.Closed != "" {
		return
	}
	b.byFreeGPUs.setLevel(n, sv.available().GPUs)
	b.byReclaimableGPUs.setLevel(n, sv.free.GPUs)
	if sv.available().Minus(sv.wishedBeyond).CPUs > sv.share.CPUs {
		b.roomyServers.add(n)
	} else {
		b.roomyServers.removeOne(n)
	}
}

// setSize changes the status and size of job i on its servers. A job that starts with it takes part when what is left
// is handed out (noteSizeFree).
func (b *board) setSize(i int, to runStatus, o sensitivity.Option) {
	b.vacate(i)
	s := &b.states[i]
	s.status, s.size, s.gain = to, o.Size, o.Gain
	b.occupy(i)
	if to == statusStarting {
		b.noteSizeFree(i)
	}
}

// keepRunning lets running job i go on: its turn has come, and no later job may displace it any more. What is available
// on its servers stays the same, since preemptible and free shrink alike; only the index of displaceable GPUs changes.
func (b *board) keepRunning(i int) {
	s := &b.states[i]
	s.status = statusKept
	for _, n := range s.servers {
		sv := &b.servers[n]
		sv.preemptible, sv.free = sv.preemptible.Minus(s.size), sv.free.Minus(s.size)
		if sv.Closed == "" {
			b.byReclaimableGPUs.setLevel(n, sv.free.GPUs)
		}
	}
}

// noteSizeFree notes that the size of job i is free to choose, since it starts or restarts anyway. When all jobs have
// had their turn, what is left on its servers is handed out to such jobs first (spreadLeft).
func (b *board) noteSizeFree(i int) {
	b.started = append(b.started, i)
	for _, n := range b.states[i].servers {
		b.stirredServers.add(n)
	}
}

// placeOn places job i, which has no place, on servers with size o on each. Room and quotas must have been checked.
func (b *board) placeOn(i int, servers []int, o sensitivity.Option) {
	s := &b.states[i]
	s.status, s.servers, s.size, s.gain = statusStarting, servers, o.Size, o.Gain
	s.menu = b.menu(s.class, o.Size.GPUs, servers[0])
	b.occupy(i)
	b.noteSizeFree(i)
}

// takeOff takes job i off its servers; it counts as waiting until it is placed again. A job without servers is left as
// it is.
func (b *board) takeOff(i int) {
	b.vacate(i)
	s := &b.states[i]
	s.status, s.servers = statusWaiting, nil
}

// stop notes that running job i stops or restarts, and why. The first time in a round, that uses up one of the stops
// that the rules allow. Its place, or a part of its size, becomes free by that, so searches for room that failed before
// may succeed now (freedCount).
func (b *board) stop(i int, reason Reason, why string) {
	s := &b.states[i]
	if !s.stopped {
		s.stopped = true
		b.stops--
		b.stopped = append(b.stopped, i)
	}
	s.answer = &answer{reason, why}
	b.freedCount++
}

// stranded counts the free GPUs of a server that cannot be given their proportional share from its free cores and
// memory. Jobs that cannot give back may leave only a limited number of GPUs so (mayTakeMore). It is 0 for a closed
// server.
func (s *server) stranded() int {
	open := s.available()
	if open.GPUs <= 0 || s.share.CPUs == 0 || s.Closed != "" {
		return 0
	}
	usable := min(open.GPUs, max(open.CPUs, 0)/s.share.CPUs)
	if s.share.Memory > 0 {
		usable = min(usable, int(max(open.Memory, 0)/s.share.Memory))
	}
	return open.GPUs - usable
}

// restartCost is what one restart of running job i costs, in GPU-seconds at the proportional speed; 0 if it restarts
// anyway. A preemption is made only if the place is worth the sum of these costs (worthStopping).
func (b *board) restartCost(i int) float64 {
	if !b.needsRestart(i) {
		return 0
	}
	return worth(b.jobs[i], b.states[i].speed(), b.jobs[i].restartLoss(b.c.Now))
}

// speed is the throughput of a job relative to that with the share of the reference server, the unit in which jobs on
// different servers are compared. It is the gain for a job without menu, whose nodes have all left the cluster.
func (s *jobState) speed() float64 {
	if s.menu == nil {
		return s.gain
	}
	return s.gain * s.menu.unit
}

// growing reports that a running job restarts to be faster.
func (s *jobState) growing() bool { return s.stopped && s.answer.reason == Grows }

// worth is what running j for d at this speed is worth, in GPU-seconds at the proportional speed of the reference
// server.
func worth(j *Job, speed float64, d time.Duration) float64 {
	return float64(speed * d.Seconds() * float64(j.GPUs))
}
