package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// clock stands still until it is told otherwise.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// watched is a client of a fake cluster that has been observed once, with everybody's reason known and nobody in
// teardown.
func watched(t *testing.T, options Options) (*fakeSlurmrestd, *Client, *clock) {
	t.Helper()
	fake := startFake(t)
	for id, job := range fake.jobs {
		words, _ := job["job_state"].([]any)
		if slices.Contains(words, any("COMPLETING")) {
			delete(fake.jobs, id)
		}
	}
	client := fake.open(t, options)
	time := &clock{time.Unix(1795253900, 0)} // while the jobs were recorded
	client.now = time.now
	observe(t, client)
	fake.saw()
	return fake, client, time
}

func observe(t *testing.T, client *Client) slurm.Observed {
	t.Helper()
	seen, err := client.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// reads are the calls of an observation beyond ping, sweep and nodes, sorted.
func reads(fake *fakeSlurmrestd) []string {
	var extra []string
	for _, call := range fake.saw() {
		if call != "GET /ping/" && call != "GET /jobs/state/" && call != "GET /nodes/" {
			extra = append(extra, call)
		}
	}
	slices.Sort(extra)
	return extra
}

func find(t *testing.T, seen slurm.Observed, id int) slurm.Job {
	t.Helper()
	at := slices.IndexFunc(seen.Jobs, func(j *slurm.Job) bool { return j.ID == id })
	if at < 0 {
		t.Fatalf("job %d is not observed", id)
	}
	return *seen.Jobs[at]
}

func get(id int) string { return fmt.Sprintf("GET /job/%d", id) }

func TestTheFirstObservationListsEverythingOnce(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{})
	seen := observe(t, client)
	equal(t, "calls", fake.saw(), []string{"GET /ping/", "GET /jobs/", "GET /nodes/"})
	ids := make([]int, 0, len(seen.Jobs))
	for _, job := range seen.Jobs {
		ids = append(ids, job.ID)
	}
	if len(ids) != 22 || !slices.IsSorted(ids) || slices.Contains(ids, fake.jobNamed(t, "finished")) ||
		!slices.Contains(ids, fake.jobNamed(t, "cancelled")) {
		t.Errorf(
			"jobs %v: want the 21 that wait, run or are in teardown and the one with our directive that is over, "+
				"ascending", ids)
	}
}

func TestAClusterWhereNothingHappensIsOnlySwept(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	before := observe(t, client)
	equal(t, "calls", fake.saw(), []string{"GET /ping/", "GET /jobs/state/", "GET /nodes/"})
	if len(before.Jobs) != 20 {
		t.Errorf("%d jobs from memory: want 20", len(before.Jobs))
	}
}

func TestAJobIsReadWhenItsStateChanges(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	id := fake.jobNamed(t, "gated")
	fake.set(id, "job_state", []string{"RUNNING", "CONFIGURING"})
	if job := find(t, observe(t, client), id); job.State != slurm.Running {
		t.Errorf("is %s", job.State)
	}
	equal(t, "reads", reads(fake), []string{get(id)})
	fake.set(id, "job_state", []string{"RUNNING"})
	observe(t, client)
	equal(t, "reads", reads(fake), []string{get(id)})
	observe(t, client)
	equal(t, "reads", reads(fake), nil)
}

func TestAJobInTeardownIsReadEveryTime(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	id := fake.jobNamed(t, "running")
	fake.set(id, "job_state", []string{"CANCELLED", "COMPLETING"})
	for range 3 {
		if job := find(t, observe(t, client), id); !job.Completing || job.State != slurm.Finished {
			t.Errorf("read as %s, completing %v", job.State, job.Completing)
		}
		equal(t, "reads", reads(fake), []string{get(id)})
	}
}

func TestAFinishedJobDropsOutUnread(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	id := fake.jobNamed(t, "running")
	fake.set(id, "job_state", []string{"COMPLETED"})
	seen := observe(t, client)
	equal(t, "reads", reads(fake), nil)
	if slices.ContainsFunc(seen.Jobs, func(j *slurm.Job) bool { return j.ID == id }) {
		t.Error("is observed")
	}
}

func TestAJobWithOurWordIsReadOnceMoreWhenItIsOverAndToldUntilSlurmForgetsIt(t *testing.T) {
	fake, client, now := watched(t, Options{})
	id := fake.jobNamed(t, "gated")
	fake.set(id, "job_state", []string{"FAILED"})
	fake.set(id, "exit_code", map[string]any{"signal": map[string]any{"id": map[string]any{"set": true, "number": 10}}})
	want := slurm.End{State: "FAILED", Signal: 10}
	for range 3 {
		if job := find(t, observe(t, client), id); job.State != slurm.Finished || job.End != want || job.Completing {
			t.Errorf("read as %+v, want its end %+v", job, want)
		}
		now.at = now.at.Add(time.Minute)
	}
	equal(t, "reads", reads(fake), []string{get(id)})
	now.at = now.at.Add(client.options.FullEvery)
	find(t, observe(t, client), id)
	fake.mu.Lock()
	delete(fake.jobs, id)
	fake.mu.Unlock()
	if seen := observe(t, client); slices.ContainsFunc(seen.Jobs, func(j *slurm.Job) bool { return j.ID == id }) {
		t.Error("is observed after Slurm has forgotten it")
	}
}

func TestWhatIsLeftOfAnArrayDoesNotEndWithItsFirstTask(t *testing.T) {
	swept := []wire.State{{Job: "7_1", Words: []string{"COMPLETED"}}, {Job: "7_[2-4]", Words: []string{"PENDING"}},
		{Job: "8", Words: []string{"FAILED"}},
		{Job: "9", Words: []string{"FAILED"}}}
	states, err := foldStates(swept, map[int]bool{7: true, 8: true})
	if want := map[int]string{7: "PENDING", 8: "FAILED"}; err != nil || !maps.Equal(states, want) {
		t.Errorf("%v, %v: want %v", states, err, want)
	}
}

func TestReservationsAreToldAndAskedForEveryFiveSeconds(t *testing.T) {
	fake, client, now := watched(t, Options{})
	want := []slurm.Reservation{
		{Name: "maintenance", From: time.Unix(1799107200, 0), To: time.Unix(1830643200, 0),
			Nodes: []string{"n1", "n2"}},
		{Name: "weekend", From: time.Unix(1798848000, 0), To: time.Unix(1799020800, 0), Nodes: []string{"n2"}},
	}
	for range 61 {
		if got := observe(t, client).Reservations; !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		now.at = now.at.Add(time.Second)
	}
	if fake.reservations != 13 {
		t.Errorf("asked %d times in a minute: want every five seconds", fake.reservations)
	}
}

func TestASlurmWhoseClockIsSetBackIsLookedAtAnew(t *testing.T) {
	fake, client, now := watched(t, Options{ReportsEvery: time.Minute})
	id := fake.jobNamed(t, "gated")
	fake.set(id, "comment", "")
	now.at = now.at.Add(-18 * time.Hour)
	if job := find(t, observe(t, client), id); job.Comment != "" {
		t.Error("an edit from before the clock was set is not seen")
	}
	equal(t, "reads", reads(fake), []string{"GET /jobs/"})
	if fake.reservations != 2 {
		t.Errorf("reservations were asked for %d times: want at the beginning and when the clock was set",
			fake.reservations)
	}
	now.at = now.at.Add(client.options.FullEvery)
	observe(t, client)
	equal(t, "reads", reads(fake), []string{"GET /jobs/"})
}

func TestAJobThatVanishesBetweenSweepAndReadIsGone(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	id := fake.jobNamed(t, "running")
	fake.set(id, "job_state", []string{"PENDING"})
	fake.answers("GET", fmt.Sprintf("/job/%d", id), always(404, "job-gone.json"))
	seen := observe(t, client)
	if slices.ContainsFunc(seen.Jobs, func(j *slurm.Job) bool { return j.ID == id }) {
		t.Error("is observed")
	}
}

func TestWhatWeTouchIsReadUntilItsReasonIsThere(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	id := fake.jobNamed(t, "gated")
	request := find(t, observe(t, client), id).Request
	request.Memory++
	if err := client.Update(t.Context(), slurm.Update{Job: id, Begin: clock.at.Add(time.Hour), Request: request,
		Extra: "x"}); err != nil {
		t.Fatal(err)
	}
	fake.saw()
	if looks, want := looksAt(t, fake, client, clock, id), []int{0, 1, 3, 7, 15, 31, 63}; !slices.Equal(looks, want) {
		t.Errorf("looked after %v seconds: want %v", looks, want)
	}
	client.touch(id)
	if looks, want := looksAt(t, fake, client, clock, id), []int{0, 1, 3, 7, 15, 31, 63}; !slices.Equal(looks, want) {
		t.Errorf("looked after %v seconds once touched again: want %v", looks, want)
	}
}

// looksAt observes each second for two minutes and tells in which of them a waiting job without a reason was read.
func looksAt(t *testing.T, fake *fakeSlurmrestd, client *Client, clock *clock, id int) []int {
	t.Helper()
	var looks []int
	for second := range 120 {
		if job := find(t, observe(t, client), id); job.Extra != "x" || job.Reason != "" {
			t.Fatalf("extra %q, reason %q: want x and none", job.Extra, job.Reason)
		}
		if slices.Equal(reads(fake), []string{get(id)}) {
			looks = append(looks, second)
		}
		clock.at = clock.at.Add(time.Second)
	}
	return looks
}

func TestAJobIsReadWhenItsBeginTimeComes(t *testing.T) {
	fake, client, clock := watched(t, Options{FullEvery: 24 * time.Hour})
	waiting := []string{get(fake.jobNamed(t, "gated")), get(fake.jobNamed(t, "mempercpu")),
		get(fake.jobNamed(t, "gpusjob")), get(fake.jobNamed(t, "gpustask"))}
	slices.Sort(waiting)
	clock.at = clock.at.Add(2 * time.Hour)
	observe(t, client)
	equal(t, "reads", reads(fake), waiting)
	for _, name := range []string{"gated", "mempercpu", "gpusjob", "gpustask"} {
		fake.set(fake.jobNamed(t, name), "state_reason", "Resources")
	}
	clock.at = clock.at.Add(time.Second)
	if job := find(t, observe(t, client), fake.jobNamed(t, "gated")); job.Reason != "Resources" {
		t.Errorf("reason %q: want the one since its lease lapsed", job.Reason)
	}
	equal(t, "reads", reads(fake), waiting)
	clock.at = clock.at.Add(time.Hour)
	observe(t, client)
	equal(t, "reads", reads(fake), nil)
}

func TestAnEditThatLeavesTheStateAloneIsSeenAtTheNextFullListing(t *testing.T) {
	fake, client, clock := watched(t, Options{FullEvery: time.Minute})
	id := fake.jobNamed(t, "gated")
	fake.set(id, "comment", "")
	if job := find(t, observe(t, client), id); job.Comment == "" {
		t.Error("the edit is seen without a read")
	}
	fake.saw()
	clock.at = clock.at.Add(time.Minute)
	if job := find(t, observe(t, client), id); job.Comment != "" {
		t.Errorf("comment %q after a full listing", job.Comment)
	}
	equal(t, "reads", reads(fake), []string{"GET /jobs/"})
}

// TestAReportIsSeenLongBeforeTheNextFullListing: an edit of the comment leaves the state alone, so a running job that
// reports is read for that.
func TestAReportIsSeenLongBeforeTheNextFullListing(t *testing.T) {
	fake, client, now := watched(t, Options{ReportsEvery: time.Minute})
	id := fake.jobNamed(t, "running")
	fake.set(id, "comment", "synergy-profile=a.json synergy-progress")
	client.touch(id)
	observe(t, client)
	fake.saw()
	fake.set(id, "comment", "synergy-profile=a.json synergy-progress=5@1767268800")
	now.at = now.at.Add(59 * time.Second)
	observe(t, client)
	equal(t, "reads after 59 s", reads(fake), nil)
	now.at = now.at.Add(time.Second)
	if job := find(t, observe(t, client), id); !strings.HasSuffix(job.Comment, "=5@1767268800") {
		t.Errorf("its comment is %q", job.Comment)
	}
	equal(t, "reads after a minute", reads(fake), []string{get(id)})
}

// TestWhatANodeSaysOfASeatedJobIsSeenLongBeforeTheNextFullListing: nor does an edit of the AdminComment change the
// state.
func TestWhatANodeSaysOfASeatedJobIsSeenLongBeforeTheNextFullListing(t *testing.T) {
	fake, client, now := watched(t, Options{}) // though nobody's progress is looked at
	id := fake.jobNamed(t, "running")
	fake.set(id, "tres_per_node", "gres/shard:g1:1")
	fake.set(id, "gres_detail", []string{"shard:g1:1(1/4)"})
	client.touch(id)
	if job := find(t, observe(t, client), id); job.Runs.Shard != "g1" {
		t.Fatalf("it runs with %+v", job.Runs)
	}
	fake.set(id, "admin_comment", "synergy-offence=0@1767268800")
	now.at = now.at.Add(time.Minute)
	if job := find(t, observe(t, client), id); job.Admin != "synergy-offence=0@1767268800" {
		t.Errorf("an administrator says %q of it", job.Admin)
	}
	fake.set(id, "job_state", []string{"PENDING"})
	fake.set(id, "gres_detail", []string{})
	observe(t, client)
	fake.set(id, "admin_comment", "")
	now.at = now.at.Add(time.Minute)
	if job := find(t, observe(t, client), id); job.State != slurm.Pending || job.Admin != "" {
		t.Errorf("it is %s, and an administrator says %q of it: it is forgiven", job.State, job.Admin)
	}
}

func TestNoMoreReportsAreReadAtOnceThanThereAreTurnsFor(t *testing.T) {
	at := time.Unix(1767268800, 0)
	client := &jobCache{reportsEvery: time.Minute, jobs: map[int]*knownJob{}}
	for id := 1; id <= 100; id++ {
		client.jobs[id] = &knownJob{readAt: at.Add(-time.Hour - time.Duration(id)*time.Second), mayReport: id%2 == 0}
	}
	turn := client.dueReports([]int{100}, at)
	if len(turn) != mostReports || turn[0] != 98 || turn[1] != 96 {
		t.Errorf("%v: want the %d that were read longest ago, without the one that is read anyway", turn, mostReports)
	}
}

func TestManyChangesAreReadInOneListing(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	client.costs = newCosts() // not what the first listing happened to take on a busy machine
	fake.mu.Lock()
	for _, job := range fake.jobs {
		job["job_state"] = []string{"PENDING", "SPECIAL_EXIT"}
	}
	fake.mu.Unlock()
	observe(t, client)
	equal(t, "reads", reads(fake), []string{"GET /jobs/"})
}

func TestAnArraysTasksAreOneJobAndItsMasterIsPickedOutOfTheAnswer(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	fake.answers("GET", "/jobs/state/", always(200, "states.json"))
	observe(t, client)
	calls := strings.Join(reads(fake), " ")
	if strings.Contains(calls, "/job/83") || strings.Contains(calls, "/job/91") || strings.Contains(calls, "/job/3 ") {
		t.Errorf("%s: an unchanged array is read again", calls)
	}
	for id, want := range map[int]slurm.State{83: slurm.Pending, 91: slurm.Running} {
		fake.answers("GET", fmt.Sprintf("/job/%d", id), always(200, "job-array.json")) // holds both
		client.touch(id)
		if job := find(t, observe(t, client), id); job.State != want {
			t.Errorf("job %d is %s, want %s", id, job.State, want)
		}
	}
}

// What failed to be read must not pass for known: the next observation reads it again.
func TestAFailedObservationForgetsNothingThatItOwed(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	id := fake.jobNamed(t, "gated")
	client.touch(id)
	fake.answers("GET", fmt.Sprintf("/job/%d", id), cut)
	if _, err := client.Observe(t.Context()); !errors.Is(err, slurm.ErrUnreachable) {
		t.Fatalf("%v: want unreachable", err)
	}
	fake.answers("GET", fmt.Sprintf("/job/%d", id), nil)
	fake.saw()
	observe(t, client)
	equal(t, "reads", reads(fake), []string{get(id)})
}

func TestAFailedListingIsAskedForAgain(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{})
	fake.answers("GET", "/jobs/", half)
	if _, err := client.Observe(t.Context()); !errors.Is(err, slurm.ErrUnreachable) {
		t.Fatalf("%v: want unreachable", err)
	}
	fake.answers("GET", "/jobs/", nil)
	fake.saw()
	observe(t, client)
	equal(t, "reads", reads(fake), []string{"GET /jobs/"})
}

// A touch while a job is being read tells of something that the read may not have seen.
func TestATouchDuringAReadCausesAnother(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	id := fake.jobNamed(t, "gated")
	client.touch(id)
	fake.answers("GET", fmt.Sprintf("/job/%d", id), func(w http.ResponseWriter, _ *http.Request) {
		client.touch(id)
		fake.one(w, id)
	})
	observe(t, client)
	fake.answers("GET", fmt.Sprintf("/job/%d", id), nil)
	fake.saw()
	observe(t, client)
	equal(t, "reads", reads(fake), []string{get(id)})
}

func TestAnObservationIsNotChangedByTheNext(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	before := observe(t, client)
	id := fake.jobNamed(t, "gated")
	fake.set(id, "extra", "later")
	fake.set(id, "job_state", []string{"PENDING", "SPECIAL_EXIT"})
	observe(t, client)
	if job := find(t, before, id); job.Extra != "" {
		t.Errorf("extra %q in the earlier observation", job.Extra)
	}
}

func TestACancelledObservationStops(t *testing.T) {
	_, client, _ := watched(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Observe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v: want cancelled", err)
	}
}

// No sweep tells that a hold was released or a dependency met.
func TestAReleasedHoldAndAMetDependencyAreSeenWithoutAFullListing(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	held, dependent := fake.jobNamed(t, "held"), fake.jobNamed(t, "dependent")
	for _, id := range []int{held, dependent} {
		fake.set(id, "comment", "synergy-profile=a.json")
	}
	client.lastListing = time.Time{} // the comments are news
	observe(t, client)
	fake.saw()
	clock.at = clock.at.Add(20 * time.Second)
	observe(t, client)
	if calls := reads(fake); !slices.Contains(calls, get(held)) || slices.Contains(calls, get(dependent)) {
		t.Errorf("read %v with nothing new, want the held job %d and not %d", calls, held, dependent)
	}
	fake.set(held, "state_reason", "None")
	fake.set(held, "priority", map[string]any{"set": true, "number": 1})
	fake.set(fake.jobNamed(t, "running"), "job_state", []string{"COMPLETED"})
	fake.set(dependent, "dependency", "")
	seen := observe(t, client)
	if job := find(t, seen, held); job.Held {
		t.Error("a hold that was released is not seen")
	}
	if job := find(t, seen, dependent); job.Dependency {
		t.Error("a dependency that was met when another job ended is not seen")
	}
}

func TestAQuietClusterCostsOneRequestAndAnyNewsIsNoted(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	quiet := func() bool {
		t.Helper()
		is, err := client.Quiet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if !quiet() {
		t.Error("nothing has happened, and it is not quiet")
	}
	equal(t, "requests", fake.saw(), []string{"GET /jobs/state/"})
	id := fake.jobNamed(t, "gated")
	fake.set(id, "job_state", []string{"RUNNING"})
	if quiet() {
		t.Error("a job has started, and it is quiet")
	}
	observe(t, client)
	fake.mu.Lock()
	delete(fake.jobs, id)
	fake.mu.Unlock()
	if quiet() {
		t.Error("a job has gone, and it is quiet")
	}
}

func TestOfManyHeldJobsAFewAreReadInTurn(t *testing.T) {
	began := time.Unix(1767268800, 0)
	c := &jobCache{jobs: map[int]*knownJob{}}
	for id := range 10 {
		c.jobs[id+1] = &knownJob{parsedJob: parsedJob{Job: slurm.Job{ID: id + 1, State: slurm.Pending, Held: true},
			directives: directive.Directives{Managed: true}}, readAt: began.Add(-time.Duration(id) * time.Second)}
	}
	for _, want := range [][]int{{10, 9}, {8, 7}} {
		got := c.maybeFreed(nil, began)
		if !slices.Equal(got, want) {
			t.Fatalf("read %v, want %v", got, want)
		}
		for _, id := range got {
			c.jobs[id].readAt = began.Add(time.Second)
		}
	}
}

// A job of ours that is held for days must not make of every second a look.
func TestATimeLimitThatIsRaisedShortlyBeforeItComesIsSeen(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	id := fake.jobNamed(t, "running")
	ends := func(in time.Duration) {
		fake.set(id, "comment", "synergy-profile=res18.json synergy-checkpoint=USR1@60")
		fake.set(id, "time_limit", map[string]any{"set": true, "number": 600})
		fake.set(id, "end_time", map[string]any{"set": true, "number": clock.at.Add(in).Unix()})
	}
	ends(2 * time.Minute)
	client.touch(id)
	observe(t, client)
	clock.at = clock.at.Add(15 * time.Second)
	ends(24 * time.Hour)
	if j := find(t, observe(t, client), id); !j.Ends.Equal(clock.at.Add(24 * time.Hour)) {
		t.Errorf("it is believed to end at %s", j.Ends)
	}
	fake.saw()
	clock.at = clock.at.Add(15 * time.Second)
	observe(t, client)
	if more := reads(fake); slices.Contains(more, fmt.Sprintf("GET /job/%d", id)) {
		t.Errorf("it is read again although its limit is far: %s", more)
	}
}

func TestAHeldJobIsReadAndLeavesItQuietUntilItIsReleased(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	held := fake.jobNamed(t, "held")
	fake.set(held, "comment", "synergy-profile=a.json")
	client.lastListing = time.Time{} // the comment is news
	observe(t, client)
	fake.saw()
	for range 3 {
		clock.at = clock.at.Add(2 * time.Second)
		if quiet, err := client.Quiet(t.Context()); !quiet || err != nil {
			t.Errorf("quiet %v, %v, with a job that goes on being held", quiet, err)
		}
		equal(t, "requests", fake.saw(), []string{"GET /jobs/state/", get(held)})
	}
	fake.set(held, "state_reason", "None")
	fake.set(held, "priority", map[string]any{"set": true, "number": 1})
	if quiet, err := client.Quiet(t.Context()); quiet || err != nil {
		t.Errorf("quiet %v, %v, and a hold was released", quiet, err)
	}
	if job := find(t, observe(t, client), held); job.Held {
		t.Error("then a look does not see it")
	}
}

// TestANumberThatSlurmGivesAgainIsNoLeaseJobAnyMore: what a user's job depends on is not lost for a lease job that is
// long gone.
func TestANumberThatSlurmGivesAgainIsNoLeaseJobAnyMore(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{})
	client.noteLease(4711)
	client.forgetLease(4711)
	if _, err := client.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	job := parsedJob{dependency: "afterany:4711(unfulfilled)", Job: slurm.Job{Dependency: true}}
	client.depend(&job)
	if !job.Dependency || job.Lease != 0 {
		t.Errorf("got %+v", job)
	}
}
