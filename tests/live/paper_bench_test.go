//go:build live && bench

package live

import (
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What a restart costs a job of these experiments, in its own seconds: the 60 s that docs/paper.md takes for a site, a
// third of them the save. Beside it comes what Slurm takes between two runs, which no speed makes shorter.
const (
	paperSave    = 20.0
	paperWarmUp  = 40.0
	paperRequeue = 3.5 // seconds of the cluster, as tests of restarts print them
)

// The rules of a site, in its own seconds: docs/operations.md has them.
const (
	paperRound    = 300.0
	paperMinRun   = 600.0
	paperHorizon  = 3600.0
	paperPayback  = 900.0
	paperPatience = 3600.0
)

// rule is a rule of a site on the cluster. The daemon takes none below a minute.
func rule(s, speed float64) string { return max(seconds(s/speed), time.Minute).String() }

// paperLimit is how long one side of an experiment may take.
const paperLimit = 4 * time.Hour

// experiment is one of the two that the paper ran on its own 32 GPUs (Synergy, OSDI'22, §5.2).
type experiment struct {
	name, says  string
	policy      string
	file        string   // of the published traces
	drawn       []string // options of synergy sim that draw one of the kind
	figure      string   // that the paper looks at
	of          func(side) float64
	aim         float64
	static      bool
	preemptive  bool
	paperGained string
}

// published are the models of the published traces with their part in a hundred: 60/30/10, without m5.
const published = "alexnet=12,res18=12,res50=12,mobilenet=12,shufflenet=12,gnmt=10,transformer=10,lstm=10,deepspeech=10"

var paperExperiments = []experiment{
	{
		name: "static", says: "100 jobs at once, FIFO", policy: "fifo",
		file: "static_100job.csv", static: true, drawn: []string{"--static"},
		figure: "makespan", of: side.makespan, aim: 1.4, paperGained: "1.4×",
	},
	{
		name: "dynamic", says: "100 jobs, 30 an hour, SRTF", policy: "srtf",
		file: "dynamic_100job.csv", drawn: []string{"--load", "30"},
		figure: "mean completion", of: side.mean, aim: 1.3, preemptive: true, paperGained: "1.5×",
	},
}

// TestThePapersExperiments runs each on two clusters at once, one with Slurm alone and proportional requests, one with
// the daemon, lays what the simulator says beside both, and tells where the time went. A second stands for SPEED
// seconds.
func TestThePapersExperiments(t *testing.T) {
	speed := setting(t, "SPEED", 25)
	only := os.Getenv("ONLY")
	ran := 0
	for _, e := range paperExperiments {
		if only == "" || only == e.name {
			t.Run(e.name, func(t *testing.T) { e.run(t, speed) })
			ran++
		}
	}
	if ran == 0 {
		t.Fatalf("ONLY=%s: want static or dynamic", only)
	}
}

// setting is a number of the environment.
func setting(t *testing.T, name string, otherwise float64) float64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 1 && x <= 1000) {
		t.Fatalf("%s=%s: want 1 to 1000", name, text)
	}
	return x
}

func (e experiment) run(t *testing.T, speed float64) {
	trace := e.trace(t)
	jobs := readTrace(t, trace, speed)
	var alone, ours side
	t.Run("on two clusters", func(t *testing.T) {
		t.Run("Slurm alone", func(t *testing.T) {
			t.Parallel()
			c := &Cluster{t: t, project: os.Getenv("SYNERGY_CLUSTER") + "-alone"}
			c.Clear()
			t.Cleanup(c.Clear)
			plain := func(state string) {
				c.MustExec("slurmctld", "root", "scontrol", "update", "partitionname=plain", "state="+state)
			}
			plain("down") // takes jobs and starts none
			proportional := func(j planned) string {
				return fmt.Sprintf("-p plain -c %d --mem=%d", 3*j.gpus, 62500*j.gpus)
			}
			alone = c.replayPaper(e, jobs, speed, proportional, func() { plain("up") })
		})
		t.Run("synergy-slurmd", func(t *testing.T) {
			t.Parallel()
			c, d := e.setUp(t, speed)
			opted := func(j planned) string {
				return fmt.Sprintf("-c %d '%s synergy-length=%.3fs'", 3*j.gpus, word(j.model), j.length.Seconds())
			}
			ours = c.replayPaper(e, jobs, speed, opted, func() { d.Start() })
		})
	})
	if len(alone.jobs) != len(jobs) || len(ours.jobs) != len(jobs) {
		t.Fatalf("%d and %d of %d jobs ended", len(alone.jobs), len(ours.jobs), len(jobs))
	}
	e.report(t, trace, jobs, speed, alone, ours)
}

// trace is the file with the jobs: the published one in TRACES, or one that is drawn.
func (e experiment) trace(t *testing.T) string {
	t.Helper()
	if folder := os.Getenv("TRACES"); folder != "" {
		return filepath.Join(folder, e.file)
	}
	path := filepath.Join(t.TempDir(), "drawn.csv")
	argv := append([]string{"--jobs", "100", "--split", published, "--seed", "42",
		"--policy", "fifo", "--allocator", "proportional", "--cluster", "4x8:24:500", "--record", path}, e.drawn...)
	simulation(t, "durations: small\n", argv...)
	return path
}

// simulation runs synergy sim with these keys of an experiment and these flags.
func simulation(t *testing.T, keys string, argv ...string) {
	t.Helper()
	argv = append([]string{"sim", "-", "--quiet"}, argv...)
	command := exec.Command("../../bin/synergy", argv...)
	command.Stdin = strings.NewReader(keys)
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("synergy %s: %v: %s", strings.Join(argv, " "), err, said)
	}
}

// readTrace reads the jobs of a recorded trace (job,model,arrival,iterations,gpus), with times as they are on the
// cluster.
func readTrace(t *testing.T, path string, speed float64) []planned {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	var jobs []planned
	for k, row := range rows {
		arrival, bad := strconv.ParseFloat(row[2], 64)
		iterations, worse := strconv.Atoi(row[3])
		gpus, worst := strconv.Atoi(row[4])
		if bad != nil || worse != nil || worst != nil || iterTime[row[1]] == 0 {
			t.Fatalf("%s:%d: %q: want job,model,arrival,iterations,gpus with a model of the paper", path, k+1, row)
		}
		jobs = append(jobs, planned{model: row[1], gpus: gpus, iterations: iterations,
			arrival: seconds(arrival / speed), length: seconds(float64(iterations) * iterTime[row[1]] / speed)})
	}
	return jobs
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// setUp prepares the daemon with the rules of a site, in the cluster's time, and as much ahead as is shipped.
func (e experiment) setUp(t *testing.T, speed float64) (*Cluster, *Daemon) {
	t.Helper()
	c, d := SetUp(t, e.policy, "tune")
	d.Round = e.round(speed)
	d.Put("config.yaml", fmt.Sprintf(`partitions: [synergy]
policy: %s
allocator: tune
profile_dirs: [%s/profiles]
lease: 120s
start_timeout: 15s
rules:
  stranded: 0.1
  min_run: %s
  horizon: %s
  payback: %s
  patience: %s
`, e.policy, d.dir, seconds(paperMinRun/speed), rule(paperHorizon, speed), rule(paperPayback, speed),
		rule(paperPatience, speed)))
	const honest = `for p in "$1"/profiles/*.json; do
  jq ".checkpoint_s=$2 | .start_s=$3" "$p" > "$p.new" && mv "$p.new" "$p"
done`
	save, start := restartCost(speed)
	c.MustExec("login", "synergy", "sh", "-c", honest, "sh", d.dir, fmt.Sprint(save), fmt.Sprint(start))
	return c, d
}

func (e experiment) round(speed float64) time.Duration { return seconds(paperRound / speed) }

// restartCost is what the profiles say of a restart, in seconds of the cluster.
func restartCost(speed float64) (save, start float64) {
	return paperSave / speed, paperWarmUp/speed + paperRequeue
}

// trainsAt is the script of a job: it saves only when it is asked to, and only a restart has to warm up.
func (j planned) trainsAt(speed float64) string {
	return fmt.Sprintf(`[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] && warm=%g || warm=0
exec /opt/synergy/bin/synergy-emujob --profile %s.json --profile-dir /opt/synergy/etc/profiles --virtual-cpu \
  --iterations %d --speedup %g --start-cost $warm --checkpoint-cost %g --checkpoint-every 0 \
  --checkpoint "/shared/ckpt/$USER-$SLURM_JOB_ID" --interval 60s`,
		paperWarmUp, j.model, j.iterations, speed, paperSave)
}

// replayPaper submits the jobs, has them scheduled, waits for their end, and reads what became of them. All of a batch
// is there before anybody schedules it, and its time begins then; otherwise jobs come at their times, those of one
// second in one go.
func (c *Cluster) replayPaper(e experiment, jobs []planned, speed float64, args func(planned) string,
	open func()) side {
	c.t.Helper()
	var ids []JobID
	var came []time.Time
	if e.static {
		ids = c.submit(jobs, speed, args)
	}
	began := time.Now()
	open()
	for range ids {
		came = append(came, began)
	}
	for len(ids) < len(jobs) {
		first := jobs[len(ids)].arrival
		time.Sleep(time.Until(began.Add(first)))
		var group []planned
		for _, j := range jobs[len(ids):] {
			if j.arrival < first+seconds(1) {
				group = append(group, j)
			}
		}
		at := time.Now()
		for _, id := range c.submit(group, speed, args) {
			ids, came = append(ids, id), append(came, at)
		}
	}
	c.waitForAll(ids)
	return side{span: began, jobs: c.histories(jobs, ids, came), speed: speed}
}

// submit submits jobs in their order, from one shell.
func (c *Cluster) submit(jobs []planned, speed float64, args func(planned) string) []JobID {
	c.t.Helper()
	var script strings.Builder
	for _, j := range jobs {
		fmt.Fprintf(&script, "sbatch --parsable --chdir=/shared/home/alice --gres=gpu:%d %s --open-mode=append %s"+
			" <<'END' || exit 1\n#!/bin/bash\n%s\nEND\n", j.gpus, output, args(j), j.trainsAt(speed))
	}
	said, err := c.ExecInput("login", "alice", script.String(), "bash", "-s")
	if err != nil {
		c.t.Fatal(err)
	}
	var ids []JobID
	for _, text := range strings.Fields(said) {
		id, err := strconv.Atoi(text)
		if err != nil {
			c.t.Fatalf("sbatch answers %q", said)
		}
		ids = append(ids, JobID(id))
	}
	if len(ids) != len(jobs) {
		c.t.Fatalf("sbatch answers %q for %d jobs", said, len(jobs))
	}
	return ids
}

// waitForAll waits until none of the jobs waits or runs. A look that fails on a busy machine is made again.
func (c *Cluster) waitForAll(ids []JobID) {
	c.t.Helper()
	told := time.Now()
	for end := told.Add(paperLimit); ; time.Sleep(3 * time.Second) {
		said, err := c.Exec("login", "root", "squeue", "--noheader", "--user=alice", "--format=%T")
		if err == nil && said == "" {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("after %s some of %d jobs have not ended: %s, %v", paperLimit, len(ids), said, err)
		}
		if time.Since(told) > 5*time.Minute {
			told = time.Now()
			c.t.Logf("%d run, %d wait", strings.Count(said, "RUNNING"), strings.Count(said, "PENDING"))
		}
	}
}
