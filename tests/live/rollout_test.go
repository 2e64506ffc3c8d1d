//go:build live

package live

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A lease is short, so that the proof is: two rounds and a little.
const rolloutConfig = `# tried with some first
partitions: [synergy]
profile_dirs: [/etc/synergy/profiles]
savings: /var/lib/synergy/savings
lease: 12s
ahead: 0
start_timeout: 15s
`

const rolloutFlags = `# flags of the site's own
SYNERGY_FLAGS="--slurmrestd http://slurmrestd:6820 --round 5s --shadow"
`

// mustBeAt holds that the site is in that stage, and returns what --check says of it, by the name of the criterion. A
// daemon that has just been started may wait for the ticket of another one to be stale before it works.
func (h *Host) mustBeAt(stage string) map[string]string {
	h.t.Helper()
	const check = `. /etc/synergy/synergy-slurmd.env
		runuser -u synergy -- /opt/synergy/bin/synergy-slurmd --check --json --config /etc/synergy/synergy-slurmd.yaml $SYNERGY_FLAGS || true`
	verdicts := map[string]string{}
	h.c.WaitFor("the site is in stage "+stage, func() bool {
		var lines []finding
		if err := json.Unmarshal([]byte(h.sh(check)), &lines); err != nil {
			h.t.Fatal(err)
		}
		clear(verdicts)
		for _, line := range lines {
			name := line.Check[strings.LastIndex(line.Check, ": ")+1:]
			verdicts[strings.TrimSpace(name)] = line.Verdict
			if line.Check == "stage" {
				verdicts["stage"] = line.Text
			}
		}
		if stage == "none" {
			return strings.HasPrefix(verdicts["stage"], "no daemon answers")
		}
		// "skip": no round of this stage is over yet
		return strings.HasPrefix(verdicts["stage"], stage+"; ") && verdicts["health"] == "ok" &&
			verdicts["time of a round"] != "skip"
	})
	h.t.Logf("%s: %v", stage, verdicts)
	return verdicts
}

// edit replaces text in a file, as an administrator does.
func (h *Host) edit(file, from, to string) {
	h.t.Helper()
	h.sh(fmt.Sprintf("sed -i 's|%s|%s|' %s", from, to, file))
}

// TestASiteGoesFromTheShadowToEverybodyAndTheDaemonsDeathOpensIt goes through the stages on one host with systemd, as
// an administrator would, and kills the daemon on the way.
func TestASiteGoesFromTheShadowToEverybodyAndTheDaemonsDeathOpensIt(t *testing.T) {
	c := OpenCluster(t)
	c.Clear()
	t.Cleanup(c.Clear)
	h := bootHost(t, c)
	h.install()
	h.sh("rm /etc/systemd/system/synergy-slurmd.service.d/flags.conf; systemctl daemon-reload")
	h.sh("cp /opt/synergy/etc/cli_filter.lua /etc/slurm/") // jobs are submitted here
	h.put("/etc/synergy/synergy-slurmd.yaml", rolloutConfig)
	h.put("/etc/synergy/synergy-slurmd.env", rolloutFlags)

	h.sh("cp /opt/synergy/etc/prove-failing-open.sh /usr/local/bin/prove-failing-open")
	const config, flags = "/etc/synergy/synergy-slurmd.yaml", "/etc/synergy/synergy-slurmd.env"

	h.mustBeAt("none")
	h.sh("systemctl start " + unit)
	if seen := h.mustBeAt("shadow"); seen["savings"] == "ok" || seen["rounds"] == "ok" {
		t.Errorf("no job has run, and the daemon has just begun: %v", seen)
	}
	out, err := h.c.Exec("host", "root", "prove-failing-open", "--yes", "--user", "alice", "--patience", "5")
	if err == nil || !strings.Contains(err.Error(), "in the shadow") {
		t.Errorf("a daemon in the shadow leases nothing, and the proof says %s, %v", out, err)
	}
	if left := h.property("ActiveState"); left != "active" {
		t.Errorf("a proof that came to nothing left the daemon %s", left)
	}
	h.edit(flags, " --shadow", "")
	h.edit(config, "^lease:", "canary: {accounts: [users]}\\nlease:")
	h.sh("systemctl restart " + unit)
	h.mustBeAt("canary")

	// The hold is how long a busy machine may take to kill the daemon before that would start the job in its turn.
	began := time.Now()
	out, err = h.c.Exec("host", "root", "prove-failing-open", "--yes", "--user", "alice", "--partition", "synergy",
		"--account", "users", "--hold", "20", "--patience", "60")
	t.Logf("the proof took %.1f s:\n%s", time.Since(began).Seconds(), out)
	if err != nil || !strings.Contains(out, "after its lease was over, as requested") {
		t.Fatalf("%v: %s", err, out)
	}
	if left := h.property("ActiveState") + " " + h.property("Restart"); left != "active on-failure" {
		t.Errorf("the daemon is left %s", left)
	}
	h.mustBeAt("canary")
	h.edit(config, "^canary:.*", "")
	h.sh("systemctl reload " + unit)
	if seen := h.mustBeAt("on"); seen["lost jobs"] != "ok" || seen["updates"] != "ok" {
		t.Errorf("nothing was lost or refused: %v", seen)
	}
}

// TestAProofThatIsInterruptedLeavesTheDaemonRunning: a timer of systemd's starts it where nobody else does.
func TestAProofThatIsInterruptedLeavesTheDaemonRunning(t *testing.T) {
	c := OpenCluster(t)
	c.Clear()
	t.Cleanup(c.Clear)
	h := bootHost(t, c)
	h.install()
	h.sh("rm /etc/systemd/system/synergy-slurmd.service.d/flags.conf; systemctl daemon-reload")
	h.put("/etc/synergy/synergy-slurmd.yaml", rolloutConfig)
	h.put("/etc/synergy/synergy-slurmd.env", strings.Replace(rolloutFlags, " --shadow", "", 1))
	h.sh("cp /opt/synergy/etc/cli_filter.lua /etc/slurm/") // jobs are submitted here
	h.sh("cp /opt/synergy/etc/prove-failing-open.sh /usr/local/bin/prove-failing-open; systemctl start " + unit)
	h.mustBeAt("on")
	for _, signal := range []string{"TERM", "INT"} {
		h.sh("systemd-run --unit=prove-" + signal + " /usr/local/bin/prove-failing-open --yes --user alice " +
			"--partition synergy --hold 6 --patience 60")
		c.WaitFor("the daemon is dead", func() bool { return h.property("ActiveState") != "active" })
		h.sh("systemctl kill --signal=" + signal + " prove-" + signal)
		c.WaitFor("the daemon runs again", func() bool { return h.property("ActiveState") == "active" })
		if left := h.property("Restart"); left != "on-failure" {
			t.Errorf("after SIG%s systemd restarts it %s", signal, left)
		}
	}
}
