// Package corpus reads the comments in bridge/directive/testdata/comments.json. Everything that reads a job's comment
// is tested on them, so that no two of these differ: the daemon (package bridge), the gate (etc/job_submit.lua), and on
// the nodes the plugin (spank/words.c) and the prolog (tests/node).
package corpus

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Case is a comment and what is to be understood of it.
type Case struct {
	Comment string `json:"comment"`
	// Bytes is the length to which Read fills the comment up with a user's word behind it; 0: the comment stays as it
	// is.
	Bytes int `json:"bytes"`
	// Unmanaged says that the comment has no synergy-profile=, so that the job is Slurm's.
	Unmanaged bool `json:"unmanaged"`
	// Means is what its right directives mean, in the order of the contract: profile=a.json length=7200s
	Means string `json:"means"`
	// Wrong are the words that are refused, in their order.
	Wrong []string `json:"wrong"`
	// Whole is a part of the sentence with which daemon and gate refuse the comment as a whole.
	Whole string `json:"whole"`
	// Gate is a part of the sentence with which the gate alone refuses a word, since it is one of ours but for how it
	// is written. To all others it is a word of the user.
	Gate string `json:"gate"`
}

// Read returns the cases of the file at a path, with their comments made as long as Bytes says. Fewer than 200 cases
// fail the test, since the file is then cut off.
func Read(t testing.TB, path string) []Case {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var cases []Case
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for i := range cases {
		if c := &cases[i]; c.Bytes > 0 {
			c.Comment += " " + strings.Repeat("x", c.Bytes-len(c.Comment)-1)
		}
	}
	if len(cases) < 200 {
		t.Fatalf("%s has %d cases only", path, len(cases))
	}
	return cases
}

// Has says whether a directive of that name, or NAME=VALUE, is among those of the comment that are right.
func (c Case) Has(directive string) bool {
	for each := range strings.FieldsSeq(c.Means) {
		if each == directive || strings.HasPrefix(each, directive+"=") {
			return true
		}
	}
	return false
}

// refusal is a part of the sentence with which the gate must refuse a submission with this comment; empty: it must
// accept it. The gate also refuses some comments that the daemon takes, such as a report in a job that does not run
// yet.
func (c Case) refusal() string {
	switch {
	case c.Gate != "":
		return c.Gate
	case c.Whole != "":
		return c.Whole
	case len(c.Wrong) > 0:
		return "the word " + c.Wrong[0][:min(60, len(c.Wrong[0]))]
	case c.Means != "" && c.Unmanaged:
		return "no synergy-profile=NAME.json"
	case strings.Contains(c.Means, " progress="):
		return "synergy-progress has a value only while the job runs"
	case c.Has("curve"):
		return "synergy-curve is said by a job that runs"
	}
	return ""
}

// Submissions is a program in Lua that submits a job with each comment to the gate; it runs behind
// testdata/slurmctld.lua, which stands for slurmctld.
func Submissions(cases []Case) string {
	var program strings.Builder
	for _, c := range cases {
		program.WriteString(`submit { comment = "`)
		for _, b := range []byte(c.Comment) {
			fmt.Fprintf(&program, `\%03d`, b)
		}
		program.WriteString("\" }\n")
	}
	return program.String()
}

// CheckGate fails the test where the gate, in what the program of Submissions printed, accepts, refuses or manages a
// comment otherwise than its case says: gate and daemon must understand comments alike.
func CheckGate(t testing.TB, cases []Case, printed string) {
	t.Helper()
	answered, said := 0, ""
	for line := range strings.Lines(printed) {
		said += line
		taken := strings.HasPrefix(line, "0 ")
		if !taken && !strings.HasPrefix(line, "2036 ") {
			continue
		}
		if answered == len(cases) {
			t.Fatalf("more answers than the %d comments: %s", len(cases), line)
		}
		c := cases[answered]
		managed := line == "0 nil\n" == c.Unmanaged
		if want := c.refusal(); taken != (want == "") || taken && !managed || !strings.Contains(said, want) {
			t.Errorf("%.200q: the gate says %q, want %q", c.Comment, said, want)
		}
		answered, said = answered+1, ""
	}
	if answered != len(cases) {
		t.Fatalf("%d answers about %d comments: %s", answered, len(cases), said)
	}
}
