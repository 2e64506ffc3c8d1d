//go:build live

package live

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Daemon is a synergy-slurmd that runs as the user synergy on the login role.
type Daemon struct {
	c   *Cluster
	dir string // its configuration, ledger and log
	// Round is the time between its rounds.
	Round time.Duration
}

// Line is one line of the daemon's log.
type Line map[string]any

const daemonConfig = `partitions: [synergy]
policy: %s
allocator: %s
profile_dirs: [%s/profiles]
lease: %s
start_timeout: 15s
ahead: 0
rules:
  min_run: 0s
  stranded: 0.1
`

// SetUp clears the cluster of jobs and prepares a daemon, which Start starts. It is stopped when the test ends; its log
// is shown when the test has failed.
func SetUp(t *testing.T, policy, allocator string, extra ...string) (*Cluster, *Daemon) {
	t.Helper()
	c := OpenCluster(t)
	c.Clear()
	d := &Daemon{c: c, Round: 5 * time.Second, dir: "/shared/synergy/" +
		regexp.MustCompile(`\W+`).ReplaceAllString(t.Name(), "-")}
	config := fmt.Sprintf(daemonConfig, policy, allocator, d.dir, "30s") + strings.Join(extra, "\n") + "\n"
	c.MustExec("login", "synergy", "rm", "-rf", d.dir)
	c.MustExec("login", "synergy", "mkdir", "-p", d.dir+"/profiles")
	// Time is compressed: with the paper's half a minute a restart, nobody would ever be worth one.
	const quicken = `for p in /opt/synergy/etc/profiles/*.json; do jq ".checkpoint_s=1 | .start_s=0" "$p" > "$1/profiles/${p##*/}"; done`
	c.MustExec("login", "synergy", "sh", "-c", quicken, "sh", d.dir)
	d.Put("config.yaml", config)
	t.Cleanup(func() {
		c.Clear() // ends the daemon; a second signal would kill it before it has given its ticket back
		if t.Failed() {
			t.Log(c.MustExec("login", "synergy", "sh", "-c", `tail -n 150 "$1"/log*`, "sh", d.dir))
		}
	})
	return c, d
}

// Start starts the daemon, and returns once it has held a round.
func (d *Daemon) Start(flags ...string) {
	d.c.t.Helper()
	d.Launch(flags...)
	d.c.WaitFor("the daemon has held a round", func() bool {
		out, err := d.c.Exec("login", "synergy", "curl", "-sf", "http://127.0.0.1:9817/healthz")
		return err == nil && out != ""
	})
}

// Launch starts the daemon.
func (d *Daemon) Launch(flags ...string) {
	d.c.t.Helper()
	const run = `cd "$1"; shift; echo $$ > pid; exec /opt/synergy/bin/synergy-slurmd "$@" >> log 2>&1`
	argv := []string{"exec", "-d", "-u", "synergy", d.c.container("login"), "sh", "-c", run, "sh", d.dir,
		"--config", d.dir + "/config.yaml", "--round", d.Round.String(), "--slurmrestd", "http://slurmrestd:6820",
		// a flag that is said again counts as said last
		"--token-file", "/shared/synergy/token", "--ledger", d.dir + "/ledger"}
	d.c.docker(append(argv, flags...)...)
}

// Put writes a file into the daemon's folder.
func (d *Daemon) Put(name, text string) {
	d.c.t.Helper()
	if _, err := d.c.ExecInput("login", "synergy", text, "tee", d.dir+"/"+name); err != nil {
		d.c.t.Fatal(err)
	}
}

// Read reads a file in the daemon's folder.
func (d *Daemon) Read(name string) string {
	d.c.t.Helper()
	return d.c.MustExec("login", "synergy", "cat", d.dir+"/"+name)
}

// Signal sends the daemon a signal; one that does not run does not mind.
func (d *Daemon) Signal(name string) {
	_, _ = d.c.Exec("login", "synergy", "sh", "-c", `kill -"$1" "$(cat "$2"/pid)"`, "sh", name, d.dir)
}

// Log is the daemon's log so far.
func (d *Daemon) Log() []Line {
	d.c.t.Helper()
	var lines []Line
	for text := range strings.Lines(d.Read("log")) {
		line := Line{}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			d.c.t.Fatalf("log line %q: %v", text, err)
		}
		lines = append(lines, line)
	}
	return lines
}

// Get is a page of the daemon's own server.
func (d *Daemon) Get(path string) string {
	d.c.t.Helper()
	return d.c.MustExec("login", "synergy", "curl", "-sf", "http://127.0.0.1:9817"+path)
}

// Clear ends a daemon that a broken run has left, cancels every job, and waits until the nodes are empty.
func (c *Cluster) Clear() {
	c.t.Helper()
	// A daemon that ends by itself gives its ticket back, within twenty seconds; after a kill the next one would wait
	// until that is stale.
	const end = `pkill -TERM -x synergy-slurmd; for i in $(seq 80); do sleep 0.3; pkill -0 -x synergy-slurmd || exit; done; pkill -KILL -x synergy-slurmd`
	_, _ = c.Exec("login", "root", "sh", "-c", end)
	for _, user := range []string{"alice", "bob", "synergy"} {
		_, _ = c.Exec("login", "root", "timeout", "300", "scancel", "--user="+user)
	}
	c.WaitFor("the cluster is empty", func() bool {
		return c.MustExec("login", "root", "squeue", "--noheader") == ""
	})
	c.WaitFor("all nodes are idle", func() bool {
		states := c.MustExec("login", "root", "sinfo", "--noheader", "--Node", "--partition=synergy", "--format=%T")
		return !slices.ContainsFunc(strings.Fields(states), func(state string) bool { return state != "idle" })
	})
}

func (c *Cluster) nodes() []string {
	return strings.Fields(c.MustExec("login", "root", "sinfo", "--noheader", "--Node", "--partition=synergy",
		"--format=%N"))
}

// train is a batch script that trains a model of the paper for so many iterations, keeps its checkpoint, and saves on
// USR1. Time runs so much faster than in the real job.
func train(model string, iterations, speedup int) string {
	return fmt.Sprintf(`exec /opt/synergy/bin/synergy-emujob --profile %[1]s.json --profile-dir /opt/synergy/etc/profiles --virtual-cpu \
  --iterations %[2]d --speedup %[3]d --start-cost 0 --checkpoint-cost %[3]d --checkpoint "/shared/ckpt/$USER-$SLURM_JOB_ID" --interval 5s`,
		model, iterations, speedup)
}

// word is the comment of a job that saves.
func word(model string) string {
	return "--comment=synergy-profile=" + model + ".json synergy-checkpoint=USR1@20"
}

// output is the file that a job of a test writes to, over all its starts.
const output = "--output=/shared/out/%j.log"

// Output reads what the job has written.
func (c *Cluster) Output(id JobID) string {
	c.t.Helper()
	return c.MustExec("login", "root", "cat", fmt.Sprintf("/shared/out/%d.log", id))
}

// Allocation is what a job holds, of which nodes, as slurmctld says.
func (c *Cluster) Allocation(id JobID) (nodes string, tres map[string]int) {
	c.t.Helper()
	job := c.ShowJob(id)
	return job["NodeList"], amounts(job["AllocTRES"])
}

// amounts reads cpu=9,mem=62500M,node=1,gres/gpu=1; memory in MiB.
func amounts(tres string) map[string]int {
	sums := map[string]int{}
	for part := range strings.SplitSeq(tres, ",") {
		name, value, found := strings.Cut(part, "=")
		if !found {
			continue
		}
		sums[name] = amount(value)
	}
	return sums
}

func amount(value string) int {
	factor := 1.0
	switch {
	case strings.HasSuffix(value, "M"):
		value = strings.TrimSuffix(value, "M")
	case strings.HasSuffix(value, "G"):
		value, factor = strings.TrimSuffix(value, "G"), 1024
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return -1
	}
	return int(n * factor)
}

// Watch samples the nodes from slurmctld until the returned function is called, which returns how many samples there
// were and every breach of a node's capacity that was seen.
func (c *Cluster) Watch() (stop func() (samples int, breaches []string)) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	// It goes on while slurmctld is away, and ends with its standard input.
	const loop = `while scontrol --oneliner show nodes 2>/dev/null; read -rt 0.3; (($? > 128)); do :; done`
	cmd := exec.CommandContext(ctx, "docker", "exec", "-i", "-u", "root", c.container(c.compute()), "bash", "-c", loop)
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	var w watch
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.node(fields(lines.Text()))
		}
	})
	return func() (int, []string) {
		cancel()
		reading.Wait()
		_ = cmd.Wait() // it was killed
		return w.samples, w.breaches
	}
}

// watch is what the samples showed.
type watch struct {
	samples  int
	breaches []string
}

func (w *watch) node(n map[string]string) {
	if n["NodeName"] == "" && n["CfgTRES"] == "" {
		return
	}
	w.samples++
	has, holds := amounts(n["CfgTRES"]), amounts(n["AllocTRES"])
	for _, what := range []string{"cpu", "mem", "gres/gpu"} {
		if holds[what] > has[what] {
			w.breaches = append(w.breaches, fmt.Sprintf("%s: %s %d of %d", n["NodeName"], what, holds[what], has[what]))
		}
	}
}
