//go:build live && faults

package live

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

func TestRoundsGoOnAfterEveryWayInWhichSlurmrestdMisbehaves(t *testing.T) {
	s := setStage(t, "30s")
	for _, mode := range []Mode{Stopped, Status, Garbage, Page, Half, Excuses} {
		s.slurmrestd(mode, unheard(Fault{lasts: 12 * time.Second}))
	}
	s.slurmrestd(Hangs, unheard(Fault{lasts: 32 * time.Second}))
	// With three seconds an answer, and where no jobs are listed, the daemon may lose its lead for a while, and says so
	// once.
	s.slurmrestd(Slow, Fault{lasts: 20 * time.Second, errors: 1, short: true, says: "ticket", remedy: "leases lapse"})
	s.slurmrestd(Empty, Fault{lasts: 10 * time.Second, errors: 1, short: true, says: "ticket",
		remedy: "another ticket is taken"})
	s.slurmrestd(NoJobs, Fault{lasts: 10 * time.Second, errors: 1, short: true, says: "ticket",
		remedy: "another ticket is taken"})
	s.slurmrestd(NoNodes, Fault{lasts: 10 * time.Second})
	s.done()
}

func TestRoundsGoOnAfterThePartsOfSlurmWereAway(t *testing.T) {
	s := setStage(t, "30s")
	s.slurmctld("restarts", 0, []string{"restart", "--time=5"}, nil)
	s.slurmctld("is down for a minute", time.Minute, []string{"stop", "--time=5"}, []string{"start"})
	s.slurmctld("hangs", 40*time.Second, []string{"pause"}, []string{"unpause"})
	s.accounting("slurmdbd", "mariadb")
	s.network()
	s.done()
}

// accounting stops roles for a minute. Rounds need none of them, and jobs start meanwhile.
func (s *stage) accounting(roles ...string) {
	each := func(verb ...string) func() {
		return func() {
			for _, role := range roles {
				s.c.control(role, verb...)
			}
		}
	}
	s.try(Fault{
		name: "slurmdbd and its database are down", lasts: 50 * time.Second, during: s.checkManages,
		begin: each("stop", "--time=5"), end: each("start"),
	})
}

// network cuts the daemon's container off.
func (s *stage) network() {
	network := s.c.network()
	s.try(unheard(Fault{
		name: "the daemon is cut off", lasts: 20 * time.Second,
		begin: func() { s.c.control("login", "network", "disconnect", network) },
		end:   func() { s.c.control("login", "network", "connect", "--alias", "login", network) },
	}))
}

func TestRoundsGoOnAfterWhatBefallsNodes(t *testing.T) {
	s := setStage(t, "30s")
	s.closed("node drained",
		func() {
			s.c.MustExec("login", "root", "scontrol", "update", "nodename=n1", "state=drain", "reason=test")
		},
		func() {})
	s.closed("GPU lost", func() { s.gpus("0-6") }, func() { s.gpus("0-7") })
	s.nodeKilled()
	s.done()
}

// closed closes the node on which there is room: a job that comes then waits, and starts when the node is open again.
func (s *stage) closed(name string, begin, end func()) {
	var id JobID
	s.try(Fault{
		name: name,
		begin: func() {
			begin()
			s.c.WaitFor("the node is closed", func() bool { return s.c.isClosed("n1") })
		},
		during: func(t *testing.T) {
			id = s.newcomer()
			time.Sleep(3 * s.d.Round)
			if job := s.c.ShowJob(id); job["JobState"] != "PENDING" {
				t.Errorf("a job for which only a closed node has room is %s", job["JobState"])
			}
		},
		end: func() {
			end()
			s.c.WaitFor("the node is open again", s.resumed) // Slurm refuses while slurmd has not told it of all GPUs
			s.starts(s.t, id)
		},
	})
}

// resumed resumes the node, and says whether that has come about.
func (s *stage) resumed() bool {
	_, _ = s.c.Exec("login", "root", "scontrol", "update", "nodename=n1", "state=resume")
	return !s.c.isClosed("n1")
}

// gpus lets slurmd on n1 find these devices, and no others.
func (s *stage) gpus(devices string) {
	s.c.t.Helper()
	s.c.MustExec("n1", "root", "sh", "-c",
		`sed -i "s|fakegpu.*|fakegpu[$1]|" /etc/slurm/gres.conf && pkill -HUP -o '^slurmd'`, "sh", devices)
}

func TestRoundsGoOnWithTheNextGoodToken(t *testing.T) {
	s := setStage(t, "30s")
	s.token("expired", "1007", "echo '"+s.c.expired()+"' > \"$1\"")
	s.token("damaged", "1007", `sed -i 's/./x/30' "$1"`)
	s.token("readable for others", "lets others read it", `chmod 644 "$1"`)
	s.token("removed", "no such file", `rm "$1"`)
	s.done()
}

// A slurmctld whose clock is set back starts nothing until it has caught up: that is Slurm's own, and a start that does
// not come about is taken back and tried again.
func TestClocksThatDifferByLessThanTheLeaseDoNoHarm(t *testing.T) {
	s := setStage(t, "10m")
	s.try(Fault{
		name: "slurmctld's clock jumps ahead by 120 s", lasts: 20 * time.Second, during: s.checkManages,
		begin: func() { s.clock("+120s") }, end: func() {},
	})
	s.try(Fault{
		name: "slurmctld's clock is set back by 40 s", lasts: 20 * time.Second,
		begin: func() { s.clock("+80s") }, end: func() {},
	})
	s.done()
}

func (s *stage) clock(off string) {
	s.c.t.Helper()
	s.c.MustExec("slurmctld", "root", "sh", "-c", `echo "$1" > /run/clock.new && mv /run/clock.new /run/clock`, "sh",
		off)
}

func TestADiskThatIsFullStopsRoundsAndNothingElse(t *testing.T) {
	s := setStage(t, "30s", "--ledger", "/small/ledger")
	s.try(Fault{
		name: "the ledger's disk is full", lasts: 15 * time.Second,
		errors: 1, says: "no space left", remedy: "make room", fails: true,
		begin: func() { _, _ = s.c.Exec("login", "root", "dd", "if=/dev/zero", "of=/small/full", "bs=4k") },
		end:   func() { s.c.MustExec("login", "root", "rm", "/small/full") },
	})
	s.done()
}

// A daemon that has lost its ledger has lost its ticket, and waits until that is stale; so that it acts between all
// kills, it has none.
func TestKilledAHundredTimesTheDaemonLosesNothing(t *testing.T) {
	killAtRandom(t, 100, 200, damage, "--alone")
}

// damage does to the ledger of a daemon that is dead what a disk may do to it, one time in four.
func damage(d *Daemon, draw *rand.Rand) string {
	what, script := "left as it was", ""
	switch draw.IntN(16) {
	case 0:
		what, script = "removed", `rm -f "$1"`
	case 1, 2:
		what, script = "cut short", `truncate -s "$(($(stat -c %s "$1") * $2 / 1000))" "$1"`
	case 3:
		what, script = "garbage at its end",
			`dd if=/dev/urandom of="$1" bs=1024 count=20 seek="$(($(stat -c %s "$1") / 1024 - 20))" conv=notrunc`
	}
	if script != "" {
		// there may be none yet
		_, _ = d.c.Exec("login", "synergy", "sh", "-c", script, "sh", d.dir+"/ledger", strconv.Itoa(draw.IntN(1000)))
	}
	return what
}
