//go:build live

package live

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// A node serves the tasks of managed jobs in one of these ways. The cluster's nodes have the plugin; a test changes
// them, and Serve puts them back.
const (
	byPlugin  = "optional /usr/local/lib/slurm/synergy.so measure=/usr/local/share/docker-slurm/measure.sh"
	byScripts = "Prolog=/opt/synergy/etc/node/prolog.sh\nEpilog=/opt/synergy/etc/node/epilog.sh\nTaskProlog=/opt/synergy/etc/node/task_prolog.sh"
)

// Serve gives a node this plugstack.conf, and these lines more in its slurm.conf, until the test ends.
func (c *Cluster) Serve(node, plugstack, lines string) {
	c.t.Helper()
	const keep = `cd /etc/slurm; for f in slurm.conf plugstack.conf; do [ -e $f.was ] || cp $f $f.was; done
(cat slurm.conf.was; echo "$2") > slurm.conf; echo "$1" > plugstack.conf`
	const restore = `cd /etc/slurm; for f in slurm.conf plugstack.conf; do mv $f.was $f; done`
	c.MustExec(node, "root", "sh", "-c", keep, "sh", plugstack, lines)
	c.reconfigure(node)
	c.t.Cleanup(func() {
		c.MustExec(node, "root", "sh", "-ec", restore)
		c.reconfigure(node)
	})
}

// reconfigure has the slurmd of one node read its files again, and waits until it has.
func (c *Cluster) reconfigure(node string) {
	c.t.Helper()
	before := c.ShowNode(node)["SlurmdStartTime"]
	c.WaitFor("another second has begun", func() bool { return c.MustExec(node, "root", "date", "+%FT%T") != before })
	c.MustExec(node, "root", "pkill", "-HUP", "-f", "^slurmd ")
	c.WaitFor("slurmd on "+node+" has begun anew", func() bool { return c.ShowNode(node)["SlurmdStartTime"] != before })
	c.WaitFor("node "+node+" is idle", func() bool { return c.ShowNode(node)["State"] == "IDLE" })
}

// StartAs starts a waiting job as a round would.
func (c *Cluster) StartAs(id JobID, round, tasks, cpusPerTask, memory int, nodes ...string) {
	c.t.Helper()
	c.WaitFor("job "+id.String()+" is started", func() bool {
		answer := c.Post(c.Token(), "/job/"+id.String(), map[string]any{
			"begin_time": 1, "tasks": tasks, "cpus_per_task": cpusPerTask, "minimum_cpus": tasks * cpusPerTask,
			"minimum_cpus_per_node": cpusPerTask,
			"memory_per_node":       map[string]any{"set": true, "number": memory}, "required_nodes": nodes,
			"extra": fmt.Sprintf(
				`{"v":1,"lua":0,"job":%s,"round":%d,"begin":0,"first":0,"gpu_s":0,"done_s":0,"why":"its turn"}`, id,
				round),
		})
		return answer.Status == http.StatusOK && answer.Refusal() == 0
	})
}

// telling is a script that tells the environments of itself and of its steps, and asks for a restart at the end of its
// first run.
const telling = `
tell() { echo "== $1"; env -0 | tr '\n\0' ' \n'; }
export -f tell
tell script$SLURM_RESTART_COUNT
srun bash -c '[ $SLURM_PROCID = 1 ] && tell task'$SLURM_RESTART_COUNT
srun -n1 -c2 bash -c 'tell narrow'$SLURM_RESTART_COUNT
srun -n1 --gres=none bash -c 'tell gpuless'$SLURM_RESTART_COUNT
OMP_NUM_THREADS=5 srun -n1 bash -c 'tell own'$SLURM_RESTART_COUNT
[ -n "$SLURM_RESTART_COUNT" ] || exit 98
`

// told reads what a script told: environments by name.
func told(output string) map[string]map[string]string {
	all := map[string]map[string]string{}
	var env map[string]string
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(line, "\n")
		if name, heading := strings.CutPrefix(line, "== "); heading {
			env = map[string]string{}
			all[name] = env
		} else if name, value, found := strings.Cut(line, "="); found && env != nil {
			env[name] = value
		}
	}
	return all
}

// ours are the variables that a node sets, in this order in the expectations.
var ours = []string{"OMP_NUM_THREADS", "MKL_NUM_THREADS", "SRUN_CPUS_PER_TASK", "SYNERGY_CPUS", "SYNERGY_MEMORY_MB",
	"SYNERGY_GPUS", "SYNERGY_ROUND", "SYNERGY_RESTARTS"}

func oursIn(env map[string]string) string {
	var values []string
	for _, name := range ours {
		value, there := env[name]
		if !there {
			value = "-"
		}
		values = append(values, value)
	}
	return strings.Join(values, " ")
}

// TestTasksAreToldWhatTheyHoldByPluginAndByScripts: a job of two tasks runs in round 42 with 12 cores and is restarted
// in round 43 with 8; one table for a node with the plugin, one with the scripts, and one with both.
func TestTasksAreToldWhatTheyHoldByPluginAndByScripts(t *testing.T) {
	c := OpenCluster(t)
	c.Clear()
	c.Serve("n2", "", byScripts)
	c.Serve("n3", byPlugin, byScripts)
	want := map[string]string{
		"script": "6 6 6 12 90000 2 42 0", "task": "6 6 6 12 90000 2 42 0", "narrow": "2 2 2 2 90000 2 42 0",
		"gpuless": "6 6 6 6 90000 0 42 0", "own": "5 6 6 6 90000 2 42 0",
		"script1": "4 4 4 8 70000 2 43 1", "task1": "4 4 4 8 70000 2 43 1", "narrow1": "2 2 2 2 70000 2 43 1",
		"gpuless1": "4 4 4 4 70000 0 43 1", "own1": "5 4 4 4 70000 2 43 1",
	}
	nodes := map[JobID]string{}
	for _, node := range []string{"n1", "n2", "n3"} {
		id := c.MustSbatch("alice", telling, "--synergy-profile=res18.json", "--synergy-env=on",
			"--synergy-checkpoint=USR1@20", "--gres=gpu:2", "-n2", "-c3", output, "--open-mode=append")
		nodes[id] = node
		c.StartAs(id, 42, 2, 6, 90_000, node)
	}
	for id, node := range nodes {
		c.WaitFor(
			"it is requeued",
			func() bool { job := c.ShowJob(id); return job["Restarts"] == "1" && job["JobState"] == "PENDING" },
		)
		time.Sleep(2 * time.Second) // one that starts in the second of its teardown is killed
		c.StartAs(id, 43, 2, 4, 70_000, node)
	}
	for id, node := range nodes {
		c.WaitForState(id, "COMPLETED")
		got := told(c.Output(id))
		for name, values := range want {
			if oursIn(got[name]) != values {
				t.Errorf("%s: %s has %s = %s, want %s", node, name, strings.Join(ours, " "), oursIn(got[name]), values)
			}
		}
		c.WaitFor("nothing is left on "+node,
			func() bool { return c.MustExec(node, "root", "ls", "-A", "/run/synergy-jobs") == "" })
	}
}

// TestTheTasksOfAJobAreToldTheSameOnEachOfItsNodes has one job on a node with the plugin and on one with the scripts.
func TestTheTasksOfAJobAreToldTheSameOnEachOfItsNodes(t *testing.T) {
	c := OpenCluster(t)
	c.Clear()
	c.Serve("n2", "", byScripts)
	const script = `tell() { echo "== $1"; env -0 | tr '\n\0' ' \n'; }; export -f tell; srun bash -c 'tell $SLURMD_NODENAME > /shared/out/'$SLURM_JOB_ID-'$SLURMD_NODENAME'`
	id := c.MustSbatch(
		"alice",
		script,
		"--synergy-profile=res18.json",
		"--synergy-env=on",
		"--gres=gpu:1",
		"-N2",
		"--ntasks-per-node=2",
		output,
	)
	c.StartAs(id, 42, 4, 3, 50_000, "n1", "n2")
	c.WaitForState(id, "COMPLETED")
	for _, node := range []string{"n1", "n2"} {
		got := oursIn(told(c.MustExec("login", "alice", "cat", "/shared/out/"+id.String()+"-"+node))[node])
		if want := "3 3 3 6 50000 1 42 0"; got != want {
			t.Errorf("%s has %s = %s, want %s", node, strings.Join(ours, " "), got, want)
		}
	}
}

// TestTheTasksOfAJobAreToldTheRoundThatStartedIt has the daemon start the job.
func TestTheTasksOfAJobAreToldTheRoundThatStartedIt(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	d.Start()
	id := c.MustSbatch("alice", "echo $SYNERGY_ROUND $SYNERGY_CPUS $SYNERGY_MEMORY_MB $SYNERGY_GPUS $OMP_NUM_THREADS",
		"--synergy-profile=res18.json", "--synergy-env=on", "--gres=gpu:1", output)
	c.WaitForState(id, "COMPLETED")
	_, annotation, _ := strings.Cut(c.ShowJob(id)["Extra"], `"round":`)
	round, _, _ := strings.Cut(annotation, ",")
	if want := round + " 9 62496 1 9"; c.Output(id) != want {
		t.Errorf("told %q, want %q", c.Output(id), want)
	}
}

// differs are the variables in which two runs of one script differ by themselves.
var differs = []string{"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_SLUID", "SLURM_TASK_PID", "SLURM_JOB_START_TIME",
	"SLURM_JOB_END_TIME", "SLURM_SRUN_COMM_PORT", "SLURM_STEP_LAUNCHER_PORT",
	"SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST", "SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST",
	"SLURMD_NODENAME", "SLURM_TOPOLOGY_ADDR", "HOSTNAME",
	"SLURM_JOB_PARTITION", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
	"ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}

// TestAJobThatIsNotManagedHasTheEnvironmentThatItHasWithoutUs compares every variable with those of the same job on a
// node that has nothing of ours.
func TestAJobThatIsNotManagedHasTheEnvironmentThatItHasWithoutUs(t *testing.T) {
	c := OpenCluster(t)
	c.Clear()
	c.Serve("n2", "", byScripts)
	c.Serve("n3", "", "")
	const script = `tell() { echo "== $1"; env -0 | tr '\n\0' ' \n'; }; export -f tell; tell script; srun -n1 bash -c 'tell task'`
	const forged = "with an annotation that somebody forged" // whom the gate trusts, or where there is none
	variants := map[string][]string{
		"without our directive":              {"-p", "synergy"},
		"in a partition that is not managed": {"-p", "plain", "--comment=synergy-profile=res18.json"},
		forged: {"-p", "plain", `--extra={"v":1,"lua":0,"job":1,"round":$(touch /shared/out/owned),"why":""}`,
			"--comment=synergy-profile=res18.json", "--uid=alice"},
		"with our variables switched off": {"--comment=synergy-profile=res18.json synergy-env=off"},
	}
	jobs := map[string]map[string]JobID{}
	for name, more := range variants {
		jobs[name] = map[string]JobID{}
		user := "alice"
		if name == forged {
			user = "root"
		}
		for _, node := range []string{"n1", "n2", "n3"} {
			id := c.MustSbatch(user, script,
				append([]string{"--gres=gpu:1", "-c2", "--mem=2000", "-w", node, output}, more...)...)
			jobs[name][node] = id
			if strings.Contains(c.ShowJob(id)["Extra"], `"lua":1`) {
				c.StartAs(id, 42, 1, 2, 2000, node)
			}
		}
	}
	for name := range variants {
		without := c.environments(jobs[name]["n3"])
		if len(without["script"]) < 20 || len(without["task"]) < 20 {
			t.Fatalf("%s, without us it told %v", name, without)
		}
		for _, node := range []string{"n1", "n2"} {
			if got := c.environments(jobs[name][node]); fmt.Sprint(got) != fmt.Sprint(without) {
				t.Errorf("%s, %s:\n has %v\nwant %v", name, node, got, without)
			}
		}
	}
}

// environments is what a job told when it has ended, less what differs by itself.
func (c *Cluster) environments(id JobID) map[string]map[string]string {
	c.t.Helper()
	c.WaitForState(id, "COMPLETED")
	all := told(c.Output(id))
	for _, env := range all {
		maps.DeleteFunc(env, func(name, _ string) bool { return slices.Contains(differs, name) })
	}
	return all
}

// TestAJobRunsWhateverIsWrongOnItsNode: the plugin is missing, is no plugin, finds no place for its notes, and finds
// what it cannot read.
func TestAJobRunsWhateverIsWrongOnItsNode(t *testing.T) {
	c := OpenCluster(t)
	c.Clear()
	c.Serve("n2", "", byScripts)
	put := func(node, command string) { c.MustExec(node, "root", "sh", "-c", command) }
	restore := `cd /usr/local/lib/slurm; [ ! -e kept.so ] || mv -f kept.so synergy.so; rm -rf /run/synergy-jobs`
	t.Cleanup(func() { put("n1", restore); put("n2", restore) })
	for _, broken := range []struct{ name, breaks string }{
		{"no plugin", "mv /usr/local/lib/slurm/synergy.so /usr/local/lib/slurm/kept.so"},
		{"a plugin that is none",
			"cd /usr/local/lib/slurm; cp synergy.so kept.so; rm synergy.so; echo garbage > synergy.so"},
		{"a plugin for an older Slurm", `cd /usr/local/lib/slurm; cp synergy.so kept.so; rm synergy.so; ` +
			`slurmd -V | python3 -c 'year, month = map(int, input().split()[1].split(".")[:2]); so = open("kept.so", "rb").read(); ` +
			`old = so.replace(bytes([month, year, 0]), bytes([month, year - 1, 0])); assert old != so; open("synergy.so", "wb").write(old)'`},
		{"a file where the notes should be", "rm -rf /run/synergy-jobs; echo > /run/synergy-jobs"},
		{"a folder where nothing can be written", "rm -rf /run/synergy-jobs; ln -s /proc/1 /run/synergy-jobs"},
		{"notes that cannot be read", "mkdir -p /run/synergy-jobs; chmod 0 /run/synergy-jobs"},
	} {
		jobs := map[string]JobID{}
		for _, node := range []string{"n1", "n2"} {
			put(node, restore)
			put(node, broken.breaks)
			jobs[node] = c.MustSbatch("alice", "srun echo ran; echo told of $SYNERGY_CPUS",
				"--comment=synergy-profile=res18.json", "--gres=gpu:1", output)
			c.StartAs(jobs[node], 42, 1, 2, 2000, node)
		}
		for node, id := range jobs {
			c.WaitForState(id, "COMPLETED")
			t.Logf("%s: %s: %q", node, broken.name, c.Output(id))
			if out := c.Output(id); !strings.Contains(out, "ran\n") {
				t.Errorf("%s: %s: says %q", node, broken.name, out)
			}
			if state := c.ShowNode(node)["State"]; strings.Contains(state, "DRAIN") {
				t.Errorf("%s: %s: the node is %s", node, broken.name, state)
			}
		}
	}
}

// TestNothingThatAUserWritesReachesAShellOnANode puts it into the comment, the annotation, and the variables that a
// node looks at.
func TestNothingThatAUserWritesReachesAShellOnANode(t *testing.T) {
	c := OpenCluster(t)
	c.Clear()
	c.Serve("n2", "", byScripts)
	const evil = "$(touch /shared/out/owned)`touch /shared/out/owned`;touch /shared/out/owned"
	for _, node := range []string{"n1", "n2"} {
		out := c.MustExec("login", "alice", "env", "OMP_NUM_THREADS="+evil, "SYNERGY_SET=OMP_NUM_THREADS="+evil,
			"SYNERGY_ROUND="+evil, "SLURM_STEP_TASKS_PER_NODE="+evil,
			"sbatch", "--parsable", "--chdir=/shared/out", output,
			"--comment="+evil+" * synergy-profile=res18.json synergy-env=on "+evil, "--gres=gpu:1", "--job-name="+evil,
			"--wrap=env > /shared/out/env-$SLURM_JOB_ID; srun true")
		id := JobID(amount(out))
		c.CancelAtEnd(id)
		c.StartAs(id, 42, 1, 2, 2000, node)
		c.WaitForState(id, "COMPLETED")
		env := c.MustExec("login", "alice", "cat", "/shared/out/env-"+id.String())
		if !strings.Contains(env, "SYNERGY_ROUND=42") || !strings.Contains(env, "SYNERGY_CPUS=2") {
			t.Errorf("%s: the job was told\n%s", node, env)
		}
	}
	c.MustExec("login", "root", "test", "!", "-e", "/shared/out/owned")
}

// TestOptionsMeanWhatTheirWordsMean by what stands in the comment afterwards.
func TestOptionsMeanWhatTheirWordsMean(t *testing.T) {
	c := OpenCluster(t)
	for options, comment := range map[string]string{
		"--synergy-profile=res18.json": "synergy-profile=res18.json",
		"--synergy-profile=res18.json --synergy-checkpoint=USR1@60 --comment=mine,too":                                 "mine,too synergy-profile=res18.json synergy-checkpoint=USR1@60",
		"--synergy-profile=res18.json --synergy-checkpoint --synergy-length=2.5h --synergy-progress --synergy-env=off": "synergy-profile=res18.json synergy-checkpoint synergy-length=2.5h synergy-progress synergy-env=off",
		"--synergy-profile=res18.json --synergy-cores=keep --synergy-memory=give":                                      "synergy-profile=res18.json synergy-cores=keep synergy-memory=give",
		"--synergy-checkpoint=TERM@5 --comment=synergy-profile=res18.json":                                             "synergy-profile=res18.json synergy-checkpoint=TERM@5",
		"--synergy-profile=res18.json --comment=synergy-profile=res18.json":                                            "synergy-profile=res18.json",
		"--comment=synergy-profile=res18.json":                                                                         "synergy-profile=res18.json",
		"--comment=nothing-of-ours":                                                                                    "nothing-of-ours",
		"--synergy-profile=res18.json --synergy-share=low,mem=6 --comment=mine": "mine " +
			"synergy-profile=res18.json synergy-share=low,mem=6",
		"--synergy-share=low,mem=6 --comment=synergy-profile=res18.json,synergy-share=low,mem=6,mine": "" +
			"synergy-profile=res18.json,synergy-share=low,mem=6,mine",
	} {
		id := c.MustSbatch("alice", sleeper, append(strings.Fields(options), "--gres=gpu:1", "--hold")...)
		if got := c.ShowJob(id)["Comment"]; got != comment {
			t.Errorf("%s: the comment is %q, want %q", options, got, comment)
		}
	}
	in := c.MustSbatch("alice", "#SBATCH --synergy-profile=res18.json\n"+sleeper, "--gres=gpu:1")
	if got := c.ShowJob(in)["Comment"]; got != "synergy-profile=res18.json" {
		t.Errorf("in the script: the comment is %q", got)
	}
	if help := c.MustExec("login", "alice", "sbatch", "--help"); !strings.Contains(help,
		"--synergy-profile=NAME.json") {
		t.Error("sbatch --help does not tell")
	}
}

func TestAnOptionThatIsWrongIsRefusedAtOnce(t *testing.T) {
	c := OpenCluster(t)
	for options, sentence := range map[string]string{
		"--synergy-profile=../x.json": "--synergy-profile is " +
			"not right; it should be a profile's file name",
		"--synergy-profile=res18.json --synergy-checkpoint=KILL": "--synergy-checkpoint " +
			"is not right; it should be a signal",
		"--synergy-profile=res18.json --synergy-length=soon": "--synergy-length is " +
			"not right; it should be a number",
		"--synergy-profile=res18.json --synergy-cores=no": "--synergy-cores is " +
			"not right; it should be keep",
		"--synergy-profile=res18.json --synergy-env=no": "--synergy-env is not " +
			"right; it should be on",
		"--synergy-profile=res18.json --comment=synergy-profile=gnmt.json": "says otherwise than " +
			"synergy-profile=gnmt.json in the comment",
		"--synergy-profile=res18.json --synergy-checkpoint --comment=synergy-checkpoint=USR2": "says otherwise than " +
			"synergy-checkpoint=USR2",
		"--synergy-checkpoint": "no synergy-profile=NAME.json",
	} {
		_, err := c.Sbatch("alice", sleeper, append(strings.Fields(options), "--gres=gpu:1")...)
		wantRefusal(t, err, sentence)
	}
	for _, command := range []string{"srun", "salloc"} {
		said, err := c.Terminal(command, "--synergy-profile=res18.json", "--synergy-checkpoint", "--gres=gpu:1", "true")
		if err != nil || !strings.Contains(said, "never asks an interactive job to give way") {
			t.Errorf("%s with a checkpoint, which Slurm alone runs: %v: %s", command, err, said)
		}
	}
}

// TestAJobHandsItsOptionsToNoOther: neither to its steps, nor to the jobs that it submits.
func TestAJobHandsItsOptionsToNoOther(t *testing.T) {
	c := OpenCluster(t)
	c.Clear()
	id := c.MustSbatch("alice",
		`srun true || exit 1; srun --synergy-profile=gnmt.json true; sbatch --parsable --hold --gres=gpu:1 --wrap true`,
		"--synergy-profile=res18.json", "--gres=gpu:1", output)
	c.StartAs(id, 42, 1, 2, 2000, "n1")
	c.WaitForState(id, "COMPLETED")
	lines := strings.Fields(c.Output(id))
	inner := JobID(amount(lines[len(lines)-1]))
	c.CancelAtEnd(inner)
	if got := c.ShowJob(inner)["Comment"]; got != "" {
		t.Errorf("the job in the job has the comment %q", got)
	}
	if !strings.Contains(c.Output(id), "give it to sbatch") {
		t.Errorf("a step takes the option of a job: %s", c.Output(id))
	}
}

func TestWithoutTheFilterAnOptionIsRefusedAndNotLost(t *testing.T) {
	c := OpenCluster(t)
	const comment, uncomment = `sed -i s/^CliFilter/#CliFilter/ /etc/slurm/slurm.conf`,
		`sed -i s/^#CliFilter/CliFilter/ /etc/slurm/slurm.conf`
	c.MustExec("login", "root", "sh", "-c", comment)
	t.Cleanup(func() { c.MustExec("login", "root", "sh", "-c", uncomment) })
	_, err := c.Sbatch("alice", sleeper, "--synergy-profile=res18.json", "--gres=gpu:1")
	wantRefusal(t, err, "--synergy-profile did not reach the comment")
	c.MustSbatch("alice", sleeper, "--synergy-profile=res18.json", "--comment=synergy-profile=res18.json",
		"--gres=gpu:1")
	c.MustSbatch("alice", sleeper, "--synergy-profile=res18.json", "-p", "plain", "--hold")
}
