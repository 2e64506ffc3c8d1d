package story

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// WhyNot says why a job does not run, or why it runs with no more than it has, after a round.
type WhyNot struct {
	Job   int       `json:"job"`
	State JobState  `json:"state"`
	Round int       `json:"round"`
	Began time.Time `json:"began"`
	Name  string    `json:"name,omitempty"`
	User  string    `json:"user,omitempty"`
	GPUs  int       `json:"gpus,omitempty"`
	Says  string    `json:"says"` // the answer in a sentence
	// Wait is the reason in fixed words, if it waits. Ahead is how many jobs ahead of it wait for room, and Next lists
	// the first of them.
	Wait  *bridge.Wait `json:"wait,omitempty"`
	Ahead int          `json:"ahead,omitempty"`
	Next  []int        `json:"ahead_next,omitempty"`
	Since time.Time    `json:"since,omitzero"`
	// Kinds are the nodes, grouped by capacity and lack; those that lack least come first.
	Kinds  []Kind  `json:"nodes,omitempty"`
	Quotas []Tight `json:"quotas,omitempty"` // the job's quotas that leave too little
	// Helps lists what would change the answer, each as a sentence. Changes of the request were tried against the plan.
	Helps []string `json:"helps,omitempty"`
	Notes []string `json:"notes,omitempty"` // the round's notes for the job's user
}

// JobState is a job's state after a round.
type JobState string

// The states.
const (
	StateWaits   JobState = "waits"
	StateStarts  JobState = "starts" // the plan starts it, but it did not run when the round ended
	StateRuns    JobState = "runs"
	StateOutside JobState = "outside" // it is left to Slurm
	StateUnknown JobState = "unknown" // the round did not see it with our directive
)

// Lack is what a node lacks for a job.
type Lack string

// The values of Lack; first those that more room does not cure.
const (
	LacksPlace   Lack = "not-named"   // the job names other nodes, or its partitions contain other nodes
	LacksLeave   Lack = "excluded"    // the job excludes the node
	LacksType    Lack = "gpu-type"    // the job asks for another type
	LacksFeature Lack = "feature"     // the job asks for one that the node does not have
	LacksSize    Lack = "too-small"   // even the empty node could not hold its part of the job
	LacksOpen    Lack = "closed"      // the node is drained or down
	LacksTime    Lack = "reservation" // a reservation begins before the job's time limit ends, or has begun
	LacksGPUs    Lack = "gpus"
	LacksCores   Lack = "cores"
	LacksMemory  Lack = "memory"
	LacksTerms   Lack = "terms" // what the job needs is free, but not a size with which it may run there
	LacksNothing Lack = ""      // the node has room
)

// lackOrder are all values, the nearest to having room first.
var lackOrder = []Lack{LacksNothing, LacksTerms, LacksMemory, LacksCores, LacksGPUs, LacksTime, LacksOpen, LacksSize,
	LacksFeature, LacksType, LacksLeave, LacksPlace}

// Kind is a group of equal nodes that lack the same for a job.
type Kind struct {
	Nodes []string    `json:"nodes"`
	Each  gres.Vector `json:"each"` // the capacity of one node; the memory is that of the first
	Type  string      `json:"gpu_type,omitempty"`
	Lacks Lack        `json:"lacks,omitempty"`
	Says  string      `json:"says"`
	// Nearest is the node of the group with the most free, Free what is free there, and Holders who has the rest.
	Nearest string      `json:"nearest,omitempty"`
	Free    gres.Vector `json:"free"`
	Needs   gres.Vector `json:"needs,omitzero"` // on one node
	Holders []Holder    `json:"holders,omitempty"`
}

// Tight is a quota that leaves too little for the job.
type Tight struct {
	Name  string `json:"name"`
	Says  string `json:"says"`
	Holds []int  `json:"held_by,omitempty"` // managed jobs under the quota that have something
}

// AskWhyNot answers from one report why a job does not run, or why it has no more cores than it has. The state is
// StateUnknown for a job that the report does not know.
func AskWhyNot(job int, report *bridge.Report) WhyNot {
	q := question{report: report}
	q.answer = WhyNot{Job: job, Round: report.Round, Began: report.Began, State: StateUnknown}
	q.job = findFirst(report.Snapshot.Jobs, func(j policy.Job) bool { return j.ID == job })
	q.decision = findFirst(report.Plan.Decisions, func(d policy.Decision) bool { return d.Job == job })
	for _, n := range report.Notes {
		if n.Job == job {
			q.answer.Notes = append(q.answer.Notes, n.Text)
		}
	}
	if q.job == nil || q.decision == nil {
		q.explainUnplanned()
		return q.answer
	}
	q.room = roomOf(report)
	q.computeQuotas()
	q.answer.Name, q.answer.User, q.answer.GPUs = q.job.Name, q.job.User, q.job.GPUs
	q.answer.Since = q.job.Arrival
	switch {
	case q.decision.Grant == nil:
		q.explainWaiting()
	case q.job.Running == nil:
		q.explainStarting()
	default:
		q.explainRunning()
	}
	return q.answer
}

// question is the state of answering one question.
type question struct {
	report       *bridge.Report
	job          *policy.Job      // nil: no plan decides on it
	decision     *policy.Decision // nil: no plan decides on it
	room         room             // empty for a job on which no plan decides
	quotasLeft   []policy.Quota   // what the job's quotas leave after the plan, in its order
	quotaHolders [][]int          // the managed jobs that hold the rest, by quota; nil: it has no quotas
	answer       WhyNot           // filled in step by step
}

// explainUnplanned answers for a job on which no plan decides. Slurm starts such a job by its own order, if the report
// lists it as left to Slurm. A held job is listed so, too, but the answer is that it waits, since it needs its release
// first. If the report does not list the job, the state stays StateUnknown.
func (q *question) explainUnplanned() {
	a := &q.answer
	if w := findFirst(q.report.Waits, func(w bridge.Wait) bool { return w.Job == a.Job }); w != nil {
		a.Wait, a.Name, a.User, a.GPUs, a.Since = w, w.Name, w.User, w.GPUs, w.Since
	}
	out := findFirst(q.report.Outside, func(o bridge.Outside) bool { return o.Job == a.Job })
	if out == nil {
		a.Says = fmt.Sprintf("no round up to %d knows job %d", a.Round, a.Job)
		return
	}
	a.State, a.Says = StateOutside, "the daemon leaves it to Slurm: "+out.Why
	if a.Wait != nil && a.Wait.Cause == bridge.CauseHeld {
		a.State, a.Says = StateWaits, "it is held"
		a.Helps = q.advice(a.Wait.Cause)
		return
	}
	a.Helps = []string{"Slurm starts it as it was asked for, by its own order: squeue says why it waits there; the " +
		"daemon plans it once that is mended (docs/job-contract.md)"}
}

// explainStarting answers for a job that the plan starts and that did not run in the snapshot, which is from before the
// round. If its start succeeded in this round, it runs now, and the answer is that of a running job.
func (q *question) explainStarting() {
	a := &q.answer
	a.State = StateStarts
	step := findFirst(q.report.Steps, func(s bridge.Step) bool { return s.Verb == bridge.Start && s.Job == a.Job })
	if why := whyNotStarted(step, q.report.Shadow); why != "" {
		a.Says = why + " " + placementText(*q.decision.Grant) + " on " + Nodes(q.decision.Grant.Nodes)
		if step != nil && step.Error != "" {
			a.Helps = []string{"the daemon tries again, in the next round at the latest"}
		}
		return
	}
	a.State = StateRuns
	a.Says = "it was started in this round with " + placementText(
		*q.decision.Grant,
	) + " on " + Nodes(
		q.decision.Grant.Nodes,
	)
	q.explainSize()
}

// explainWaiting answers for a job without a grant: the reason, the jobs ahead of it and what would help. Such a job
// may still run, if the plan stops it. Nodes and quotas are looked at only for reasons that more room could change
// (changedByRoom). If the report records no wait of the job, the plan's reason stands in.
func (q *question) explainWaiting() {
	a := &q.answer
	a.State = StateWaits
	w := findFirst(q.report.Waits, func(w bridge.Wait) bool { return w.Job == a.Job })
	if w == nil {
		w = &bridge.Wait{Job: a.Job, Reason: bridge.ForRoom, Cause: bridge.CauseOther, Why: q.decision.Why}
	}
	a.Wait, a.Says = w, "it waits: "+w.Why
	before := Ahead(q.report.Waits, w)
	a.Ahead, a.Next = len(before), firstAhead(before)
	if q.job.Running != nil {
		a.Says = fmt.Sprintf("it is asked to save and leave %s: %s", Nodes(q.job.Running.Nodes), w.Why)
	}
	a.Helps = q.advice(w.Cause)
	if !changedByRoom[w.Reason] {
		return
	}
	q.addTightQuotas()
	a.Kinds = q.groupNodes()
	a.Helps = append(a.Helps, q.helpfulChanges()...)
}

// changedByRoom are the reasons for which it is useful to look at nodes.
var changedByRoom = map[bridge.WaitReason]bool{
	bridge.Misconfigured: true,
	bridge.ByLimits:      true,
	bridge.NodesClosed:   true,
	bridge.ByOrder:       true,
	bridge.ForRoom:       true,
}

// advice returns one sentence on what helps against a cause of waiting, whatever the nodes have free. It returns nil if
// nothing general can be said.
func (q *question) advice(cause bridge.WaitCause) []string {
	var text string
	id := q.answer.Job
	switch cause {
	case bridge.CauseHeld:
		text = fmt.Sprintf("whoever holds it can release it: scontrol release %d", id)
	case bridge.CauseDependency:
		text = fmt.Sprintf("scontrol show job %d names the jobs that it waits for", id)
	case bridge.CauseBegin:
		text = fmt.Sprintf("its user can have it begin at once: scontrol update job=%d StartTime=now", id)
	case bridge.CauseHeldBack:
		if q.job != nil && !q.job.Saves {
			text = "a job that declares a checkpoint (synergy-checkpoint=…) may use what is kept meanwhile, where " +
				"the reason says so"
		}
	case bridge.CauseAboveLimits, bridge.CauseAccount, bridge.CauseQOS, bridge.CausePartitionRules:
		text = "no room helps it: change the request, or ask the site's administrator about its account, QOS and " +
			"partition"
	case bridge.CauseRequest, bridge.CauseReservationGone, bridge.CauseBurstBuffer:
		text = "no room helps it: cancel it and submit it with another request"
	case bridge.CauseFailedStart, bridge.CauseCameBack:
		text = "it is tried again by itself; synergy explain tells how its last starts ended"
	case bridge.CauseCleanup, bridge.CauseClearing, bridge.CauseGaveWay, bridge.CauseArray:
		text = "that passes by itself"
	}
	if text == "" {
		return nil
	}
	return []string{text}
}

// addTightQuotas adds to the answer the quotas that leave less than the least with which the job could start: one job,
// the nodes and GPUs of its smallest shape, and one core for each task. Under such a quota free nodes would not help
// it. Memory is not compared.
func (q *question) addTightQuotas() {
	w := q.smallestShape()
	for k, quota := range q.quotasLeft {
		var short []string
		add := func(needs, left int, thing string) {
			if left != policy.Unbounded && needs > left {
				short = append(short, fmt.Sprintf("%s where it needs %d", countText(left, thing), needs))
			}
		}
		add(1, quota.Jobs, "job")
		add(w.nodes, quota.Nodes, "node")
		add(q.job.GPUs, quota.GPUs, "GPU")
		add(max(1, q.job.Tasks)*w.nodes, quota.CPUs, "core")
		if len(short) > 0 {
			t := Tight{Name: quota.Name, Says: "leaves " + strings.Join(short, ", "), Holds: q.quotaHolders[k]}
			q.answer.Quotas = append(q.answer.Quotas, t)
		}
	}
}

// computeQuotas sets quotasLeft to what the job's quotas leave after the plan, and quotaHolders to the managed jobs
// that hold the rest. The job itself counts as a holder if it has a grant. The job names its quotas by index in the
// snapshot, and an index out of range is left out. Without quotas both stay nil.
func (q *question) computeQuotas() {
	all, at := q.report.Snapshot.Quotas, map[int]int{}
	for _, number := range q.job.Quotas {
		if number >= 0 && number < len(all) {
			at[number], q.quotasLeft = len(q.quotasLeft), append(q.quotasLeft, all[number])
		}
	}
	if len(at) == 0 {
		return
	}
	q.quotaHolders = make([][]int, len(q.quotasLeft))
	jobs := jobsByID(q.report)
	for i := range q.report.Plan.Decisions {
		d := &q.report.Plan.Decisions[i]
		job := jobs[d.Job]
		if d.Grant == nil || job == nil {
			continue
		}
		for _, number := range job.Quotas {
			if k, his := at[number]; his {
				q.quotasLeft[k] = q.quotasLeft[k].Less(len(d.Grant.Nodes), d.Grant.PerNode)
				q.quotaHolders[k] = append(q.quotaHolders[k], d.Job)
			}
		}
	}
}

// smallestShape returns the shape of the job with the fewest nodes, for which the answer says what nodes lack. If no
// shape is possible, it divides the requested GPUs by the requested nodes without checks, so that there still is an
// answer.
func (q *question) smallestShape() shape {
	for _, w := range shapesOf(q.job, q.largestNode(q.job)) {
		return w
	}
	return shape{nodes: max(1, q.job.Nodes), gpus: q.job.GPUs / max(1, q.job.Nodes)}
}

// largestNode returns the number of GPUs of the largest node that meets a job's constraints, whether these GPUs are
// free or not. It is 0 if no node meets them.
func (q *question) largestNode(job *policy.Job) (most int) {
	for i := range q.room.nodes {
		if n := &q.room.nodes[i]; suits(job, n) {
			most = max(most, n.Total.GPUs)
		}
	}
	return most
}

// kindKey is the key by which nodes are grouped into kinds.
type kindKey struct {
	gpus, cores int
	kind        string
	lacks       Lack
}

// groupNodes groups the nodes with GPUs by capacity, GPU type and what they lack for the job, so that the answer has a
// line for each group and not for each node. The groups that lack least come first. Nodes without GPUs are left out,
// since every managed job needs GPUs.
func (q *question) groupNodes() []Kind {
	w := q.smallestShape()
	at := map[kindKey]int{}
	var all []Kind
	for i := range q.room.nodes {
		n := &q.room.nodes[i]
		if n.Total.GPUs == 0 {
			continue
		}
		lack, needs := q.firstLack(i, w)
		key := kindKey{n.Total.GPUs, n.Total.CPUs, n.GPUType, lack}
		k, known := at[key]
		if !known {
			k = len(all)
			at[key], all = k, append(all, Kind{Each: n.Total, Type: n.GPUType, Lacks: lack})
		}
		q.addToKind(&all[k], i, needs)
	}
	for k := range all {
		all[k].Says = q.kindText(&all[k], w)
	}
	slices.SortStableFunc(all, func(a, b Kind) int {
		return slices.Index(lackOrder, a.Lacks) - slices.Index(lackOrder, b.Lacks)
	})
	return all
}

// addToKind adds node i to its kind. The kind's free resources and holders are those of its nearest node, the one with
// the most of what is missing: the user is told where least is missing. needs is what the job needs on node i.
func (q *question) addToKind(k *Kind, i int, needs gres.Vector) {
	n, free := &q.room.nodes[i], q.room.free[i]
	k.Nodes = append(k.Nodes, n.Name)
	if k.Nearest != "" && !isNearer(free, k.Free, k.Lacks) {
		return
	}
	k.Nearest, k.Free, k.Needs, k.Holders = n.Name, free, needs, q.room.holders[i]
}

// isNearer reports whether the first of two nodes with the same lack is nearer to having room, by what they have free.
// If the lack is cores or memory, the free amount of that resource decides, otherwise the free GPUs.
func isNearer(a, b gres.Vector, lack Lack) bool {
	switch lack {
	case LacksCores:
		return a.CPUs > b.CPUs
	case LacksMemory:
		return a.Memory > b.Memory
	}
	return a.GPUs > b.GPUs
}

// firstLack returns the first thing that node i lacks for its part of the job in shape w, in the order of the checks
// below, and the size of that part that the answer names as needed. LacksNothing means that there is room for this
// size. On one node that includes policy.Check. In a shape of several nodes it does not, since Check judges all of them
// together: findRoomAs does that.
func (q *question) firstLack(i int, w shape) (Lack, gres.Vector) {
	n, free := &q.room.nodes[i], q.room.free[i]
	options := startSizes(q.job, n, q.shareBasis(i, w), w.gpus)
	if lack := unmetConstraint(q.job, n); lack != "" {
		return lack, options[0]
	}
	could := slices.DeleteFunc(slices.Clone(options), func(v gres.Vector) bool { return !v.Fits(n.Total) })
	switch {
	case len(could) == 0:
		return LacksSize, options[0]
	case n.Closed != "":
		return LacksOpen, could[0]
	case q.blockingReservation(q.job, n) != nil:
		return LacksTime, could[0]
	case w.gpus > free.GPUs:
		return LacksGPUs, could[0]
	}
	for _, v := range could {
		if v.Fits(free) && (w.nodes > 1 || q.passesCheck([]int{i}, v)) {
			return LacksNothing, v
		}
	}
	return missingResource(could, free)
}

// missingResource returns what is missing on a node that has enough free GPUs and yet room for none of the job's sizes,
// and the size that comes nearest. could are the sizes that the empty node could hold, at least one, ascending in
// cores. If no size has its cores free, cores are missing. Otherwise, if even the least memory of those sizes is not
// free, memory is missing. If both are free, policy.Check forbids the size there (LacksTerms).
func missingResource(could []gres.Vector, free gres.Vector) (Lack, gres.Vector) {
	least, enough := could[0], false // sizes ascend in cores
	for _, v := range could {
		if v.CPUs <= free.CPUs && (!enough || v.Memory < least.Memory) {
			least, enough = v, true
		}
	}
	switch {
	case !enough:
		return LacksCores, least
	case least.Memory > free.Memory:
		return LacksMemory, least
	}
	return LacksTerms, least
}

// shareBasis returns the capacity from which the job's share on node i is computed. It is the node's own for a shape of
// one node. A job on several nodes has the same size on all of them, so there it is gangTotals, which has the least
// memory among equal nodes.
func (q *question) shareBasis(i int, w shape) gres.Vector {
	if w.nodes < 2 {
		return q.room.nodes[i].Total
	}
	return q.room.gangTotals()[i]
}

// blockingReservation returns the first reservation that keeps a job off a node, or nil if none does. A reservation
// does not block if it is over, if it begins after the job's time limit has passed, or if the job asked for it. A job
// without a time limit could run into any later reservation, so each of them blocks it.
func (q *question) blockingReservation(job *policy.Job, n *policy.Node) *policy.Reservation {
	now := q.report.Snapshot.Now
	return findFirst(n.Reserved, func(r policy.Reservation) bool {
		over := !r.To.IsZero() && !now.Before(r.To)
		before := job.TimeLimit > 0 && !now.Add(job.TimeLimit).After(r.From)
		return !(job.Reservation != "" && job.Reservation == r.Name) && !over && !before
	})
}

// kindText says for people what a kind of nodes lacks for the job in shape w. For missing GPUs, cores or memory it has
// the figures of the kind's nearest node.
func (q *question) kindText(k *Kind, w shape) string {
	job := q.job
	switch k.Lacks {
	case LacksPlace:
		return "not among the nodes that it names, or those of its partitions"
	case LacksLeave:
		return "it excludes them"
	case LacksType:
		return fmt.Sprintf("it asks for GPUs of type %s", job.GPUType)
	case LacksFeature:
		return "it asks for the features " + strings.Join(job.Features, ", ")
	case LacksSize:
		return fmt.Sprintf("too small: it needs %s on one node", vectorText(k.Needs))
	case LacksOpen:
		return "closed: " + q.room.nodes[q.room.nodeIndex[k.Nearest]].Closed
	case LacksTime:
		return q.reservationText(k)
	case LacksNothing:
		return q.whyUnused(k, w)
	case LacksTerms:
		return "room for a size that is less than it is promised, or than its limits leave"
	}
	missing := map[Lack]string{
		LacksGPUs: fmt.Sprintf("%s where it needs %d", freeText(k.Free.GPUs, "GPU"), w.gpus),
		LacksCores: fmt.Sprintf("%s where it needs %d beside %s", freeText(k.Free.CPUs, "core"), k.Needs.CPUs,
			countText(w.gpus, "GPU")),
		LacksMemory: fmt.Sprintf("%s of memory free where it needs %s", k.Free.Memory, k.Needs.Memory),
	}[k.Lacks]
	if len(k.Nodes) > 1 {
		missing += ", at best on " + k.Nearest
	}
	return missing + q.profileRemark(k.Lacks)
}

// profileRemark returns a clause that is added to a figure of missing cores or memory if the job has a profile that is
// not in the report. With the profile it could start with less than its share, so the figure may be too high. The
// clause is empty if the figure is exact, as it always is for GPUs.
func (q *question) profileRemark(lack Lack) string {
	if lack == LacksGPUs || q.job.ProfileName == "" || q.job.Profile != nil {
		return ""
	}
	return " for its share; by its profile less may do"
}

// reservationText says which reservation keeps the job off the nodes of a kind, and from when. It is the one that
// blocks the kind's nearest node.
func (q *question) reservationText(k *Kind) string {
	r := q.blockingReservation(q.job, &q.room.nodes[q.room.nodeIndex[k.Nearest]])
	switch {
	case r == nil:
		return "reserved"
	case !r.From.After(q.report.Snapshot.Now):
		return fmt.Sprintf("kept by reservation %s", r.Name)
	}
	return fmt.Sprintf("reservation %s begins at %s, before a run of its %s could end", r.Name,
		r.From.UTC().Format("2006-01-02 15:04 UTC"), limitText(q.job.TimeLimit))
}

// limitText is a job's time limit in words. A limit of 0 means that the job has none.
func limitText(d time.Duration) string {
	if d == 0 {
		return "unlimited time"
	}
	return fmt.Sprintf("time limit of %s", d)
}

// whyUnused says why the job in shape w waits although this kind of nodes has room: there are too few of them, a quota
// does not allow it, or the reason is the one that the whole answer begins with.
func (q *question) whyUnused(k *Kind, w shape) string {
	switch {
	case len(k.Nodes) < w.nodes:
		return fmt.Sprintf("room for a part of it, and it needs %d such nodes", w.nodes)
	case len(q.answer.Quotas) > 0:
		return "room, which the limit above does not let it have"
	}
	return "room, which this round has not given it: see the reason"
}

// freeText formats a free amount.
func freeText(n int, thing string) string { return countText(n, thing) + " free" }

// vectorText formats a size.
func vectorText(v gres.Vector) string {
	return fmt.Sprintf("%s, %s and %s", countText(v.GPUs, "GPU"), countText(v.CPUs, "core"), v.Memory)
}
