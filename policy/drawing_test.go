package policy

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

var redraw = flag.Bool("redraw", false, "rewrite what the drawings expect from what the planner does")

// epoch is the start of every drawn round.
var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// drawing is one text file: a snapshot above the line, the plan below it. Amounts of memory are in GB, times in
// seconds; a job without arrival arrived in the order of its ID, a second before the next.
//
//	plan fifo tune
//	rules min-run=60 preemptions=1 horizon=3600 payback=900 patience=600
//	node n2 gpu=8 cpu=24 mem=500 reserved=maint:4200:86400,course:-60:
//	quota GrpTRES_of_account_ml jobs=4 nodes=4 gpu=8 cpu=24 mem=500
//	node n1 gpu=8 cpu=24 mem=500 type=a100 closed=drained foreign=gpu:1,cpu:3,mem:62.5 ends=3600:1:3:62.5 features=ib
//	job 1 gpu=1 user=ann profile=res18 runs=n1:9:62.5 since=600 saves restart=30 attained=600 length=7200 done=300 arrival=-900
//	job 2 gpu=1 floor=4:100 pace=9:0 ceiling=12:200 priority=3 quotas=0 limit=3600 reservation=maint
//	node n3 gpu=4 cpu=24 mem=500 devices=g0:80:4,g1:80:4:foreign,g2:80:4:7,g3:80:4:fill
//	job 3 gpu=1 share=high:20 profile=res18 busy=0.4 runs=n3:2:62.5:g0 kept=0.8:4,5
type drawing struct {
	cluster   Cluster
	policy    Policy
	allocator Allocator
}

func TestTheDrawingsShowWhatThePlannerDoes(t *testing.T) {
	files, err := filepath.Glob("testdata/drawings/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("drawings: %v, %d files", err, len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { checkDrawing(t, file) })
	}
}

func TestEveryReasonIsDrawn(t *testing.T) {
	files, err := filepath.Glob("testdata/drawings/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[Reason]bool{}
	for _, file := range files {
		above, _ := readDrawing(t, file)
		d := parseDrawing(t, above)
		for _, decision := range Decide(d.cluster, d.policy, d.allocator).Decisions {
			drawn[decision.Reason] = true
		}
	}
	for _, r := range []Reason{Barred, Shape, Closed, Turn, Gang, Cores, RAM, HeldBack, InReservation, InQuota, Limit,
		Clearing, GivesWay, Shrinks, Grows, Moves, Starts, Shares, Parts, NoSlot, GPUMemory, Slowdown} {
		if !drawn[r] {
			t.Errorf("no drawing shows %s", r)
		}
	}
}

func readDrawing(t *testing.T, file string) (above, below string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	above, below, found := strings.Cut(string(text), "----\n")
	if !found {
		t.Fatal("no line of dashes between snapshot and plan")
	}
	return above, below
}

func checkDrawing(t *testing.T, file string) {
	above, want := readDrawing(t, file)
	d := parseDrawing(t, above)
	plan := Decide(d.cluster, d.policy, d.allocator)
	if err := Check(d.cluster, plan); err != nil {
		t.Errorf("check: %v", err)
	}
	got := drawPlan(d.cluster, plan)
	if *redraw {
		if err := os.WriteFile(file, []byte(above+"----\n"+got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func drawPlan(c Cluster, p Plan) string {
	var out strings.Builder
	for _, d := range p.Decisions {
		fmt.Fprintln(&out, drawDecision(c, d))
	}
	return out.String()
}

func drawDecision(c Cluster, d Decision) string {
	var was *Placement
	for i := range c.Jobs {
		if c.Jobs[i].ID == d.Job {
			was = c.Jobs[i].Running
		}
	}
	switch {
	case d.Grant == nil && was != nil:
		return fmt.Sprintf("job %d stops: %s", d.Job, d.Why)
	case d.Grant == nil:
		return fmt.Sprintf("job %d waits: %s", d.Job, d.Why)
	case was != nil && d.Grant.Equal(*was):
		return fmt.Sprintf("job %d stays %s", d.Job, drawGrant(d))
	case was != nil:
		return fmt.Sprintf("job %d moves -> %s: %s", d.Job, drawGrant(d), d.Why)
	}
	if d.Why != "" {
		return fmt.Sprintf("job %d -> %s: %s", d.Job, drawGrant(d), d.Why)
	}
	return fmt.Sprintf("job %d -> %s", d.Job, drawGrant(d))
}

func drawGrant(d Decision) string {
	g := d.Grant
	nodes := strings.Join(g.Nodes, "+")
	if g.Device != "" {
		nodes += "/" + g.Device
	}
	return fmt.Sprintf("%s gpu=%d cpu=%d mem=%g speed=%.4g", nodes, g.PerNode.GPUs, g.PerNode.CPUs,
		float64(g.PerNode.Memory)/float64(gres.Gigabyte), d.Gain)
}

func parseDrawing(t *testing.T, text string) drawing {
	t.Helper()
	d := drawing{cluster: Cluster{Now: epoch}, policy: FIFO(), allocator: Tune()}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		switch words[0] {
		case "plan":
			d.policy, d.allocator = parsePlanners(t, words[1:])
		case "rules":
			d.cluster.Rules = parseRules(t, words[1:])
		case "node":
			d.cluster.Nodes = append(d.cluster.Nodes, parseNode(t, words[1:]))
		case "quota":
			d.cluster.Quotas = append(d.cluster.Quotas, parseQuota(t, words[1:]))
		case "job":
			d.cluster.Jobs = append(d.cluster.Jobs, parseJob(t, words[1:]))
		default:
			t.Fatalf("drawing: %q: want plan, rules, quota, node or job", lines.Text())
		}
	}
	shareProfiles(d.cluster.Jobs)
	return d
}

// shareProfiles has jobs of one profile have it in common, as in the daemon: then they are of one kind.
func shareProfiles(jobs []Job) {
	for i := range jobs {
		same := func(j Job) bool { return j.Profile != nil && reflect.DeepEqual(j.Profile, jobs[i].Profile) }
		if at := slices.IndexFunc(jobs[:i], same); at >= 0 {
			jobs[i].Profile = jobs[at].Profile
		}
	}
}

func parsePlanners(t *testing.T, words []string) (Policy, Allocator) {
	t.Helper()
	p, err := ParsePolicy(words[0])
	if err != nil {
		t.Fatal(err)
	}
	a, err := ParseAllocator(words[1])
	if err != nil {
		t.Fatal(err)
	}
	return p, a
}

func parseRules(t *testing.T, words []string) Rules {
	t.Helper()
	var r Rules
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "min-run":
			r.MinRun = seconds(t, value)
		case "preemptions":
			r.MaxPreemptions = int(number(t, value))
		case "restarts":
			r.MaxRestarts = int(number(t, value))
		case "horizon":
			r.Horizon = seconds(t, value)
		case "payback":
			r.Payback = seconds(t, value)
		case "patience":
			r.Patience = seconds(t, value)
		case "round":
			r.Round = seconds(t, value)
		case "stranded":
			r.Stranded = number(t, value)
		default:
			t.Fatalf("rules: %q", word)
		}
	}
	return r
}

func parseNode(t *testing.T, words []string) Node {
	t.Helper()
	n := Node{Name: words[0]}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "gpu", "cpu", "mem":
			setAmount(t, &n.Total, key, value)
		case "foreign":
			for _, part := range strings.Split(value, ",") {
				name, amount, _ := strings.Cut(part, ":")
				setAmount(t, &n.Foreign, name, amount)
			}
		case "type":
			n.GPUType = value
		case "closed":
			n.Closed = value
		case "ends":
			for _, part := range strings.Split(value, ",") {
				n.ForeignEnds = append(n.ForeignEnds, parseEnding(t, part))
			}
		case "reserved":
			for _, part := range strings.Split(value, ",") {
				n.Reserved = append(n.Reserved, parseReservation(t, part))
			}
		case "features":
			n.Features = strings.Split(value, ",")
		case "devices":
			for _, part := range strings.Split(value, ",") {
				n.Devices = append(n.Devices, parseDevice(t, part))
			}
		default:
			t.Fatalf("node: %q", word)
		}
	}
	return n
}

// parseEnding reads what jobs of others give back by themselves: in how many seconds, GPUs, cores, GB.
func parseEnding(t *testing.T, text string) Ending {
	t.Helper()
	parts := strings.Split(text, ":")
	if len(parts) != 4 {
		t.Fatalf("ends=%q: want seconds:gpus:cores:GB", text)
	}
	e := Ending{At: epoch.Add(time.Duration(number(t, parts[0])) * time.Second)}
	for k, name := range []string{"gpu", "cpu", "mem"} {
		setAmount(t, &e.Size, name, parts[k+1])
	}
	return e
}

// parseQuota leaves unbounded what is not named.
func parseQuota(t *testing.T, words []string) Quota {
	t.Helper()
	q := Quota{strings.ReplaceAll(words[0], "_", " "), Unbounded, Unbounded, Unbounded, Unbounded, Unbounded}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		var v gres.Vector
		switch key {
		case "jobs":
			q.Jobs = int(number(t, value))
		case "nodes":
			q.Nodes = int(number(t, value))
		case "gpu":
			q.GPUs = int(number(t, value))
		case "cpu":
			q.CPUs = int(number(t, value))
		default:
			setAmount(t, &v, key, value)
			q.Memory = v.Memory
		}
	}
	return q
}

func setAmount(t *testing.T, v *gres.Vector, key, value string) {
	t.Helper()
	switch n := number(t, value); key {
	case "gpu":
		v.GPUs = int(n)
	case "cpu":
		v.CPUs = int(n)
	case "mem":
		v.Memory = gres.Memory(n * float64(gres.Gigabyte))
	default:
		t.Fatalf("amount: %q", key)
	}
}

func parseJob(t *testing.T, words []string) Job {
	t.Helper()
	j := Job{ID: int(number(t, words[0])), Restart: 30 * time.Second}
	j.Arrival = epoch.Add(time.Duration(j.ID-100) * time.Second)
	j.Started = epoch.Add(-10 * time.Minute)
	runs := ""
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "runs":
			runs = value
		case "profile":
			j.Profile, j.ProfileName = paperModel(t, value), value
		case "busy":
			busy := *j.Profile
			busy.GPUBusy = number(t, value)
			j.Profile = &busy
		default:
			setJob(t, &j, key, value)
		}
	}
	if runs != "" {
		j.Running = parsePlacement(t, j.GPUs, runs)
	}
	return j
}

func setJob(t *testing.T, j *Job, key, value string) {
	t.Helper()
	switch key {
	case "gpu":
		j.GPUs = int(number(t, value))
	case "nodes":
		j.Nodes = int(number(t, value))
	case "tasks":
		j.Tasks = int(number(t, value))
	case "user":
		j.User = value
	case "type":
		j.GPUType = value
	case "features":
		j.Features = strings.Split(value, ",")
	case "only":
		j.Only = strings.Split(value, ",")
	case "except":
		j.Except = strings.Split(value, ",")
	case "barred":
		j.Barred = strings.ReplaceAll(value, "_", " ")
	case "saves":
		j.Saves = true
	case "fixed":
		j.Fixed = true
	case "unruly":
		j.Unruly = true
	case "owed":
		j.Owed = true
	case "restarts":
		j.Restarts = int(number(t, value))
	case "since":
		j.Started = epoch.Add(-seconds(t, value))
	case "arrival":
		j.Arrival = epoch.Add(seconds(t, value))
	case "restart":
		j.Restart = seconds(t, value)
	case "attained":
		j.Attained = number(t, value)
	case "length":
		j.Length = seconds(t, value)
	case "done":
		j.Done = seconds(t, value)
	case "quotas":
		for _, word := range strings.Split(value, ",") {
			j.Quotas = append(j.Quotas, int(number(t, word)))
		}
	case "limit":
		j.TimeLimit = seconds(t, value)
	case "reservation":
		j.Reservation = value
	case "floor":
		j.Floor = amounts(t, value)
	case "pace":
		j.Pace = amounts(t, value)
	case "ceiling":
		j.Ceiling = amounts(t, value)
	case "percore":
		j.PerCore = value == "1"
	case "priority":
		j.Priority = int64(number(t, value))
	case "share":
		j.Share = parseShare(t, value)
	case "kept":
		j.Kept = parseKept(t, value)
	default:
		t.Fatalf("job: %q", key)
	}
}

// parseDevice reads g0:80:4, the GB of its memory and its seats; who else has it may follow, and that it is filled.
func parseDevice(t *testing.T, text string) Device {
	t.Helper()
	parts := strings.Split(text, ":")
	if len(parts) < 3 {
		t.Fatalf("devices: %q: want name:GB:seats", text)
	}
	d := Device{Name: parts[0], Slots: int(number(t, parts[2]))}
	d.Memory = gres.Memory(number(t, parts[1]) * float64(gres.Gigabyte))
	for _, word := range parts[3:] {
		switch word {
		case "foreign":
			d.Foreign = true
		case string(share.Fill):
			d.Mode = share.Fill
		default:
			d.Job = int(number(t, word))
		}
	}
	return d
}

// parseShare reads low:20, the class and the GB that it needs of the GPU's memory; those may be missing.
func parseShare(t *testing.T, text string) *share.Request {
	t.Helper()
	class, memory, known := strings.Cut(text, ":")
	r := share.Request{Class: share.Class(class)}
	if known {
		r.Memory = gres.Memory(number(t, memory) * float64(gres.Gigabyte))
	}
	return &r
}

// parseKept reads 0.8:4,5, the part of its speed alone that a job kept and beside whom.
func parseKept(t *testing.T, text string) *Kept {
	t.Helper()
	part, beside, _ := strings.Cut(text, ":")
	k := &Kept{Part: number(t, part)}
	for id := range strings.SplitSeq(beside, ",") {
		k.Beside = append(k.Beside, int(number(t, id)))
	}
	return k
}

// parsePlacement reads n1+n2:9:62.5, the cores and GB on each node; the device may follow.
func parsePlacement(t *testing.T, gpus int, text string) *Placement {
	t.Helper()
	parts := strings.Split(text, ":")
	if len(parts) != 3 && len(parts) != 4 {
		t.Fatalf("runs: %q: want nodes:cores:GB", text)
	}
	p := Placement{Nodes: strings.Split(parts[0], "+"), Device: strings.Join(parts[3:], "")}
	p.PerNode.GPUs = gpus / len(p.Nodes)
	setAmount(t, &p.PerNode, "cpu", parts[1])
	setAmount(t, &p.PerNode, "mem", parts[2])
	return &p
}

// parseReservation reads maint:4200:86400, when it begins and ends in seconds from now; no end is for good.
func parseReservation(t *testing.T, text string) Reservation {
	t.Helper()
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		t.Fatalf("reserved: %q: want name:from:to", text)
	}
	r := Reservation{Name: parts[0], From: epoch.Add(seconds(t, parts[1]))}
	if parts[2] != "" {
		r.To = epoch.Add(seconds(t, parts[2]))
	}
	return r
}

// amounts reads 9:62.5, cores and GB on each node.
func amounts(t *testing.T, text string) gres.Vector {
	t.Helper()
	cores, memory, both := strings.Cut(text, ":")
	if !both {
		t.Fatalf("amounts: %q: want cores:GB", text)
	}
	var v gres.Vector
	setAmount(t, &v, "cpu", cores)
	setAmount(t, &v, "mem", memory)
	return v
}

func seconds(t *testing.T, text string) time.Duration {
	t.Helper()
	return time.Duration(number(t, text) * float64(time.Second))
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("drawing: %v", err)
	}
	return n
}

func paperModel(t testing.TB, name string) *sensitivity.Profile {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "etc", "profiles", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := sensitivity.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
