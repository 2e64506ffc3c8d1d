package slurmctld

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// generatedFrom is the document that generate.go names.
const generatedFrom = "../v0045/openapi-v0.0.45.json"

// allowed are the differences between a version's document and that one: parts of their names. The package of the
// version makes up for each.
var allowed = map[string][]string{
	"../v0042/openapi-v0.0.42.json": {
		"/controller_ping/properties/pinged", "/controller_ping/required/pinged",
		"/jobs/requeue", "/jobs_requeue_", "/job_array_response_msg_entry/",
	},
	generatedFrom: nil,
}

// A field that a version declares with another type, or not at all, would be read wrong, or as zero for ever.
func TestEveryVersionDeclaresWhatTheTypesAreGeneratedFrom(t *testing.T) {
	files, err := filepath.Glob("../v*/openapi-*.json")
	if err != nil || len(files) != len(allowed) {
		t.Fatalf("documents of versions: %q, %v; allowed has %d", files, err, len(allowed))
	}
	want := declared(t, generatedFrom)
	for _, file := range files {
		used := map[string]bool{}
		got := declared(t, file)
		for name := range maps.Keys(union(want, got)) {
			part := slices.IndexFunc(allowed[file], func(part string) bool { return strings.Contains(name, part) })
			switch {
			case got[name] == want[name]:
			case part >= 0:
				used[allowed[file][part]] = true
			default:
				t.Errorf("%s: %s is %q, the types have %q", file, name, got[name], want[name])
			}
		}
		if len(used) != len(allowed[file]) {
			t.Errorf("%s: of the allowed differences %q only %v exist", file, allowed[file], used)
		}
	}
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// declared are the schemas and operations of a document, a line for each value in them, without what people read.
func declared(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var document struct{ Components, Paths any }
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	flatten(lines, "schemas", document.Components)
	flatten(lines, "paths", document.Paths)
	if len(lines) < 100 {
		t.Fatalf("%s declares %d values only", file, len(lines))
	}
	return lines
}

func flatten(lines map[string]string, name string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, each := range value {
			if _, words := each.(string); words && (key == "description" || key == "summary") {
				continue
			}
			flatten(lines, name+"/"+key, each)
		}
	case []any:
		for i, each := range value {
			if word, is := each.(string); is { // of a set: required fields
				lines[name+"/"+word] = "yes"
			} else {
				flatten(lines, fmt.Sprintf("%s/%d", name, i), each)
			}
		}
	default:
		lines[name] = fmt.Sprint(value)
	}
}
