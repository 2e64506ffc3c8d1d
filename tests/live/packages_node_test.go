//go:build live && packages

package live

import (
	"strings"
	"testing"
)

// on is a container of the cluster that packages are put on, as a host is.
func (c *Cluster) on(t *testing.T, role string) *Host {
	t.Helper()
	h := &Host{c: c, t: t, role: role}
	h.sh("mkdir -p /packages")
	h.copyPackages("../../dist/*.deb")
	t.Cleanup(func() {
		_, _ = c.Exec(role, "root", "sh", "-c", "dpkg --purge synergy-node synergy-spank; rm -r /packages")
	})
	return h
}

// ownSlurm is all that a host has of Slurm's configuration.
func (h *Host) ownSlurm() string {
	h.t.Helper()
	return h.sh("cd /etc/slurm && ls -la --time-style=+ && cat *.conf")
}

const (
	fromPackage    = "optional /usr/lib/synergy/spank/synergy.so"
	packageScripts = "Prolog=/usr/lib/synergy/node/prolog.sh\nEpilog=/usr/lib/synergy/node/epilog.sh\n" +
		"TaskProlog=/usr/lib/synergy/node/task_prolog.sh"
)

// tellsItsRound is the output of a job that was given the plugin's option on a submit host, and runs as a round has
// started it.
func (h *Host) tellsItsRound(node string, option ...string) string {
	h.t.Helper()
	argv := append([]string{"sbatch", "--parsable", "--chdir=/shared/home/alice", "--gres=gpu:2", "-n2", "-c3", output},
		option...)
	printed, err := h.c.ExecInput(h.role, "alice", "#!/bin/bash\necho round $SYNERGY_ROUND cores $SYNERGY_CPUS\n",
		argv...)
	if err != nil {
		h.t.Fatal(err)
	}
	id := JobID(amount(printed))
	h.c.CancelAtEnd(id)
	if comment := h.c.ShowJob(id)["Comment"]; comment != "synergy-profile=res18.json" {
		h.t.Errorf("the job's comment is %q", comment)
	}
	h.c.StartAs(id, 42, 2, 6, 90_000, node)
	h.c.WaitForState(id, "COMPLETED")
	return h.c.Output(id)
}

// TestPackagesOfNodesAreInstalledUsedAndRemoved has the plugin of its package where a user submits and where his job
// runs, then the scripts of theirs, and Slurm as it was at the end.
func TestPackagesOfNodesAreInstalledUsedAndRemoved(t *testing.T) {
	c := OpenCluster(t)
	c.Clear()
	t.Cleanup(c.Clear)
	submit, node := bareHost(t, c), c.on(t, "n1")
	manager, nodes, submits := submit.slurmAsItIs(), node.ownSlurm(), submit.files()

	// As docs/node-setup.md has it.
	submit.installDebs("synergy-spank")
	submit.sh("echo '" + fromPackage + "' >>/etc/slurm/plugstack.conf; " +
		"cp /usr/share/synergy/slurm/cli_filter.lua /etc/slurm/")
	node.installDebs("synergy-spank", "synergy-node")
	if wrong := node.sh("dpkg --verify synergy-spank synergy-node"); wrong != "" {
		t.Errorf("dpkg finds changed: %s", wrong)
	}
	t.Run("the plugin", func(t *testing.T) {
		c := OpenCluster(t) // what it changes of the node is as it was when this part ends
		c.Serve("n1", fromPackage, "")
		here := &Host{c: c, t: t, role: "host"}
		if told := here.tellsItsRound("n1", "--synergy-profile=res18.json"); told != "round 42 cores 12" {
			t.Errorf("the job was told %q", told)
		}
		node.mustKeepWhatIsRequired()
	})
	t.Run("the scripts", func(t *testing.T) {
		c := OpenCluster(t)
		c.Serve("n1", "", packageScripts)
		here := &Host{c: c, t: t, role: "host"}
		if told := here.tellsItsRound("n1", "--comment=synergy-profile=res18.json"); told != "round 42 cores 12" {
			t.Errorf("the job was told %q", told)
		}
		said, err := c.Exec("n1", "root", "sh", "-c", "dpkg --remove synergy-node 2>&1")
		if err == nil || !strings.Contains(said, "slurm.conf still names scripts in /usr/lib/synergy/node") {
			t.Errorf("the scripts are removed from under Slurm: %v: %s", err, said)
		}
	})
	if seen, err := c.Exec("n1", "root", "/usr/lib/synergy/node/synergy", "gres"); err == nil ||
		!strings.Contains(err.Error(), "no NVIDIA driver on this host") {
		t.Errorf("on a node without GPUs the package's synergy says %q, %v", seen, err)
	}

	node.sh("dpkg --remove synergy-node synergy-spank")
	submit.sh("sed -i /synergy/d /etc/slurm/plugstack.conf; rm /etc/slurm/cli_filter.lua")
	submit.apt("purge synergy-spank")
	if left := difference(submits, submit.files()); left != "" {
		t.Errorf("a removal leaves, or takes:\n%s", left)
	}
	if left := node.sh("ls -d /usr/lib/synergy 2>/dev/null || true; ls -A /run/synergy-jobs"); left != "" {
		t.Errorf("a removal leaves on the node:\n%s", left)
	}
	if changed := difference(nodes, node.ownSlurm()) + difference(manager, submit.slurmAsItIs()); changed != "" {
		t.Errorf("Slurm is not as it was:\n%s", changed)
	}
}

// mustKeepWhatIsRequired holds that the plugin's package stays where plugstack.conf requires the plugin.
func (h *Host) mustKeepWhatIsRequired() {
	h.t.Helper()
	const remove = `cd /etc/slurm; cp plugstack.conf /tmp/was; sed -i s/optional/required/ plugstack.conf
dpkg --remove synergy-spank 2>&1; code=$?; cp /tmp/was plugstack.conf; exit $code`
	said, err := h.c.Exec(h.role, "root", "sh", "-c", remove)
	if err == nil || !strings.Contains(said, "requires the plugin, and Slurm would start no job without it") {
		h.t.Errorf("the plugin is removed from under Slurm: %v: %s", err, said)
	}
}
