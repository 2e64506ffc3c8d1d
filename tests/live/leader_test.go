//go:build live

package live

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// twin is one of two daemons: each on a role of its own, with its own ledger and log in a folder that both share.
type twin struct {
	c         *Cluster
	role, dir string
}

// round is the time between the rounds of twins.
const round = 10 * time.Second

func (w twin) start() {
	w.c.t.Helper()
	const run = `cd "$1"; echo $$ > "pid-$2"; exec /opt/synergy/bin/synergy-slurmd --config config.yaml --round "$3" --ledger "ledger-$2" \
  --slurmrestd http://slurmrestd:6820 --token-file /shared/synergy/token >> "log-$2" 2>&1`
	w.c.docker("exec", "-d", "-u", "synergy", w.c.container(w.role), "sh", "-c", run, "sh", w.dir, w.role,
		round.String())
}

func (w twin) signal(name string) {
	w.c.t.Helper()
	w.c.MustExec(w.role, "synergy", "sh", "-c", `kill -"$1" "$(cat "$2/pid-$3")"`, "sh", name, w.dir, w.role)
}

// log is what the daemon has said so far. It is read on the other role, since its own may be stopped.
func (w twin) log() []Line {
	w.c.t.Helper()
	var lines []Line
	for text := range strings.Lines(w.c.MustExec("slurmctld", "root", "cat", w.dir+"/log-"+w.role)) {
		line := Line{}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			w.c.t.Fatalf("log line %q: %v", text, err)
		}
		lines = append(lines, line)
	}
	return lines
}

// said waits until a message stands in the log behind the first lines, and returns how long that took.
func (w twin) said(message string, after int) time.Duration {
	w.c.t.Helper()
	began := time.Now()
	w.c.WaitFor(fmt.Sprintf("%s says %q", w.role, message), func() bool {
		lines := w.log()
		return len(lines) > after && slices.ContainsFunc(lines[after:],
			func(l Line) bool { return l["message"] == message })
	})
	return time.Since(began)
}

// done counts the lines that tell of something done to a job.
func done(lines []Line) (n int) {
	for _, line := range lines {
		if message := line["message"]; (message == "change" || message == "step") && line["error"] == nil {
			n++
		}
	}
	return n
}

// tickets are the jobs by which daemons queue, as "number holder" of those that wait.
func (c *Cluster) tickets() []string {
	c.t.Helper()
	var all []string
	out := c.MustExec("slurmctld", "root", "squeue", "--noheader", "--sort=i", "--name=synergy-slurmd-leader",
		"--user=synergy", "--format=%i %r")
	for line := range strings.Lines(out) {
		all = append(all, strings.TrimSpace(line))
	}
	return all
}

// twins are two daemons, of which the first leads, before a backlog of jobs that give way to each other.
func twins(t *testing.T) (c *Cluster, login, backup twin) {
	t.Helper()
	c, d := SetUp(t, "las", "tune")
	login, backup = twin{c, "login", d.dir}, twin{c, "backup", d.dir}
	t.Cleanup(func() {
		for _, role := range []string{"login", "backup"} {
			c.revive(role)
			_, _ = c.Exec(role, "root", "pkill", "-KILL", "-x", "synergy-slurmd")
		}
		if t.Failed() {
			t.Log(c.MustExec("login", "root", "sh", "-c", `grep -v '"change"\|"step"' "$1"/log-*`, "sh", d.dir))
		}
	})
	login.start()
	login.said("leading", 0)
	backup.start()
	backup.said("standing by", 0)
	for range 20 {
		c.MustSbatch("alice", `trap 'kill $!; exit 98' USR1; sleep 900 & wait`, "--gres=gpu:4", output, word("res18"))
	}
	return c, login, backup
}

// revive brings a role back that a test has stopped or killed.
func (c *Cluster) revive(role string) {
	id := c.docker("ps", "-aq", "--filter", "label=com.docker.compose.project="+c.project, "--filter",
		"label=com.docker.compose.service="+role)
	switch c.docker("inspect", "-f", "{{.State.Status}}", id) {
	case "paused":
		c.docker("unpause", id)
	case "exited":
		c.docker("start", id)
		c.WaitFor(role+" is back", func() bool { _, err := c.Exec(role, "root", "munge", "-n"); return err == nil })
	}
}

// rounds lets so many of them pass.
func rounds(n int) { time.Sleep(time.Duration(n) * round) }

func within(t *testing.T, what string, took time.Duration, limit int) {
	t.Helper()
	t.Logf("%s after %.1f s, %.1f rounds", what, took.Seconds(), float64(took)/float64(round))
	if took > 2*time.Duration(limit)*round { // twice what is promised: this machine may be busy
		t.Errorf("%s after %s, want %d rounds", what, took, limit)
	}
}

func TestOfTwoDaemonsOneActsAndTheOtherFollowsWithinTwoRounds(t *testing.T) {
	c, login, backup := twins(t)
	rounds(4)
	if n := done(login.log()); n == 0 {
		t.Fatal("the leader did nothing")
	}
	if n := done(backup.log()); n != 0 {
		t.Errorf("who stands by did %d things", n)
	}
	health := c.MustExec("backup", "synergy", "curl", "-sf", "http://127.0.0.1:9817/healthz")
	metric := c.MustExec("backup", "synergy", "curl", "-sf", "http://127.0.0.1:9817/metrics")
	if !strings.Contains(health, "standing by: login/") || !strings.Contains(metric, "\nsynergy_leader 0\n") {
		t.Errorf("health of who stands by: %s", health)
	}
	t.Logf("done by the leader %d, by who stands by 0; tickets %q; %s", done(login.log()), c.tickets(),
		strings.TrimSpace(health))

	t.Log("the leader's host stands still, between two rounds: what one did before would be told after it wakes up")
	login.said("round", len(login.log()))
	mark, seen := len(login.log()), len(backup.log())
	c.docker("pause", c.container("login"))
	began := time.Now()
	backup.said("leading", seen)
	within(t, "the other leads, and begins a round,", time.Since(began), 2)
	backup.said("round", seen)
	t.Logf("that round has ended after %.1f s", time.Since(began).Seconds())
	rounds(2)
	if n := done(backup.log()); n == 0 {
		t.Error("the new leader did nothing")
	}

	t.Log("it wakes up")
	c.revive("login")
	login.said("standing by", mark)
	rounds(2)
	if late := login.log()[mark:]; done(late) != 0 {
		t.Errorf("the old leader did %d things when it woke up: %v", done(late), late)
	}
	t.Logf("the old leader did nothing more; tickets %q", c.tickets())

	t.Log("the leader is killed, and started again on its host")
	mark, seen = len(login.log()), len(backup.log())
	backup.signal("KILL")
	began = time.Now()
	backup.start()
	backup.said("leading", seen)
	within(t, "it leads again", time.Since(began), 1)
	rounds(2)
	if late := login.log()[mark:]; done(late) != 0 {
		t.Errorf("the other did %d things meanwhile", done(late))
	}

	t.Log("the leader's host is lost")
	mark = len(login.log())
	c.docker("kill", c.container("backup"))
	began = time.Now()
	login.said("leading", mark)
	within(t, "the other leads, and begins a round,", time.Since(began), 2)
	login.said("round", mark)
	t.Logf("that round has ended after %.1f s", time.Since(began).Seconds())
	c.revive("backup")

	t.Log("the leader is told to stop")
	seen = len(backup.log())
	backup.start()
	backup.said("standing by", seen)
	seen = len(backup.log())
	login.signal("TERM")
	began = time.Now()
	backup.said("leading", seen)
	t.Logf("the other leads %.1f s after the word to stop", time.Since(began).Seconds())
}

func TestATicketOutlivesARestartOfTheControllerAndIsReplacedWhenSomebodyCancelsIt(t *testing.T) {
	c, login, backup := twins(t)
	before := c.tickets()
	c.docker("restart", c.container("slurmctld"))
	c.WaitFor("the tickets are back", func() bool {
		out, err := c.Exec("login", "root", "squeue", "--noheader", "--name=synergy-slurmd-leader", "--user=synergy")
		return err == nil && strings.Count(out, "synergy") > 1
	})
	mark := len(login.log())
	login.said("round", mark)
	if after := c.tickets(); len(before) != 2 || strings.Fields(after[0])[0] != strings.Fields(before[0])[0] {
		t.Errorf("tickets before %q, after %q", before, after)
	}
	if n := done(backup.log()); n != 0 {
		t.Errorf("who stood by did %d things", n)
	}

	mark, seen := len(login.log()), len(backup.log())
	c.MustExec("login", "root", "scancel", strings.Fields(before[0])[0])
	began := time.Now()
	login.said("standing by", mark)
	backup.said("leading", seen)
	t.Logf("its ticket was cancelled; the other leads after %.1f s; tickets %q", time.Since(began).Seconds(),
		c.tickets())

	seen = len(backup.log())
	c.MustExec("login", "root", "scontrol", "release", strings.Fields(c.tickets()[0])[0])
	backup.said("standing by", seen)
	c.WaitFor("somebody leads again", func() bool {
		return slices.ContainsFunc(login.log()[mark:], func(l Line) bool { return l["message"] == "leading" })
	})
	t.Logf("its ticket was released; tickets %q", c.tickets())
}

// release says release on the twin's role, with a ledger that no daemon has, and returns its log.
func (w twin) release() (said string, err error) {
	w.c.t.Helper()
	return w.c.Exec(w.role, "synergy", "sh", "-c", `cd "$1" && /opt/synergy/bin/synergy-slurmd release --config config.yaml --round "$2" --ledger ledger-release \
  --slurmrestd http://slurmrestd:6820 --token-file /shared/synergy/token 2>&1`, "sh", w.dir, round.String())
}

func TestAReleaseFromAnotherHostNamesALivingLeaderAndFollowsALostOne(t *testing.T) {
	c, login, backup := twins(t)
	rounds(2)
	backup.signal("TERM")
	said, err := backup.release()
	if err == nil || !strings.Contains(said, "login/") || !strings.Contains(said, "leads") {
		t.Errorf("a release beside a living leader: %v: %s", err, said)
	}
	if strings.Contains(said, `"verb":"release"`) {
		t.Errorf("it released something: %s", said)
	}
	c.docker("pause", c.container("login"))
	began := time.Now()
	said, err = backup.release()
	if err != nil || strings.Count(said, `"verb":"release"`) == 0 {
		t.Errorf("a release after a lost leader: %v: %s", err, said)
	}
	within(t, "the backlog of a lost leader is handed back", time.Since(began), 2)
	mark := len(login.log())
	c.revive("login")
	login.said("round", mark) // the release has given its ticket back, so a daemon may take the jobs up again
}
