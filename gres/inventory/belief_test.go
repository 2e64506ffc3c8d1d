package inventory_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
)

func file(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestWhatScontrolSaysOfANodeIsRead(t *testing.T) {
	b, err := inventory.ParseBelief(file(t, "scontrol-node.json"), "n1") // Slurm 24.11.5
	if err != nil || fmt.Sprint(b) != "{n1 [{ 8 }] 32 [IDLE] }" {
		t.Errorf("%v, %v", b, err)
	}
	if b := believed(t, inventory.Node{Name: "n1"},
		"gpu:a100:4(S:0-1),gpu:g4:1(S:1),shard:g4:4,license:2"); fmt.Sprint(b.GPUs) != "[{a100 4 0-1} {g4 1 1}]" ||
		b.Shards != 4 {
		t.Errorf("%v", b)
	}
}

func TestAnAnswerThatSaysNothingOfTheNodeIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		string(file(t, "scontrol-no-node.json")): "has no node n1: --node says what Slurm calls it",
		"":                                       "unexpected end of JSON",
		"slurm_load_node error: Unable to contact slurm":           "invalid character",
		`{"nodes":[{"name":"n2","gres":"gpu:8"}]}`:                 "has no node n1",
		`{"errors":[{"error":"down\u001b","description":"very"}]}`: "down very",
		`{"nodes":[{"name":"n1","gres":"gpu:x:y:z:8"}]}`:           "want name[:type][:count]",
		`{"nodes":[{"name":"n1","gres":"gpu:8(S:1-0)"}]}`:          `sockets: list "1-0"`,
		`{"nodes":[{"name":"n1","gres":8}]}`:                       "cannot unmarshal",
	} {
		if b, err := inventory.ParseBelief([]byte(text), "n1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, %v; want an error with %q", text, b, err, want)
		}
	}
}

func TestWhatSlurmdSaysOfGresConfIsRead(t *testing.T) {
	records, err := inventory.ParseRecords(file(t, "slurmd-G.txt")) // Slurm 24.11.5
	want := "[{gpu a100 1 [/dev/nvidia0] 0-11} {gpu a100 1 [/dev/nvidia1] 12-14,16-23} {shard g2 4 [/dev/nvidia2] } " +
		"{gpu g2 1 [/dev/nvidia2] } {gpu  1 [/dev/fakegpu3] }]"
	if err != nil || fmt.Sprint(records) != want {
		t.Errorf("%v, %v", records, err)
	}
	for text, want := range map[string]string{
		"slurmd: Gres Name=gpu Count=x File=/dev/nvidia0": `Count=x: want a number`,
		"Gres Name= Count=1":                              "want a Name=",
		"Gres Name=gpu Count=1 Cores=3-1":                 `Cores=: list "3-1"`,
	} {
		if _, err := inventory.ParseRecords([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}

func FuzzParseBelief(f *testing.F) {
	f.Add(file(f, "scontrol-node.json"))
	f.Add(file(f, "scontrol-no-node.json"))
	for _, seed := range []string{"gpu:a100:8(S:0-1)", "gpu:8,shard:32", "gpu:g0:1,gpu:g1:1", "gpu:a100:1T", "",
		"(null)"} {
		f.Add(fmt.Appendf(nil, `{"nodes":[{"name":"n1","gres":%q}]}`, seed))
	}
	nodes := []inventory.Node{recorded(f, "dgx-a100"), recorded(f, "dgx-a100-mig"), {Name: "n1"}}
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := inventory.ParseBelief(text, "n1")
		if err != nil {
			return
		}
		for _, n := range nodes {
			known := 0
			for _, term := range b.GPUs {
				known += term.Count
			}
			units := len(n.GPUs)
			if n.GPUs != nil && n.GPUs[1].Cut() {
				units++ // one is cut in two
			}
			if all := inventory.Compare(n, inventory.Layout{}, b); known != units && len(all) == 0 {
				t.Fatalf("%v of %d: nothing is wrong", b, units)
			} else {
				wantLines(t, all)
			}
		}
	})
}

func FuzzParseRecords(f *testing.F) {
	f.Add(file(f, "slurmd-G.txt"))
	f.Add([]byte("Gres Name=gpu Count=1 File=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21"))
	n := recorded(f, "dgx-a100-mig")
	f.Fuzz(func(t *testing.T, text []byte) {
		records, err := inventory.ParseRecords(text)
		if err != nil {
			return
		}
		wantLines(t, inventory.CompareRecords(n, records))
	})
}

// wantLines wants each difference to be one line that a terminal can show.
func wantLines(t *testing.T, all []inventory.Difference) {
	t.Helper()
	for _, d := range all {
		for _, r := range d.String() {
			if r < ' ' || r == 0x7f {
				t.Fatalf("%q is no line", d)
			}
		}
	}
}

func TestAnInventoryOfSomebodyElsesIsNotBelieved(t *testing.T) {
	good := string(file(t, "dgx-a100.json"))
	for change, want := range map[[2]string]string{
		{`"version": 1`, `"version": 2`}:     "version = 2: want 1",
		{`"node": "n1"`, `"node": "n[1-2]"`}: `node = "n[1-2]": want the name of one node`,
		{`"node": "n1"`, `"node": "--json"`}: `node = "--json"`,
		{`"type": "a100"`,
			`"type": "a100 File=/etc/shadow"`}: `gpus[0]: type = "a100 File=/etc/shadow": want a word`,
		{`"type": "a100"`, `"type": "8"`}:                 `gpus[0]: type = "8": want a word`,
		{`"type": "a100"`, `"type": "a100\nNodeName=n2"`}: "gpus[0]: type",
		{`"minor": 0`, `"minor": -1`}:                     "gpus[0]: minor = -1: want 0 to",
		{`"minor": 1`, `"minor": 0`}:                      "gpus[1]: minor = 0 stands there twice",
		{`"memory_mib": 40960`, `"memory_mib": -1`}:       "gpus[0]: memory_mib = -1",
		{`"pci": "0000:07:00.0"`,
			`"pci": "../../etc"`}: `gpus[0]: pci = "../../etc": want an address as 0000:07:00.0`,
		{`"uuid": "GPU-0`,
			`"uuid": "\u001b]0;GPU-0`}: "gpus[0]: name, uuid, compute_mode: want printable text",
		{`"mode": "off"`,
			`"mode": "perhaps"`}: `gpus[0]: mig: "perhaps": want off, on or unsupported`,
		{`"mode": "off"`, `"mode": "on","parts":[{"profile":"x y"}]`}:    `gpus[0]: mig: part "x y"`,
		{`"cores": "48-63"`, `"cores": "48-"`}:                           `list "48-": part "48-"`,
		{`"driver": "550.54.15"`, `"driver": "\n"`}:                      "driver, nvml: want printable text",
		{`"version": 1`, `"version": 1, "unreadable":[{"reason":"\n"}]`}: "unreadable[0]: reason",
		{good, "[]"}: "cannot unmarshal",
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if _, err := inventory.Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v; want an error with %q", change[1], err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"dgx-a100.json", "dgx-b200.json", "dgx-a100-mig.json"} {
		f.Add(file(f, name))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := inventory.Decode(text)
		if err != nil {
			return
		}
		encoded, err := n.Encode()
		if err != nil {
			return // the year of a time that no JSON has
		}
		if _, err := inventory.Decode(encoded); err != nil {
			t.Fatalf("what was written is not read: %v\n%s", err, encoded)
		}
		for _, layout := range []inventory.Layout{{}, {Shards: 2}, {Cores: true}} {
			lines, err := n.Lines(layout)
			if err != nil {
				continue
			}
			for _, line := range append(append(lines.GresConf, lines.Gres), lines.Notes...) {
				if strings.ContainsAny(line, "\n\r\x1b") {
					t.Fatalf("%q is more than one line", line)
				}
			}
			if len(n.GPUs) > 0 {
				wantLines(t, inventory.Compare(n, layout, inventory.Belief{Node: n.Name}))
			}
		}
	})
}
