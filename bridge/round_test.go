package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

var (
	ctx    = context.Background()
	epoch  = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	server = gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}
)

// world is a cluster in memory and the daemon beside it. The daemon can be killed and started again; the ledger stays.
type world struct {
	t      *testing.T
	clock  *slurmtest.Clock
	slurm  *slurmtest.Slurm
	book   *ledger.Memory
	line   *slurmtest.Line
	runner *bridge.Runner
}

func newWorld(t *testing.T, nodes int, total gres.Vector) *world {
	t.Helper()
	return newSite(t, slurmtest.Rack(nodes, total, "gpu", "other"))
}

func newSite(t *testing.T, nodes []slurm.Node) *world {
	t.Helper()
	w := &world{t: t, clock: slurmtest.NewClock(epoch), book: &ledger.Memory{}}
	w.slurm = slurmtest.New(w.clock, slurmtest.Options{Nodes: nodes, SchedulerDelay: time.Millisecond})
	w.clock.AfterEach(func() {
		if err := w.slurm.Invariants(); err != nil {
			t.Errorf("at %s: %v", w.clock.Now().Sub(epoch), err)
		}
	})
	w.runner = &bridge.Runner{Settings: bridge.Settings{
		Partitions: []string{"gpu"}, Policy: policy.FIFO(), Allocator: policy.Tune(),
		Round: 300 * time.Second, Lease: 900 * time.Second, RestartCost: 30 * time.Second,
		StartTimeout: 20 * time.Second, Poll: time.Second, Parallel: 1,
	}}
	w.start(nil)
	return w
}

// start starts a daemon with the settings of the last one, whose connection breaks as the fault says.
func (w *world) start(fault slurmtest.Fault) {
	w.line = slurmtest.NewLine(w.slurm, w.clock, func(c slurmtest.Call, at slurmtest.Moment) error {
		if at == slurmtest.Before {
			w.mustBeFree(c.Update)
		}
		if fault == nil {
			return nil
		}
		return fault(c, at)
	})
	w.runner = &bridge.Runner{
		Slurm: w.line, Splitter: w.line, Ledger: mortal{w.book, w.line}, Clock: w.line, Profiles: w.profile,
		Settings: w.runner.Settings,
	}
	if onLeaseJob {
		w.runner.Leases = w.line.Leases()
	}
}

// mustBeFree holds every start to the promise that places are freed before they are given.
func (w *world) mustBeFree(u slurm.Update) {
	if len(u.Request.Pin) == 0 || u.Begin.After(w.clock.Now()) || u.Lease != 0 {
		return
	}
	seen, err := w.slurm.Observe(ctx)
	if err != nil {
		w.t.Error(err)
	}
	gpus := u.Request.GPUs / u.Request.Nodes
	if u.Request.Shard != "" {
		gpus = 0 // slurmtest's own invariants see to that
	}
	if k := slices.IndexFunc(seen.Jobs, func(j *slurm.Job) bool { return j.ID == u.Job }); k >= 0 &&
		seen.Jobs[k].State == slurm.Running {
		return // Slurm has just started it by itself, and answers so
	}
	for _, n := range seen.Nodes {
		if slices.Contains(u.Request.Pin, n.Name) && (n.Completing || gpus > n.Total.GPUs-n.Allocated.GPUs) {
			w.t.Errorf("job %d was started on %s, of which %s are held, completing %v", u.Job, n.Name, n.Allocated,
				n.Completing)
		}
	}
}

// mortal is a ledger that a dead process cannot write to.
type mortal struct {
	bridge.Ledger
	line *slurmtest.Line
}

func (m mortal) Intend(i bridge.Intent) error {
	if m.line.Dead() {
		return slurmtest.ErrDied
	}
	return m.Ledger.Intend(i)
}

func (m mortal) Settle(records bridge.Records, report bridge.Report) error {
	if m.line.Dead() {
		return slurmtest.ErrDied
	}
	return m.Ledger.Settle(records, report)
}

// profile reads one of the paper's models. One that is called light leaves its GPU idle for four fifths of the time.
func (w *world) profile(name string) (*sensitivity.Profile, error) {
	if name == "light.json" {
		p, err := w.profile("res18.json")
		if err == nil {
			p.GPUBusy, p.GPUMemory = 0.2, 8192
		}
		return p, err
	}
	text, err := os.ReadFile(filepath.Join("..", "etc", "profiles", name))
	if err != nil {
		return nil, fmt.Errorf("profile %s: not found", name)
	}
	return sensitivity.Parse(text)
}

func (w *world) round() bridge.Report {
	w.t.Helper()
	report, err := w.runner.Round(ctx)
	if err != nil {
		w.t.Fatalf("round: %v", err)
	}
	return report
}

// rounds runs n rounds, each at its time.
func (w *world) rounds(n int) (last bridge.Report) {
	w.t.Helper()
	for range n {
		began := w.clock.Now()
		last = w.round()
		w.sleep(w.runner.Settings.Round - w.clock.Now().Sub(began))
	}
	return last
}

func (w *world) sleep(d time.Duration) {
	if err := w.clock.Sleep(ctx, d); err != nil {
		w.t.Fatal(err)
	}
}

// submit submits a job with some GPUs that asks for a core each, as the lua lets it in.
func (w *world) submit(gpus int, comment string, change ...func(*slurmtest.Spec)) int {
	w.t.Helper()
	spec := slurmtest.Spec{
		Partition: "gpu", Comment: comment, Lease: 900 * time.Second,
		Request: slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 1, Memory: 1000, GPUs: gpus},
		Work:    slurmtest.Work{Length: 2 * time.Hour, OnSignal: slurmtest.Saves, Save: 2 * time.Second},
	}
	for _, c := range change {
		c(&spec)
	}
	id, err := w.slurm.Submit(spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) job(id int) slurm.Job {
	w.t.Helper()
	seen, err := w.slurm.Observe(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, j := range seen.Jobs {
		if j.ID == id {
			return *j
		}
	}
	return slurm.Job{ID: id, State: slurm.Finished}
}

func (w *world) mustRun(id int, nodes string, cpus int) {
	w.t.Helper()
	j := w.job(id)
	if j.State != slurm.Running || strings.Join(j.Runs.Nodes, "+") != nodes || j.Runs.PerNode.CPUs != cpus {
		w.t.Errorf("job %d: %s on %v with %s, want running on %s with %d cores", id, j.State, j.Runs.Nodes,
			j.Runs.PerNode, nodes, cpus)
	}
}

func step(t *testing.T, report bridge.Report, job int, verb bridge.Verb) bridge.Step {
	t.Helper()
	for _, s := range report.Steps {
		if s.Job == job && s.Verb == verb {
			return s
		}
	}
	t.Fatalf("round %d: no %s of job %d among %+v", report.Round, verb, job, report.Steps)
	return bridge.Step{}
}

const saving = "synergy-profile=%s.json synergy-checkpoint=USR1@30"

func model(name string) string { return fmt.Sprintf(saving, name) }

func TestAJobRunsWithinOneRoundWithItsDemand(t *testing.T) {
	w := newWorld(t, 4, server)
	id := w.submit(1, model("res18"))
	report := w.round()
	w.mustRun(id, "n1", 9)
	if got := w.job(id).Runs.PerNode.Memory; got != 62500 {
		t.Errorf("memory %d MiB, want 62500", got)
	}
	if len(report.Notes) != 0 {
		t.Errorf("notes %+v on a job that is as it should be", report.Notes)
	}
	if s := step(t, report, id, bridge.Start); s.Error != "" || len(s.Changes) == 0 {
		t.Errorf("start: %+v", s)
	}
}

func TestAnUnchangedAllocationIsLeftAlone(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(1, model("res18"))
	w.submit(1, model("gnmt"))
	w.round()
	calls := w.line.Count(slurmtest.Update)
	report := w.rounds(3)
	if n := w.line.Count(slurmtest.Update) - calls; n != 0 || len(report.Steps) != 0 {
		t.Errorf("%d updates and steps %+v in rounds that change nothing", n, report.Steps)
	}
}

func TestAWaitingJobCarriesItsUsersOwnRequestAndALease(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(8, model("res50"))
	id := w.submit(1, model("res18"))
	own := w.job(id).Request
	for range 12 {
		w.rounds(1)
		j := w.job(id)
		if j.State != slurm.Pending || j.Request.CPUs != own.CPUs || j.Request.Memory != own.Memory ||
			len(j.Request.Pin) != 0 {
			t.Fatalf("waits with %+v, want %+v", j.Request, own)
		}
		if left := j.Begin.Sub(w.clock.Now()); left < 150*time.Second {
			t.Fatalf("lease of %s left, a round is 300 s", left)
		}
	}
	if n := w.line.Count(slurmtest.Update); n > 8 {
		t.Errorf("%d updates in an hour for one start and one lease of 900 s", n)
	}
	if extra := w.job(id).Extra; !strings.Contains(extra, "no GPU is free") {
		t.Errorf("extra %s does not say why the job waits", extra)
	}
}

func TestAVictimSavesIsRequeuedAndGoesOn(t *testing.T) {
	w := newWorld(t, 1, gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500})
	w.runner.Settings.Policy = policy.LAS()
	first := w.submit(1, model("gnmt"))
	w.rounds(2)
	second := w.submit(1, model("gnmt"), func(s *slurmtest.Spec) { s.Work.Length = 4 * time.Minute })
	report := w.rounds(1)
	if s := step(t, report, first, bridge.Preempt); s.Error != "" || s.Took > 5*time.Second {
		t.Errorf("preempt: %+v", s)
	}
	if j := w.job(first); j.State != slurm.Pending || j.Restarts != 1 || len(j.Request.Pin) != 0 {
		t.Errorf("victim %+v, want pending, once restarted, not pinned", j)
	}
	w.rounds(1)
	w.mustRun(first, "n1", 1)
	past, _ := w.slurm.History(first)
	if lost := past.Runs[0].Lost; lost != 0 {
		t.Errorf("lost %s of progress", lost)
	}
	if past, _ := w.slurm.History(second); past.End != slurmtest.Completed {
		t.Errorf("newcomer ended %q", past.End)
	}
}

func TestAVictimThatDoesNotLeaveIsRequeuedAfterItsGrace(t *testing.T) {
	w := newWorld(t, 1, gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500})
	w.runner.Settings.Policy = policy.LAS()
	first := w.submit(1, model("gnmt"), func(s *slurmtest.Spec) { s.Work.OnSignal = slurmtest.Hangs })
	w.rounds(2)
	second := w.submit(1, model("gnmt"))
	report := w.round()
	s := step(t, report, first, bridge.Preempt)
	if s.Error != "" || w.line.Count(slurmtest.Requeue) != 1 || w.line.Count(slurmtest.Signal) != 1 {
		t.Errorf("%d signals, %d requeues, step %+v", w.line.Count(slurmtest.Signal), w.line.Count(slurmtest.Requeue),
			s)
	}
	if w.job(first).State != slurm.Pending {
		t.Errorf("victim is %s", w.job(first).State)
	}
	w.mustRun(second, "n1", 1)
}

func TestAJobWithoutCheckpointIsNeverSignalled(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		t.Run(fmt.Sprintf("preemption allowed %v", allowed), func(t *testing.T) {
			w := newWorld(t, 1, gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500})
			w.runner.Settings.Policy = policy.SRTF()
			w.runner.Settings.PreemptWithoutCheckpoint = allowed
			w.submit(1, "synergy-profile=gnmt.json synergy-length=10h")
			w.rounds(2)
			w.submit(1, "synergy-profile=gnmt.json synergy-length=30m")
			w.round()
			if n := w.line.Count(slurmtest.Signal); n != 0 {
				t.Errorf("%d signals", n)
			}
			if n := w.line.Count(slurmtest.Requeue); (n == 1) != allowed {
				t.Errorf("%d requeues", n)
			}
		})
	}
}

func TestAStartThatDoesNotComeAboutIsTakenBackAndTriedAgain(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("res18"))
	own := w.job(id).Request
	// The node is drained between the look and the start.
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Verb == slurmtest.Update && at == slurmtest.Before {
			w.slurm.Drain("n1")
		}
		return nil
	})
	report := w.round()
	if s := step(t, report, id, bridge.Start); !strings.Contains(s.Error, "did not start") {
		t.Errorf("start: %+v", s)
	}
	j := w.job(id)
	if j.State != slurm.Pending || j.Request.CPUs != own.CPUs || len(j.Request.Pin) != 0 ||
		!j.Begin.After(w.clock.Now()) {
		t.Errorf("after the failed start: %+v", j)
	}
	w.slurm.Resume("n1")
	w.start(nil)
	w.rounds(1)
	w.mustRun(id, "n1", 9)
}

func TestJobsThatAreNotOursAreLeftExactlyAlone(t *testing.T) {
	w := newWorld(t, 1, server)
	none := func(s *slurmtest.Spec) { s.Lease = 0 }
	ids := []int{
		w.submit(1, "", none, func(s *slurmtest.Spec) { s.Begin = epoch.Add(time.Hour) }),
		w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Partition = "other" }),
		w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Held = true }),
		w.submit(1, model("res18"), none, func(s *slurmtest.Spec) { s.Shape, s.Begin = "a het job", epoch.Add(time.Hour) }),
		w.submit(1, model("res18"), none, func(s *slurmtest.Spec) { s.Odd, s.Begin = "features joined by |", epoch.Add(time.Hour) }),
	}
	before := make([]slurm.Job, len(ids))
	for k, id := range ids {
		before[k] = w.job(id)
	}
	report := w.round()
	for k, id := range ids {
		if after := w.job(id); fmt.Sprint(after) != fmt.Sprint(before[k]) {
			t.Errorf("job %d went from %+v to %+v", id, before[k], after)
		}
	}
	if n := w.line.Count(slurmtest.Update); n != 0 {
		t.Errorf("%d updates", n)
	}
	if got := len(report.Outside); got != 3 {
		t.Errorf("%d jobs outside with a reason, want the held, the het and the odd one: %+v", got, report.Outside)
	}
}

func TestAJobThatWasAcceptedAndCannotBePlannedIsSlurmsAtOnce(t *testing.T) {
	w := newWorld(t, 1, server)
	het := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Shape = "a het job" })
	odd := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Odd, s.Begin = "features joined by |", epoch.Add(time.Hour) })
	w.round()
	if j := w.job(het); j.Begin.After(w.clock.Now()) || !strings.Contains(j.Extra, "a het job") {
		t.Errorf("it waits for a lease: %+v", j)
	}
	if j := w.job(odd); !j.Begin.Equal(epoch.Add(time.Hour)) {
		t.Errorf("it does not begin when its user wanted: %+v", j)
	}
	w.clock.Advance(5 * time.Second)
	w.mustRun(het, "n1", 1)
	updates := w.line.Count(slurmtest.Update)
	w.rounds(2)
	if n := w.line.Count(slurmtest.Update) - updates; n != 0 {
		t.Errorf("%d more updates", n)
	}
}

func TestAnUnknownProfileCostsTheJobOnlyItsProfile(t *testing.T) {
	w := newWorld(t, 1, server)
	for _, comment := range []string{"synergy-profile=nosuch.json", "synergy-profile=../../etc/passwd",
		"synergy-profile=res18.json synergy-cheese=1"} {
		id := w.submit(1, comment)
		report := w.rounds(1)
		j := w.job(id)
		if j.State != slurm.Running || j.Runs.PerNode.CPUs != 3 {
			t.Errorf("%s: %s with %s, want the proportional share", comment, j.State, j.Runs.PerNode)
		}
		if !slices.ContainsFunc(report.Notes, func(n bridge.Note) bool { return n.Job == id }) ||
			!strings.Contains(j.Extra, "proportional share") {
			t.Errorf("%s: nobody tells the user: extra %s", comment, j.Extra)
		}
	}
}

func TestWithoutTheDaemonEveryWaitingJobIsStartedBySlurm(t *testing.T) {
	w := newWorld(t, 1, server)
	long := w.submit(8, model("res50"), func(s *slurmtest.Spec) { s.Work.Length = 20 * time.Minute })
	var waiting []int
	for range 8 {
		waiting = append(waiting, w.submit(1, model("res18")))
	}
	w.rounds(2)
	w.sleep(w.runner.Settings.Lease + time.Minute)
	for _, id := range waiting {
		if j := w.job(id); j.State != slurm.Running || j.Restarts != 0 {
			t.Errorf("job %d: %s, with job %d over it should have been started by Slurm itself", id, j.State, long)
		}
	}
}

func TestShadowWritesNothing(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Shadow = true
	id := w.submit(1, model("res18"))
	report := w.round()
	if n := len(w.line.Calls()); n != 1 || w.job(id).State != slurm.Pending {
		t.Errorf("%d calls, want the one look", n)
	}
	if s := step(t, report, id, bridge.Start); s.Grant.PerNode.CPUs != 9 {
		t.Errorf("planned %+v", s)
	}
}

func TestAJobThatLosesItsWordIsHandedBack(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(8, model("res50"))
	id := w.submit(1, model("res18"))
	w.rounds(1)
	w.slurm.SetComment(id, "mine")
	report := w.rounds(1)
	if s := step(t, report, id, bridge.Release); len(s.Changes) != 1 || s.Changes[0].Field != "begin_time" {
		t.Errorf("%+v, want nothing changed but when it may begin", s)
	}
	if j := w.job(id); j.Begin.After(w.clock.Now()) {
		t.Errorf("still leased until %s", j.Begin)
	}
	if report = w.rounds(1); len(report.Steps) != 0 {
		t.Errorf("not left alone afterwards: %+v", report.Steps)
	}
}

func TestAUsersOwnBeginTimeIsKept(t *testing.T) {
	w := newWorld(t, 1, server)
	begin := epoch.Add(25 * time.Minute)
	id := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Begin = begin })
	for w.clock.Now().Before(begin) {
		if w.rounds(1); w.job(id).State != slurm.Pending {
			t.Fatalf("runs at %s, its user said %s", w.clock.Now(), begin)
		}
	}
	w.rounds(1)
	w.mustRun(id, "n1", 9)
}

// Slurm takes a job that starts in the very second in which its last run was torn down for that run, and kills it.
func TestARestartDoesNotFollowItsTeardownInTheSameSecond(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Poll = 100 * time.Millisecond
	ids := []int{w.submit(1, model("alexnet")), w.submit(1, model("alexnet"),
		func(s *slurmtest.Spec) { s.Work.Save = 1050 * time.Millisecond })}
	w.rounds(2)
	for range 6 {
		ids = append(ids, w.submit(1, model("res18")))
	}
	report := w.rounds(1)
	if n := w.line.Count(slurmtest.Signal); n == 0 {
		t.Fatalf("nobody was restarted: %+v", report.Steps)
	}
	for _, id := range ids {
		if j := w.job(id); j.State != slurm.Running {
			past, _ := w.slurm.History(id)
			t.Errorf("job %d is %s: %s", id, j.State, past.End)
		}
	}
}

func TestAJobIsNotAskedToLeaveBeforeItCanHear(t *testing.T) {
	w := newWorld(t, 1, gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500})
	w.runner.Settings.Policy = policy.SRTF()
	w.submit(1, model("gnmt")+" synergy-length=10h", func(s *slurmtest.Spec) { s.Work.Ready = 2 * time.Second })
	w.round()
	w.submit(1, model("gnmt")+" synergy-length=10m")
	w.round()
	if n := w.line.Count(slurmtest.Signal); n != 0 {
		t.Errorf("signalled %d times a second after its start", n)
	}
	w.sleep(10 * time.Second)
	if w.round(); w.line.Count(slurmtest.Signal) != 1 {
		t.Errorf("not signalled later")
	}
}

// hook notes who was asked for leave, and refuses before or complains after as it is told to.
type hook struct {
	said             []string
	refuse, complain error
}

func (h *hook) Before(_ context.Context, j slurm.Job, _ string, _ time.Duration) error {
	h.said = append(h.said, fmt.Sprintf("before %d %s", j.ID, j.State))
	return h.refuse
}

func (h *hook) After(_ context.Context, j slurm.Job, _ string, _ time.Duration) error {
	h.said = append(h.said, fmt.Sprintf("after %d %s on %s", j.ID, j.State, strings.Join(j.Runs.Nodes, "+")))
	return h.complain
}

func TestTheHookStandsAroundACheckpointAndMayRefuseIt(t *testing.T) {
	for _, refuse := range []error{nil, errors.New("the file system is full")} {
		w := newWorld(t, 1, gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500})
		h := &hook{refuse: refuse}
		w.runner.Settings.Policy, w.runner.Settings.Hook = policy.LAS(), h
		first := w.submit(1, model("gnmt"))
		w.rounds(2)
		second := w.submit(1, model("gnmt"))
		report := w.round()
		if refuse == nil {
			if want := []string{"before 1 RUNNING", "after 1 PENDING on n1"}; !slices.Equal(h.said, want) {
				t.Errorf("said %q, want %q", h.said, want)
			}
			continue
		}
		w.mustRun(first, "n1", 1)
		if s := step(t, report, second, bridge.Start); s.Error == "" || w.line.Count(slurmtest.Signal) != 0 {
			t.Errorf("start %+v after %d signals, though the hook refused", s, w.line.Count(slurmtest.Signal))
		}
	}
}

func TestAttainedServiceSurvivesARestartOfTheDaemonAndTheLossOfItsLedger(t *testing.T) {
	w := newWorld(t, 1, gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500})
	w.runner.Settings.Policy = policy.LAS()
	first := w.submit(1, model("gnmt"))
	w.rounds(3)
	w.submit(1, model("gnmt"))
	w.rounds(1)
	attained := func() float64 {
		j := w.round().Snapshot.Jobs[0]
		if j.ID != first || j.Running != nil {
			t.Fatalf("want job %d waiting, got %+v", first, j)
		}
		return j.Attained
	}
	before := attained()
	w.start(nil)
	if after := attained(); after != before || before < 890 {
		t.Errorf("attained %.1f GPU-seconds before, %.1f after the restart", before, after)
	}
	w.book = &ledger.Memory{}
	w.start(nil)
	if after := attained(); after != before {
		t.Errorf("attained %.1f GPU-seconds before, %.1f after the ledger was lost", before, after)
	}
}

func TestAttainedServiceIsTheTimeOnGPUs(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(2, model("res18"))
	w.rounds(4)
	report := w.round()
	j := report.Snapshot.Jobs[0]
	ran := w.clock.Now().Sub(w.job(id).Started).Seconds()
	if want := 2 * ran; j.Attained < want-2 || j.Attained > want+2 {
		t.Errorf("attained %.0f GPU-seconds, want %.0f", j.Attained, want)
	}
	if want := 2.4 * ran; j.Done.Seconds() < want-30 || j.Done.Seconds() > want+30 {
		t.Errorf("done %.0f s, want %.0f", j.Done.Seconds(), want)
	}
}
