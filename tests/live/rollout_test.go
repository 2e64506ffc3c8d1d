//go:build live

package live

import (
	"encoding/json"
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

// status is what synergy rollout --json says.
type status struct {
	Stage, Daemon, Next string
	Ready               bool
	Criteria            []struct{ Name, Verdict, Measured string }
}

func (h *Host) rollout(args ...string) (string, error) {
	h.t.Helper()
	return h.c.Exec("host", "root", append([]string{"/opt/synergy/bin/synergy", "rollout"}, args...)...)
}

// mustBeAt holds that the site is in that stage, and returns the criteria by name.
func (h *Host) mustBeAt(stage string) map[string]string {
	h.t.Helper()
	var s status
	h.c.WaitFor("the site is in stage "+stage, func() bool {
		out, err := h.rollout("--json", "--rounds=1", "--jobs=1")
		s = status{}
		if wrong := json.Unmarshal([]byte(out), &s); wrong != nil {
			h.t.Fatalf("%v: %v: %s", wrong, err, out)
		}
		if (err == nil) != s.Ready {
			h.t.Fatalf("ready %t, and the code says %v", s.Ready, err)
		}
		return s.Stage == stage
	})
	verdicts := map[string]string{}
	for _, c := range s.Criteria {
		verdicts[c.Name] = c.Verdict
		h.t.Logf("%s: %s %s: %s", stage, c.Verdict, c.Name, c.Measured)
	}
	return verdicts
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

	if seen := h.mustBeAt("preflight"); seen["checks"] != "ok" {
		t.Errorf("the site is set up, and the checks are %s", seen["checks"])
	}
	h.sh("systemctl start " + unit)
	if seen := h.mustBeAt("shadow"); seen["health"] != "ok" || seen["savings"] == "ok" {
		t.Errorf("no job has run: %v", seen)
	}
	out, err := h.rollout("next", "--account", "users")
	if err == nil || !strings.Contains(out, "not ready for canary") {
		t.Errorf("nobody has seen a job in the shadow, and the next stage may begin: %v: %s", err, out)
	}
	out, err = h.rollout("next", "--anyway", "--write", "--account", "users")
	if err != nil || !strings.Contains(out, "+ canary: {accounts: [users]}") {
		t.Fatalf("%v: %s", err, out)
	}
	h.sh("systemctl restart " + unit)
	if seen := h.mustBeAt("canary"); seen["proof of failing open"] != "skip" {
		t.Errorf("no proof was made: %v", seen)
	}

	began := time.Now()
	out, err = h.rollout("prove", "--yes", "--user", "alice", "--partition", "synergy", "--hold", "6s", "--patience",
		"30s")
	t.Logf("the proof took %.1f s:\n%s", time.Since(began).Seconds(), out)
	if err != nil || !strings.Contains(out, "after its lease was over, as asked for") {
		t.Fatalf("%v: %s", err, out)
	}
	if left := h.property("ActiveState") + " " + h.property("Restart"); left != "active on-failure" {
		t.Errorf("the daemon is left %s", left)
	}
	if seen := h.mustBeAt("canary"); seen["proof of failing open"] != "ok" {
		t.Errorf("the proof was made: %v", seen)
	}
	if out, err = h.rollout("next", "--anyway", "--write"); err != nil || !strings.Contains(out, "- canary:") {
		t.Fatalf("%v: %s", err, out)
	}
	h.sh("systemctl reload " + unit)
	h.mustBeAt("on")
	if text := h.sh("cat /etc/synergy/synergy-slurmd.yaml"); text != strings.TrimSpace(rolloutConfig) {
		t.Errorf("on the way the configuration became\n%s", text)
	}
}
