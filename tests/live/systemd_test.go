//go:build live

package live

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// exposed is the most that systemd may say of the unit: 10 is a service with nothing taken away, below 2 is what it calls OK.
const exposed = 1.5

func TestTheUnitGivesTheDaemonLittleToHarm(t *testing.T) {
	c := OpenCluster(t)
	listing, err := c.Exec("login", "root", "systemd-analyze", "security", "--offline=true", "--no-pager", "/opt/synergy/etc/synergy-slurmd.service")
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
