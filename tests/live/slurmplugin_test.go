//go:build live

package live

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// drivenBy has the daemon drive Slurm through this plugin, and returns the flags that say so.
func (d *Daemon) drivenBy(program string) []string {
	d.c.t.Helper()
	d.Put("plugin.json", `{"url": "http://slurmrestd:6820", "user": "synergy", "token_file": "/shared/synergy/token"}`)
	d.c.MustExec("login", "synergy", "install", "-m", "755", "/opt/synergy/bin/plugins/"+program, d.dir+"/"+program)
	return []string{"--slurm-plugin", d.dir + "/" + program, "--slurm-plugin-config", d.dir + "/plugin.json",
		"--slurmrestd", "http://nowhere:1", "--token-file", "/nonexistent"} // which are not used then
}

func TestKilledInTheMiddleOfRoundsAPluginThatDrivesSlurmLosesNothing(t *testing.T) {
	c, d := SetUp(t, "las", "tune")
	d.Round = 4 * time.Second
	flags := d.drivenBy("slurmrest")
	d.Start(flags...)
	hungry := c.MustSbatch("alice", "sleep 5", "--comment=synergy-profile=res18.json", "-c", "3", "--gres=gpu:1",
		"--output=/dev/null")
	c.WaitForState(hungry, "RUNNING")
	if _, has := c.Allocation(hungry); has["cpu"] != 9 {
		t.Errorf("the job holds %v, want 9 cores", has)
	}
	began := time.Now()
	seed := uint64(began.UnixNano())
	draw := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	const kills, jobs = 3, 30
	workload := c.submitKillables(draw, jobs/2, nil)
	for range kills {
		time.Sleep(2*time.Second + time.Duration(draw.Float64()*float64(d.Round)))
		c.WaitFor("a plugin that can be killed", func() bool { // after the last kill it rests for a while
			_, err := c.Exec("login", "root", "pkill", "-KILL", "-f", "^"+d.dir+"/slurmrest$")
			return err == nil
		})
		workload = c.submitKillables(draw, jobs/2/kills, workload)
	}
	left, before := c.unfinished(), d.Metrics()[`synergy_rounds_total{outcome="done"}`]
	c.WaitFor("rounds go on", func() bool { return d.Metrics()[`synergy_rounds_total{outcome="done"}`] > before })
	c.waitEmpty(3 * time.Minute)
	t.Logf("after %d kills of the plugin %d of %d jobs were left; all ended after %s", kills, left, len(workload),
		time.Since(began).Round(time.Second))
	checkKillables(t, c, workload, began)
	counted := d.Metrics()
	t.Logf("rounds: %v done, %v failed; configured %v times", counted[`synergy_rounds_total{outcome="done"}`],
		counted[`synergy_rounds_total{outcome="failed"}`],
		counted[`synergy_slurm_requests_total{outcome="done",request="plugin configure"}`])
	if unheard := counted.unheard(); unheard < kills {
		t.Errorf("%v calls were not heard: want one for each of %d kills, or more", unheard, kills)
	}
	mustHandBack(t, c, d, flags)
}

// unheard is how many calls of a plugin had no answer.
func (f figures) unheard() float64 {
	sum := 0.0
	for name, n := range f {
		if strings.HasPrefix(name, `synergy_slurm_requests_total{outcome="unreachable",request="plugin `) {
			sum += n
		}
	}
	return sum
}

// mustHandBack ends the daemon, and its plugin with it, and has a job that waits handed back through another one.
func mustHandBack(t *testing.T, c *Cluster, d *Daemon, flags []string) {
	t.Helper()
	first := c.MustSbatch("alice", "sleep 60", "--comment=synergy-profile=gnmt.json", "--gres=gpu:1", "-w", "n1",
		"--output=/dev/null")
	c.WaitForState(first, "RUNNING")
	waiting := c.MustSbatch("alice", "true", "--comment=synergy-profile=gnmt.json", "--gres=gpu:8", "-w", "n1",
		"--output=/dev/null")
	c.WaitFor("it was told that it waits", func() bool { return strings.Contains(c.ShowJob(waiting)["Extra"], "why") })
	if c.plugins("slurmrest") == "" {
		t.Error("no plugin runs: the next look would prove nothing")
	}
	d.Stop()
	c.WaitFor("the plugin ends with the daemon", func() bool { return c.plugins("slurmrest") == "" })
	if summary, err := d.Release(flags...); err != nil || summary["released"] != 1.0 {
		t.Errorf("the release through the plugin: %v: %v, want one job handed back", summary, err)
	}
}
