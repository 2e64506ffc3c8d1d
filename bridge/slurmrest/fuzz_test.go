package slurmrest

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/slurmctld"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/v0042"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// Whatever comes as an answer, reading it ends in jobs and nodes that hold together, or in an error.
func FuzzAnswers(f *testing.F) {
	for _, name := range []string{"nodes.json", "states.json", "job-gone.json", "signal-pending.json",
		"update-unknown-field.json"} {
		f.Add(recorded(f, name))
	}
	f.Add(slimJob(f))
	f.Add(
		[]byte(
			`{"jobs":[{"job_id":1,"job_state":["RUNNING"],"gres_detail":["gpu:(null"],"job_resources":{"nodes":{"allocation":[{},{}]}}}]}`))
	f.Add([]byte(`{"nodes":[{"gres":"gpu:1","gres_used":"shard:((1/1),gpu:-1"}]}`))
	f.Add([]byte(`{"jobs":[{"job_id":"1","state":["PENDING"]},{"job_id":"_"}]}`))
	api := v0042.API("")
	client := &link{api: api}
	f.Fuzz(func(t *testing.T, body []byte) {
		jobs, err := readJobs(body)
		for _, job := range jobs {
			if err != nil || len(job.Runs.Nodes) > 0 && job.State != slurm.Running && !job.Completing {
				t.Errorf("%v: job %+v holds nodes", err, job)
			}
		}
		nodes, _, err := api.Nodes().Read(body)
		for i := range nodes {
			node := readNode(&nodes[i])
			if err != nil || node.Allocated.GPUs > node.Total.GPUs {
				t.Errorf("%v: node %+v holds more GPUs than it has", err, node)
			}
		}
		if states, _, err := api.States().Read(body); err == nil {
			_, _ = foldStates(states, map[int]bool{1: true})
		}
		if client.failureIn(500, body) == nil {
			t.Error("a failed request is a success")
		}
		_, _, _ = api.Signal("1", "USR1", wire.Script).Read(body)
	})
}

// slimJob is a recorded running job with nothing but the fields that are read: a short seed is mutated where it
// matters.
func slimJob(f *testing.F) []byte {
	f.Helper()
	var answer slurmctld.JobInfoResp
	if err := json.Unmarshal(recorded(f, "jobs.json"), &answer); err != nil {
		f.Fatal(err)
	}
	answer.Jobs = slices.DeleteFunc(answer.Jobs, func(job slurmctld.JobInfo) bool { return job.Name != "multinode" })
	body, err := json.Marshal(answer)
	if err != nil {
		f.Fatal(err)
	}
	return body
}

// Whatever a job waits for, its lease is told from it and given back with it.
func FuzzWhatAJobWaitsFor(f *testing.F) {
	for _, text := range []string{
		"", "afterany:17(unfulfilled)", "afterok:5(unfulfilled),afterany:17(unfulfilled)", "afterok:5?afterany:17",
		"afterany:18(unfulfilled)", "singleton(unfulfilled)", "afterany:17_*(unfulfilled)", "afterany:17_3",
		"after:17+5(unfulfilled)", "afterany:", "afterany:-17", "afterany:017", ",,", "afterany:17,afterany:17",
	} {
		f.Add(text)
	}
	leases := map[int]bool{17: true, 18: false} // one that lives, and one that is over
	f.Fuzz(func(t *testing.T, text string) {
		job := parsedJob{dependency: text, Job: slurm.Job{Dependency: text != ""}}
		job.depend(leases)
		if job.Lease != 0 && job.Lease != 17 || job.Either && job.Lease != 0 {
			t.Fatalf("%q: lease %d", text, job.Lease)
		}
		if job.Dependency != (job.dependency != "") {
			t.Fatalf("%q: waits for others %t: %q", text, job.Dependency, job.dependency)
		}
		if job.Either {
			return
		}
		again := parsedJob{dependency: job.dependsOn(17)}
		again.depend(leases)
		if again.Lease != 17 || again.dependency != job.dependency {
			t.Fatalf("%q: becomes %q, lease %d", job.dependency, again.dependency, again.Lease)
		}
	})
}
