package policy

import (
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// board is the working state of one Decide: who sits where with how much, and what is left. It is built from a snapshot, which
// it never changes, and read off into a Plan.
type board struct {
	c       *Cluster
	alloc   Allocator
	menus   menus
	servers []server
	seats   []seat // by index in c.Jobs
	rank    []int  // the turn of each job, by index in c.Jobs

	now   *shelf // servers by the GPUs that are free now
	maybe *shelf // servers by the GPUs that are free once every job that may be displaced has gone

	index     map[string]int  // server by name
	largest   int             // GPUs of the largest server
	stops     int             // running jobs that may still be stopped in this round
	freed     int             // how often somebody has given something back
	costly    bool            // somebody could have run, had the rules allowed to stop more
	denied    map[kind]denial // kinds of jobs that found no place
	reserved  *reservation    // nodes kept free for a job that has waited too long
	stranded  int             // GPUs that are free but cannot be given their proportional share
	mayStrand int             // how many jobs that cannot be asked to give back may strand
}

// server is a node during the round.
type server struct {
	*Node
	free  gres.Vector // what nobody holds who is settled
	loose gres.Vector // what running jobs hold that have not had their turn and may be displaced
	// wished is what the jobs that start here would like beyond the least that they were given.
	wished gres.Vector
	jobs   []int // running jobs on it that may be stopped, in no particular order
}

// open is what can be given away without touching anybody.
func (s *server) open() gres.Vector { return s.free.Minus(s.loose) }

// standing says how a job stands during the round.
type standing int

const (
	waits     standing = iota // not granted, so far
	fixed                     // running, not to be touched
	loose                     // running, its turn has not come
	kept                      // running, keeps what it has
	displaced                 // was running, has lost its place
	fresh                     // granted, and started or restarted: its size is free to choose
)

// seat is how one job stands and what it has been given.
type seat struct {
	standing standing
	servers  []int       // ascending
	size     gres.Vector // on each server
	gain     float64
	menu     *menu // of the first of its servers
	cleared  bool  // others were stopped so that it fits just here
	reason   Reason
	why      string
}

func (s *seat) option() sensitivity.Option { return sensitivity.Option{Size: s.size, Gain: s.gain} }

func newBoard(c *Cluster, a Allocator) *board {
	b := &board{
		c: c, alloc: a, menus: menus{},
		servers: make([]server, len(c.Nodes)),
		seats:   make([]seat, len(c.Jobs)),
		index:   make(map[string]int, len(c.Nodes)),
		denied:  map[kind]denial{},
		stops:   math.MaxInt,
	}
	if c.Rules.MaxPreemptions > 0 {
		b.stops = c.Rules.MaxPreemptions
	}
	b.setUp()
	b.seatRunning()
	return b
}

// setUp stands up the empty servers.
func (b *board) setUp() {
	gpus := 0
	for i := range b.c.Nodes {
		n := &b.c.Nodes[i]
		b.servers[i] = server{Node: n, free: n.Total.Minus(n.Foreign)}
		b.index[n.Name] = i
		b.largest = max(b.largest, n.Total.GPUs)
		gpus += n.Total.GPUs
	}
	b.now, b.maybe = newShelf(len(b.servers), b.largest), newShelf(len(b.servers), b.largest)
	for i := range b.servers {
		b.reshelve(i)
		b.stranded += b.servers[i].stranded()
	}
	limit := b.c.Rules.Stranded
	if limit == 0 {
		limit = DefaultStranded
	}
	b.mayStrand = int(limit * float64(gpus))
}

// seatRunning gives the running jobs their places: those that must not be touched for good, the others until their turn.
func (b *board) seatRunning() {
	for i := range b.c.Jobs {
		j := &b.c.Jobs[i]
		if j.Running == nil {
			continue
		}
		s := &b.seats[i]
		s.standing, s.size, s.servers = fixed, j.Running.PerNode, b.serversOf(j.Running.Nodes)
		if len(s.servers) > 0 {
			s.menu = b.menus.of(j, s.size.GPUs, b.servers[s.servers[0]].Total)
			s.gain = s.menu.gainOf(j, s.size)
		}
		if b.movable(j) && len(s.servers) == len(j.Running.Nodes) {
			s.standing = loose
		}
		b.occupy(i)
	}
}

// movable says whether the rules let a running job be stopped in this round.
func (b *board) movable(j *Job) bool {
	return !j.Fixed && b.c.Now.Sub(j.Started) >= b.c.Rules.MinRun
}

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
		b.stranded -= sv.stranded()
		if s.standing == loose {
			sv.loose = sv.loose.Plus(held)
		}
		// Loose amounts are inside free: they are there for whoever goes first.
		if s.standing != loose {
			sv.free = sv.free.Minus(held)
		}
		b.stranded += sv.stranded()
		b.list(sv, i, sign)
		b.reshelve(n)
	}
}

// list keeps the server's list of running jobs that may be stopped.
func (b *board) list(sv *server, i, sign int) {
	if st := b.seats[i].standing; st != loose && st != kept {
		return
	}
	if sign > 0 {
		sv.jobs = append(sv.jobs, i)
		return
	}
	if at := slices.Index(sv.jobs, i); at >= 0 {
		sv.jobs = slices.Delete(sv.jobs, at, at+1)
	}
}

// reseat changes the standing and size of job i where it sits, keeping the books.
func (b *board) reseat(i int, to standing, o sensitivity.Option) {
	b.vacate(i)
	s := &b.seats[i]
	s.standing, s.size, s.gain = to, o.Size, o.Gain
	b.occupy(i)
}

// unseat takes job i off its servers.
func (b *board) unseat(i int, to standing) {
	b.vacate(i)
	s := &b.seats[i]
	s.standing, s.servers = to, nil
}

// seatAt puts job i on servers with size o.
func (b *board) seatAt(i int, servers []int, gpus int, o sensitivity.Option) {
	s := &b.seats[i]
	s.standing, s.servers, s.size, s.gain = fresh, servers, o.Size, o.Gain
	s.menu = b.menus.of(&b.c.Jobs[i], gpus, b.servers[servers[0]].Total)
	b.occupy(i)
}

func (b *board) reshelve(n int) {
	sv := &b.servers[n]
	b.now.put(n, sv.open().GPUs)
	b.maybe.put(n, sv.free.GPUs)
}

// stranded counts the free GPUs of a server that cannot be given their proportional share of what is free beside them.
func (s *server) stranded() int {
	open := s.open()
	share := gres.Proportional(s.Total, 1)
	if open.GPUs <= 0 || share.CPUs == 0 || s.Closed != "" {
		return 0
	}
	usable := min(open.GPUs, max(open.CPUs, 0)/share.CPUs)
	if share.Memory > 0 {
		usable = min(usable, int(max(open.Memory, 0)/share.Memory))
	}
	return open.GPUs - usable
}

func (b *board) horizon() time.Duration {
	if b.c.Rules.Horizon == 0 {
		return DefaultHorizon
	}
	return b.c.Rules.Horizon
}

// ahead is how long the start of waiting job j may count as gain.
func (b *board) ahead(j *Job) time.Duration { return min(b.horizon(), remaining(j)) }
