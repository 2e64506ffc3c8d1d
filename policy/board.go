package policy

import (
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// board is the working state of one round: who sits where with how much, and what is left. It is laid from a snapshot, which
// it never changes, and read off into a Plan. Jobs are numbered by ID and servers by name, so that the order in which a snapshot
// lists them cannot be seen in a plan.
type board struct {
	c       *Cluster
	alloc   Allocator
	jobs    []*Job   // ascending in ID
	servers []server // ascending in name
	seats   []seat   // of each job
	order   []int    // jobs in turn
	rank    []int    // the turn of each job
	hall
	menus menus
	past  past

	now   *shelf // open servers by the GPUs that are free now
	maybe *shelf // open servers by the GPUs that are free once every job that may be displaced has gone
	roomy set    // servers with more cores left than go with one GPU
	calm  set    // servers that no job could use which waits for GPUs

	closed set // servers on which no job may be started

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

	grown  set   // servers on which nobody gains by growing, as they stand
	traded set   // servers on which nobody gains by a trade, as they stand
	dirty  set   // servers that are not as the last round left them
	rules  Rules // of the last round

	stranded  int // GPUs that are free but cannot be given their proportional share
	mayStrand int // how many jobs that cannot be asked to give back may strand

	nodes []*Node    // ascending in name
	plans []clearing // see makeRoom
	seen  set        // see lastFirst
	asked []shrink   // see able
	trial []shrink   // see bestTrade
	alone []int      // every server, so that a part of this is a list of one
	line  line
	ids   []int // of the jobs
}

// past is what the last round left: whoever is looked for is most likely there.
type past struct {
	ids   []int
	seats []seat
	order []int
	here  []int // the number that each of its jobs has in this round; -1: gone
	fresh []int // the jobs of this round that it did not know
}

// server is a node during the round.
type server struct {
	*Node
	shape int         // equal for equal nodes
	share gres.Vector // the proportional share of one GPU
	free  gres.Vector // what nobody holds who is settled
	loose gres.Vector // what running jobs hold that have not had their turn and may be displaced
	// wished is what the jobs that start here would like beyond the least that they were given.
	wished  gres.Vector
	foreign gres.Vector // see Node
	lost    int         // see stranded
	jobs    []int       // those on it that are not fixed, ascending
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
	none   limit = iota
	byRule       // the rules do not allow to stop more
	byCost       // the restarts would cost more than the place is worth
	limits
)

// seat is how one job stands and what it has been given.
type seat struct {
	kind     *kind
	menu     *menu       // of the first of its servers
	told     *answer     // why it waits or was stopped; nil: nothing
	servers  []int       // ascending
	size     gres.Vector // on each server
	gain     float64
	was      float64 // the gain of a running job as the round found it
	standing standing
	limit    limit // of a job that waits
	stopped  bool  // a running job that does not go on as it was
	cleared  bool  // others were stopped so that it fits just here
	barred   bool
	left     time.Duration // see remaining
	restart  time.Duration
}

// lay sets the board up for a round: the servers empty at first, then every running job in its seat, and the order of turns.
func (b *board) lay(c *Cluster, p Policy, a Allocator) {
	b.c, b.alloc = c, a
	b.round++
	b.stops, b.freed, b.filled, b.limit, b.reserved = math.MaxInt, 0, 0, none, nil
	b.stopped, b.started = b.stopped[:0], b.started[:0]
	if c.Rules.MaxPreemptions > 0 {
		b.stops = c.Rules.MaxPreemptions
	}
	b.setUp()
	b.welcome()
	b.shelve()
	b.takeTurns(p)
}

// setUp stands up the empty servers.
func (b *board) setUp() {
	b.nodes = byName(b.nodes, b.c.Nodes)
	if len(b.kinds) > many+len(b.c.Jobs) || !b.standsFor(b.nodes, b.alloc) {
		b.build(b.nodes)
	}
	if len(b.menus) > many || b.menus == nil {
		b.menus = menus{}
	}
	clear(b.dirty)
	for i, n := range b.nodes {
		sv := &b.servers[i]
		if sv.foreign != n.Foreign || b.closed.has(i) != (n.Closed != "") {
			b.dirty.add(i)
		}
		*sv = server{Node: n, shape: sv.shape, share: sv.share, foreign: n.Foreign, free: n.Total.Minus(n.Foreign), jobs: sv.jobs[:0]}
	}
	if b.rules != b.c.Rules {
		b.rules = b.c.Rules
		clear(b.grown)
		clear(b.traded)
	}
	b.mayStrand = int(b.c.Rules.stranded() * float64(b.total.GPUs))
}

// welcome finds out of which kind every job is, and seats those that run.
func (b *board) welcome() {
	b.past.ids, b.ids = b.ids, b.past.ids
	b.past.seats, b.seats = b.seats, b.past.seats
	b.past.order, b.order = b.order, b.past.order
	b.jobs = byID(b.jobs, b.c.Jobs)
	b.ids, b.seats = resized(b.ids, len(b.jobs)), resized(b.seats, len(b.jobs))
	b.past.here, b.past.fresh = resized(b.past.here, len(b.past.ids)), b.past.fresh[:0]
	at := 0
	for i, j := range b.jobs {
		for ; at < len(b.past.ids) && b.past.ids[at] < j.ID; at++ {
			b.gone(at)
		}
		var was *seat
		if at < len(b.past.ids) && b.past.ids[at] == j.ID {
			was, b.past.here[at] = &b.past.seats[at], i
			at++
		} else {
			b.past.fresh = append(b.past.fresh, i)
		}
		s := &b.seats[i]
		*s = seat{}
		b.ids[i], s.kind = j.ID, b.kindOf(j, was)
		if j.Running != nil {
			b.seatRunning(i, was)
		}
		switch {
		case was == nil:
			b.changed(s.servers)
		case !s.standsAs(was):
			b.changed(s.servers)
			b.changed(was.servers)
		}
	}
	for ; at < len(b.past.ids); at++ {
		b.gone(at)
	}
}

// gone notes that a job of the last round is not there any more.
func (b *board) gone(at int) {
	b.past.here[at] = -1
	b.changed(b.past.seats[at].servers)
}

// changed notes that servers are not as the last round left them.
func (b *board) changed(servers []int) {
	for _, n := range servers {
		b.dirty.add(n)
	}
}

// resized is a list of so many, in the memory of another where that will do.
func resized[T any](list []T, n int) []T { return slices.Grow(list[:0], n)[:n] }

// shelve sorts the servers by what the seats leave.
func (b *board) shelve() {
	b.stranded = 0
	clear(b.stirred)
	clear(b.closed)
	for n := range b.servers {
		sv := &b.servers[n]
		sv.lost = sv.stranded()
		b.stranded += sv.lost
		if b.dirty.has(n) {
			b.disturbed(n)
		}
		if sv.Closed == "" {
			b.reshelve(n)
			continue
		}
		b.closed.add(n)
		b.now.put(n, off)
		b.maybe.put(n, off)
	}
}

// seatRunning gives a running job its place: for good if it must not be touched, else until its turn. One that runs on a node
// which has left the cluster is not touched, since nobody knows what it holds.
func (b *board) seatRunning(i int, was *seat) {
	j, s := b.jobs[i], &b.seats[i]
	s.standing, s.size, s.gain, s.servers = fixed, j.Running.PerNode, 1, b.found(j.Running.Nodes, was)
	if len(s.servers) > 0 {
		s.menu = b.menu(s.kind, s.size.GPUs, s.servers[0])
		s.gain = s.gainAsIn(was, j)
	}
	s.was, s.barred, s.left, s.restart = s.gain, j.Barred != "", remaining(j), j.Restart
	if j.mayStop(b.c) && len(s.servers) == len(j.Running.Nodes) {
		s.standing = loose
	}
	for _, n := range s.servers {
		if s.standing == fixed {
			b.servers[n].free = b.servers[n].free.Minus(s.size)
			continue
		}
		b.servers[n].loose = b.servers[n].loose.Plus(s.size) // loose amounts are inside free: they are there for whoever goes first
		b.servers[n].jobs = append(b.servers[n].jobs, i)
	}
}

// standsAs says whether a job that runs stands as the last round left it, and has no more left to do: what was not worth a restart
// then is not worth it now.
func (s *seat) standsAs(was *seat) bool {
	return s.kind == was.kind && s.size == was.size && slices.Equal(s.servers, was.servers) &&
		(s.standing == fixed && was.standing == fixed || s.standing == loose && was.standing == kept && !was.stopped) &&
		s.barred == was.barred && s.restart == was.restart && s.left <= was.left
}

// gainAsIn is the gain with which running job j sits: that of its last seat where that was the same.
func (s *seat) gainAsIn(was *seat, j *Job) float64 {
	if was != nil && was.menu == s.menu && was.size == s.size {
		return was.gain
	}
	return s.menu.gainOf(j.Profile, s.size)
}

// found finds the nodes of a placement by name, most likely where the last seat was.
func (b *board) found(names []string, was *seat) []int {
	if was != nil && slices.EqualFunc(was.servers, names, func(n int, name string) bool { return b.servers[n].Name == name }) {
		return was.servers
	}
	if len(names) == 1 {
		if n, known := b.index[names[0]]; known {
			return b.only(n)
		}
	}
	return b.serversOf(names)
}

// only is a list of one server.
func (b *board) only(n int) []int { return b.alone[n : n+1 : n+1] }

// serversOf finds nodes by name; one that has left the cluster is left out.
func (b *board) serversOf(names []string) []int {
	found := make([]int, 0, len(names))
	for _, name := range names {
		if n, known := b.index[name]; known {
			found = append(found, n)
		}
	}
	slices.Sort(found)
	return found
}

// occupy books the seat of job i on its servers.
func (b *board) occupy(i int) { b.book(i, 1) }

// vacate takes the booking back.
func (b *board) vacate(i int) { b.book(i, -1) }

func (b *board) book(i, sign int) {
	s := &b.seats[i]
	held := s.size.Times(sign)
	for _, n := range s.servers {
		sv := &b.servers[n]
		if s.standing == loose {
			sv.loose = sv.loose.Plus(held)
		} else {
			sv.free = sv.free.Minus(held)
		}
		b.stranded -= sv.lost
		sv.lost = sv.stranded()
		b.stranded += sv.lost
		b.list(sv, i, sign)
		b.reshelve(n)
		b.disturbed(n)
	}
}

// disturbed notes that server n does not stand as it did, nor, for gangs across it, their other servers.
func (b *board) disturbed(n int) {
	b.grown.drop(n)
	b.traded.drop(n)
	for _, i := range b.servers[n].jobs {
		if servers := b.seats[i].servers; len(servers) > 1 {
			for _, m := range servers {
				b.grown.drop(m)
				b.traded.drop(m)
			}
		}
	}
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
	s.menu = b.menu(s.kind, o.Size.GPUs, servers[0])
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

// restartCost is what one restart of running job i costs, in GPU-seconds at the proportional speed: nothing if it restarts anyway.
func (b *board) restartCost(i int) float64 {
	if !b.restarts(i) {
		return 0
	}
	return worth(b.jobs[i], b.seats[i].gain, b.jobs[i].restartLoss(b.c.Now))
}

// worth is what running for d with a gain is worth, in GPU-seconds at the proportional speed.
func worth(j *Job, gain float64, d time.Duration) float64 {
	return gain * d.Seconds() * float64(j.GPUs)
}
