//go:build live

package live

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const (
	synergy    = "/opt/synergy/bin/synergy"
	gresFolder = "/tmp/gres" // in the node's container
)

// inventory is a node's GPUs as synergy gres --json writes them: the cluster's nodes have none that NVIDIA's library
// could see.
func inventory(node, model, typ string, gpus int) string {
	var all []string
	for i := range gpus {
		side := i * 2 / gpus // half of the GPUs near each socket of twelve cores
		all = append(all,
			fmt.Sprintf(
				`{"index":%d,"minor":%d,"type":%q,"name":%q,"uuid":"GPU-%d","memory_mib":40960,"pci":"0000:%02x:00.0","numa_node":%d,`+
					`"near":{"cpus":"%d-%d","cores":"%[8]d-%[9]d","sockets":"%[7]d"},"mig":{"mode":"off"},"mps_clients":0,"compute_mode":"default"}`,
				i, i, typ, model, i, i+1, side, 12*side, 12*side+11))
	}
	return fmt.Sprintf(
		`{"version":1,"node":%q,"taken":"2026-03-01T12:00:00Z","driver":"550.54.15","nvml":"12.550.54.15","gpus":[%s]}`,
		node, strings.Join(all, ","))
}

// gres runs synergy gres with an inventory on the standard input.
func (c *Cluster) gres(role, user, inventory string, args ...string) (string, error) {
	c.t.Helper()
	return c.ExecInput(role, user, inventory, append([]string{synergy, "gres", "--inventory", "-"}, args...)...)
}

func TestWithoutADriverSynergyGresSaysSo(t *testing.T) {
	c := OpenCluster(t)
	for program, want := range map[string]string{
		synergy: "synergy: this build of synergy cannot see GPUs: it is compiled without " +
			"NVIDIA's library",
		"/opt/synergy/bin/nvml/synergy": "synergy: no NVIDIA driver on this host: libnvidia-ml.so.1 is not to be " +
			"found; it comes with the driver",
	} {
		out, err := c.Exec("n1", "root", program, "gres")
		if err == nil || out != "" || !strings.Contains(err.Error(), "exit status 3") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %s", program, out, err, want)
		}
	}
}

func TestSlurmctldIsRightAboutANodeAsItIs(t *testing.T) {
	c := OpenCluster(t)
	for _, where := range [][2]string{{"n1", "root"}, {"login", "alice"}} { // anybody may ask, from anywhere
		out, err := c.gres(where[0], where[1], inventory("n1", "NVIDIA A100-SXM4-40GB", "a100", 8), "--check")
		if err != nil || out != "node n1: its GPUs are as slurmctld has them" {
			t.Errorf("%s on %s: %q, %v", where[1], where[0], out, err)
		}
	}
}

func TestSlurmctldsMistakesAreTold(t *testing.T) {
	c := OpenCluster(t)
	for _, w := range []struct {
		name, inventory string
		args            []string
		status          int
		want            string
	}{
		{"two more", inventory("n1", "NVIDIA A100-SXM4-40GB", "a100", 10), nil, 1,
			"missing: slurmctld has 8 GPUs; want 2 more: GPU 8 a100, GPU 9 a100. Set Gres=gpu:a100:10 in " +
				"slurm.conf's line of NodeName=n1,"},
		{"two less", inventory("n1", "NVIDIA A100-SXM4-40GB", "a100", 6), nil, 1,
			"extra: slurmctld has 8 × gpu; want 6, which is what the node has. Set Gres=gpu:a100:6 "},
		{"other shards", inventory("n1", "NVIDIA A100-SXM4-40GB", "a100", 8), []string{"--shards", "2"}, 1,
			"wrong-shards: slurmctld has 32 shards; want 16. Set Gres=gpu:g0:1,gpu:g1:1,"},
		{"two models", strings.Replace(inventory("n1", "NVIDIA A100-SXM4-40GB", "a100", 8),
			`"a100","name":"NVIDIA A100-SXM4-40GB"`, `"h100","name":"NVIDIA H100 NVL"`, 1), nil, 1,
			"wrong-type: slurmctld has 8 GPUs without a type; want a type, since they differ: GPU 0 h100, GPU 1 a100,"},
		{"no such node", inventory("n99", "NVIDIA A100-SXM4-40GB", "a100", 8), nil, 3,
			"has no node n99: --node says what Slurm calls it"},
		{"another name", inventory("n99", "NVIDIA A100-SXM4-40GB", "a100", 8), []string{"--node", "n2"}, 0,
			"node n2: its GPUs are as slurmctld has them"},
	} {
		out, err := c.gres("n1", "root", w.inventory, append(w.args, "--check")...)
		status := 0
		if err != nil {
			out += err.Error()
			fmt.Sscanf(err.Error()[strings.Index(err.Error(), "exit status"):], "exit status %d", &status)
		}
		if status != w.status || !strings.Contains(out, w.want) {
			t.Errorf("%s: exit status %d, %s\nwant %d and %q", w.name, status, out, w.status, w.want)
		}
	}
}

// configure prints the lines that fit eight GPUs and gives them to slurmd, in a folder of their own beside the
// configuration that the node runs with. Device files with NVIDIA's names are made for it. It returns what slurmd -G
// makes of them.
func (c *Cluster) configure(args ...string) string {
	c.t.Helper()
	printed, err := c.gres("n1", "root", inventory("n1", "NVIDIA A100-SXM4-40GB", "a100", 8), args...)
	if err != nil {
		c.t.Fatal(err)
	}
	var conf, node []string
	for line := range strings.Lines(printed) {
		switch {
		case strings.Contains(line, " Name="):
			conf = append(conf, line)
		case strings.HasPrefix(line, "NodeName=n1 Gres="):
			node = append(node, strings.TrimSpace(strings.TrimPrefix(line, "NodeName=n1 ")))
		}
	}
	if len(node) != 1 || len(conf) == 0 {
		c.t.Fatalf("synergy gres prints no lines:\n%s", printed)
	}
	c.t.Cleanup(func() { c.MustExec("n1", "root", "sh", "-c", "rm -rf "+gresFolder+" /dev/nvidia[0-7]") })
	c.MustExec("n1", "root", "sh", "-ec", `mkdir -p `+gresFolder+`
		for i in 0 1 2 3 4 5 6 7; do [ -e /dev/nvidia$i ] || mknod /dev/nvidia$i c 195 $i; done
		cp /etc/slurm/cgroup.conf `+gresFolder+`
		sed 's/ Gres=[^ ]*/ `+node[0]+`/' /etc/slurm/slurm.conf > `+gresFolder+`/slurm.conf`)
	if _, err := c.ExecInput("n1", "root", strings.Join(conf, ""), "tee", gresFolder+"/gres.conf"); err != nil {
		c.t.Fatal(err)
	}
	return c.MustExec("n1", "root", "sh", "-c", "slurmd -N n1 -f "+gresFolder+"/slurm.conf -G 2>&1 | tee "+gresFolder+
		"/slurmd-G.txt")
}

// slurmd itself takes the lines, as they are meant; and synergy gres, which reads what it says, has nothing to say.
func TestSlurmdTakesTheLinesThatArePrinted(t *testing.T) {
	c := OpenCluster(t)
	for _, w := range []struct {
		args []string
		want string // of GPU 7
	}{
		{nil, "Gres Name=gpu Type=a100 Count=1 Index=7 ID=7696487 File=/dev/nvidia7 Links="},
		{[]string{"--cores"}, "Gres Name=gpu Type=a100 Count=1 Index=7 ID=7696487 File=/dev/nvidia7 Cores=12-23 "},
		{[]string{"--shards", "4"}, "Gres Name=shard Type=g7 Count=4 Index=7 ID=1918986455 File=/dev/nvidia7 Links="},
	} {
		said := c.configure(w.args...)
		if strings.Count(said, "Gres Name=gpu ") != 8 || !strings.Contains(said, w.want) ||
			strings.Contains(said, "fatal") {
			t.Errorf("%v: slurmd says\n%s\nwant %s", w.args, said, w.want)
		}
		out, err := c.gres("n1", "root", inventory("n1", "NVIDIA A100-SXM4-40GB", "a100", 8), "--check", "--slurmd",
			gresFolder+"/slurmd-G.txt")
		if err != nil || out != "node n1: its GPUs are as slurmctld and slurmd have them" {
			t.Errorf("%v: %s, %v", w.args, out, err)
		}
	}
}

func TestMistakesInGresConfAreTold(t *testing.T) {
	c := OpenCluster(t)
	c.configure("--cores")
	for _, w := range [][2]string{
		{"s/ Cores=0-11/ Cores=12-23/",
			"wrong-cores: slurmd has Cores=12-23 for /dev/nvidia0; want 0-11, or no Cores= at all. Correct " +
				"gres.conf on n1"},
		{"s/a100/h100/", "wrong-type: slurmd has Type=h100 for /dev/nvidia7; want a100 (NVIDIA A100-SXM4-40GB)."},
	} {
		c.MustExec("n1", "root", "sh", "-ec", "cd "+gresFolder+
			"; mkdir -p wrong; cp cgroup.conf wrong; for f in slurm.conf gres.conf; do sed '"+w[0]+
			"' $f > wrong/$f; done; "+
			"slurmd -N n1 -f "+gresFolder+"/wrong/slurm.conf -G > slurmd-G.txt 2>&1")
		out, err := c.gres("n1", "root", inventory("n1", "NVIDIA A100-SXM4-40GB", "a100", 8), "--check", "--json",
			"--slurmd", gresFolder+"/slurmd-G.txt")
		var verdict struct {
			Differences []struct{ Kind, Source, Is, Want, Remedy string }
		}
		if err == nil || !strings.Contains(err.Error(), "exit status 1") ||
			json.Unmarshal([]byte(out), &verdict) != nil {
			t.Errorf("%s: %s, %v", w[0], out, err)
		}
		var lines []string
		for _, d := range verdict.Differences {
			lines = append(lines, fmt.Sprintf("%s: %s has %s; want %s. %s", d.Kind, d.Source, d.Is, d.Want, d.Remedy))
		}
		if !strings.Contains(strings.Join(lines, "\n"), w[1]) {
			t.Errorf("%s:\n%s\nwant %s", w[0], strings.Join(lines, "\n"), w[1])
		}
	}
}
