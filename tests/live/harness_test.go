//go:build live

// Package live holds the tests that need a running Slurm: the cluster of
// contrib/docker-slurm, named by SYNERGY_CLUSTER. They know the product only by
// what it does to Slurm, and import none of it. A missing cluster is a failure
// and not a skip.
package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Cluster is the cluster under test. Its methods end the test when the cluster
// itself misbehaves; what Slurm refuses comes back as an error.
type Cluster struct {
	t       testing.TB
	project string
}

// JobID is Slurm's number of a job.
type JobID int

func (id JobID) String() string { return strconv.Itoa(int(id)) }

// OpenCluster finds the cluster that SYNERGY_CLUSTER names.
func OpenCluster(t testing.TB) *Cluster {
	t.Helper()
	project := os.Getenv("SYNERGY_CLUSTER")
	if project == "" {
		t.Fatal("SYNERGY_CLUSTER is empty: start a cluster (make cluster-up) and name its project")
	}
	c := &Cluster{t: t, project: project}
	c.container("login")
	return c
}

// Exec runs a command as a user of one role (login, slurmctld, n1, …) and
// returns its standard output. The error holds what it said on standard error.
func (c *Cluster) Exec(role, user string, argv ...string) (string, error) {
	return c.ExecInput(role, user, "", argv...)
}

// ExecInput is Exec with something to read on standard input.
func (c *Cluster) ExecInput(role, user, input string, argv ...string) (string, error) {
	c.t.Helper()
	o, err := c.inContainer(role, user, input, argv)
	if err == nil && o.rc != 0 {
		err = fmt.Errorf("exit status %d", o.rc)
	}
	if err != nil {
		return o.stdout, fmt.Errorf("%s as %s on %s: %w: %s", argv[0], user, role, err, o.stderr)
	}
	return strings.TrimSpace(o.stdout), nil
}

// MustExec is Exec for a command that has to succeed.
func (c *Cluster) MustExec(role, user string, argv ...string) string {
	c.t.Helper()
	out, err := c.Exec(role, user, argv...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// Sbatch submits a script from the user's home. The job is cancelled when the
// test ends.
func (c *Cluster) Sbatch(user, script string, args ...string) (JobID, error) {
	c.t.Helper()
	argv := append([]string{"sbatch", "--parsable", "--chdir=/shared/home/" + user}, args...)
	out, err := c.ExecInput("login", user, "#!/bin/bash\n"+script+"\n", argv...)
	if err != nil {
		return 0, err
	}
	id, err := strconv.Atoi(out)
	if err != nil {
		c.t.Fatalf("sbatch answers %q", out)
	}
	c.CancelAtEnd(JobID(id))
	return JobID(id), nil
}

// MustSbatch is Sbatch for a job that has to be accepted.
func (c *Cluster) MustSbatch(user, script string, args ...string) JobID {
	c.t.Helper()
	id, err := c.Sbatch(user, script, args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return id
}

// CancelAtEnd cancels the job when the test ends; a job that has ended by then
// does not mind.
func (c *Cluster) CancelAtEnd(id JobID) {
	c.t.Cleanup(func() { _, _ = c.Exec("login", "root", "scancel", id.String()) })
}

// Update is scontrol update as a user.
func (c *Cluster) Update(user string, id JobID, changes ...string) error {
	c.t.Helper()
	_, err := c.Exec("login", user, append([]string{"scontrol", "update", "jobid=" + id.String()}, changes...)...)
	return err
}

// Keys of scontrol begin with a capital, which our directives in a comment do not.
var scontrolKey = regexp.MustCompile(`(?:^|\s)([A-Z][A-Za-z/:]*)=`)

// ShowJob is scontrol show job, by key.
func (c *Cluster) ShowJob(id JobID) map[string]string {
	c.t.Helper()
	return fields(c.MustExec("login", "root", "scontrol", "show", "job", id.String()))
}

// Jobs is scontrol show job of all jobs, by key, asked on a node, since tests cut off or stop the other roles.
func (c *Cluster) Jobs() map[JobID]map[string]string {
	c.t.Helper()
	jobs := map[JobID]map[string]string{}
	for line := range strings.Lines(c.MustExec("n1", "root", "scontrol", "--oneliner", "show", "jobs")) {
		job := fields(line)
		if id, err := strconv.Atoi(job["JobId"]); err == nil {
			jobs[JobID(id)] = job
		}
	}
	return jobs
}

// ShowNode is scontrol show node, by key.
func (c *Cluster) ShowNode(name string) map[string]string {
	c.t.Helper()
	return fields(c.MustExec("login", "root", "scontrol", "show", "node", name))
}

func fields(text string) map[string]string {
	byKey := make(map[string]string)
	keys := scontrolKey.FindAllStringSubmatchIndex(text, -1)
	for i, at := range keys {
		end := len(text)
		if i+1 < len(keys) {
			end = keys[i+1][0]
		}
		byKey[text[at[2]:at[3]]] = strings.TrimSpace(text[at[1]:end])
	}
	return byKey
}

// State is the job's base state, such as PENDING or RUNNING.
func (c *Cluster) State(id JobID) string {
	c.t.Helper()
	return c.ShowJob(id)["JobState"]
}

// WaitFor waits until the condition holds, at most a minute.
func (c *Cluster) WaitFor(what string, holds func() bool) {
	c.t.Helper()
	c.WaitLong(what, time.Minute, holds)
}

// WaitLong waits until the condition holds, at most so long. To ask Slurm is a process in a container, and with several
// clusters that is most of what a machine does: who has waited for seconds asks less often.
func (c *Cluster) WaitLong(what string, most time.Duration, holds func() bool) {
	c.t.Helper()
	began := time.Now()
	for !holds() {
		waited := time.Since(began)
		if waited > most {
			c.t.Fatalf("waited %v in vain until %s", most, what)
		}
		time.Sleep(min(1500*time.Millisecond, 400*time.Millisecond+waited/10))
	}
}

// WaitForState waits until the job is in the state, and logs the job as Slurm shows it if it never is.
func (c *Cluster) WaitForState(id JobID, state string) {
	c.t.Helper()
	defer func() {
		if c.t.Failed() {
			text, err := c.Exec("login", "root", "scontrol", "show", "job", id.String())
			c.t.Logf("%s %v", text, err)
		}
	}()
	c.WaitFor(fmt.Sprintf("job %s is %s", id, state), func() bool { return c.State(id) == state })
}

// Setting is one of the cluster's settings, such as LEASE or NODES.
func (c *Cluster) Setting(name string) int {
	c.t.Helper()
	value, err := strconv.Atoi(c.MustExec("login", "root", "printenv", name))
	if err != nil {
		c.t.Fatalf("setting %s: %v", name, err)
	}
	return value
}

// RestURL is slurmrestd's address as this host sees it.
func (c *Cluster) RestURL() string {
	c.t.Helper()
	const address = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
	return "http://" + c.docker("inspect", "-f", address, c.container("slurmrestd")) + ":6820"
}

// Token is the daemon's token, as the daemon reads it.
func (c *Cluster) Token() string {
	c.t.Helper()
	return c.MustExec("login", "synergy", "cat", "/shared/synergy/token")
}

// TokenOf mints a token for another user.
func (c *Cluster) TokenOf(user string) string {
	c.t.Helper()
	answer := c.MustExec("slurmctld", "root", "scontrol", "token", "username="+user)
	return strings.TrimPrefix(answer, "SLURM_JWT=")
}

// Answer is what slurmrestd says, as far as tests look at it.
type Answer struct {
	Status int
	JobID  JobID `json:"job_id"`
	Errors []struct {
		Number int    `json:"error_number"`
		Text   string `json:"error"`
	} `json:"errors"`
	Jobs []struct {
		Devices []string `json:"gres_detail"`
		Admin   string   `json:"admin_comment"`
	} `json:"jobs"`
}

// Refusal is the first error's number, 0 if there is none.
func (a Answer) Refusal() int {
	if len(a.Errors) == 0 {
		return 0
	}
	return a.Errors[0].Number
}

// Post sends a body to a path below /slurm/v0.0.42.
func (c *Cluster) Post(token, path string, body any) Answer {
	c.t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		c.t.Fatalf("body for %s: %v", path, err)
	}
	request, err := http.NewRequest(http.MethodPost, c.RestURL()+"/slurm/v0.0.42"+path, bytes.NewReader(encoded))
	if err != nil {
		c.t.Fatalf("post %s: %v", path, err)
	}
	request.Header.Set("Content-Type", "application/json")
	return c.send(request, token)
}

// Get asks for a path below /slurm/v0.0.42.
func (c *Cluster) Get(token, path string) Answer {
	c.t.Helper()
	request, err := http.NewRequest(http.MethodGet, c.RestURL()+"/slurm/v0.0.42"+path, nil)
	if err != nil {
		c.t.Fatalf("get %s: %v", path, err)
	}
	return c.send(request, token)
}

func (c *Cluster) send(request *http.Request, token string) Answer {
	c.t.Helper()
	request.Header.Set("X-SLURM-USER-TOKEN", token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatalf("ask slurmrestd: %v", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatalf("read slurmrestd's answer: %v", err)
	}
	answer := Answer{Status: response.StatusCode}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(body, &answer); err != nil {
			c.t.Fatalf("slurmrestd's answer: %v: %s", err, body)
		}
	}
	return answer
}

// container is the id of the role's running container. Docker compose labels
// its containers alike in all its versions, but names them differently.
func (c *Cluster) container(role string) string {
	c.t.Helper()
	id := c.docker("ps", "-q",
		"--filter", "label=com.docker.compose.project="+c.project,
		"--filter", "label=com.docker.compose.service="+role)
	if id == "" {
		c.t.Fatalf("cluster %s has no running %s: make cluster-up PROJECT=%s", c.project, role, c.project)
	}
	return id
}

// compute is the role of the first node's container, which several nodes may share.
func (c *Cluster) compute() string {
	c.t.Helper()
	roles := c.docker("ps", "--format", `{{.Label "com.docker.compose.service"}}`,
		"--filter", "label=com.docker.compose.project="+c.project)
	if slices.Contains(strings.Fields(roles), "nodes1") {
		return "nodes1"
	}
	return "n1"
}

func (c *Cluster) docker(argv ...string) string {
	c.t.Helper()
	out, err := exec.Command("docker", argv...).Output()
	if err != nil {
		c.t.Fatalf("docker %s: %v", argv[0], err)
	}
	return strings.TrimSpace(string(out))
}
