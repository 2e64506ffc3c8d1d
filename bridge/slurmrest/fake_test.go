package slurmrest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeSlurmrestd answers with what a real one was recorded to say, and applies updates to it.
type fakeSlurmrestd struct {
	*httptest.Server

	mu           sync.Mutex
	jobs         map[int]map[string]any
	calls        []string                    // method, path and query, in the order in which they came
	bodies       []string                    // of the POSTs
	instead      map[string]http.HandlerFunc // by method and path, in place of the recorded answer
	reservations int                         // how often they were asked for
	newest       string                      // API version; empty: v0.0.42
	inFlight     int
	most         int // requests in flight at once
}

// below is the path below an API version that the fake has. Of a newer one it tells no jobs, since what v0.0.45 of a
// 26.05.5 tells of them is not all that is needed.
func (f *fakeSlurmrestd) below(path string) (rest string, known bool) {
	if rest, known = strings.CutPrefix(path, "/slurm/v0.0.42"); known && f.newest == "" {
		return rest, true
	}
	if rest, known = strings.CutPrefix(path, "/slurm/v0.0.44"); known && f.newest != "" {
		return rest, strings.HasPrefix(rest, "/job")
	}
	rest, known = strings.CutPrefix(path, "/slurm/"+f.newest)
	return rest, known && f.newest != "" && rest != "/jobs/"
}

func startFake(t *testing.T) *fakeSlurmrestd {
	t.Helper()
	fake := &fakeSlurmrestd{jobs: map[int]map[string]any{}, instead: map[string]http.HandlerFunc{}}
	var listing struct {
		Jobs []map[string]any `json:"jobs"`
	}
	if err := json.Unmarshal(recorded(t, "jobs.json"), &listing); err != nil {
		t.Fatal(err)
	}
	for _, job := range listing.Jobs {
		fake.jobs[int(job["job_id"].(float64))] = job
	}
	fake.Server = httptest.NewServer(fake)
	t.Cleanup(fake.Close)
	return fake
}

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// jobNamed finds a recorded job.
func (f *fakeSlurmrestd) jobNamed(t *testing.T, name string) int {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, job := range f.jobs {
		if job["name"] == name {
			return id
		}
	}
	t.Fatalf("no recorded job is named %s", name)
	return 0
}

// set changes a field of a job behind the client's back.
func (f *fakeSlurmrestd) set(id int, field string, value any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[id][field] = value
}

// answers replaces the answer to one kind of request.
func (f *fakeSlurmrestd) answers(method, path string, with http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instead[method+" "+path] = with
}

// saw returns the calls since the last time it was asked.
func (f *fakeSlurmrestd) saw() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *fakeSlurmrestd) lastBody() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.bodies) == 0 {
		return ""
	}
	return f.bodies[len(f.bodies)-1]
}

func (f *fakeSlurmrestd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	with := f.enter(r)
	defer f.leave()
	if with != nil {
		with(w, r)
		return
	}
	path, known := f.below(r.URL.Path)
	id, _ := strconv.Atoi(strings.TrimPrefix(path, "/job/"))
	switch {
	case r.URL.Path == "/openapi/v3" && f.newest != "":
		say(w, 200, `{"paths":{"/slurm/v0.0.42/jobs/":{},"/slurm/v0.0.44/jobs/":{},"/slurm/`+f.newest+`/jobs/":{}}}`)
	case r.URL.Path == "/openapi/v3":
		say(w, 200, `{"paths":{"/slurm/v0.0.40/jobs/":{},"/slurm/v0.0.42/jobs/":{},"/slurmdb/v0.0.42/jobs/":{}}}`)
	case !known:
		http.Error(w, "Unable find requested URL. Please view /openapi/v3 for API reference.", 404)
	case path == "/ping/":
		sayFile(w, 200, "ping.json")
	case path == "/diag/":
		say(w, 200, fmt.Sprintf(`{"statistics":{"req_time":{"set":true,"infinite":false,"number":%d}}}`,
			time.Now().Unix()))
	case path == "/reservations/":
		sayFile(w, 200, "reservations.json")
	case path == "/nodes/":
		sayFile(w, 200, "nodes.json")
	case path == "/jobs/":
		say(w, 200, f.listing(func(int) bool { return true }))
	case path == "/jobs/requeue":
		f.requeue(w, r)
	case path == "/jobs/state/":
		say(w, 200, f.states())
	case r.Method == "DELETE":
		sayFile(w, 200, "signal-done.json")
	case r.Method == "POST":
		f.apply(w, r, id)
	default:
		f.one(w, id)
	}
}

func (f *fakeSlurmrestd) enter(r *http.Request) http.HandlerFunc {
	f.mu.Lock()
	defer f.mu.Unlock()
	path, _ := f.below(r.URL.Path)
	call := r.Method + " " + path
	if r.URL.RawQuery != "" {
		call += "?" + r.URL.RawQuery
	}
	switch path {
	case "/diag/": // the time is asked when it is due, beside everything else
	case "/reservations/": // and so are they
		f.reservations++
	default:
		f.calls = append(f.calls, call)
	}
	f.inFlight++
	f.most = max(f.most, f.inFlight)
	return f.instead[r.Method+" "+path]
}

func (f *fakeSlurmrestd) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inFlight--
}

func (f *fakeSlurmrestd) listing(wanted func(id int) bool) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var jobs []map[string]any
	for id, job := range f.jobs {
		if wanted(id) {
			jobs = append(jobs, job)
		}
	}
	body, err := json.Marshal(map[string]any{"jobs": jobs, "errors": []any{}, "warnings": []any{}})
	if err != nil {
		panic(err)
	}
	return string(body)
}

func (f *fakeSlurmrestd) states() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	states := []any{}
	for id, job := range f.jobs {
		states = append(states, map[string]any{"job_id": fmt.Sprint(id), "state": job["job_state"]})
	}
	body, err := json.Marshal(map[string]any{"jobs": states, "errors": []any{}, "warnings": []any{}})
	if err != nil {
		panic(err)
	}
	return string(body)
}

func (f *fakeSlurmrestd) one(w http.ResponseWriter, id int) {
	f.mu.Lock()
	_, known := f.jobs[id]
	f.mu.Unlock()
	if !known {
		sayFile(w, 404, "job-gone.json")
		return
	}
	say(w, 200, f.listing(func(other int) bool { return other == id }))
}

// requeue is what a POST of jobs to be requeued does.
func (f *fakeSlurmrestd) requeue(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bodies = append(f.bodies, string(text))
	say(w, 200, `{"status":[],"errors":[],"warnings":[]}`)
}

// apply does to a job what Slurm does with an update.
func (f *fakeSlurmrestd) apply(w http.ResponseWriter, r *http.Request, id int) {
	text, err := io.ReadAll(r.Body)
	var update map[string]any
	if err != nil || json.Unmarshal(text, &update) != nil {
		sayFile(w, 422, "update-malformed.json")
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bodies = append(f.bodies, string(text))
	job := f.jobs[id]
	for field, value := range update {
		write(job, field, value)
	}
	job["state_reason"] = "None"
	sayFile(w, 200, "update-done.json")
}

func write(job map[string]any, field string, value any) {
	set := func(n any) map[string]any { return map[string]any{"set": true, "infinite": false, "number": n} }
	switch field {
	case "begin_time":
		n := value.(map[string]any)["number"]
		if n == 1.0 {
			n = float64(time.Now().Unix())
		}
		job["eligible_time"], job["start_time"] = set(n), set(n)
	case "minimum_cpus":
		job["cpus"] = set(value)
	case "required_nodes":
		var names []string
		for _, name := range value.([]any) {
			names = append(names, name.(string))
		}
		job["required_nodes"] = strings.Join(names, ",")
	case "memory_per_node":
		job["memory_per_node"], job["memory_per_cpu"] = value, map[string]any{"set": false, "number": 0}
	case "memory_per_cpu":
		job["memory_per_cpu"], job["memory_per_node"] = value, map[string]any{"set": false, "number": 0}
	case "tasks", "cpus_per_task", "minimum_cpus_per_node":
		job[field] = set(value)
	default:
		job[field] = value
	}
}

func say(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func sayFile(w http.ResponseWriter, status int, name string) {
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		panic(err)
	}
	say(w, status, string(body))
}

// always answers every request of a kind alike.
func always(status int, file string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { sayFile(w, status, file) }
}

// text answers with JSON that no recording has.
func text(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { say(w, status, body) }
}

const secret = "header.payload.signature"

func tokenIn(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// open makes a client of the fake.
func (f *fakeSlurmrestd) open(t *testing.T, options Options) *Client {
	t.Helper()
	options.URL = f.URL
	options.TokenFile = cmp.Or(options.TokenFile, tokenIn(t))
	client, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	f.saw()
	return client
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}
