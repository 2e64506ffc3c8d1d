//go:build live && packages

package live

import (
	"strings"
	"testing"
)

// addRPM puts rpm itself on a host, which has a database of its own and knows nothing of what dpkg has installed.
func (h *Host) addRPM() {
	h.t.Helper()
	h.sh("apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends rpm")
	h.copyPackages("../../dist/*.rpm", "../../build/packages/older/*.rpm")
}

// rpm installs and erases: what packages need on this host is dpkg's.
func (h *Host) rpm(words string) {
	h.t.Helper()
	h.sh("rpm --nodeps " + words + " 2>&1")
}

// The packages by name; what a file of theirs is called depends on the version.
var kinds = []string{"synergy-slurmd", "synergy", "synergy-node", "synergy-spank"}

// asInstalled are the files of a package, with mode, owner and content. Names of folders are those of rpm.
func (h *Host) asInstalled(list string) string {
	h.t.Helper()
	return h.sh("for f in $(" + list + "); do [ -d $f ] || { stat -c '%a %U:%G %n' $f; sha256sum <$f; }; done | " +
		"sed s,zsh/vendor-completions,zsh/site-functions,")
}

// inRPM are what rpm knows of a package in the words of dpkg's: its configuration, what its scripts are.
func (h *Host) inRPM(name string) (configuration string, scripts map[string]string) {
	h.t.Helper()
	scripts = map[string]string{}
	for debs, tag := range map[string]string{"postinst": "POSTIN", "prerm": "PREUN", "postrm": "POSTUN"} {
		scripts[debs] = strings.TrimSpace(strings.TrimPrefix(h.sh("rpm -q --qf '%{"+tag+"}' "+name), "(none)"))
	}
	configuration = h.sh("rpm -q --qf '[%{FILENAMES} %{FILEFLAGS:fflags}\n]' " + name +
		" | awk '$2 == \"cn\" {print $1}'")
	return configuration, scripts
}

// inDeb are the same of dpkg.
func (h *Host) inDeb(name string) (configuration string, scripts map[string]string) {
	h.t.Helper()
	scripts = map[string]string{}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		scripts[script] = h.sh("cat /var/lib/dpkg/info/" + name + "." + script + " 2>/dev/null || true")
	}
	return h.sh("cat /var/lib/dpkg/info/" + name + ".conffiles 2>/dev/null || true"), scripts
}

// TestPackagesOfBothKindsInstallTheSame puts each on a host, first the one and then the other.
func TestPackagesOfBothKindsInstallTheSame(t *testing.T) {
	c := OpenCluster(t)
	h := bareHost(t, c)
	h.addRPM()
	files := h.files()
	for _, name := range kinds {
		h.apt("install --no-install-recommends " + h.packageOf(name, "_*.deb"))
		debs := h.asInstalled("dpkg -L " + name + " | sort")
		configuration, scripts := h.inDeb(name)
		h.apt("purge " + name)

		h.rpm("-i " + h.packageOf(name, "-*.rpm"))
		rpms := h.asInstalled("rpm -ql " + name + " | sort")
		if differ := difference(debs, rpms); differ != "" || strings.Count(debs, "\n") < 4 {
			t.Errorf("%s: the rpm's files are others than the deb's %s:\n%s", name, debs, differ)
		}
		configured, scripted := h.inRPM(name)
		if configured != configuration {
			t.Errorf("%s: rpm takes for configuration\n%s\nand dpkg\n%s", name, configured, configuration)
		}
		for script, text := range scripts {
			if strings.TrimSpace(text) != scripted[script] {
				t.Errorf("%s: %s of the rpm is\n%s\nwant\n%s", name, script, scripted[script], text)
			}
		}
		if wrong := h.sh("rpm -V --nodeps " + name + " || true"); wrong != "" {
			t.Errorf("%s: rpm finds changed: %s", name, wrong)
		}
		h.rpm("-e " + name)
	}
	if left := difference(files, h.files()); left != "+ /var/lib/synergy\n" {
		t.Errorf("when all are erased, there is more or less than the daemon's folder:\n%s", left)
	}
}

// TestPackagesAsRPMsAreInstalledUpgradedAndErasedBesideARunningSlurm holds what the test of the debs holds: the words
// that rpm gives to the scripts are others.
func TestPackagesAsRPMsAreInstalledUpgradedAndErasedBesideARunningSlurm(t *testing.T) {
	c := OpenCluster(t)
	c.Clear()
	t.Cleanup(c.Clear)
	h := bareHost(t, c)
	h.addRPM()
	manager, files := h.slurmAsItIs(), h.files()

	h.rpm("-i /packages/synergy-slurmd-0.2.*.rpm")
	if state := h.sh("systemctl is-enabled " + unit + " || true"); state != "disabled" {
		t.Errorf("the unit is %s after the installation", state)
	}
	h.beginWithSites()
	h.mustUpgrade(func() { h.rpm("-U " + h.packageOf("synergy-slurmd", "-*.rpm")) })
	if beside := h.sh("ls /etc/synergy"); !strings.Contains(beside, "synergy-slurmd.yaml.rpmnew") {
		t.Errorf("what the new release has as configuration is not beside the administrator's: %s", beside)
	}
	waiting := h.switchOn()
	h.rpm("-e synergy-slurmd")
	if why := c.why(waiting); why != "handed back to Slurm" {
		t.Errorf("after the removal the job is told %q", why)
	}
	left := difference(files, h.files())
	want := "+ /etc/synergy\n+ /etc/synergy/synergy-slurmd.env.rpmsave\n+ /etc/synergy/synergy-slurmd.yaml.rpmnew\n" +
		"+ /etc/synergy/synergy-slurmd.yaml.rpmsave\n+ /var/lib/synergy\n+ /var/lib/synergy/ledger\n" +
		"+ /var/lib/synergy/token\n"
	if left != want {
		t.Errorf("a removal leaves\n%s\nwant\n%s", left, want)
	}
	if running := h.sh("pgrep -c synergy-slurmd || true; find /etc/systemd -name 'synergy*'"); running != "0" {
		t.Errorf("after the removal there is %s", running)
	}
	if changed := difference(manager, h.slurmAsItIs()); changed != "" {
		t.Errorf("Slurm is not as it was:\n%s", changed)
	}
}
