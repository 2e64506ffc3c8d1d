package policy

import (
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// board is the working state of one round: who sits where with how much, and what is left. It is laid from a snapshot,
// which it never changes, and read off into a Plan. Jobs are numbered by ID and servers by name, so that the order in
// which a snapshot lists them cannot be seen in a plan.
type board struct {
	c       *Cluster
	alloc   Allocator
	jobs    []*Job              // ascending in ID
	beside  []*Job              // of these no seats: they share a GPU with one that leads, and only turns know them
	ids     []int               // of the jobs
	servers []server            // ascending in name
	seats   []seat              // of each job
	order   []int               // jobs in turn
	rank    []int               // the turn of each job
	stake   func(i int) float64 // of the policy
	topology
	past
	menus menus

	now         *shelf // open servers by the GPUs that are free now
	maybe       *shelf // open servers by the GPUs that are free once every job that may be displaced has gone
	closed      set    // servers on which no job may be started
	roomy       set    // servers with more cores left than go with one GPU
	uncontested set    // servers that no job could use which waits for GPUs

	round    int          // counts up, so that what belongs to another round is known for it
	stops    int          // running jobs that may still be stopped in this round
	freed    int          // how often somebody has given something back
	filled   int          // how often that was when those who wait were last offered it
	limit    limit        // what kept the job whose turn it is from taking another's place
	tail     int          // nobody is loose from this turn on
	reserved *reservation // nodes kept free for a job that has waited too long

	stopped []int // running jobs that do not go on as they were, and some that were let go on
	started []int // jobs whose size is free to choose, and some that were such
	stirred set   // servers where they are or were
	grown   set   // servers on which nobody gains by growing, as they stand
	traded  set   // servers on which nobody gains by a trade, as they stand
	market  market

	seasons   seasons
	purses    []purse   // of the cluster's quotas
	idle      int       // GPUs that are free on open servers
	called    int       // GPUs of unmanaged jobs for which loans are called back
	interest  *interest // in free GPUs; nil until it is asked for
	stranded  int       // GPUs that are free but cannot be given their proportional share
	mayStrand int       // how many jobs that cannot be asked to give back may strand

	scratch
}

// scratch is memory that is used again. Nothing in it outlives what it is named after.
type scratch struct {
	named []*Node    // setUp: ascending in name
	line  line       // takeTurns
	plans []clearing // makeRoom
	seen  set        // lastFirst
	asked []shrink   // able
	calls []int      // lenders
	trial []shrink   // bestTrade
	late  []int      // findOverdue

	tenures struct {
		round int
		of    []tenure
	}
}

// server is a node during the round.
type server struct {
	*Node
	shape int         // equal for equal nodes
	model int         // the smallest of those that are equal to a gang, see modelFor
	share gres.Vector // the proportional share of one GPU
	free  gres.Vector // what nobody holds who is settled
	loose gres.Vector // what running jobs hold that have not had their turn and may be displaced
	// wished is what the jobs that start here would like beyond the least that they were given.
	wished  gres.Vector
	foreign gres.Vector // see Node
	lost    int         // see stranded
	idle    int         // GPUs that are free, if it is open
	jobs    []int       // those on it that are not fixed, ascending
	// lenders are fixed to it and can be asked for what they were lent, ascending
	lenders  []int
	withheld gres.Vector // what is kept for jobs that are not of the plan
}

// open is what can be given away without touching anybody.
func (s *server) open() gres.Vector { return s.free.Minus(s.loose) }

// standing says how a job stands during the round.
type standing uint8

const (
	waits standing = iota // not granted, so far
	fixed                 // running, not to be touched
	loose                 // running, its turn has not come
	kept                  // running, stays where it is; with another size if it was stopped
	fresh                 // granted, and started or restarted: its size is free to choose
)

// limit is what keeps a job from taking the place of others.
type limit uint8

const (
	none    limit = iota
	byRule        // the rules do not allow to stop more
	byCost        // the restarts would cost more than the place is worth
	byQuota       // its quotas leave it nothing, whatever servers have left
	limits
)

// seat is how one job stands and what it has been given.
type seat struct {
	class    *jobClass
	menu     *menu       // of the first of its servers
	told     *answer     // why it waits or was stopped; nil: nothing
	servers  []int       // ascending
	size     gres.Vector // on each server
	gain     float64
	was      float64 // the speed of a running job as the round found it
	standing standing
	limit    limit         // of a job that waits
	stopped  bool          // a running job that does not go on as it was
	cleared  bool          // others were stopped so that it fits just here
	overdue  bool          // see findOverdue
	key      float64       // by which the policy orders it, whether it is overdue or not
	barred   bool          // this and the following of a running job, see standsAs
	left     time.Duration // see remaining
	earned   bool          // see hasEarned
	restart  time.Duration
}

// occupy books the seat of job i on its servers.
func (b *board) occupy(i int) { b.book(i, 1) }

// vacate takes the booking back.
func (b *board) vacate(i int) { b.book(i, -1) }

func (b *board) book(i, sign int) {
	s := &b.seats[i]
	held := s.size.Times(sign)
	if len(s.class.quotas) > 0 && len(s.servers) > 0 {
		b.charge(i, billFor(len(s.servers), s.size), sign)
	}
	for _, n := range s.servers {
		sv := &b.servers[n]
		if s.standing == loose {
			sv.loose = sv.loose.Plus(held)
		} else {
			sv.free = sv.free.Minus(held)
		}
		b.count(sv)
		b.list(sv, i, sign)
		b.reshelve(n)
		b.disturbed(n)
	}
}

// count keeps the sums over the servers.
func (b *board) count(sv *server) {
	b.stranded, b.idle = b.stranded-sv.lost, b.idle-sv.idle
	sv.lost, sv.idle = sv.stranded(), 0
	if sv.Closed == "" {
		sv.idle = max(0, sv.open().GPUs)
	}
	b.stranded, b.idle = b.stranded+sv.lost, b.idle+sv.idle
}

// disturbed notes that server n does not stand as it did, nor, for gangs across it, their other servers.
func (b *board) disturbed(n int) {
	b.unsettled(n)
	for _, i := range b.servers[n].jobs {
		if servers := b.seats[i].servers; len(servers) > 1 {
			for _, m := range servers {
				b.unsettled(m)
			}
		}
	}
}

// unsettled forgets what was looked for in vain on server n.
func (b *board) unsettled(n int) {
	b.grown.drop(n)
	b.traded.drop(n)
	b.market.stamps[n]++
	b.market.still = false
}

// list keeps the server's list of jobs that are not fixed to it.
func (b *board) list(sv *server, i, sign int) {
	at, listed := slices.BinarySearch(sv.jobs, i)
	switch {
	case b.seats[i].standing == fixed:
	case sign > 0 && !listed:
		sv.jobs = slices.Insert(sv.jobs, at, i)
	case sign < 0 && listed:
		sv.jobs = slices.Delete(sv.jobs, at, at+1)
	}
}

func (b *board) reshelve(n int) {
	sv := &b.servers[n]
	if sv.Closed != "" {
		return
	}
	b.now.put(n, sv.open().GPUs)
	b.maybe.put(n, sv.free.GPUs)
	if sv.open().Minus(sv.wished).CPUs > sv.share.CPUs {
		b.roomy.add(n)
	} else {
		b.roomy.drop(n)
	}
}

// reseat changes the standing and size of job i where it sits.
func (b *board) reseat(i int, to standing, o sensitivity.Option) {
	b.vacate(i)
	s := &b.seats[i]
	s.standing, s.size, s.gain = to, o.Size, o.Gain
	b.occupy(i)
	if to == fresh {
		b.stir(i)
	}
}

// keep lets running job i, whose turn it is, stay as it is: nobody may displace it any more.
func (b *board) keep(i int) {
	s := &b.seats[i]
	s.standing = kept
	for _, n := range s.servers {
		sv := &b.servers[n]
		sv.loose, sv.free = sv.loose.Minus(s.size), sv.free.Minus(s.size)
		if sv.Closed == "" {
			b.maybe.put(n, sv.free.GPUs)
		}
	}
}

// stir notes that the size of job i is free to choose.
func (b *board) stir(i int) {
	b.started = append(b.started, i)
	for _, n := range b.seats[i].servers {
		b.stirred.add(n)
	}
}

// seatAt puts job i, which has no seat, on servers with size o.
func (b *board) seatAt(i int, servers []int, o sensitivity.Option) {
	s := &b.seats[i]
	s.standing, s.servers, s.size, s.gain = fresh, servers, o.Size, o.Gain
	s.menu = b.menu(s.class, o.Size.GPUs, servers[0])
	b.occupy(i)
	b.stir(i)
}

// unseat takes job i off its servers.
func (b *board) unseat(i int) {
	b.vacate(i)
	s := &b.seats[i]
	s.standing, s.servers = waits, nil
}

// stop notes that running job i does not go on as it was, and why.
func (b *board) stop(i int, reason Reason, why string) {
	s := &b.seats[i]
	if !s.stopped {
		s.stopped = true
		b.stops--
		b.stopped = append(b.stopped, i)
	}
	s.told = &answer{reason, why}
	b.freed++
}

// stranded counts the free GPUs of a server that cannot be given their proportional share of what is free beside them.
func (s *server) stranded() int {
	open := s.open()
	if open.GPUs <= 0 || s.share.CPUs == 0 || s.Closed != "" {
		return 0
	}
	usable := min(open.GPUs, max(open.CPUs, 0)/s.share.CPUs)
	if s.share.Memory > 0 {
		usable = min(usable, int(max(open.Memory, 0)/s.share.Memory))
	}
	return open.GPUs - usable
}

// restartCost is what one restart of running job i costs, in GPU-seconds at the proportional speed: nothing if it
// restarts anyway.
func (b *board) restartCost(i int) float64 {
	if !b.restarts(i) {
		return 0
	}
	return worth(b.jobs[i], b.seats[i].speed(), b.jobs[i].restartLoss(b.c.Now))
}

// speed is the throughput of a seat relative to that with the share of the reference server, in which seats on all
// servers are compared.
func (s *seat) speed() float64 {
	if s.menu == nil {
		return s.gain
	}
	return s.gain * s.menu.unit
}

// growing says that a running job restarts to be faster.
func (s *seat) growing() bool { return s.stopped && s.told.reason == Grows }

// worth is what running for d with a speed is worth, in GPU-seconds at the proportional speed of the reference server.
func worth(j *Job, speed float64, d time.Duration) float64 {
	return float64(speed * d.Seconds() * float64(j.GPUs))
}
