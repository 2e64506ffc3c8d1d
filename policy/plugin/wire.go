package plugin

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/plannerpb"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Encoding of a snapshot.

// clusterOut encodes a snapshot in which no jobs share GPUs (see Planner.ask). Each profile is sent once; a job refers
// to its profile by the position in the list, from 1, and has 0 if it has no profile.
func clusterOut(c *policy.Cluster) *plannerpb.Cluster {
	out := &plannerpb.Cluster{NowNs: timeOut(c.Now), Rules: rulesOut(c.Rules),
		UnmanagedGpus: int64(c.UnmanagedGPUs)}
	for i := range c.Nodes {
		out.Nodes = append(out.Nodes, nodeOut(&c.Nodes[i]))
	}
	for _, q := range c.Quotas {
		out.Quotas = append(out.Quotas, &plannerpb.Quota{
			Name: validUTF8(
				q.Name,
			), Jobs: int64(q.Jobs), Nodes: int64(q.Nodes), Gpus: int64(q.GPUs), Cpus: int64(q.CPUs),
			MemoryMib: int64(q.Memory),
		})
	}
	for i := range c.Unmanaged {
		u := &c.Unmanaged[i]
		out.Unmanaged = append(out.Unmanaged, &plannerpb.Unmanaged{
			Id: int64(u.ID), Priority: u.Priority, Nodes: int64(u.Nodes), PerNode: vectorOut(u.PerNode), On: u.On,
		})
	}
	places := map[*sensitivity.Profile]int64{} // in the list of profiles, from 1; 0 is a job without profile
	for i := range c.Jobs {
		j := jobOut(&c.Jobs[i])
		if p := c.Jobs[i].Profile; p != nil {
			if places[p] == 0 {
				out.Profiles = append(out.Profiles, profileOut(p))
				places[p] = int64(len(out.Profiles))
			}
			j.Profile = places[p]
		}
		out.Jobs = append(out.Jobs, j)
	}
	return out
}

// rulesOut encodes the administrator's rules; a zero value stays one, and stands for the same default.
func rulesOut(r policy.Rules) *plannerpb.Rules {
	return &plannerpb.Rules{
		MinRunNs: int64(r.MinRun), MaxPreemptions: int64(r.MaxPreemptions), MaxRestarts: int64(r.MaxRestarts),
		HorizonNs: int64(r.Horizon), PatienceNs: int64(r.Patience), Stranded: r.Stranded, RoundNs: int64(r.Round),
		PaybackNs: int64(r.Payback), CallableOnly: r.CallableOnly,
	}
}

// nodeOut encodes a node without ForeignEnds and Devices, which the protocol does not have.
func nodeOut(n *policy.Node) *plannerpb.Node {
	return &plannerpb.Node{
		Name: n.Name, GpuType: n.GPUType, Features: n.Features,
		Total: vectorOut(n.Total), Foreign: vectorOut(n.Foreign), Closed: n.Closed, Reserved: reservedOut(n.Reserved),
	}
}

// reservedOut encodes the reservations of a node, in their order.
func reservedOut(list []policy.Reservation) []*plannerpb.Reservation {
	var out []*plannerpb.Reservation
	for _, r := range list {
		out = append(out, &plannerpb.Reservation{Name: validUTF8(r.Name), FromNs: timeOut(r.From), ToNs: timeOut(r.To)})
	}
	return out
}

// jobOut encodes a job without its profile, which clusterOut refers to, and without what is about sharing a GPU, which
// the protocol does not have.
func jobOut(j *policy.Job) *plannerpb.Job {
	return &plannerpb.Job{
		Id: int64(j.ID), Name: validUTF8(j.Name), User: validUTF8(j.User), ArrivalNs: timeOut(j.Arrival),
		Gpus: int64(j.GPUs), Nodes: int64(j.Nodes), TasksPerNode: int64(j.Tasks), GpuType: j.GPUType,
		Features: j.Features, Only: j.Only, Except: j.Except, ProfileName: j.ProfileName,
		Owed: j.Owed, Barred: j.Barred, Running: placementOut(j.Running), StartedNs: timeOut(j.Started),
		Restarts: int64(j.Restarts),
		Saves:    j.Saves, Fixed: j.Fixed, Stays: j.Stays, AttainedGpuS: j.Attained,
		DoneNs: int64(j.Done), LengthNs: int64(j.Length), RestartNs: int64(j.Restart),
		Floor: termOut(
			j.Floor,
		), Pace: termOut(j.Pace), Ceiling: termOut(j.Ceiling), Quotas: convertNumbers[int64](j.Quotas),
		Priority: j.Priority, TimeLimitNs: int64(j.TimeLimit), Reservation: validUTF8(j.Reservation),
	}
}

// termOut encodes a floor, pace or ceiling; a zero one is left out, as most are.
func termOut(v gres.Vector) *plannerpb.Vector {
	if v == (gres.Vector{}) {
		return nil
	}
	return vectorOut(v)
}

// convertNumbers converts a list of numbers to another type; an empty list becomes nil.
func convertNumbers[To, From int | int64](list []From) []To {
	var out []To
	for _, n := range list {
		out = append(out, To(n))
	}
	return out
}

// validUTF8 makes a user's text valid UTF-8, which protobuf requires: bytes that are not become U+FFFD.
func validUTF8(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// placementOut encodes a placement; nil stays nil. It leaves out the device: a plugin is asked about jobs with GPUs of
// their own (Planner.ask).
func placementOut(p *policy.Placement) *plannerpb.Placement {
	if p == nil {
		return nil
	}
	return &plannerpb.Placement{Nodes: p.Nodes, PerNode: vectorOut(p.PerNode)}
}

func vectorOut(v gres.Vector) *plannerpb.Vector {
	return &plannerpb.Vector{Gpus: int64(v.GPUs), Cpus: int64(v.CPUs), MemoryMib: int64(v.Memory)}
}

// profileOut encodes a profile; the table of throughputs is sent row by row in one list.
func profileOut(p *sensitivity.Profile) *plannerpb.Profile {
	out := &plannerpb.Profile{
		Version: int64(p.Version), Model: p.Model, Task: p.Task, GpuType: p.GPUType, Batch: int64(p.Batch),
		Source:      p.Source,
		CoresPerGpu: p.CoresPerGPU, CheckpointS: p.CheckpointSeconds, StartS: p.StartSeconds,
	}
	for _, m := range p.MemoryPerGPU {
		out.MemoryPerGpuMib = append(out.MemoryPerGpuMib, int64(m))
	}
	for _, row := range p.Throughput {
		out.ThroughputSamplesPerS = append(out.ThroughputSamplesPerS, row...)
	}
	return out
}

// timeOut encodes the zero time as 0.
func timeOut(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// timeIn is the inverse of timeOut, in UTC.
func timeIn(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// Decoding of a snapshot.

// profileCache keeps decoded profiles from snapshot to snapshot, so that an unchanged profile keeps its pointer: a
// planner recognizes profiles by pointer.
type profileCache map[string]*sensitivity.Profile

// decodeProfiles decodes the profiles of this snapshot, in their order, and forgets all others. One that was sent
// before with the same bytes keeps its pointer.
func (s *profileCache) decodeProfiles(sent []*plannerpb.Profile) ([]*sensitivity.Profile, error) {
	kept, list := profileCache{}, make([]*sensitivity.Profile, 0, len(sent))
	for i, p := range sent {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
		if err != nil {
			return nil, err
		}
		profile := (*s)[string(text)]
		if profile == nil {
			if profile, err = profileIn(p); err != nil {
				return nil, fmt.Errorf("profile %d: %w", i+1, err)
			}
		}
		kept[string(text)] = profile
		list = append(list, profile)
	}
	*s = kept
	return list, nil
}

// profileIn is the inverse of profileOut. It checks only that the table is complete.
func profileIn(p *plannerpb.Profile) (*sensitivity.Profile, error) {
	rows, columns := len(p.CoresPerGpu), len(p.MemoryPerGpuMib)
	if len(p.ThroughputSamplesPerS) != rows*columns {
		return nil, fmt.Errorf("%d throughputs: want %d, one for each of %d numbers of cores and %d memories",
			len(p.ThroughputSamplesPerS), rows*columns, rows, columns)
	}
	in := &sensitivity.Profile{
		Version: int(p.Version), Model: p.Model, Task: p.Task, GPUType: p.GpuType, Batch: int(p.Batch),
		Source:      p.Source,
		CoresPerGPU: p.CoresPerGpu, CheckpointSeconds: p.CheckpointS, StartSeconds: p.StartS,
	}
	for _, m := range p.MemoryPerGpuMib {
		in.MemoryPerGPU = append(in.MemoryPerGPU, gres.Memory(m))
	}
	for row := range slices.Chunk(p.ThroughputSamplesPerS, max(1, columns)) {
		in.Throughput = append(in.Throughput, row)
	}
	return in, nil
}

// decodeCluster decodes a snapshot and resolves its references to profiles and quotas; an error names the job whose
// reference leads nowhere. Nothing else is checked, since a plugin trusts the daemon.
func (s *profileCache) decodeCluster(c *plannerpb.Cluster) (policy.Cluster, error) {
	profiles, err := s.decodeProfiles(c.GetProfiles())
	if err != nil {
		return policy.Cluster{}, err
	}
	in := policy.Cluster{Now: timeIn(c.GetNowNs()), Rules: rulesIn(c.GetRules()),
		UnmanagedGPUs: int(c.GetUnmanagedGpus())}
	for _, n := range c.GetNodes() {
		in.Nodes = append(in.Nodes, nodeIn(n))
	}
	for _, q := range c.GetQuotas() {
		in.Quotas = append(in.Quotas, policy.Quota{
			Name: q.Name, Jobs: int(q.Jobs), Nodes: int(q.Nodes), GPUs: int(q.Gpus), CPUs: int(q.Cpus),
			Memory: gres.Memory(q.MemoryMib),
		})
	}
	for _, u := range c.GetUnmanaged() {
		in.Unmanaged = append(in.Unmanaged, policy.Unmanaged{
			ID: int(u.Id), Priority: u.Priority, Nodes: int(u.Nodes), PerNode: vectorIn(u.PerNode), On: u.On,
		})
	}
	for _, j := range c.GetJobs() {
		job := jobIn(j)
		if j.Profile < 0 || j.Profile > int64(len(profiles)) {
			return policy.Cluster{}, fmt.Errorf("job %d: profile %d: the snapshot has %d", j.Id, j.Profile,
				len(profiles))
		}
		if j.Profile > 0 {
			job.Profile = profiles[j.Profile-1]
		}
		for _, q := range job.Quotas {
			if q < 0 || q >= len(in.Quotas) {
				return policy.Cluster{}, fmt.Errorf("job %d: quota %d: the snapshot has %d", j.Id, q, len(in.Quotas))
			}
		}
		in.Jobs = append(in.Jobs, job)
	}
	return in, nil
}

// rulesIn is the inverse of rulesOut; nil gives the zero rules, which forbid nothing.
func rulesIn(r *plannerpb.Rules) policy.Rules {
	return policy.Rules{
		MinRun: time.Duration(r.GetMinRunNs()), MaxPreemptions: int(r.GetMaxPreemptions()),
		MaxRestarts: int(r.GetMaxRestarts()),
		Horizon:     time.Duration(r.GetHorizonNs()), Patience: time.Duration(r.GetPatienceNs()),
		Stranded: r.GetStranded(),
		Round:    time.Duration(r.GetRoundNs()),
		Payback:  time.Duration(r.GetPaybackNs()), CallableOnly: r.GetCallableOnly(),
	}
}

// nodeIn is the inverse of nodeOut.
func nodeIn(n *plannerpb.Node) policy.Node {
	return policy.Node{
		Name: n.Name, GPUType: n.GpuType, Features: n.Features,
		Total: vectorIn(n.Total), Foreign: vectorIn(n.Foreign), Closed: n.Closed, Reserved: reservedIn(n.Reserved),
	}
}

// reservedIn is the inverse of reservedOut.
func reservedIn(list []*plannerpb.Reservation) []policy.Reservation {
	var in []policy.Reservation
	for _, r := range list {
		in = append(in, policy.Reservation{Name: r.Name, From: timeIn(r.FromNs), To: timeIn(r.ToNs)})
	}
	return in
}

// jobIn is the inverse of jobOut.
func jobIn(j *plannerpb.Job) policy.Job {
	return policy.Job{
		ID: int(j.Id), Name: j.Name, User: j.User, Arrival: timeIn(j.ArrivalNs),
		GPUs: int(j.Gpus), Nodes: int(j.Nodes), Tasks: int(j.TasksPerNode), GPUType: j.GpuType,
		Features: j.Features, Only: j.Only, Except: j.Except, ProfileName: j.ProfileName,
		Owed: j.Owed, Barred: j.Barred, Running: placementIn(j.Running), Started: timeIn(j.StartedNs),
		Restarts: int(j.Restarts),
		Saves:    j.Saves, Fixed: j.Fixed, Stays: j.Stays, Attained: j.AttainedGpuS,
		Done: time.Duration(j.DoneNs), Length: time.Duration(j.LengthNs), Restart: time.Duration(j.RestartNs),
		Floor: vectorIn(
			j.Floor,
		), Pace: vectorIn(j.Pace), Ceiling: vectorIn(j.Ceiling), Quotas: convertNumbers[int](j.Quotas),
		Priority: j.Priority, TimeLimit: time.Duration(j.TimeLimitNs), Reservation: j.Reservation,
	}
}

// placementIn decodes a placement with GPUs of its own; nil, for a job that waits, stays nil.
func placementIn(p *plannerpb.Placement) *policy.Placement {
	if p == nil {
		return nil
	}
	return &policy.Placement{Nodes: p.Nodes, PerNode: vectorIn(p.PerNode)}
}

func vectorIn(v *plannerpb.Vector) gres.Vector {
	return gres.Vector{GPUs: int(v.GetGpus()), CPUs: int(v.GetCpus()), Memory: gres.Memory(v.GetMemoryMib())}
}

// Encoding and decoding of a plan.

// planOut encodes a plan, on the plugin's side.
func planOut(plan policy.Plan) *plannerpb.PlanResponse {
	out := &plannerpb.PlanResponse{Decisions: make([]*plannerpb.Decision, 0, len(plan.Decisions))}
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		sent := &plannerpb.Decision{
			Job: int64(d.Job), Grant: placementOut(d.Grant), Gain: &d.Gain, Reason: string(d.Reason), Why: d.Why,
		}
		if d.Fair != (gres.Vector{}) {
			sent.Fair = vectorOut(d.Fair)
		}
		out.Decisions = append(out.Decisions, sent)
	}
	return out
}

// planIn decodes a plugin's plan, which is not trusted. Whether it keeps the promises is left to policy.Check; here
// texts must be printable and numbers must be safe to sum. Fields that the plan leaves out are computed.
func planIn(c *policy.Cluster, sent *plannerpb.PlanResponse) (policy.Plan, error) {
	if n := len(sent.GetDecisions()); n > len(c.Jobs) {
		return policy.Plan{}, fmt.Errorf("%d decisions: want one for each of %d jobs", n, len(c.Jobs))
	}
	desk := newPlanDecoder(c)
	plan := policy.Plan{Decisions: make([]policy.Decision, 0, len(sent.GetDecisions()))}
	for _, s := range sent.GetDecisions() {
		d, err := desk.decision(s)
		if err != nil {
			return policy.Plan{}, fmt.Errorf("job %d: %w", s.GetJob(), err)
		}
		plan.Decisions = append(plan.Decisions, d)
	}
	return plan, nil
}

// planDecoder decodes the decisions of one plan; it indexes the jobs and nodes to which they refer.
type planDecoder struct {
	jobs  map[int]*policy.Job
	nodes map[string]*policy.Node
}

// newPlanDecoder indexes the jobs of a snapshot by ID and its nodes by name.
func newPlanDecoder(c *policy.Cluster) planDecoder {
	d := planDecoder{make(map[int]*policy.Job, len(c.Jobs)), make(map[string]*policy.Node, len(c.Nodes))}
	for i := range c.Jobs {
		d.jobs[c.Jobs[i].ID] = &c.Jobs[i]
	}
	for i := range c.Nodes {
		d.nodes[c.Nodes[i].Name] = &c.Nodes[i]
	}
	return d
}

// decision decodes and validates one decision. A grant of what the job holds already gets the pointer of the snapshot,
// by which later code sees that nothing changes. The gain and fair share of any other grant, and where the plugin left
// out the gain, are computed here: a job's owner is told them.
func (k *planDecoder) decision(s *plannerpb.Decision) (policy.Decision, error) {
	j := k.jobs[int(s.GetJob())]
	if j == nil {
		return policy.Decision{}, fmt.Errorf("is not in the snapshot")
	}
	d := policy.Decision{Job: j.ID, Reason: policy.Reason(s.GetReason()), Why: s.GetWhy(), Gain: s.GetGain(),
		Fair: vectorIn(s.Fair)}
	if err := checkTexts(&d); err != nil {
		return d, err
	}
	if s.Grant == nil {
		return d, nil
	}
	if err := k.checkNodes(s.Grant.Nodes, j); err != nil {
		return d, err
	}
	d.Grant = placementIn(s.Grant)
	if err := checkAmounts(d.Grant, j); err != nil {
		return d, err
	}
	same := j.Running != nil && d.Grant.Equal(*j.Running)
	if same {
		d.Grant = j.Running // nothing changes: the same pointer makes that obvious
	}
	if !same || s.Gain == nil {
		k.computeGain(j, &d) // a job's owner is told the gain of a new grant, so the plugin's figure is not used
	}
	return d, nil
}

// checkNodes refuses node names that are neither in the snapshot nor in the job's present placement, and lists that are
// longer than any placement can be: all nodes, and as many that have left as the job has GPUs.
func (k *planDecoder) checkNodes(names []string, j *policy.Job) error {
	if most := len(k.nodes) + j.GPUs; len(names) > most {
		return fmt.Errorf("grant on %d nodes: there are %d", len(names), len(k.nodes))
	}
	for _, name := range names {
		if k.nodes[name] == nil && (j.Running == nil || !slices.Contains(j.Running.Nodes, name)) {
			return fmt.Errorf("node %.80q is not in the snapshot", name)
		}
	}
	return nil
}

// reasonForm is the form of a reason. Texts of a decision go into logs, metrics and what users see of their jobs.
var reasonForm = regexp.MustCompile(`^[a-z][a-z-]{0,31}$`)

const maxWhy = 500 // bytes

// checkTexts validates the texts and figures of a decision, since these are shown to users and administrators.
func checkTexts(d *policy.Decision) error {
	switch {
	case d.Reason != "" && !reasonForm.MatchString(string(d.Reason)):
		return fmt.Errorf("reason %.40q: want one word of lower-case letters and hyphens", d.Reason)
	case len(d.Why) > maxWhy:
		return fmt.Errorf("why has %d bytes: want at most %d", len(d.Why), maxWhy)
	case !printable.Is(d.Why):
		return fmt.Errorf("why %.80q: want printable characters in one line", d.Why)
	case math.IsNaN(d.Gain) || d.Gain < 0 || d.Gain > maxGain:
		return fmt.Errorf("gain %g: want 0 to %g", d.Gain, float64(maxGain))
	case !isSummable(d.Fair):
		return fmt.Errorf("fair %v: want amounts from 0 to 2^40", d.Fair)
	}
	return nil
}

const (
	maxGain   = 1e9
	maxAmount = 1 << 40
)

// checkAmounts refuses a grant with amounts whose sums could overflow. A job may keep its present placement, whatever
// it is.
func checkAmounts(p *policy.Placement, j *policy.Job) error {
	if j.Running != nil && p.Equal(*j.Running) {
		return nil
	}
	if !isSummable(p.PerNode) {
		return fmt.Errorf("grant of %v on each node: want amounts from 0 to 2^40", p.PerNode)
	}
	return nil
}

// isSummable reports whether all amounts are from 0 to maxAmount, so that sums over a cluster cannot overflow.
func isSummable(v gres.Vector) bool {
	return min(v.GPUs, v.CPUs, int(v.Memory)) >= 0 && max(v.GPUs, v.CPUs, int(v.Memory)) <= maxAmount
}

// computeGain sets Fair and Gain of a decision with a grant, from the grant's first node. If it has no node, or one
// that has left the cluster, they stay as they are, and policy.Check decides about the grant.
func (k *planDecoder) computeGain(j *policy.Job, d *policy.Decision) {
	if len(d.Grant.Nodes) == 0 {
		return
	}
	node := k.nodes[d.Grant.Nodes[0]]
	if node == nil {
		return // policy.Check reports it
	}
	d.Fair, d.Gain = gres.Proportional(node.Total, d.Grant.PerNode.GPUs), 1
	if p := policy.ProfileOn(j.Profile, node.GPUType); p != nil {
		d.Gain = p.Gain(d.Grant.PerNode, d.Fair)
	}
}
