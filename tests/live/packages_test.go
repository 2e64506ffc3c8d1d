//go:build live && packages

package live

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A Debian as a newcomer has it: Slurm's commands, munge and systemd, and neither our user nor a file of ours.
func bareHost(t *testing.T, c *Cluster) *Host {
	t.Helper()
	h := bootHost(t, c)
	h.put("/etc/slurm/slurm.conf", c.MustExec("login", "root", "cat", "/etc/slurm/slurm.conf"))
	h.sh("systemctl restart munge; userdel synergy; mkdir /packages")
	h.copyPackages("../../dist/*.deb", "../../build/packages/older/*.deb")
	return h
}

// copyPackages has packages of this checkout in the host's /packages.
func (h *Host) copyPackages(patterns ...string) {
	h.t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			h.t.Fatalf("%s: %d packages, %v: make packages makes them", pattern, len(files), err)
		}
		for _, file := range files {
			h.c.docker("cp", file, h.c.container(h.role)+":/packages/")
		}
	}
}

// packageOf is the path of a package of this release, by its name and the form of its file's.
func (h *Host) packageOf(name, form string) string {
	h.t.Helper()
	return h.sh("ls /packages/" + name + form + " | grep -E '/" + name + ".[0-9]' | grep -v '[_-]0.2.99'")
}

// apt runs apt-get without a question and without a mirror. Images of Debian may leave man pages out.
func (h *Host) apt(words string) string {
	h.t.Helper()
	return h.sh("DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Options::=--path-include=/usr/share/* " +
		"-o Dpkg::Options::=--force-confold " + words + " 2>&1")
}

// installDebs installs packages of this release.
func (h *Host) installDebs(names ...string) {
	h.t.Helper()
	words := "install --no-install-recommends"
	for _, name := range names {
		words += " " + h.packageOf(name, "_*.deb")
	}
	h.apt(words)
}

// slurmAsItIs is all of Slurm that an uninstallation must not have changed: what slurmctld goes by, and the files of
// this host. Moments and numbers of jobs go on.
func (h *Host) slurmAsItIs() string {
	h.t.Helper()
	return h.sh("scontrol show config | grep -v -e '^Configuration data as of' -e '^BOOT_TIME' -e '^NEXT_JOB_ID'; " +
		"scontrol show partition; scontrol show node | grep -E 'NodeName|Gres=|Partitions'; " +
		"sacctmgr -nP show user withassoc; find /etc/slurm -type f -o -type l | sort | xargs sha256sum")
}

// files are all paths of the host but those that dpkg, rpm, apt, systemd and passwd's tools keep for themselves, and
// the folder of zsh's that every distribution with rpm has.
func (h *Host) files() string {
	h.t.Helper()
	return h.sh("find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp " +
		"-o -path /packages -o -path /var/lib/dpkg -o -path /var/lib/rpm -o -path /var/lib/apt " +
		"-o -path /var/lib/systemd -o -path /usr/share/zsh/site-functions " +
		"-o -path /var/log -o -path /var/cache \\) " +
		"-prune -o -print | grep -v -E '^/etc/(passwd|group|shadow|gshadow|subuid|subgid|ld.so.cache)-?$' | sort")
}

// installed are files of the packages with mode and owner. An administrator's own are those of a packaged
// configuration, and the daemon's folder is nobody else's.
const installed = `755 root:root /usr/bin/synergy
755 root:root /usr/bin/synergy-slurmd
755 root:root /usr/lib/synergy/renew-token
644 root:root /usr/lib/systemd/system/synergy-slurmd.service
644 root:root /usr/lib/systemd/system/synergy-token.timer
644 root:root /usr/share/man/man1/synergy-sim.1.gz
644 root:root /usr/share/man/man8/synergy-slurmd.8.gz
644 root:root /usr/share/bash-completion/completions/synergy
644 root:root /usr/share/bash-completion/completions/synergy-slurmd
644 root:root /usr/share/zsh/vendor-completions/_synergy
644 root:root /usr/share/fish/vendor_completions.d/synergy.fish
644 root:root /usr/share/synergy/slurm/job_submit.lua
755 root:root /etc/synergy
755 root:root /etc/synergy/profiles
644 root:root /etc/synergy/synergy-slurmd.yaml
644 root:root /etc/synergy/synergy-slurmd.env
700 synergy:synergy /var/lib/synergy`

// mustBeInstalledAndOff holds that files are where they belong, and that nothing runs or will run by itself.
func (h *Host) mustBeInstalledAndOff() {
	h.t.Helper()
	var paths []string
	for line := range strings.Lines(installed) {
		paths = append(paths, strings.Fields(line)[2])
	}
	if has := h.sh("stat -c '%a %U:%G %n' " + strings.Join(paths, " ")); has != installed {
		h.t.Errorf("installed are\n%s\nwant\n%s", has, installed)
	}
	for _, unit := range []string{"synergy-slurmd.service", "synergy-token.timer", "synergy-release.timer"} {
		if state := h.sh("systemctl is-enabled " + unit + " || true; systemctl is-active " + unit +
			" || true"); state != "disabled\ninactive" {
			h.t.Errorf("%s is %q after the installation", unit, state)
		}
	}
	if wrong := h.sh("dpkg --verify synergy-slurmd synergy"); wrong != "" {
		h.t.Errorf("dpkg finds changed: %s", wrong)
	}
	if login := h.sh("getent passwd synergy"); !strings.HasSuffix(login, ":/var/lib/synergy:/usr/sbin/nologin") {
		h.t.Errorf("the user is %q", login)
	}
	h.sh("for c in synergy synergy-slurmd; do " +
		"bash -ec \". /usr/share/bash-completion/completions/$c; complete -p $c\"; done")
}

// TestPackagesAreInstalledUpgradedRemovedAndPurgedBesideARunningSlurm goes through the life of the packages on one
// host, in its order.
func TestPackagesAreInstalledUpgradedRemovedAndPurgedBesideARunningSlurm(t *testing.T) {
	c := OpenCluster(t)
	c.Clear()
	t.Cleanup(c.Clear)
	h := bareHost(t, c)
	manager, files := h.slurmAsItIs(), h.files()

	began := time.Now()
	h.installDebs("synergy-slurmd", "synergy")
	t.Logf("two packages after %.1f s", time.Since(began).Seconds())
	h.mustBeInstalledAndOff()
	h.takeTheNewcomersWalk()
	h.apt("purge synergy-slurmd synergy")

	h.apt("install --no-install-recommends /packages/synergy-slurmd_0.2.*.deb")
	h.beginWithSites()
	h.mustUpgrade(func() { h.installDebs("synergy-slurmd") })
	waiting := h.switchOn()
	h.apt("remove synergy-slurmd")
	h.mustBeRemoved(waiting)
	h.apt("purge synergy-slurmd synergy")
	if left := difference(files, h.files()); left != "" {
		t.Errorf("purge leaves, or takes:\n%s", left)
	}
	if changed := difference(manager, h.slurmAsItIs()); changed != "" {
		t.Errorf("Slurm is not as it was:\n%s", changed)
	}
}

// takeTheNewcomersWalk is the four commands of docs/operations.md: a token, a look, a start, and what came of it.
func (h *Host) takeTheNewcomersWalk() {
	h.t.Helper()
	h.sh("sed -i s,127.0.0.1:6820,slurmrestd:6820, /etc/synergy/synergy-slurmd.env")
	h.sh("systemctl enable --now synergy-token.timer")
	h.c.WaitFor("there is a token", func() bool { return h.sh("ls /var/lib/synergy") == "token" })
	if token := h.sh("stat -c '%a %U' /var/lib/synergy/token"); token != "600 synergy" {
		h.t.Errorf("the token is %s", token)
	}
	if said := h.check(); !regexp.MustCompile(`(?s)ok +token: of user synergy, ends in .*ok +slurm: slurmrestd speaks`).
		MatchString(said) {
		h.t.Errorf("the look says\n%s", said)
	}
	h.sh("systemctl enable --now " + unit)
	h.c.WaitFor("a round was held in the shadow",
		func() bool { return h.said("message", "round") > 0 && h.said("shadow", true) > 0 })
	if changed := h.said("message", "change"); changed != 0 {
		h.t.Errorf("%d changes in the shadow", changed)
	}
}

// check is synergy-slurmd --check with the daemon's flags; some of its lines fail on this cluster.
func (h *Host) check() string {
	h.t.Helper()
	return h.sh(". /etc/synergy/synergy-slurmd.env; " +
		"runuser -u synergy -- synergy-slurmd --check $SYNERGY_FLAGS || true")
}

// The administrator's own: his partition, and short rounds that start nothing by themselves.
const sites = `partitions: [synergy]
policy: las
lease: 10m
ahead: 0
rules: {min_run: 0s, stranded: 0.1}
`

// beginWithSites has an administrator use the release that is installed, with a configuration of his own.
func (h *Host) beginWithSites() {
	h.t.Helper()
	h.put("/etc/synergy/synergy-slurmd.yaml", sites)
	h.sh("sed -i 's,127.0.0.1:6820,slurmrestd:6820 --round 5s,' /etc/synergy/synergy-slurmd.env")
	h.sh("systemctl enable --now synergy-token.timer synergy-slurmd; systemctl start synergy-token.service")
	h.c.WaitFor("the older one holds rounds", func() bool { return h.said("message", "round") > 1 })
}

// mustUpgrade holds that the new release runs, by the configuration that was there.
func (h *Host) mustUpgrade(upgrade func()) {
	h.t.Helper()
	before, given := h.property("MainPID"), h.said("message", "handed back to slurm")
	upgrade()
	if after := h.property("MainPID"); after == before || h.property("ActiveState") != "active" {
		h.t.Errorf("after the upgrade process %s is %s, before it was %s", after, h.property("ActiveState"), before)
	}
	if state := h.sh("systemctl is-enabled " + unit); state != "enabled" {
		h.t.Errorf("after the upgrade the unit is %s", state)
	}
	if kept := h.sh("cat /etc/synergy/synergy-slurmd.yaml"); kept != strings.TrimSpace(sites) {
		h.t.Errorf("the configuration is\n%s", kept)
	}
	if flags := h.sh("cat /etc/synergy/synergy-slurmd.env"); !strings.Contains(flags, "--round 5s --shadow") {
		h.t.Errorf("the flags are\n%s", flags)
	}
	if h.said("message", "handed back to slurm") != given {
		h.t.Error("the upgrade has handed jobs back")
	}
}

// switchOn takes the shadow away, and returns a job that waits behind another with a lease of the daemon's.
func (h *Host) switchOn() (waiting JobID) {
	h.t.Helper()
	h.sh("sed -i 's/ --shadow//' /etc/synergy/synergy-slurmd.env; systemctl restart " + unit)
	words := []string{"--gres=gpu:8", "-w", "n1", "--comment=synergy-profile=unknown.json", output}
	running := h.c.MustSbatch("alice", sleeper, words...)
	h.c.WaitForState(running, "RUNNING")
	waiting = h.c.MustSbatch("bob", sleeper, words...)
	h.c.WaitFor("the daemon says why the job waits", func() bool { return h.c.why(waiting) != "" })
	return waiting
}

// mustBeRemoved holds that the daemon is gone and has given back what it had, and that the administrator's files and
// what the daemon knew stay.
func (h *Host) mustBeRemoved(waiting JobID) {
	h.t.Helper()
	if why := h.c.why(waiting); why != "handed back to Slurm" {
		h.t.Errorf("after the removal the job is told %q", why)
	}
	left := h.sh("ls /etc/synergy /var/lib/synergy; ls /usr/bin/synergy-slurmd 2>&1 || true; " +
		"systemctl list-unit-files 'synergy*' --no-legend || true; find /etc/systemd -name 'synergy*'; " +
		"pgrep -c synergy-slurmd || true")
	want := "/etc/synergy:\nsynergy-slurmd.env\nsynergy-slurmd.yaml\nsynergy-slurmd.yaml.dpkg-dist\n\n" +
		"/var/lib/synergy:\nledger\ntoken\n" +
		"ls: cannot access '/usr/bin/synergy-slurmd': No such file or directory\n0"
	if left != want {
		h.t.Errorf("a removal leaves\n%s\nwant\n%s", left, want)
	}
}

// difference is what is in one text only, line by line.
func difference(before, after string) string {
	var said strings.Builder
	was, is := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(before + "\n") {
		was[line] = true
	}
	for line := range strings.Lines(after + "\n") {
		if is[line] = true; !was[line] {
			fmt.Fprint(&said, "+ ", line)
		}
	}
	for line := range strings.Lines(before + "\n") {
		if !is[line] {
			fmt.Fprint(&said, "- ", line)
		}
	}
	return said.String()
}
