//go:build live

package live

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// grid are shapes of requests, by notation of GPUs, nodes and tasks, cores and memory, and constraint, in the words of
// a shell. The last node has GPUs of two types, and another one another feature.
var grid = strings.Split(strings.TrimSpace(`
--gres=gpu:1
--gres=gpu
--gres=gpu:2 -n3
--gres=gpu:1 -N2
--gres=gpu:1 -N2 --ntasks-per-node=2
--gres=gpu:1 -N3 -n7
--gres=gpu:1 -n30
--gres=gpu:1 -N2-4
--gres=gpu:1 -N2-4 -n4
--gres=gpu:1 -N1-2 --ntasks-per-node=2
--gres=gpu:1 -N1-9
--gres=gpu:1 -N4 -x n2
--gpus=1
--gpus=4
--gpus=12
--gpus=4 -N2
--gpus=4 -N1-4
--gpus=3 -N2
--gpus-per-node=2
--gpus-per-node=1 -N3
--gpus-per-task=1 -n1
--gpus-per-task=1 -n4
--gpus-per-task=1 -N4 -n4
--gpus-per-task=1 -N2 -n4
--gpus-per-task=1 -N2 -n3
--gpus-per-task=2 -N2 --ntasks-per-node=1
--gpus-per-node=1 --gpus-per-task=1 -n1
--gpus-per-node=2 --gpus-per-task=1 -N2 -n4
--gres=gpu:1 --gpus-per-task=1 -n1
--gres=gpu:1 --gpus-per-task=1 -n2
--gres=gpu:1 --gpus-per-task=1 -N2 -n2
--gres=gpu:1 --gpus=1
--gres=gpu:2 --gpus=4
--gres=gpu:0 --gpus=1
--gpus=4 --gpus-per-node=1 -N4
--gpus=4 --gpus-per-task=1
--gpus=2 --ntasks-per-gpu=2
--ntasks-per-gpu=2 -n4
--gpus=4 --ntasks-per-gpu=1 --gpus-per-node=2
--gpus-per-node=2 --gpus-per-task=1 -n4
--gres=gpu:2 --gpus-per-task=1 -n5
--gres=gpu:2 --tres-per-task=gres/gpu:1 -n4
--gres=gpu:1 --ntasks-per-node=2 -n3
--tres-per-task=cpu:4,gres/gpu:1 -n2
--gpus-per-socket=1 --sockets-per-node=1
--gres=gpu:2 --gpus-per-socket=1 --sockets-per-node=2
--gres=gpu:1 --mem=0
--gres=gpu:1 --mem=0 -N2
--gres=gpu:1 --mem-per-cpu=0
--gres=gpu:1 --mem=400G
--gres=gpu:1 --mem-per-cpu=3G -c 4
--gres=gpu:1 --mem-per-gpu=2G
--gres=gpu:1 --cpus-per-gpu=3
--gres=gpu:1 -c 24
--gres=gpu:1 --mincpus=4
--gres=gpu:1 -B 1:2:1
--gres=gpu:1 --exclusive
--gres=gpu:1 --exclusive --mem=0
--gres=gpu:8 --exclusive -c 4
--gres=gpu:1 --exclusive=user
--gres=gpu:1 --oversubscribe
--gres=gpu:1 --contiguous -N2
--gres=gpu:1 --spread-job -N1-4
--gres=gpu:1 --use-min-nodes -N1-4
--gres=gpu:1 --ntasks-per-socket=1 -n2
--gres=gpu:1 --distribution=cyclic -n2 -N2
--gres=gpu:1 --gres-flags=disable-binding
--gres=gpu:1 --switches=1
--gres=gpu:1 --time=10 --time-min=5
--gres=gpu:1 -w n1
--gres=gpu:1 -w n1,n2
--gres=gpu:1 -w n1,n2 -N1
--gres=gpu:1 -w n1 -N2
--gres=gpu:1 -C 'hopper|ampere'
--gres=gpu:1 -C '[hopper|ampere]'
--gres=gpu:1 -N2 -C '[hopper|ampere]'
--gres=gpu:1 -N3 -C 'hopper|ampere'
--gres=gpu:1 -C '(hopper|ampere)&nvlink'
--gres=gpu:1 -C 'hopper&nvlink|ampere'
--gres=gpu:1 -C 'hopper,nvlink'
--gres=gpu:1 -C 'hopper*1'
--gres=gpu:1 -N2 -C '[hopper*1&ampere*1]'
--gres=gpu:1 -C '!ampere'
--gres=gpu:1 --prefer=ampere
--gres=gpu:a100:1
--gres=gpu:a100:4
--gres=gpu:a100:1 -c 9
--gres=gpu:a100_3g.20gb:2
--gpus=a100:2
--gpus-per-task=a100:1 -n2
--gres=gpu:a100:1 --gpus=a100:1
--gres=gpu:a100:1,gpu:a100_3g.20gb:1
--gres=gpu:1 -w n4
--gpus=1 -w n4
--gpus-per-task=1 -n2 -w n4
--gres=gpu:1 -N4
--gres=none
--gres=shard:1
`), "\n")

// mix gives the last node GPUs of two types and another one another feature, and all back when the test ends.
func (c *Cluster) mix() {
	c.t.Helper()
	nodes := c.Setting("NODES")
	const change = `cd /etc/slurm; [ -e plain.gres.conf ] || { cp gres.conf plain.gres.conf; cp slurm.conf plain.conf; }
		cp plain.gres.conf gres.conf; cp plain.conf slurm.conf; [ -n "$1" ] || exit 0
		sed -i "s/^NodeName=n\[1-$1\]/NodeName=n[1-$2]\nNodeName=n$1 Gres=gpu:a100:4,gpu:a100_3g.20gb:4/" slurm.conf
		{ sed "s/n\[1-$1\]/n[1-$2]/" plain.gres.conf; echo "NodeName=n$1 Name=gpu Type=a100 File=/dev/fakegpu[0-3]"
		echo "NodeName=n$1 Name=gpu Type=a100_3g.20gb File=/dev/fakegpu[4-7]"; } > gres.conf`
	last := fmt.Sprintf("n%d", nodes)
	set := func(args ...string) {
		for _, role := range []string{"slurmctld", last} {
			c.MustExec(role, "root", append([]string{"sh", "-ec", change, "sh"}, args...)...)
		}
		c.MustExec("slurmctld", "root", "scontrol", "reconfigure")
		want := "gpu:8,shard:32"
		if args[0] != "" {
			want = "gpu:a100:4,gpu:a100_3g.20gb:4"
		}
		c.WaitFor("the node has other GPUs", func() bool {
			node := c.ShowNode(last)
			return node["Gres"] == want && node["State"] == "IDLE"
		})
	}
	features := func(words string) {
		c.MustExec("slurmctld", "root", "scontrol", "update", "NodeName=n3", "AvailableFeatures="+words,
			"ActiveFeatures="+words)
	}
	c.t.Cleanup(func() {
		c.Clear()
		set("", "")
		features("hopper,nvlink")
	})
	set(strconv.Itoa(nodes), strconv.Itoa(nodes-1))
	features("ampere,nvlink")
}

// submitGrid submits shapes as jobs that end at once; one that sbatch does not take has no number.
func (c *Cluster) submitGrid(shapes []string, options string) map[string]JobID {
	c.t.Helper()
	const submit = `cd && while read -r line; do echo "$(eval "sbatch --parsable --output=/dev/null $1 $line --wrap true" 2> /dev/null)"; done`
	out, err := c.ExecInput("login", "alice", strings.Join(shapes, "\n")+"\n", "sh", "-c", submit, "sh", options)
	answers := strings.Split(out+strings.Repeat("\n", len(shapes)), "\n")
	if err != nil {
		c.t.Fatal(err)
	}
	ids := map[string]JobID{}
	for i, shape := range shapes {
		if id, err := strconv.Atoi(answers[i]); err == nil {
			ids[shape] = JobID(id)
		}
	}
	return ids
}

// TestWhateverPlainSlurmStartsStartsWithTheWordWithinTwoRounds submits each shape to the empty cluster twice: without
// the word, where there is no daemon, and with it.
func TestWhateverPlainSlurmStartsStartsWithTheWordWithinTwoRounds(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	c.mix()
	d.Round = 3 * time.Second
	plain := c.submitGrid(grid, "--partition=plain")
	last, since := "", time.Now()
	c.WaitLong("no job starts any more", 90*time.Second, func() bool { // who is left waits beside an empty cluster
		left := c.MustExec("login", "root", "squeue", "--noheader", "--format=%i %T")
		if left != last {
			last, since = left, time.Now()
		}
		return left == "" || !strings.Contains(left, "RUNNING") && time.Since(since) > 8*time.Second
	})
	jobs := c.Jobs()
	var starts []string
	tasks := map[string]string{}
	for _, shape := range grid {
		if id := plain[shape]; id != 0 && jobs[id]["JobState"] == "COMPLETED" {
			starts = append(starts, shape)
			tasks[shape] = jobs[id]["NumTasks"]
		} else {
			t.Logf("plain Slurm does not start %s: %s %s", shape, jobs[id]["JobState"], jobs[id]["Reason"])
		}
	}
	if len(starts) < 60 {
		t.Errorf("plain Slurm starts %d shapes: %q", len(starts), starts)
	}
	c.MustExec("login", "root", "scancel", "--user=alice")
	d.Start()
	for wave := range slices.Chunk(starts, 7) {
		d.mustStartSoon(wave, c.submitGrid(wave, "--comment=synergy-profile=res18.json"), tasks)
	}
	for _, line := range d.Log() {
		if line["level"] == "error" {
			t.Errorf("the daemon complains: %v", line)
		}
	}
}

// slurmsOwn is how long Slurm may take to start what it may.
const slurmsOwn = 4 * time.Second

// twoRounds is how long after a moment two rounds were over that began after it.
func (d *Daemon) twoRounds(from time.Time) time.Duration {
	d.c.t.Helper()
	after := 0
	for _, line := range d.Log() {
		ended, err := time.Parse(time.RFC3339, fmt.Sprint(line["time"]))
		took, _ := line["seconds"].(float64)
		if line["message"] != "round" || err != nil || !ended.Add(-time.Duration(took*1e9)).After(from) {
			continue
		}
		if after++; after == 2 {
			return ended.Sub(from)
		}
	}
	return 2 * d.Round
}

// mustStartSoon waits until all of a wave have ended, and looks when each began, and with how many tasks.
func (d *Daemon) mustStartSoon(wave []string, ids map[string]JobID, tasks map[string]string) {
	c := d.c
	c.t.Helper()
	var jobs map[JobID]map[string]string
	ended := func(id JobID) bool { return jobs[id]["JobState"] == "COMPLETED" }
	deadline := time.Now().Add(time.Minute)
	for waits := true; waits && time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		jobs, waits = c.Jobs(), false
		for _, id := range slices.Collect(maps.Values(ids)) {
			waits = waits || !ended(id)
		}
	}
	for _, shape := range wave {
		id, job := ids[shape], jobs[ids[shape]]
		switch {
		case id == 0:
			c.t.Errorf("%s: refused with the word", shape)
		case !ended(id):
			c.t.Errorf("%s: job %s is %s (%s) beside an empty cluster: %s", shape, id, job["JobState"], job["Reason"],
				job["Extra"])
		case job["NumTasks"] != tasks[shape] && !nodesAreSlurms.MatchString(shape):
			c.t.Errorf("%s: job %s ran %s tasks, and %s without the word", shape, id, job["NumTasks"], tasks[shape])
		default:
			submitted, _ := time.Parse(slurmsTime, job["SubmitTime"])
			within := max(2*d.Round, d.twoRounds(submitted)) + slurmsOwn
			if took := lasted(job["SubmitTime"], job["StartTime"]); took > within {
				c.t.Errorf("%s: job %s began %s after it was submitted, and not within %s", shape, id, took, within)
			}
		}
	}
	c.MustExec("login", "root", "scancel", "--user=alice", "--state=PENDING")
	c.WaitFor("nothing is torn down any more", func() bool {
		busy, err := c.Exec("login", "root", "sinfo", "--noheader", "--Node", "--format=%N",
			"--states=mixed,allocated,completing")
		return err == nil && busy == ""
	})
}

// nodesAreSlurms is a request for one number of nodes or another, by a range, or for GPUs in all and nothing else. How
// many they are, and with them the tasks, depends on what else runs at that moment.
var nodesAreSlurms = regexp.MustCompile(`-N *\d+-\d+|^--gpus=\d+$`)

const slurmsTime = "2006-01-02T15:04:05"

// lasted is the time between two moments in Slurm's words.
func lasted(from, to string) time.Duration {
	began, err := time.Parse(slurmsTime, from)
	ended, wrong := time.Parse(slurmsTime, to)
	if err != nil || wrong != nil {
		return time.Hour
	}
	return ended.Sub(began)
}
