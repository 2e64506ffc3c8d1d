package bound

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Waiting is the jobs that the plan leaves waiting for one reason.
type Waiting struct {
	Reason policy.Reason `json:"reason"`
	Jobs   int           `json:"jobs"`
	// Counted is how many of them the bound counts: jobs that could start beside all that the plan runs if the policy's
	// order, reservations for other jobs and loans did not prevent it.
	Counted int    `json:"counted,omitempty"`
	Job     int    `json:"job"` // the first of them; if any are counted, the first counted one
	Why     string `json:"why,omitempty"`
}

// mostReasons limits the number of Waiting entries, since a planner plugin may have reasons of its own.
const mostReasons = 20

// longestWhy limits Waiting.Why, in bytes.
const longestWhy = 160

// queue is the waiting jobs that could be placed beside the jobs that the plan runs.
type queue struct {
	classes []waitingClass
	counted map[int]bool // by job ID
}

// waitingClass is the waiting jobs of one class.
type waitingClass struct {
	job  *policy.Job // one of them
	most int         // how many of them GPUs and quotas leave room for
}

// free is what the plan leaves free on node n.
func (in *instance) free(n int) gres.Vector {
	return in.nodes[n].open.Minus(in.nodes[n].used).Max(gres.Vector{})
}

// idle counts the GPUs that the plan leaves free on open nodes.
func (in *instance) idle() (gpus int) {
	for n := range in.nodes {
		if in.cluster.Nodes[n].Closed == "" {
			gpus += in.free(n).GPUs
		}
	}
	return gpus
}

// waitingQueue finds the waiting jobs that could be placed on the GPUs that the plan leaves idle: not barred, with at
// most idle GPUs, and within quotas when all loans are given back. They make the difference between Same and Bound, so
// jobs that no plan could start must not be among them. All plans that run the same jobs leave as many GPUs idle, so
// idle is right for each. Jobs of one class and the same quotas are judged by the first of them. A class counts no more
// jobs than fit on idle GPUs.
func (in *instance) waitingQueue(p policy.Plan, idle int) queue {
	q := queue{counted: map[int]bool{}}
	if idle == 0 {
		return q
	}
	type group struct {
		class  classKey
		quotas string
	}
	left, granted := in.quotasLeft(p), grantedBy(p)
	jobs, first, could, order := map[group]int{}, map[group]*policy.Job{}, map[group]bool{}, []group{}
	for i := range in.cluster.Jobs {
		j := &in.cluster.Jobs[i]
		if granted[j.ID] || j.Barred != "" || j.GPUs > idle {
			continue
		}
		key := group{in.keyOf(j), fmt.Sprint(j.Quotas)}
		if jobs[key]++; jobs[key] == 1 {
			first[key], order = j, append(order, key)
			could[key] = in.hasNodesFor(j) && in.jobsWithinQuotas(j, left) > 0
		}
		q.counted[j.ID] = could[key]
	}
	byClass := map[classKey]int{}
	for _, key := range order {
		j := first[key]
		if !could[key] {
			continue
		}
		most := min(jobs[key], idle/j.GPUs, in.jobsWithinQuotas(j, left))
		if at, known := byClass[key.class]; known {
			q.classes[at].most = min(q.classes[at].most+most, idle/j.GPUs)
			continue
		}
		byClass[key.class] = len(q.classes)
		q.classes = append(q.classes, waitingClass{j, most})
	}
	return q
}

// grantedBy says by job ID whether a plan grants the job something; false: it waits, or the plan does not name it.
func grantedBy(p policy.Plan) map[int]bool {
	granted := make(map[int]bool, len(p.Decisions))
	for i := range p.Decisions {
		granted[p.Decisions[i].Job] = p.Decisions[i].Grant != nil
	}
	return granted
}

// hasNodesFor reports whether enough open nodes meet the constraints of job j and have GPUs for one part of it. GPUs of
// jobs that may be placed anew count as free: too many jobs are allowed rather than too few.
func (in *instance) hasNodesFor(j *policy.Job) bool {
	at := in.eligible.setOfJob(j)
	for _, nodes := range in.divisions(j, at) {
		able := 0
		for n := range in.nodes {
			if in.nodes[n].open.GPUs*nodes >= j.GPUs && in.cluster.Nodes[n].Closed == "" &&
				in.eligible.mayStart(at, n) {
				able++
			}
		}
		if able >= nodes && j.GPUs%nodes == 0 {
			return true
		}
	}
	return false
}

// quotasLeft is what each quota leaves if every job that the plan runs gives back its loan (withoutLoan): a loan beyond
// the share is no reason why another job may not start. It is nil if there are no quotas.
func (in *instance) quotasLeft(p policy.Plan) []policy.Quota {
	left := slices.Clone(in.cluster.Quotas)
	if len(left) == 0 {
		return nil
	}
	byID := indexOf(in.cluster.Jobs)
	for i := range p.Decisions {
		g := p.Decisions[i].Grant
		at, known := byID[p.Decisions[i].Job]
		if g == nil || !known {
			continue
		}
		j, held := &in.cluster.Jobs[at], g.PerNode
		if in.isPlaced(g) {
			held = in.withoutLoan(j, g, in.byName[g.Nodes[0]])
		}
		for _, quota := range j.Quotas {
			left[quota] = left[quota].Less(len(g.Nodes), held)
		}
	}
	return left
}

// jobsWithinQuotas is for how many jobs like j the quotas leave room, if each has the least cores and memory that it
// can have; at most the number of all jobs. Too many are allowed rather than too few, so that the bound stays one.
func (in *instance) jobsWithinQuotas(j *policy.Job, left []policy.Quota) int {
	jobs := len(in.cluster.Jobs)
	fits := func(have, each int) {
		if have != policy.Unbounded && each > 0 {
			jobs = min(jobs, have/each)
		}
	}
	nodes := max(1, j.Nodes)
	for _, quota := range j.Quotas {
		q := &left[quota]
		fits(q.Jobs, 1)
		fits(q.Nodes, nodes)
		fits(q.GPUs, j.GPUs)
		fits(q.CPUs, nodes*max(1, j.Floor.CPUs, j.Tasks))
		if q.Memory != policy.Unbounded {
			fits(int(q.Memory), nodes*int(j.Floor.Memory))
		}
	}
	return jobs
}

// withoutLoan is the part of its grant on node n that a job keeps when other jobs need what it was lent: no more than
// the share, or what its user must have (Floor and Pace) if that is more.
func (in *instance) withoutLoan(j *policy.Job, g *policy.Placement, n int) gres.Vector {
	own := gres.Proportional(in.totalFor(g, n), g.PerNode.GPUs).Max(j.Floor).Max(j.Pace)
	held := g.PerNode
	held.CPUs, held.Memory = min(held.CPUs, own.CPUs), min(held.Memory, own.Memory)
	return held
}

// addQueue adds the jobs of a queue as optional classes, before formulate. A job that must not be touched may have a
// loan of cores or memory on a node. As much of the loan as the node's idle GPUs need for their share becomes available
// to them, and the value of the job with the loan is not reduced, so the bound remains an upper bound.
func (in *instance) addQueue(q queue) {
	in.optional = make([]bool, len(in.classes), len(in.classes)+len(q.classes))
	for _, w := range q.classes {
		at := in.eligible.setOfJob(w.job)
		in.classes = append(in.classes, class{w.job, at, in.divisions(w.job, at)})
		in.demand, in.optional = append(in.demand, w.most), append(in.optional, true)
	}
	for n := range in.nodes {
		s, free := &in.nodes[n], in.free(n)
		if in.cluster.Nodes[n].Closed != "" || free.GPUs == 0 {
			continue
		}
		lacks := gres.Proportional(in.cluster.Nodes[n].Total, free.GPUs).Minus(free).Max(gres.Vector{})
		s.open.CPUs += min(lacks.CPUs, s.lent.CPUs)
		s.open.Memory += min(lacks.Memory, s.lent.Memory)
	}
}

// waitingByReason lists the waiting jobs by reason, those with the most counted jobs first, for the certificate: it
// says why GPUs idle. The job named for a reason is the first one that the bound counts, else the first. Reasons beyond
// mostReasons are left out.
func (in *instance) waitingByReason(p policy.Plan, q queue) (all []Waiting) {
	at := map[policy.Reason]int{}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if d.Grant != nil {
			continue
		}
		k, known := at[d.Reason]
		if !known {
			if k = len(all); k == mostReasons {
				continue
			}
			at[d.Reason] = k
			all = append(all, Waiting{Reason: d.Reason})
		}
		w := &all[k]
		w.Jobs++
		counts := q.counted[d.Job]
		if w.Jobs == 1 || counts && w.Counted == 0 {
			w.Job, w.Why = d.Job, printable.Line(d.Why, longestWhy)
		}
		if counts {
			w.Counted++
		}
	}
	slices.SortFunc(all, func(x, y Waiting) int {
		return cmp.Or(cmp.Compare(y.Counted, x.Counted), cmp.Compare(y.Jobs, x.Jobs), cmp.Compare(x.Job, y.Job))
	})
	return all
}

// describeWaiting appends to a sentence which jobs wait beside idle GPUs: first those that the bound counts against the
// plan, then those that no plan could start there. It appends nothing if no GPU idles.
func (c *Certificate) describeWaiting(s *strings.Builder) {
	if c.Idle == 0 || len(c.Waiting) == 0 {
		return
	}
	counted, others := 0, 0
	for _, w := range c.Waiting {
		counted, others = counted+w.Counted, others+w.Jobs-w.Counted
	}
	verb := "is"
	if c.Idle > 1 {
		verb = "are"
	}
	fmt.Fprintf(s, "; %s %s idle", gpusText(c.Idle), verb)
	if counted > 0 {
		fmt.Fprintf(s, " beside %s that could use some:", jobsText(counted))
		c.describeReasons(s, func(w *Waiting) int { return w.Counted })
	}
	if others > 0 {
		fmt.Fprintf(s, "; not counted, since it could not start there: %s:", jobsText(others))
		c.describeReasons(s, func(w *Waiting) int { return w.Jobs - w.Counted })
	}
}

// namedReasons limits the reasons in a sentence.
const namedReasons = 3

// describeReasons appends the first reasons for which number is not 0, each with that number of jobs and an example
// job. The explanation Why is of the example, which is a counted job if any is. So it is left out where number is of
// the jobs that are not counted although others are.
func (c *Certificate) describeReasons(s *strings.Builder, number func(w *Waiting) int) {
	named := 0
	for i := range c.Waiting {
		w := &c.Waiting[i]
		if number(w) == 0 || named == namedReasons {
			continue
		}
		separator := ","
		if named == 0 {
			separator = ""
		}
		named++
		fmt.Fprintf(s, "%s %d %s, as job %d", separator, number(w), cmp.Or(string(w.Reason), "for no reason"), w.Job)
		if w.Why != "" && (number(w) == w.Counted || w.Counted == 0) {
			fmt.Fprintf(s, " (%s)", w.Why)
		}
	}
}
