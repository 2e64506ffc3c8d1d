package cluster_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
)

const artifactINI = `[CLUSTER]
racks = 2
servers_per_rack = 16
gpus_per_server = 8
cpus_per_server = 24        ; cores
dram_per_server = 500       ; GB
sspeed_per_server = 500     ; MB/s
net_per_server = 40         ; Gb/s, optional
[SCHEDULER]
policy = FIFO
lease_time = 5
`

func TestTheArtifactsFileIsReadAndItsRacksMultiply(t *testing.T) {
	c, err := cluster.ReadINI([]byte(artifactINI))
	if err != nil || c.String() != "32x8:24:500" {
		t.Errorf("read %v, %v", c, err)
	}
}

func TestWhatTheArtifactsFileLeavesOutIsAsThere(t *testing.T) {
	c, err := cluster.ReadINI([]byte("[CLUSTER]\nGPUs_Per_Server: 4\n"))
	if err != nil || c.String() != "4x4:24:500:300" {
		t.Errorf("read %v, %v", c, err)
	}
}

func TestAWrongINIIsAnErrorThatNamesLineKeyAndRemedy(t *testing.T) {
	const known = "unknown key: want racks, servers_per_rack, gpus_per_server, cpus_per_server, dram_per_server, " +
		"sspeed_per_server, " +
		"net_per_server in [CLUSTER]"
	for _, c := range []struct{ text, want string }{
		{"", "no section [CLUSTER]: want the cluster file of the paper's artifact"},
		{"[cluster]\n", "no section [CLUSTER]: want the cluster file of the paper's artifact"},
		{"[CLUSTER]\n# gpus\nracks = 2\ngpus",
			"line 4: gpus: want a section in brackets, or a key and a value, as gpus_per_server = 8"},
		{"[CLUSTER]\nx=1", "line 2: [CLUSTER] x: " + known},
		{"[CLUSTER]\n[SCHEDULER]\npolicy=FIFO\nracks=1", "line 4: [SCHEDULER] racks: " + known},
		{"[SCHEDULER]\n[CLUSTER]\nracks=1\n[SCHEDULER]\nracks=1", "line 5: [SCHEDULER] racks: " + known},
		{"racks=1\n[CLUSTER]\nracks=1", "line 1: [DEFAULT] racks: " + known},
		{"[CLUSTER]\n[OTHER]\na=b", "line 3: [OTHER] a: " + known},
		{"[CLUSTER]\n\ngpus_per_server = 3x",
			"line 3: [CLUSTER] gpus_per_server: 3x: want a whole number from 1 to 1024"},
		{"[CLUSTER]\ngpus_per_server =", `line 2: [CLUSTER] gpus_per_server: "": want a whole number from 1 to 1024`},
		{"[CLUSTER]\nracks = 0", "line 2: [CLUSTER] racks: 0: want a whole number from 1 to 1000000"},
		{"[CLUSTER]\nracks=1000\nservers_per_rack=1001",
			"group 1: servers = 1001000: want a whole number from 1 to 1000000"},
		{"[CLUSTER]\nracks=1\nRacks=1", "line 2: [CLUSTER] racks: is there more than once: remove the others"},
		{"[CLUSTER]\ndram_per_server=512000",
			"line 2: [CLUSTER] dram_per_server: 512000: want a number from 1 to 32768 GB, not MiB"},
		{"[CLUSTER]\ndram_per_server=\x1b[2J",
			`line 2: [CLUSTER] dram_per_server: "\x1b[2J": want a number from 1 to 32768 GB, not MiB`},
		{"[CLUSTER]\n\x1bgpus 8",
			`line 2: "\x1bgpus 8": want a section in brackets, or a key and a value, as gpus_per_server = 8`},
		{"[CLUSTER", "unclosed section: [CLUSTER: want sections in brackets and lines like gpus_per_server = 8"},
	} {
		if got, err := cluster.ReadINI([]byte(c.text)); err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, %v\nwant %s", c.text, got, err, c.want)
		}
	}
}

func TestTheExampleIsAClusterOfTwoKindsOfServers(t *testing.T) {
	c, err := cluster.Open(filepath.Join("..", "..", "etc", "examples", "cluster.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.String(), "a100=8x8:128:1000:2000:200+v100=16x8:24:500"; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
	if g := c.Groups[0]; g.Name != "dgx" || !slices.Equal(g.Features, []string{"nvlink", "ib"}) || c.Equal() {
		t.Errorf("read %+v", c)
	}
}

const group = "groups:\n- servers: 2\n  gpus: 8\n  cpus: 24\n  memory_gb: 62.5\n"

func TestAWrongYAMLIsAnErrorThatNamesLineKeyAndRemedy(t *testing.T) {
	const keys = "name, gpu_type, features, servers, gpus, cpus, memory_gb, storage_mb_s, network_gb_s"
	for text, want := range map[string]string{
		"":                             "is empty: want groups: and a list of them",
		"# nothing\n":                  "is empty: want groups: and a list of them",
		"- servers: 2":                 "line 1: want groups: and a list of them, and no other key",
		"servers: 2":                   "line 1: want groups: and a list of them, and no other key",
		group + "racks: 3":             "line 1: want groups: and a list of them, and no other key",
		"groups: 3":                    "line 1: groups: want a list, each group beginning with a dash",
		"groups: []":                   "no group of servers: want one at least",
		"groups:\n- 3":                 "line 2: want a group with keys, as servers: 16",
		"groups:\n- servers: 2\n":      "line 2: gpus is missing: want it in each group",
		group + "  memory: 3":          "line 6: memory: unknown key: want one of " + keys,
		group + "  gpus: 8":            "line 6: gpus: is there twice in this group: remove one",
		group + "  storage_mb_s: fast": "line 6: storage_mb_s = fast: want a number from 1 to 10000000 MB/s",
		group + "  storage_mb_s:":      `line 6: storage_mb_s = "": want a number from 1 to 10000000 MB/s`,
		group + "  storage_mb_s: [1]":  "line 6: storage_mb_s: want one value, not a list, keys or a reference",
		group +
			"  name: \"a\\eb\"": `line 6: name = "a\x1bb": want a letter, then letters, digits and . _ -, 40 at most`,
		group + "  features: ib": "line 6: features: want a list of words, as [nvlink, ib]",
		group +
			"  features: [ib, 4]": "line 6: features = 4: want a letter, then letters, digits and . _ -, 40 at most",
		group + "---\na: 1":                 "a second document begins: keep everything in one",
		strings.Replace(group, "2", "0", 1): "line 2: servers = 0: want a whole number from 1 to 1000000",
	} {
		if c, err := cluster.ReadYAML([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, %v\nwant %s", text, c, err, want)
		}
	}
	if _, err := cluster.ReadYAML([]byte("groups:\n\t- a")); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
		t.Errorf("a tab: %v", err)
	}
}

func TestAFileIsReadByItsExtensionOrElseByItsFirstLine(t *testing.T) {
	for name, text := range map[string]string{
		"c.ini": artifactINI, "c.cfg": "; ours\n" + artifactINI, "c": "\n" + artifactINI,
		"c.yaml": group, "c.yml": group, "c.conf": "# ours\n" + group,
	} {
		path := write(t, name, text)
		if c, err := cluster.Open(path); err != nil || c.GPUs() == 0 {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	wrong := write(t, "wrong.ini", group)
	if _, err := cluster.Open(wrong); err == nil || !strings.HasPrefix(err.Error(),
		"cluster "+wrong+": no section [CLUSTER]") {
		t.Errorf("YAML called ini: %v", err)
	}
	if _, err := cluster.Open(write(t, "empty", "")); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("empty: %v", err)
	}
}

func TestAFileThatIsNotThereIsAnErrorAndNoDefault(t *testing.T) {
	for _, name := range []string{"none.ini", "none.yaml"} {
		if c, err := cluster.Open(filepath.Join(t.TempDir(), name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	long := write(t, "long.yaml", strings.Repeat("#\n", 1<<18))
	if _, err := cluster.Open(long); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a long file: %v", err)
	}
}

func FuzzReadINI(f *testing.F) {
	for _, seed := range []string{artifactINI, "[CLUSTER]\nracks=`1`\n-=2", "a\\\n[", "\"\"\"="} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := cluster.ReadINI(text)
		if err == nil {
			believable(t, c)
			wordStays(t, c)
		}
		harmless(t, err)
	})
}

func FuzzReadYAML(f *testing.F) {
	for _, seed := range []string{group, "groups: &a [*a]", "{groups: [{servers: 1, features: [a, b]}]}",
		"---\n...\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := cluster.ReadYAML(text)
		if err == nil {
			believable(t, c)
			wordStays(t, c)
		}
		harmless(t, err)
	})
}

// harmless says that an error can be shown on a terminal.
func harmless(t *testing.T, err error) {
	t.Helper()
	if err != nil && strings.ContainsFunc(err.Error(), unicode.IsControl) {
		t.Fatalf("the error is %q", err)
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
