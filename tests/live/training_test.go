//go:build live

package live

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

//go:embed testdata/training.py
var trainingScript string

// What a user submits: the three lines of the contract, around a trainer that is started again where it was killed, as
// torchrun does it.
const trainingJob = `cd ~/training
trap 'kill -USR1 "$pid"; wait "$pid"; exit 98' USR1
code=137
while [ "$code" = 137 ]; do
    venv/bin/python training.py disturbed 0.05 & pid=$!
    echo "$pid" > disturbed.pid
    wait "$pid"
    code=$?
done
exit "$code"`

const trainingFolder = "/shared/home/alice/training"

// trainedStep is a step that was trained. Its loss is hexadecimal, so that alike means bit for bit.
type trainedStep struct {
	Step, Epoch int
	Loss        string
	Samples     []int
}

// trainerStart is a start of the trainer, in which run of the job (0 is the first), and what it trained until it ended.
type trainerStart struct {
	Node                string
	Run, Workers, After int
	steps               []trainedStep
}

// last is how many steps the training had come to when the start ended.
func (s trainerStart) last() int { return s.After + len(s.steps) }

// trained is what a training says at its end: its weights, and what the history behind them has trained.
type trained struct {
	Weights string
	Steps   []trainedStep
}

// training is the user's side: her job, in a folder on the shared file system.
type training struct {
	*Cluster
	d  *Daemon
	id JobID
	// before is the job that it has given way to last, which still runs.
	before JobID
	// allowed is up to which step it may go at its own pace.
	allowed int
}

// stretch is how many steps lie between two disturbances, so that the machine may be as slow as it likes.
const stretch = 24

// disturbed lets the training go on by a stretch, which is where it is disturbed.
func (tr *training) disturbed() (was trainerStart, starts int) {
	tr.t.Helper()
	was, starts = tr.latest()
	tr.allowed += stretch
	tr.put("disturbed.allowed.new", fmt.Sprint(tr.allowed))
	tr.MustExec("login", "alice", "mv", trainingFolder+"/disturbed.allowed.new", trainingFolder+"/disturbed.allowed")
	return was, starts
}

func (s trainerStart) String() string {
	return fmt.Sprintf("run %d on %s with %d workers: %d steps after %d", s.Run, s.Node, s.Workers, len(s.steps),
		s.After)
}

// SetUpTraining installs python/ as a site does: into an environment that all nodes see, with nothing to download from.
func (d *Daemon) SetUpTraining() *training {
	tr := &training{Cluster: d.c, d: d}
	tr.t.Helper()
	if _, err := tr.Exec("login", "alice", "python3", "-c", "import torch, PIL"); err != nil {
		tr.t.Fatalf("the cluster is one without PyTorch: make cluster-up TORCH=yes: %v", err)
	}
	const install = `rm -rf "$1" && mkdir -p "$1/package" && cd "$1" && tar -x -C package && echo 0 > disturbed.allowed &&
		python3 -m venv --system-site-packages venv && venv/bin/pip -q install --no-index ./package`
	sources := pythonSources(tr.t)
	if _, err := tr.ExecInput("login", "alice", sources, "sh", "-c", install, "sh", trainingFolder); err != nil {
		tr.t.Fatal(err)
	}
	tr.put("training.py", trainingScript)
	return tr
}

// pythonSources is python/ as a tar file.
func pythonSources(t testing.TB) string {
	t.Helper()
	sources, err := exec.Command("tar", "-C", "../../python", "--exclude=__pycache__", "-c", ".").Output()
	if err != nil {
		t.Fatalf("tar python/: %v", err)
	}
	return string(sources)
}

func (tr *training) put(name, text string) {
	tr.t.Helper()
	if _, err := tr.ExecInput("login", "alice", text, "tee", trainingFolder+"/"+name); err != nil {
		tr.t.Fatal(err)
	}
}

// knee has the site measure the profile of the job again: the rate grows up to so many cores.
func (d *Daemon) knee(cores int) {
	d.c.t.Helper()
	const text = `{"version":1,"model":"images","task":"image","gpu_type":"none","batch":16,"checkpoint_s":1,"start_s":0,
		"cores_per_gpu":[1,2,3,4,5,6],"memory_per_gpu_mib":[4000],
		"throughput_samples_per_s":[[%d],[%d],[%d],[%d],[%d],[%d]]}`
	var rates []any
	for has := 1; has <= 6; has++ {
		rates = append(rates, 100*min(has, cores))
	}
	d.Put("images.json", fmt.Sprintf(text, rates...))
	d.c.MustExec("login", "synergy", "mv", d.dir+"/images.json", d.dir+"/profiles/images.json")
}

// starts reads the log of the disturbed training: a line for each start, and one for each step that was ever trained.
func (tr *training) starts() (starts []trainerStart) {
	tr.t.Helper()
	log, err := tr.Exec("login", "alice", "cat", trainingFolder+"/disturbed/log")
	if err != nil {
		return nil // it has not begun
	}
	for text := range strings.Lines(log) {
		var start trainerStart
		var step trainedStep
		whole := json.Unmarshal([]byte(text), &start) == nil && json.Unmarshal([]byte(text), &step) == nil
		switch {
		case whole && step.Loss == "":
			starts = append(starts, start)
		case whole && len(starts) > 0:
			starts[len(starts)-1].steps = append(starts[len(starts)-1].steps, step)
		default:
			tr.t.Fatalf("the log of the training has %q", text)
		}
	}
	return starts
}

func (tr *training) latest() (start trainerStart, starts int) {
	tr.t.Helper()
	all := tr.starts()
	if len(all) == 0 {
		return trainerStart{}, 0
	}
	return all[len(all)-1], len(all)
}

// trains waits for a start beyond the first so many that is as it should be, and has trained.
func (tr *training) trains(what string, beyond int, holds func(trainerStart) bool) {
	tr.t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(300 * time.Millisecond) {
		last, starts := tr.latest()
		if starts > beyond && len(last.steps) >= 2 && holds(last) {
			return
		}
		if time.Now().After(end) {
			tr.t.Fatalf("waited in vain until the training %s; last: %v\n%s", what, last, tr.Output(tr.id))
		}
	}
}

// moves has somebody who has attained less want all of the node on which the training runs: it goes on elsewhere, with
// so many cores, and not where it was before that either.
func (tr *training) moves(cores int) {
	tr.t.Helper()
	was, starts := tr.disturbed()
	tr.d.knee(cores)
	const word = "--comment=synergy-profile=gnmt.json"
	newcomer := tr.MustSbatch("bob", "sleep 600", word, "--gres=gpu:8", "-w", was.Node, output)
	tr.trains(fmt.Sprintf("goes on with %d workers, and not on %s", cores, was.Node), starts,
		func(s trainerStart) bool {
			return s.Node != was.Node && s.Workers == cores
		})
	if tr.before != 0 {
		tr.MustExec("login", "bob", "scancel", tr.before.String())
	}
	tr.before = newcomer
}

// grows has the profile say that more cores are worth having: the daemon restarts the job with them. They have to be
// several times as many, since the gain has to pay for a restart as long as this job's own have been.
func (tr *training) grows(cores int) {
	tr.t.Helper()
	_, starts := tr.disturbed()
	tr.d.knee(cores)
	tr.trains(fmt.Sprintf("goes on with %d workers", cores), starts, func(s trainerStart) bool {
		return s.Workers == cores
	})
}

// isKilled kills the trainer with its workers, or alone: in a step, between two or while it saves, and again at any
// moment of the start that follows.
func (tr *training) isKilled(alone bool) {
	tr.t.Helper()
	was, starts := tr.disturbed()
	kill := "pkill -KILL -u alice -f '[t]raining.py'" // and not this line itself
	if alone {
		kill = `kill -KILL "$(cat ` + trainingFolder + `/disturbed.pid)"`
	}
	for range 2 {
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Millisecond)
		tr.MustExec(was.Node, "alice", "sh", "-c", kill+" || true") // there may be none at this moment
	}
	tr.trains("goes on after it was killed", starts, func(trainerStart) bool { return true })
}

// TestATrainingThatIsDisturbedEndsBitForBitAsOneLeftAlone: a real one with a real loader, of which only the GPU is not
// there. Five times it gives way to others and goes on elsewhere, twice it grows, and it is killed outright between.
func TestATrainingThatIsDisturbedEndsBitForBitAsOneLeftAlone(t *testing.T) {
	t.Parallel()
	c, d := SetUp(t, "las", "tune")
	d.Round = 3 * time.Second
	d.knee(4)
	tr := d.SetUpTraining()
	d.Start()
	// Beside the cluster, so that nothing of Slurm's or the daemon's is in what it says.
	const alone = `cd "$1" && SLURM_CPUS_PER_TASK=2 venv/bin/python training.py alone 0.0001`
	left := make(chan error, 1)
	go func() { _, err := c.Exec("login", "alice", "sh", "-c", alone, "sh", trainingFolder); left <- err }()

	tr.id = c.MustSbatch("alice", trainingJob, word("images"), "--gres=gpu:1", "-c", "3", output, "--open-mode=append")
	tr.trains("begins", 0, func(trainerStart) bool { return true })
	tr.isKilled(false)
	tr.moves(1)
	tr.grows(6)
	tr.isKilled(true)
	tr.moves(2)
	tr.moves(5)
	tr.isKilled(false)
	tr.moves(1)
	tr.grows(4)
	tr.isKilled(true)
	tr.moves(3)
	tr.allowed = 1000 // more than there are
	tr.disturbed()
	c.waitLong(tr.id, "COMPLETED", 3*time.Minute)
	if err := <-left; err != nil {
		t.Fatal(err)
	}
	starts, want := tr.starts(), tr.outcome("alone")
	wasDisturbed(t, starts)
	isExact(t, tr.outcome("disturbed"), want)
	lostNothing(t, starts, want.Steps)
}

func (tr *training) outcome(folder string) (o trained) {
	tr.t.Helper()
	text := tr.MustExec("login", "alice", "cat", trainingFolder+"/"+folder+"/outcome")
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		tr.t.Fatalf("the outcome of the training in %s: %v", folder, err)
	}
	return o
}

// wasDisturbed: moved five times, resized seven times, killed four times, with each number of workers from 1 to 6.
func wasDisturbed(t *testing.T, starts []trainerStart) {
	t.Helper()
	workers, nodes := map[int]bool{}, map[string]bool{}
	moved, resized, killed, again := 0, 0, 0, 0
	for i, s := range starts {
		t.Log(s)
		workers[s.Workers], nodes[s.Node] = true, true
		if i == 0 {
			continue
		}
		before := starts[i-1]
		again += before.last() - s.After
		if s.Run == before.Run {
			killed++
		}
		if s.Node != before.Node {
			moved++
		}
		if s.Workers != before.Workers {
			resized++
		}
	}
	t.Logf("moved %d times, resized %d times, killed %d times; %d steps trained again", moved, resized, killed, again)
	if !slices.Equal(slices.Sorted(maps.Keys(workers)), []int{1, 2, 3, 4, 5, 6}) || len(nodes) < 3 {
		t.Errorf("it has run with %v workers on %v, want 1 to 6 on three nodes", workers, nodes)
	}
	if moved < 5 || resized < 7 || killed < 4 {
		t.Error("want it moved five times, resized seven times and killed four times")
	}
}

// isExact: the weights, losses and samples of the one left alone, and each epoch has each sample once.
func isExact(t *testing.T, has, want trained) {
	t.Helper()
	if has.Weights != want.Weights {
		t.Error("it has other weights than the one left alone")
	}
	if len(has.Steps) != len(want.Steps) {
		t.Fatalf("it has trained %d steps, the one left alone %d", len(has.Steps), len(want.Steps))
	}
	epochs := map[int][]int{}
	for i, step := range has.Steps {
		if fmt.Sprint(step) != fmt.Sprint(want.Steps[i]) {
			t.Fatalf("step %d is %v, of the one left alone %v", i, step, want.Steps[i])
		}
		epochs[step.Epoch] = append(epochs[step.Epoch], step.Samples...)
	}
	for epoch, samples := range epochs {
		slices.Sort(samples)
		for i, sample := range samples {
			if sample != i || len(samples) != len(epochs[0]) {
				t.Fatalf("epoch %d has trained %d samples, and not each once: %v", epoch, len(samples), samples)
			}
		}
	}
	t.Logf("%d steps, %d epochs of %d samples", len(has.Steps), len(epochs), len(epochs[0]))
}

// lostNothing: one that was asked to leave goes on after its last step. One that was killed goes back to a checkpoint,
// and what is trained again comes out as the first time.
func lostNothing(t *testing.T, starts []trainerStart, want []trainedStep) {
	t.Helper()
	for i, s := range starts {
		for k, step := range s.steps {
			if step.Step != s.After+k || fmt.Sprint(step) != fmt.Sprint(want[step.Step]) {
				t.Fatalf("start %d, after %d steps: %v, of the one left alone %v", i, s.After, step, want[step.Step])
			}
		}
		if i == 0 {
			continue
		}
		before := starts[i-1]
		asked := s.Run != before.Run
		if asked && s.After != before.last() || s.After < before.After || s.After > before.last() {
			t.Errorf("start %d of run %d goes on after %d steps; the one before, of run %d, had gone from %d to %d",
				i, s.Run, s.After, before.Run, before.After, before.last())
		}
	}
}

// TestThePythonPackageKeepsItsPromisesWithTorch runs the package's tests that train, for which the cluster has PyTorch,
// on a role that has nothing else to do, and while no other test runs: one of them measures what two cores do.
func TestThePythonPackageKeepsItsPromisesWithTorch(t *testing.T) {
	c := OpenCluster(t)
	const suite = `cd "$(mktemp -d)" && tar -x && export TEST_SYNERGY=/opt/synergy/bin/synergy &&
		exec python3 -B -m pytest --durations=0 -v tests_torch`
	out, err := c.ExecInput("backup", "alice", pythonSources(t), "sh", "-c", suite)
	t.Log(out)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, " passed") || strings.Contains(out, "skipped") {
		t.Error("tests were skipped, or there were none")
	}
}
