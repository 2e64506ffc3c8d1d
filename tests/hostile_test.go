package tests

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/library"
)

// This file holds what an attacker may try with a file, and what no source may do. Elsewhere stand the attacks on
//
//	names of profiles, links, devices      sensitivity/library, TestANameThatIsNoPlainFileNameIsRefused, TestOnlyRegularFilesInsideTheDirectoryAreRead
//	figures of profiles                    sensitivity, TestAWrongProfileIsRefusedWithFieldValueAndRemedy
//	turns of a GPU, who has them           share/broker, TestOnlyTheUserOfAJobIsItsClient and those around it
//	comments, and what is said about them  bridge, TestABadWordIsRefusedByNameWithARemedy, TestWhatIsWrongWithACommentFitsALogLine
//	annotations                                 bridge, TestAnAnnotationIsBelievedOnlyAsFarAsItIsHarmless
//	profiles that lie                      policy, TestALiarTakesNothingThatOthersAreOwed; bridge, audit_test.go
//	logs, hooks, pages, metrics            cmd/synergy-slurmd, TestNoTextOfAUserBreaksALineOfTheLog and those around it
//	the token                              bridge/slurmrest, TestAnAnswerThatRepeatsTheTokenIsNotShown
//	the page of the simulator              sim/report
//	all that goes through Slurm            tests/live/hostile_test.go

const profileLike = `{"version":1,"model":"m","task":"t","gpu_type":"g","batch":1,"cores_per_gpu":[1],"memory_per_gpu_mib":[1],` +
	`"throughput_samples_per_s":[[1]],"checkpoint_s":0,"start_s":0}`

// bombs are files that are small, or legal, and cost a careless reader everything. Each row says with which sentence it
// is refused.
func bombs() map[string]struct{ text, refusal string } {
	with := func(old, new string) string { return strings.Replace(profileLike, old, new, 1) }
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"k%d":0,`, i)
		}
		return b.String()
	}
	nested := func(open, end string, n int) string { return strings.Repeat(open, n) + strings.Repeat(end, n) }
	return map[string]struct{ text, refusal string }{
		"deep lists":              {with("[[1]]", nested("[", "]", 500_000)), "reading throughput_samples_per_s"},
		"deep lists that parse":   {with("[[1]]", nested("[", "]", 9_000)), "want a number"},
		"deep objects":            {with("[[1]]", nested(`{"a":`, "1}", 140_000)), "reading throughput_samples_per_s"},
		"deep from the start":     {nested("[", "]", 500_000), "does not start as a JSON object"},
		"a hundred thousand keys": {"{" + keys(90_000) + profileLike[1:], "field k0 is unknown"},
		"a key of a megabyte":     {`{"` + strings.Repeat("k", 1_000_000) + `":1}`, "is unknown"},
		"the same key for ever": {"{" + strings.Repeat(`"version":1,`, 80_000) + profileLike[1:],
			"version is there twice"},
		"a number of a megabyte":   {with("[[1]]", "[["+strings.Repeat("9", 1_000_000)+"]]"), "want a number"},
		"a tiny one of a megabyte": {with(`"batch":1`, `"batch":0.`+strings.Repeat("0", 1_000_000)+"1"), "batch ="},
		"a huge exponent":          {with("[[1]]", "[[1e999999999]]"), "want a number"},
		"half a million rows": {with("[[1]]", "["+strings.Repeat("[],", 300_000)+"[1]]"),
			"entries: want 1 to 256"},
		"half a million columns": {with("[[1]]", "[["+strings.Repeat("1,", 500_000)+"1]]"), "want 1 to 64"},
		"half a million cores": {with(`"cores_per_gpu":[1]`,
			`"cores_per_gpu":[`+strings.Repeat("1,", 500_000)+"1]"), "want 1 to 256"},
		"a billion entries": {with("[[1]]", "["+strings.Repeat("["+strings.Repeat("1,", 31)+"1],", 32_000)+
			"[1]]"), "want at most 1048576"},
		"a megabyte of wrong": {with("[[1]]", "[["+strings.Repeat(`"",`, 63)+`""]]`), "and"},
		"a string of a megabyte": {with(`"model":"m"`, `"model":"`+strings.Repeat("m", 1_000_000)+`"`),
			"want at most 128 bytes"},
		"escapes that grow": {with(`"model":"m"`, `"model":"`+strings.Repeat(`\u2028`, 150_000)+`"`),
			"want printable characters only"},
		"ten megabytes":       {strings.Repeat(" ", 10<<20) + profileLike, "want at most 1048576"},
		"nothing but a start": {strings.Repeat("{", 1<<20), ""},
		"zeros":               {strings.Repeat("\x00", 1<<20), "does not start as a JSON object"},
	}
}

// TestABombIsRefusedAtOnceInLittleMemory reads each in the way of the daemon, and bounds what that costs with room for
// a machine under load.
func TestABombIsRefusedAtOnceInLittleMemory(t *testing.T) {
	dir := t.TempDir()
	for name, bomb := range bombs() {
		file := strings.ReplaceAll(name, " ", "-") + ".json"
		if err := os.WriteFile(filepath.Join(dir, file), []byte(bomb.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		_, err := library.New(dir).Lookup(file)
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		spent := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%-25s %8s %4d MiB", name, took.Round(10*time.Microsecond), spent)
		if err == nil || !strings.Contains(err.Error(), bomb.refusal) || len(err.Error()) > 4000 {
			t.Errorf("%s: %.300v, want it refused with %q", name, err, bomb.refusal)
		}
		if took > 5*time.Second || spent > 200 {
			t.Errorf("%s: took %s and %d MiB", name, took, spent)
		}
	}
}

// programs says which files of the product start another program, and which. None is a shell, and none takes a word of
// a user: what a hook runs is the administrator's own list of arguments.
var programs = map[string]string{
	"bridge/slurmrest/requeue.go":    "scontrol, with the number of a job",
	"cmd/synergy-slurmd/hook.go":     "the administrator's hook",
	"guest/process.go":               "the administrator's plugin, without arguments",
	"guest/child.go":                 "the same",
	"cmd/synergy-slurmd/look.go":     "scontrol show config",
	"cmd/synergy-slurmd/stoppost.go": "systemctl, with words of our own",
	"cmd/synergy-emujob/report.go":   "scontrol, as the job's own user",
	"cmd/synergy-emujob/measure.go":  "synergy measure beside it, with words of our own",
	"profiling/inside/guardian.go":   "itself once more, with words of our own",
	"profiling/inside/report.go":     "scontrol, as the job's own user, with the number of the job",
	"cmd/synergy/gres_check.go":      "scontrol and slurmd -G, with the name of a node",
	"profiling/local/local.go":       "the trainer of whoever asks, as that user, from his own command line",
	"profiling/local/affinity.go":    "the same",
	"launcher/launcher.go":           "the trainer, in the same way, and scancel with the number of a job",
	"launcher/exec.go":               "the same trainer",
	"cmd/synergy-broker/report.go": "squeue, sinfo and scontrol, with the number of a job or the name of its node, " +
		"and what stands where only administrators write",
	"share/mps/daemon.go":     "nvidia-cuda-mps-control, as the user whose jobs it serves, with words of our own",
	"profiling/local/gpus.go": "nvidia-smi, with words of our own",
	"profiling/slurm/slurm.go": "sbatch, scontrol and scancel, as the user who asks, with his own options " +
		"of sbatch",
}

var starters = []string{"Command", "CommandContext", "StartProcess", "Exec", "ForkExec", "Cmd"}

func TestNoShellEverSeesTextOfAUser(t *testing.T) {
	files := token.NewFileSet()
	for _, s := range sources(t) {
		parsed, err := parser.ParseFile(files, s.file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				pkg, _ := n.X.(*ast.Ident)
				if pkg != nil && (pkg.Name == "exec" || pkg.Name == "syscall" || pkg.Name == "os") &&
					slices.Contains(starters, n.Sel.Name) && programs[strings.TrimPrefix(s.file, "../")] == "" {
					t.Errorf("%s starts a program with %s.%s: if it has to, name it here", s.file, pkg.Name, n.Sel.Name)
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && shell.MatchString(n.Value) {
					t.Errorf("%s names a shell: %s", s.file, n.Value)
				}
			}
			return true
		})
	}
}

// shell is a string that could be the name of one.
var shell = regexp.MustCompile(`^.(/usr)?(/bin/)?(env |)(ba|da|z|k|a|c|tc)?sh.$`)

func TestTheGateStartsNoProgram(t *testing.T) {
	scripts, err := filepath.Glob("../etc/*.lua")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%v: no lua", err)
	}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{"os.execute", "io.popen", "loadstring", "load(", "package.loadlib"} {
			if strings.Contains(string(text), call) {
				t.Errorf("%s has %s", script, call)
			}
		}
	}
}
