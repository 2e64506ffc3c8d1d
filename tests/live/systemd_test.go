//go:build live

package live

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Host is a host of its own beside the cluster, where systemd runs the daemon by the unit that a site installs.
type Host struct {
	c    *Cluster
	t    *testing.T
	role string
}

const unit = "synergy-slurmd"

// A job without a profile may be stopped at once and at no cost. Leases outlast the test.
const hostConfig = `partitions: [synergy]
policy: las
lease: 10m
restart_cost: 0s
ahead: 0
start_timeout: 15s
heartbeat: /run/synergy/heartbeat
rules:
  min_run: 0s
  stranded: 0.1
`

const hostFlags = `[Service]
Environment="SYNERGY_FLAGS=--slurmrestd http://slurmrestd:6820 --round 5s --planner-plugin /usr/lib/synergy/builtin"
`

// bootHost starts a container whose first process is systemd, on the cluster's network and with its volumes. It needs
// the right to mount, which no container of the cluster has.
func bootHost(t *testing.T, c *Cluster) *Host {
	t.Helper()
	boot, err := filepath.Abs("boot.sh")
	if err != nil {
		t.Fatal(err)
	}
	login := c.container("login")
	id := c.docker("run", "-d", "--hostname", "host", "--network", c.project+"_default", "--volumes-from", login,
		"--label", "com.docker.compose.project="+c.project, "--label", "com.docker.compose.service=host",
		"--cap-add", "SYS_ADMIN", "--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined",
		"--tmpfs", "/run", "--tmpfs", "/tmp", "-e", "container=docker", "-v", boot+":/boot.sh:ro", "--entrypoint",
		"/boot.sh",
		c.docker("inspect", "-f", "{{.Config.Image}}", login))
	h := &Host{c, t, "host"}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := exec.Command("docker", "exec", id, "journalctl", "--no-pager", "-n", "120", "-o",
				"cat").CombinedOutput()
			t.Logf("%s", out)
		}
		c.docker("rm", "-f", "-v", id)
	})
	c.WaitFor("systemd has started the host", func() bool {
		state, _ := c.Exec("host", "root", "systemctl", "is-system-running")
		return state == "running" || state == "degraded"
	})
	return h
}

// install does what docs/operations.md says.
func (h *Host) install() {
	h.t.Helper()
	h.put("/etc/slurm/slurm.conf", h.c.MustExec("login", "root", "cat", "/etc/slurm/slurm.conf"))
	h.sh("systemctl restart munge")
	h.sh(
		"install -m 0755 /opt/synergy/bin/synergy-slurmd /usr/bin/; install -d /etc/synergy " +
			"/etc/systemd/system/synergy-slurmd.service.d")
	h.sh(
		"cp -r /opt/synergy/etc/profiles /etc/synergy/; cp /opt/synergy/etc/synergy-slurmd.service " +
			"/etc/systemd/system/")
	h.sh(
		"install -d -o synergy -g synergy -m 0700 /var/lib/synergy; install -o synergy -g synergy -m 0600 " +
			"/shared/synergy/token /var/lib/synergy/token")
	h.sh("install -D -m 0755 /opt/synergy/bin/plugins/builtin /usr/lib/synergy/builtin")
	h.put("/etc/synergy/synergy-slurmd.yaml", hostConfig)
	h.put("/etc/systemd/system/synergy-slurmd.service.d/flags.conf", hostFlags)
	h.sh("systemctl daemon-reload")
}

func (h *Host) sh(script string) string {
	h.t.Helper()
	return h.c.MustExec(h.role, "root", "sh", "-ec", script)
}

func (h *Host) put(path, text string) {
	h.t.Helper()
	if _, err := h.c.ExecInput(h.role, "root", text, "tee", path); err != nil {
		h.t.Fatal(err)
	}
}

// property is what systemctl show says of the unit.
func (h *Host) property(name string) string {
	h.t.Helper()
	return h.c.MustExec("host", "root", "systemctl", "show", "--value", "-p", name, unit)
}

// said counts the lines of the daemon's journal in which a field is a value.
func (h *Host) said(field string, value any) (times int) {
	h.t.Helper()
	for text := range strings.Lines(h.c.MustExec("host", "root", "journalctl", "--no-pager", "-o", "cat", "-u", unit)) {
		line := Line{}
		if json.Unmarshal([]byte(text), &line) == nil && line[field] == value {
			times++
		}
	}
	return times
}

// awaitRestart waits until systemd has started the daemon again so many times by itself, and a round has gone well
// since.
func (h *Host) awaitRestart(times int) {
	h.t.Helper()
	rounds := h.said("message", "round")
	h.c.WaitFor(fmt.Sprintf("systemd has started the daemon again, %d times in all", times), func() bool {
		return h.property("NRestarts") == strconv.Itoa(times) && h.property("ActiveState") == "active" &&
			h.said("message", "round") > rounds
	})
}

// why is what a job is told.
func (c *Cluster) why(id JobID) string {
	c.t.Helper()
	var annotation struct{ Why string }
	_ = json.Unmarshal([]byte(c.ShowJob(id)["Extra"]), &annotation) // no annotation: no word
	return annotation.Why
}

// mustBeLeased holds that the daemon's end has changed nothing for a job that waits.
func (h *Host) mustBeLeased(after string, id JobID) {
	h.t.Helper()
	job, why := h.c.ShowJob(id), h.c.why(id)
	if strings.Contains(why, "handed back") || job["JobState"] != "PENDING" ||
		leaseOf(job) == 0 && moment(h.c, job["EligibleTime"]).Before(time.Now()) {
		h.t.Errorf("after %s job %s is %s and may begin at %s: %s", after, id, job["JobState"], job["EligibleTime"],
			why)
	}
}

// TestUnderSystemdTheUnitDoesAllThatAnAdministratorExpects goes through the life of a service on one host, in its
// order.
func TestUnderSystemdTheUnitDoesAllThatAnAdministratorExpects(t *testing.T) {
	c := OpenCluster(t)
	c.Clear()
	t.Cleanup(c.Clear)
	booting := time.Now()
	h := bootHost(t, c)
	h.install()
	t.Logf("a host with systemd after %.1f s", time.Since(booting).Seconds())

	// Type=notify: start returns when the daemon is ready, and it works: token, ledger, slurmrestd, profiles, inside
	// the sandbox.
	h.sh("systemctl start " + unit)
	if owner := h.sh("ps -C synergy-slurmd -o user=,args="); !strings.HasPrefix(owner, "synergy ") ||
		strings.Contains(owner, "\n") {
		t.Errorf("the daemon runs as %q", owner)
	}
	first := c.MustSbatch("alice", sleeper, "--comment=synergy-profile=res18.json", "-c", "2", "--gres=gpu:1", output)
	c.WaitForState(first, "RUNNING")
	if _, has := c.Allocation(first); has["cpu"] != 9 {
		t.Errorf("the job holds %v, want 9 cores by its profile", has)
	}
	if n := h.sh(
		`curl -s http://127.0.0.1:9817/metrics | grep -F 'plugin_rounds_total{outcome="done"}'`); strings.HasSuffix(n,
		" 0") {
		t.Errorf("a planner plugin does not work in the sandbox: %s", n)
	}
	c.WaitFor("systemctl status shows the round",
		func() bool { return strings.Contains(h.property("StatusText"), "jobs run") })
	c.WaitFor("the heart beats", func() bool { return h.sh("ls /run/synergy") == "heartbeat" })
	if beat := h.sh("stat -c %a:%U /run/synergy /run/synergy/heartbeat; ls -l /var/lib/synergy"); !strings.HasPrefix(
		beat, "755:synergy\n644:synergy\n") {
		t.Errorf("the heartbeat is not there for slurmctld: %s", beat)
	}

	// scontrol and munge work in the sandbox: a job that does not leave when it is asked to is requeued for one that
	// has had nothing.
	deaf := []string{"--gres=gpu:8", "-w", "n4", "--comment=synergy-profile=unknown.json synergy-checkpoint=USR1@1"}
	waiting := c.MustSbatch("alice", "trap '' USR1\nsleep 900", append(deaf, output)...)
	c.WaitForState(waiting, "RUNNING")
	newcomer := c.MustSbatch("bob", sleeper, "--gres=gpu:8", "-w", "n4", "--comment=synergy-profile=unknown.json",
		output)
	c.WaitForState(newcomer, "RUNNING")
	c.WaitFor("the job that was stopped waits for the daemon", func() bool {
		job := c.ShowJob(waiting)
		return job["JobState"] == "PENDING" && underLease(job) && job["Restarts"] == "1"
	})

	// Reload.
	h.put("/etc/synergy/synergy-slurmd.yaml", strings.Replace(hostConfig, "lease: 10m", "lease: 11m", 1))
	h.sh("systemctl reload " + unit)
	c.WaitFor("the daemon has reloaded",
		func() bool { return h.said("message", "reloaded: the next round follows the new configuration") == 1 })

	// A crash, and a hang that only the watchdog ends: systemd starts the daemon again, and nothing is handed back.
	h.sh("systemctl kill --kill-whom=main -s KILL " + unit)
	h.awaitRestart(1)
	h.mustBeLeased("a crash", waiting)
	h.sh(
		"mkdir -p /run/systemd/system/synergy-slurmd.service.d; printf '[Service]\\nWatchdogSec=4s\\n' > " +
			"/run/systemd/system/synergy-slurmd.service.d/dog.conf; systemctl daemon-reload")
	h.sh("systemctl restart " + unit)
	h.mustBeLeased("a restart", waiting)
	hung := time.Now()
	h.sh("systemctl kill --kill-whom=main -s STOP " + unit)
	h.awaitRestart(1) // a restart by hand begins the count anew
	t.Logf("a daemon that hangs works again after %.1f s, WatchdogSec is 4 s", time.Since(hung).Seconds())
	h.mustBeLeased("the watchdog", waiting)
	if n := h.said("starts_again", true); n != 3 {
		t.Errorf("%d times systemd was about to start the daemon again, want 3", n)
	}

	// Stopped for good.
	stopped := time.Now()
	h.sh("systemctl stop " + unit)
	t.Logf("systemctl stop took %.1f s", time.Since(stopped).Seconds())
	if why := c.why(waiting); why != "handed back to Slurm" {
		t.Errorf("after systemctl stop the job is told %q", why)
	}
	if left := h.sh("ls -d /run/synergy 2>&1 || true"); !strings.Contains(left, "No such file") {
		t.Errorf("the heartbeat's folder stays: %s", left)
	}

	// The host is shut down.
	h.sh("systemctl start " + unit)
	c.WaitFor("the daemon has taken the job up again",
		func() bool { return underLease(c.ShowJob(waiting)) })
	c.docker("kill", "-s", "SIGRTMIN+3", c.container("host")) // systemd's word for halt
	c.WaitFor("the job is handed back as the host goes down",
		func() bool { return c.why(waiting) == "handed back to Slurm" })
}

// exposed is the most that systemd may say of the unit: 10 is a service with nothing taken away, below 2 is what it
// calls OK. What remains is the network (slurmrestd, --listen), IPAddressDeny and PrivateUsers, which depend on the
// site (the latter would stop the daemon on hosts without user namespaces), AF_UNIX (systemd, munge, slurmrestd's
// socket), RootDirectory (the host's scontrol) and DeviceAllow (the hardware clock, by ProtectClock).
const exposed = 1.5

func TestTheUnitGivesTheDaemonLittleToHarm(t *testing.T) {
	c := OpenCluster(t)
	listing, err := c.Exec("login", "root", "systemd-analyze", "security", "--offline=true", "--no-pager",
		"/opt/synergy/etc/synergy-slurmd.service")
	found := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(listing)
	if err != nil || found == nil {
		t.Fatalf("%v: %s", err, listing)
	}
	for line := range strings.Lines(listing) {
		if strings.HasPrefix(line, "✗") {
			t.Log(strings.TrimSpace(line))
		}
	}
	level, err := strconv.ParseFloat(found[1], 64)
	t.Logf("exposure %s of 10", found[1])
	if err != nil || level > exposed {
		t.Errorf("the unit is exposed by %s, want at most %.1f", found[1], exposed)
	}
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil || !strings.Contains(string(manual), "exposure level "+found[1]) {
		t.Errorf("docs/operations.md does not say %s", found[1])
	}
}
