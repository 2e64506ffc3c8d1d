package policy

import (
	"cmp"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy/columns"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// repack places and sizes anew, all at once, the jobs that start in this round on servers without running jobs. It
// chooses fillings of whole servers by a linear program (policy/columns), where the other passes go from job to job; a
// filling is the sizes of all jobs that a server is to hold. Which jobs run is settled before and stays so. It does not
// help beside running jobs: what is best for the jobs that start in this round puts jobs with large demands where they
// are in each other's way in the next round (measured, see ARCHITECTURE.md, "Jobs that start on empty servers").
type repack struct {
	*board
	participants serverSet              // servers that take part
	movable      []int                  // jobs that may be placed anew, ascending
	class        []int                  // of each movable job, its index in classes
	classes      []repackClass          // jobs that differ in nothing but their rank
	startSets    []startSet             // at most maxStartSets
	serverGroups []serverGroup          // groups of servers with the same room
	problem      columns.Problem        // its shapes are the server groups
	sizes        [][]sensitivity.Option // problem.Options as sizes on the menus
	present      float64                // value of the present placement: GPUs times speed, added up
	uses         []float64              // present use of each resource of each server group
}

// repackClass is a class of jobs that differ in nothing but their rank, so that the linear program need only count
// them.
type repackClass struct {
	profile *sensitivity.Profile // nil: none
	// known is the profile of the present menu: a job stays among servers where the same profile applies.
	known       *sensitivity.Profile
	gpus, tasks int // tasks on each node
	terms       terms
	startSetAt  int // index in repack.startSets
}

// startSet is the servers on which some jobs may be started: the eligible ones that no reservation takes.
type startSet struct {
	eligible    *eligibility // open or not
	reservedOut serverSet    // see jobClass.reservedNow
}

// serverGroup is a group of servers that have the same room for the same jobs.
type serverGroup struct {
	serverGroupKey
	servers []int // ascending
	gpus    int   // GPUs of the movable jobs on all of them
}

// serverGroupKey is what the servers of a group have in common.
type serverGroupKey struct {
	room         gres.Vector // for movable jobs
	shape        int         // see server.shape
	startSetMask uint64      // one bit for each of repack.startSets, see startSetBits
}

// Bounds of a repack, which keep its cost near linear in jobs and servers. Steps are counted as in policy/columns.
const (
	maxServerGroups  = 24
	maxStartSets     = 64
	maxListedPairs   = 3000 // classes × server groups for which sizes are listed
	stepsForPrices   = 2_000_000
	stepsForFillings = 10_000_000
	stepsForDive     = 12_000_000
)

// repackTolerance is how near, relatively, the value of a plan must be to the upper bound of the linear program for the
// plan to be left as it is: too little is left to gain for a long search.
const repackTolerance = 1e-4

// repackStarts places the starting jobs on servers without running jobs anew if that is worth more, and reports whether
// it did. If it did not, the jobs of one class still exchange their places, so that the earlier-ranked of them have the
// faster ones; that does not count as a change.
func repackStarts(b *board) bool {
	r := repack{board: b}
	if !r.gatherJobs() || !r.classifyJobs() || !r.limitGroups() || !r.listProblem() {
		return false
	}
	assignments, changed := r.presentPlaces(), false
	if fillings := r.solveFillings(); r.fillingsWorth(fillings) > r.present*(1+gainTie) {
		assignments, changed = r.assignments(fillings), true
	}
	r.carryOutPlaces(assignments)
	return changed
}

// gatherJobs finds the jobs that may be placed anew (movable), and the servers that take part (participants). It is
// false if each of the jobs has its demand, so that none could gain, or if fewer than two servers take part.
func (r *repack) gatherJobs() bool {
	hungry, looked := false, newServerSet(len(r.servers))
	r.participants = newServerSet(len(r.servers))
	for _, i := range r.startingJobs() {
		s := &r.states[i]
		if s.status != statusStarting || len(s.servers) != 1 {
			continue
		}
		n := s.servers[0]
		if !looked.has(n) {
			looked.add(n)
			if r.mayTakePart(n) {
				r.participants.add(n)
			}
		}
		if r.participants.has(n) && r.mayPlaceAnew(i) {
			r.movable = append(r.movable, i)
			hungry = hungry || s.gain < s.menu.demand().Gain*(1-gainTie)
		}
	}
	return hungry && r.participants.countCommon(r.participants) > 1
}

// mayPlaceAnew reports whether the place of job i, which starts on one server, is open to choice: no job was stopped
// for exactly that place, the job can be asked to give back, and no quota counts its cores or memory. The linear
// program knows neither quotas nor the limits for jobs that keep what they get.
func (r *repack) mayPlaceAnew(i int) bool {
	s, j := &r.states[i], r.jobs[i]
	return j.Running == nil && !s.onClearedPlace && s.class.canGiveBack && !r.c.Rationed(j)
}

// mayTakePart reports whether server n may be filled anew: all jobs on it start in this round, and it is neither closed
// nor kept for a job.
func (r *repack) mayTakePart(n int) bool {
	sv := &r.servers[n]
	if sv.Closed != "" || r.keptNodes != nil && r.keptNodes.servers.has(n) {
		return false
	}
	all := sv.available()
	for _, i := range sv.jobs {
		if r.states[i].status != statusStarting {
			return false
		}
		all = all.Plus(r.states[i].size)
	}
	// Otherwise some jobs on it are fixed, or it is overdrawn.
	return all == sv.Total.Minus(sv.Foreign) && (gres.Vector{}).Fits(sv.available())
}

// classifyJobs sorts the movable jobs into classes, since the linear program counts jobs by class; false if there are
// too many classes or start sets for it. It is called again when some jobs have been left out.
func (r *repack) classifyJobs() bool {
	// The start sets stay in a second call (limitGroups): server groups are marked with their indexes.
	r.classes, r.class = nil, resized(r.class, len(r.movable))
	type alike struct {
		class *jobClass
		known *sensitivity.Profile
	}
	byKind, byPack := map[alike]int{}, map[repackClass]int{}
	for at, i := range r.movable {
		key := alike{r.states[i].class, r.states[i].menu.profile}
		c, known := byKind[key]
		if !known {
			k := key.class
			p := repackClass{k.profile, key.known, k.gpus, k.tasks, k.terms, r.startSetOf(k)}
			if c, known = byPack[p]; !known {
				c = len(r.classes)
				r.classes, byPack[p] = append(r.classes, p), c
			}
			byKind[key] = c
		}
		r.class[at] = c
		if len(r.classes) > columns.MostClasses || len(r.startSets) > maxStartSets {
			return false
		}
	}
	return true
}

// startSetOf is the index in startSets of the servers on which jobs of class k may be started. If these are not listed
// yet, they are added.
func (r *repack) startSetOf(k *jobClass) int {
	at := slices.IndexFunc(
		r.startSets,
		func(g startSet) bool { return g.eligible == k.eligible && slices.Equal(g.reservedOut, k.reservedNow) },
	)
	if at < 0 {
		at = len(r.startSets)
		r.startSets = append(r.startSets, startSet{k.eligible, k.reservedNow})
	}
	return at
}

// limitGroups sorts the servers into groups. If there are too many groups, only those with most GPUs of movable jobs
// take part, which bounds the work. It is false if these have less than half of the GPUs, or if there are too many
// pairs of classes and groups; then nothing is placed anew.
func (r *repack) limitGroups() bool {
	r.groupServers()
	if len(r.serverGroups) > maxServerGroups {
		all := r.gpusOn(r.serverGroups)
		slices.SortStableFunc(r.serverGroups, func(x, y serverGroup) int { return cmp.Compare(y.gpus, x.gpus) })
		if r.serverGroups = r.serverGroups[:maxServerGroups]; 2*r.gpusOn(r.serverGroups) < all {
			return false
		}
		r.dropLeftOut()
		r.classifyJobs()
	}
	return len(r.classes)*len(r.serverGroups) <= maxListedPairs
}

// gpusOn is how many GPUs the movable jobs have on the servers of some groups.
func (r *repack) gpusOn(stands []serverGroup) (gpus int) {
	for s := range stands {
		gpus += stands[s].gpus
	}
	return gpus
}

// groupServers finds the room of each server beside the jobs that stay, and lists servers with the same room as one
// group. If a waiting job could use one of the participants, each keeps as many GPUs in use as it has: if one were
// filled less and another more, the demand for cores would influence which job runs next. Otherwise empty servers take
// part, too.
func (r *repack) groupServers() {
	held := make([]gres.Vector, len(r.servers))
	for _, i := range r.movable {
		s := &r.states[i]
		held[s.servers[0]] = held[s.servers[0]].Plus(s.size)
	}
	wanted := !r.participants.isWithin(r.uncontested)
	numbers := map[serverGroupKey]int{}
	for n := range r.servers {
		sv := &r.servers[n]
		if !r.participants.has(n) && (wanted || !r.uncontested.has(n) || len(sv.jobs) > 0 || !r.mayTakePart(n)) {
			continue
		}
		room := sv.available().Plus(held[n])
		if wanted {
			room.GPUs = held[n].GPUs
		}
		key := serverGroupKey{room, sv.shape, r.startSetBits(n)}
		if _, known := numbers[key]; !known {
			numbers[key] = len(r.serverGroups)
			r.serverGroups = append(r.serverGroups, serverGroup{serverGroupKey: key})
		}
		st := &r.serverGroups[numbers[key]]
		st.servers, st.gpus = append(st.servers, n), st.gpus+held[n].GPUs
	}
}

// startSetBits is a mask with a bit for each start set, by its index. The bits are 1 of the sets that contain server n:
// their jobs may be started there.
func (r *repack) startSetBits(n int) (mask uint64) {
	for g := range r.startSets {
		if z := &r.startSets[g]; z.eligible.servers.has(n) && (z.reservedOut == nil || !z.reservedOut.has(n)) {
			mask |= 1 << g
		}
	}
	return mask
}

// dropLeftOut drops the movable jobs whose servers are in no group any more; they stay as they are.
func (r *repack) dropLeftOut() {
	clear(r.participants)
	for s := range r.serverGroups {
		for _, n := range r.serverGroups[s].servers {
			r.participants.add(n)
		}
	}
	r.movable = slices.DeleteFunc(r.movable, func(i int) bool { return !r.participants.has(r.states[i].servers[0]) })
}

// listProblem writes the linear program's problem down: the room of each server group, the number of jobs of each
// class, and the sizes of each class in each group; beside these, what the present plan uses. It is false if a class
// has no size in any group, not even the one that its jobs have, since the program could then not place all jobs.
func (r *repack) listProblem() bool {
	r.listGroups()
	examples := r.listJobs()
	listed := make([]bool, len(examples))
	for s := range r.serverGroups {
		for c, k := range examples {
			listed[c] = r.listSizes(s, c, k) || listed[c]
		}
	}
	return !slices.Contains(listed, false)
}

// listGroups adds the server groups to the problem, as shapes with a count and the room of one server.
func (r *repack) listGroups() {
	r.sizes = make([][]sensitivity.Option, len(r.serverGroups))
	r.problem = columns.Problem{
		Demand:  make([]int, len(r.classes)),
		Options: make([][]columns.Option, len(r.serverGroups)),
	}
	for s := range r.serverGroups {
		room, count := r.serverGroups[s].room, len(r.serverGroups[s].servers)
		r.problem.Shapes = append(r.problem.Shapes, columns.Shape{Count: count, Most: room, Sum: room.Times(count)})
	}
}

// listJobs counts the jobs of each class for the problem, and adds up the value (present) and the use (uses) of the
// present plan, from which the search begins. It returns for each class the jobClass of one of its jobs, whose menus
// stand for those of all.
func (r *repack) listJobs() []*jobClass {
	standOf := make(map[int]int, len(r.movable))
	for s := range r.serverGroups {
		for _, n := range r.serverGroups[s].servers {
			standOf[n] = s
		}
	}
	r.uses = make([]float64, columns.Resources*len(r.serverGroups))
	examples := make([]*jobClass, len(r.classes))
	for at, i := range r.movable {
		s := &r.states[i]
		examples[r.class[at]] = s.class
		r.problem.Demand[r.class[at]]++
		r.present += float64(s.speed() * float64(s.size.GPUs))
		uses := r.uses[columns.Resources*standOf[s.servers[0]]:]
		uses[0], uses[1] = uses[0]+float64(s.size.GPUs), uses[1]+float64(s.size.CPUs)
		uses[2] += float64(s.size.Memory) / float64(gres.Gigabyte)
	}
	return examples
}

// listSizes adds the sizes that jobs of class c, one of which is of job class k, can have in server group s, and
// reports whether there are any. There are none where the jobs may not be started, where too few GPUs are, or where
// another profile applies. A menu keeps the speed of its own server's share, so the sizes differ from group to group.
func (r *repack) listSizes(s, c int, k *jobClass) bool {
	st, before := &r.serverGroups[s], len(r.sizes[s])
	if st.startSetMask&(1<<r.classes[c].startSetAt) == 0 || k.gpus > st.room.GPUs {
		return false
	}
	m := r.menu(k, k.gpus, st.servers[0])
	if m.profile != r.classes[c].known {
		return false
	}
	for _, o := range r.alloc.sizes(m) {
		if o.Size.Fits(st.room) {
			value := float64(o.Gain * m.unit * float64(o.Size.GPUs))
			r.problem.Options[s] = append(r.problem.Options[s],
				columns.Option{Class: c, Parts: 1, Size: o.Size, Value: value})
			r.sizes[s] = append(r.sizes[s], o)
		}
	}
	return len(r.sizes[s]) > before
}

// solveFillings finds fillings of the servers that place all the jobs. It returns nil, and all stays as it is, if the
// present plan is as good as the upper bound of the program, a job is left over, or a server is too large for the
// program (columns.NewConfigured). The cheaper of two bounds, by prices alone, is tried first.
func (r *repack) solveFillings() []columns.Filling {
	configured, pooled := columns.NewConfigured(&r.problem), columns.NewPooled(&r.problem)
	if configured == nil {
		return nil
	}
	worthwhile := r.present * (1 + repackTolerance)
	if pooled.Least(r.present, r.uses, stepsForPrices).Value <= worthwhile ||
		configured.Least(pooled.Best, nil, stepsForFillings).Value <= worthwhile {
		return nil
	}
	fillings, left := configured.Dive(stepsForDive)
	if slices.ContainsFunc(left, func(jobs int) bool { return jobs > 0 }) {
		return nil
	}
	return fillings
}

// fillingsWorth is the value of the jobs if the servers get these fillings, in the unit of present: GPUs times speed.
// It is 0 without fillings, so that the present plan stays.
func (r *repack) fillingsWorth(fillings []columns.Filling) (sum float64) {
	for _, f := range fillings {
		for _, o := range f.Options {
			sum += float64(float64(f.Nodes) * r.problem.Options[f.Shape][o].Value)
		}
	}
	return sum
}

// assignment is a place for one job of a class.
type assignment struct {
	server int
	option sensitivity.Option
	speed  float64 // with that option on that server
}

// carryOutPlaces moves the jobs to their new places, listed by class. Within a class, the earlier-ranked job gets the
// faster place. All jobs are taken off before any is placed, since they take each other's places. With the present
// places (presentPlaces) it only deals these out by rank.
func (r *repack) carryOutPlaces(assignments [][]assignment) {
	turns := make([][]int, len(r.classes))
	for at, i := range r.movable {
		turns[r.class[at]] = append(turns[r.class[at]], i)
	}
	type move struct {
		job int
		to  assignment
	}
	var moves []move
	for c, jobs := range turns {
		slices.SortFunc(jobs, func(x, y int) int { return cmp.Compare(r.rank[x], r.rank[y]) })
		slices.SortStableFunc(assignments[c], func(x, y assignment) int { return cmp.Compare(y.speed, x.speed) })
		for at, i := range jobs {
			if s, to := &r.states[i], assignments[c][at]; s.servers[0] != to.server || s.size != to.option.Size {
				r.takeOff(i)
				moves = append(moves, move{i, to})
			}
		}
	}
	for _, m := range moves {
		r.placeOn(m.job, r.singleServer(m.to.server), m.to.option)
	}
}

// presentPlaces lists the places that the jobs of each class have now, with which carryOutPlaces leaves each class what
// it has.
func (r *repack) presentPlaces() [][]assignment {
	all := make([][]assignment, len(r.classes))
	for at, i := range r.movable {
		s := &r.states[i]
		all[r.class[at]] = append(all[r.class[at]],
			assignment{s.servers[0], sensitivity.Option{Size: s.size, Gain: s.gain},
				s.speed()})
	}
	return all
}

// assignments lists, by class, the places that fillings offer to jobs. A filling that is used for several servers of a
// group takes the next of them each time.
func (r *repack) assignments(fillings []columns.Filling) [][]assignment {
	all, filled := make([][]assignment, len(r.classes)), make([]int, len(r.serverGroups))
	for _, f := range fillings {
		for range f.Nodes {
			n := r.serverGroups[f.Shape].servers[filled[f.Shape]]
			filled[f.Shape]++
			for _, o := range f.Options {
				known := &r.problem.Options[f.Shape][o]
				speed := known.Value / float64(known.Size.GPUs)
				all[known.Class] = append(all[known.Class], assignment{n, r.sizes[f.Shape][o], speed})
			}
		}
	}
	return all
}
