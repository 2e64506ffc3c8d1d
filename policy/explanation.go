package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// answer is why a job waits, stops or changes: a word and a sentence.
type answer struct {
	reason Reason
	why    string
}

// explainWaits tells every waiting job the one reason for that: what would have to be different for it to run. Later
// passes use the reasons, too: a job that no free server would help keeps no server from others (cannotUseFree).
func explainWaits(b *board) {
	for i := range b.states {
		if s := &b.states[i]; s.status == statusWaiting && !s.stopped { // a stopped job was told when it was stopped
			s.answer = reasonToWait(b, i)
		}
	}
}

// speedupText says how much faster job i, which grows, becomes by its restart with the new placement.
func speedupText(b *board, i int, to Placement) string {
	j, s := b.jobs[i], &b.states[i]
	verb := "restarts"
	if !slices.Equal(j.Running.Nodes, to.Nodes) {
		verb = "moves"
	}
	return fmt.Sprintf("%s to train %.2f× as fast", verb, s.speed()/s.speedBefore)
}

// reasonToWait finds why job i waits. What depends on the job alone comes first: that it may not start, a reservation,
// or that its own nodes are being cleared. Any other reason is the same for all jobs of its class with the same limit,
// and is found once a round.
func reasonToWait(b *board, i int) *answer {
	if why := b.jobs[i].Barred; why != "" {
		return &answer{Barred, why}
	}
	if out := reservationAnswer(b, i); out != nil {
		return out
	}
	if r := b.keptNodes; r != nil && r.job == i && r.idleGPUs > 0 {
		return clearingAnswer(b, i)
	}
	s := &b.states[i]
	told := &s.class.waitAnswers[s.limit]
	if told.reason == "" {
		*told = firstLack(b, i)
	}
	return told
}

// firstLack finds what is missing for job i: the first of a possible size, nodes that could hold it, open nodes, equal
// nodes, quotas, permission to stop others, free GPUs, and room on nodes. A later one would not help without those
// before, so the first is what the job is told.
func firstLack(b *board, i int) answer {
	j, k := b.jobs[i], b.states[i].class
	switch {
	case k.impossibleWhy != "":
		return answer{Shape, k.impossibleWhy}
	case len(k.gangShapes) == 0:
		return answer{Shape, noShapeText(j, k.eligible.largest)}
	}
	f := b.fitOf(k)
	w := f.shape
	closed := f.ableNodes.countCommon(b.closed)
	switch {
	case f.ableCount < w.nodes:
		return answer{Shape, f.tooFewText(j, w)}
	case f.ableCount-closed < w.nodes:
		return answer{Closed, fmt.Sprintf("needs %s, and %s closed (%s)", nodesWith(w), f.closedText(closed, w),
			closedNodeText(b, f))}
	}
	if w.nodes > 1 {
		if most, enough := mostEqualNodes(b, k, true); !enough {
			return answer{
				Shape,
				fmt.Sprintf("needs %d equal nodes, and of those that could hold part of it at most %d are equal",
					w.nodes, most),
			}
		}
		if most, enough := mostEqualNodes(b, k, false); !enough {
			return answer{
				Closed,
				fmt.Sprintf("needs %d equal nodes, and of those that are open at most %d are equal (%s)",
					w.nodes, most, closedNodeText(b, f)),
			}
		}
	}
	if p, needs := blockingQuota(b, k); p != nil {
		return answer{InQuota, p.exhaustedText(needs)}
	}
	switch b.states[i].limit {
	case byRule:
		return answer{Limit,
			"would fit in the place of others, but the rules allow no more jobs to be stopped in this round"}
	case byCost:
		return answer{Limit, "would fit in the place of others, but their restarts would cost more than it would gain"}
	}
	switch free := freeGPUsFor(b, k); {
	case free < j.GPUs && b.keptNodes != nil && b.keptNodes.idleGPUs > 0 && free+b.keptNodes.idleGPUs >= j.GPUs:
		return answer{HeldBack, keptForText(b, i)}
	case free < j.GPUs:
		return k.turnAnswer(free)
	}
	c := surveyNodes(b, i, w)
	switch {
	case c.enoughNodes < w.nodes && c.enoughNodes+c.withheld >= w.nodes:
		return answer{HeldBack, keptForText(b, i)}
	case c.enoughNodes < w.nodes:
		return answer{Gang, c.scatteredText(w)}
	case c.quota != nil:
		return answer{InQuota, c.quota.exhaustedText(c.needs)}
	case c.keptForOther > 0:
		return answer{HeldBack, keptForText(b, i)}
	}
	return c.starvedAnswer(w)
}

// keptForText tells job i for which job nodes are kept, and which jobs may use them meanwhile, so that its user can
// declare a checkpoint or a time limit.
func keptForText(b *board, i int) string {
	why := fmt.Sprintf("what is free is kept for job %d, which has waited too long", b.jobs[b.keptNodes.job].ID)
	var may []string
	if !staysForGood(b, i) {
		may = append(may, "that declares a checkpoint")
	}
	if by := b.keptNodes.shadowTime; by.After(b.c.Now) {
		may = append(may, "whose time limit ends by "+by.Format(time.DateTime))
	}
	if b.keptNodes.closed || len(may) == 0 {
		return why
	}
	return why + "; only a job " + strings.Join(may, " or ") + " may use it meanwhile"
}

// clearingAnswer tells job i how far the clearing of its nodes has come.
func clearingAnswer(b *board, i int) *answer {
	return &answer{Clearing,
		fmt.Sprintf("%s of the %d that it needs; as many jobs leave the rest in each round as the rules allow",
			countAre(b.keptNodes.idleGPUs, "GPU")+" kept for it", b.jobs[i].GPUs)}
}

// turnAnswer is the answer to jobs of class k that need more GPUs than are free. The text is cached from round to
// round, since most jobs wait for just that.
func (k *jobClass) turnAnswer(free int) answer {
	if k.cachedTurn.reason == "" || k.cachedTurnFree != free {
		k.cachedTurnFree = free
		k.cachedTurn = answer{Turn, fmt.Sprintf("%s free, it needs %d; none of the jobs that run has to give way to it",
			countAre(free, "GPU"), k.gpus)}
	}
	return k.cachedTurn
}

// freeGPUsIn counts the free GPUs on the open servers of z. The number is cached for the round, since many classes
// share an eligibility, and waits are explained at one time.
func freeGPUsIn(b *board, z *eligibility) int {
	if z.freeRound != b.round {
		z.freeRound, z.free = b.round, 0
		for n := range b.servers {
			if sv := &b.servers[n]; sv.Closed == "" && z.servers.has(n) {
				z.free += max(sv.available().GPUs, 0)
			}
		}
	}
	return z.free
}

// freeGPUsFor counts the free GPUs on open servers where jobs of class k may be started, without those on which a
// reservation begins before such a job ends.
func freeGPUsFor(b *board, k *jobClass) int {
	free := freeGPUsIn(b, k.eligible)
	if k.reservedNow == nil {
		return free
	}
	for n := range b.servers {
		if sv := &b.servers[n]; sv.Closed == "" && k.isReservedNow(n) && k.eligible.servers.has(n) {
			free -= max(sv.available().GPUs, 0)
		}
	}
	return free
}

// noShapeText says why no gang shape is possible for job j, which has none. largest is how many GPUs the largest node
// has that it may use; 0: there is no such node, or it has no GPU.
func noShapeText(j *Job, largest int) string {
	if largest == 0 {
		return "needs GPUs" + qualitiesText(j) + ", and no node that it may use has any"
	}
	return fmt.Sprintf("%d GPUs cannot be divided equally over %d nodes", j.GPUs, j.Nodes)
}

// emptyFit is what the eligible nodes could give a class of jobs if they were empty.
type emptyFit struct {
	shape     gangShape   // the division of the GPUs over nodes for which the rest holds
	wideNodes int         // nodes with GPUs enough
	unmetNeed gres.Vector // least size on one of them that cannot hold it
	ableNodes serverSet   // nodes that could hold their part of a job
	ableCount int         // size of ableNodes
}

// fitOf finds which nodes could hold a part of a job of class k if they were empty: for the gang shape with the fewest
// nodes for which there are enough of them, and otherwise for the first. It stays the same as long as the nodes do, so
// it is found once for each class, which must have a shape.
func (b *board) fitOf(k *jobClass) *emptyFit {
	if k.fit != nil {
		return k.fit
	}
	for _, w := range k.gangShapes {
		f := b.fitFor(k, w)
		enough := f.ableCount >= w.nodes
		if k.fit == nil || enough {
			k.fit = f
		}
		if enough {
			break
		}
	}
	return k.fit
}

// fitFor finds what eligible servers could give a job of class k in shape w if they were empty: how many have the GPUs,
// and which of these could hold the least size. unmetNeed is the least size on the last server that could not.
func (b *board) fitFor(k *jobClass, w gangShape) *emptyFit {
	f := &emptyFit{shape: w, ableNodes: newServerSet(len(b.servers))}
	for n := range b.servers {
		if sv := &b.servers[n]; k.eligible.servers.has(n) && sv.Total.GPUs >= w.gpus {
			f.wideNodes++
			if b.holdsLeast(k, w, n) {
				f.ableNodes.add(n)
				f.ableCount++
			} else {
				f.unmetNeed = b.leastOf(k, w, n).Size
			}
		}
	}
	return f
}

// mostEqualNodes is the largest number of equal nodes that could hold their part of a gang of class k; closed says
// whether closed nodes count. enough: for one of its shapes there are as many as it needs. A gang needs equal nodes,
// since Slurm knows one size per job.
func mostEqualNodes(b *board, k *jobClass, closed bool) (most int, enough bool) {
	for _, w := range k.gangShapes {
		equal := map[int]int{} // by model
		for n := range b.servers {
			sv := &b.servers[n]
			if k.eligible.servers.has(n) && sv.Total.GPUs >= w.gpus && (closed || sv.Closed == "") &&
				b.holdsLeast(k, w, n) {
				equal[sv.model]++
				most = max(most, equal[sv.model])
				enough = enough || equal[sv.model] >= w.nodes
			}
		}
	}
	return most, enough
}

// closedNodeText names one of the closed nodes that could hold the job, the last by name, and why it is closed; empty:
// there is none.
func closedNodeText(b *board, f *emptyFit) string {
	for n := len(b.servers) - 1; n >= 0; n-- {
		if sv := &b.servers[n]; sv.Closed != "" && f.ableNodes.has(n) {
			return fmt.Sprintf("%s: %s", sv.Name, sv.Closed)
		}
	}
	return ""
}

// survey is what is free on the open nodes that could hold a part of a job.
type survey struct {
	free         int // free GPUs on all eligible nodes
	mostFree     int // the most on one node
	bestFree     int // the most on one that could hold a part of the job
	enoughNodes  int // nodes with enough free GPUs
	keptForOther int // of those, nodes with all that it needs that are kept for another job
	// withheld counts nodes that would have enough free GPUs but for those that are kept while the node is cleared.
	withheld    int
	quota       *quotaBalance // the quota that leaves too little for the last node with room
	needs       quotaUse      // what the job needs of it
	shortServer *server       // the node with enough GPUs that lacks fewest cores; nil: none lacks cores or memory
	lack        gres.Vector   // what is missing on shortServer
}

// surveyNodes sums up what the open nodes have free for job i in shape w, without those that a reservation takes. From
// the result firstLack chooses the reason why the job waits; fitOf has been called for its class.
func surveyNodes(b *board, i int, w gangShape) survey {
	k := b.states[i].class
	c := survey{free: freeGPUsFor(b, k)}
	for n := range b.servers {
		if sv := &b.servers[n]; sv.Closed == "" && k.eligible.servers.has(n) && !k.isReservedNow(n) {
			c.mostFree = max(c.mostFree, sv.available().GPUs)
			if k.fit.ableNodes.has(n) {
				c.bestFree = max(c.bestFree, sv.available().GPUs)
				addToSurvey(b, &c, i, w, n)
			}
		}
	}
	return c
}

// addToSurvey adds open server n, which could hold a part of job i, to a survey. It counts what stands in the way
// there: GPUs, quotas, that the server is kept for another job, or cores and memory. Of the servers that have the GPUs
// but not the cores or memory, the survey names the one that lacks fewest cores (shortServer). What calling back loans
// would free there is not counted as lacking. If that would free all of it, all of it is counted, so that the reason
// names an amount.
func addToSurvey(b *board, c *survey, i int, w gangShape, n int) {
	sv, k := &b.servers[n], b.states[i].class
	least := b.leastOf(k, w, n).Size
	lack := least.Minus(sv.available())
	switch {
	case lack.GPUs > 0 && lack.GPUs <= b.keptNodes.idleGPUsOn(n):
		c.withheld++
	case lack.GPUs > 0:
	case covered(lack) && !affords(b, k, w.nodes, least):
		c.enoughNodes++
		c.needs = quotaUseFor(w.nodes, least)
		c.quota = shortQuota(b, k, c.needs)
	case covered(lack) && yieldsServer(b, i, n):
		c.enoughNodes++
		c.keptForOther++
	case covered(lack):
		c.enoughNodes++
	default:
		c.enoughNodes++
		if binds := lack.Minus(
			callableAmount(b, n),
		); !covered(
			binds,
		) { // calling back loans would free the rest
			lack = binds
		}
		if c.shortServer == nil || lack.CPUs < c.lack.CPUs {
			c.shortServer, c.lack = sv, lack
		}
	}
}

// closedText says, as part of a sentence, how many of the nodes that could hold a job are closed.
func (f *emptyFit) closedText(closed int, w gangShape) string {
	hold := "that could hold it"
	if w.nodes > 1 {
		hold = "that could hold part of it"
	}
	switch {
	case f.ableCount == 1:
		return "the only one " + hold + " is"
	case closed == f.ableCount:
		return fmt.Sprintf("the %d %s are", f.ableCount, hold)
	case closed == 1:
		return fmt.Sprintf("1 of the %d %s is", f.ableCount, hold)
	}
	return fmt.Sprintf("%d of the %d %s are", closed, f.ableCount, hold)
}

// tooFewText says for which need of job j there are too few nodes in the cluster: for its amounts if enough nodes have
// the GPUs, else for nodes with such GPUs that it may use.
func (f *emptyFit) tooFewText(j *Job, w gangShape) string {
	if f.wideNodes >= w.nodes {
		return fmt.Sprintf("needs %s on %s, more than there is", f.unmetNeed, count(w.nodes, "node"))
	}
	return fmt.Sprintf("needs %s%s, and there %s among those that it may use", nodesWith(w), qualitiesText(j),
		areCount(f.ableCount, "such node"))
}

// qualitiesText are the GPU type and the features that j asks of a node, in words for a reason; empty: none.
func qualitiesText(j *Job) string {
	wants := j.Features
	if j.GPUType != "" {
		wants = append([]string{j.GPUType}, wants...)
	}
	if len(wants) == 0 {
		return ""
	}
	return " (" + strings.Join(wants, ", ") + ")"
}

// scatteredText says that enough GPUs are free in all, but not together on as many nodes as the job needs.
func (c *survey) scatteredText(w gangShape) string {
	small := c.mostFree >= w.gpus && c.bestFree < w.gpus // the nodes with enough free GPUs could not hold it
	switch {
	case w.nodes == 1 && small:
		return fmt.Sprintf("no node that could hold it has %s: of %d at most %d are on one of these",
			count(w.gpus, "free GPU"), c.free, c.bestFree)
	case w.nodes == 1:
		return fmt.Sprintf("no node has %s: of %d at most %d are on one node", count(w.gpus, "free GPU"), c.free,
			c.mostFree)
	}
	return fmt.Sprintf("needs %s free on each of %d equal nodes, and %s so many", count(w.gpus, "GPU"), w.nodes,
		onlyHave(c.enoughNodes))
}

// starvedAnswer is the answer where enough nodes have enough free GPUs: what one of them lacks of cores or memory, or
// that they are not equal, as a gang needs.
func (c *survey) starvedAnswer(w gangShape) answer {
	switch {
	case c.shortServer == nil:
		return answer{Gang, fmt.Sprintf("needs %d equal nodes, and those with %s are of different kinds", w.nodes,
			count(w.gpus, "free GPU"))}
	case c.lack.CPUs > 0 && c.lack.Memory > 0:
		return answer{Cores, fmt.Sprintf("%s has %s, but is %s and %s of memory short", c.shortServer.Name,
			c.shortServer.freeGPUs(), count(c.lack.CPUs, "core"), c.lack.Memory)}
	case c.lack.CPUs > 0:
		return answer{Cores, fmt.Sprintf("%s has %s, but is %s short", c.shortServer.Name, c.shortServer.freeGPUs(),
			count(c.lack.CPUs, "core"))}
	}
	return answer{RAM, fmt.Sprintf("%s has %s, but is %s of memory short", c.shortServer.Name, c.shortServer.freeGPUs(),
		c.lack.Memory)}
}

// freeGPUs is the number of free GPUs in words.
func (s *server) freeGPUs() string { return count(s.available().GPUs, "free GPU") }

// nodesWith says what nodes shape w needs, such as "2 nodes with 8 GPUs each".
func nodesWith(w gangShape) string {
	text := count(w.nodes, "node") + " with " + count(w.gpus, "GPU")
	if w.nodes > 1 {
		text += " each"
	}
	return text
}

// onlyHave is "none has", "only 1 has" or "only 2 have".
func onlyHave(n int) string {
	switch n {
	case 0:
		return "none has"
	case 1:
		return "only 1 has"
	}
	return fmt.Sprintf("only %d have", n)
}

// areCount is "is no node", "is 1 node" or "are 2 nodes" for the thing node.
func areCount(n int, thing string) string {
	if n < 2 {
		return "is " + count(n, thing)
	}
	return "are " + count(n, thing)
}

// countAre is "no GPU is", "1 GPU is" or "2 GPUs are" for the thing GPU.
func countAre(n int, thing string) string {
	if n < 2 {
		return count(n, thing) + " is"
	}
	return count(n, thing) + " are"
}

// count is "no GPU", "1 GPU" or "2 GPUs" for the thing GPU.
func count(n int, thing string) string {
	switch n {
	case 0:
		return "no " + thing
	case 1:
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
