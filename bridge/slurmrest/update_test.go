package slurmrest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

func TestAnUpdateIsOnePostThatSaysTheWholeRequest(t *testing.T) {
	whole := slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 6, CPUs: 6, CPUsPerNode: 6, Memory: 120000,
		GRES: "gres/gpu:1", GPUs: 1, Pin: []string{"n3"}}
	own := slurm.Request{Nodes: 1, Tasks: 2, CPUsPerTask: 2, CPUs: 4, CPUsPerNode: 2, MemoryPerCPU: 700,
		GRES: "gres/gpu:1", GPUs: 1}
	for _, c := range []struct {
		name   string
		update slurm.Update
		body   string
	}{
		{
			"start", slurm.Update{Begin: time.Unix(1795253900, 0), Request: whole, Extra: "annotation"},
			`{"begin_time":{"infinite":false,"number":1,"set":true},"cpus_per_task":6,"extra":"annotation","memory_per_node":{"infinite":false,"number":120000,"set":true},` +
				`"minimum_cpus":6,"minimum_cpus_per_node":6,"required_nodes":["n3"]}`,
		},
		{
			"restore", slurm.Update{Begin: time.Unix(1795254500, 0), Request: own},
			`{"begin_time":{"infinite":false,"number":1795254500,"set":true},"cpus_per_task":2,"extra":"","memory_per_cpu":{"infinite":false,"number":700,"set":true},` +
				`"minimum_cpus":4,"minimum_cpus_per_node":2,"required_nodes":[""],"tasks":2}`,
		},
		{
			"other GPUs", slurm.Update{Begin: time.Unix(1795254500, 0),
				Request: slurm.Request{Tasks: 1, CPUsPerTask: 1, CPUs: 1, CPUsPerNode: 1, GRES: "gres/gpu:a:1",
					GPUType: "a"}},
			`{"begin_time":{"infinite":false,"number":1795254500,"set":true},"cpus_per_task":1,"extra":"","memory_per_node":{"infinite":false,"number":0,"set":true},` +
				`"minimum_cpus":1,"minimum_cpus_per_node":1,"tres_per_node":"gres/gpu:a:1"}`,
		},
	} {
		fake, client, _ := watched(t, Options{})
		c.update.Job = fake.jobNamed(t, "gated")
		if c.name == "restore" {
			fake.set(c.update.Job, "required_nodes", "n2")
		}
		if err := client.Update(t.Context(), c.update); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := fake.lastBody(); got != c.body {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.body)
		}
		path := fmt.Sprintf("/job/%d", c.update.Job)
		equal(t, c.name, fake.saw(), []string{"GET " + path, "POST " + path, "GET " + path})
	}
}

func TestAJobOfSeveralPartitionsIsNarrowedToOneAndGivenAllBack(t *testing.T) {
	for _, open := range []func(*testing.T) (*fakeSlurmrestd, *Client){
		func(t *testing.T) (*fakeSlurmrestd, *Client) {
			fake, client, _ := watched(t, Options{})
			return fake, client
		}, newer,
	} {
		fake, client := open(t)
		id := fake.jobNamed(t, "gated")
		fake.set(id, "partition", "synergy,big")
		client.touch(id)
		request := find(t, observe(t, client), id).Request
		if request.Partition != "synergy,big" {
			t.Fatalf("asks for %+v", request)
		}
		for _, c := range []struct{ partition, sent string }{
			{"big,synergy", ""}, {"big", `"partition":"big"`}, {"big", ""}, {"", ""},
			{"synergy,big", `"partition":"synergy,big"`},
		} {
			request.Partition = c.partition
			if err := client.Update(t.Context(), slurm.Update{Job: id, Begin: time.Unix(1, 0),
				Request: request}); err != nil {
				t.Errorf("to %q: %v", c.partition, err)
			}
			if body := fake.lastBody(); !strings.Contains(body, c.sent) ||
				c.sent == "" && strings.Contains(body, "partition") {
				t.Errorf("to %q: sent %s, want %s", c.partition, body, c.sent)
			}
		}
	}
}

// A job that asked with --gpus has no GRES by node, and sending one would be refused (error 2072).
func TestAJobThatAsksForGPUsInAnotherWayKeepsIt(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	id := fake.jobNamed(t, "gpusjob")
	request := find(t, observe(t, client), id).Request
	if err := client.Update(t.Context(), slurm.Update{Job: id, Begin: clock.at, Request: request}); err != nil {
		t.Fatal(err)
	}
	if body := fake.lastBody(); strings.Contains(body, "tres") {
		t.Errorf("sent %s", body)
	}
}

// What follows a job's GPUs is not the round's to size: an amount by node beside it would be a second answer to the
// same question.
func TestAmountsThatFollowTheGPUsAreLeftAsTheyAre(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	id := fake.jobNamed(t, "gated")
	fake.set(id, "cpus_per_tres", "gres/gpu:3")
	fake.set(id, "memory_per_tres", "gres/gpu:2048")
	client.touch(id)
	request := find(t, observe(t, client), id).Request
	request.Pin = []string{"n3"}
	if err := client.Update(t.Context(), slurm.Update{Job: id, Begin: clock.at, Request: request}); err != nil {
		t.Fatal(err)
	}
	if got, want := fake.lastBody(),
		`{"begin_time":{"infinite":false,"number":1,"set":true},"extra":"","required_nodes":["n3"]}`; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	request.CPUsPerGPU = 4
	err := client.Update(t.Context(), slurm.Update{Job: id, Begin: clock.at, Request: request})
	if !errors.Is(err, slurm.ErrRefused) || !strings.Contains(fmt.Sprint(err), "4 CPUs for each GPU where it has 3") ||
		len(fake.bodies) != 1 {
		t.Errorf("another pace: %v after %d updates, want it refused and nothing sent", err, len(fake.bodies))
	}
}

func TestAnUpdateIsBelievedOnlyWhenARereadShowsIt(t *testing.T) {
	request := slurm.Request{Tasks: 1, CPUsPerTask: 3, CPUs: 3, CPUsPerNode: 3, Memory: 5000, GRES: "gres/gpu:1",
		Pin: []string{"n2", "n1"}}
	number := func(n int) map[string]any { return map[string]any{"set": true, "number": n} }
	for _, c := range []struct {
		field string
		shown any
		text  string
	}{
		{"extra", "another's", `extra reads "another's" afterwards`},
		{"eligible_time", number(1795255555), "begin time reads"},
		{"tasks", number(2), `tasks reads "2"`},
		{"cpus_per_task", number(9), "CPUs per task reads"},
		{"cpus", number(9), "CPUs reads"},
		{"minimum_cpus_per_node", number(9), "CPUs per node reads"},
		{"memory_per_cpu", number(9), "memory per CPU reads"},
		{"memory_per_node", number(9), "memory reads"},
		{"tres_per_node", "gres/gpu:2", "GRES reads"},
		{"required_nodes", "n[1-3]", "nodes reads"},
	} {
		fake, client, clock := watched(t, Options{})
		id := fake.jobNamed(t, "gated")
		path := fmt.Sprintf("/job/%d", id)
		fake.answers("GET", path, func(w http.ResponseWriter, _ *http.Request) {
			fake.set(id, c.field, c.shown)
			fake.one(w, id)
		})
		err := client.Update(t.Context(), slurm.Update{Job: id, Begin: clock.at.Add(time.Hour), Request: request,
			Extra: "ours"})
		if !errors.Is(err, slurm.ErrRefused) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s shows %v: %v, want %q", c.field, c.shown, err, c.text)
		}
	}
}

func TestAJobThatStartedAtOnceIsNoFailedUpdate(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	id := fake.jobNamed(t, "gated")
	request := find(t, observe(t, client), id).Request
	looks := 0
	fake.answers("GET", fmt.Sprintf("/job/%d", id), func(w http.ResponseWriter, _ *http.Request) {
		if looks++; looks == 1 {
			fake.one(w, id)
			return
		}
		fake.set(id, "job_state", []string{"RUNNING"})
		fake.set(id, "cpus", map[string]any{"set": true, "number": 4}) // rounded up to whole cores
		fake.one(w, id)
	})
	if err := client.Update(t.Context(), slurm.Update{Job: id, Begin: clock.at, Request: request}); err != nil {
		t.Error(err)
	}
}

func TestAJobInTeardownShowsTheCPUsOfItsLastRun(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	id := fake.jobNamed(t, "gated")
	request := find(t, observe(t, client), id).Request
	request.CPUs, request.CPUsPerTask, request.CPUsPerNode = 9, 9, 9
	fake.answers("GET", fmt.Sprintf("/job/%d", id), func(w http.ResponseWriter, _ *http.Request) {
		fake.set(id, "job_state", []string{"PENDING", "COMPLETING"})
		fake.set(id, "cpus", map[string]any{"set": true, "number": 3})
		fake.one(w, id)
	})
	if err := client.Update(t.Context(), slurm.Update{Job: id, Begin: clock.at.Add(time.Hour),
		Request: request}); err != nil {
		t.Error(err)
	}
}

func TestAJobThatWasNotWaitingIsLookedAtBeforeItIsSentAnything(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	id := fake.jobNamed(t, "running")
	err := client.Update(t.Context(), slurm.Update{Job: id, Begin: clock.at, Request: slurm.Request{CPUs: 1}})
	if !errors.Is(err, slurm.ErrNotPending) {
		t.Errorf("%v: want not pending", err)
	}
	equal(t, "calls", fake.saw(), []string{get(id)})
}

// However well it is known: an administrator may have taken hold of it since.
func TestAJobIsLookedAtBeforeItIsSentASize(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	id := fake.jobNamed(t, "gated")
	request := find(t, observe(t, client), id).Request
	request.Memory++
	fake.set(id, "priority", map[string]any{"set": true, "number": 0})
	fake.saw()
	err := client.Update(t.Context(), slurm.Update{Job: id, Begin: clock.at.Add(time.Hour), Request: request})
	if !errors.Is(err, slurm.ErrHeld) {
		t.Errorf("%v: want held", err)
	}
	equal(t, "calls", fake.saw(), []string{get(id)})
}

func TestAnUpdateBeforeAnyObservationLooksFirst(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{})
	if err := client.Update(t.Context(), slurm.Update{Job: 999999, Request: slurm.Request{CPUs: 1}}); !errors.Is(err,
		slurm.ErrGone) {
		t.Errorf("%v: want gone", err)
	}
	if calls := fake.saw(); slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "POST") }) {
		t.Errorf("%q: something was sent", calls)
	}
}

func TestTheBeginTimeZeroIsNeverSent(t *testing.T) {
	_, client, _ := watched(t, Options{})
	for _, begin := range []time.Time{{}, time.Unix(0, 0), client.now(), client.now().Add(-time.Hour)} {
		if got := client.begin(begin); got != atOnce {
			t.Errorf("%v: %d, want %d", begin, got, atOnce)
		}
	}
}

// Who reckons with Slurm's time may be some milliseconds ahead of us. Sent as the second that it is in, the begin time
// would have passed when it is read back, and the update seem to be refused.
func TestABeginTimeInThisSecondMeansAtOnce(t *testing.T) {
	_, client, _ := watched(t, Options{})
	for range 20 { // a second may end between the two readings
		now := client.now()
		got := client.begin(now.Truncate(time.Second).Add(999 * time.Millisecond))
		if client.now().Unix() != now.Unix() {
			continue
		}
		if got != atOnce {
			t.Errorf("it is %d, want at once", got)
		}
		if next := now.Truncate(time.Second).Add(time.Second); client.begin(next) == atOnce &&
			client.now().Unix() == now.Unix() {
			t.Error("the next second is taken for this one")
		}
		return
	}
}

// A partition of a user's list is deleted while his job runs in another. Slurm then refuses the whole update that names
// it.
func TestAPartitionThatIsGoneKeepsNoJobFromItsOwnRequest(t *testing.T) {
	fake, client, _ := watched(t, Options{})
	id := fake.jobNamed(t, "gated")
	request := find(t, observe(t, client), id).Request
	request.Partition, request.Pin = "synergy,gone", []string{"n2"}
	fake.answers("POST", fmt.Sprintf("/job/%d", id), func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(string(body), "gone") {
			say(
				w,
				500,
				`{"errors":[{"error_number":2000,"error":"Invalid partition name specified","description":"Job update requested failed"}]}`,
			)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		fake.apply(w, r, id)
	})
	if err := client.Update(t.Context(), slurm.Update{Job: id, Begin: time.Unix(1795254500, 0), Request: request,
		Extra: "annotation"}); err != nil {
		t.Fatal(err)
	}
	if j := find(t, observe(t, client), id); j.Extra != "annotation" || !slices.Equal(j.Request.Pin, []string{"n2"}) {
		t.Errorf("got %+v", j)
	}
}
