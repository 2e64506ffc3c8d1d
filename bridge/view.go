package bridge

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// sortedObservation is an observation in which jobs are sorted by how rounds treat them (see treatment).
type sortedObservation struct {
	at       time.Time
	nodes    []slurm.Node // as observed, ascending in name
	topology *topology
	managed  []*managedJob // ascending in ID
	debtors  []*managedJob // jobs with a record on which no plan decides, whose debts are undone; ascending in ID
	outside  []Outside     // jobs with our directive that are left to Slurm
	// unplanned are those of outside that wait.
	unplanned         []*managedJob
	contenders        []*managedJob       // unmanaged jobs that only wait for room, in Slurm's order
	completingNodes   map[string]bool     // nodes on which managed jobs are being cleaned up
	jobsToArm         map[int]policy.Next // jobs to be armed
	mayArm            bool                // jobs may be armed in this round
	jobsBehindBlocked map[int]bool        // jobs behind others in Slurm's queue, to be armed with their grants
	secured           map[int]bool        // jobs that the round under way has armed and may lease again

	expiring map[int]bool // jobs that stay by the plan and whose time limits need action

	unions       map[string][]string // nodes of several partitions together, by list of partitions
	reservations []slurm.Reservation
	reserved     map[string][]policy.Reservation // by node, ascending in start
}

// sort sorts the jobs of an observation by how rounds treat them: those on which plans decide, those to be handed back
// or left to Slurm, and the unmanaged ones that compete for room. known are the records and debts so far. It also
// updates the jobs' records by what was observed, and drops what earlier rounds noted in the jobs (such as
// shadowPlacement).
func (r *Runner) sort(seen slurm.Observed, known Records) sortedObservation {
	r.cache.sight++
	r.cache.nodes = seen.Nodes
	s := sortedObservation{at: seen.At, nodes: seen.Nodes, topology: r.topologyOf(seen.Nodes),
		managed: make([]*managedJob, 0, len(seen.Jobs))}
	debts := recordCursor{known}
	for _, t := range r.read(seen.Jobs) {
		t.record = debts.recordOf(t.ID)
		t.shadowPlacement, t.noSavePlacement, t.allSavePlacement = nil, nil, nil
		t.record.syncWithJob(t.Job)
		t.isOurs = t.isOurs && !(t.managedByRule && t.record != nil) // a job with a debt is not managed by a rule
		if t.isOurs {
			t.untouchedBecause = cmp.Or(r.untouchedReason(t.Job), t.allMemoryReason(), oddShard(r, t))
			if p := t.leftToSlurm(); t.untouchedBecause == "" && p != nil {
				t.untouchedBecause = p.Why
			}
		}
		switch t.treatmentAt(seen.At) {
		case managed:
			r.attachProfile(t)
			s.managed = append(s.managed, t)
		case toHandBack:
			if t.record == nil {
				t.record = firstRecord(t, seen.At)
			}
			s.addUnplanned(t)
		case deferred:
			s.addUnplanned(t)
		}
		if t.isOurs && t.Completing {
			s.noteCompletingNodes(t)
		}
	}
	s.contenders = contenders(r.cache.jobs, &s)
	s.setReservations(seen.Reservations)
	return s
}

// noteCompletingNodes notes the nodes that a completing managed job is leaving. Pools are noted by their node, since
// Slurm starts nothing on any part of it.
func (s *sortedObservation) noteCompletingNodes(t *managedJob) {
	if s.completingNodes == nil {
		s.completingNodes = map[string]bool{}
	}
	for _, n := range t.Runs.Nodes {
		s.completingNodes[hostOf(n)] = true
	}
}

// addUnplanned notes a job on which no plan decides. With our directive it is reported, with the reason, and with a
// record it is a debtor, whose debts are undone. A job that was handed back to Slurm shows the cause of that, such as
// an impossible request, if it comes before CauseLeftToSlurm in waitCauses; else it shows CauseLeftToSlurm.
func (s *sortedObservation) addUnplanned(t *managedJob) {
	if t.isOurs {
		s.outside = append(s.outside, Outside{t.ID, t.untouchedBecause})
		if t.State == slurm.Pending {
			t.bar = barReason{CauseLeftToSlurm, t.untouchedBecause}
			switch p := t.leftToSlurm(); {
			case t.Held:
				t.bar.cause = CauseHeld
			case t.untouchedBecause == notInCanary:
				t.bar.cause = CauseCanary
			case p != nil && p.Cause.rank() < CauseLeftToSlurm.rank():
				t.bar.cause = p.Cause
			}
			s.unplanned = append(s.unplanned, t)
		}
	}
	if t.record != nil {
		s.debtors = append(s.debtors, t)
	}
}

// leftAlone says, for the report, why rounds do not touch a job with our directive: they could not honour its request,
// or it is held. Empty: nothing in the job itself is against it.
func leftAlone(j *slurm.Job) string {
	pin := len(j.Request.Pin)
	switch {
	case j.Shape != "":
		return j.Shape
	case j.Held:
		return "held"
	case j.Odd != "":
		return j.Odd
	case strings.Contains(j.Reservation, ","):
		return "names several reservations, of which Slurm chooses one"
	case j.Request.GPUs < 1:
		return "asks for no GPU"
	case j.Whole && j.Request.Shard != "":
		return "exclusive: it asks for a part of a GPU and for whole nodes"
	case j.Request.Nodes < 1 || j.Request.GPUs%j.Request.Nodes != 0:
		return fmt.Sprintf("%d GPUs cannot be divided equally over %d nodes", j.Request.GPUs, j.Request.Nodes)
	case pin > 0 && pin != j.Request.Nodes && j.State == slurm.Pending:
		return fmt.Sprintf("names %d nodes and asks for %d", pin, j.Request.Nodes)
	}
	return ""
}

// gainNow is the speed of a running managed job relative to its speed with the proportional share of its first node, by
// its profile. Progress is credited by it. It is 1 if there is no profile for the GPUs there, or that node is not
// managed.
func (t *managedJob) gainNow() float64 {
	if t.profile == nil || len(t.nodePlaces) == 0 || t.nodePlaces[0] == unmanagedPlace || t.Runs.PerNode.GPUs == 0 {
		return 1
	}
	p := policy.ProfileOn(t.profile, t.topology.gpuType(t.nodePlaces[0]))
	if p == nil {
		return 1
	}
	return p.Gain(t.Runs.PerNode, gres.Proportional(t.topology.total(t.nodePlaces[0]), t.Runs.PerNode.GPUs))
}

// snapshot is all that the planner decides on, in the order of managed nodes and managed jobs. Foreign of a node begins
// as all that is allocated there, from which is subtracted what managed jobs hold. It uses the memory that Reuse gave
// back.
func (r *Runner) snapshot(s *sortedObservation) policy.Cluster {
	c := policy.Cluster{
		Now: s.at, Rules: r.Settings.Rules,
		Jobs: zeroed(r.spare.Jobs, len(s.managed)), Nodes: zeroed(r.spare.Nodes, len(s.topology.managed)),
	}
	// In the configuration a Stranded of 0 means that nothing is lent for good; in policy.Rules it would stand for the
	// default.
	c.Rules.Round, c.Rules.CallableOnly = r.Settings.Round, r.Settings.Rules.Stranded == 0
	c.Rules.MaxPreemptions = r.Settings.mostPreemptions(s)
	r.spare = policy.Cluster{}
	for place, i := range s.topology.managed {
		n := &s.nodes[i]
		c.Nodes[place] = policy.Node{
			Name: n.Name, GPUType: n.GPUType, Features: n.Features, Total: n.Total, Closed: n.Closed,
			Foreign:  n.Allocated,
			Reserved: s.reserved[n.Name],
			Devices:  shareableDevices(r, n),
		}
	}
	c.Unmanaged, c.UnmanagedGPUs = r.unmanaged(s), r.unmanagedGPUs(s, c.Rules.Horizon)
	r.addForeignEnds(s, c.Nodes)
	occupyDevices(r, s, c.Nodes)
	taken := map[nodeGPU]bool{}
	for i, t := range s.managed {
		r.describe(t, s, &c.Jobs[i])
		if t.State == slurm.Running {
			t.subtractHeld(c.Nodes, taken)
		}
	}
	for i := range c.Nodes {
		// It could be negative: a managed job may have started between the reading of jobs and of nodes.
		c.Nodes[i].Foreign = c.Nodes[i].Foreign.Max(gres.Vector{})
	}
	s.lowerCeilings(&c)
	return c
}

// zeroed is a list of n zero values, in the memory of spare if that is large enough. New memory is larger than needed
// by a quarter of the old, so that a growing list does not need new memory each time.
func zeroed[T any](spare []T, n int) []T {
	if spare == nil || cap(spare) < n {
		return make([]T, n, n+cap(spare)/4)
	}
	clear(spare[:n])
	return spare[:n]
}

// subtractHeld subtracts what a managed job holds from Foreign of its nodes, so that only what other jobs hold is left
// there. A GPU that managed jobs share is subtracted once (taken has those that were), and not at all if unmanaged jobs
// use it, too: it stays theirs when the managed job leaves.
func (t *managedJob) subtractHeld(nodes []policy.Node, taken map[nodeGPU]bool) {
	for _, place := range t.nodePlaces {
		if place == unmanagedPlace {
			continue
		}
		nodes[place].Foreign = nodes[place].Foreign.Minus(t.heldOn(&nodes[place], taken))
	}
}

// heldOn is what a running managed job holds of a node. The GPU that jobs share is counted for the first of them, which
// is noted in taken, and for none if unmanaged jobs use it, too.
func (t *managedJob) heldOn(n *policy.Node, taken map[nodeGPU]bool) gres.Vector {
	holds := t.Runs.PerNode
	if on := (nodeGPU{n.Name, t.Runs.Shard}); on.device != "" {
		if taken[on] || usedByOthers(n.Devices, on.device) {
			holds.GPUs = 0
		}
		taken[on] = true
	}
	return holds
}

// describe fills in a job of the snapshot: all that the planner must know of it. A waiting job that may not start now
// is barred, with the reason; a running one that must not be stopped is fixed. It also notes in t what the reason needs
// and later parts of the round use: its closed partitions, its bar, and whether the run is to measure itself.
func (r *Runner) describe(t *managedJob, s *sortedObservation, j *policy.Job) {
	rec, own := t.record, &t.record.Own
	t.closedPartitions, rec.measure = rec.avoided(s.at), measureFlag(r, t)
	j.ID, j.Name, j.User, j.Arrival, j.GPUs = t.ID, t.Name, t.User, rec.First, t.Request.GPUs
	j.Nodes, j.Tasks, j.GPUType, j.PerCore = own.Nodes, own.TasksPerNode(), own.GPUType, rec.hasMemoryPerCore()
	j.Features, j.Only, j.Except = t.Features, s.allowedNodes(t), s.topology.withPools(t.Except)
	j.Profile, j.ProfileName, j.Saves = t.profile, t.directives.Profile, t.canSave()
	// Owed: it was sized by a profile that it has contradicted, and may still run with that size.
	j.Owed = t.profile == nil && rec.Audit.Found != nil && r.Settings.Audit > 0
	j.Attained, j.Done, j.Length, j.Restart = rec.Attained, rec.Done, t.length(s.at), r.restartCost(t).Duration()
	j.Restarts, j.Priority, j.TimeLimit, j.Reservation = t.Restarts, t.Priority, t.TimeLimit, t.Reservation
	j.Share, j.Kept, j.Unruly = shareRequestOf(r, t), keptSpeed(r, t), t.offence() != nil
	if t.State != slurm.Running {
		t.bar = r.startBarOf(t, s)
	}
	if t.Whole {
		s.describeWhole(t, j)
	} else {
		r.setSizeBounds(t, j)
	}
	if t.State != slurm.Running {
		j.Barred = t.bar.why
		return
	}
	j.Running, j.Started, j.Fixed = t.placement, t.since, r.mustStay(t, s.at) || s.blockedByForeignCleanup(t)
}

// mustStay says that a running job must not be touched in this round, because stopping would lose its progress or is
// impossible. Interactive jobs always stay, as their users are at the terminal; exclusive ones (Whole), and those whose
// nodes have different numbers of GPUs, too, since no other size can be given to them. A job whose nodes are being
// resumed, or that started less than trapSetupTime ago, cannot handle a signal yet, and a completing one has ended.
func (r *Runner) mustStay(t *managedJob, now time.Time) bool {
	lostWhenStopped := !t.canSave() && !r.Settings.PreemptWithoutCheckpoint
	return t.Interactive || t.Whole || lostWhenStopped || t.Completing || t.Configuring || !t.sameGPUsOnEachNode() ||
		now.Sub(t.since) < trapSetupTime
}

// canSave says that a job can be asked to save and leave: it declared that, did not end for good when last asked, and
// can be requeued.
func (t *managedJob) canSave() bool {
	return t.directives.Saves && t.record.Lost == "" && !t.Interactive
}

// signal is the signal by which this job is asked to save and leave, as its directives say: to its script or to its
// steps.
func (t *managedJob) signal() slurm.Signal {
	signal := slurm.Signal{Name: t.directives.Signal, To: slurm.Script}
	if t.directives.Steps {
		signal.To = slurm.Steps
	}
	return signal
}

// trapSetupTime is how long a job may need from its start until its traps are set. An earlier signal would kill it.
const trapSetupTime = 5 * time.Second

// sameGPUsOnEachNode says that a running job holds the same number of GPUs on each of its nodes, as jobs do that a
// round has started. Others cannot be described by one size, so they stay as they are.
func (t *managedJob) sameGPUsOnEachNode() bool {
	return len(t.Runs.Nodes) > 0 && t.Runs.PerNode.GPUs*len(t.Runs.Nodes) == t.Request.GPUs
}

// allowedNodes lists the nodes that a plan may give a job: those that its user named, or else those of its partitions.
// If the job was submitted to a reservation, only nodes of the reservation are listed. Nil: all managed nodes.
func (s *sortedObservation) allowedNodes(t *managedJob) []string {
	in := s.partitionNodes(t)
	if pin := t.record.Own.Pin; len(pin) > 0 {
		in = s.topology.withPools(pin)
	}
	if t.Reservation == "" {
		return in
	}
	return s.reservedFor(t.Reservation, in)
}

// length is the job's expected length at the proportional share: what the user declared, or else the progress so far
// and that until its time limit. Slurm starts the limit anew in every run. 0: unknown, since the job has neither.
func (t *managedJob) length(now time.Time) time.Duration {
	switch {
	case t.directives.Length > 0:
		return t.directives.Length
	case t.TimeLimit == 0:
		return 0
	case t.State != slurm.Running:
		return t.record.Done + t.TimeLimit
	}
	left := max(t.TimeLimit-now.Sub(t.Started), time.Second)
	return t.record.Done + progressMade(left, t.gain)
}

// maxBackOff bounds for how many rounds a job is not started after its starts failed or it kept coming back.
const maxBackOff = 12

// maxReturns is how often in a row a job may come back unasked before its next start is delayed.
const maxReturns = 3

// returnBackOff is for how many rounds a job is not started after it came back to the queue unasked more than
// maxReturns times in a row: one round for each time beyond these, at most maxBackOff. 0: it may start.
func (r *Record) returnBackOff() int { return min(max(r.Returned-maxReturns, 0), maxBackOff) }

// failingReason says why a job is not started for some rounds: its last starts failed. Empty: it may start. One failure
// delays nothing; then it is one round for each further failure, at most maxBackOff.
func (r *Runner) failingReason(rec *Record, now time.Time) string {
	rounds := min(rec.Failed-1, maxBackOff)
	again := rec.FailedAt.Add(time.Duration(max(rounds, 0)) * r.Settings.Round)
	if rec.Failed > 1 && now.Before(again) {
		return fmt.Sprintf("did not start %d times in a row, is tried again later", rec.Failed)
	}
	return ""
}

// startBarOf says why a waiting job may not start now, whatever room there is; zero: it may. The planner then gives it
// nothing. Slurm's refusals are looked at elsewhere (refusalBarOf).
func (r *Runner) startBarOf(t *managedJob, s *sortedObservation) barReason {
	rec, now := t.record, s.at
	failing := r.failingReason(rec, now)
	switch {
	case t.StandsForTasks():
		return barReason{CauseArray, "its tasks get jobs of their own as their turn comes"}
	case t.Dependency:
		return barReason{CauseDependency, "waits for another job"}
	case t.Reservation != "" && !s.hasBegun(t.Reservation):
		return barReason{CauseReservation, fmt.Sprintf("waits for its reservation %.40q to begin", t.Reservation)}
	case t.Completing:
		return barReason{CauseCleanup, "its last run is still being cleaned up"}
	case rec.NotBefore.After(now):
		return barReason{CauseBegin, "its user wants it to begin later"}
	case failing != "":
		return barReason{CauseFailedStart, failing}
	case now.Before(rec.ReturnedAt.Add(time.Duration(rec.returnBackOff()) * r.Settings.Round)):
		return barReason{CauseCameBack, fmt.Sprintf(
			"came back to the queue %d times in a row without being asked to leave, is started again later",
			rec.Returned)}
	}
	return barReason{}
}
