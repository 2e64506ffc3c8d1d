package tests

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestTheWorkedRoundOfTheArchitectureIsWhatPlanPrints runs the command that ARCHITECTURE.md shows.
func TestTheWorkedRoundOfTheArchitectureIsWhatPlanPrints(t *testing.T) {
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "    synergy plan docs/worked-round.json\n") {
		t.Error("ARCHITECTURE.md does not show the command")
	}
	said, err := exec.Command("go", "run", "../cmd/synergy", "plan", "../docs/worked-round.json").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(said)) {
		if strings.TrimSpace(line) != "" && !strings.Contains(string(text), "    "+line) {
			t.Errorf("synergy plan prints %q, and ARCHITECTURE.md does not", line)
		}
	}
}

// TestThePageOnThePlannerNamesWhatThereIs: every name and every file of docs/planner.md is in the sources.
func TestThePageOnThePlannerNamesWhatThereIs(t *testing.T) {
	page, err := os.ReadFile("../docs/planner.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, folder := range []string{"policy", "policy/bound", "policy/columns", "gres", "sensitivity", "bridge"} {
		entries, err := os.ReadDir("../" + folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if text, err := os.ReadFile("../" + folder + "/" + entry.Name()); strings.HasSuffix(entry.Name(), ".go") &&
				err == nil {
				sources.Write(text)
			}
		}
	}
	names, files := 0, 0
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(string(page), -1) {
		name := m[1]
		switch {
		case strings.ContainsAny(name, " "), name == "code":
		case strings.Contains(name, "/"):
			files++
			if _, err := os.Stat("../" + name); err != nil {
				t.Errorf("docs/planner.md names %s: %v", name, err)
			}
		case strings.HasSuffix(name, ".go"):
			files++
		default:
			names++
			last := name[strings.LastIndex(name, ".")+1:]
			if !regexp.MustCompile(`\b` + regexp.QuoteMeta(last) + `\b`).MatchString(sources.String()) {
				t.Errorf("docs/planner.md names %s, which is in no source", name)
			}
		}
	}
	if names < 20 || files < 8 {
		t.Errorf("%d names and %d files were looked at: the page was not understood", names, files)
	}
}
