package slurmrest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/v0042"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/v0045"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// newer is a client of a fake that has v0.0.45, and no scontrol.
func newer(t *testing.T) (*fakeSlurmrestd, *Client) {
	t.Helper()
	fake := startFake(t)
	fake.newest = "v0.0.45"
	client := fake.open(t, Options{Scontrol: []string{"/nonexistent/scontrol"}})
	if client.Version() != "v0.0.45" {
		t.Fatalf("speaks %s, want the newest", client.Version())
	}
	return fake, client
}

func TestAVersionIsSpokenOnlyWhereAllThatItReadsByIsServed(t *testing.T) {
	fake := startFake(t)
	for paths, want := range map[string]string{
		`"/slurm/v0.0.42/a":{},"/slurm/v0.0.45/a":{}`:                         "v0.0.42",
		`"/slurm/v0.0.42/a":{},"/slurm/v0.0.44/a":{},"/slurm/v0.0.45/a":{}`:   "v0.0.45",
		`"/slurm/v0.0.43/a":{},"/slurm/v0.0.44/a":{},"/slurm/v0.0.45/a":{}`:   "v0.0.45",
		`"/slurm/v0.0.42/a":{},"/slurm/v0.0.43/a":{},"/slurm/v0.0.44/a":{}`:   "v0.0.42",
		`"/slurm/v0.0.44/a":{},"/slurm/v0.0.45/a":{},"/slurm/v0.0.46/new":{}`: "v0.0.45",
	} {
		fake.answers("GET", "/openapi/v3", text(200, `{"paths":{`+paths+`}}`))
		if got := fake.open(t, Options{}).Version(); got != want {
			t.Errorf("of %s it takes %s, want %s", paths, got, want)
		}
	}
}

func TestANewerSlurmIsObservedAsAnOlderOne(t *testing.T) {
	_, client := newer(t)
	fake := startFake(t)
	new, old := observe(t, client), observe(t, fake.open(t, Options{}))
	new.At = old.At
	if !reflect.DeepEqual(new, old) {
		t.Errorf("v0.0.45 tells\n%+v\nv0.0.42\n%+v", new, old)
	}
	if !slices.ContainsFunc(new.Jobs, func(j *slurm.Job) bool { return j.Whole }) {
		t.Error("no job is exclusive")
	}
}

// Every answer that was recorded means the same in all versions, and so does everything that is sent.
func TestTheVersionsDifferInNothingButTheirNamesAndTheRequeue(t *testing.T) {
	old, new := v0042.API("http://slurm"), v0045.API("http://slurm")
	if old.Requeue != nil || new.Requeue == nil {
		t.Error("v0.0.45 alone can requeue")
	}
	for _, name := range []string{"jobs.json", "job-array.json", "job-gone.json"} {
		a, saidA, errA := old.Jobs().Stream(bytes.NewReader(recorded(t, name)))
		b, saidB, errB := new.Jobs().Stream(bytes.NewReader(recorded(t, name)))
		if errA != nil || errB != nil || !reflect.DeepEqual(a, b) || !reflect.DeepEqual(saidA, saidB) {
			t.Errorf("%s reads otherwise: %v, %v", name, errA, errB)
		}
	}
	a, _, errA := old.Nodes().Read(recorded(t, "nodes.json"))
	b, _, errB := new.Nodes().Read(recorded(t, "nodes.json"))
	if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("nodes read otherwise: %v, %v", errA, errB)
	}
}

func TestTheBundleThatAJobRunsInIsToldByBothVersions(t *testing.T) {
	body := bytes.ReplaceAll(recorded(t, "jobs.json"), []byte(`"container":""`), []byte(`"container":"/images/torch"`))
	for _, api := range []wire.API{v0042.API(""), v0045.API("")} {
		jobs, _, err := api.Jobs().Stream(bytes.NewReader(body))
		if err != nil || len(jobs) == 0 || readJob(&jobs[0]).Container != "/images/torch" {
			t.Errorf("%v: no job of %d is in /images/torch", err, len(jobs))
		}
	}
}

func TestARequeueIsOnePostWhereTheAPIHasIt(t *testing.T) {
	fake, client := newer(t)
	id := fake.jobNamed(t, "running")
	if err := client.Requeue(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	equal(t, "calls", fake.saw(), []string{get(id), "POST /jobs/requeue"})
	if got, want := fake.lastBody(), fmt.Sprintf(`{"flags":["Incomplete"],"jobs":["%d"]}`, id); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	waits := fake.jobNamed(t, "gated")
	if err := client.Requeue(t.Context(), waits); err != nil {
		t.Fatal(err)
	}
	equal(t, "calls for a job that waits", fake.saw(), []string{get(waits)})
}

func TestARequeueThatSlurmrestdRefusesIsJudgedByTheJobAndSaidOnce(t *testing.T) {
	for _, c := range []struct {
		name  string
		with  http.HandlerFunc
		after string // state of the job once it has failed; empty: it still runs
		want  error
	}{
		{"disabled", text(200, complained(2037, "Requested operation is presently disabled")), "", slurm.ErrRefused},
		{"disabled in a status", text(200,
			`{"status":[[{"error_code":2037,"error":"disabled"}]],"errors":[],"warnings":[]}`), "", slurm.ErrRefused},
		{"not an operator", text(422, complained(2010, "Invalid user id")), "", slurm.ErrDenied},
		{"no controller", text(504, complained(-1, "Unspecified error")), "", slurm.ErrUnreachable},
		{"a proxy's answer", plainText(502, "Bad gateway"), "", slurm.ErrUnreachable},
		{"nothing was heard", cut, "", slurm.ErrUnreachable},
		{"nothing was heard, and it was done", cut, "PENDING", nil},
		{"it ended meanwhile", text(200, complained(2017, "Invalid job id specified")), "COMPLETED",
			slurm.ErrNotRunning},
	} {
		fake, client := newer(t)
		id := fake.jobNamed(t, "running")
		fake.answers("POST", "/jobs/requeue", func(w http.ResponseWriter, r *http.Request) {
			fake.set(id, "job_state", []string{cmp.Or(c.after, "RUNNING")})
			c.with(w, r)
		})
		if err := client.Requeue(t.Context(), id); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		equal(t, c.name, fake.saw(), []string{get(id), "POST /jobs/requeue", get(id)})
	}
}
