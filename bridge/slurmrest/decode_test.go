package slurmrest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/v0042"
)

// draw writes a job on two lines, the way testdata/jobs.txt has it.
func draw(job listed) string {
	line := fmt.Sprintf("%d %s %s", job.ID, job.Name, job.State)
	for _, flag := range []struct {
		name string
		on   bool
	}{{"completing", job.Completing}, {"held", job.Held}, {"dependency", job.Dependency}, {"no-requeue", !job.Job.Requeue}} {
		if flag.on {
			line += " " + flag.name
		}
	}
	if !job.Begin.IsZero() {
		line += fmt.Sprintf(" begin=+%d", job.Begin.Unix()-job.Submitted.Unix())
	}
	for _, text := range []struct{ name, value string }{
		{"reason", job.Reason}, {"shape", job.Shape}, {"odd", job.Odd}, {"except", strings.Join(job.Except, ",")},
		{"runs", strings.Join(job.Runs.Nodes, ",")}, {"devices", strings.Join(job.Runs.Devices, " ")},
	} {
		if text.value != "" {
			line += fmt.Sprintf(" %s=%q", text.name, text.value)
		}
	}
	if len(job.Runs.Nodes) > 0 {
		line += " each: " + job.Runs.PerNode.String()
	}
	request, err := json.Marshal(job.Request)
	if err != nil {
		panic(err)
	}
	return line + "\n\t" + string(request) + "\n"
}

func TestEveryRecordedShapeOfJobIsReadAsItWasSubmitted(t *testing.T) {
	jobs, err := dialect42{}.jobs(recorded(t, "jobs.json"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(jobs, func(a, b listed) int { return cmp.Compare(a.ID, b.ID) })
	var drawn strings.Builder
	for _, job := range jobs {
		drawn.WriteString(draw(job))
	}
	if want := string(recorded(t, "jobs.txt")); drawn.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", drawn.String(), want)
	}
}

func TestNodesAreReadWithWhatJobsStillHoldOnThem(t *testing.T) {
	client := startFake(t).open(t, Options{})
	seen, err := client.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var drawn []string
	for _, node := range seen.Nodes {
		line := fmt.Sprintf("%s has %s, gives %s", node.Name, node.Total, node.Allocated)
		if node.Completing {
			line += ", completing"
		}
		if node.Closed != "" {
			line += ", closed: " + node.Closed
		}
		drawn = append(drawn, line)
	}
	equal(t, "nodes", drawn, []string{
		"n1 has gpu=8 cpu=24 mem=500G, gives gpu=3 cpu=7 mem=24G",
		"n2 has gpu=8 cpu=24 mem=500G, gives gpu=2 cpu=4 mem=2G, completing", // two jobs in teardown, which Slurm counts as nothing
		"n3 has gpu=8 cpu=24 mem=500G, gives gpu=2 cpu=4 mem=5G",
		"n4 has gpu=8 cpu=24 mem=500G, gives gpu=2 cpu=4 mem=2G, closed: DRAIN", // a GPU in shards, and a suspended job's CPUs
	})
	if got := seen.Nodes[0].Partitions; !slices.Equal(got, []string{"synergy", "plain"}) {
		t.Errorf("partitions of n1: %q", got)
	}
}

func TestANodeIsClosedByEveryWordThatIsNotKnownToBeHarmless(t *testing.T) {
	for _, c := range []struct {
		state string
		want  string
	}{
		{"IDLE", ""},
		{"MIXED COMPLETING", ""},
		{"ALLOCATED PLANNED", ""},
		{"IDLE DRAIN", "DRAIN"},
		{"IDLE CLOUD POWERED_DOWN", "POWERED_DOWN"},
		{"DOWN NOT_RESPONDING", "DOWN+NOT_RESPONDING"},
		{"IDLE MAINTENANCE RESERVED", "MAINTENANCE+RESERVED"},
		{"MIXED SOMETHING_NEW", "SOMETHING_NEW"},
		{"COMPLETING", "UNKNOWN"},
		{"", "UNKNOWN"},
	} {
		if got := closed(strings.Fields(c.state)); got != c.want {
			t.Errorf("%q: closed by %q, want %q", c.state, got, c.want)
		}
	}
}

func TestANodesGPUsAreThoseThatNobodyElseHolds(t *testing.T) {
	for _, c := range []struct {
		gres, used string
		gpus, held int
		gpuType    string
		closed     string
	}{
		{"gpu:8,shard:32", "gpu:(null):3(IDX:0-2),shard:(null):0(0/4,0/4)", 8, 3, "", ""},
		{"gpu:8,shard:32", "gpu:(null):1(IDX:1),shard:(null):5(4/4,0/4,1/4)", 8, 3, "", ""},
		{"gpu:8,shard:32", "gpu:(null):0(IDX:N/A),shard:(null):2(1/4,0/4,1/4)", 8, 2, "", ""}, // not packed into one
		{"gpu:a100:4(S:0-1)", "gpu:a100:2(IDX:0-1)", 4, 2, "a100", ""},
		{"gpu:g0:1,gpu:g1:1,shard:g0:4,shard:g1:4", "gpu:g0:0(IDX:N/A),gpu:g1:1(IDX:1),shard:g0:2(2/4),shard:g1:0(0/4)", 2, 2, "", ""},
		{"gpu:2,shard:8", "gpu:(null):0(IDX:N/A),shard:5(IDX:0-1)", 2, 2, "", ""}, // 22.05 does not tell the device
		{"", "", 0, 0, "", ""},
		{"gpu:2,shard:8", "gpu:2,shard:8(4/4,4/4)", 2, 2, "", ""}, // never more than there are
		{"gpu:many", "gpu:0(", 0, 0, "", "GRES_NOT_UNDERSTOOD"},
	} {
		read := readNode(&v0042.Node{Name: "n1", State: []string{"MIXED"}, Gres: c.gres, GresUsed: c.used})
		if read.Total.GPUs != c.gpus || read.Allocated.GPUs != c.held || read.GPUType != c.gpuType || read.Closed != c.closed {
			t.Errorf("%s used %s: read %+v", c.gres, c.used, read)
		}
	}
}

func TestMemoryThatTheSystemKeepsIsNobodys(t *testing.T) {
	read := readNode(&v0042.Node{State: []string{"IDLE"}, RealMemory: 500000, SpecializedMemory: 8000, EffectiveCpus: 22})
	if read.Total.Memory != 492000 || read.Total.CPUs != 22 {
		t.Errorf("total %v: want 22 CPUs and 492000 MiB", read.Total)
	}
}

func TestStatesAreToldByMembershipNotEquality(t *testing.T) {
	for _, c := range []struct {
		words string
		want  bridge.State
		over  bool
	}{
		{"PENDING", bridge.Pending, false},
		{"PENDING COMPLETING", bridge.Pending, false},
		{"PENDING SPECIAL_EXIT", bridge.Pending, false},
		{"RUNNING", bridge.Running, false},
		{"RUNNING CONFIGURING", bridge.Running, false},
		{"CONFIGURING", bridge.Running, false},
		{"SUSPENDED", bridge.Running, false},
		{"CANCELLED COMPLETING", bridge.Finished, false},
		{"COMPLETED", bridge.Finished, true},
		{"OUT_OF_MEMORY", bridge.Finished, true},
		{"A_WORD_OF_NEXT_YEAR", bridge.Finished, true},
	} {
		words := strings.Fields(c.words)
		if state(words) != c.want || over(words) != c.over {
			t.Errorf("%s: %s, over %v: want %s, %v", c.words, state(words), over(words), c.want, c.over)
		}
	}
}

// A job that Slurm parks because no node can hold its size has priority 0 like a held one. Were it called held, the round would
// leave it alone, and nobody would ever free it.
func TestAJobThatSlurmParkedIsNotHeld(t *testing.T) {
	zero := v0042.OptionalNumber{Set: true}
	for _, c := range []struct {
		reason   string
		priority v0042.OptionalNumber
		want     bool
	}{
		{"JobHeldUser", zero, true},
		{"JobHeldAdmin", zero, true},
		{"job_requeued_in_held_state", zero, true},
		{"None", zero, true},
		{"BadConstraints", zero, false},
		{"BeginTime", v0042.OptionalNumber{Set: true, Number: 4294901757}, false},
		{"BeginTime", v0042.OptionalNumber{}, false},
	} {
		job := readJob(&v0042.JobInfo{JobState: []string{"PENDING"}, StateReason: c.reason, Priority: c.priority})
		if job.Held != c.want {
			t.Errorf("%s at priority %+v: held %v, want %v", c.reason, c.priority, job.Held, c.want)
		}
	}
}

func TestARequestThatARoundCannotHonourIsOdd(t *testing.T) {
	ordinary := v0042.JobInfo{JobState: []string{"PENDING"}, BatchFlag: true, ThreadSpec: ordinarySpec, Features: "a&b"}
	if job := readJob(&ordinary); job.Odd != "" || job.Shape != "" || !slices.Equal(job.Features, []string{"a", "b"}) {
		t.Fatalf("an ordinary job is odd: %+v", job)
	}
	for _, c := range []struct {
		odd  string
		make func(*v0042.JobInfo)
	}{
		{`asks for features "a|b"`, func(j *v0042.JobInfo) { j.Features = "a|b" }},
		{"asks for memory per GPU", func(j *v0042.JobInfo) { j.MemoryPerTres = "gres/gpu:4000" }},
		{"asks for GPUs per socket", func(j *v0042.JobInfo) { j.TresPerSocket = "gres/gpu:1" }},
		{"asks for shard", func(j *v0042.JobInfo) { j.TresPerNode = "gres/shard:2" }},
		{"asks for GPUs of several types", func(j *v0042.JobInfo) { j.TresPerNode = "gres/gpu:a:1,gres/gpu:b:1" }},
		{"runs in reservation weekend", func(j *v0042.JobInfo) { j.ResvName = "weekend" }},
		{"asks for 0 to 3 nodes", func(j *v0042.JobInfo) { j.MaxNodes = v0042.OptionalNumber{Set: true, Number: 3} }},
		{`node list "n[1": `, func(j *v0042.JobInfo) { j.RequiredNodes = "n[1" }},
		{`gres "gres/gpu:a:b:c": `, func(j *v0042.JobInfo) { j.TresPerJob = "gres/gpu:a:b:c" }},
	} {
		job := ordinary
		c.make(&job)
		if got := readJob(&job).Odd; !strings.HasPrefix(got, c.odd) {
			t.Errorf("odd %q, want %q at its beginning", got, c.odd)
		}
	}
}

func TestAJobThatARoundMustNotTouchSaysWhy(t *testing.T) {
	for _, c := range []struct {
		word string
		make func(*v0042.JobInfo)
	}{
		{"array", func(j *v0042.JobInfo) { j.ArrayJobId.Number = 5 }},
		{"het job", func(j *v0042.JobInfo) { j.HetJobId.Number = 5 }},
		{"exclusive", func(j *v0042.JobInfo) { j.Shared = []string{"none"} }},
		{"exclusive", func(j *v0042.JobInfo) { j.Shared = []string{"user"} }},
		{"scrontab", func(j *v0042.JobInfo) { j.Cron = "@daily" }},
		{"interactive", func(j *v0042.JobInfo) { j.BatchFlag = false }},
		{"core specialization", func(j *v0042.JobInfo) { j.ThreadSpec = 2 }},
		{"contiguous", func(j *v0042.JobInfo) { j.Contiguous = true }},
		{"suspended", func(j *v0042.JobInfo) { j.JobState = []string{"SUSPENDED"} }},
	} {
		job := v0042.JobInfo{JobState: []string{"PENDING"}, BatchFlag: true, ThreadSpec: ordinarySpec}
		c.make(&job)
		if got := readJob(&job).Shape; !strings.HasPrefix(got, c.word+": ") {
			t.Errorf("shape %q, want %s and why", got, c.word)
		}
	}
}

func TestANumberThatIsNotSetOrHasNoBoundIsZero(t *testing.T) {
	for _, n := range []v0042.OptionalNumber{{Number: 7}, {Infinite: true}, {Set: true, Infinite: true, Number: 7}} {
		if got := counted(n); got != 0 {
			t.Errorf("%+v: %d", n, got)
		}
	}
	if got := counted(v0042.OptionalNumber{Set: true, Number: 4294967294}); got != 4294967294 {
		t.Errorf("Slurm's largest number reads %d", got)
	}
}

// Where slurmrestd does not keep to its own document. The trimmed document declares what is recorded here.
func TestSlurmrestdSendsOtherTypesThanItDeclares(t *testing.T) {
	var declared struct {
		Jobs []struct {
			JobID int32 `json:"job_id"` // the sweep is declared as a list of job_info
		} `json:"jobs"`
	}
	if err := json.Unmarshal(recorded(t, "states.json"), &declared); err == nil {
		t.Error("the sweep's job IDs are numbers, as declared: the correction can go")
	}
	var number struct {
		Number int32 `json:"number"` // of a field of 32 bits, which Slurm has unsigned
	}
	if err := json.Unmarshal([]byte(`{"set":true,"infinite":false,"number":4294967294}`), &number); err == nil {
		t.Error("Slurm's largest 32-bit number fits the declared type")
	}
	var list struct {
		Jobs []struct {
			RequiredNodes []string `json:"required_nodes"` // as it is written
		} `json:"jobs"`
	}
	if err := json.Unmarshal(recorded(t, "jobs.json"), &list); err == nil {
		t.Error("required_nodes is read as it is written: a list")
	}
	var resources struct {
		Jobs []struct {
			Resources *struct{} `json:"job_resources"` // declared as an object, always there
		} `json:"jobs"`
	}
	if err := json.Unmarshal(recorded(t, "jobs.json"), &resources); err != nil {
		t.Fatal(err)
	}
	if resources.Jobs[1].Resources != nil {
		t.Error("a waiting job has resources: null was expected")
	}
}

func TestTheSweepsNamesLeadToTheJobsOwnNumber(t *testing.T) {
	for name, want := range map[string]int{"17": 17, "91_1": 91, "83_[2-4%1]": 83, "95+1": 95, "3_*": 3} {
		if got, err := ownID(name); err != nil || got != want {
			t.Errorf("%s: %d, %v: want %d", name, got, err, want)
		}
	}
	for _, name := range []string{"", "_1", "x", "-3", "0", "99999999999999999999"} {
		if got, err := ownID(name); err == nil {
			t.Errorf("%q: %d: want an error", name, got)
		}
	}
}
