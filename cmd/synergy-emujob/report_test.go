package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAReportIsOneArgumentWhateverItsWords: scontrol is given what a shell would take apart.
func TestAReportIsOneArgumentWhateverItsWords(t *testing.T) {
	dir := t.TempDir()
	fake := "#!/bin/sh\nprintf '%s\\n' \"$@\" > " + dir + "/said\n"
	if err := os.WriteFile(filepath.Join(dir, "scontrol"), []byte(fake), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	r := reporter{job: "17", words: "synergy-profile=a.json $(reboot); `id`"}
	if err := r.report(42); err != nil {
		t.Fatal(err)
	}
	said, err := os.ReadFile(dir + "/said")
	if want := "update\njobid=17\ncomment=synergy-profile=a.json $(reboot); `id` synergy-progress=42@"; err != nil ||
		!strings.HasPrefix(string(said), want) {
		t.Errorf("%v: %q, want %q", err, said, want)
	}
	if got := r.arguments(5, time.Unix(1767268800, 0))[2]; !strings.HasSuffix(got, " synergy-progress=5@1767268800") {
		t.Errorf("says %q", got)
	}
	for _, job := range []string{"", "-1x", "17;18"} {
		if err := (reporter{job: job, words: "x"}).report(1); err == nil {
			t.Errorf("job %q is reported for", job)
		}
	}
}
