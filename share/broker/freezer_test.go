//go:build faults

// What is tested here moves processes between the cgroups of the machine that it runs on and freezes them, which is no
// business of a plain go test: make test-freezer. What the broker writes where is in identity_test.go, on a machine
// that is made up.

package broker_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// TestAJobInCgroupsStandsAsAWhole moves a job into cgroups as Slurm makes them, where this machine lets root do so;
// elsewhere it stands by signals.
func TestAJobInCgroupsStandsAsAWhole(t *testing.T) {
	own := fmt.Sprintf("synergy-test-%d", os.Getpid()) // the same test may run beside this one
	for _, at := range []string{
		"/sys/fs/cgroup/" + own + "_slurmstepd.scope", "/sys/fs/cgroup/unified/" + own + "_slurmstepd.scope",
		"/sys/fs/cgroup/freezer/slurm_" + own + "/uid_0",
	} {
		b, rude, high := pair(t, "ignore")
		in := enter(t, at, rude.pid)
		high.ask()
		high.want(wire.Grant)
		await(t, "a stop", func() bool { return quietFor(rude, 200*time.Millisecond) })
		signalled := stands(t, rude.pid)
		t.Logf("%s: in a cgroup: %v, stopped by a signal: %v", at, in, signalled)
		if signalled && in {
			t.Errorf("%s: its cgroup was not frozen", at)
		}
		high.release()
		ticks := rude.count("tick")
		await(t, "a tick after it", func() bool { return rude.count("tick") > ticks })
		b.stop()
		rude.kill()
		_ = syscall.Kill(rude.pid, syscall.SIGKILL)
	}
}

// enter moves a process into a cgroup of its job there, if it can.
func enter(t *testing.T, at string, pid int) bool {
	t.Helper()
	if _, err := os.Stat(filepath.Join(filepath.Dir(strings.TrimSuffix(at, "/uid_0")), "cgroup.procs")); err != nil {
		return false
	}
	dir := filepath.Join(at, fmt.Sprintf("job_%d", ruder), "step_0")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false
	}
	t.Cleanup(func() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		thaw(dir)
		await(t, "an empty cgroup", func() bool {
			err := os.Remove(dir)
			return err == nil || errors.Is(err, os.ErrNotExist)
		})
		for ; strings.Contains(dir, "synergy-test"); dir = filepath.Dir(dir) {
			os.Remove(dir)
		}
	})
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644) == nil
}

// thaw lets go on what a test that failed has left frozen: the first version kills nothing that stands.
func thaw(dir string) {
	_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0)
}
