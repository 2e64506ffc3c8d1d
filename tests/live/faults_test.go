//go:build live

package live

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// stage is a cluster on which something is about to break: its nodes are full but for one GPU, with jobs that save, a
// backlog waits that cannot start, and a daemon that speaks with slurmrestd through a proxy manages all of it.
type stage struct {
	t *testing.T
	c *Cluster
	d *Daemon
	p *Proxy

	running, waiting []JobID
	watched          func() (int, []string)
}

// Fault is something that breaks, and what is to be expected of the daemon.
type Fault struct {
	name       string
	begin, end func() // end returns when what had broken works again
	lasts      time.Duration

	errors int                // lines in the log on level error; each differs from the one before
	short  bool               // it may come and go between two rounds, without a line
	says   string             // in the first of them
	remedy string             // in the first of them
	fails  bool               // rounds fail for longer than three periods, so that the daemon calls itself ill
	takes  string             // the node whose jobs the fault itself ends
	during func(t *testing.T) // when it has lasted so long
	slack  time.Duration      // beyond one round, until a round ends well; 0: the usual one
}

const (
	stageWaiting = 24
	stageSlack   = 10 * time.Second // for a machine with other work
)

// ownRequest is what the jobs of the backlog ask for, and have to carry for as long as they wait.
var ownRequest = []string{"-c", "2", "--mem=1000"}

// setStage fills the cluster, with leases that are as long as is said.
func setStage(t *testing.T, lease string, flags ...string) *stage {
	t.Helper()
	c, d := SetUp(t, "fifo", "tune")
	d.Round = 3 * time.Second
	d.Put("config.yaml", strings.Replace(d.Read("config.yaml"), "lease: 30s", "lease: "+lease, 1)+"\n")
	s := &stage{t: t, c: c, d: d, p: c.Proxy(), watched: c.Watch()}
	s.goodToken(d.dir + "/token")
	d.Start(append([]string{"--slurmrestd", s.p.URL(), "--token-file", d.dir + "/token", "--log-level", "debug"},
		flags...)...)
	s.fill()
	for k := range stageWaiting {
		wants := append([]string{word("res18"), "--gres=gpu:8", "-N", strconv.Itoa(1 + k%2), "--ntasks-per-node=1",
			output}, ownRequest...)
		s.waiting = append(s.waiting, c.MustSbatch("bob", "sleep 600", wants...))
	}
	c.WaitFor("two rounds had nothing to start or stop", s.quiet)
	return s
}

// fill starts two jobs on each node. They ask for what they are given, so that nobody gains by a restart, whoever
// started them.
func (s *stage) fill() {
	s.c.t.Helper()
	for k, node := range append(s.c.nodes(), s.c.nodes()...) {
		gpus := 4
		if k == 0 {
			gpus = 3 // one is left, for a job that comes after the fault
		}
		s.running = append(s.running, s.c.MustSbatch("alice", train("gnmt", 10_000_000, 1), word("gnmt"),
			fmt.Sprintf("--gres=gpu:%d", gpus),
			"-c", strconv.Itoa(gpus), fmt.Sprintf("--mem=%d", 20830*gpus), "-w", node, output, "--open-mode=append"))
	}
	for _, id := range s.running {
		s.c.WaitForState(id, "RUNNING")
	}
}

// quiet says that the last two rounds found everything as it should be.
func (s *stage) quiet() bool {
	rounds := 0
	for _, line := range slices.Backward(s.d.Log()) {
		if line["message"] != "round" {
			continue
		}
		if line["started"] != 0.0 || line["preempted"] != 0.0 {
			return false
		}
		if rounds++; rounds == 2 {
			return true
		}
	}
	return false
}

// done says what the watch over the nodes has seen.
func (s *stage) done() {
	s.t.Helper()
	samples, breaches := s.watched()
	s.t.Logf("%d samples of the nodes", samples)
	if samples < 20 || len(breaches) > 0 {
		s.t.Errorf("%d samples, breaches %v", samples, breaches)
	}
}

// try lets one fault come and go.
func (s *stage) try(f Fault) {
	s.t.Run(f.name, func(t *testing.T) {
		s.c.t, s.d.c.t = t, t
		defer func() { s.c.t, s.d.c.t = s.t, s.t }()
		before, said, asked := s.c.Jobs(), len(s.d.Log()), s.p.Requests()
		began := time.Now()
		mended := false
		defer func() {
			if !mended { // a test that broke off must not break those after it
				f.end()
			}
		}()
		f.begin()
		ill := s.suffer(f.lasts, f.fails)
		if f.during != nil {
			f.during(t)
		}
		asked = s.p.Requests() - asked
		mended = true
		f.end()
		ended := time.Now()
		recovered := s.awaitRound(t, f, said, ended)
		lines := s.d.Log()[said:]
		t.Logf("%s for %s: rounds go on %.0f s after its end; %d requests meanwhile", f.name,
			ended.Sub(began).Round(time.Second), max(0, recovered.Seconds()), asked)
		s.checkLog(t, f, lines, ended.Sub(began))
		if f.fails && !ill {
			t.Error("/healthz has not said that rounds fail")
		}
		if _, err := s.d.health(); err != nil {
			t.Errorf("after the fault: %v", err)
		}
		s.checkJobs(t, f, before)
		s.checkManages(t)
		s.full(t, ended)
		if t.Failed() {
			for _, line := range lines {
				if line["verb"] != "renew" {
					t.Log(line)
				}
			}
		}
	})
}

// suffer lets time pass, and says whether the daemon called itself ill meanwhile. Where it is to, it is given longer:
// the round that was under way when the fault began may have ended well seconds later.
func (s *stage) suffer(lasts time.Duration, fails bool) (ill bool) {
	until, most := time.Now().Add(lasts), time.Now().Add(lasts+2*s.d.Round)
	for time.Now().Before(until) || fails && !ill && time.Now().Before(most) {
		if _, err := s.d.health(); err != nil {
			ill = true
		}
		time.Sleep(time.Second)
	}
	return ill
}

// health asks the daemon how it is.
func (d *Daemon) health() (string, error) {
	return d.c.Exec("login", "synergy", "curl", "-s", "--fail-with-body", "--max-time", "5",
		"http://127.0.0.1:9817/healthz")
}

// awaitRound waits for the first round that ends well after the fault, and says how long that took.
func (s *stage) awaitRound(t *testing.T, f Fault, said int, ended time.Time) time.Duration {
	t.Helper()
	slack := stageSlack
	if f.slack > 0 {
		slack = f.slack
	}
	for deadline := ended.Add(time.Minute); time.Now().Before(deadline); time.Sleep(300 * time.Millisecond) {
		for _, line := range s.d.Log()[said:] {
			if line["message"] == "round" && !at(t, line).Before(ended.Truncate(time.Second)) {
				took := at(t, line).Sub(ended)
				if took > s.d.Round+slack {
					t.Errorf("a round ended well %s after the fault, want one within %s and %s for the machine", took,
						s.d.Round, slack)
				}
				return took
			}
		}
	}
	t.Fatal("no round ended well within a minute after the fault")
	return 0
}

// at is when a line was written, to the second.
func at(t *testing.T, line Line) time.Time {
	t.Helper()
	text, _ := line["time"].(string)
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatalf("log line %v: %v", line, err)
	}
	return when
}

// checkLog: what is wrong is said once, and retries keep their distance.
func (s *stage) checkLog(t *testing.T, f Fault, lines []Line, lasted time.Duration) {
	t.Helper()
	var loud []Line
	tried := 0
	for _, line := range lines {
		if line["level"] == "error" {
			loud = append(loud, line)
		}
		if line["message"] == "round failed" || line["message"] == "round not well yet" {
			tried++
		}
	}
	if len(loud) != f.errors && !(f.short && len(loud) == 0) {
		t.Errorf("%d lines on level error, want %d: %v", len(loud), f.errors, loud)
	}
	if len(loud) > 0 {
		t.Logf("says: %v; remedy: %v", loud[0]["error"], loud[0]["remedy"])
		for key, want := range map[string]string{"error": f.says, "remedy": f.remedy} {
			if text, _ := loud[0][key].(string); !strings.Contains(text, want) {
				t.Errorf("the log's %s is %q, want %q in it", key, text, want)
			}
		}
	}
	if most := int(lasted/s.d.Round) + 2; tried > most {
		t.Errorf("%d rounds failed in %s, want at most %d", tried, lasted, most)
	}
	if f.errors == 0 && tried > 0 {
		t.Errorf("%d rounds failed", tried)
	}
	t.Logf("%d rounds failed", tried)
}

// checkJobs: all are there, those that ran run on, and those that wait carry their user's request.
func (s *stage) checkJobs(t *testing.T, f Fault, before map[JobID]map[string]string) {
	t.Helper()
	now := s.c.Jobs()
	for _, id := range s.running {
		was, is := before[id], now[id]
		switch {
		case f.takes != "" && was["NodeList"] == f.takes:
			if is["JobState"] != "PENDING" && is["JobState"] != "RUNNING" {
				t.Errorf("job %s, which lost its node, is %s", id, is["JobState"])
			}
		case is["JobState"] != "RUNNING" || is["StartTime"] != was["StartTime"] || is["Restarts"] != was["Restarts"]:
			t.Errorf("job %s ran since %s, and is %s since %s, with %s restarts", id, was["StartTime"], is["JobState"],
				is["StartTime"], is["Restarts"])
		}
	}
	for _, id := range s.waiting {
		carriesItsOwn(t, id, now[id])
	}
}

// full waits until those that lost their node run again, so that the next fault finds the nodes full.
func (s *stage) full(t *testing.T, ended time.Time) {
	t.Helper()
	waited := false
	for _, id := range s.running {
		for s.c.State(id) != "RUNNING" {
			waited = true
			s.c.WaitForState(id, "RUNNING")
		}
	}
	s.c.WaitFor("the daemon has nothing to start or stop", s.quiet)
	if waited {
		t.Logf("all that had lost their node run again %.0f s after the fault", time.Since(ended).Seconds())
	}
}

// carriesItsOwn: a job of the backlog waits with what its user asked for, and nothing of ours.
func carriesItsOwn(t *testing.T, id JobID, job map[string]string) {
	t.Helper()
	asks := amounts(job["ReqTRES"])
	nodes := asks["node"]
	if job["JobState"] != "PENDING" || job["Priority"] == "0" || job["ReqNodeList"] != "(null)" ||
		asks["cpu"] != 2*nodes || asks["mem"] != 1000*nodes || nodes < 1 {
		t.Errorf("job %s of the backlog is %s with priority %s, asks for %s on %s; want its user's own request",
			id, job["JobState"], job["Priority"], job["ReqTRES"], job["ReqNodeList"])
	}
}

// checkManages: a job that comes now is started, with its demand.
func (s *stage) checkManages(t *testing.T) {
	t.Helper()
	id := s.newcomer()
	submitted := time.Now()
	s.starts(t, id)
	t.Logf("a job submitted then ran after %.1f s", time.Since(submitted).Seconds())
}

// newcomer is a job for which one GPU is left, on the first node.
func (s *stage) newcomer() JobID {
	s.c.t.Helper()
	return s.c.MustSbatch("alice", "sleep 300", word("res18"), "--gres=gpu:1", output)
}

// starts waits until the newcomer runs, with its demand, and takes it away again.
func (s *stage) starts(t *testing.T, id JobID) {
	t.Helper()
	s.c.WaitForState(id, "RUNNING")
	if nodes, has := s.c.Allocation(id); has["cpu"] != 9 || nodes != "n1" {
		t.Errorf("newcomer %s holds %v on %s, want 9 cores on n1", id, has, nodes)
	}
	_, _ = s.c.Exec("login", "root", "scancel", id.String())
	s.c.WaitFor("the newcomer is gone", func() bool { return s.c.State(id) == "CANCELLED" })
}

// control is what docker does to a role's container, which need not run.
func (c *Cluster) control(role string, verb ...string) {
	c.t.Helper()
	id := c.docker("ps", "-aq", "--filter", "label=com.docker.compose.project="+c.project, "--filter",
		"label=com.docker.compose.service="+role)
	c.docker(append(verb, id)...)
}

// controllerUp waits until slurmctld answers.
func (c *Cluster) controllerUp() {
	c.t.Helper()
	c.WaitFor("slurmctld answers", func() bool {
		return exec.Command("docker", "exec", c.container("n1"), "scontrol", "ping").Run() == nil
	})
}

// slurmrestd lets slurmrestd misbehave in one way.
func (s *stage) slurmrestd(mode Mode, f Fault) {
	f.name = "slurmrestd " + string(mode)
	f.begin, f.end = func() { s.p.Set(mode) }, func() { s.p.Set(Pass) }
	s.try(f)
}

// unheard is what is expected where Slurm is not there.
func unheard(f Fault) Fault {
	f.errors, f.says, f.remedy = 1, "slurmrestd", "nothing is changed meanwhile"
	f.fails = !f.short
	return f
}

// slurmctld does something to the controller that ends when it answers again.
func (s *stage) slurmctld(name string, lasts time.Duration, begin, end []string) {
	f := unheard(Fault{name: "slurmctld " + name, lasts: lasts, short: lasts == 0})
	f.begin = func() { s.c.control("slurmctld", begin...) }
	f.end = func() {
		if len(end) > 0 {
			s.c.control("slurmctld", end...)
		}
		s.c.controllerUp()
	}
	s.try(f)
}

// token lets the daemon's token be replaced by what a script on the login role, which is given the token's path, makes
// of it.
func (s *stage) token(name, says, script string) {
	path := s.d.dir + "/token"
	s.try(Fault{
		name: "token " + name, lasts: 12 * time.Second, errors: 1, says: says, remedy: "renew the token", fails: true,
		begin: func() { s.c.MustExec("login", "synergy", "sh", "-c", script, "sh", path) },
		end:   func() { s.goodToken(path) },
	})
}

// goodToken writes one that holds for a while, as an administrator's timer does.
func (s *stage) goodToken(path string) {
	s.c.t.Helper()
	const write = `umask 077; cat > "$1.new" && mv "$1.new" "$1"`
	if _, err := s.c.ExecInput("login", "synergy", s.c.TokenOf("synergy"), "sh", "-c", write, "sh", path); err != nil {
		s.c.t.Fatal(err)
	}
}

// expired is a token that was good for a second.
func (c *Cluster) expired() string {
	c.t.Helper()
	token := c.MustExec("slurmctld", "root", "scontrol", "token", "username=synergy", "lifespan=1")
	time.Sleep(2 * time.Second)
	return token
}

// nodeKilled takes the last node away, with all that runs on it, until Slurm has found out.
func (s *stage) nodeKilled() {
	s.try(Fault{
		name: "node killed", takes: "n4",
		begin: func() { s.c.control("n4", "kill") },
		during: func(*testing.T) {
			s.c.waitNode("n4", "DOWN", 2*time.Minute) // after SlurmdTimeout
			time.Sleep(2 * s.d.Round)
		},
		end: func() {
			s.c.control("n4", "start")
			s.c.WaitFor("the node is back", func() bool { return !strings.Contains(s.c.nodeState("n4"), "DOWN") })
		},
	})
}

// waitNode waits until a node is in a state, alone or with others (IDLE+DRAIN).
func (c *Cluster) waitNode(name, state string, most time.Duration) {
	c.t.Helper()
	for end := time.Now().Add(most); !strings.HasPrefix(c.nodeState(name), state); time.Sleep(time.Second) {
		if time.Now().After(end) {
			c.t.Fatalf("node %s is %s after %s, want %s", name, c.nodeState(name), most, state)
		}
	}
}

func (c *Cluster) isClosed(name string) bool { return strings.Contains(c.nodeState(name), "DRAIN") }

func (c *Cluster) nodeState(name string) string {
	c.t.Helper()
	return fields(c.MustExec("n1", "root", "scontrol", "show", "node", name))["State"]
}
