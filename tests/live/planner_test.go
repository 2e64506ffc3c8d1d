//go:build live

package live

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// plugin puts a planner plugin into the daemon's folder, with what it needs beside it, and returns the flags that name
// it.
func (d *Daemon) plugin(program string, files ...string) []string {
	d.c.t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("../../contrib/plugins/python", file))
		if err != nil {
			d.c.t.Fatal(err)
		}
		d.Put(file, string(text))
	}
	if len(files) == 0 {
		d.c.MustExec("login", "synergy", "cp", "/opt/synergy/bin/plugins/"+program, d.dir+"/"+program)
	}
	d.c.MustExec("login", "synergy", "chmod", "755", d.dir+"/"+program)
	return []string{"--planner-plugin", d.dir + "/" + program, "--log-level", "debug"}
}

const pluginRounds = `synergy_planner_plugin_rounds_total{outcome="`

// plugins are the processes of planner plugins.
func (c *Cluster) plugins(name string) string {
	out, _ := c.Exec("login", "root", "pgrep", "-f", "-u", "synergy", "^[^ ]*(python3 )?[^ ]*/"+name+"$")
	return out
}

func TestOurPlannerAsAPluginDiesInARoundAndNobodyNotices(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	d.Start(d.plugin("builtin")...)
	job := func() JobID {
		return c.MustSbatch("alice", "sleep 60", "--comment=synergy-profile=res18.json", "-c", "3", "--gres=gpu:1",
			"--output=/dev/null")
	}
	first := job()
	c.WaitForState(first, "RUNNING")
	if _, has := c.Allocation(first); has["cpu"] != 9 || d.Metrics()[pluginRounds+`done"}`] == 0 {
		t.Errorf("the job holds %v, want 9 cores by the plan of the plugin: %v", has,
			d.Metrics()[pluginRounds+`done"}`])
	}
	c.MustExec("login", "root", "pkill", "-KILL", "-f", "^"+d.dir+"/builtin$")
	killed := time.Now()
	second := job()
	c.WaitForState(second, "RUNNING")
	if _, has := c.Allocation(second); has["cpu"] <= 3 {
		t.Errorf("beside a dead plugin a job holds %v, want more than its share by our own planner", has)
	}
	counted := d.Metrics()
	before := counted[pluginRounds+`done"}`]
	c.WaitFor("the plugin plans again", func() bool { return d.Metrics()[pluginRounds+`done"}`] > before })
	t.Logf("a job ran and the plugin planned again %.0f s after it was killed, with rounds of %v",
		time.Since(killed).Seconds(), d.Round)
	if counted = d.Metrics(); counted[pluginRounds+`ended"}`] != 1 {
		t.Errorf("counted %v ends, want 1", counted[pluginRounds+`ended"}`])
	}
	if c.plugins("builtin") == "" {
		t.Error("no plugin runs: the next look would prove nothing")
	}
	d.Stop()
	c.WaitFor("the plugin ends with the daemon", func() bool { return c.plugins("builtin") == "" })
}

func TestAPolicyOfTwentyLinesDecidesWhoGoesFirst(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	big := c.MustSbatch("alice", "sleep 60", "--comment=synergy-profile=gnmt.json", "--gres=gpu:8", "-w", "n1",
		"--output=/dev/null")
	small := c.MustSbatch("alice", "sleep 60", "--comment=synergy-profile=gnmt.json", "--gres=gpu:1", "-w", "n1",
		"--output=/dev/null")
	d.Start(d.plugin("smallest")...)
	c.WaitForState(small, "RUNNING")
	if state := c.State(big); state != "PENDING" {
		t.Errorf("the job with 8 GPUs, which came first, is %s: want it to wait behind the one with a single GPU",
			state)
	}
}

func TestAPlannerInPythonGivesEverybodyHisShare(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	d.Round = 8 * time.Second // a quarter of it has to do for Python to start
	id := c.MustSbatch("alice", "sleep 60", "--comment=synergy-profile=res18.json", "-c", "1", "--gres=gpu:2",
		"--output=/dev/null")
	d.Start(append(d.plugin("fair.py", "synergy_plugin.py", "planner_pb2.py", "fair.py"), "--planner-plugin-timeout",
		"5s")...)
	c.WaitForState(id, "RUNNING")
	if _, has := c.Allocation(id); has["cpu"] != 6 || has["mem"] != 6*20833 || d.Metrics()[pluginRounds+`done"}`] == 0 {
		t.Errorf("the job holds %v, want 6 cores and 20833 MB for each; %v rounds were planned by the plugin", has,
			d.Metrics()[pluginRounds+`done"}`])
	}
	verdict, err := c.Exec("login", "synergy", "/opt/synergy/bin/synergy", "plugin", "check", "--snapshots", "40",
		d.dir+"/fair.py")
	if err != nil {
		t.Errorf("it does not keep the promises: %v\n%s", err, verdict)
	}
}
