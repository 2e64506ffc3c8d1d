package slurmrest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// listed is a job as an answer told it: what the round sees, and what only this package needs.
type listed struct {
	bridge.Job
	words string                 // its state, as the sweep folds it
	holds map[string]gres.Vector // by node, while it runs or is being torn down
	ended time.Time              // when it is over
	idle  bool                   // suspended: Slurm counts its memory and GPUs as used, but not its CPUs
	// the GPUs that it asks for in all and for each task, as Slurm prints them
	perJob, perTask string
	// tasks is the number of tasks that every update has to say; 0: none has to.
	tasks int
}

// readJob tells a job in the round's words.
func readJob(job *wire.Job) listed {
	state := state(job.State)
	read := listed{
		words: fold(job.State),
		idle:  slices.Contains(job.State, "SUSPENDED"),

		perJob: job.PerJob, perTask: job.PerTask, tasks: tasksToSay(job),

		ended: ended(state, job.Ended),
		Job: bridge.Job{
			ID:         job.ID,
			Name:       job.Name,
			User:       job.User,
			Partition:  job.Partition,
			Comment:    job.Comment,
			Extra:      job.Extra,
			Admin:      job.AdminComment,
			State:      state,
			Completing: completing(job.State),
			Held:       state == bridge.Pending && held(job),
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
	if state == bridge.Finished {
		read.End = end(job)
	}
	if state == bridge.Pending {
		read.Begin = begin(job)
	}
	if state == bridge.Running {
		read.Configuring = slices.Contains(job.State, "CONFIGURING")
		read.Started = moment(job.Started)
		if read.TimeLimit > 0 { // without one Slurm foresees an end in a year, which is none
			read.Ends = moment(job.Ended)
		}
	}
	read.array(job)
	read.request(job)
	read.holding(job)
	return read
}

// tasksToSay is the number of tasks of a job whose updates have to say it; 0: they need not. At each update of a
// waiting job, be it of its comment, Slurm 24.11 reckons the number anew where it knows how many there are for each
// node or GPU (_figure_out_num_tasks in job_mgr.c), and takes the fewest nodes that will do for it: four tasks with a
// GPU each and two GPUs a node become two tasks. Started on the nodes of four, they end slurmctld by a division by
// zero.
func tasksToSay(job *wire.Job) int {
	tasks, nodes := job.Tasks.Count(), job.Nodes.Count()
	switch perNode := job.TasksPerNode.Count(); {
	case job.TasksPerGPU.Count() > 0, perNode > 0 && (job.PerTask != "" || tasks != nodes*perNode):
		return tasks
	}
	return 0
}

// array fills in which tasks of an array a job is. Until a task starts or is changed by itself it has no job of its
// own, and one record, which has the array's number, stands for all that are left. The last of them keeps that number.
func (l *listed) array(job *wire.Job) {
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

// address is a job's name in a request to signal or requeue it. The last task of an array has the array's own number,
// by which Slurm would understand all tasks.
func (l *listed) address() string {
	if l.Array == 0 {
		return strconv.Itoa(l.ID)
	}
	return fmt.Sprintf("%d_%d", l.Array, l.Task)
}

// state is the base state; a word that is not known here is a state that is over.
func state(words []string) bridge.State {
	switch {
	case slices.Contains(words, "PENDING"):
		return bridge.Pending
	case slices.ContainsFunc(words, func(w string) bool { return w == "RUNNING" || w == "CONFIGURING" || w == "SUSPENDED" }):
		return bridge.Running
	}
	return bridge.Finished
}

// completing says that a job is being torn down: its processes may live, and hold what Slurm calls free.
func completing(words []string) bool { return slices.Contains(words, "COMPLETING") }

// over says that nothing more will come of a job in this state.
func over(words []string) bool { return state(words) == bridge.Finished && !completing(words) }

// fold makes one text of the words of a state, the same for the sweep and for a listing. The sweep names each waiting
// task of an array, the listing all of them once.
func fold(words []string) string {
	sorted := slices.Clone(words)
	slices.Sort(sorted)
	return strings.Join(slices.Compact(sorted), "+")
}

// held says that somebody wants this job to wait. A job that Slurm parked because no node can hold its size has
// priority 0 too, but nobody's word: the next update frees it.
func held(job *wire.Job) bool {
	if strings.HasPrefix(job.Reason, "JobHeld") {
		return true
	}
	return job.Priority.Set && job.Priority.Number == 0 && job.Reason != "BadConstraints"
}

// endless is the longest time limit that is told: sums of such times are still times, and nothing runs as long.
const endless = 100 * 365 * 24 * time.Hour

// limit is a number of minutes as a duration; 0 where there is no limit.
func limit(n wire.Number) time.Duration {
	return time.Duration(min(max(0, n.Count()), int(endless/time.Minute))) * time.Minute
}

// afterEnd are the words of a state that stand beside the one that says how a job ended.
var afterEnd = []string{"COMPLETING", "STAGE_OUT", "POWER_UP_NODE", "RECONFIG_FAIL", "REVOKED", "RESIZING", "SIGNALING",
	"SPECIAL_EXIT", "UPDATE_DB"}

// end is how a job ended, or its last run.
func end(job *wire.Job) bridge.End {
	words := slices.DeleteFunc(slices.Clone(job.State),
		func(word string) bool { return slices.Contains(afterEnd, word) })
	return bridge.End{
		State:  strings.Join(words, "+"),
		Code:   job.ExitCode.Count(),
		Signal: job.ExitSignal.Count(),
	}
}

// reason is why a job waits in Slurm's word, empty where it has none.
func reason(text string) string {
	if text == "None" {
		return ""
	}
	return text
}

// begin is the begin time, which no answer has under that name. The start time will not do: backfill writes there when
// it expects the job to start. Where nobody set a begin time, the job became eligible when it was submitted.
func begin(job *wire.Job) time.Time {
	if job.Eligible.Count() <= job.Submitted.Count() {
		return time.Time{}
	}
	return moment(job.Eligible)
}

// moment is a time that Slurm gives in seconds; 0 is none, as is a number that is not set.
func moment(n wire.Number) time.Time {
	if n.Count() == 0 {
		return time.Time{}
	}
	return time.Unix(n.Number, 0)
}

// ordinarySpec is what Slurm writes for a job that reserves no cores for the system.
const ordinarySpec = 32766

// shape says why a job is none that a round can size, start and requeue by itself.
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

// exclusive says that the job asks for whole nodes (--exclusive). --exclusive=user and =mcs are no such request.
func exclusive(job *wire.Job) bool { return slices.Contains(job.Exclusive, "node") }

// request fills in what the job asks for. What a round could not give it, or not give it back, makes it odd.
func (l *listed) request(job *wire.Job) {
	l.Request = bridge.Request{
		Nodes:        job.Nodes.Count(),
		Tasks:        job.Tasks.Count(),
		CPUsPerTask:  job.CPUsPerTask.Count(),
		CPUs:         job.CPUs.Count(),
		CPUsPerNode:  job.CPUsPerNode.Count(),
		Memory:       gres.Memory(job.MemoryPerNode.Count()),
		MemoryPerCPU: gres.Memory(job.MemoryPerCPU.Count()),
		GRES:         job.PerNode,
		Partition:    bridge.Several(job.Partition),
	}
	l.Request.CPUsPerGPU = l.perGPU("CPUs", job.CPUsPerGRES)
	if l.Request.MemoryPerGPU = gres.Memory(l.perGPU("memory", job.MemoryPerGRES)); l.Request.MemoryPerGPU > 0 {
		l.Request.Memory, l.Request.MemoryPerCPU = 0, 0 // what stands there is the amount of one GPU
	}
	l.note(oddity(job))
	l.note(l.gpus(job))
	l.Request.Pin, l.Except = l.hosts(job.RequiredNodes), l.hosts(job.ExcludedNodes)
	l.Features = l.features(job.Features)
}

// perGPU reads an amount that follows a job's GPUs, written gres/gpu:3.
func (l *listed) perGPU(of, text string) int {
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

// note keeps the first oddity.
func (l *listed) note(odd string) { l.Odd = cmp.Or(l.Odd, odd) }

// oddity says what of a request cannot be honoured. As many nodes as tasks, and one at least, are no range that anybody
// asked for: so Slurm 26.05 bounds a job whose user named a number of tasks and none of nodes, where older ones say
// nothing.
func oddity(job *wire.Job) string {
	least, most, tasks := fewest(job), job.MaxNodes.Count(), job.Tasks.Count()
	switch {
	case state(job.State) == bridge.Pending && most > least && (most != tasks || least > 1):
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

// fewest is the number of nodes that a job needs at least. The number that Slurm shows of one that waits is a guess at
// how many it will get: four of -N2-4.
func fewest(job *wire.Job) int {
	for term := range strings.SplitSeq(job.Requested, ",") {
		if n, err := strconv.Atoi(strings.TrimPrefix(term, "node=")); err == nil {
			return n
		}
	}
	return job.Nodes.Count()
}

// way is one of the ways to ask for GPUs.
type way struct {
	text  string
	times int // that make the job's GPUs of it
}

// gpus counts the GPUs. Who asks for them in several ways at once must mean the same number each time, and one type.
func (l *listed) gpus(job *wire.Job) (odd string) {
	if l.Request.Shard = shardAsked(job); l.Request.Shard != "" {
		l.Request.GPUs = 1
		return ""
	}
	for _, w := range []way{{job.PerJob, 1}, {job.PerNode, l.Request.Nodes}, {job.PerTask, l.Request.Tasks}} {
		odd = cmp.Or(odd, l.asksFor(w))
	}
	if odd == "" && l.State == bridge.Pending && l.Request.GPUs > 0 && !dividesGPUs(job) {
		odd = fmt.Sprintf("asks for %d GPUs on %d nodes, and not for how many on each", l.Request.GPUs, l.Request.Nodes)
	}
	return odd
}

// asksFor adds what a job asks for in one way.
func (l *listed) asksFor(w way) (odd string) {
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

// dividesGPUs says that a request leaves no choice of how many GPUs are on each of its nodes. Those of --gpus Slurm
// divides as it comes, such as four over two nodes as three and one, and so it does with tasks, and their GPUs.
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

// shardAsked is the type of the one GPU of which a job asks for one shard, and for nothing else; empty: it does not.
func shardAsked(job *wire.Job) string {
	counts, err := gres.ParseCounts(job.PerNode)
	tasks, wrong := gres.ParseCounts(job.PerTask) // the CPUs of a task stand there, too
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

// gresOf is what a request asks for on each node, in the words in which Slurm prints it.
func gresOf(r *bridge.Request) string {
	if r.Shard != "" {
		return gres.Count{Name: "shard", Type: r.Shard, Count: 1}.String()
	}
	return r.GRES
}

// otherGRES names the first thing asked for that a round does not count. The CPUs of a task stand among its resources
// and are counted elsewhere.
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

// hasType says that some of the GPUs are asked for by type. Those of several types cannot be counted as one.
func hasType(counts []gres.Count) bool {
	return slices.ContainsFunc(counts, func(c gres.Count) bool { return c.Name == "gpu" && c.Type != "" })
}

// hosts are the nodes of a list in Slurm's notation, ascending. One that is not understood makes the job odd, so that
// nobody places it beside what it asked for.
func (l *listed) hosts(text string) []string {
	hosts, err := gres.ParseHosts(text)
	if err != nil {
		l.note(err.Error())
	}
	slices.Sort(hosts)
	return hosts
}

// features are those that the job wants all of, each a name, or several joined by | of which one will do: a&b, a|b and
// (a|b)&c. Of [a|b] all nodes of a job must have the same one, which one node has. Any other way to join them is odd.
func (l *listed) features(text string) []string {
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

// conjunction reads features that are joined by & or a comma, each plain or alternatives in parentheses, or
// alternatives alone. Without parentheses & and | beside each other have no meaning that could be relied on.
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

// holding fills in what the job has, as long as it runs or is being torn down.
func (l *listed) holding(job *wire.Job) {
	if l.State != bridge.Running && !l.Completing {
		return
	}
	gpusOn := gpusHeld(job.Devices, l.Request)
	l.holds = make(map[string]gres.Vector, len(job.Holds))
	devices := make(map[string]string, len(job.Holds))
	for i, node := range job.Holds {
		l.holds[node.Node] = gres.Vector{
			CPUs:   node.CPUs,
			Memory: gres.Memory(node.Memory),
			GPUs:   gpusOn(i),
		}
		if i < len(job.Devices) {
			devices[node.Node] = job.Devices[i]
		}
	}
	// nodes of one job may differ by what rounding has left: the largest is what it was given
	for _, has := range l.holds {
		l.Runs.PerNode = l.Runs.PerNode.Max(has)
	}
	l.Runs.Nodes = slices.Sorted(maps.Keys(l.holds))
	l.Runs.Devices, l.Runs.Shard = job.Devices, l.Request.Shard
	if len(devices) == len(l.Runs.Nodes) && len(job.Devices) == len(devices) { // Slurm's order is that of slurm.conf
		l.Runs.Devices = nil
		for _, node := range l.Runs.Nodes {
			l.Runs.Devices = append(l.Runs.Devices, devices[node])
		}
	}
}

// gpusHeld tells the GPUs on each node of an allocation. Slurm no longer says which once the job is being torn down;
// then each node is taken to have had its share of the request. Of a shard it says so without counting a GPU: it is
// one.
func gpusHeld(detail []string, asked bridge.Request) func(node int) int {
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
