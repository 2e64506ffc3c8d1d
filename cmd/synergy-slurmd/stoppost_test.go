package main

import "testing"

func TestReleaseIsForAServiceThatSystemdWillNotStartAgain(t *testing.T) {
	for _, c := range []struct {
		what  string
		how   ending
		again bool
	}{
		{"systemctl stop, or the end of the host", ending{"success", "0", "stop"}, false},
		{"a stop during which it had to be killed", ending{"timeout", "KILL", "stop"}, false},
		{"systemctl restart", ending{"success", "0", "restart"}, true},
		{"a start while it stops", ending{"success", "0", "start"}, true},
		{"a crash", ending{"exit-code", "1", ""}, true},
		{"a kill -9", ending{"signal", "KILL", ""}, true},
		{"the watchdog", ending{"watchdog", "ABRT", ""}, true},
		{"a wrong flag", ending{"exit-code", "2", ""}, false},
		{"a kill -TERM by hand", ending{"success", "0", ""}, false},
		{"a start that systemd gave up", ending{"start-limit-hit", "1", ""}, false},
		{"nobody knows", ending{}, false},
	} {
		if got := c.how.comesBack(); got != c.again {
			t.Errorf("after %s: starts again %v, want %v", c.what, got, c.again)
		}
	}
}

func TestTheJobOfAUnitIsReadFromSystemdsList(t *testing.T) {
	const listing = "  84 slurmd.service          stop    waiting\n 812 synergy-slurmd.service  restart running\n"
	for unit, want := range map[string]string{"synergy-slurmd.service": "restart", "slurmd.service": "stop",
		"synergy": "", "slurm": ""} {
		if got := jobOf(unit, listing); got != want {
			t.Errorf("%s: %q, want %q", unit, got, want)
		}
	}
	if got := jobOf("x.service", "No jobs running.\n"); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}
