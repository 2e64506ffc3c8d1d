// Package tests holds what spans packages. This file reads the sources, so that a rule that is broken is seen whatever
// the build cache remembers.
package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/synergy-slurmd/synergy-slurmd/"

// inward says what each package of the spine may import of this module. Adapters and commands are not listed: they may
// import the spine and what is below them, and nothing on the spine imports them.
var inward = map[string][]string{
	"printable":            {},
	"spelling":             {},
	"gres":                 {},
	"gres/inventory":       {"gres"},
	"gres/nvml":            {"gres", "gres/inventory"},
	"sensitivity":          {"gres"},
	"sensitivity/library":  {"sensitivity"},
	"sensitivity/profiler": {"gres", "sensitivity"},
	"sensitivity/learned":  {"gres", "sensitivity", "sensitivity/profiler"},
	"policy/columns":       {"gres"},
	"share":                {"gres"},
	"share/turns":          {"share"},
	"share/broker":         {"share", "share/node", "share/turns", "share/wire"},
	"share/wire":           {},
	"share/predict":        {"gres", "share"},
	"share/client":         {"gres", "share/wire"},
	"share/mps":            {"share/node", "share/predict"},
	"share/node":           {"gres", "share"},
	"policy":               {"gres", "sensitivity", "share", "share/predict", "policy/columns"},
	"policy/bound":         {"gres", "sensitivity", "policy", "policy/columns"},
	"policy/snapshot":      {"gres", "sensitivity", "share", "policy"},
	"policy/forecast":      {"gres", "policy"},
	"policy/replay":        {"sensitivity", "policy", "policy/snapshot"},
	"policy/whatif":        {"gres", "sensitivity", "share", "policy", "policy/bound", "policy/forecast"},
	"limits":               {"gres", "policy"},
	"guest":                {},
	"billing":              {"gres"},
	"preflight":            {"billing", "spelling"},
	"policy/plugin":        {"gres", "sensitivity", "policy", "guest"},
	"savings":              {"gres"},
	"savings/book":         {"savings"},
	"bridge": {"gres", "sensitivity", "sensitivity/learned", "policy", "policy/bound", "policy/snapshot",
		"policy/forecast", "limits", "savings", "share", "spelling"},
	"bridge/slurm":     {"gres"},
	"bridge/directive": {"sensitivity/learned", "share"},
	"bridge/leader":    {"bridge", "bridge/slurm"},
	"ledger":           {"bridge"},
	"bridge/slurmrest": {"gres", "limits", "bridge", "bridge/directive", "bridge/leader", "bridge/slurm",
		"bridge/slurmrest/internal"},
	"bridge/slurmtest":   {"gres", "bridge", "bridge/directive", "bridge/leader", "bridge/slurm"},
	"bridge/plugin":      {"gres", "bridge", "bridge/leader", "bridge/slurm", "guest"},
	"bridge/conformance": {"gres", "bridge", "bridge/directive", "bridge/leader", "bridge/slurm"},
	"emulate":            {"gres", "sensitivity"},
	"profiling":          {"sensitivity/profiler"},
	"profiling/local":    {"gres", "profiling", "sensitivity/profiler"},
	"launcher":           {"gres"},
	"profiling/slurm":    {"gres"},
	"profiling/inside":   {"profiling", "sensitivity/profiler"},
	"etc/profiles":       {},
	"sim/trace":          {},
	"sim/models":         {},
	"sim/document":       {},
	"sim/cluster":        {"gres", "sim/document"},
	"sim/outcome":        {},
	"sim/workload":       {"sim/models", "sim/trace"},
	"sim/artifact":       {"sim/trace", "sim/models", "sim/cluster", "sim/outcome"},
	"story":              {"gres", "policy", "policy/forecast", "bridge"},
	"rollout":            {"bridge", "preflight"},
	"history":            {"bridge", "story", "policy/replay", "policy/snapshot", "ledger/pages"},
	"page": {"gres", "policy", "policy/bound", "bridge", "story", "sensitivity", "sensitivity/learned",
		"sensitivity/profiler"},
	"sim/users":    {"gres", "sensitivity", "sim/trace", "sim/cluster"},
	"sim/backfill": {"gres", "sensitivity", "sim/trace", "sim/cluster", "sim/outcome", "sim/users"},
	"sim/production": {"gres", "sensitivity", "share", "share/predict", "policy", "bridge", "bridge/slurm",
		"bridge/slurmtest", "sim/trace", "sim/cluster", "sim/outcome", "sim/users"},
	"sim/report":        {"sim/outcome"},
	"sim/report/figure": {},
	"sim":               {"gres", "sensitivity", "share", "policy"}, // and all that is below it

	"contrib/deft/experiment": {"share", "share/predict", "contrib/deft/testbed"},
	"contrib/deft/testbed":    {"share", "share/turns"},
}

// everywhere are packages that know nothing of this module, and that each may import.
var everywhere = []string{"printable"}

// doors says which package may import each third-party module. Commands may all read flags.
var doors = map[string][]string{
	// a file of its own each: what damage does to one is ledger/pages' business alone
	"go.etcd.io/bbolt":                    {"ledger", "history"},
	"github.com/klauspost/compress":       {"history"},
	"github.com/NVIDIA/go-nvml":           {"gres/nvml"},
	"github.com/oapi-codegen/runtime":     {"bridge/slurmrest"},
	"golang.org/x/time":                   {"bridge/slurmrest"},
	"github.com/rs/zerolog":               {"cmd/synergy-slurmd"},
	"github.com/prometheus/client_golang": {"cmd/synergy-slurmd"},
	"github.com/prometheus/client_model":  {"cmd/synergy-slurmd"},
	"github.com/coreos/go-systemd/v22":    {"cmd/synergy-slurmd", "cmd/synergy-broker"},
	"go.yaml.in/yaml/v4":                  {"cmd/synergy-slurmd", "sim/document"},
	"gopkg.in/ini.v1":                     {"sim/cluster"},
	"gonum.org/v1/plot":                   {"sim/report/figure"},
	"golang.org/x/term":                   {"cmd/synergy-slurmd", "cmd/synergy", "internal/cli/ask"},
	"github.com/spf13/pflag":              {"cmd"},
	// in the daemon for its man pages and completions alone
	"github.com/spf13/cobra": {"cmd/synergy", "cmd/synergy-slurmd", "cmd/synergy-broker",
		"cmd/internal/cli", "contrib/deft"},
	"github.com/schollz/progressbar/v3": {"cmd/synergy"},
	"golang.org/x/sys": {"ledger", "sensitivity/library", "guest", "profiling/local",
		"profiling/inside", "launcher", "share/broker"},
	"github.com/hashicorp/go-plugin": {"guest"},
	"github.com/hashicorp/go-hclog":  {"guest"},
	"google.golang.org/grpc":         {"guest", "policy/plugin", "bridge/plugin"}, // and code that is generated
	"google.golang.org/protobuf":     {"policy/plugin", "bridge/plugin"},
}

// source is one Go file that is built into the product.
type source struct {
	file, pkg string
	imports   []string
}

func TestImportsPointInward(t *testing.T) {
	for _, s := range sources(t) {
		allowed, onSpine := inward[rule(s.pkg, inward)]
		for _, path := range s.imports {
			own, ours := strings.CutPrefix(path, module)
			if !ours || !onSpine || within(own, rule(s.pkg, inward)) || slices.Contains(everywhere, own) {
				continue
			}
			allows := func(a string) bool { return a == own || a == "bridge/slurmrest/internal" && within(own, a) }
			if !slices.ContainsFunc(allowed, allows) {
				t.Errorf("%s: %s imports %s, may import %v", s.file, s.pkg, own, allowed)
			}
		}
	}
}

func TestEachThirdPartyModuleHasOneDoor(t *testing.T) {
	for _, s := range sources(t) {
		for _, path := range s.imports {
			if strings.HasPrefix(path, module) || !strings.Contains(strings.Split(path, "/")[0], ".") {
				continue
			}
			places, known := doors[moduleOf(path)]
			if !known {
				t.Errorf("%s: imports %s, which has no door: decide on one package and name it here", s.file, path)
				continue
			}
			if !slices.ContainsFunc(places, func(place string) bool { return within(s.pkg, place) }) {
				t.Errorf("%s: imports %s, whose door is %v", s.file, path, places)
			}
		}
	}
}

// TestNoInstalledProgramHasDeftsExperiments: they are for researchers, and in no package.
func TestNoInstalledProgramHasDeftsExperiments(t *testing.T) {
	for _, s := range sources(t) {
		for _, path := range s.imports {
			if within(path, module+"contrib/deft") && !within(s.pkg, "contrib/deft") && !within(s.pkg, "tests") {
				t.Errorf("%s imports %s", s.file, path)
			}
		}
	}
}

// pure packages have no clock, no chance, no and no files.
var pure = []string{
	"printable",
	"spelling",
	"gres",
	"gres/inventory",
	"sensitivity",
	"sensitivity/profiler",
	"sensitivity/profiler/replay",
	"sensitivity/learned",
	"policy",
	"policy/bound",
	"policy/columns",
	"policy/snapshot",
	"policy/forecast",
	"policy/replay",
	"policy/whatif",
	"limits",
	"billing",
	"preflight",
	"page",
	"story",
	"savings",
	"rollout",
	"bridge/directive",
}

// TestThePlannerDecidesFromItsArguments keeps clocks, randomness and files out of the pure packages.
func TestThePlannerDecidesFromItsArguments(t *testing.T) {
	for _, s := range sources(t) {
		if !slices.Contains(pure, s.pkg) {
			continue
		}
		for _, path := range s.imports {
			switch path {
			case "os", "io/fs", "net", "net/http", "math/rand", "math/rand/v2", "log", "context", "sync":
				t.Errorf("%s: a pure package imports %s", s.file, path)
			}
		}
	}
}

// TestWhatIsTestedWithoutTheRaceDetectorStartsNoGoroutine: nothing in it, its tests included, can race.
func TestWhatIsTestedWithoutTheRaceDetectorStartsNoGoroutine(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^SEQUENTIAL := ((?:.*\\\n)*.*)$`).FindSubmatch(makefile)
	if list == nil {
		t.Fatal("the Makefile has no SEQUENTIAL")
	}
	packages := strings.Fields(strings.ReplaceAll(string(list[1]), "\\\n", " "))
	if len(packages) < 10 {
		t.Fatalf("SEQUENTIAL is %q: it was not understood", packages)
	}
	for _, pkg := range packages {
		files, err := filepath.Glob("../" + pkg + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pkg, len(files), err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if _, is := n.(*ast.GoStmt); is {
					t.Errorf("%s starts a goroutine", file)
				}
				if call, is := n.(*ast.SelectorExpr); is && call.Sel.Name == "Parallel" {
					t.Errorf("%s runs tests in parallel", file)
				}
				return true
			})
		}
	}
}

func moduleOf(path string) string {
	for m := range doors {
		if within(path, m) {
			return m
		}
	}
	return path
}

// rule is the longest key that covers the package.
func rule(pkg string, rules map[string][]string) string {
	longest := ""
	for key := range rules {
		if within(pkg, key) && len(key) > len(longest) {
			longest = key
		}
	}
	return longest
}

func within(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// sources reads the imports of every file that is not a test.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != ".." || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		s, err := read(path)
		all = append(all, s)
		return err
	})
	if err != nil || len(all) < 50 {
		t.Fatalf("read the sources: %v, %d files", err, len(all))
	}
	return all
}

func read(path string) (source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return source{}, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
	if err != nil {
		return source{}, err
	}
	pkg, err := filepath.Rel("..", filepath.Dir(path))
	s := source{file: path, pkg: filepath.ToSlash(pkg)}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		s.imports = append(s.imports, imported)
	}
	return s, err
}
