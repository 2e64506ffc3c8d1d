package slurmrest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// draw writes a job on two lines, the way testdata/jobs.txt has it.
func draw(job parsedJob) string {
	line := fmt.Sprintf("%d %s %s", job.ID, job.Name, job.State)
	for _, flag := range []struct {
		name string
		on   bool
	}{
		{"completing", job.Completing}, {"held", job.Held}, {"dependency", job.Dependency},
		{"interactive", job.Interactive}, {"whole", job.Whole},
		{"no-requeue", !job.Job.Requeue},
	} {
		if flag.on {
			line += " " + flag.name
		}
	}
	if !job.Begin.IsZero() {
		line += fmt.Sprintf(" begin=+%d", job.Begin.Unix()-job.Submitted.Unix())
	}
	if job.Array != 0 {
		line += fmt.Sprintf(" array=%d task=%d tasks=%v at once=%d", job.Array, job.Task, job.Tasks, job.AtOnce)
	}
	for _, text := range []struct{ name, value string }{
		{"reason", job.Reason}, {"shape", job.Shape}, {"odd", job.Odd}, {"except", strings.Join(job.Except, ",")},
		{"end", ending(job.End)}, {"runs", strings.Join(job.Runs.Nodes, ",")},
		{"devices", strings.Join(job.Runs.Devices, " ")},
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

// ending is how a job ended, as sacct prints it.
func ending(end slurm.End) string {
	if end.State == "" {
		return ""
	}
	return fmt.Sprintf("%s %d:%d", end.State, end.Code, end.Signal)
}

func TestEveryRecordedShapeOfJobIsReadAsItWasSubmitted(t *testing.T) {
	jobs, err := readJobs(recorded(t, "jobs.json"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(jobs, func(a, b parsedJob) int { return cmp.Compare(a.ID, b.ID) })
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
		// two jobs in teardown, which Slurm counts as nothing
		"n2 has gpu=8 cpu=24 mem=500G, gives gpu=2 cpu=4 mem=2G, completing",
		"n3 has gpu=8 cpu=24 mem=500G, gives gpu=2 cpu=4 mem=5G",
		// a GPU in shards, and a suspended job's CPUs
		"n4 has gpu=8 cpu=24 mem=500G, gives gpu=2 cpu=4 mem=2G, closed: DRAIN",
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
		{"DOWN NOT_RESPONDING", "DOWN+NOT_RESPONDING"},
		{"IDLE MAINTENANCE RESERVED", ""},
		{"IDLE BLOCKED", "BLOCKED"},
		{"IDLE NOT_RESPONDING", "NOT_RESPONDING"},
		{"MIXED REBOOT_REQUESTED", ""},
		{"MIXED DRAIN REBOOT_REQUESTED", "DRAIN"}, // as soon as possible
		{"DOWN REBOOT_ISSUED", "DOWN+REBOOT_ISSUED"},
		{"MIXED SOMETHING_NEW", "SOMETHING_NEW"},
		{"COMPLETING", "UNKNOWN"},
		{"", "UNKNOWN"},
	} {
		if got := closed(strings.Fields(c.state)); got != c.want {
			t.Errorf("%q: closed by %q, want %q", c.state, got, c.want)
		}
	}
}

// Slurm resumes a node for a job, puts more jobs on one that boots, and starts nothing on one that is on its way down.
func TestANodeIsOpenWhereSlurmWouldResumeItForAJob(t *testing.T) {
	for state, want := range map[string]string{
		"IDLE POWERED_DOWN":                              "",
		"IDLE CLOUD POWERED_DOWN":                        "",
		"IDLE CLOUD POWERED_DOWN NOT_RESPONDING":         "", // as "scontrol update state=resume" leaves it
		"IDLE CLOUD POWERED_DOWN POWER_UP":               "",
		"IDLE POWER_UP":                                  "",
		"ALLOCATED CLOUD NOT_RESPONDING POWERING_UP":     "",
		"MIXED CLOUD POWERING_UP":                        "",
		"MIXED POWER_DOWN":                               "",
		"IDLE POWER_DOWN":                                "POWER_DOWN",
		"IDLE POWERED_DOWN POWER_DOWN":                   "POWER_DOWN", // said again: it goes through POWERING_DOWN
		"MIXED DRAIN POWER_DOWN":                         "DRAIN",      // POWER_DOWN_ASAP
		"IDLE CLOUD POWERING_DOWN":                       "POWERING_DOWN",
		"IDLE DRAIN POWERED_DOWN":                        "DRAIN",
		"DOWN CLOUD POWERED_DOWN":                        "DOWN", // it did not come up within ResumeTimeout
		"DOWN CLOUD NOT_RESPONDING POWERING_UP":          "DOWN",
		"IDLE CLOUD NOT_RESPONDING":                      "NOT_RESPONDING",
		"MIXED CLOUD POWERING_UP SOMETHING_OF_NEXT_YEAR": "SOMETHING_OF_NEXT_YEAR",
	} {
		if got := closed(strings.Fields(state)); got != want {
			t.Errorf("%q: closed by %q, want %q", state, got, want)
		}
	}
}

func TestANodeSaysByAWordOfItsCommentThatItHasABroker(t *testing.T) {
	for comment, want := range map[string][]string{
		"": {"h100"}, "synergy-broker": {"h100", bridge.Served}, "ops: synergy-broker here": {"h100", bridge.Served},
		"no-synergy-broker": {"h100"}, "synergy-brokers": {"h100"},
	} {
		node := wire.Node{Name: "n1", Comment: comment, Features: []string{"h100"}}
		if read := readNode(&node); !slices.Equal(read.Features, want) || len(node.Features) != 1 {
			t.Errorf("%q: features %v, want %v", comment, read.Features, want)
		}
	}
	said := wire.Node{Name: "n1", Comment: "synergy-broker", Features: []string{bridge.Served}}
	if read := readNode(&said); !slices.Equal(read.Features, said.Features) {
		t.Errorf("said twice: %v", read.Features)
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
		{"gpu:g0:1,gpu:g1:1,shard:g0:4,shard:g1:4", "gpu:g0:0(IDX:N/A),gpu:g1:1(IDX:1),shard:g0:2(2/4),shard:g1:0(0/4)",
			2, 2, "", ""},
		{"gpu:2,shard:8", "gpu:(null):0(IDX:N/A),shard:5(IDX:0-1)", 2, 2, "", ""}, // 22.05 does not tell the device
		{"", "", 0, 0, "", ""},
		// never more than there are
		{"gpu:2,shard:8", "gpu:2,shard:8(4/4,4/4)", 2, 2, "", ""},
		{"gpu:8,shard:32", "gpu:2(IDX:0-1),shard:0(-/4,-/4,0/4,0/4,0/4,0/4,0/4,0/4)", 8, 2, "", ""}, // 26.05
		{"gpu:8,shard:32", "gpu:1(IDX:1),shard:3(3/4,-/4,0/4,0/4,0/4,0/4,0/4,0/4)", 8, 2, "", ""},
		{"gpu:2,mps:200", "gpu:(null):0(IDX:N/A),mps:(null):50(50/100,0/100)", 2, 1, "", ""},
		{"gpu:2,mps:200", "gpu:(null):1(IDX:0),mps:(null):50(0/100,50/100)", 2, 2, "", ""},
		{"gpu:2,mps:200", "gpu:0,mps:101", 2, 2, "", ""},
		{"gpu:4,mps:200,shard:8", "gpu:1(IDX:0),mps:10(0/50,10/50,0/50,0/50),shard:1(0/2,0/2,1/2,0/2)", 4, 3, "", ""},
		{"gpu:many", "gpu:0(", 0, 0, "", "GRES_NOT_UNDERSTOOD"},
	} {
		read := readNode(&wire.Node{Name: "n1", State: []string{"MIXED"}, GRES: c.gres, GRESUsed: c.used})
		if read.Total.GPUs != c.gpus || read.Allocated.GPUs != c.held || read.GPUType != c.gpuType ||
			read.Closed != c.closed {
			t.Errorf("%s used %s: read %+v", c.gres, c.used, read)
		}
	}
}

func TestMemoryThatTheSystemKeepsIsNobodys(t *testing.T) {
	read := readNode(&wire.Node{State: []string{"IDLE"}, Memory: 500000, Specialized: 8000, CPUs: 22})
	if read.Total.Memory != 492000 || read.Total.CPUs != 22 {
		t.Errorf("total %v: want 22 CPUs and 492000 MiB", read.Total)
	}
}

func TestStatesAreToldByMembershipNotEquality(t *testing.T) {
	for _, c := range []struct {
		words string
		want  slurm.State
		over  bool
	}{
		{"PENDING", slurm.Pending, false},
		{"PENDING COMPLETING", slurm.Pending, false},
		{"PENDING SPECIAL_EXIT", slurm.Pending, false},
		{"RUNNING", slurm.Running, false},
		{"RUNNING CONFIGURING", slurm.Running, false},
		{"CONFIGURING", slurm.Running, false},
		{"SUSPENDED", slurm.Running, false},
		{"CANCELLED COMPLETING", slurm.Finished, false},
		{"COMPLETED", slurm.Finished, true},
		{"OUT_OF_MEMORY", slurm.Finished, true},
		{"A_WORD_OF_NEXT_YEAR", slurm.Finished, true},
	} {
		words := strings.Fields(c.words)
		if state(words) != c.want || over(words) != c.over {
			t.Errorf("%s: %s, over %v: want %s, %v", c.words, state(words), over(words), c.want, c.over)
		}
	}
}

// A job that Slurm parks because no node can hold its size has priority 0 like a held one. Were it called held, the
// round would leave it alone, and nobody would ever free it.
func TestAJobThatSlurmParkedIsNotHeld(t *testing.T) {
	zero := wire.Number{Set: true}
	for _, c := range []struct {
		reason   string
		priority wire.Number
		want     bool
	}{
		{"JobHeldUser", zero, true},
		{"JobHeldAdmin", zero, true},
		{"job_requeued_in_held_state", zero, true},
		{"None", zero, true},
		{"BadConstraints", zero, false},
		{"BeginTime", wire.Number{Set: true, Number: 4294901757}, false},
		{"BeginTime", wire.Number{}, false},
	} {
		job := readJob(&wire.Job{State: []string{"PENDING"}, Reason: c.reason, Priority: c.priority})
		if job.Held != c.want {
			t.Errorf("%s at priority %+v: held %v, want %v", c.reason, c.priority, job.Held, c.want)
		}
	}
}

func TestARequestThatARoundCannotHonourIsOdd(t *testing.T) {
	ordinary := wire.Job{State: []string{"PENDING"}, Batch: true, ThreadSpec: ordinarySpec, Features: "a&b"}
	if job := readJob(&ordinary); job.Odd != "" || job.Shape != "" || !slices.Equal(job.Features, []string{"a", "b"}) {
		t.Fatalf("an ordinary job is odd: %+v", job)
	}
	spread := ordinary
	spread.Nodes, spread.Tasks, spread.MaxNodes = wire.Number{Set: true, Number: 1}, wire.Number{Set: true, Number: 2},
		wire.Number{Set: true, Number: 2}
	if job := readJob(&spread); job.Odd != "" {
		t.Errorf("two tasks, which 26.05 bounds to two nodes, are odd: %q", job.Odd)
	}
	for _, c := range []struct {
		odd  string
		make func(*wire.Job)
	}{
		{`asks for features "a|b&c"`, func(j *wire.Job) { j.Features = "a|b&c" }},
		{`asks for features "a*2"`, func(j *wire.Job) { j.Features = "a*2" }},
		{`asks for features "[a|b]"`, func(j *wire.Job) { j.Features = "[a|b]" }},
		{`asks for features "(a&b)|c"`, func(j *wire.Job) { j.Features = "(a&b)|c" }},
		{`asks for features "&"`, func(j *wire.Job) { j.Features = "&" }},
		{"asks for memory by gres/license:4000", func(j *wire.Job) { j.MemoryPerGRES = "gres/license:4000" }},
		{"asks for CPUs by gres/gpu:a:1,gres/gpu:b:2",
			func(j *wire.Job) { j.CPUsPerGRES = "gres/gpu:a:1,gres/gpu:b:2" }},
		{"asks for GPUs per socket", func(j *wire.Job) { j.PerSocket = "gres/gpu:1" }},
		{"asks for shard", func(j *wire.Job) { j.PerNode = "gres/shard:2" }},
		{"asks for GPUs of several types", func(j *wire.Job) { j.PerNode = "gres/gpu:a:1,gres/gpu:b:1" }},
		{"asks for 0 to 3 nodes", func(j *wire.Job) { j.MaxNodes = wire.Number{Set: true, Number: 3} }},
		{`node list "n[1": `, func(j *wire.Job) { j.RequiredNodes = "n[1" }},
		{`names tasks "x" of an array: `, func(j *wire.Job) { j.ArrayJob, j.ArrayTasks = 5, "x" }},
		{`gres "gres/gpu:a:b:c": `, func(j *wire.Job) { j.PerJob = "gres/gpu:a:b:c" }},
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
		make func(*wire.Job)
	}{
		{"het job", func(j *wire.Job) { j.HetJob = 5 }},
		{"exclusive", func(j *wire.Job) { j.Exclusive = []string{"user"} }},
		{"scrontab", func(j *wire.Job) { j.Cron = "@daily" }},
		{"core specialization", func(j *wire.Job) { j.ThreadSpec = 2 }},
		{"contiguous", func(j *wire.Job) { j.Contiguous = true }},
		{"suspended", func(j *wire.Job) { j.State = []string{"SUSPENDED"} }},
	} {
		job := wire.Job{State: []string{"PENDING"}, Batch: true, ThreadSpec: ordinarySpec}
		c.make(&job)
		if got := readJob(&job).Shape; !strings.HasPrefix(got, c.word+": ") {
			t.Errorf("shape %q, want %s and why", got, c.word)
		}
	}
}

func TestANumberThatIsNotSetOrHasNoBoundIsZero(t *testing.T) {
	for _, n := range []wire.Number{{Number: 7}, {Infinite: true}, {Set: true, Infinite: true, Number: 7}} {
		if got := n.Count(); got != 0 {
			t.Errorf("%+v: %d", n, got)
		}
	}
	if got := (wire.Number{Set: true, Number: 4294967294}).Count(); got != 4294967294 {
		t.Errorf("Slurm's largest number reads %d", got)
	}
}

// Slurm has a limit as a number of 32 bits, in minutes: the largest are centuries.
func TestALimitThatNobodyLivesToSeeIsStillALimit(t *testing.T) {
	for _, c := range []struct {
		minutes wire.Number
		want    time.Duration
	}{
		{wire.Number{Set: true, Number: 90}, 90 * time.Minute},
		{wire.Number{Set: true, Number: 200_000_000}, maxTimeLimit},
		{wire.Number{Set: true, Number: 4294967294}, maxTimeLimit},
		{wire.Number{Set: true, Number: 1 << 62}, maxTimeLimit},
		{wire.Number{Infinite: true}, 0},
	} {
		if got := readJob(&wire.Job{TimeLimit: c.minutes}).TimeLimit; got != c.want {
			t.Errorf("%+v minutes: %s, want %s", c.minutes, got, c.want)
		}
	}
	if time.Duration(maxTimeLimit)+maxTimeLimit < maxTimeLimit {
		t.Error("two such limits are no time any more")
	}
}

// Slurm writes the amount of one GPU where that of a node stands otherwise.
func TestAmountsThatFollowTheGPUsAreToldAsSuch(t *testing.T) {
	job := readJob(&wire.Job{
		State: []string{"PENDING"}, PerNode: "gres/gpu:2", CPUsPerGRES: "gres/gpu:3", MemoryPerGRES: "gres/gpu:2048",
		MemoryPerNode: wire.Number{Set: true, Number: 2048},
	})
	if r := job.Request; r.CPUsPerGPU != 3 || r.MemoryPerGPU != 2048 || r.Memory != 0 || job.Odd != "" {
		t.Errorf("got %+v, odd %q", r, job.Odd)
	}
}

func TestHowAJobEndedIsOneWordAndItsExitCode(t *testing.T) {
	number := func(n int64) wire.Number { return wire.Number{Set: true, Number: n} }
	job := wire.Job{State: []string{"FAILED", "COMPLETING"}}
	job.ExitCode = number(98)
	if got, want := readJob(&job).End, (slurm.End{State: "FAILED", Code: 98}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	job.State, job.ExitCode, job.ExitSignal = []string{"TIMEOUT"}, wire.Number{}, number(15)
	if got, want := readJob(&job).End, (slurm.End{State: "TIMEOUT", Signal: 15}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	job.State = []string{"RUNNING"}
	if got := readJob(&job).End; got != (slurm.End{}) {
		t.Errorf("a job that runs has ended: %+v", got)
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

func TestAJobWhoseNodesAreStillBeingResumedRunsAndSaysSo(t *testing.T) {
	for words, want := range map[string]bool{
		"RUNNING": false, "RUNNING CONFIGURING POWER_UP_NODE": true, "CONFIGURING": true, "PENDING": false,
	} {
		if read := readJob(&wire.Job{State: strings.Fields(words)}); read.Configuring != want {
			t.Errorf("%s: configuring %v, want %v", words, read.Configuring, want)
		}
	}
}
