package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// said is what a command line prints, its words one space apart.
func said(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(args, &stdout, &stderr); code != exitGood {
		t.Fatalf("%q: exit status %d\n%s", args, code, &stderr)
	}
	return strings.Join(strings.Fields(stdout.String()), " ")
}

// The figures of docs/sharing.md are of no machine, so they are the same on each.
func TestThePageOnSharingHasWhatIsPrinted(t *testing.T) {
	text, err := os.ReadFile("../../docs/sharing.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(text)), " ")
	prediction := said(t, "share", "predict", "busy=0.35,mem=8,step=20", "busy=1,mem=20,step=35")
	if !strings.Contains(page, prediction) {
		t.Errorf("the page does not have\n%s", prediction)
	}
	printed := said(t, "share", "run", "-f", "../../docs/sharing-pair.json", "--duration", "20m", "--no-files",
		"--preset", "none,deft,turns,lookahead,fill")
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 6 || !strings.HasPrefix(cells[5], "ours, **emulated**") || cells[0] == "alone" {
			continue
		}
		rows++
		for k, unit := range []string{" ms ", " ", " ms ", " "} {
			want := " " + cells[k+1] + unit
			if !strings.Contains(printed, want) {
				t.Errorf("%s: nothing printed has %q:\n%s", cells[0], want, printed)
			}
		}
	}
	if rows != 5 {
		t.Errorf("%d rows of ours, want 5", rows)
	}
}
