//go:build live

package live

import (
	"cmp"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// requests are what users ask for in many ways; %d is a number that differs from job to job.
var requests = []string{
	"--gres=gpu:1 -c 2 --mem=1%03d",
	"--gres=gpu:2 -c 3 --mem-per-cpu=5%02d",
	"--gpus=1 -n 2 -c 2 --mem=4%03d",
	"--gpus-per-node=2 -N 2 --ntasks-per-node=1 -c 1 --mem=2%03d",
	"--gpus-per-task=1 -n 2 -N 1 -c 1 --mem=6%02d",
	"--gres=gpu:1 -w n3 -c 1 --mem=7%02d",
	"--gres=gpu:4 -C hopper&nvlink -x n1 -c 4 --mem=8%03d",
	"--gres=gpu:1 --job-name=j%d",
	"--gres=gpu:3 -c 1 --no-requeue --time=%d",
	"--gres=gpu:1 -c 5 --mem=9%03d --comment=mine,synergy-profile=gnmt.json",
}

// what of scontrol show job a waiting job must show as its user submitted it.
var asSubmitted = []string{
	"NumNodes", "NumCPUs", "NumTasks", "CPUs/Task", "ReqTRES", "MinCPUsNode", "MinMemoryNode", "MinMemoryCPU",
	"ReqNodeList", "ExcNodeList",
	"Features", "TresPerNode", "TresPerJob", "TresPerTask", "Partition", "Comment", "Requeue", "TimeLimit", "JobName",
	"Priority",
}

// backlog is a cluster that is full and has sixty jobs waiting behind a daemon that knows them all.
type backlog struct {
	t       *testing.T
	c       *Cluster
	d       *Daemon
	full    []JobID
	waiting []JobID
	asked   map[JobID]map[string]string // the jobs before the daemon first saw one
	began   map[JobID]string            // when those that run began
}

// queueUp fills the cluster and queues sixty jobs of two seconds up behind.
func queueUp(t *testing.T, c *Cluster, d *Daemon) *backlog {
	t.Helper()
	b := &backlog{t: t, c: c, d: d, began: map[JobID]string{}}
	b.full = c.submitAll("alice", "sleep 900", slices.Repeat([]string{"--gres=gpu:8 -c 1 --mem=1000"},
		c.Setting("NODES")))
	var lines []string
	for k := range 60 {
		lines = append(lines, fmt.Sprintf(requests[k%len(requests)], 10+k))
	}
	b.waiting = c.submitAll("bob", "sleep 2", lines)
	b.asked = c.Jobs()
	d.Start()
	c.WaitFor("the cluster is full and each waiting job has been told why", func() bool {
		jobs := c.Jobs()
		for _, id := range b.full {
			if b.began[id] = jobs[id]["StartTime"]; jobs[id]["JobState"] != "RUNNING" {
				return false
			}
		}
		return !slices.ContainsFunc(b.waiting,
			func(id JobID) bool { return !strings.Contains(jobs[id]["Extra"], `"why"`) })
	})
	return b
}

// submitAll submits batch jobs with our directive that do the same and ask for different things, as one user.
func (c *Cluster) submitAll(user, does string, lines []string) []JobID {
	c.t.Helper()
	const submit = `cd && while read -r line; do sbatch --parsable --output=/dev/null --comment=synergy-profile=res50.json $line --wrap "$1"; done`
	out, err := c.ExecInput("login", user, strings.Join(lines, "\n")+"\n", "sh", "-c", submit, "sh", does)
	ids := jobIDs(strings.Fields(out))
	if err != nil || len(ids) != len(lines) {
		c.t.Fatalf("submitted %d of %d jobs: %v", len(ids), len(lines), err)
	}
	return ids
}

func jobIDs(words []string) []JobID {
	var ids []JobID
	for _, word := range words {
		if id, err := strconv.Atoi(word); err == nil {
			ids = append(ids, JobID(id))
		}
	}
	return ids
}

// mustWaitAsSubmitted holds that what waits is exactly what was submitted, and for how long it can be kept from
// starting.
func (b *backlog) mustWaitAsSubmitted(most time.Duration) {
	b.t.Helper()
	jobs, now := b.c.Jobs(), time.Now().UTC()
	for _, id := range b.waiting {
		job := jobs[id]
		for _, key := range asSubmitted {
			if got, want := job[key], b.asked[id][key]; job["JobState"] == "PENDING" && got != want {
				b.t.Errorf("job %s waits with %s=%s, its user said %s", id, key, got, want)
			}
		}
		if until := b.c.leasedUntil(jobs, job); until.After(now.Add(most)) {
			b.t.Errorf("job %s may not begin before %s, it is %s", id, until, now)
		}
	}
}

// leasedUntil is when a job may begin if nobody renews anything: by its begin time, or by the lease job, which Slurm
// ends once its deadline is nearer than its time limit, and looks for that once a minute.
func (c *Cluster) leasedUntil(jobs map[JobID]map[string]string, job map[string]string) time.Time {
	c.t.Helper()
	if job["JobState"] != "PENDING" {
		return time.Time{}
	}
	if lease := jobs[leaseOf(job)]; lease != nil && lease["JobState"] == "PENDING" {
		return moment(c, lease["Deadline"]).Add(-time.Minute) // its time limit
	}
	if job["Reason"] != "BeginTime" {
		return time.Time{}
	}
	return moment(c, job["EligibleTime"])
}

// leaseOf is the lease job that a job waits for; 0: it does not.
func leaseOf(job map[string]string) JobID {
	_, after, _ := strings.Cut(job["Dependency"], "afterany:")
	digits, _, _ := strings.Cut(after, "(")
	id, _ := strconv.Atoi(digits)
	return JobID(id)
}

// underLease says that a job waits for a lease and nothing else.
func underLease(job map[string]string) bool {
	return job["Reason"] == "BeginTime" || job["Reason"] == "Dependency" && leaseOf(job) != 0
}

// turns are the reasons for which a job waits for nothing but its turn. Slurm leaves the reason of one that its
// scheduler has not come to yet as it was: then the begin time, which is over, tells.
var turns = []string{"Resources", "Priority", "None", "BeginTime"}

// mustBeSlurms waits until no job waits for anything but its turn in Slurm's own queue. It says how long after a moment
// that was.
func (b *backlog) mustBeSlurms(since time.Time, most time.Duration) time.Duration {
	b.t.Helper()
	for {
		kept := map[string]int{}
		jobs := b.c.Jobs()
		for id, job := range jobs {
			if slices.Contains(b.waiting, id) && job["JobState"] == "PENDING" &&
				(!slices.Contains(turns, job["Reason"]) || b.c.leasedUntil(jobs, job).After(time.Now())) {
				kept[job["Reason"]]++
			}
		}
		took := time.Since(since)
		if len(kept) == 0 {
			return took
		}
		if took > most {
			b.t.Fatalf("of %d jobs are still kept from starting after %s: %v", len(b.waiting), took, kept)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// watchStarts waits until Slurm has started all jobs, or until so long after a moment, and tells when they were.
func (b *backlog) watchStarts(since time.Time, most time.Duration) {
	b.t.Helper()
	for {
		jobs := b.c.Jobs()
		left := slices.ContainsFunc(b.waiting, func(id JobID) bool { return jobs[id]["JobState"] == "PENDING" })
		if !left || time.Since(since) > most {
			b.started(jobs, since)
			return
		}
		time.Sleep(time.Second)
	}
}

// started holds the jobs that Slurm has started to what their users asked for.
func (b *backlog) started(jobs map[JobID]map[string]string, since time.Time) {
	b.t.Helper()
	var after []float64
	for _, id := range b.waiting {
		job := jobs[id]
		if job["JobState"] == "PENDING" {
			continue
		}
		for _, key := range []string{"NumCPUs", "CPUs/Task", "ReqTRES", "MinMemoryNode", "MinMemoryCPU",
			"ReqNodeList"} {
			if got, want := job[key], b.asked[id][key]; got != want {
				b.t.Errorf("job %s was started with %s=%s, its user said %s", id, key, got, want)
			}
		}
		after = append(after, moment(b.c, job["StartTime"]).Sub(since).Seconds())
	}
	slices.Sort(after)
	if len(after) > 0 {
		b.t.Logf("Slurm has started %d of %d jobs, %.0f to %.0f s after, half of them by %.0f s",
			len(after), len(b.waiting), after[0], after[len(after)-1], after[len(after)/2])
	}
}

// makeRoom ends all but one of the jobs that fill the cluster. No job of the backlog asks for n4 by name.
func (b *backlog) makeRoom() {
	b.t.Helper()
	var stay []JobID
	for _, id := range b.full {
		if job := b.c.Jobs()[id]; job["NodeList"] == "n4" {
			stay = append(stay, id)
			continue
		}
		b.c.MustExec("slurmctld", "root", "scancel", id.String())
	}
	b.full = stay
}

// mustGoOn holds that what ran runs, in the same run.
func (b *backlog) mustGoOn() {
	b.t.Helper()
	jobs := b.c.Jobs()
	for _, id := range b.full {
		if job := jobs[id]; job["JobState"] != "RUNNING" || job["StartTime"] != b.began[id] || job["Restarts"] != "0" {
			b.t.Errorf("job %s is %s since %s, it ran since %s", id, job["JobState"], job["StartTime"], b.began[id])
		}
	}
}

// longest is how long a lease can be: they are spread over an eighth.
func longest(c *Cluster) time.Duration { return lease(c) + lease(c)/8 + time.Second }

func TestWithoutTheDaemonSlurmStartsTheBacklogWithinItsLeaseAndNewJobsAtOnce(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune", "heartbeat: /shared/heartbeat/beat")
	c.nameHeartbeat(10)
	b := queueUp(t, c, d)
	wantRefusal(t, c.refused("--comment=synergy-profile=bad"), "is not right")
	d.Signal("KILL")
	killed := time.Now().UTC()
	b.mustWaitAsSubmitted(longest(c))
	b.makeRoom()
	took := b.mustBeSlurms(killed, longest(c)+time.Minute)
	t.Logf("%.0f s after the daemon died every waiting job was Slurm's to start; leases are %s and an eighth",
		took.Seconds(), lease(c))
	b.mustWaitAsSubmitted(0)
	b.watchStarts(killed, longest(c)+time.Minute)
	b.mustGoOn()
	c.MustExec("slurmctld", "root", "scancel", "--user=bob")
	before := time.Now()
	id := c.MustSbatch("alice", "sleep 60", "--gres=gpu:1", "--comment=synergy-profile=res18.json", output)
	c.WaitForState(id, "RUNNING")
	t.Logf("a job that was submitted %.0f s after the daemon died runs after %.1f s, leases are %s",
		time.Since(killed).Seconds(), time.Since(before).Seconds(), lease(c))
	if extra := c.ShowJob(id)["Extra"]; extra != "" {
		t.Errorf("it was gated: %s", extra)
	}
}

// refused is what sbatch says to a job that must not pass the gate.
func (c *Cluster) refused(comment string) error {
	c.t.Helper()
	_, err := c.Sbatch("alice", sleeper, "--gres=gpu:1", comment)
	return err
}

// nameHeartbeat tells the lua of a heartbeat, in a folder that the daemon can write to, until the test ends.
func (c *Cluster) nameHeartbeat(seconds int) {
	c.t.Helper()
	c.MustExec("login", "root", "sh", "-c",
		"rm -rf /shared/heartbeat; install -d -o synergy -g synergy -m 0755 /shared/heartbeat")
	c.settings(fmt.Sprintf(`heartbeat_file = "/shared/heartbeat/beat", heartbeat_seconds = %d,`, seconds))
	c.t.Cleanup(func() { c.settings("") })
}

// settings adds some to those of the lua, or takes them away. slurmctld reads the script again when it is newer than
// before, by whole seconds.
func (c *Cluster) settings(more string) {
	c.t.Helper()
	const install = `cd /etc/slurm; [ -e plain.lua ] || cp synergy_settings.lua plain.lua
		sed "s|^}|$1 }|" plain.lua > synergy_settings.lua
		sleep 1.1; cp --remove-destination /opt/synergy/etc/job_submit.lua job_submit.lua`
	c.MustExec("slurmctld", "root", "sh", "-c", install, "sh", more)
}

func TestAReleaseHandsTheBacklogBackWithinSecondsAndOnlyOnce(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune", "heartbeat: /shared/heartbeat/beat")
	c.nameHeartbeat(60)
	// long past the end of the test
	d.Put("config.yaml", strings.Replace(d.Read("config.yaml"), "lease: 30s", "lease: 10m", 1))
	b := queueUp(t, c, d)
	b.mustWaitAsSubmitted(12 * time.Minute)
	if _, err := d.Release(); err == nil || !strings.Contains(err.Error(), "stop the daemon first") {
		t.Errorf("a release beside a daemon: %v", err)
	}
	d.Stop()
	began := time.Now().UTC()
	summary, err := d.Release()
	if err != nil || summary["released"] != 60.0 || summary["failed"] != 0.0 {
		t.Fatalf("%v: %v", summary, err)
	}
	t.Logf("release took %.1f s for %d jobs", time.Since(began).Seconds(), len(b.waiting))
	took := b.mustBeSlurms(began, 30*time.Second)
	t.Logf("%.1f s after it was said every job was Slurm's to start", took.Seconds())
	b.mustWaitAsSubmitted(0)
	b.mustGoOn()
	for id, job := range c.Jobs() {
		if slices.Contains(b.waiting, id) && !strings.Contains(job["Extra"], "handed back to Slurm") {
			t.Errorf("job %s: %s", id, job["Extra"])
		}
	}
	if audited := d.audited("release"); !slices.Equal(audited, b.waiting) {
		t.Errorf("the log tells of %v, want %v", audited, b.waiting)
	}
	if summary, err = d.Release(); err != nil || summary["released"] != 0.0 {
		t.Errorf("a second release: %v: %v", summary, err)
	}
	if _, err := c.Exec("login", "synergy", "test", "-e", "/shared/heartbeat/beat"); err == nil {
		t.Error("the heartbeat is still there: new jobs are gated for nobody")
	}
	d.Start()
	c.WaitFor("the daemon has taken the jobs up again", func() bool {
		jobs := c.Jobs()
		return !slices.ContainsFunc(b.waiting, func(id JobID) bool { return jobs[leaseOf(jobs[id])] == nil })
	})
}

// Stop ends the daemon as systemd does, and waits for its end.
func (d *Daemon) Stop() {
	d.c.t.Helper()
	d.Signal("TERM")
	d.c.WaitFor("the daemon has ended", func() bool {
		_, err := d.c.Exec("login", "root", "pgrep", "-x", "synergy-slurmd")
		return err != nil
	})
}

// Release is the verb, with the daemon's own flags and more, into its log. It returns the line that sums it up.
func (d *Daemon) Release(flags ...string) (Line, error) {
	d.c.t.Helper()
	const run = `cd "$1"; shift; /opt/synergy/bin/synergy-slurmd release "$@" 2> said; code=$?; cat said >> log; cat said >&2; exit $code`
	argv := []string{"sh", "-c", run, "sh", d.dir, "--config", d.dir + "/config.yaml", "--round", d.Round.String(),
		"--slurmrestd", "http://slurmrestd:6820", "--token-file", "/shared/synergy/token", "--ledger",
		d.dir + "/ledger"}
	_, err := d.c.Exec("login", "synergy", append(argv, flags...)...)
	var summary Line
	for _, line := range d.Log() {
		if line["message"] == "handed back to slurm" {
			summary = line
		}
	}
	return summary, err
}

// audited lists the jobs for which the log has a step of that verb that went well.
func (d *Daemon) audited(verb string) []JobID {
	d.c.t.Helper()
	seen := map[JobID]bool{}
	for _, line := range d.Log() {
		if id, is := line["job"].(float64); is && line["message"] == "step" && line["verb"] == verb &&
			line["error"] == nil {
			seen[JobID(id)] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), cmp.Compare[JobID])
}

func TestACutNetworkIsADaemonThatIsAwayAndComesBack(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	b := queueUp(t, c, d)
	reconnect := c.disconnect("login")
	cut := time.Now().UTC()
	b.mustWaitAsSubmitted(longest(c))
	b.makeRoom()
	took := b.mustBeSlurms(cut, longest(c)+time.Minute)
	t.Logf("%.0f s after the network was cut every waiting job was Slurm's to start", took.Seconds())
	b.mustWaitAsSubmitted(0)
	b.watchStarts(cut, longest(c)+time.Minute)
	b.mustGoOn()
	reconnect()
	back := time.Now()
	more := c.submitAll("bob", "sleep 300", slices.Repeat([]string{"--gres=gpu:8 -c 1 --mem=1000"},
		2*c.Setting("NODES")))
	c.WaitFor("the daemon keeps a new job waiting", func() bool {
		extra := c.ShowJob(more[len(more)-1])["Extra"]
		return strings.Contains(extra, `"why"`)
	})
	t.Logf("%.0f s after the network was back the daemon planned again", time.Since(back).Seconds())
	b.mustGoOn()
	failed := 0
	for _, line := range d.Log() {
		if line["message"] == "round failed" && line["level"] == "error" {
			failed++
		}
	}
	if failed < 1 || failed > 2 {
		t.Errorf("the log has %d errors about one cut", failed)
	}
}

// disconnect takes a role off the network, until the returned function is called or the test ends.
func (c *Cluster) disconnect(role string) (reconnect func()) {
	c.t.Helper()
	id, network := c.container(role), c.project+"_default"
	c.docker("network", "disconnect", network, id)
	connected := false
	reconnect = func() {
		if !connected {
			connected = exec.Command("docker", "network", "connect", "--alias", role, network, id).Run() == nil
		}
	}
	c.t.Cleanup(reconnect)
	return reconnect
}
