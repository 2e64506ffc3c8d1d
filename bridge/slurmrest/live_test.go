//go:build live

package slurmrest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// cluster is a Slurm in containers; SYNERGY_CLUSTER names its project.
type cluster struct {
	script  string
	project string
}

func liveCluster(t *testing.T) cluster {
	t.Helper()
	project := os.Getenv("SYNERGY_CLUSTER")
	if project == "" {
		t.Fatal("SYNERGY_CLUSTER: want the project of a running cluster, such as synergy")
	}
	script, err := filepath.Abs("../../contrib/docker-slurm/cluster.sh")
	if err != nil {
		t.Fatal(err)
	}
	return cluster{script, project}
}

func (c cluster) run(t *testing.T, input string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), c.script, arguments...)
	command.Env = append(os.Environ(), "PROJECT="+c.project)
	command.Stdin = strings.NewReader(input)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", arguments, err, said.String())
	}
	return strings.TrimSpace(string(out))
}

func (c cluster) open(t *testing.T) *slurmrest.Client {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(c.run(t, "", "exec", "login", "synergy", "cat", "/shared/synergy/token")),
		0o600); err != nil {
		t.Fatal(err)
	}
	client, err := slurmrest.Open(t.Context(), slurmrest.Options{
		URL:       c.run(t, "", "rest-url"),
		User:      "synergy",
		TokenFile: token,
		Scontrol:  []string{"env", "PROJECT=" + c.project, c.script, "exec", "login", "synergy", "scontrol"},
		Environ:   os.Environ(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

var number = regexp.MustCompile(`^\d+`)

// submit hands in a job of alice that ends with the test.
func (c cluster) submit(t *testing.T, script string, arguments ...string) int {
	t.Helper()
	sbatch := append([]string{"exec", "login", "alice", "sbatch", "--parsable", "-D", "/tmp", "-p", "plain"},
		arguments...)
	id, err := strconv.Atoi(number.FindString(c.run(t, "#!/bin/sh\n"+script+"\n", sbatch...)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command := exec.Command(c.script, "exec", "login", "alice", "scancel", strconv.Itoa(id))
		command.Env = append(os.Environ(), "PROJECT="+c.project)
		_ = command.Run()
	})
	return id
}

// see observes until the job looks right.
func see(t *testing.T, client *slurmrest.Client, id int, what string, right func(slurm.Job) bool) slurm.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		seen, err := client.Observe(ctx)
		if err != nil {
			t.Fatalf("job %d %s: %v", id, what, err)
		}
		at := slices.IndexFunc(seen.Jobs, func(j *slurm.Job) bool { return j.ID == id })
		if at >= 0 && right(*seen.Jobs[at]) {
			return *seen.Jobs[at]
		}
		time.Sleep(300 * time.Millisecond)
	}
}

func waits(j slurm.Job) bool { return j.State == slurm.Pending && !j.Completing }
func runs(j slurm.Job) bool  { return j.State == slurm.Running && len(j.Runs.Nodes) > 0 }

func TestAGatedJobStartsWithExactlyTheSizeThatItIsGiven(t *testing.T) {
	on := liveCluster(t)
	client := on.open(t)
	id := on.submit(t, "sleep 60", "-b", "now+1000", "-c", "3", "--gres=gpu:2", "--mem=5000",
		"--comment=synergy-profile=x.json")
	job := see(t, client, id, "to wait", waits)
	request := job.Request
	request.CPUsPerTask, request.CPUs, request.CPUsPerNode, request.Memory, request.Pin = 7, 7, 7, 41000, []string{"n3"}
	if err := client.Update(t.Context(), slurm.Update{Job: id, Begin: time.Now(), Request: request,
		Extra: "annotation"}); err != nil {
		t.Fatal(err)
	}
	job = see(t, client, id, "to run", runs)
	if want := (gres.Vector{GPUs: 2, CPUs: 7, Memory: 41000}); job.Runs.PerNode != want || job.Runs.Nodes[0] != "n3" ||
		job.Extra != "annotation" {
		t.Errorf("runs with %+v, extra %q: want %v on n3", job.Runs, job.Extra, want)
	}
}

func TestAMemoryPerCPURequestCanBeGivenBack(t *testing.T) {
	on := liveCluster(t)
	client := on.open(t)
	id := on.submit(t, "sleep 60", "-b", "now+1000", "-n", "2", "-c", "2", "--mem-per-cpu=700")
	own := see(t, client, id, "to wait", waits).Request
	sized := own
	sized.MemoryPerCPU, sized.Memory, sized.Pin = 0, 9000, []string{"n1"}
	begin := time.Now().Add(time.Hour)
	for _, request := range []slurm.Request{sized, own} {
		if err := client.Update(t.Context(), slurm.Update{Job: id, Begin: begin, Request: request}); err != nil {
			t.Fatal(err)
		}
		see(t, client, id, "to show its request", func(j slurm.Job) bool {
			return j.Request.Memory == request.Memory && j.Request.MemoryPerCPU == request.MemoryPerCPU &&
				len(j.Request.Pin) == len(request.Pin)
		})
	}
}

func TestAJobThatIsAskedToSaveComesBackToTheQueue(t *testing.T) {
	on := liveCluster(t)
	client := on.open(t)
	id := on.submit(t, "trap 'exit 98' USR1\nsleep 100 & wait", "--no-requeue")
	see(t, client, id, "to run", runs)
	time.Sleep(time.Second) // the shell sets its trap
	if err := client.Signal(t.Context(), id, slurm.Signal{Name: "USR1"}); err != nil {
		t.Fatal(err)
	}
	job := see(t, client, id, "to wait again", waits)
	if job.Restarts != 1 || !job.Requeue {
		t.Errorf("restarts %d, requeue %v: want 1, true", job.Restarts, job.Requeue)
	}
}

func TestARequeuedJobWaitsAndARepeatChangesNothing(t *testing.T) {
	on := liveCluster(t)
	client := on.open(t)
	id := on.submit(t, "sleep 100", "--no-requeue")
	see(t, client, id, "to run", runs)
	for range 2 {
		if err := client.Requeue(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	see(
		t,
		client,
		id,
		"to wait again",
		func(j slurm.Job) bool { return waits(j) && j.Restarts == 1 && !j.Begin.IsZero() },
	)
}

// renewed says what became of a renewal that rests on what the client read before something happened to the job.
func renewed(t *testing.T, on cluster, behind func(id int, job slurm.Job)) (id int, client *slurmrest.Client,
	err error) {
	t.Helper()
	client = on.open(t)
	id = on.submit(t, "sleep 60", "-b", "now+1000", "-c", "3", "--gres=gpu:1", "--mem=5000",
		"--comment=synergy-profile=x.json")
	job := see(t, client, id, "to wait", waits)
	behind(id, job)
	err = client.Update(t.Context(), slurm.Update{Job: id, Begin: time.Now().Add(3 * time.Second),
		Request: job.Request, Extra: "renewed"})
	return id, client, err
}

func TestARenewalLiftsNobodysHold(t *testing.T) {
	on := liveCluster(t)
	for _, holder := range []string{"alice", "root"} {
		id, client, err := renewed(t, on, func(id int, _ slurm.Job) {
			on.run(t, "", "exec", "login", holder, "scontrol", "hold", strconv.Itoa(id))
		})
		if err != nil {
			t.Errorf("held by %s: %v", holder, err)
		}
		time.Sleep(8 * time.Second) // its lease has lapsed, and the scheduler has looked
		job := see(t, on.open(t), id, "to be seen", func(slurm.Job) bool { return true })
		if job.State != slurm.Pending || !job.Held || job.Extra != "renewed" {
			t.Errorf("held by %s: %s, held %v, extra %q: want it pending, held and annotated", holder, job.State,
				job.Held, job.Extra)
		}
		if err := client.Update(t.Context(), slurm.Update{Job: id, Begin: time.Now(),
			Request: job.Request}); !errors.Is(err, slurm.ErrHeld) {
			t.Errorf("held by %s, then started: %v, want held", holder, err)
		}
	}
}

func TestARenewalOfAJobThatHasStartedOrEndedIsNotPendingAndLeavesItsSize(t *testing.T) {
	on := liveCluster(t)
	id, client, err := renewed(t, on, func(id int, job slurm.Job) {
		other := on.open(t)
		see(t, other, id, "to wait", waits)
		request := job.Request
		request.CPUsPerTask, request.CPUs, request.CPUsPerNode = 5, 5, 5
		if err := other.Update(t.Context(), slurm.Update{Job: id, Begin: time.Now(), Request: request,
			Extra: "started"}); err != nil {
			t.Fatal(err)
		}
		see(t, other, id, "to run", runs)
	})
	if job := see(t, client, id, "to run", runs); !errors.Is(err, slurm.ErrNotPending) || job.Request.CPUs != 5 ||
		job.Runs.PerNode.CPUs != 5 {
		t.Errorf("%v; asks for %v and runs with %v: want not pending, and 5 CPUs", err, job.Request, job.Runs)
	}
	_, _, err = renewed(
		t,
		on,
		func(id int, _ slurm.Job) { on.run(t, "", "exec", "login", "alice", "scancel", strconv.Itoa(id)) },
	)
	if !errors.Is(err, slurm.ErrNotPending) {
		t.Errorf("cancelled: %v, want not pending", err)
	}
}
