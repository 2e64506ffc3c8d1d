package slurmrest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// parsedJob is a job as read from an answer: the part for rounds, and what only this package needs.
type parsedJob struct {
	slurm.Job
	directives  directive.Directives   // its comment
	stateText   string                 // state, folded as by the sweep, see fold
	heldByNode  map[string]gres.Vector // by node, while it runs or is completing
	ended       time.Time              // end, if it is finished
	isSuspended bool                   // suspended: Slurm counts its memory and GPUs as used, but not its CPUs
	// requested GPUs in total and per task, as Slurm prints them
	perJob, perTask string
	// tasks is the number of tasks that every update must contain; 0: none.
	tasks int
	// dependency as Slurm prints it; after depend without the lease.
	dependency string
}

// readJob converts a job from the API. Its dependencies are those that Slurm shows, the lease job among them:
// jobCache.depend separates that later, since only the cache knows which jobs are lease jobs.
func readJob(job *wire.Job) parsedJob {
	state := state(job.State)
	read := parsedJob{
		directives:  directive.Parse(job.Comment),
		stateText:   fold(job.State),
		isSuspended: slices.Contains(job.State, "SUSPENDED"),

		perJob: job.PerJob, perTask: job.PerTask, tasks: tasksToSay(job), dependency: job.Dependency,

		ended: ended(state, job.Ended),
		Job: slurm.Job{
			ID:         job.ID,
			Name:       job.Name,
			User:       job.User,
			Partition:  job.Partition,
			Comment:    job.Comment,
			Extra:      job.Extra,
			Admin:      job.AdminComment,
			State:      state,
			Completing: completing(job.State),
			Held:       state == slurm.Pending && held(job),
			Reason:     reason(job.Reason),
			Shape:      shape(job),
			Whole:      exclusive(job),
			Dependency: job.Dependency != "",

			Interactive: !job.Batch,

			Submitted: moment(job.Submitted),
			TimeLimit: limit(job.TimeLimit),
			Deadline:  moment(job.Deadline),
			Restarts:  job.Restarts,
			Requeue:   job.Requeue,

			Priority:    int64(job.Priority.Count()),
			QOS:         job.QOS,
			Account:     job.Account,
			Reservation: job.Reservation,
			Container:   job.Container,
		},
	}
	if state == slurm.Finished {
		read.End = end(job)
	}
	if state == slurm.Pending {
		read.Begin = begin(job)
	}
	if state == slurm.Running {
		read.Configuring = slices.Contains(job.State, "CONFIGURING")
		read.Started = moment(job.Started)
		if read.TimeLimit > 0 { // without a limit Slurm shows an end in a year, which means none
			read.Ends = moment(job.Ended)
		}
	}
	read.array(job)
	read.request(job)
	read.holding(job)
	return read
}

// tasksToSay is the number of tasks that every update of the job must contain; 0: none. At each update of a waiting
// job, even of its comment, Slurm 24.11 recomputes the number from tasks per node or GPU (_figure_out_num_tasks in
// job_mgr.c), for the fewest nodes possible: four tasks with a GPU each and two GPUs a node become two tasks. Started
// on the nodes of four, they end slurmctld by a division by zero. Other jobs get no number, since that gives a job
// SLURM_NTASKS even if its user named none (see change).
func tasksToSay(job *wire.Job) int {
	tasks, nodes := job.Tasks.Count(), job.Nodes.Count()
	switch perNode := job.TasksPerNode.Count(); {
	case job.TasksPerGPU.Count() > 0, perNode > 0 && (job.PerTask != "" || tasks != nodes*perNode):
		return tasks
	}
	return 0
}

// array sets the array fields of a job. Until a task starts or is updated it has no job of its own: one record with the
// array's ID stands for all such tasks, and the last of them keeps that ID.
func (l *parsedJob) array(job *wire.Job) {
	if job.ArrayJob == 0 {
		return
	}
	l.Array, l.Task, l.AtOnce = job.ArrayJob, job.ArrayTask.Count(), job.ArrayMost.Count()
	if job.ArrayTask.Set {
		return
	}
	tasks, err := parseTasks(job.ArrayTasks)
	switch {
	case err != nil:
		l.note(err.Error())
	case len(tasks) == 1:
		l.Task = tasks[0]
	default:
		l.Tasks = tasks
	}
}

// address is how requests to signal or requeue name the job. The last task of an array has the array's ID, which Slurm
// would take for all tasks, so tasks are addressed by index.
func (l *parsedJob) address() string {
	if l.Array == 0 {
		return strconv.Itoa(l.ID)
	}
	return fmt.Sprintf("%d_%d", l.Array, l.Task)
}

// state is the base state; an unknown one counts as finished.
func state(words []string) slurm.State {
	switch {
	case slices.Contains(words, "PENDING"):
		return slurm.Pending
	case slices.ContainsFunc(words, func(w string) bool { return w == "RUNNING" || w == "CONFIGURING" || w == "SUSPENDED" }):
		return slurm.Running
	}
	return slurm.Finished
}

// completing reports whether a job is being cleaned up: its processes may be alive and hold what Slurm shows as free.
func completing(words []string) bool { return slices.Contains(words, "COMPLETING") }

// over reports whether a job is finished and torn down.
func over(words []string) bool { return state(words) == slurm.Finished && !completing(words) }

// fold is a job's state as one text, sorted and each word once, so that a state of the sweep and one of a listing
// compare equal. The sweep has an entry for each waiting task of an array, the listing one for all of them.
func fold(words []string) string {
	sorted := slices.Clone(words)
	slices.Sort(sorted)
	return strings.Join(slices.Compact(sorted), "+")
}

// held reports whether a user or administrator holds the job. A job that Slurm parked because no node can hold its size
// also has priority 0, but is not held: the next update frees it.
func held(job *wire.Job) bool {
	if strings.HasPrefix(job.Reason, "JobHeld") {
		return true
	}
	return job.Priority.Set && job.Priority.Number == 0 && job.Reason != "BadConstraints"
}

// maxTimeLimit caps time limits, so that sums of times do not overflow. Nothing runs as long.
const maxTimeLimit = 100 * 365 * 24 * time.Hour

// limit converts minutes to a duration; 0: no limit.
func limit(n wire.Number) time.Duration {
	return time.Duration(min(max(0, n.Count()), int(maxTimeLimit/time.Minute))) * time.Minute
}

// afterEnd are the words of a state that may accompany the one that says how a job ended.
var afterEnd = []string{"COMPLETING", "STAGE_OUT", "POWER_UP_NODE", "RECONFIG_FAIL", "REVOKED", "RESIZING", "SIGNALING",
	"SPECIAL_EXIT", "UPDATE_DB"}

// end is how a job, or its last run, ended.
func end(job *wire.Job) slurm.End {
	words := slices.DeleteFunc(slices.Clone(job.State),
		func(word string) bool { return slices.Contains(afterEnd, word) })
	return slurm.End{
		State:  strings.Join(words, "+"),
		Code:   job.ExitCode.Count(),
		Signal: job.ExitSignal.Count(),
	}
}

// reason is Slurm's reason why a job waits; empty: none.
func reason(text string) string {
	if text == "None" {
		return ""
	}
	return text
}

// begin is the begin time; zero if none was set. The API has no such field; eligible time stands in, and start time
// cannot, since backfill writes its estimate there. Without a begin time the job became eligible when it was submitted.
func begin(job *wire.Job) time.Time {
	if job.Eligible.Count() <= job.Submitted.Count() {
		return time.Time{}
	}
	return moment(job.Eligible)
}

// moment converts a time in seconds; 0 and unset are the zero time.
func moment(n wire.Number) time.Time {
	if n.Count() == 0 {
		return time.Time{}
	}
	return time.Unix(n.Number, 0)
}

// ordinarySpec is the value of a job without core specialization.
const ordinarySpec = 32766

// shape says, for the user, why a round cannot size, start and requeue the job and so leaves it to Slurm. Empty: a
// round can do all that.
func shape(job *wire.Job) string {
	switch {
	case job.HetJob > 0:
		return "het job: its components start together"
	case len(job.Exclusive) > 0 && !exclusive(job):
		return "exclusive: it keeps others off its nodes"
	case job.Cron != "":
		return "scrontab: Slurm refuses to update it"
	case job.ThreadSpec != ordinarySpec:
		return "core specialization: it gets whole nodes, whatever its size"
	case job.Contiguous:
		return "contiguous: its nodes cannot be chosen one by one"
	case slices.Contains(job.State, "SUSPENDED"):
		return "suspended: an operator has stopped it"
	}
	return ""
}

// exclusive reports whether the job asks for whole nodes (--exclusive). --exclusive=user and =mcs do not count.
func exclusive(job *wire.Job) bool { return slices.Contains(job.Exclusive, "node") }

// request sets what the job asks for. If a part of it could not be granted or restored by a round the job becomes odd,
// with the reason.
func (l *parsedJob) request(job *wire.Job) {
	l.Request = slurm.Request{
		Nodes:        job.Nodes.Count(),
		Tasks:        job.Tasks.Count(),
		CPUsPerTask:  job.CPUsPerTask.Count(),
		CPUs:         job.CPUs.Count(),
		CPUsPerNode:  job.CPUsPerNode.Count(),
		Memory:       gres.Memory(job.MemoryPerNode.Count()),
		MemoryPerCPU: gres.Memory(job.MemoryPerCPU.Count()),
		GRES:         job.PerNode,
		Partition:    slurm.Several(job.Partition),
	}
	l.Request.CPUsPerGPU = l.perGPU("CPUs", job.CPUsPerGRES)
	if l.Request.MemoryPerGPU = gres.Memory(l.perGPU("memory", job.MemoryPerGRES)); l.Request.MemoryPerGPU > 0 {
		l.Request.Memory, l.Request.MemoryPerCPU = 0, 0 // those fields show the amount per GPU
	}
	l.note(oddity(job))
	l.note(l.gpus(job))
	l.Request.Pin, l.Except = l.hosts(job.RequiredNodes), l.hosts(job.ExcludedNodes)
	l.Features = l.features(job.Features)
}

// perGPU is an amount per GPU, written gres/gpu:3; 0: none. of is what is counted, CPUs or memory, for the message to
// the user. An amount per unit of another GRES makes the job odd.
func (l *parsedJob) perGPU(of, text string) int {
	counts, err := gres.ParseCounts(text)
	if err != nil {
		l.note(err.Error())
		return 0
	}
	n, _ := gres.GPUs(counts)
	if len(counts) > 1 || n == 0 && text != "" {
		l.note(fmt.Sprintf("asks for %s by %s", of, inLine(text, "")))
	}
	return n
}

// note makes the job odd for this reason, unless it is empty or the job has a reason already.
func (l *parsedJob) note(odd string) { l.Odd = cmp.Or(l.Odd, odd) }

// oddity says what of a request rounds cannot honour, other than GPUs by node and features; empty: nothing. A maximum
// of nodes that equals the number of tasks, with a minimum of one node, is no range: Slurm 26.05 sets it for jobs whose
// user gave only a number of tasks, where older versions set nothing.
func oddity(job *wire.Job) string {
	least, most, tasks := minNodes(job), job.MaxNodes.Count(), job.Tasks.Count()
	switch {
	case state(job.State) == slurm.Pending && most > least && (most != tasks || least > 1):
		return fmt.Sprintf("asks for %d to %d nodes", least, most)
	case job.PerSocket != "":
		return "asks for GPUs per socket"
	case strings.Contains(","+job.PerTask, ",cpu:"):
		return "asks for the cores of a task by --tres-per-task=cpu:N, of which Slurm keeps one of two " +
			"variables right " +
			"when they change, and srun wants both; say cpu=N, or -c N"
	}
	return ""
}

// minNodes is the minimum number of nodes, from the requested TRES. The node count that Slurm shows for a waiting job
// may be higher, since it is a guess at what the job will get: four for -N2-4. It counts only if the TRES name no
// nodes.
func minNodes(job *wire.Job) int {
	for term := range strings.SplitSeq(job.Requested, ",") {
		if n, err := strconv.Atoi(strings.TrimPrefix(term, "node=")); err == nil {
			return n
		}
	}
	return job.Nodes.Count()
}

// gpuRequest is one of the ways to ask for GPUs.
type gpuRequest struct {
	text  string
	times int // factor from it to the job's GPUs
}

// gpus sets the number and type of the requested GPUs. A job may ask in several ways, which must agree; if they do not,
// odd says why the job is left to Slurm. A shard counts as one GPU. GPUs that are not fixed for each node make only a
// waiting job odd: a running one shows what it got.
func (l *parsedJob) gpus(job *wire.Job) (odd string) {
	if l.Request.Shard = shardAsked(job); l.Request.Shard != "" {
		l.Request.GPUs = 1
		return ""
	}
	for _, w := range []gpuRequest{{job.PerJob, 1}, {job.PerNode, l.Request.Nodes}, {job.PerTask, l.Request.Tasks}} {
		odd = cmp.Or(odd, l.asksFor(w))
	}
	if odd == "" && l.State == slurm.Pending && l.Request.GPUs > 0 && !dividesGPUs(job) {
		odd = fmt.Sprintf("asks for %d GPUs on %d nodes, and not for how many on each", l.Request.GPUs, l.Request.Nodes)
	}
	return odd
}

// asksFor sets the number and type of the GPUs that a job asks for in one way. If an earlier way has set them already,
// it compares the two. odd says what is wrong; empty: nothing, or the job does not ask in this way.
func (l *parsedJob) asksFor(w gpuRequest) (odd string) {
	counts, err := gres.ParseCounts(w.text)
	if err != nil {
		return err.Error()
	}
	if other := otherGRES(counts); other != "" {
		odd = "asks for " + other
	}
	n, gpuType := gres.GPUs(counts)
	q := &l.Request
	switch {
	case n == 0:
		return odd
	case gpuType == "" && hasType(counts):
		odd = "asks for GPUs of several types"
	case q.GPUType != "" && gpuType != "" && q.GPUType != gpuType:
		odd = fmt.Sprintf("asks for GPUs of type %s and of type %s", q.GPUType, gpuType)
	case q.GPUs > 0 && q.GPUs != n*w.times:
		odd = fmt.Sprintf("asks for GPUs in two ways, which come to %d and to %d", q.GPUs, n*w.times)
	}
	if q.GPUs == 0 {
		q.GPUs = n * w.times
	}
	q.GPUType = cmp.Or(q.GPUType, gpuType)
	return odd
}

// dividesGPUs reports whether the request fixes the number of GPUs on each node, as it does for one node, GPUs per
// node, or GPUs per task with a fixed number of tasks on each node. Slurm divides the GPUs of --gpus freely, for
// example four over two nodes as three and one, and likewise tasks with their GPUs. GRES per node that cannot be parsed
// count as fixed: they have made the job odd already.
func dividesGPUs(job *wire.Job) bool {
	nodes, tasks := job.Nodes.Count(), job.Tasks.Count()
	perNode, err := gres.ParseCounts(job.PerNode)
	if n, _ := gres.GPUs(perNode); nodes <= 1 || err != nil || n > 0 {
		return true
	}
	perTask, err := gres.ParseCounts(job.PerTask)
	n, _ := gres.GPUs(perTask)
	return err == nil && n > 0 && (tasks == nodes || tasks == nodes*job.TasksPerNode.Count())
}

// shardAsked is the GPU type if the job asks for exactly one shard and no other GRES; else empty. A shard without a
// type gives empty, too: it may be of any GPU, and makes the job odd (otherGRES).
func shardAsked(job *wire.Job) string {
	counts, err := gres.ParseCounts(job.PerNode)
	tasks, wrong := gres.ParseCounts(job.PerTask) // the CPUs of a task are listed there, too
	n, _ := gres.GPUs(tasks)
	switch {
	case err != nil, wrong != nil, len(counts) != 1, job.Nodes.Count() != 1:
		return ""
	case n > 0, otherGRES(tasks) != "", job.PerJob+job.PerSocket != "":
		return ""
	case counts[0].Name != "shard" || counts[0].Count != 1:
		return ""
	}
	return counts[0].Type
}

// gresOf is the GRES per node of a request, in Slurm's notation.
func gresOf(r *slurm.Request) string {
	if r.Shard != "" {
		return gres.Count{Name: "shard", Type: r.Shard, Count: 1}.String()
	}
	return r.GRES
}

// otherGRES names the first requested resource that a round does not count. The CPUs of a task are among the resources
// and counted elsewhere.
func otherGRES(counts []gres.Count) string {
	for _, c := range counts {
		switch c.Name {
		case "gpu", "cpu", "mem", "node", "billing":
		default:
			return c.Name
		}
	}
	return ""
}

// hasType reports whether some GPUs are requested by type; together with an empty common type this means several types.
func hasType(counts []gres.Count) bool {
	return slices.ContainsFunc(counts, func(c gres.Count) bool { return c.Name == "gpu" && c.Type != "" })
}

// hosts expands a host list, ascending. A list that cannot be parsed makes the job odd, so that it is not placed
// against its request.
func (l *parsedJob) hosts(text string) []string {
	hosts, err := gres.ParseHosts(text)
	if err != nil {
		l.note(err.Error())
	}
	slices.Sort(hosts)
	return hosts
}

// features lists the features that each of the job's nodes must have. An entry is a name, or alternatives joined by |.
// It reads a&b, a|b and (a|b)&c. [a|b] demands the same feature on all nodes, which is no constraint for one node. Any
// other form makes the job odd.
func (l *parsedJob) features(text string) []string {
	if text == "" {
		return nil
	}
	terms, plain := conjunction(text)
	if inner, bracketed := strings.CutPrefix(text, "["); bracketed && l.Request.Nodes == 1 {
		terms, plain = conjunction(strings.TrimSuffix(inner, "]"))
		plain = plain && len(terms) == 1
	}
	if !plain {
		l.note(fmt.Sprintf("asks for features %q", text))
		return nil
	}
	return terms
}

// conjunction reads features joined by & or comma, each plain or alternatives in parentheses, or alternatives alone. &
// and | without parentheses are refused, since their meaning is not reliable.
func conjunction(text string) (terms []string, plain bool) {
	joined := func(r rune) bool { return r == '&' || r == ',' }
	for _, term := range strings.FieldsFunc(text, joined) {
		if inner, closed := strings.CutSuffix(term, ")"); closed && strings.HasPrefix(inner, "(") {
			term = inner[1:]
		} else if strings.Contains(term, "|") && term != text {
			return nil, false
		}
		if slices.ContainsFunc(strings.Split(term, "|"), func(name string) bool {
			return name == "" || strings.ContainsAny(name, "[]()*!")
		}) {
			return nil, false
		}
		terms = append(terms, term)
	}
	return terms, len(terms) > 0
}

// holding sets what the job holds, while it runs or is completing; others hold nothing. Runs.Devices are in the order
// of Runs.Nodes, one for each node; if Slurm does not list them so, they stay as it printed them.
func (l *parsedJob) holding(job *wire.Job) {
	if l.State != slurm.Running && !l.Completing {
		return
	}
	gpusOn := gpusHeld(job.Devices, l.Request)
	l.heldByNode = make(map[string]gres.Vector, len(job.Holds))
	devices := make(map[string]string, len(job.Holds))
	for i, node := range job.Holds {
		l.heldByNode[node.Node] = gres.Vector{
			CPUs:   node.CPUs,
			Memory: gres.Memory(node.Memory),
			GPUs:   gpusOn(i),
		}
		if i < len(job.Devices) {
			devices[node.Node] = job.Devices[i]
		}
	}
	// The nodes of one job may differ by rounding; the largest amounts count.
	for _, has := range l.heldByNode {
		l.Runs.PerNode = l.Runs.PerNode.Max(has)
	}
	l.Runs.Nodes = slices.Sorted(maps.Keys(l.heldByNode))
	l.Runs.Devices, l.Runs.Shard = job.Devices, l.Request.Shard
	if len(devices) == len(l.Runs.Nodes) && len(job.Devices) == len(devices) { // Slurm's order is that of slurm.conf
		l.Runs.Devices = nil
		for _, node := range l.Runs.Nodes {
			l.Runs.Devices = append(l.Runs.Devices, devices[node])
		}
	}
}

// gpusHeld returns a function that tells how many GPUs a job holds on its node with that index. Slurm no longer shows
// them for a completing job; then each node counts its share of the request. A shard shows no GPU and counts as one.
func gpusHeld(detail []string, asked slurm.Request) func(node int) int {
	share := 0
	if asked.Nodes > 0 {
		share = (asked.GPUs + asked.Nodes - 1) / asked.Nodes
	}
	return func(node int) int {
		if node >= len(detail) || asked.Shard != "" {
			return share
		}
		counts, err := gres.ParseCounts(detail[node])
		if err != nil {
			return share
		}
		n, _ := gres.GPUs(counts)
		return n
	}
}
