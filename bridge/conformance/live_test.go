//go:build live

package conformance_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/conformance"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest"
)

// The cluster of contrib/docker-slurm whose project SYNERGY_CLUSTER names. Most of the time the tests wait, so that all
// ways to it can be tried at once.
func TestSlurmrestKeepsThePromises(t *testing.T) {
	here := openCluster(t)
	labs := map[string]conformance.Lab{"here": here, "in another process": here.throughPlugin(t)}
	if here.version != oldest {
		labs["over "+oldest] = here.over(t, oldest)
	}
	for name, lab := range labs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conformance.Run(t, func(*testing.T) conformance.Lab { return lab })
		})
	}
}

// Each way to it has a turn: there is one lease job.
func TestSlurmrestKeepsTheLeaseJob(t *testing.T) {
	here := openCluster(t)
	conformance.RunLeaseJob(t, func(*testing.T) conformance.LeaseLab { return here })
	if here.version != oldest {
		t.Run("over "+oldest, func(t *testing.T) {
			old := here.over(t, oldest)
			conformance.RunLeaseJob(t, func(*testing.T) conformance.LeaseLab { return old })
		})
	}
}

// The same cluster with NODE_DEVICES=yes.
func TestSlurmrestSeatsJobsOnDevices(t *testing.T) {
	here := openCluster(t)
	conformance.RunDivided(t, func(*testing.T) conformance.Lab { return here })
}

// oldest is the API version that every Slurm up to 26.05 serves, and the only one that is spoken without a requeue.
const oldest = "v0.0.42"

// Most of the time each of them waits, however few cores there are.
func init() { atOnce = "8" }

// cluster is a lab on a real Slurm, shared by all tests.
type cluster struct {
	project string
	url     string
	version string // of the API
	slurm   slurm.Manager
	tickets leader.Tickets
	leases  slurm.Leases
}

func (c *cluster) Leases() slurm.Leases { return c.leases }

const script = "../../contrib/docker-slurm/cluster.sh"

func openCluster(t *testing.T) *cluster {
	t.Helper()
	project := os.Getenv("SYNERGY_CLUSTER")
	if project == "" {
		t.Fatal("SYNERGY_CLUSTER is empty: start a cluster (make cluster-up) and name its project")
	}
	t.Setenv("PROJECT", project) // for scontrol, which is started by the client
	c := &cluster{project: project}
	url, err := c.run("", "rest-url")
	if err != nil {
		t.Fatal(err)
	}
	c.url = strings.TrimSpace(url)
	return c.over(t, "")
}

// over is the same cluster, driven over that version of the API, or over the newest.
func (c *cluster) over(t *testing.T, version string) *cluster {
	t.Helper()
	options := slurmrest.Options{
		URL: c.url, User: "synergy", TokenFile: c.token(t), Scontrol: scontrol(t, version), Environ: os.Environ(),
		APIVersion: version,
	}
	client, err := slurmrest.Open(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if version == "" && client.Version() == oldest {
		return c.over(t, oldest)
	}
	return &cluster{project: c.project, url: c.url, version: client.Version(), slurm: client,
		tickets: client.Tickets(conformance.Managed), leases: client.Leases(conformance.Managed)}
}

// scontrol is how it is run where the API has no requeue; elsewhere there is none.
func scontrol(t *testing.T, version string) []string {
	if version != oldest {
		return []string{"/nonexistent/scontrol"}
	}
	return []string{absolute(t, script), "exec", "login", "synergy", "scontrol"}
}

// throughPlugin is the same cluster, driven by contrib/plugins/slurmrest.
func (c *cluster) throughPlugin(t *testing.T) *cluster {
	t.Helper()
	program := filepath.Join(t.TempDir(), "slurmrest")
	if out, err := exec.Command("go", "build", "-o", program,
		"../../contrib/plugins/slurmrest").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	config, err := json.Marshal(map[string]any{
		"url": c.url, "user": "synergy", "token_file": c.token(t), "scontrol": scontrol(t, c.version),
		"environ": os.Environ(),
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err := plugin.Open(context.Background(), plugin.Options{
		Path: program, Config: plugin.Configuration{File: config, TicketPartition: conformance.Managed},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &cluster{project: c.project, url: c.url, version: c.version, slurm: client, tickets: client}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// token copies the operator's token out of the cluster; it outlives the test.
func (c *cluster) token(t *testing.T) string {
	t.Helper()
	token, err := c.exec("synergy", "", "cat", "/shared/synergy/token")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// exec runs a command as a user of the login node.
func (c *cluster) exec(user, input string, argv ...string) (string, error) {
	return c.run(input, append([]string{"exec", "login", user}, argv...)...)
}

func (c *cluster) run(input string, argv ...string) (string, error) {
	command := exec.Command(script, argv...)
	var out, problem bytes.Buffer
	command.Env = append(os.Environ(), "PROJECT="+c.project)
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &problem
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, &problem)
	}
	return out.String(), nil
}

func (c *cluster) Slurm() slurm.Manager    { return c.slurm }
func (c *cluster) Tickets() leader.Tickets { return c.tickets }
func (c *cluster) Sleep(d time.Duration)   { time.Sleep(d) }

func (c *cluster) Release(t testing.TB, job int) {
	t.Helper()
	if _, err := c.exec("root", "", "scontrol", "release", strconv.Itoa(job)); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) Administer(t testing.TB, job int, says string) {
	t.Helper()
	if _, err := c.exec("root", "", "scontrol", "update", "jobid="+strconv.Itoa(job),
		"admincomment="+says); err != nil {
		t.Fatal(err)
	}
}

// Reserve lets it overlap with others, since all labs on a cluster reserve the same.
func (c *cluster) Reserve(t testing.TB, r conformance.Reservation) {
	t.Helper()
	if _, err := c.exec("root", "", "scontrol", "create", "reservation", "reservationname="+r.Name, "nodes="+r.Node,
		"users=alice", "flags=overlap",
		fmt.Sprintf("starttime=now+%d", int(r.In.Seconds())),
		fmt.Sprintf("duration=%d", int(r.Lasts.Minutes()))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := c.exec("root", "", "scontrol", "delete", "reservation="+r.Name); err != nil {
			t.Error(err)
		}
	})
}

func (c *cluster) Drain(t testing.TB, node string) {
	t.Helper()
	if _, err := c.exec("root", "", "scontrol", "update", "nodename="+node, "state=drain",
		"reason=conformance"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := c.exec("root", "", "scontrol", "update", "nodename="+node, "state=resume"); err != nil {
			t.Error(err)
		}
	})
}

func (c *cluster) Submit(t testing.TB, job conformance.Job) int {
	t.Helper()
	var answer string
	var err error
	if job.Form == conformance.Interactive {
		answer, err = c.exec("alice", "", "sh", "-c",
			"salloc --no-shell --partition=plain 2>&1 | grep -o '[0-9]*$' | tail -n 1")
	} else {
		answer, err = c.exec(submitter(job), "#!/bin/bash\n"+body(job)+"\n", sbatch(job)...)
	}
	if err != nil {
		t.Fatal(err)
	}
	id, err := strconv.Atoi(strings.TrimSpace(answer))
	if err != nil {
		t.Fatalf("submit %+v: answer %q", job, answer)
	}
	t.Cleanup(func() { _, _ = c.exec("alice", "", "scancel", strconv.Itoa(id)) })
	return id
}

// submitter is who hands a job of alice's in: only an operator sets priorities.
func submitter(job conformance.Job) string {
	if job.Priority > 0 {
		return "root"
	}
	return "alice"
}

// sbatch is the command line of a submission.
func sbatch(job conformance.Job) []string {
	line := []string{"sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null",
		"--job-name=" + cmp.Or(job.Name, "conformance")}
	line = append(line, options(job)...)
	switch job.Form {
	case conformance.Array:
		line = append(line, "--array=1-2")
	case conformance.Exclusive:
		line = append(line, "--exclusive")
	case conformance.Het:
		line = append(append(line, ":"), options(job)...)
	}
	return line
}

func options(job conformance.Job) []string {
	asks, partition := job.Asks, conformance.Plain
	if job.Partition != "" {
		partition = job.Partition
	}
	line := append([]string{"--partition=" + partition}, words(job)...)
	for _, number := range []struct {
		option string
		value  int
	}{
		{"--nodes", asks.Nodes},
		{"--ntasks", asks.Tasks},
		{"--cpus-per-task", asks.CPUsPerTask},
		{"--mem", int(asks.Memory)},
		{"--mem-per-cpu", int(asks.MemoryPerCPU)},
		{"--cpus-per-gpu", asks.CPUsPerGPU},
		{"--mem-per-gpu", int(asks.MemoryPerGPU)},
		{"--time", int(job.Limit.Minutes())},
		{"--priority", int(job.Priority)},
	} {
		if number.value > 0 {
			line = append(line, fmt.Sprintf("%s=%d", number.option, number.value))
		}
	}
	if asks.GPUs > 0 {
		line = append(line, fmt.Sprintf("--gres=gpu:%d", asks.GPUs/max(1, asks.Nodes)))
	}
	if len(asks.Pin) > 0 {
		line = append(line, "--nodelist="+strings.Join(asks.Pin, ","))
	}
	if len(job.Except) > 0 {
		line = append(line, "--exclude="+strings.Join(job.Except, ","))
	}
	return line
}

// words are the options that are no amounts.
func words(job conformance.Job) []string {
	var line []string
	if job.Comment != "" {
		line = append(line, "--comment="+job.Comment)
	}
	if job.Begin > 0 {
		line = append(line, fmt.Sprintf("--begin=now+%d", int(job.Begin.Seconds())))
	}
	if job.NoRequeue {
		line = append(line, "--no-requeue")
	}
	if job.Held {
		line = append(line, "--hold")
	}
	if job.Deadline > 0 {
		line = append(line, fmt.Sprintf("--deadline=now+%d", int(job.Deadline.Seconds())))
	}
	for option, text := range map[string]string{"--qos=": job.QOS, "--account=": job.Account,
		"--reservation=": job.Reservation} {
		if text != "" {
			line = append(line, option+text)
		}
	}
	if job.Priority > 0 {
		line = append(line, "--uid=alice", "--gid=alice")
	}
	if job.After > 0 {
		line = append(line, fmt.Sprintf("--dependency=afterany:%d", job.After))
	}
	return line
}

// body is what the job does: a trap runs only while bash waits for something in the background.
func body(job conformance.Job) string {
	lasts := "infinity"
	if job.Lasts > 0 {
		lasts = fmt.Sprintf("%d", int(job.Lasts.Seconds()))
	}
	switch job.Does {
	case conformance.Saves:
		return "trap 'sleep 1; exit 98' USR1 TERM\nsleep " + lasts + " & wait"
	case conformance.Steps:
		return `srun --ntasks=1 bash -c 'trap "sleep 1; scontrol requeue $SLURM_JOB_ID" USR1; while :; do sleep 0.2; done'`
	case conformance.Hangs:
		return "trap '' USR1 TERM\nwhile :; do sleep 1; done"
	}
	return "exec sleep " + lasts
}
