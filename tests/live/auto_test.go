//go:build live

package live

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// unknown is a batch script that trains a model of which nobody is told, and is measured in windows of four seconds.
func unknown(model string) string { return train(model, 1_000_000, 40) + " --measure 4s" }

// learns is the configuration of a daemon that learns into its folder. A restart is reckoned as free, or a job that has
// just grown would stay as it is for a payback before it takes the next step.
func learns(t *testing.T) string {
	return "restart_cost: 0s\naudit_window: 3s\nlearned: /shared/synergy/" + t.Name() + "/learned"
}

// stock is a batch script that knows nothing of us and has a progress bar, as tqdm draws it.
const stock = `exec python3 -c '
import sys, time
for n in range(10**6):  # the stock trainer
    sum(range(20000))
    sys.stderr.write("\r  1%%| | %d/1000000 [00:05<01:35,  9.95it/s]" % n)
    sys.stderr.flush()
    time.sleep(0.01)
'`

const autoWords = "--comment=synergy-profile=auto synergy-checkpoint=USR1@20"

// TestAJobThatNobodyKnowsIsMeasuredAndGrowsAndTheNextOfItsNameStartsAsThat: a vision model starts at its share, says
// its curve in its comment, grows step by step until its knee is seen, and the second job of its name starts with that.
// A language model beside it teaches that a core is enough.
func TestAJobThatNobodyKnowsIsMeasuredAndGrowsAndTheNextOfItsNameStartsAsThat(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune", "  payback: 1m", learns(t))
	d.Start()
	submit := func(name, model string) JobID {
		return c.MustSbatch("alice", unknown(model), "--gres=gpu:1", "-c", "3", "--job-name="+name,
			"--open-mode=append", output, autoWords)
	}
	cores := func(id JobID) int {
		_, holds := c.Allocation(id)
		return holds["cpu"]
	}
	vision, text := submit("vision", "res18"), submit("text", "gnmt")
	untouched := c.MustSbatch("alice", stock, "--gres=gpu:1", "-c", "3", "--job-name=stock", output,
		"--comment=synergy-profile=auto")
	for _, id := range []JobID{vision, text} {
		c.WaitForState(id, "RUNNING")
		if got := cores(id); got != 3 {
			t.Errorf("job %s starts with %d cores, want its share of 3", id, got)
		}
	}
	// As long as it takes on a machine that other clusters share; by itself it is a minute.
	within := func(what string, holds func() bool) {
		for end := time.Now().Add(4 * time.Minute); !holds(); time.Sleep(time.Second) {
			if time.Now().After(end) {
				t.Fatalf("waited in vain until %s", what)
			}
		}
	}
	within("both have said their curves", func() bool {
		return strings.Contains(c.ShowJob(vision)["Comment"], "synergy-curve=1:") &&
			strings.Contains(c.ShowJob(text)["Comment"], "synergy-curve=1:")
	})
	within("the node has measured the script that knows nothing", func() bool {
		return strings.Contains(c.ShowJob(untouched)["Comment"], "synergy-curve=1:")
	})
	nodes, _ := c.Allocation(untouched)
	const left = `grep -h Cpus_allowed_list: /proc/1/status $(pgrep -f "the stock traine[r]" | sed "s|.*|/proc/&/status|")`
	if lists := strings.Fields(c.MustExec(nodes, "root", "sh", "-c", left)); len(lists) != 4 || lists[1] != lists[3] {
		t.Errorf("after it was measured its process may use the CPUs %v, want those of the node", lists)
	}
	sizes := map[int]bool{}
	within("the vision model has grown to its knee", func() bool {
		if got := cores(vision); got > 0 {
			sizes[got] = true
		}
		return cores(vision) >= 9
	})
	if sizes[24] || !sizes[6] {
		t.Errorf("it had %v cores, want 6 between 3 and the knee at 9, and no more than 12", sizes)
	}
	within("its knee is known", func() bool { return !wanted(t, c, d, "vision") })
	vision2, text2 := submit("vision", "res18"), submit("text", "gnmt")
	c.WaitForState(vision2, "RUNNING")
	c.WaitForState(text2, "RUNNING")
	if got := cores(vision2); got < 9 || got > 12 {
		t.Errorf("the second vision job starts with %d cores, want the 9 of the knee, or little more", got)
	}
	if got := cores(text2); got != 1 {
		t.Errorf("the second text job starts with %d cores, want 1", got)
	}
	t.Logf("the first vision job had %v cores\n%s", sizes, c.MustExec("login", "synergy", "/opt/synergy/bin/synergy",
		"profile", "list", "--dir", d.dir+"/learned"))
}

// wanted says whether the curve of a name still climbs where it ends, as synergy profile list tells it.
func wanted(t *testing.T, c *Cluster, d *Daemon, name string) bool {
	t.Helper()
	var all []struct {
		Job    string `json:"job_name"`
		Climbs bool   `json:"climbs"`
	}
	text := c.MustExec("login", "synergy", "/opt/synergy/bin/synergy", "profile", "list", "--json", "--dir",
		d.dir+"/learned")
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	for _, e := range all {
		if e.Job == name {
			return e.Climbs
		}
	}
	return true
}

// TestTheGateLetsAJobSayItsCurveAndNothingElse: auto is a profile, a curve is the running job's to say, and the gate
// refuses what the daemon would not read.
func TestTheGateLetsAJobSayItsCurveAndNothingElse(t *testing.T) {
	c := OpenCluster(t)
	if said := c.gate(`submit { comment = "synergy-profile=auto synergy-checkpoint" }`,
		"a.json"); !strings.HasPrefix(said, "synergy: this site does not learn") {
		t.Errorf("where nothing is learned it says %q", said)
	}
	if said := c.gate(`submit { comment = "synergy-profile=auto synergy-checkpoint" }`, "a.json",
		"auto"); !strings.HasPrefix(said, "0 ") {
		t.Errorf("where it is learned it says %q", said)
	}
	if _, err := c.Sbatch("alice", sleeper, "--gres=gpu:1",
		"--comment=synergy-profile=auto synergy-curve=1:1@1767268800"); err == nil {
		t.Error("a curve at submission is taken")
	}
	if _, err := c.Sbatch("alice", sleeper, "--gres=gpu:1", "--comment=synergy-profile=Auto"); err == nil {
		t.Error("Auto is taken for auto")
	}
	right := map[string]bool{
		"1:0.58/2:1.13/3:1.56@1767268800": true, "12:1000000@1767268800": true,
		"2:1/1:2@1767268800": false, "1:0@1767268800": false, "1:1e3@1767268800": false, "1:1,2:2@1767268800": false,
		"1:1/@1767268800": false, "/1:1@1767268800": false,
		"1:1": false, "1:1@0": false, "01:1@1767268800": false, "1:1000001@1767268800": false, "": false,
		strings.Repeat("1:1/", 30) + "9:1@1767268800": false, "1:1.1234567@1767268800": false, "1:-1@1767268800": false,
		"1:.5@1767268800": false,
	}
	var program strings.Builder
	program.WriteString("local job = { comment = 'synergy-profile=auto mine', partition = 'synergy' }\n")
	for word := range right {
		fmt.Fprintf(&program, "print(slurm_job_modify({ comment = %q }, job, nil, 1001) .. '\\t' .. %q)\n",
			"synergy-profile=auto mine synergy-curve="+word, word)
	}
	said := c.gate(program.String())
	for word, taken := range right {
		if strings.Contains(said, "0\t"+word+"\n") != taken && strings.HasSuffix(said, "0\t"+word) != taken {
			t.Errorf("synergy-curve=%s: want it taken: %v, in\n%s", word, taken, said)
		}
	}
	if said := c.gate(
		`print(slurm_job_modify({ comment = "synergy-profile=res18.json" }, { comment = "synergy-profile=auto", partition = "synergy" }, nil, 1001))`); !strings.HasSuffix(said, "2002") {
		t.Errorf("a job that measures itself may take another profile: %s", said)
	}
	id := c.MustSbatch("alice", sleeper, "--gres=gpu:1", "--comment=synergy-profile=auto mine", "--hold")
	if err := c.Update("alice", id,
		"comment=synergy-profile=auto mine synergy-curve=1:0.58/2:1.13@1767268800"); err != nil {
		t.Errorf("its owner may not say a curve: %v", err)
	}
}
