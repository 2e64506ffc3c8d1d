//go:build live

package live

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// sharingPair is the experiment that contrib/deft/README.md shows.
func sharingPair(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "contrib", "deft", "pair.json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDeftsExperimentRunsThroughSlurm runs the pair of contrib/deft/pair.json as jobs on one GPU; beside it waits a
// job that asked for its GPU by --gpus=1, of which Slurm gives no part.
func TestDeftsExperimentRunsThroughSlurm(t *testing.T) {
	c, d := SetUpShared(t, "n1")
	began := time.Now()
	c.leaveOneGPU(d)
	profiled := d.dir + "/profiles"
	c.MustExec("login", "synergy", "sh", "-c", `for name in background important; do
jq '.model="fasterrcnn_resnet50_fpn" | .version=2 | .gpu_busy=(if $n == "background" then 1 else 0.04 end) | .gpu_memory_mib=4096' \
	--arg n $name "$1/res18.json" > "$1/$name.profile.json"; done`, "sh", profiled)
	d.Start()
	pair := d.out() + "/pair.json"
	if _, err := c.ExecInput("login", "alice", sharingPair(t), "tee", pair); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		out string
		err error
	}
	ended := make(chan outcome, 1)
	go func() {
		out, err := c.Exec("login", "alice", "/opt/synergy/bin/deft", "run", "-f", pair, "--slurm", "--out",
			d.out()+"/pair", "--gpu-memory", "4", "--duration", "12s", "--emujob", "/opt/synergy/bin/synergy-emujob",
			"--queue", "1m")
		ended <- outcome{out, err}
	}()
	byGPUs := JobID(0)
	seats := map[string]bool{}
	for running := true; running; {
		select {
		case o := <-ended:
			running = false
			t.Log(o.out)
			if o.err != nil {
				t.Fatal(o.err)
			}
		case <-time.After(500 * time.Millisecond):
			for _, job := range c.Jobs() {
				if job["JobName"] == "synergy-share" && job["JobState"] == "RUNNING" {
					seats[job["NodeList"]+" "+job["TresPerNode"]] = true
				}
			}
			if byGPUs == 0 && len(seats) > 0 {
				byGPUs = c.MustSbatch("alice", "srun sleep 600", "--comment=synergy-profile=light.json "+
					"synergy-share=low,mem=4", "--gpus=1", "-c", "1", "--mem=1000", output)
			}
		}
	}
	if len(seats) != 1 || !strings.HasPrefix(slices.Collect(maps.Keys(seats))[0], "n1 gres/shard:g") {
		t.Errorf("they had %v, want shards of one GPU of n1", seats)
	}
	files := c.MustExec("login", "alice", "ls", d.out()+"/pair")
	for _, name := range []string{"background.csv", "important.csv", "models_pid.json", "exp_config.json",
		"jct_vs_t.png", "jct_vs_t.svg"} {
		if !strings.Contains(files, name) {
			t.Errorf("no %s in %s", name, files)
		}
	}
	const columns = "start_timestamp_ns,end_timestamp_ns,jct_ms,max_allocated_gpu_memory_allocated_byte," +
		"max_reserved_gpu_memory_byte"
	if head := c.MustExec("login", "alice", "head", "-n", "1", d.out()+"/pair/important.csv"); head != columns {
		t.Errorf("the columns are %q", head)
	}
	jobs := c.MustExec("login", "alice", "sh", "-c", `wc -l <"$1"`, "sh", d.out()+"/pair/important.csv")
	if len(jobs) < 2 {
		t.Errorf("%s jobs of the important one, want ten and a heading", jobs)
	}
	c.WaitFor("who asked by --gpus=1 has the GPU for itself when they are over, or waits for it", func() bool {
		job := c.ShowJob(byGPUs)
		return job["JobState"] == "RUNNING" && c.seat(byGPUs) == "" && strings.Contains(job["TresPerJob"], "gres/gpu:1")
	})
	t.Logf("all of it took %.1f s", time.Since(began).Seconds())
}
