package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Check refuses a plan that breaks a promise, whoever made it. A plan breaks one if it leaves a job without its one
// decision, splits a gang, starts a job on a node that is closed or that the job cannot use, touches a protected job or
// more jobs than the rules allow, puts a job below its proportional throughput or its user's request or above what the
// site allows, or gives away more than a node has. What runs and stays unchanged is not the plan's doing and is only
// counted. The error names the first breaches of each promise and how many more there are.
//
// It shares no code with the planner, whose mistakes it is there to find: of this package it uses only what cluster.go
// exports, and no other code uses what is here.
func Check(c Cluster, p Plan) error {
	k := newChecker(&c)
	k.plan = &p
	k.noteSlots(p)
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if i > 0 && d.Job < p.Decisions[i-1].Job {
			k.breach(Complete, "job %d: its decision comes after that of job %d", d.Job, p.Decisions[i-1].Job)
		}
		if j := k.takeJob(d.Job); j != nil {
			k.checkDecision(j, d)
		} else {
			k.breach(Complete, "job %d: decided twice, or not in the snapshot", d.Job)
		}
	}
	k.reportUndecided()
	k.checkCapacities(p)
	k.checkDevices()
	k.checkQuotas()
	if most := c.Rules.MaxPreemptions; most > 0 && k.stopped > most {
		k.breach(Untouched, "%d running jobs stopped, the rules allow %d in a round", k.stopped, most)
	}
	k.reportRest()
	return errors.Join(k.breaches...)
}

// Promise names one thing that every plan must keep.
type Promise string

// The promises.
const (
	Complete  Promise = "complete"  // one decision for each job, in order
	Told      Promise = "told"      // every waiting job is told why it waits
	Whole     Promise = "whole"     // a job gets all its GPUs together or none
	Suited    Promise = "suited"    // jobs start only where and as they can run
	Untouched Promise = "untouched" // protected jobs go on, and no more jobs stop than the rules allow
	Fair      Promise = "fair"      // no job below its proportional share
	Asked     Promise = "asked"     // no job below its user's request, or slower than its user estimated
	// Allowed: no job has more than the site allows, or for good more than its share where the rules forbid that, and
	// no group of jobs has more than its quotas leave.
	Allowed  Promise = "allowed"
	Capacity Promise = "capacity" // no node gives away more than it has
)

// Promises lists all of them.
func Promises() []Promise {
	return []Promise{Complete, Told, Whole, Suited, Untouched, Fair, Asked, Allowed, Capacity}
}

// Breach is one case in which a plan breaks a promise. Check's error joins them.
type Breach struct {
	Promise Promise
	what    string
}

func (b *Breach) Error() string { return b.what }

// checker walks a plan once, and a second time if it gives away something that was not held before.
type checker struct {
	c            *Cluster
	plan         *Plan                     // the plan that is checked; set before the first check
	sorted       []*Job                    // ascending in ID; nil if the snapshot is sorted so
	decided      []bool                    // by position in ascending ID
	nextPosition int                       // position of the job that is expected to be decided next
	stopped      int                       // running jobs that stop or change
	nodes        map[string]int            // by name; made at first use
	tallies      []tally                   // of each node
	gangs        []gres.Vector             // see GangTotals; nil until first used
	heldByQuota  []quotaHolding            // of each quota; nil: no job has one
	slotJobs     map[deviceKey][]deviceJob // jobs with a slot on each device; nil: no job shares a GPU
	leavers      map[deviceKey][]*Job      // jobs that leave their slot on a device for another grant
	granted      map[int]*Placement        // by job; nil: no job shares a GPU
	// nodes on which a job may start that does not run there; nil until first used
	startNodes   map[string]bool
	breachCounts map[Promise]int // breaches of each promise, reported or not
	breaches     []error         // what is reported, in the order in which it was found
}

// tally is what a node gives away under the plan.
type tally struct {
	used    gres.Vector // what all grants of the plan have of the node, without foreign jobs
	changed bool        // some of it was not held before
}

// newChecker makes a checker of a snapshot. Decisions come in ascending ID, so a snapshot in another order is sorted,
// in a list of its own.
func newChecker(c *Cluster) *checker {
	k := &checker{c: c, decided: make([]bool, len(c.Jobs))}
	for i := 1; i < len(c.Jobs); i++ {
		if c.Jobs[i].ID < c.Jobs[i-1].ID {
			k.sortJobs()
			break
		}
	}
	return k
}

// sortJobs lists the jobs in ascending ID, the order in which they must be decided. The snapshot itself is not changed.
func (k *checker) sortJobs() {
	for i := range k.c.Jobs {
		k.sorted = append(k.sorted, &k.c.Jobs[i])
	}
	slices.SortStableFunc(k.sorted, func(x, y *Job) int { return cmp.Compare(x.ID, y.ID) })
}

// jobAt returns the job at a position in ascending ID, the order in which jobs are decided.
func (k *checker) jobAt(at int) *Job {
	if k.sorted == nil {
		return &k.c.Jobs[at]
	}
	return k.sorted[at]
}

// nodeNumber returns the number of a node in the snapshot by its name; false if it is not there. The table of names,
// and the tallies, are made at first use, which a plan that changes nothing never needs.
func (k *checker) nodeNumber(name string) (int, bool) {
	if k.nodes == nil {
		k.nodes, k.tallies = make(map[string]int, len(k.c.Nodes)), make([]tally, len(k.c.Nodes))
		for n := range k.c.Nodes {
			k.nodes[k.c.Nodes[n].Name] = n
		}
	}
	n, known := k.nodes[name]
	return n, known
}

// breach notes a breach of a promise. Only the first few of each promise are kept, since people read the error; the
// others are counted.
func (k *checker) breach(promise Promise, format string, args ...any) {
	if k.breachCounts == nil {
		k.breachCounts = map[Promise]int{}
	}
	if k.breachCounts[promise]++; k.breachCounts[promise] <= maxReported {
		k.breaches = append(k.breaches, &Breach{promise, fmt.Sprintf(format, args...)})
	}
}

// maxReported is how many breaches of a promise are reported one by one.
const maxReported = 5

// reportRest reports, for each promise, how many more breaches there are than were reported one by one.
func (k *checker) reportRest() {
	for _, promise := range Promises() {
		if more := k.breachCounts[promise] - maxReported; more > 0 {
			k.breaches = append(k.breaches, &Breach{promise, fmt.Sprintf("%s: %d more", promise, more)})
		}
	}
}

// checkDecision checks what the plan decides on job j: a new grant, a stop or change of a running job, or the reason
// why there is no grant. A running job that keeps what it has only counts in its quotas, since that is not the plan's
// doing.
func (k *checker) checkDecision(j *Job, d *Decision) {
	k.chargeQuotas(j, d.Grant)
	if keepsPlacement(j, d.Grant) {
		return
	}
	if j.Running != nil {
		k.checkDisturbance(j, d.Grant)
	}
	if d.Grant == nil {
		if j.Running != nil {
			k.checkRestartable(j)
		}
		k.checkWaitReason(j, d)
		return
	}
	k.checkGrant(j, d.Grant)
}

// keepsPlacement reports that job j runs and is left as it is: it is granted exactly what it has.
func keepsPlacement(j *Job, grant *Placement) bool {
	return j.Running != nil && grant != nil && (grant == j.Running || grant.Equal(*j.Running))
}

// takeJob returns the undecided job with an ID and marks it decided; nil: there is none, so it is decided twice or not
// in the snapshot. Decisions normally come in the order of the jobs, so the next job is tried before a search.
func (k *checker) takeJob(id int) *Job {
	at, known := k.nextPosition, k.nextPosition < len(k.decided) && k.jobAt(k.nextPosition).ID == id
	if !known {
		at, known = k.findJob(id)
	}
	if !known || k.decided[at] {
		return nil
	}
	k.decided[at], k.nextPosition = true, at+1
	return k.jobAt(at)
}

// findJob searches for a job by ID and returns its position in ascending ID; known is false if the snapshot has no such
// job.
func (k *checker) findJob(id int) (at int, known bool) {
	at = sort.Search(len(k.decided), func(at int) bool { return k.jobAt(at).ID >= id })
	return at, at < len(k.decided) && k.jobAt(at).ID == id
}

// reportUndecided reports the jobs without a decision, after all decisions have been taken.
func (k *checker) reportUndecided() {
	for at, decided := range k.decided {
		if !decided {
			k.breach(Complete, "job %d: no decision", k.jobAt(at).ID)
		}
	}
}

// checkDisturbance counts job j, which runs, among those that the plan stops or changes (g is nil if it stops), and
// checks that the rules allow that. A job that only rules.min_run or Stays protects may be asked for a loan all the
// same (givesBack).
func (k *checker) checkDisturbance(j *Job, g *Placement) {
	k.stopped++
	rules := k.c.Rules
	young, worn := k.c.Now.Sub(j.Started) < rules.MinRun, rules.MaxRestarts > 0 && j.Restarts >= rules.MaxRestarts
	if j.Fixed || worn || (young || j.Stays) && !k.givesBack(j, g) {
		k.breach(Untouched, "job %d: stopped or changed, and must not be touched", j.ID)
	}
}

// checkWaitReason checks that a job without a grant is told why, so that no user waits without a reason.
func (k *checker) checkWaitReason(j *Job, d *Decision) {
	if d.Why == "" || d.Reason == "" {
		k.breach(Told, "job %d: waits without a reason", j.ID)
	}
}

// checkGrant checks a placement that is new, in whole or in part: that the job may start, that it gets all its GPUs on
// as many nodes as its user asked for and equal cores for its tasks, and then each node.
func (k *checker) checkGrant(j *Job, g *Placement) {
	if j.Barred != "" {
		k.breach(Suited, "job %d: started, but %s", j.ID, j.Barred)
	}
	if len(g.Nodes) == 0 || g.PerNode.GPUs*len(g.Nodes) != j.GPUs {
		k.breach(Whole, "job %d: %d GPUs on each of %d nodes, want %d in all", j.ID, g.PerNode.GPUs, len(g.Nodes),
			j.GPUs)
	}
	if j.Nodes > 0 && len(g.Nodes) != j.Nodes {
		k.breach(Whole, "job %d: %d nodes, want %d", j.ID, len(g.Nodes), j.Nodes)
	}
	if cores := g.PerNode.CPUs; cores < 1 || cores%max(1, j.Tasks) != 0 {
		k.breach(Suited, "job %d: %d cores cannot be divided over %d tasks", j.ID, cores, max(1, j.Tasks))
	}
	if g.PerNode.Memory < 0 {
		k.breach(Suited, "job %d: %s of memory", j.ID, g.PerNode.Memory)
	}
	for i, name := range g.Nodes {
		if i > 0 && name <= g.Nodes[i-1] {
			k.breach(Suited, "job %d: nodes %s and %s are not in ascending order", j.ID, g.Nodes[i-1], name)
		}
		k.checkGrantOn(j, g, name)
	}
}

// checkGrantOn checks a new grant on one of its nodes: the node must be open, suit the job's request and be large
// enough, and the size must keep what the job is promised there. A low-class job with a slot beside others is promised
// less (acceptsLess). The sum of all grants on the node is checked at the end (checkCapacities).
func (k *checker) checkGrantOn(j *Job, g *Placement, name string) {
	n, known := k.nodeNumber(name)
	if !known {
		k.breach(Suited, "job %d: node %s is not in the snapshot", j.ID, name)
		return
	}
	k.tallies[n].changed = true
	node := &k.c.Nodes[n]
	if node.Closed != "" {
		k.breach(Suited, "job %d: node %s is closed: %s", j.ID, name, node.Closed)
	}
	if !askedFor(j, node) {
		k.breach(Suited, "job %d: node %s is not one that it asked for", j.ID, name)
	}
	if !g.PerNode.Fits(node.Total) || g.PerNode.GPUs < 0 { // else the sum of all grants could overflow
		k.breach(Capacity, "job %d: %s on node %s, which has %s", j.ID, g.PerNode, name, node.Total)
		return
	}
	k.checkReservations(j, node)
	fair := gres.Proportional(k.totalFor(g, n), g.PerNode.GPUs)
	if k.acceptsLess(j, g) {
		k.checkNamed(j, g.PerNode, fair, node)
	} else {
		k.checkShare(j, g.PerNode, fair, node)
		k.checkAsked(j, g.PerNode, fair, node)
		k.checkLentForGood(j, g.PerNode, fair, node)
	}
	k.checkCeiling(j, g.PerNode)
}

// totalFor is the node total from which the share of a grant on node n is computed: the node's own, or for a gang that
// of GangTotals, since a gang has one size on nodes whose memory may differ a little.
func (k *checker) totalFor(g *Placement, n int) gres.Vector {
	if len(g.Nodes) == 1 {
		return k.c.Nodes[n].Total
	}
	if k.gangs == nil {
		k.gangs = GangTotals(k.c.Nodes)
	}
	return k.gangs[n]
}

// askedFor reports whether the request of job j allows a node, open or not: by GPU type, features and lists of nodes.
func askedFor(j *Job, n *Node) bool {
	lacks := func(feature string) bool { return !n.Has(feature) }
	switch {
	case j.GPUType != "" && j.GPUType != n.GPUType, slices.ContainsFunc(j.Features, lacks),
		slices.Contains(j.Except, n.Name):
		return false
	}
	return len(j.Only) == 0 || slices.Contains(j.Only, n.Name)
}

// checkShare checks that a job is not slower than with its proportional share, as far as its ceiling allows it that;
// fair is the share on node n. A job without profile, or with a profile of another GPU, must have the share itself,
// since it is unknown what less would do to it.
func (k *checker) checkShare(j *Job, size, fair gres.Vector, n *Node) {
	due := cutToCeiling(j, fair)
	k.checkOtherResource(j, size, due, fair, n)
	due = wholeMiBPerCore(j, due, size.CPUs)
	if j.Profile == nil || isOtherGPU(j.Profile.GPUType, n.GPUType) {
		if !due.Fits(size) {
			k.breach(Fair, "job %d: %s on %s is less than the proportional share %s", j.ID, size, n.Name, due)
		}
		return
	}
	least := 1.0
	if due != fair {
		least = min(1, j.Profile.Gain(due, fair))
	}
	if gain := j.Profile.Gain(size, fair); gain < least-gainTolerance {
		k.breach(Fair, "job %d: %s on %s is %.3f of the proportional throughput", j.ID, size, n.Name, gain)
	}
}

// checkOtherResource checks that a ceiling on one resource is not taken as a reason to give less of the other. A job
// whose ceiling cuts its share of memory must have its share of cores, and the other way round, whatever its profile
// says (see Job.Ceiling). fair is the share, due the part of it that the ceiling allows.
func (k *checker) checkOtherResource(j *Job, size, due, fair gres.Vector, n *Node) {
	most := j.Ceiling
	if most.Memory > 0 && most.Memory < fair.Memory && size.CPUs < due.CPUs {
		k.breach(Fair, "job %d: %d cores on %s, and its share is %d: that it may have no more than %s is no reason",
			j.ID, size.CPUs, n.Name, due.CPUs, most.Memory)
	}
	if least := wholeMiBPerCore(j, due, size.CPUs).Memory; most.CPUs > 0 && most.CPUs < fair.CPUs &&
		size.Memory < least {
		k.breach(Fair, "job %d: %s on %s, and its share is %s: that it may have no more than %d cores is no reason",
			j.ID, size.Memory, n.Name, least, most.CPUs)
	}
}

// wholeMiBPerCore is how much of an amount is owed to a job with so many cores. A job with memory by the core
// (Job.PerCore) can only be given whole MiB for each, so its memory is rounded down to that; any other amount is
// returned as it is.
func wholeMiBPerCore(j *Job, v gres.Vector, cores int) gres.Vector {
	if j.PerCore && cores > 0 {
		v.Memory -= v.Memory % gres.Memory(cores)
	}
	return v
}

// isOtherGPU reports that a profile was measured on another GPU than a node has: both are named, and neither name
// contains all words of the other, as H100 and nvidia_h100_80gb_hbm3 do. Such a profile says nothing about the node, so
// the job must have its proportional share there.
func isOtherGPU(measured, has string) bool {
	if measured == "" || has == "" || strings.EqualFold(measured, has) {
		return false
	}
	apart := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	m, h := strings.FieldsFunc(strings.ToLower(measured), apart), strings.FieldsFunc(strings.ToLower(has), apart)
	lacks := func(some, all []string) bool {
		return len(some) == 0 || slices.ContainsFunc(some, func(w string) bool { return !slices.Contains(all, w) })
	}
	return lacks(m, h) && lacks(h, m)
}

// checkAsked checks that a job has its floor, and is no slower than with its pace, from which the length of its run
// was estimated, as far as its ceiling allows. Where no profile tells the speed (silent), the job must have the amounts
// of the pace themselves. fair is the share on node n and stands for what the pace does not name.
func (k *checker) checkAsked(j *Job, size, fair gres.Vector, n *Node) {
	if size.CPUs < j.Floor.CPUs || size.Memory < j.Floor.Memory {
		k.breach(Asked, "job %d: %s on %s, and its user asked for %d cores and %s", j.ID, size, n.Name, j.Floor.CPUs,
			j.Floor.Memory)
	}
	if j.Pace.CPUs == 0 && j.Pace.Memory == 0 {
		return
	}
	pace := cutToCeiling(j, gres.Vector{GPUs: size.GPUs, CPUs: cmp.Or(j.Pace.CPUs, fair.CPUs),
		Memory: cmp.Or(j.Pace.Memory, fair.Memory)})
	silent := j.Profile == nil || isOtherGPU(j.Profile.GPUType, n.GPUType)
	here := pace
	here.CPUs, here.Memory = min(pace.CPUs, n.Total.CPUs), min(pace.Memory, n.Total.Memory)
	if !silent && j.Profile.Gain(here, fair) >= j.Profile.Gain(pace, fair) {
		pace = here // the whole node is as fast as a pace that does not fit on it
	}
	pace = wholeMiBPerCore(j, pace, size.CPUs)
	slower := silent && (size.CPUs < min(pace.CPUs, j.Pace.CPUs) || size.Memory < min(pace.Memory, j.Pace.Memory))
	if !silent {
		slower = j.Profile.Gain(size, fair) < j.Profile.Gain(pace, fair)*(1-gainTolerance)
	}
	if slower {
		k.breach(Asked, "job %d: %s on %s is slower than %s, which its user reckoned with", j.ID, size, n.Name, pace)
	}
}

// checkCeiling checks that a job has no more on a node than its ceiling, the most that the site or the user's request
// allows; 0 is no ceiling.
func (k *checker) checkCeiling(j *Job, size gres.Vector) {
	cores, memory := j.Ceiling.CPUs, j.Ceiling.Memory
	if cores > 0 && size.CPUs > cores || memory > 0 && size.Memory > memory {
		k.breach(Allowed, "job %d: %s on each node, and the site allows it %d cores and %s", j.ID, size, cores, memory)
	}
}

// checkLentForGood checks, under Rules.CallableOnly, that a job which cannot be asked to give back has no more than its
// share, its floor and its pace, in whole cores for each task. What such a job has beyond that would be lost to other
// jobs until it ends. fair is the share on node n.
func (k *checker) checkLentForGood(j *Job, size, fair gres.Vector, n *Node) {
	runs, most, tasks := j.Restarts, k.c.Rules.MaxRestarts, max(1, j.Tasks)
	if j.Running != nil {
		runs++
	}
	if !k.c.Rules.CallableOnly || j.Saves && (most == 0 || runs < most) {
		return
	}
	due := fair.Max(j.Floor).Max(j.Pace)
	due.CPUs += (tasks - due.CPUs%tasks) % tasks
	if j.PerCore && size.CPUs > 0 {
		most := cmp.Or(j.Ceiling.Memory, n.Total.Memory)
		for due.CPUs < size.CPUs && roundUpMemory(j.Floor.Memory, due.CPUs) > most {
			due.CPUs += tasks // fewer cores cannot share what it needs in whole MiB without exceeding its bound
		}
		due.Memory = roundUpMemory(due.Memory, size.CPUs)
	}
	if size.CPUs > due.CPUs || size.Memory > due.Memory {
		k.breach(Allowed, "job %d: %s on %s, and a job that cannot give back may have %s", j.ID, size, n.Name, due)
	}
}

// roundUpMemory rounds memory up to whole MiB for each of so many cores, at least one.
func roundUpMemory(m gres.Memory, cores int) gres.Memory {
	c := gres.Memory(cores)
	return (m + c - 1) / c * c
}

// cutToCeiling is an amount on one node cut to the job's ceiling, in cores that its tasks can share equally. A resource
// without a ceiling is not cut.
func cutToCeiling(j *Job, v gres.Vector) gres.Vector {
	if most := j.Ceiling.CPUs; most > 0 {
		v.CPUs = min(v.CPUs, most-most%max(1, j.Tasks))
	}
	if most := j.Ceiling.Memory; most > 0 {
		v.Memory = min(v.Memory, most)
	}
	return v
}

// gainTolerance is the relative error that interpolation in a profile may make, and by which no promise is broken.
const gainTolerance = 1e-6

// checkCapacities checks that no node gives away more than it has. Only nodes with a new grant are judged: where more
// is held than there is and nothing changes, that is not the plan's doing. It does nothing if the plan grants nothing
// new.
func (k *checker) checkCapacities(p Plan) {
	if k.tallies == nil {
		return
	}
	for i := range p.Decisions {
		if g := p.Decisions[i].Grant; g != nil {
			k.tallyGrant(g)
		}
	}
	for at, list := range k.slotJobs { // all jobs on one device hold one GPU together
		if n, known := k.nodeNumber(at.node); known {
			for _, s := range list[1:] {
				k.tallies[n].used.GPUs -= s.holding.PerNode.GPUs
			}
		}
	}
	for n := range k.tallies {
		t, node := &k.tallies[n], &k.c.Nodes[n]
		if used := t.used.Plus(node.Foreign); t.changed && !used.Fits(node.Total) {
			k.breach(Capacity, "node %s: %s given away, it has %s", node.Name, used, node.Total)
		}
	}
}

// tallyGrant adds a grant to what its nodes give away. Nodes that are not in the snapshot are left out; they are
// reported elsewhere if the grant is new.
func (k *checker) tallyGrant(g *Placement) {
	for _, name := range g.Nodes {
		if n, known := k.nodeNumber(name); known {
			k.tallies[n].used = k.tallies[n].used.Plus(g.PerNode)
		}
	}
}
