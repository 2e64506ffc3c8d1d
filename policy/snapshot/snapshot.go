// Package snapshot reads and writes a saved policy.Cluster as JSON, either by itself, as on the daemon's page
// /snapshot, or within the report of a round, as on the page /round and in the ledger. It includes the profiles of the
// jobs once each, so it can be planned anywhere; snapshots of earlier versions only name them. Input is not trusted:
// amounts are bounded, names must be printable, references are resolved, and an error names the field, its value, and
// what would be right. The package opens no files.
package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Limits of what a snapshot may contain. They are beyond any cluster, and keep sums of amounts far from overflowing.
const (
	mostNodes  = 1 << 17
	mostJobs   = 1 << 20
	mostGPUs   = 1 << 10 // of a node
	mostGang   = 1 << 16 // GPUs of a job
	mostCores  = 1 << 16 // of a node
	mostMemory = 1 << 32 // MiB
	mostText   = 1 << 10 // bytes
	mostHabits = 1 << 10
	mostStep   = 10 * time.Minute // length of a step of a job that shares a GPU
	mostTime   = 100 * 365 * 24 * time.Hour
)

// Read reads a snapshot. Its jobs get the profiles that it contains. If it contains none they get those that find
// returns for their profile names; find returns nil for an unknown name.
func Read(text []byte, find func(name string) *sensitivity.Profile) (File, error) {
	f, err := decode(text)
	if err != nil {
		return File{}, err
	}
	if err := check(&f); err != nil {
		return File{}, err
	}
	if isNull(f.Profiles) {
		findProfiles(f.Cluster.Jobs, find)
		return File{f.Cluster, nil, f.Policy, f.Allocator, f.Habits}, nil
	}
	var list []rawProfiled
	decoder := json.NewDecoder(bytes.NewReader(f.Profiles))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&list); err != nil {
		return File{}, fmt.Errorf("profiles: %w: want a list of profiles with their jobs", err)
	}
	if err := assignProfiles(list, &f.Cluster); err != nil {
		return File{}, err
	}
	return File{f.Cluster, ProfilesOf(&f.Cluster), f.Policy, f.Allocator, f.Habits}, nil
}

// findProfiles sets the profiles of jobs by their profile names, in a snapshot that has no profiles itself. Jobs that
// are Owed get none: their profile has proved wrong, and the name is only for reports.
func findProfiles(jobs []policy.Job, find func(name string) *sensitivity.Profile) {
	for i := range jobs {
		if j := &jobs[i]; j.ProfileName != "" && !j.Owed {
			j.Profile = find(j.ProfileName)
		}
	}
}

// rawFile is a File whose profiles are not validated yet.
type rawFile struct {
	policy.Cluster
	Profiles  json.RawMessage `json:"profiles"`
	Policy    string          `json:"policy"`
	Allocator string          `json:"allocator"`
	Habits    []float64       `json:"habits"`
}

// decode reads a snapshot, either by itself or within a report, where its profiles, policy and allocator stand beside
// it. Nothing is validated yet. JSON that is no object is refused at once, with an error that names its kind. Unknown
// fields of a report are ignored, since they may be of another version; unknown fields of a snapshot by itself are
// errors.
func decode(text []byte) (f rawFile, err error) {
	var report struct {
		Snapshot  json.RawMessage `json:"snapshot"`
		Profiles  json.RawMessage `json:"profiles"`
		Policy    string          `json:"policy"`
		Allocator string          `json:"allocator"`
		Habits    []float64       `json:"habits"`
	}
	if odd := new(json.UnmarshalTypeError); errors.As(json.Unmarshal(text, &report), &odd) && odd.Field == "" {
		return f, fmt.Errorf("is a JSON %s: want a snapshot or a round, which begins with {", odd.Value)
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return f, fmt.Errorf("not JSON of a snapshot or a round: %w", err)
	}
	if report.Snapshot != nil {
		f.Profiles, f.Policy, f.Allocator, f.Habits = report.Profiles, report.Policy, report.Allocator, report.Habits
		if err := json.Unmarshal(report.Snapshot, &f.Cluster); err != nil {
			return f, fmt.Errorf("snapshot: %w", err)
		}
		return f, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return f, fmt.Errorf("%w: want a snapshot with now, nodes, jobs and rules, or a round's report that has one",
			err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return f, errors.New("more than one value: want one snapshot")
	}
	return f, nil
}

// checker validates values and keeps the first error, so that its methods need not be asked for one each time.
type checker struct{ err error }

// refuse records that a field has a value that is not what is wanted, if it is the first error. field is its JSON name.
func (k *checker) refuse(field string, value any, want string) {
	if k.err == nil {
		k.err = fmt.Errorf("%s = %s: want %s", field, shownValue(value), want)
	}
}

// shownValue formats a value for an error, on one line, cut short and without terminal control characters.
func shownValue(value any) string {
	const most = 100
	if s, is := value.(string); is {
		return printable.Cut(strconv.QuoteToASCII(s), most)
	}
	return printable.Line(fmt.Sprintf("%+v", value), most)
}

// check validates everything but the profiles and returns the first error. After it amounts can be summed, texts shown,
// and references followed.
func check(f *rawFile) error {
	k, c := &checker{}, &f.Cluster
	k.text("policy", f.Policy)
	k.text("allocator", f.Allocator)
	k.habits(f.Habits)
	k.rules(c.Rules)
	k.count("nodes", len(c.Nodes), 1, mostNodes)
	k.count("jobs", len(c.Jobs), 0, mostJobs)
	if k.err != nil {
		return k.err
	}
	names := make(map[string]bool, len(c.Nodes))
	for i := range c.Nodes {
		n, field := &c.Nodes[i], fmt.Sprintf("nodes[%d]", i)
		if names[n.Name] {
			k.refuse(field+".name", n.Name, "a name that no other node has")
		}
		names[n.Name] = true
		k.node(field, n)
	}
	for i, q := range c.Quotas {
		k.quota(fmt.Sprintf("quotas[%d]", i), q)
	}
	for i := range c.Unmanaged {
		k.unmanaged(fmt.Sprintf("unmanaged[%d]", i), &c.Unmanaged[i])
	}
	if c.UnmanagedGPUs < 0 {
		k.refuse("unmanaged_gpus", c.UnmanagedGPUs, "a number of GPUs, 0 or more")
	}
	ids := make(map[int]bool, len(c.Jobs))
	for i := range c.Jobs {
		j, field := &c.Jobs[i], fmt.Sprintf("jobs[%d]", i)
		if j.ID < 1 || ids[j.ID] {
			k.refuse(field+".id", j.ID, "a number above 0 that no other job has")
		}
		ids[j.ID] = true
		k.job(field, j, len(c.Quotas))
		if k.err != nil {
			return k.err
		}
	}
	return k.err
}

// habits validates the parts of their time limits that jobs used.
func (k *checker) habits(parts []float64) {
	k.count("habits", len(parts), 0, mostHabits)
	for i, part := range parts {
		if !(part >= 0 && part <= 1) || i > 0 && part < parts[i-1] {
			k.refuse(fmt.Sprintf("habits[%d]", i), part, "numbers from 0 to 1, ascending")
		}
	}
}

// count refuses a number outside low to high, both included. The other methods of this kind do the same for one type;
// field is its JSON name in the snapshot, for the error.
func (k *checker) count(field string, n, low, high int) {
	if n < low || n > high {
		k.refuse(field, n, fmt.Sprintf("a whole number from %d to %d", low, high))
	}
}

// amounts validates GPUs, cores and memory of a node or a job.
func (k *checker) amounts(field string, v gres.Vector) {
	k.count(field+".gpus", v.GPUs, 0, mostGPUs)
	k.count(field+".cpus", v.CPUs, 0, mostCores)
	k.count(field+".memory_mib", int(v.Memory), 0, mostMemory)
}

// span refuses a duration that is negative or beyond mostTime.
func (k *checker) span(field string, d time.Duration) {
	if d < 0 || d > mostTime {
		k.refuse(field, d, fmt.Sprintf("nanoseconds from 0 to %d", mostTime))
	}
}

// text refuses a text that is too long or cannot be shown.
func (k *checker) text(field, text string) {
	if len(text) > mostText || !printable.Is(text) {
		k.refuse(field, text, fmt.Sprintf("at most %d printable characters", mostText))
	}
}

// texts validates each text of a list.
func (k *checker) texts(field string, list []string) {
	for i, text := range list {
		k.text(fmt.Sprintf("%s[%d]", field, i), text)
	}
}

// rules validates the administrator's rules.
func (k *checker) rules(r policy.Rules) {
	k.span("rules.min_run_ns", r.MinRun)
	k.span("rules.horizon_ns", r.Horizon)
	k.span("rules.payback_ns", r.Payback)
	k.span("rules.patience_ns", r.Patience)
	k.span("rules.round_ns", r.Round)
	k.count("rules.max_preemptions", r.MaxPreemptions, 0, mostJobs)
	k.count("rules.max_restarts", r.MaxRestarts, 0, mostJobs)
	if r.Stranded < 0 || r.Stranded > 1 {
		k.refuse("rules.stranded", r.Stranded, "a number from 0 to 1")
	}
}

// node validates a node; that its name is unique is checked before.
func (k *checker) node(field string, n *policy.Node) {
	if n.Name == "" {
		k.refuse(field+".name", n.Name, "a name")
	}
	k.text(field+".name", n.Name)
	k.text(field+".gpu_type", n.GPUType)
	k.text(field+".closed", n.Closed)
	k.texts(field+".features", n.Features)
	k.amounts(field+".total", n.Total)
	k.amounts(field+".foreign", n.Foreign)
	for i, e := range n.ForeignEnds {
		k.amounts(fmt.Sprintf("%s.foreign_ends[%d].size", field, i), e.Size)
	}
	k.devices(field+".devices", n.Devices)
	for i, r := range n.Reserved {
		at := fmt.Sprintf("%s.reserved[%d]", field, i)
		k.text(at+".name", r.Name)
		if i > 0 && r.From.Before(n.Reserved[i-1].From) {
			k.refuse(at+".from", r.From.Format(time.RFC3339), "a time not before that of the one in front of it")
		}
	}
}

// devices validates the GPUs of a node that jobs can share.
func (k *checker) devices(field string, devices []policy.Device) {
	k.count(field, len(devices), 0, mostGPUs)
	names := make(map[string]bool, len(devices))
	for i, d := range devices {
		at := fmt.Sprintf("%s[%d]", field, i)
		if d.Name == "" || names[d.Name] {
			k.refuse(at+".name", d.Name, "a name that no other device of the node has")
		}
		names[d.Name] = true
		k.text(at+".name", d.Name)
		k.count(at+".memory_mib", int(d.Memory), 0, mostMemory)
		k.count(at+".seats", d.Slots, 0, share.MostJobs)
		if _, err := share.ParseMode(string(d.Mode)); err != nil && d.Mode != "" {
			k.refuse(at+".mode", string(d.Mode),
				fmt.Sprintf("%s or %s, or none for %s", share.Turns, share.Fill, share.Turns))
		}
		if d.Job < 0 {
			k.refuse(at+".job", d.Job, "the number of a job, or 0 for none")
		}
		if k.err != nil {
			return
		}
	}
}

// shared validates a request to share a GPU, which only a job with one GPU may have; gpus is the job's number.
func (k *checker) shared(field string, r *share.Request, gpus int) {
	if r.Class != share.High && r.Class != share.Low {
		k.refuse(field+".class", string(r.Class), "high or low")
	}
	k.count(field+".gpu_memory_mib", int(r.Memory), 0, mostMemory)
	if r.SLO < 0 || r.SLO > mostStep {
		k.refuse(field+".slo_ns", r.SLO, fmt.Sprintf("nanoseconds from 0 to %d", mostStep))
	}
	if gpus != 1 {
		k.refuse(field, r.Class, fmt.Sprintf("none, since the job needs %d GPUs", gpus))
	}
}

// unmanaged validates a waiting unmanaged job.
func (k *checker) unmanaged(field string, u *policy.Unmanaged) {
	k.count(field+".nodes", u.Nodes, 1, mostNodes)
	k.amounts(field+".per_node", u.PerNode)
	k.texts(field+".on", u.On)
}

// quota validates a quota.
func (k *checker) quota(field string, q policy.Quota) {
	k.text(field+".name", q.Name)
	if min(q.Jobs, q.Nodes, q.GPUs, q.CPUs, int(q.Memory)) < policy.Unbounded {
		k.refuse(field, q, "amounts of 0 or more, or -1 for no bound")
	}
}

// job validates a job; quotas is how many quotas the snapshot has. A job name that cannot be shown is not refused but
// made printable, since any user can choose one.
func (k *checker) job(field string, j *policy.Job, quotas int) {
	k.count(field+".gpus", j.GPUs, 1, mostGang)
	k.count(field+".nodes", j.Nodes, 0, mostNodes)
	k.count(field+".tasks_per_node", j.Tasks, 0, mostCores)
	j.Name = printable.Line(j.Name, mostText) // its user chose it: no reason to refuse the round
	k.text(field+".user", j.User)
	k.text(field+".gpu_type", j.GPUType)
	k.text(field+".reservation", j.Reservation)
	k.text(field+".profile", j.ProfileName)
	k.text(field+".barred", j.Barred)
	k.texts(field+".features", j.Features)
	k.texts(field+".only", j.Only)
	k.texts(field+".except", j.Except)
	k.amounts(field+".floor", j.Floor)
	k.amounts(field+".pace", j.Pace)
	k.amounts(field+".ceiling", j.Ceiling)
	k.span(field+".time_limit_ns", j.TimeLimit)
	k.span(field+".done_ns", j.Done)
	k.span(field+".length_ns", j.Length)
	k.span(field+".restart_ns", j.Restart)
	k.count(field+".restarts", j.Restarts, 0, mostJobs)
	if j.Attained < 0 || j.Attained > 1e15 {
		k.refuse(field+".attained_gpu_s", j.Attained, "GPU-seconds from 0 to 1e15")
	}
	for i, q := range j.Quotas {
		if q < 0 || q >= quotas || i > 0 && q <= j.Quotas[i-1] {
			want := fmt.Sprintf("numbers of the snapshot's %d quotas, ascending from 0", quotas)
			k.refuse(fmt.Sprintf("%s.quotas[%d]", field, i), q, want)
		}
	}
	if j.Share != nil {
		k.shared(field+".share", j.Share, j.GPUs)
	}
	if j.Kept != nil && (j.Kept.Part < 0 || j.Kept.Part > 1) {
		k.refuse(field+".kept.part", j.Kept.Part, "a part of the speed alone, 0 to 1")
	}
	if j.Running != nil {
		k.running(field+".running", j.Running)
	}
}

// running validates what a running job holds.
func (k *checker) running(field string, g *policy.Placement) {
	k.amounts(field+".per_node", g.PerNode)
	k.text(field+".device", g.Device)
	if len(g.Nodes) == 0 {
		k.refuse(field+".nodes", g.Nodes, "at least one")
	}
	for i, name := range g.Nodes {
		k.text(fmt.Sprintf("%s.nodes[%d]", field, i), name)
		if i > 0 && name <= g.Nodes[i-1] {
			k.refuse(fmt.Sprintf("%s.nodes[%d]", field, i), name, "names in ascending order, each once")
		}
	}
}
