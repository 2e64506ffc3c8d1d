//go:build live

package live

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestUsersHaveTheSameUIDInEveryRole(t *testing.T) {
	c := OpenCluster(t)
	for _, user := range []string{"alice", "bob", "synergy", "slurm", "slurmrest", "munge"} {
		want := c.MustExec("login", "root", "id", "-u", user)
		for _, role := range []string{"slurmctld", "slurmdbd", "slurmrestd", "n1"} {
			if got := c.MustExec(role, "root", "id", "-u", user); got != want {
				t.Errorf("%s is %s on %s and %s on login", user, got, role, want)
			}
		}
	}
}

func TestTheDaemonsUserIsAnOperatorAndNoMore(t *testing.T) {
	c := OpenCluster(t)
	level := c.MustExec("login", "root", "sacctmgr", "-nP", "show", "user", "synergy", "format=adminlevel")
	if level != "Operator" {
		t.Errorf("admin level of synergy is %q", level)
	}
	id := c.MustSbatch("alice", "sleep 60", "--hold")
	if err := c.Update("synergy", id, "comment=seen"); err != nil {
		t.Errorf("an operator changes another user's job: %v", err)
	}
	if err := c.Update("synergy", id, "admincomment=seen"); err == nil {
		t.Error("an operator may write the administrators' comment")
	}
}

func TestAFinishedJobIsInAccountingWithItsGPUs(t *testing.T) {
	c := OpenCluster(t)
	id := c.MustSbatch("alice", "true", "--gres=gpu:2")
	c.WaitForState(id, "COMPLETED")
	c.WaitFor("accounting has the job's end", func() bool {
		line := c.MustExec("login", "alice", "sacct", "-nXP", "-j", id.String(), "-o", "state,alloctres")
		return strings.HasPrefix(line, "COMPLETED|") && strings.Contains(line, "gres/gpu=2")
	})
}

func TestSlurmrestdRunsUnprivileged(t *testing.T) {
	c := OpenCluster(t)
	if owner := c.MustExec("slurmrestd", "root", "ps", "-C", "slurmrestd", "-o", "user="); owner != "slurmrest" {
		t.Errorf("slurmrestd runs as %q", owner)
	}
}

func TestEveryNodeLooksLikeAGPUServer(t *testing.T) {
	c := OpenCluster(t)
	for i := 1; i <= c.Setting("NODES"); i++ {
		name := fmt.Sprintf("n%d", i)
		node := c.ShowNode(name)
		for key, want := range map[string]string{
			"CPUTot":     fmt.Sprint(c.Setting("NODE_CPUS")),
			"Sockets":    "2",
			"RealMemory": fmt.Sprint(c.Setting("NODE_MEMORY")),
			"Gres":       fmt.Sprintf("gpu:%d,shard:%d", c.Setting("NODE_GPUS"), 4*c.Setting("NODE_GPUS")),
			"Partitions": "synergy,plain",
			"Weight":     "1",
		} {
			if node[key] != want {
				t.Errorf("%s of %s is %q, want %q", key, name, node[key], want)
			}
		}
	}
}

func TestAJobSeesTheGPUsItGot(t *testing.T) {
	c := OpenCluster(t)
	id := c.MustSbatch("bob", "echo $CUDA_VISIBLE_DEVICES > /shared/out/gpus-$SLURM_JOB_ID", "--gres=gpu:3")
	c.WaitForState(id, "COMPLETED")
	file := "/shared/out/gpus-" + id.String()
	t.Cleanup(func() { c.MustExec("login", "root", "rm", file) })
	if seen := c.MustExec("login", "bob", "cat", file); len(strings.Split(seen, ",")) != 3 {
		t.Errorf("a job with 3 GPUs sees %q", seen)
	}
}

func TestTheUnixSocketAnswersTheDaemonsToken(t *testing.T) {
	c := OpenCluster(t)
	status := c.MustExec("login", "synergy", "sh", "-c", `curl -s -o /dev/null -w '%{http_code}' `+
		`-H "X-SLURM-USER-TOKEN: $(cat /shared/synergy/token)" `+
		`--unix-socket /shared/slurmrestd/slurmrestd.sock http://localhost/slurm/v0.0.42/jobs/state/`)
	if status != "200" {
		t.Errorf("slurmrestd's socket answers %s", status)
	}
}

func TestThePortAnswersTheDaemonsTokenAndNoOther(t *testing.T) {
	c := OpenCluster(t)
	token := c.Token()
	if answer := c.Get(token, "/jobs/state/"); answer.Status != http.StatusOK {
		t.Errorf("the daemon's token: HTTP %d", answer.Status)
	}
	if answer := c.Get(token[:len(token)-8], "/jobs/state/"); answer.Status == http.StatusOK {
		t.Error("a damaged token is accepted")
	}
}

func TestUsersCannotReadTheKeysOrTheDaemonsToken(t *testing.T) {
	c := OpenCluster(t)
	for _, role := range []string{"login", "n1"} {
		for _, file := range []string{"/keys/jwt.key", "/keys/munge.key", "/etc/munge/munge.key",
			"/shared/synergy/token"} {
			c.MustExec(role, "root", "test", "-e", file)
			if out, err := c.Exec(role, "alice", "cat", file); err == nil || out != "" {
				t.Errorf("alice reads %s on %s", file, role)
			}
		}
	}
}
