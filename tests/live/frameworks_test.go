//go:build live

package live

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// counting is what all trainers of this test have in common: they count, and what they have saved is a file.
const counting = `import os, signal, subprocess, sys, threading, time
state = "/shared/out/%s.trained" % os.environ["SLURM_JOB_ID"]
rank = int(os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or 0)
n = int(open(state).read()) if os.path.exists(state) else 0
print("rank", rank, "goes on at", n, flush=True)
last = n + 20 if os.environ.get("SLURM_RESTART_COUNT") else 10 ** 6  # it ends in its second run

def step():
    global n
    time.sleep(0.1)
    n += 1

def save():
    if rank == 0:
        with open(state + ".new", "w") as f:
            f.write(str(n))
        os.rename(state + ".new", state)
        print("saved at", n, flush=True)
`

// trainers do what the frameworks do: their sequence of signals, calls and ends, as their sources have it in 2026.
var trainers = map[string]string{
	// transformers, TrainingArguments(enable_jit_checkpoint=True): the handler of SIGTERM starts a timer of three
	// seconds, after which the checkpoint is asked for; the next step saves it and stops the training, and the script
	// goes on behind train() and ends well.
	"huggingface": `wanted = False
def want():
    global wanted
    wanted = True
def sigterm(signum, frame):
    if not wanted:
        threading.Timer(3, want).start()
signal.signal(signal.SIGTERM, sigterm)
while n < last and not wanted:
    step()
if wanted:
    save()
print("behind train()", flush=True)`,

	// Megatron-LM, --exit-signal-handler: a flag in each rank, which all gather after each step; they save together,
	// and exit with 0.
	"megatron": `received = False
def handler(signum, frame):
    global received
    received = True
signal.signal(signal.SIGTERM, handler)
while n < last:
    step()
    if received:
        save()
        print("exiting program after receiving SIGTERM.", flush=True)
        sys.exit()`,

	// PyTorch Lightning, SLURMEnvironment: USR1 in each task; rank 0 saves and requeues, all go on until SIGTERM comes,
	// and end with 143.
	"lightning": `def usr1(signum, frame):
    save()
    if rank == 0:
        subprocess.call(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]])
signal.signal(signal.SIGUSR1, usr1)
signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(143))
while n < last:
    step()`,

	// A script that knows no signal: it saves every second.
	"plain": `while n < last:
    step()
    if n % 10 == 0:
        save()`,
}

// torchrun has handlers for TERM, INT, HUP and QUIT, of which it ends its workers, after 30 s by force, and fails
// itself; it dies of any other. It ends with 0 when all workers have, and with 1 when one has failed, of which it ends
// the others.
const torchrun = `import os, signal, subprocess, sys, time
def ended(signum, frame):
    raise KeyboardInterrupt("SignalException: got signal: %d" % signum)
for name in ("TERM", "INT", "HUP", "QUIT"):
    signal.signal(getattr(signal, "SIG" + name), ended)
workers = [subprocess.Popen([sys.executable, sys.argv[1]], env=dict(os.environ, RANK=str(r))) for r in range(2)]
failed = False
try:
    while not failed and any(w.poll() is None for w in workers):
        time.sleep(0.1)
        failed = any(w.poll() for w in workers)
except KeyboardInterrupt as said:
    print(said, flush=True)
    failed = True
if failed:
    for w in workers:
        w.terminate()
    for w in workers:
        w.wait(30)
    sys.exit(1)
`

// TestATrainerOfEachFrameworkGivesWayAndGoesOnWithTheLinesOfTheManual: the lines are those of docs/python.md. Least
// attained service, four full nodes, and a newcomer for each.
func TestATrainerOfEachFrameworkGivesWayAndGoesOnWithTheLinesOfTheManual(t *testing.T) {
	c, d := SetUp(t, "las", "tune")
	const folder = "/shared/out/frameworks"
	c.MustExec("login", "alice", "mkdir", "-p", folder)
	put := func(name, text string) {
		if _, err := c.ExecInput("login", "alice", text, "tee", folder+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	put("torchrun", torchrun)
	for name, text := range trainers {
		put(name+".py", counting+text+"\nif n >= last:\n    print(\"rank\", rank, \"trained to\", n, flush=True)\n")
	}
	d.Start()
	jobs := []struct {
		name, line, word string
		node, ranks      int
		id               JobID
	}{
		{name: "Hugging Face", line: "exec synergy run -- python3 huggingface.py", word: "USR1@20", node: 1, ranks: 1},
		{name: "torchrun", line: "exec synergy run --children --accept 1 -- python3 torchrun megatron.py",
			word: "USR1@20", node: 1, ranks: 2},
		{name: "Megatron", line: "exec synergy run --steps -- srun python3 megatron.py", word: "USR1@20", node: 2,
			ranks: 2},
		{name: "Megatron, each task by itself", line: "srun synergy run -- python3 megatron.py", word: "USR1@20/steps",
			node: 2, ranks: 2},
		{name: "Lightning, behind srun", line: "exec synergy run --send USR1 -- srun python3 lightning.py",
			word: "USR1@20", node: 3, ranks: 2},
		{name: "Lightning as it is", line: "srun python3 lightning.py", word: "USR1@20/steps", node: 3, ranks: 2},
		{name: "plain", line: "TRAINER=python3 exec /opt/synergy/etc/examples/train_run.sh plain.py", word: "USR1@20",
			node: 4, ranks: 1},
		{name: "plain, torchrun", line: "exec synergy run --children --accept 1 -- python3 torchrun plain.py",
			word: "USR1@20", node: 4, ranks: 2},
	}
	for k := range jobs {
		j := &jobs[k]
		script := "cd " + folder + "; export PATH=$PATH:/opt/synergy/bin\n" + j.line
		j.id = c.MustSbatch("alice", script, "-w", fmt.Sprintf("n%d", j.node),
			fmt.Sprintf("--ntasks-per-node=%d", j.ranks), "--gres=gpu:4", output,
			"--open-mode=append", "--comment=synergy-profile=gnmt.json synergy-checkpoint="+j.word)
	}
	for _, j := range jobs {
		c.WaitFor(j.name+" has begun", func() bool { return c.says(j.id, "goes on at 0") == j.ranks })
	}
	var newcomers []JobID
	for _, node := range c.nodes() {
		newcomers = append(newcomers, c.MustSbatch("bob", "sleep 1", "-w", node, "--gres=gpu:8",
			"--comment=synergy-profile=gnmt.json", output))
	}
	for _, id := range newcomers {
		c.WaitForState(id, "COMPLETED")
	}
	for _, j := range jobs {
		c.WaitForState(j.id, "COMPLETED")
		c.mustHaveTrained(j.name, j.id, j.ranks)
	}
	for _, line := range d.Log() {
		// it may be asked for somebody else in the moment in which it has finished
		if line["message"] == "lost" && line["cause"] != "exit-zero" {
			t.Errorf("a job that came back is told as lost: %v", line)
		}
	}
}

// mustHaveTrained checks that the job was restarted once, that all its ranks went on from the newest checkpoint then,
// and that all have come to the end in their last run.
func (c *Cluster) mustHaveTrained(name string, id JobID, ranks int) {
	c.t.Helper()
	out := c.Output(id)
	starts := regexp.MustCompile(`goes on at (\d+)`).FindAllStringSubmatchIndex(out, -1)
	if len(starts) != 2*ranks {
		c.t.Errorf("%s: %d starts of ranks, want two of each of %d:\n%s", name, len(starts), ranks, out)
		return
	}
	second := starts[ranks]
	saved := regexp.MustCompile(`saved at (\d+)`).FindAllStringSubmatch(out[:second[0]], -1)
	if len(saved) == 0 {
		c.t.Errorf("%s has not saved:\n%s", name, out)
		return
	}
	n, _ := strconv.Atoi(saved[len(saved)-1][1])
	if restarts := c.ShowJob(id)["Restarts"]; n == 0 || restarts != "1" ||
		strings.Count(out, fmt.Sprintf("goes on at %d\n", n)) != ranks ||
		strings.Count(out, fmt.Sprintf("trained to %d", n+20)) != ranks {
		c.t.Errorf(
			"%s saved at %d and was restarted %s times, want once, and all ranks to go on from there to the end:\n%s",
			name, n, restarts, out)
	}
}
