package policy

import (
	"fmt"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// jobClass is the jobs that can be placed on the same servers with the same sizes, and what is cached for all of them.
// If one of them found no place, the next finds none either, until something is freed.
type jobClass struct {
	classKey
	quotas        []int  // see Job.Quotas
	impossibleWhy string // why no size is possible on any server; empty: one is
	// the ways to divide its GPUs over nodes, the fewest nodes first; none: it cannot run
	gangShapes     []gangShape
	menus          map[menuPlace]*menu // made as they are used, see board.menu
	fit            *emptyFit           // what empty servers could give it; nil until first used, see fitOf
	cachedTurn     answer              // cached reason of jobs for which too few GPUs are free, see turnAnswer
	cachedTurnFree int                 // the number of free GPUs that cachedTurn names
	round          int                 // the round that the following are of
	// reservedNow are servers on which no such job may be started now, since a reservation begins before it ends; nil:
	// none.
	reservedNow serverSet
	// reservedSoon are those on which none may be started a round later, once other jobs have made room for it.
	reservedSoon    serverSet
	denial          denial             // the failed search for a place of one of its jobs in this round
	cannotKeepNodes bool               // no nodes can be kept for it, see keepNodes
	couldRound      int                // the round that couldRunNow is of
	couldRunNow     bool               // see couldRun
	waitAnswers     [limitCount]answer // why they wait, by limit
}

// classKey is everything by which jobs are told apart. To placement, jobs that differ in something else are equal: in
// their user, their arrival, or what they have done.
type classKey struct {
	profile        *sensitivity.Profile // nil: none
	gpus           int                  // on all nodes together
	tasks          int                  // on each node
	nodes          int                  // 0: any number
	canGiveBack    bool                 // see Job.canGiveBack
	terms          terms                // what bounds its sizes, whatever its profile says
	quotaKey       string               // the quotas of the class as one word
	reservationKey reservationKey       // the reservations that its runs would reach into
	eligible       *eligibility         // the servers that it may use
}

// menuPlace is a number of GPUs on a server of one shape, the key of a class's menus. noLoans says that no size is
// above the share.
type menuPlace struct {
	gpus, shape int
	noLoans     bool
}

// eligibility is the set of servers, open or not, that jobs with the same constraints may use.
type eligibility struct {
	gpuType                string // empty: any
	features, only, except nameList
	servers                serverSet
	largest                int         // GPUs of the largest of them
	total                  gres.Vector // their totals, added up
	numberRound            int         // the round that number is of
	number                 int         // in the order in which the jobs of a round first have them
	freeRound              int         // the round that free is of
	free                   int         // free GPUs on its open servers, see freeGPUsIn
}

// nameList is a list of names and where it was last seen: the jobs of one snapshot often share a list, which need not
// be compared again.
type nameList struct {
	list  []string
	seen  *string // address of its first name in a snapshot
	round int     // of that snapshot
}

// sameNames reports whether a list has the same names. Within one round, a list that was compared before is recognised
// by its address; in another round other names may stand there.
func (w *nameList) sameNames(list []string, round int) bool {
	switch {
	case len(list) != len(w.list):
		return false
	case len(list) == 0 || w.round == round && w.seen == &list[0]:
		return true
	case !slices.Equal(w.list, list):
		return false
	}
	w.round, w.seen = round, &list[0]
	return true
}

// eligibilityKey is a map key that tells most constraints of jobs apart without comparing whole lists: it has the first
// name of each list and its length. The few with equal keys are compared in full (sameConstraints).
type eligibilityKey struct {
	gpuType, feature, only, except string
	features, named, excepted      int
}

// classCache holds the classes of jobs and the sets of servers that they may use.
type classCache struct {
	classes       map[classKey]*jobClass
	eligibilities map[eligibilityKey][]*eligibility
	numbered      int // how many eligibilities were given a number, in all rounds
}

func newClassCache() classCache {
	return classCache{classes: map[classKey]*jobClass{}, eligibilities: map[eligibilityKey][]*eligibility{}}
}

// classOf finds the class of a job, or makes it. The class that the job had in the last round is tried first, since
// most jobs keep theirs; was is nil for a job that is new.
func (b *board) classOf(j *Job, was *jobState) *jobClass {
	if was != nil && was.class.reservationKey == b.reservationKeyOf(j) && was.class.includesJob(j, b.c.Rules, b.round) {
		b.resetClass(was.class)
		return was.class
	}
	key := classKey{
		j.Profile,
		j.GPUs,
		max(1, j.Tasks),
		j.Nodes,
		j.canGiveBack(b.c.Rules),
		termsOf(j),
		listKey(j.Quotas),
		b.reservationKeyOf(j),
		b.eligibilityOf(j),
	}
	k, known := b.classes[key]
	if !known {
		k = newClass(key, j)
		b.classes[key] = k
	}
	b.resetClass(k)
	return k
}

// newClass makes the class of job j. If the job's terms allow no size it gets no gang shapes either, so it is never
// placed; impossibleWhy then says why.
func newClass(key classKey, j *Job) *jobClass {
	k := &jobClass{classKey: key, quotas: slices.Clone(j.Quotas), impossibleWhy: key.terms.contradictionText(key.tasks)}
	if k.impossibleWhy == "" {
		k.gangShapes = gangShapesOf(j, key.eligible.largest)
	}
	return k
}

// includesJob reports whether job j belongs to class k, apart from its reservations, which the caller compares. round
// is the present one.
func (k *jobClass) includesJob(j *Job, rules Rules, round int) bool {
	return k.profile == j.Profile && k.gpus == j.GPUs && k.tasks == max(1, j.Tasks) && k.nodes == j.Nodes &&
		k.canGiveBack == j.canGiveBack(rules) &&
		k.terms == termsOf(j) && slices.Equal(k.quotas, j.Quotas) && k.eligible.sameConstraints(j, round)
}

// listKey is a string that identifies a list of numbers, so that the list can be part of a map's key; empty for an
// empty list.
func listKey(numbers []int) string {
	if len(numbers) == 0 {
		return ""
	}
	return fmt.Sprint(numbers)
}

// canGiveBack reports whether job j can be asked to give back what the round lends it: it saves, and the rules allow
// stopping the run that would begin now. What any other job gets beyond its share is gone until it ends.
func (j *Job) canGiveBack(rules Rules) bool {
	restarts := j.Restarts
	if j.Running != nil {
		restarts++
	}
	return j.Saves && rules.allowAfter(restarts)
}

// allowAfter reports whether a job that has been restarted so often may be stopped.
func (r Rules) allowAfter(restarts int) bool { return r.MaxRestarts == 0 || restarts < r.MaxRestarts }

// sameConstraints reports whether job j has the constraints of z, so that it may use the same servers. round is the
// present one.
func (z *eligibility) sameConstraints(j *Job, round int) bool {
	return z.gpuType == j.GPUType && z.features.sameNames(j.Features, round) && z.only.sameNames(j.Only, round) &&
		z.except.sameNames(j.Except, round)
}

// resetClass resets a class when its first job of the round comes: what was found in an earlier round, such as a
// denial, need not hold any more. It finds the servers that reservations keep from the class in this round
// (reservedNow, reservedSoon). The eligible servers get a number in the order of the jobs, by which jobs can be sorted
// (comparePlaces).
func (b *board) resetClass(k *jobClass) {
	if k.round == b.round {
		return
	}
	// No search has failed yet: board.freedCount is never -1.
	k.round, k.denial, k.waitAnswers, k.cannotKeepNodes = b.round, denial{freed: -1}, [limitCount]answer{}, false
	k.reservedNow, k.reservedSoon = b.reservedServers(
		runSpan{k.reservationKey.own, k.reservationKey.now},
	), b.reservedServers(
		runSpan{k.reservationKey.own, k.reservationKey.soon},
	)
	if z := k.eligible; z.numberRound != b.round {
		z.numberRound, z.number = b.round, b.numbered
		b.numbered++
	}
}

// eligibilityOf finds the servers that job j may use. Jobs with the same constraints share the result, so each server
// is looked at once for all of them.
func (b *board) eligibilityOf(j *Job) *eligibility {
	key := eligibilityKey{
		j.GPUType, firstName(j.Features), firstName(j.Only), firstName(j.Except),
		len(j.Features), len(j.Only), len(j.Except),
	}
	for _, z := range b.eligibilities[key] {
		if z.sameConstraints(j, b.round) {
			return z
		}
	}
	z := b.newEligibility(j)
	b.eligibilities[key] = append(b.eligibilities[key], z)
	return z
}

// firstName is the first name of a list; empty if there is none.
func firstName(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// newEligibility finds the servers that job j may use, open or not. If its user named nodes, only those are looked at.
func (b *board) newEligibility(j *Job) *eligibility {
	z := &eligibility{
		gpuType: j.GPUType, features: nameList{list: slices.Clone(j.Features)},
		only:   nameList{list: slices.Clone(j.Only)},
		except: nameList{list: slices.Clone(j.Except)}, servers: newServerSet(len(b.servers)),
	}
	admit := func(n int) {
		if sv := &b.servers[n]; suits(j, sv.Node) {
			z.servers.add(n)
			z.largest = max(z.largest, sv.Total.GPUs)
			z.total = z.total.Plus(sv.Total)
		}
	}
	if len(j.Only) > 0 {
		for _, n := range b.serversOf(j.Only) {
			admit(n)
		}
		return z
	}
	for n := range b.servers {
		admit(n)
	}
	return z
}

// suits reports whether the request of j allows node n, open or not: by GPU type, features and lists of nodes.
func suits(j *Job, n *Node) bool {
	if j.GPUType != "" && j.GPUType != n.GPUType {
		return false
	}
	for _, f := range j.Features {
		if !n.Has(f) {
			return false
		}
	}
	return (len(j.Only) == 0 || slices.Contains(j.Only, n.Name)) && !slices.Contains(j.Except, n.Name)
}

// gangShape is one way to divide a job's GPUs: so many on each of so many nodes.
type gangShape struct{ nodes, gpus int }

// gangShapesOf lists the ways in which job j's GPUs may be divided over nodes if the largest node has so many GPUs, the
// fewest nodes first. A job that fits on one node is not divided unless its user named a number of nodes. nil: there is
// no way, so the job cannot run.
func gangShapesOf(j *Job, largest int) []gangShape {
	switch {
	case j.Nodes > 0 && j.GPUs%j.Nodes != 0:
		return nil
	case j.Nodes > 0:
		return []gangShape{{j.Nodes, j.GPUs / j.Nodes}}
	case j.GPUs <= largest:
		return []gangShape{{1, j.GPUs}}
	}
	var shapes []gangShape
	for _, n := range divisors(j.GPUs, largest) {
		shapes = append(shapes, gangShape{n, j.GPUs / n})
	}
	return shapes
}

// divisors lists, in ascending order, the numbers of nodes over which gpus GPUs divide equally with no more than most
// on each.
func divisors(gpus, most int) []int {
	var numbers []int
	for n := 1; n <= gpus; n++ {
		if gpus%n == 0 && gpus/n <= most {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// menu is what a job of class k with so many GPUs on server n can be given there, cached by class. For a gang (fewer
// GPUs than the job has in all) it is the menu of the server's model, since a gang has one size on all its nodes. With
// Rules.CallableOnly, a class that cannot give back has no sizes above its share.
func (b *board) menu(k *jobClass, gpus, n int) *menu {
	if gpus < k.gpus {
		n = b.servers[n].model
	}
	at := menuPlace{gpus, b.servers[n].shape, b.c.Rules.CallableOnly && !k.canGiveBack}
	if m, known := k.menus[at]; known {
		return m
	}
	m := b.menus.menuOf(menuKey{ProfileOn(k.profile, b.servers[n].GPUType), gpus, k.tasks, b.servers[n].Total, k.terms,
		b.reference, at.noLoans})
	if k.menus == nil {
		k.menus = map[menuPlace]*menu{}
	}
	k.menus[at] = m
	return m
}

// leastSize is the smallest size with which job i may be started on server n.
func leastSize(b *board, i int, w gangShape, n int) sensitivity.Option {
	return b.leastOf(b.states[i].class, w, n)
}

// holdsLeast reports whether server n, if empty, could hold the least size of a job of class k. Without terms the least
// size is no more than the share, so where the share fits, the menu need not be computed.
func (b *board) holdsLeast(k *jobClass, w gangShape, n int) bool {
	total := b.servers[n].Total
	if k.terms == (terms{}) && wholeTasks(gres.Proportional(total, w.gpus), k.tasks).Fits(total) {
		return true
	}
	return b.leastOf(k, w, n).Size.Fits(total)
}

// leastOf is the smallest size with which a job of class k may be started on server n.
func (b *board) leastOf(k *jobClass, w gangShape, n int) sensitivity.Option {
	return b.alloc.sizes(b.menu(k, w.gpus, n))[0]
}

// wishOf is the size that the allocator would give a job if there were room.
func (b *board) wishOf(m *menu) gres.Vector {
	sizes := b.alloc.sizes(m)
	return sizes[len(sizes)-1].Size
}
