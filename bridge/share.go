package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// A job that may share a GPU is sent to a GPU of a node by Slurm's own means: in place of the GPU for which it asks it
// gets one shard of that GPU. Slurm gives a GPU to as many jobs as it has shards, and meanwhile to no job as a whole.
// The request is the user's own again as soon as the job waits, so if the daemon dies, the job starts on a GPU of its
// own.

// Sharing is what Slurm does not know about GPUs: how much memory they have, and how nodes let jobs share them. Where
// the memory is unknown, no GPU is shared.
type Sharing struct {
	GPUMemory gres.Memory // of each GPU; 0: unknown
	// ByFeature is the memory of GPUs on nodes with a feature. If a node has several of these features, the least
	// counts.
	ByFeature map[string]gres.Memory
	Mode      share.Mode // of all nodes; empty: by slices
	// ModeByFeature is the mode of nodes with a feature. If a node has several of these features, slices count, which
	// are always possible.
	ModeByFeature map[string]share.Mode
}

// Served is the feature of a node that has a broker. Without a broker the jobs on a GPU would simply share its time,
// whatever was promised to them.
const Served = share.Announced

// memoryOn is the memory in MiB of each GPU of a node, by its features or else for all nodes. If several features name
// a memory the least counts, so that jobs are not given more than the GPU has. 0: unknown, so none of its GPUs is
// shared.
func (s Sharing) memoryOn(n *slurm.Node) gres.Memory {
	var least gres.Memory
	for _, feature := range n.Features {
		if m := s.ByFeature[feature]; m > 0 && (least == 0 || m < least) {
			least = m
		}
	}
	return cmp.Or(least, s.GPUMemory)
}

// modeOn is how jobs share the GPUs of a node, by its features or else for all nodes. Empty: by slices, for which the
// configuration has the word share.Turns. One feature that says share.Turns decides for slices, since they are always
// possible.
func (s Sharing) modeOn(n *slurm.Node) share.Mode {
	mode := s.Mode
	for _, feature := range n.Features {
		switch m := s.ModeByFeature[feature]; m {
		case share.Turns:
			return ""
		case share.Fill:
			mode = m
		}
	}
	if mode == share.Turns {
		return ""
	}
	return mode
}

// isDisabled says that no GPU is shared.
func (s Sharing) isDisabled() bool { return s.GPUMemory == 0 && len(s.ByFeature) == 0 }

// slotGrant is what the annotation tells a node of a job on a shared GPU. The node's broker lets the job use the GPU
// accordingly.
type slotGrant struct {
	Class  share.Class `json:"class"`
	Memory gres.Memory `json:"gpu_memory_mib"`
	SLO    int64       `json:"slo_ms,omitempty"`
	Device string      `json:"device"`
}

// shareRefused says, for the user, why a job that may share a GPU is not put on a shared one. It judges the user's own
// request, as the record has it, and not the shard that a round may have written. Empty: nothing is against it, or the
// job did not ask to share.
func shareRefused(r *Runner, t *managedJob) string {
	if t.directives.Share == nil {
		return ""
	}
	own := &t.Request
	if t.record != nil {
		own = &t.record.Own
	}
	switch {
	case r.Settings.Sharing.isDisabled():
		return "the site's configuration does not say how much memory its GPUs have"
	case own.GPUs != 1 || own.Nodes > 1:
		return "only a job that asks for one GPU on one node can be"
	case own.GRES == "":
		return "Slurm gives it no part of a GPU unless it asks for the GPU by --gres=gpu:1 or --gpus-per-node=1"
	case own.GPUType != "":
		return "it asks for a GPU of one type by its name"
	case own.CPUsPerGPU > 0 || own.MemoryPerGPU > 0:
		return "it asks for cores or memory by GPU"
	case t.Interactive:
		return "somebody waits at its terminal, and it cannot be moved"
	case !t.hasSlot() && !slices.ContainsFunc(r.cache.nodes, hasBroker):
		return "no node says that it has a broker, without which the jobs on a GPU would slow each other down"
	}
	return ""
}

// hasBroker says that jobs can be put on shared GPUs of a node: Slurm has them by single types, and a broker runs
// there.
func hasBroker(n slurm.Node) bool { return len(n.Devices) > 0 && slices.Contains(n.Features, Served) }

// shareRequestOf is the request under which a job may share a GPU; nil: the job may share none. A job that has a slot
// keeps the class and memory with which it got the slot, since the other jobs were put beside it on these terms.
func shareRequestOf(r *Runner, t *managedJob) *share.Request {
	if t.directives.Share == nil || shareRefused(r, t) != "" {
		return nil
	}
	request := *t.directives.Share
	if slot := t.parsedAnnotation().Share; t.hasSlot() && slot != nil && slot.Device == t.Runs.Shard {
		request.Class, request.Memory = slot.Class, cmp.Or(slot.Memory, request.Memory)
	}
	return &request
}

// Unruly is a job that, as its node says, did not give its slice back on a shared GPU.
type Unruly struct {
	Job int `json:"job"`
	share.Offence
}

// String is the note for the job's user.
func (u Unruly) String() string {
	return fmt.Sprintf("would not give GPU %d back to others again and again, at last at %s: it is put beside nobody "+
		"any more, until an administrator takes synergy-offence out of its AdminComment", u.GPU,
		u.At.Format(time.RFC3339))
}

// Accused says that a job's AdminComment has an offence: the note of a node that the job did not give its slice back.
func Accused(admin string) bool {
	_, accused := share.ParseOffence(admin)
	return accused
}

// offence is what a node wrote about a job that did not give its slice of a shared GPU back. The planner puts such a
// job beside no other. Nil: the node wrote nothing, or the job does not ask to share a GPU.
func (t *managedJob) offence() *Unruly {
	if t.directives.Share == nil {
		return nil
	}
	if found, accused := share.ParseOffence(t.Admin); accused {
		return &Unruly{t.ID, found}
	}
	return nil
}

// hasSlot says that a job runs on a GPU that it may share with others.
func (t *managedJob) hasSlot() bool { return t.State == slurm.Running && t.Runs.Shard != "" }

// sharedGrantOf is what the node is told about a job that gets a slot. It is nil for a job without a slot, and for a
// job whose need of GPU memory is unknown: such a job has the GPU for itself.
func sharedGrantOf(r *Runner, t *managedJob, g *policy.Placement) *slotGrant {
	request := shareRequestOf(r, t)
	if g.Device == "" || request == nil {
		return nil
	}
	memory := request.Memory
	if memory == 0 && t.profile != nil {
		memory = t.profile.GPUMemory
	}
	if memory == 0 {
		return nil
	}
	return &slotGrant{Class: request.Class, Memory: memory, SLO: request.SLO.Milliseconds(), Device: g.Device}
}

// oddShard says why rounds leave a job alone because of a shard: its user asks for one, or for a single GPU by its
// type, or it runs on a shared GPU whose memory is no longer known. Empty: it has no shard, or one that a round gave it
// and can take back.
func oddShard(r *Runner, t *managedJob) string {
	if t.Request.Shard == "" && namesDevice(r, t.Request.GPUType) {
		return "asks for one GPU of a node by its own type"
	}
	if t.Request.Shard == "" {
		return ""
	}
	own := t.parsedAnnotation().Own
	if t.record != nil {
		own = &t.record.Own
	}
	switch {
	case own == nil || own.Shard != "":
		return "asks for shard"
	case t.State == slurm.Running && !canShareOn(r, t.Runs.Nodes):
		return "runs on a GPU that others may share, of which nobody knows any more how much memory it has"
	}
	return ""
}

// namesDevice says that a GPU type names single GPUs, and is not the type of all GPUs of some node. Rounds leave a job
// that asks for such a type alone, since the planner does not know the types of single GPUs. False for an empty type
// and for one that no node has.
func namesDevice(r *Runner, gpuType string) bool {
	if gpuType == "" {
		return false
	}
	names := false
	for i := range r.cache.nodes {
		n := &r.cache.nodes[i]
		if n.GPUType == gpuType {
			return false
		}
		names = names || slices.ContainsFunc(n.Devices, func(d slurm.Device) bool { return d.Type == gpuType })
	}
	return names
}

// canShareOn says that jobs can share the GPUs of all these nodes; false as well if one of them is gone.
func canShareOn(r *Runner, nodes []string) bool {
	return !slices.ContainsFunc(nodes, func(name string) bool {
		i, found := slices.BinarySearchFunc(r.cache.nodes, name,
			func(n slurm.Node, name string) int { return strings.Compare(n.Name, name) })
		return !found || len(shareableDevices(r, &r.cache.nodes[i])) == 0
	})
}

// shareableDevices are the GPUs of a node that jobs can share, with how many jobs each may have; nil if their memory is
// unknown. Without a broker that number is 0: jobs on the node stay, and no new ones are placed.
func shareableDevices(r *Runner, n *slurm.Node) []policy.Device {
	memory := r.Settings.Sharing.memoryOn(n)
	if memory == 0 || len(n.Devices) == 0 {
		return nil
	}
	devices, mode := make([]policy.Device, len(n.Devices)), r.Settings.Sharing.modeOn(n)
	// On a node without a broker, running shared jobs stay and no new ones are placed.
	served := hasBroker(*n)
	for i, d := range n.Devices {
		devices[i] = policy.Device{Name: d.Type, Memory: memory, Mode: mode}
		if served {
			devices[i].Slots = min(d.Shards, share.MostJobs)
		}
	}
	return devices
}

// nodeGPU is one GPU of a node.
type nodeGPU struct{ node, device string }

// occupyDevices notes in the snapshot which of the GPUs that can be shared are in use, so that the plan puts no job on
// one that an unmanaged job or a whole-GPU job has. It does nothing if no node has GPUs that can be shared.
func occupyDevices(r *Runner, s *sortedObservation, nodes []policy.Node) {
	if !slices.ContainsFunc(nodes, func(n policy.Node) bool { return len(n.Devices) > 0 }) {
		return
	}
	for _, t := range r.cache.jobs {
		if t.State != slurm.Running && !t.Completing {
			continue
		}
		ours := t.State == slurm.Running && t.treatmentAt(s.at) == managed
		for _, name := range t.Runs.Nodes {
			i, found := slices.BinarySearchFunc(nodes, name,
				func(n policy.Node, name string) int { return strings.Compare(n.Name, name) })
			if found && len(nodes[i].Devices) > 0 {
				t.markDevices(nodes[i].Devices, ours)
			}
		}
	}
	for i := range nodes {
		if k, found := slices.BinarySearchFunc(s.nodes, nodes[i].Name,
			func(n slurm.Node, name string) int { return strings.Compare(n.Name, name) }); found {
			closeUnaccounted(r, &nodes[i], s.nodes[k].Allocated.GPUs)
		}
	}
}

// markDevices notes which of a node's GPUs a job uses. ours says that plans decide on the job. Such a job's ID is noted
// at a GPU that it holds as a whole; a slot on a shared GPU is not noted, since the planner sees it in the job's
// placement. A GPU that any other job uses is marked as Foreign.
func (t *managedJob) markDevices(devices []policy.Device, ours bool) {
	if ours && t.Runs.Shard != "" {
		return // its placement says so
	}
	for _, d := range devicesIn(t.Runs) {
		i := d.index
		if d.gpuType != "" {
			i = slices.IndexFunc(devices, func(other policy.Device) bool { return other.Name == d.gpuType })
		}
		switch {
		case i < 0 || i >= len(devices):
		case ours:
			devices[i].Job = t.ID
		default:
			devices[i].Foreign = true
		}
	}
}

// usedByOthers says that a job on which no plan decides uses the GPU of that name, at least in part. Then the GPU stays
// in use when the managed jobs leave it.
func usedByOthers(devices []policy.Device, name string) bool {
	return slices.ContainsFunc(devices, func(d policy.Device) bool { return d.Name == name && d.Foreign })
}

// closeUnaccounted marks all GPUs of a node that no known job uses as Foreign, if Slurm counts more GPUs as allocated
// than known jobs account for. Any of them may be the one in use, since devicesIn leaves out what it cannot parse.
func closeUnaccounted(r *Runner, n *policy.Node, allocated int) {
	used := map[string]bool{}
	for _, d := range n.Devices {
		if d.Foreign || d.Job != 0 {
			used[d.Name] = true
		}
	}
	for _, t := range r.cache.jobs {
		if t.Runs.Shard != "" && slices.Contains(t.Runs.Nodes, n.Name) {
			used[t.Runs.Shard] = true
		}
	}
	if allocated <= len(used) {
		return
	}
	for i := range n.Devices {
		n.Devices[i].Foreign = n.Devices[i].Foreign || !used[n.Devices[i].Name]
	}
}

// givenDevice is a GPU of which a job holds something: by its type if that is known, or else by its index.
type givenDevice struct {
	gpuType string
	index   int
}

// devicesIn are the GPUs of which a job has something on any of its nodes, from what Slurm prints:
// gpu:g0:1(IDX:0),gpu:g1:0(IDX:) or shard:1(0/4,1/4). What cannot be parsed is left out; closeUnaccounted allows for
// that.
func devicesIn(a slurm.Allocated) []givenDevice {
	var given []givenDevice
	if a.Shard != "" {
		given = append(given, givenDevice{gpuType: a.Shard})
	}
	for _, printed := range a.Devices {
		counts, err := gres.ParseCounts(printed)
		if err != nil {
			continue
		}
		for _, c := range counts {
			switch {
			case c.Name != "gpu" && c.Name != "shard" && c.Name != "mps", c.Count == 0:
			case c.Type != "":
				given = append(given, givenDevice{gpuType: c.Type})
			default:
				given = append(given, indexed(c.Index)...)
			}
		}
		given = append(given, partDevices(printed)...)
	}
	return given
}

// indexed are the GPUs of a list of indices such as 0-1,3. Items that are no indices are left out.
func indexed(list string) []givenDevice {
	var given []givenDevice
	for _, item := range strings.Split(list, ",") {
		from, to, ranged := strings.Cut(item, "-")
		first, err := strconv.Atoi(from)
		if err != nil || first < 0 {
			continue
		}
		last := first
		if n, err := strconv.Atoi(to); ranged && err == nil {
			last = min(n, first+mostGPUs)
		}
		for i := first; i <= last; i++ {
			given = append(given, givenDevice{index: i})
		}
	}
	return given
}

// mostGPUs bounds how many GPUs one range of indices can name.
const mostGPUs = 1024

// partDevices are the GPUs of which the job has a part: shard:2(0/4,2/4) names the second. A 0 or - means that the job
// has no part of that GPU.
func partDevices(printed string) []givenDevice {
	var given []givenDevice
	for {
		_, rest, found := strings.Cut(printed, "(")
		if !found {
			return given
		}
		parts, tail, _ := strings.Cut(rest, ")")
		for i, part := range strings.Split(parts, ",") {
			if n, _, byDevice := strings.Cut(part, "/"); byDevice && n != "0" && n != "-" {
				given = append(given, givenDevice{index: i})
			}
		}
		printed = tail
	}
}

// isOneGPU says that a request from an annotation is for one whole GPU on each node, as it must be for a job that
// carries a shard. If so, it also sets GPUType from GRES: the job's own fields, which name a shard, cannot confirm the
// type.
func isOneGPU(q *slurm.Request) bool {
	counts, err := gres.ParseCounts(q.GRES)
	if err != nil || len(counts) != 1 || counts[0].Name != "gpu" || counts[0].Count != 1 {
		return false
	}
	q.GPUType = counts[0].Type
	return true
}

// pendingSlots are the nodes on which a job is still to start on a shared GPU. Starts of whole GPUs there wait: Slurm
// gives them the first unused GPU, which may be that one.
func (list steps) pendingSlots() map[string]bool {
	nodes := map[string]bool{}
	for _, s := range list {
		if s.Verb == Start && s.Grant.Device != "" && s.open() {
			nodes[s.Grant.Nodes[0]] = true
		}
	}
	return nodes
}

// wantsSlotNode says that a start needs whole GPUs of a node on which a job is still to start on a shared one; nodes
// are those of pendingSlots.
func (s *step) wantsSlotNode(nodes map[string]bool) bool {
	return s.Grant.Device == "" && slices.ContainsFunc(s.Grant.Nodes, func(n string) bool { return nodes[n] })
}

// isValid says that the slot in an annotation is well formed, so that plans may rely on it; users can write
// annotations.
func (g *slotGrant) isValid() bool {
	known := g.Class == share.High || g.Class == share.Low
	return known && g.Memory >= 0 && g.Memory <= mostGPUMemory && g.SLO >= 0
}

// mostGPUMemory is more than any GPU has, MiB.
const mostGPUMemory = 1 << 20
