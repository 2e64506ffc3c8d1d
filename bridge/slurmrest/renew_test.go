package slurmrest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// renewal is the update that renews the lease of a job as it was seen last.
func renewal(t *testing.T, client *Client, id int, begin time.Time) slurm.Update {
	t.Helper()
	request := find(t, observe(t, client), id).Request
	return slurm.Update{Job: id, Begin: begin, Request: request, Extra: "annotation"}
}

func post(id int) string { return "POST" + get(id)[len("GET"):] }

func TestARenewalIsOnePostOfNoSizeAndIsNotReadAgain(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	id := fake.jobNamed(t, "gated")
	before := observe(t, client)
	begin := clock.at.Add(time.Hour)
	update := renewal(t, client, id, begin)
	fake.saw()
	if err := client.Update(t.Context(), update); err != nil {
		t.Fatal(err)
	}
	equal(t, "calls", fake.saw(), []string{post(id)})
	want := `{"begin_time":{"infinite":false,"number":1795257500,"set":true},"extra":"annotation"}`
	if got := fake.lastBody(); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	after := find(t, observe(t, client), id)
	equal(t, "reads", reads(fake), nil)
	if !after.Begin.Equal(begin) || after.Extra != "annotation" {
		t.Errorf("begins %v with %q, want %v with the annotation", after.Begin, after.Extra, begin)
	}
	if job := find(t, before, id); job.Extra != "" {
		t.Errorf("the earlier observation has become %q", job.Extra)
	}
}

// Slurm 24.11 would reckon the number of tasks anew, from the fewest nodes that will do.
func TestEachUpdateSaysTheTasksWhereSlurmWouldChangeThem(t *testing.T) {
	number := func(n int) map[string]any { return map[string]any{"set": true, "infinite": false, "number": n} }
	for name, c := range map[string]struct {
		tasks, perNode, perGPU int
		perTask                string
		said                   bool
	}{
		"GPUs for each task, of which each node has two": {tasks: 4, perNode: 2, perTask: "gres/gpu:1", said: true},
		"three tasks, two a node":                        {tasks: 3, perNode: 2, said: true},
		"two tasks a GPU":                                {tasks: 4, perGPU: 2, said: true},
		"two tasks, two a node":                          {tasks: 2, perNode: 2},
		"tasks alone":                                    {tasks: 4},
		"GPUs for each task, wherever":                   {tasks: 4, perTask: "gres/gpu:1"},
	} {
		fake, client, clock := watched(t, Options{})
		id := fake.jobNamed(t, "gated")
		fake.set(id, "tasks", number(c.tasks))
		fake.set(id, "tasks_per_node", number(c.perNode))
		fake.set(id, "tasks_per_tres", number(c.perGPU))
		fake.set(id, "tres_per_task", c.perTask)
		client.touch(id)
		for _, way := range []string{"renewal", "update"} {
			update := renewal(t, client, id, clock.at.Add(time.Hour))
			if way == "update" {
				update.Request.Pin = []string{"n1"}
			}
			if err := client.Update(t.Context(), update); err != nil {
				t.Fatalf("%s: %s: %v", name, way, err)
			}
			want := fmt.Sprintf(`"tasks":%d`, c.tasks)
			if got := fake.lastBody(); strings.Contains(got, want) != c.said ||
				!c.said && strings.Contains(got, `"tasks":`) {
				t.Errorf("%s: the %s sends %s, want %s said: %t", name, way, got, want, c.said)
			}
		}
	}
}

func TestARenewalAfterARenewalIsOnePostToo(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	id := fake.jobNamed(t, "gated")
	for range 3 {
		clock.at = clock.at.Add(time.Minute)
		update := renewal(t, client, id, clock.at.Add(time.Hour))
		fake.saw()
		if err := client.Update(t.Context(), update); err != nil {
			t.Fatal(err)
		}
		equal(t, "calls", fake.saw(), []string{post(id)})
	}
}

// Its user may have had it wait for another job since. That is seen, and kept, at the price of one read.
func TestAJobThatWasReadLongAgoIsReadOnceBeforeItIsGivenTheLease(t *testing.T) {
	for _, c := range []struct {
		name string
		age  time.Duration
		said string
		want func(id int) []string
	}{
		{"read just now", time.Second, "afterany:4711", func(id int) []string { return []string{post(id)} }},
		{"read a minute ago", time.Minute, "afterok:5(unfulfilled),afterany:4711",
			func(id int) []string { return []string{get(id), post(id)} }},
	} {
		fake, client, clock := watched(t, Options{})
		id := fake.jobNamed(t, "gated")
		update := renewal(t, client, id, clock.at.Add(time.Hour))
		client.noteLease(4711)
		update.Lease = 4711
		fake.set(id, "dependency", "afterok:5(unfulfilled)")
		clock.at = clock.at.Add(c.age)
		fake.saw()
		if err := client.Update(t.Context(), update); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		equal(t, c.name+": calls", fake.saw(), c.want(id))
		if got := fake.lastBody(); !strings.Contains(got, `"dependency":"`+c.said+`"`) {
			t.Errorf("%s: sent %s, want it to depend on %s", c.name, got, c.said)
		}
		if client.touched[id] {
			t.Errorf("%s: it is read once more", c.name)
		}
	}
}

// What makes a job another than it was read, or the update more than a renewal, has the job looked at before anything
// is sent.
func TestWhatIsNoPlainRenewalIsLookedAtFirst(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*fakeSlurmrestd, *Client, *clock, *slurm.Update)
	}{
		{"a start", func(_ *fakeSlurmrestd, _ *Client, clock *clock, u *slurm.Update) { u.Begin = clock.at }},
		{"other cores", func(_ *fakeSlurmrestd, _ *Client, _ *clock, u *slurm.Update) { u.Request.CPUs++ }},
		{"other memory", func(_ *fakeSlurmrestd, _ *Client, _ *clock, u *slurm.Update) { u.Request.Memory++ }},
		{"a pin", func(_ *fakeSlurmrestd, _ *Client, _ *clock, u *slurm.Update) { u.Request.Pin = []string{"n1"} }},
		{"other GPUs", func(_ *fakeSlurmrestd, _ *Client, _ *clock, u *slurm.Update) { u.Request.GRES = "gres/gpu:2" }},
		{"a job that was touched", func(_ *fakeSlurmrestd, client *Client, _ *clock, u *slurm.Update) {
			client.touch(u.Job)
		}},
		{"a lapsed lease", func(_ *fakeSlurmrestd, _ *Client, clock *clock, u *slurm.Update) {
			clock.at = clock.at.Add(24 * time.Hour)
			u.Begin = clock.at.Add(time.Hour)
		}},
		{"a parked job", func(_ *fakeSlurmrestd, client *Client, _ *clock, u *slurm.Update) {
			client.jobs[u.Job].Reason = "BadConstraints"
		}},
		{"a held job", func(_ *fakeSlurmrestd, client *Client, _ *clock, u *slurm.Update) {
			client.jobs[u.Job].Held = true
		}},
		{"a job in teardown", func(_ *fakeSlurmrestd, client *Client, _ *clock, u *slurm.Update) {
			client.jobs[u.Job].Completing = true
		}},
	} {
		fake, client, clock := watched(t, Options{})
		id := fake.jobNamed(t, "gated")
		update := renewal(t, client, id, clock.at.Add(time.Hour))
		c.change(fake, client, clock, &update)
		fake.saw()
		_ = client.Update(t.Context(), update)
		if calls := fake.saw(); len(calls) == 0 || calls[0] != get(id) {
			t.Errorf("%s: %q, want a look first", c.name, calls)
		}
	}
}

// The sweep that comes first is too old to tell that the job has started, was cancelled or purged.
func TestARefusedRenewalIsLookedInto(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		state  string
		want   error
	}{
		{"it has started", text(500, `{"errors":[{"error_number":2073,"error":"Job is no longer pending execution"}]}`),
			"RUNNING", slurm.ErrNotPending},
		{"it is over",
			text(500, `{"errors":[{"error_number":2021,"error":"Job/step already completing or completed"}]}`),
			"CANCELLED", slurm.ErrNotPending},
		{"a field is unknown", text(200, `{"warnings":[{"description":"Ignoring unknown field \"extra\""}]}`),
			"PENDING", slurm.ErrRefused},
	} {
		fake, client, clock := watched(t, Options{})
		id := fake.jobNamed(t, "gated")
		update := renewal(t, client, id, clock.at.Add(time.Hour))
		fake.set(id, "job_state", []string{c.state})
		fake.answers("POST", "/job/"+get(id)[len("GET /job/"):], c.answer)
		if err := client.Update(t.Context(), update); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		fake.saw()
		observe(t, client)
		if calls := reads(fake); c.state == "PENDING" && len(calls) != 1 {
			t.Errorf("%s: then read %q, want the job", c.name, calls)
		}
	}
}

// A POST that nobody answered may have been applied.
func TestARenewalOfUnknownOutcomeIsSentOnceAndReadAfterwards(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	id := fake.jobNamed(t, "gated")
	update := renewal(t, client, id, clock.at.Add(time.Hour))
	fake.answers("POST", "/job/"+get(id)[len("GET /job/"):], cut)
	fake.saw()
	if err := client.Update(t.Context(), update); !errors.Is(err, slurm.ErrUnreachable) {
		t.Errorf("%v: want unreachable", err)
	}
	equal(t, "calls", fake.saw(), []string{post(id)})
	observe(t, client)
	equal(t, "reads", reads(fake), []string{get(id)})
}

// The read may have happened before or after the POST.
func TestARenewalDuringAnObservationIsReadAgain(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	id := fake.jobNamed(t, "gated")
	update := renewal(t, client, id, clock.at.Add(time.Hour))
	fake.answers("GET", "/nodes/", func(w http.ResponseWriter, _ *http.Request) {
		if err := client.Update(t.Context(), update); err != nil {
			t.Error(err)
		}
		sayFile(w, 200, "nodes.json")
	})
	observe(t, client)
	fake.answers("GET", "/nodes/", nil)
	fake.saw()
	observe(t, client)
	equal(t, "reads", reads(fake), []string{get(id)})
}
