package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// A job whose user says that it may share a GPU is sent to one of a node by Slurm's own means: in place of the GPU that
// it asks for it gets one shard of that GPU, which Slurm gives to so many jobs as the GPU has shards, and to nobody
// whole meanwhile. The request is its user's own again as soon as it waits: should the daemon die, the job starts on a
// GPU of its own.

// Sharing is what Slurm does not know of the GPUs of a site: how much memory they have, and by which way nodes have
// them shared. Where no memory is said nobody is put on a GPU that another job uses.
type Sharing struct {
	GPUMemory gres.Memory // of each GPU; 0: not said
	// ByFeature is that of the GPUs of nodes with a feature; of several features of a node the least counts.
	ByFeature map[string]gres.Memory
	Mode      share.Mode // of all nodes; empty: by turns
	// ModeByFeature is that of nodes with a feature; of several features of a node turns count, which it can always
	// give.
	ModeByFeature map[string]share.Mode
}

// Served is the feature of a node that says that it has a broker: without one the jobs on a GPU would slice time,
// whatever was promised to them.
const Served = share.Announced

// memoryOn is how much memory each GPU of a node has; 0: nobody knows.
func (s Sharing) memoryOn(n *Node) gres.Memory {
	var least gres.Memory
	for _, feature := range n.Features {
		if m := s.ByFeature[feature]; m > 0 && (least == 0 || m < least) {
			least = m
		}
	}
	return cmp.Or(least, s.GPUMemory)
}

// modeOn is by which way a node has its GPUs shared; empty: by turns.
func (s Sharing) modeOn(n *Node) share.Mode {
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

// none says that nobody shares.
func (s Sharing) none() bool { return s.GPUMemory == 0 && len(s.ByFeature) == 0 }

// granted is what a node is told of a job that shares a GPU.
type granted struct {
	Class  share.Class `json:"class"`
	Memory gres.Memory `json:"gpu_memory_mib"`
	SLO    int64       `json:"slo_ms,omitempty"`
	Device string      `json:"device"`
}

// seating is the part of a runner that knows of GPUs that several jobs use.
type seating struct{ *Runner }

// shareRefused says why a job that would share a GPU is put on none that others use; empty where it may be, or did not
// say that it would.
func (r seating) shareRefused(t *managedJob) string {
	if t.said.word.Share == nil {
		return ""
	}
	own := &t.Request
	if t.record != nil {
		own = &t.record.Own
	}
	switch {
	case r.Settings.Sharing.none():
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
	case !t.seated() && !slices.ContainsFunc(r.reader.nodes, Node.served):
		return "no node says that it has a broker, without which the jobs on a GPU would slow each other down"
	}
	return ""
}

// served says that jobs can be put on GPUs of a node that others use.
func (n Node) served() bool { return len(n.Devices) > 0 && slices.Contains(n.Features, Served) }

// shares is what a job is granted of GPUs that others use; nil: nothing. One that has a seat already keeps what it was
// granted that with.
func (r seating) shares(t *managedJob) *share.Request {
	if t.said.word.Share == nil || r.shareRefused(t) != "" {
		return nil
	}
	request := *t.said.word.Share
	if seat := t.annotated().Share; t.seated() && seat != nil && seat.Device == t.Runs.Shard {
		request.Class, request.Memory = seat.Class, cmp.Or(seat.Memory, request.Memory)
	}
	return &request
}

// Unruly is a job that would not give its turn back on a GPU that it shared, by the word of its node.
type Unruly struct {
	Job int `json:"job"`
	share.Offence
}

func (u Unruly) String() string {
	return fmt.Sprintf("would not give GPU %d back to others again and again, at last at %s: it is put beside nobody "+
		"any more, until an administrator takes synergy-offence out of its AdminComment", u.GPU,
		u.At.Format(time.RFC3339))
}

// Accused says that a job's AdminComment has an offence, see share.Offence.
func Accused(admin string) bool {
	_, accused := share.ParseOffence(admin)
	return accused
}

// offence is what its node says of a job that may share a GPU; nil: nothing.
func (t *managedJob) offence() *Unruly {
	if t.said.word.Share == nil {
		return nil
	}
	if found, accused := share.ParseOffence(t.Admin); accused {
		return &Unruly{t.ID, found}
	}
	return nil
}

// seated says that a job runs on a GPU that others may share with it.
func (t *managedJob) seated() bool { return t.State == Running && t.Runs.Shard != "" }

// grantOf is what the node of a job is told that is given a seat; nil for one that is not, or of which nobody knows how
// much of the GPU's memory it needs: it has the GPU for itself.
func (r seating) grantOf(t *managedJob, g *policy.Placement) *granted {
	request := r.shares(t)
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
	return &granted{Class: request.Class, Memory: memory, SLO: request.SLO.Milliseconds(), Device: g.Device}
}

// oddShard says why a job is left alone that asks for a shard of a GPU, or has one, or names a single one; empty where
// that is a round's doing and it can go on.
func (r seating) oddShard(t *managedJob) string {
	if t.Request.Shard == "" && r.namesDevice(t.Request.GPUType) {
		return "asks for one GPU of a node by its own type"
	}
	if t.Request.Shard == "" {
		return ""
	}
	own := t.annotated().Own
	if t.record != nil {
		own = &t.record.Own
	}
	switch {
	case own == nil || own.Shard != "":
		return "asks for shard"
	case t.State == Running && !r.divided(t.Runs.Nodes):
		return "runs on a GPU that others may share, of which nobody knows any more how much memory it has"
	}
	return ""
}

// namesDevice says that a type is that of single GPUs, and of no node's GPUs together. To the planner GPUs of such
// nodes have no type.
func (r seating) namesDevice(gpuType string) bool {
	if gpuType == "" {
		return false
	}
	names := false
	for i := range r.reader.nodes {
		n := &r.reader.nodes[i]
		if n.GPUType == gpuType {
			return false
		}
		names = names || slices.ContainsFunc(n.Devices, func(d Device) bool { return d.Type == gpuType })
	}
	return names
}

// divided says that jobs can share the GPUs of all these nodes.
func (r seating) divided(nodes []string) bool {
	return !slices.ContainsFunc(nodes, func(name string) bool {
		i, found := slices.BinarySearchFunc(r.reader.nodes, name,
			func(n Node, name string) int { return strings.Compare(n.Name, name) })
		return !found || len(r.devices(&r.reader.nodes[i])) == 0
	})
}

// devices are the GPUs of a node that jobs can share; nil where nobody knows how much memory they have.
func (r seating) devices(n *Node) []policy.Device {
	memory := r.Settings.Sharing.memoryOn(n)
	if memory == 0 || len(n.Devices) == 0 {
		return nil
	}
	devices, mode := make([]policy.Device, len(n.Devices)), r.Settings.Sharing.modeOn(n)
	// who sits already where there is none stays
	served := n.served()
	for i, d := range n.Devices {
		devices[i] = policy.Device{Name: d.Type, Memory: memory, Mode: mode}
		if served {
			devices[i].Seats = min(d.Shards, share.MostJobs)
		}
	}
	return devices
}

// seat is one GPU of a node.
type seat struct{ node, device string }

// occupy notes in a snapshot who uses which GPU of the nodes where jobs can share them.
func (r seating) occupy(s *scene, nodes []policy.Node) {
	if !slices.ContainsFunc(nodes, func(n policy.Node) bool { return len(n.Devices) > 0 }) {
		return
	}
	for _, t := range r.reader.jobs {
		if t.State != Running && !t.Completing {
			continue
		}
		ours := t.State == Running && t.standing(s.at) == managed
		for _, name := range t.Runs.Nodes {
			i, found := slices.BinarySearchFunc(nodes, name,
				func(n policy.Node, name string) int { return strings.Compare(n.Name, name) })
			if found && len(nodes[i].Devices) > 0 {
				t.uses(nodes[i].Devices, ours)
			}
		}
	}
	for i := range nodes {
		if k, found := slices.BinarySearchFunc(s.nodes, nodes[i].Name,
			func(n Node, name string) int { return strings.Compare(n.Name, name) }); found {
			r.unaccounted(&nodes[i], s.nodes[k].Allocated.GPUs)
		}
	}
}

// uses notes which GPUs of a node a job uses.
func (t *managedJob) uses(devices []policy.Device, ours bool) {
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

// usedByOthers says that a job which no plan decides on uses a GPU, whole or in part.
func usedByOthers(devices []policy.Device, name string) bool {
	return slices.ContainsFunc(devices, func(d policy.Device) bool { return d.Name == name && d.Foreign })
}

// unaccounted closes the GPUs of a node to those who would share where it is not known of each that is in use who uses
// it.
func (r seating) unaccounted(n *policy.Node, allocated int) {
	used := map[string]bool{}
	for _, d := range n.Devices {
		if d.Foreign || d.Job != 0 {
			used[d.Name] = true
		}
	}
	for _, t := range r.reader.jobs {
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

// givenDevice is a GPU of which something is given away: by its type where that is told, or else by its index.
type givenDevice struct {
	gpuType string
	index   int
}

// devicesIn are the GPUs of which a job has something on any of its nodes, as Slurm prints them:
// gpu:g0:1(IDX:0),gpu:g1:0(IDX:) or shard:1(0/4,1/4). What is not understood is none.
func devicesIn(a Allocated) []givenDevice {
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
		given = append(given, parted(printed)...)
	}
	return given
}

// indexed are the GPUs of an index list: 0-1,3.
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

// mostGPUs is how many GPUs of a node are told apart.
const mostGPUs = 1024

// parted are the GPUs of which a part is given: shard:2(0/4,2/4) names the second.
func parted(printed string) []givenDevice {
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

// ownGPU says that a request is for one GPU by node, and says its type once more.
func (q *Request) ownGPU() bool {
	counts, err := gres.ParseCounts(q.GRES)
	if err != nil || len(counts) != 1 || counts[0].Name != "gpu" || counts[0].Count != 1 {
		return false
	}
	q.GPUType = counts[0].Type
	return true
}

// perNodeGRES is what a request asks for on each node in Slurm's words, where a round may have changed that.
func (q *Request) perNodeGRES() string {
	if q.Shard != "" {
		return gres.Count{Name: "shard", Type: q.Shard, Count: 1}.String()
	}
	return q.GRES
}

// seats are the nodes on which a job is still to begin on a GPU that it shares. Who wants a whole GPU there waits for
// that: Slurm gives him the first that nobody uses, which may be just that one.
func (list steps) seats() map[string]bool {
	nodes := map[string]bool{}
	for _, s := range list {
		if s.Verb == Start && s.Grant.Device != "" && s.open() {
			nodes[s.Grant.Nodes[0]] = true
		}
	}
	return nodes
}

// rivalsForSeats says that a start would take whole GPUs of a node on which seats are still to be taken.
func (s *step) rivalsForSeats(seats map[string]bool) bool {
	return s.Grant.Device == "" && slices.ContainsFunc(s.Grant.Nodes, func(n string) bool { return seats[n] })
}

// credible says that what an annotation tells of a seat can be reckoned with.
func (g *granted) credible() bool {
	known := g.Class == share.High || g.Class == share.Low
	return known && g.Memory >= 0 && g.Memory <= mostGPUMemory && g.SLO >= 0
}

// mostGPUMemory is more than any GPU has, MiB.
const mostGPUMemory = 1 << 20
