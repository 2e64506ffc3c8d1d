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

// The prediction of docs/sharing.md is of no machine, so it is the same on each.
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
}
