package gres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

func TestNodeListsExpandInOrder(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"(null)":                 "",
		"None assigned":          "",
		"n1":                     "n1",
		"n[1-3,07],login":        "n1 n2 n3 n07 login",
		"n[08-11]":               "n08 n09 n10 n11",
		"n[001-002]-ib":          "n001-ib n002-ib",
		"n[5]":                   "n5",
		"[1-2]":                  "1 2",
		"n2,n1,n2":               "n2 n1 n2",
		"gpu-a.example.org":      "gpu-a.example.org",
		"rack[0-1]n[1-2],x":      "rack0n1 rack0n2 rack1n1 rack1n2 x",
		"a[1,3]b[2-3]c[04,05]-d": "a1b2c04-d a1b2c05-d a1b3c04-d a1b3c05-d a3b2c04-d a3b2c05-d a3b3c04-d a3b3c05-d",
	} {
		got, err := gres.ParseHosts(text)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestWhatIsNoNodeListIsRefusedByItsPart(t *testing.T) {
	for text, part := range map[string]string{
		",":                     `"" cannot be in a node name`,
		"n1,":                   `"" cannot be in a node name`,
		"n 1":                   `"n 1" cannot be in a node name`,
		"n1]":                   `"n1]" cannot be in a node name`,
		"n1],n2":                `cannot be in a node name`,
		"n[1":                   "want each bracket closed",
		"n[1]x]":                `"x]" cannot be in a node name`,
		"n[]":                   `number ""`,
		"n[1,]":                 `number ""`,
		"n[a-b]":                `number "a"`,
		"n[1-]":                 `number ""`,
		"n[-1]":                 `number ""`,
		"n[+1]":                 `number "+1"`,
		"n[3-1]":                `range "3-1": want low-high`,
		"n[1-2-3]":              `number "2-3"`,
		"n[0-65536]":            "more than 65536 nodes",
		"n[0-65535],m":          "more than 65536 nodes",
		"n[0-65535,70000]":      "more than 65536 nodes",
		"a[0-999]b[0-999]":      "more than 65536 nodes",
		"n[1-99999999999]":      `number "99999999999"`,
		"../[1-2]":              `"../" cannot start a node name`,
		"a[1][1][1][1][1]":      "more than 4 brackets",
		"n[" + zeros(19) + "1]": "at most 18 digits",
	} {
		got, err := gres.ParseHosts(text)
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, error %v; want an error with %q", text, got, err, part)
		}
	}
}

func TestTheLargestNodeListIsRead(t *testing.T) {
	if got, err := gres.ParseHosts("n[0-65535]"); err != nil || len(got) != 65536 {
		t.Errorf("%d nodes, %v", len(got), err)
	}
	if got, err := gres.ParseHosts("r[0-255]n[0-255]"); err != nil || len(got) != 65536 {
		t.Errorf("%d nodes, %v", len(got), err)
	}
}

func TestABracketStandsForTheSameNodesAsTheListOfThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.StringMatching(`[a-z][a-z-]{0,5}`).Draw(t, "prefix")
		suffix := rapid.StringMatching(`(-[a-z]{1,3})?`).Draw(t, "suffix")
		first := rapid.IntRange(0, 1200).Draw(t, "first")
		last := rapid.IntRange(first, first+50).Draw(t, "last")
		width := rapid.IntRange(1, 6).Draw(t, "width")
		var want []string
		for n := first; n <= last; n++ {
			want = append(want, fmt.Sprintf("%s%0*d%s", prefix, max(width, len(fmt.Sprint(first))), n, suffix))
		}
		text := fmt.Sprintf("%s[%0*d-%0*d]%s", prefix, width, first, width, last, suffix)
		if got, err := gres.ParseHosts(text); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q is %v, %v; want %v", text, got, err, want)
		}
		if got, err := gres.ParseHosts(strings.Join(want, ",")); err != nil || !slices.Equal(got, want) {
			t.Fatalf("the list of %q is %v, %v", text, got, err)
		}
	})
}

func FuzzParseHosts(f *testing.F) {
	for _, seed := range []string{"n[1-3,07],login", "rack[0-1]n[1-2]", "n[0-300]", "[1]", "a[1][2]", "n1,n2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hosts, err := gres.ParseHosts(text)
		if err != nil || len(hosts) == 0 {
			return
		}
		if len(hosts) > 1<<16 {
			t.Fatalf("%q stands for %d nodes", text, len(hosts))
		}
		again, err := gres.ParseHosts(strings.Join(hosts, ","))
		if err != nil || !slices.Equal(again, hosts) {
			t.Fatalf("%q expands to names that do not read back: %v", text, err)
		}
	})
}

func zeros(n int) string { return strings.Repeat("0", n) }
