package policy

import (
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// past is what the last round left: the planner expects jobs where they were then, and what was searched in vain on
// servers that have not changed since is not searched again.
type past struct {
	lastIDs        []int      // IDs of its jobs, ascending
	lastStates     []jobState // the state of each of its jobs at its end
	lastPositions  []int      // its order of jobs, as indexes in lastIDs
	currentIndex   []int      // number in this round of each of its jobs; -1: it has left
	newJobs        []int      // jobs of this round that it did not have
	changedServers serverSet  // servers that are not as it left them
	rules          Rules      // of it; with other rules all searches are made again
}

// layOut sets the board up for a round: first the servers, empty, then every running job in its place. What the last
// round left is used only where it still holds. The counters of the round (stops, freedCount) and its budget of
// exchanges are reset.
func layOut(b *board, c *Cluster, a Allocator) {
	b.c, b.alloc = c, a
	b.round++
	// Without rules.max_preemptions any number of stops is left.
	b.stops, b.freedCount, b.lastBackfill, b.calledBackGPUs, b.limit, b.keptNodes = math.MaxInt, 0, 0, 0, noLimit, nil
	b.stopped, b.started = b.stopped[:0], b.started[:0]
	if c.Rules.MaxPreemptions > 0 {
		b.stops = c.Rules.MaxPreemptions
	}
	setUpServers(b)
	b.market.budgetLeft = exchangeBudget
	findReservations(b)
	setUpQuotas(b)
	placeRunning(b)
	indexServers(b)
}

// setUpServers empties the servers, and builds the topology anew if the nodes or the allocator have changed, or if far
// more classes have gathered than there are jobs. Too many cached menus are dropped. Servers that differ from the last
// round are noted (changedServers), so that what was searched for in vain there is searched for again; with other
// rules, all are.
func setUpServers(b *board) {
	b.nodesByName = nodesInOrder(b.nodesByName, b.c.Nodes)
	if len(b.classes) > maxCached+len(b.c.Jobs) || !b.isFor(b.nodesByName, b.alloc) {
		buildTopology(b, b.nodesByName)
	}
	if len(b.menus) > maxCached || b.menus == nil {
		b.menus = menus{}
	}
	clear(b.changedServers)
	for i, n := range b.nodesByName {
		sv := &b.servers[i]
		if sv.foreign != n.Foreign || sv.withheld != (gres.Vector{}) || b.closed.has(i) != (n.Closed != "") {
			b.changedServers.add(i)
		}
		*sv = server{Node: n, shape: sv.shape, model: sv.model, share: sv.share, foreign: n.Foreign,
			free: n.Total.Minus(n.Foreign), jobs: sv.jobs[:0], borrowers: sv.borrowers[:0]}
	}
	if b.rules != b.c.Rules {
		b.rules = b.c.Rules
		b.forgetAllSearches()
	}
	b.maxStranded = int(b.c.Rules.stranded() * float64(b.total.GPUs))
}

// forgetAllSearches forgets what was searched for in vain on any server.
func (b *board) forgetAllSearches() {
	for n := range b.servers {
		b.forgetSearches(n)
	}
}

// placeRunning finds the class of every job and places those that run. The jobs of the last round and of this one both
// ascend in ID, so they are walked together to find jobs that have come, stayed or left.
func placeRunning(b *board) {
	keepPast(b)
	b.jobs = jobsByID(b.jobs, b.c.Jobs)
	b.ids, b.states = resized(b.ids, len(b.jobs)), resized(b.states, len(b.jobs))
	at := 0
	for i, j := range b.jobs {
		b.ids[i] = j.ID
		for ; at < len(b.lastIDs) && b.lastIDs[at] < j.ID; at++ {
			noteGone(b, at)
		}
		if at < len(b.lastIDs) && b.lastIDs[at] == j.ID {
			b.currentIndex[at] = i
			fillInJob(b, i, &b.lastStates[at])
			at++
			continue
		}
		b.newJobs = append(b.newJobs, i)
		fillInJob(b, i, nil)
	}
	for ; at < len(b.lastIDs); at++ {
		noteGone(b, at)
	}
}

// keepPast makes the last round the past. The memory of the round before that one is reused for the new round.
func keepPast(b *board) {
	b.lastIDs, b.ids = b.ids, b.lastIDs
	b.lastStates, b.states = b.states, b.lastStates
	b.lastPositions, b.order = b.order, b.lastPositions
	b.currentIndex, b.newJobs = resized(b.currentIndex, len(b.lastIDs)), b.newJobs[:0]
}

// fillInJob fills in the state of job i and places it if it runs. Its servers are marked as changed if its state
// differs from that in the last round (was; nil if it had none), so that they are searched for gains again.
func fillInJob(b *board, i int, was *jobState) {
	j, s := b.jobs[i], &b.states[i]
	*s = jobState{}
	s.class = b.classOf(j, was)
	if j.Running != nil {
		placeRunningJob(b, i, was)
	}
	switch {
	case was == nil:
		noteChanged(b, s.servers)
	case !s.standsAs(was):
		noteChanged(b, s.servers)
		noteChanged(b, was.servers)
	}
}

// noteGone notes that a job of the last round, at an index of lastIDs, has left, so that its servers have changed.
func noteGone(b *board, at int) {
	b.currentIndex[at] = -1
	noteChanged(b, b.lastStates[at].servers)
}

// noteChanged notes that servers are not as the last round left them, so that searches in vain there are made again.
func noteChanged(b *board, servers []int) {
	for _, n := range servers {
		b.changedServers.add(n)
	}
}

// resized is a list of n elements, in the memory of another if that is enough.
func resized[T any](list []T, n int) []T { return slices.Grow(list[:0], n)[:n] }

// indexServers indexes the open servers by what running jobs leave, so that searches find room without looking at every
// server, and adds up what is free on them. Closed ones are taken out of the indexes. On servers that have changed
// since the last round, what was searched for in vain is searched for again.
func indexServers(b *board) {
	b.stranded, b.idle, b.interest = 0, 0, nil
	clear(b.stirredServers)
	clear(b.closed)
	for n := range b.servers {
		sv := &b.servers[n]
		b.updateSums(sv)
		if b.changedServers.has(n) {
			b.noteDisturbed(n)
		}
		if sv.Closed == "" {
			b.reindex(n)
			continue
		}
		b.closed.add(n)
		b.byFreeGPUs.setLevel(n, notIndexed)
		b.byReclaimableGPUs.setLevel(n, notIndexed)
	}
}

// placeRunningJob puts a running job in its place: as preemptible if it may be stopped in this round, otherwise as
// fixed. Of the fixed ones, those that may be asked for loans are listed as borrowers. Two kinds of jobs are always
// fixed: one with a node that has left the cluster, since it is unknown what it holds, and one that could not be
// started again. was is its state in the last round; nil: it had none.
func placeRunningJob(b *board, i int, was *jobState) {
	j, s := b.jobs[i], &b.states[i]
	s.status, s.size, s.gain, s.servers = statusFixed, j.Running.PerNode, 1, findServers(b, j.Running.Nodes, was)
	if len(s.servers) > 0 {
		s.menu = b.menu(s.class, s.size.GPUs, s.servers[0])
		s.gain = s.gainAsIn(was)
	}
	s.speedBefore, s.isBarred, s.timeLeft, s.restart = s.speed(), j.Barred != "", remaining(j), j.Restart
	s.earned = j.hasEarned(b.c)
	if s.class.impossibleWhy == "" && len(s.servers) == len(j.Running.Nodes) && mayRestartLater(b, i, s.class) {
		switch {
		case j.mayStop(b.c):
			s.status = statusPreemptible
		case j.isCallable(b.c):
			listBorrower(b, i)
		}
	}
	if len(s.class.quotas) > 0 { // it counts in them on nodes that have left the cluster, too
		b.charge(i, quotaUseFor(len(j.Running.Nodes), s.size), 1)
	}
	for _, n := range s.servers {
		if s.status == statusFixed {
			b.servers[n].free = b.servers[n].free.Minus(s.size)
			continue
		}
		// Preemptible amounts are part of free: they are available to the job whose turn comes first.
		b.servers[n].preemptible = b.servers[n].preemptible.Plus(s.size)
		b.servers[n].jobs = append(b.servers[n].jobs, i)
	}
}

// mayStop reports whether the rules let running job j be stopped in this round. A job that is about to end leaves
// sooner than it could come back, and one that has not made good its last restart (madeGood) would do nothing but save
// and load.
func (j *Job) mayStop(c *Cluster) bool {
	ran := c.Now.Sub(j.Started)
	return !j.Fixed && !j.Stays && ran >= c.Rules.MinRun && c.Rules.allowAfter(j.Restarts) &&
		(j.Restarts == 0 || ran >= j.madeGood(c)) && !j.aboutToEnd(c)
}

// madeGood is how long a run that began with a restart must last until the job has trained for as long as the restart
// cost: twice the cost, since part of it, the start, is in the run. So at least half of the time between two stops is
// training. It is at most rules.horizon, since costs, too, come from users.
func (j *Job) madeGood(c *Cluster) time.Duration {
	return min(2*min(j.Restart, c.Rules.horizon()), c.Rules.horizon())
}

// aboutToEnd reports that running job j, which saves, has no more left to do, at the proportional share, than a restart
// of it would cost. It is false for a job that does not save or declared no length, and for one that has exceeded its
// declared length, since that declaration has proved wrong.
func (j *Job) aboutToEnd(c *Cluster) bool {
	left := remaining(j)
	return j.Saves && left > 0 && left <= min(j.Restart, c.Rules.horizon())
}

// hasEarned reports that running job j may be restarted for a gain, since it has trained long enough to make up for its
// last restart. A job that was never restarted, or whose restart costs nothing, always may. As no restart is planned
// that does not pay within rules.payback, no job is restarted twice for what it could have had at once.
func (j *Job) hasEarned(c *Cluster) bool {
	return j.Restarts == 0 || j.Restart == 0 || c.Now.Sub(j.Started) >= max(c.Rules.payback(), j.madeGood(c))
}

// standsAs reports whether a running job is as the last round left it and has no more left to do, so that its servers
// need not be searched again: a restart that was not worth it then is not worth it now. s is set up for this round,
// where the job's turn has not come, and was is the end of the last round, where it had been kept; a fixed job is fixed
// in both.
func (s *jobState) standsAs(was *jobState) bool {
	return s.class == was.class && s.size == was.size && slices.Equal(s.servers, was.servers) &&
		(s.status == statusFixed && was.status == statusFixed && !was.stopped ||
			s.status == statusPreemptible && was.status == statusKept && !was.stopped) &&
		s.isBarred == was.isBarred && s.earned == was.earned && s.restart == was.restart && s.timeLeft <= was.timeLeft
}

// gainAsIn is the gain of a running job with its size, taken from the last round if menu and size are the same, which
// saves evaluating the profile; was may be nil.
func (s *jobState) gainAsIn(was *jobState) float64 {
	if was != nil && was.menu == s.menu && was.size == s.size {
		return was.gain
	}
	return s.menu.gainOf(s.size)
}

// findServers finds the nodes of a placement by name, ascending, without those that have left the cluster. It looks
// first where the job was in the last round, since most jobs are still there.
func findServers(b *board, names []string, was *jobState) []int {
	if was != nil &&
		slices.EqualFunc(was.servers, names, func(n int, name string) bool { return b.servers[n].Name == name }) {
		return was.servers
	}
	if len(names) == 1 {
		if n, known := b.index[names[0]]; known {
			return b.singleServer(n)
		}
	}
	return b.serversOf(names)
}

// singleServer is a list of one server.
func (b *board) singleServer(n int) []int { return b.singleServers[n : n+1 : n+1] }

// serversOf finds nodes by name, ascending, without those that have left the cluster; the result may be shorter than
// the list.
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
