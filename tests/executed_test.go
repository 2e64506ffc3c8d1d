package tests

import (
	"context"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// given is what commands are given more than the pages say: where something lies that a site has in /etc or /var, or,
// said to be so, less work.
var given = []struct{ prefix, more string }{
	{"synergy savings", "--book book"},
	{"synergy explain", daemon}, {"synergy queue", daemon}, {"synergy top", daemon}, {"synergy status", daemon},
	{"synergy what-if", daemon}, {"synergy history", daemon}, {"synergy plan --round", daemon},
	{"synergy profile list", "--dir learned"},
	{"synergy-slurmd --check-config", "--config site/synergy-slurmd.yaml"},
	{"synergy-slurmd --once", driven + " --alone"},
	{"synergy-slurmd release", driven + " --alone --ledger release.ledger"},
	{"synergy-slurmd ledger backup", "--ledger kept.ledger"},
	{"synergy-slurmd ledger restore", "--ledger restored.ledger"},
}

const (
	daemon = "--daemon http://127.0.0.1:9817"
	driven = "--config site/synergy-slurmd.yaml --slurm-plugin $STAGE/bin/" + memory
)

// smaller are the simulations of which a part is enough here.
var smaller = []struct{ prefix, more string }{
	{"synergy sim --load 60 --jobs 82000", "--jobs 300"},
	{"synergy sim --load 1:8:0.5", "--jobs 60"},
	{"synergy sim --load 9 --jobs 2000", "--jobs 200"},
	{"synergy sim --policy fifo,srtf,las,ftf --allocator proportional,tune", "--jobs 200"},
	{"synergy sim --multigpu --load 3.5", "--window 40-140"},
	{"synergy sim --load 9 --window 4000-5000", "--window 400-500"},
}

// executed says of a command that it does without a Slurm, a GPU and other people's programs.
func executed(c command) bool {
	if _, _, found := rowOf(c); c.span || found {
		return false
	}
	program := c.program()
	return program == "synergy" || program == "synergy-slurmd" || program == "go" || program == "make" ||
		program == "deft" || program == "cp" || program == "sh" || program == "curl"
}

func moreOf(list []struct{ prefix, more string }, c command) string {
	for _, row := range list {
		if strings.HasPrefix(c.text, row.prefix) {
			return " " + row.more
		}
	}
	return ""
}

// TestEveryCommandOfTheDocumentationIsRunByATest executes what can be executed here, as it stands in the pages and in
// their order, and holds that everything else is run by a test that there is.
func TestEveryCommandOfTheDocumentationIsRunByATest(t *testing.T) {
	s := newStage(t)
	said := map[string]string{}
	count := map[string]int{}
	used := map[string]bool{}
	for _, c := range documented(t) {
		row, begins, found := rowOf(c)
		used[begins] = used[begins] || !c.span
		switch {
		case c.span:
			count["in sentences"]++
		case executed(c):
			if _, done := said[c.text]; !done {
				said[c.text] = s.execute(c)
			}
			count["executed"]++
			if moreOf(smaller, c) != "" {
				count["smaller"]++
			}
		case !found:
			t.Errorf("%s: is executed by no test: name in tests/elsewhere_test.go the one that runs it", c)
		case row < 0:
			count["never"]++
		default:
			count["elsewhere"]++
		}
	}
	for _, begins := range beginnings() {
		if !used[begins] {
			t.Errorf("tests/elsewhere_test.go: no page has %q any more, or a longer row has taken it", begins)
		}
	}
	t.Logf("%d commands executed as they stand, of which %d on less; %d parsed here and run by other tests; "+
		"%d that nothing runs; and %d in sentences parsed", count["executed"], count["smaller"], count["elsewhere"],
		count["never"], count["in sentences"])
	shown(t, said)
	if count["executed"] < 40 {
		t.Errorf("only %d commands were executed", count["executed"])
	}
}

// beginnings are all that tests/elsewhere_test.go lists.
func beginnings() []string {
	all := slices.Collect(maps.Keys(never))
	for _, row := range elsewhere {
		all = append(all, row.commands...)
	}
	return all
}

// shown holds what the pages print behind a command against what it printed.
func shown(t *testing.T, said map[string]string) {
	t.Helper()
	for _, c := range []struct{ page, command, first string }{
		{"docs/simulator.md", "synergy sim", "policy  allocator"},
		{"docs/plugins.md", "bin/synergy plugin check bin/mine", "kept  answers"},
	} {
		found := false
		for _, block := range ours(t).page(c.page).Blocks {
			begin := slices.IndexFunc(block.Lines, func(line string) bool { return strings.HasPrefix(line, c.first) })
			if begin < 0 {
				continue
			}
			found = true
			for _, line := range block.Lines[begin:] {
				if strings.HasPrefix(line, "a plan took") {
					break // by the clock
				}
				if !strings.Contains(said[c.command], strings.TrimRight(line, " ")) {
					t.Errorf("%s: %s does not print %q, but\n%s", c.page, c.command, line, said[c.command])
					break
				}
			}
		}
		if !found {
			t.Errorf("%s shows no more what %s prints", c.page, c.command)
		}
	}
}

// stage is a folder like the top of a clone, with a site's files beside it. Nothing outside of it is written to.
type stage struct {
	t           *testing.T
	folder      string
	environment []string
	address     string // of the daemon
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, folder: t.TempDir()}
	s.clone()
	s.site()
	s.environment = append(os.Environ(), "TZ=UTC", "STAGE="+s.folder, "HOME="+s.folder, "GOFLAGS=-buildvcs=false",
		"GOCACHE="+goEnv(t, "GOCACHE"), "GOPATH="+goEnv(t, "GOPATH"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"),
		"PATH="+s.path("bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	s.serve()
	return s
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func (s *stage) path(name string) string { return filepath.Join(s.folder, name) }

func (s *stage) write(name, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.path(name), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) copy(name, from string) {
	s.t.Helper()
	text, err := os.ReadFile("../" + from)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(name, string(text))
}

// clone makes the folder look like this repository: by links, but for contrib, into which a page copies.
func (s *stage) clone() {
	s.t.Helper()
	entries, err := os.ReadDir("..")
	if err != nil {
		s.t.Fatal(err)
	}
	top, err := filepath.Abs("..")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, entry := range entries {
		switch name := entry.Name(); {
		case strings.HasPrefix(name, ".") || name == "bin" || name == "build" || name == "dist":
		case name == "contrib":
			if err := os.CopyFS(s.path("contrib"), os.DirFS("../contrib")); err != nil {
				s.t.Fatal(err)
			}
		default:
			if err := os.Symlink(filepath.Join(top, name), s.path(name)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	ours := programsOf(s.t)
	if err := os.Mkdir(s.path("bin"), 0o755); err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{"synergy", "synergy-slurmd", "deft"} {
		if err := os.Link(filepath.Join(ours.folder, name), s.path("bin/"+name)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// site writes what the commands are about: logs, profiles, a cluster, what a daemon has kept.
func (s *stage) site() {
	s.t.Helper()
	s.copy("site/profiles/res50.json", "etc/profiles/res50.json")
	s.copy("res50.json", "etc/profiles/res50.json")
	s.copy("mon.json", "etc/profiles/res50.json")
	s.copy("tue.json", "etc/profiles/res50.json")
	s.copy("mysite.yaml", "etc/examples/cluster.yaml")
	s.copy("round.json", "docs/worked-round.json")
	s.write("site/synergy-slurmd.yaml", "partitions: [gpu]\nprofile_dirs: ["+s.path("site/profiles")+"]\n"+
		"history: {path: "+s.path("site/history")+"}\n")
	for _, unpacked := range []struct{ archive, file, name string }{
		{"cmd/synergy/testdata/sim/cluster.txtar", "paper.ini", "default_cluster.ini"},
		{"cmd/synergy/testdata/profile/replay.txtar", "curves.json", "curves.json"},
		{"cmd/synergy/testdata/profile/learned.txtar", "learned/b21cd7f5eb4f2d3031973f3a166685a9.json",
			"learned/b21cd7f5eb4f2d3031973f3a166685a9.json"},
		{"cmd/synergy/testdata/savings/savings.txtar", "book/2026-01-01.jsonl", "book/2026-01-01.jsonl"},
		{"cmd/synergy/testdata/savings/savings.txtar", "book/state.json", "book/state.json"},
	} {
		archive, err := txtar.ParseFile("../" + unpacked.archive)
		if err != nil {
			s.t.Fatal(err)
		}
		at := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == unpacked.file })
		if at < 0 {
			s.t.Fatalf("%s has no %s", unpacked.archive, unpacked.file)
		}
		s.write(unpacked.name, string(archive.Files[at].Data))
	}
	if err := os.Mkdir(s.path("backup"), 0o755); err != nil {
		s.t.Fatal(err)
	}
	s.write("sacct.txt", accounting)
	s.write("train.py", "print('trained')\n")
	if python, err := exec.LookPath("python3"); err == nil {
		if err := os.Symlink(python, s.path("bin/python")); err != nil {
			s.t.Fatal(err)
		}
	}
	s.write("jobs.csv", recorded)
	// What sacct prints is the site's: the log that is there.
	s.write("bin/sacct", "#!/bin/sh\ncat "+s.path("accounting")+"\n")
	s.write("accounting", accounting)
	if err := os.Chmod(s.path("bin/sacct"), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// accounting is what sacct prints of two jobs, one of which was requeued.
const accounting = `JobID|JobIDRaw|User|JobName|Partition|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|Priority|AllocTRES
1|1|ann|vision|gpu|COMPLETED|2026-03-01T08:00:00|2026-03-01T08:05:00|2026-03-01T10:05:00|7200|180|10|cpu=8,gres/gpu=2,mem=64G
2|2|bob|speech|gpu|NODE_FAIL|2026-03-01T08:30:00|2026-03-01T08:31:00|2026-03-01T08:41:00|600|600|9|cpu=4,gres/gpu=1,mem=9G
2|2|bob|speech|gpu|COMPLETED|2026-03-01T08:50:00|2026-03-01T09:00:00|2026-03-01T09:20:00|1200|600|9|cpu=4,gres/gpu=1,mem=9G
`

// recorded is a trace as the artifact writes it.
const recorded = `0,res18,0,40000,1
1,gnmt,600,9000,1
2,m5,1200,20000,2
`

// memory is the name by which this program is a plugin that drives a Slurm in memory.
const memory = "slurm-in-memory"

// slurmInMemory has four nodes; jobs 1 to 4 run, and job 5 waits for room.
func slurmInMemory() {
	plugin.Serve(func(context.Context, plugin.Configuration) (plugin.Driven, error) {
		clock := slurmtest.NewClock(time.Now().Truncate(time.Second))
		manager := slurmtest.New(clock, slurmtest.Options{
			Nodes: slurmtest.Rack(4, gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}, "gpu")})
		for _, gpus := range []int{8, 8, 8, 6, 8} {
			if _, err := manager.Submit(slurmtest.Spec{Name: "vision", User: "alice", Lease: time.Hour,
				Comment: "synergy-profile=res50.json", Request: slurm.Request{GPUs: gpus}}); err != nil {
				return plugin.Driven{}, err
			}
		}
		go func() {
			for range time.Tick(tick) {
				clock.Advance(tick)
			}
		}()
		return plugin.Driven{Slurm: manager, Tickets: manager.Tickets(), Version: "in memory"}, nil
	})
}

const tick = 20 * time.Millisecond

// serve starts a daemon on a Slurm in memory, for as long as the test lasts, and waits for its first round.
func (s *stage) serve() {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	s.link(self, "bin/"+memory)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = listener.Addr().String()
	_ = listener.Close()
	daemon := exec.Command(s.path("bin/synergy-slurmd"), strings.Fields(
		"--config site/synergy-slurmd.yaml --ledger kept.ledger "+
			"--alone --slurm-plugin "+s.path("bin/"+memory)+" --socket= --log-level warn --listen "+s.address)...)
	log := &strings.Builder{}
	daemon.Dir, daemon.Env, daemon.Stderr = s.folder, s.environment, log
	if err := daemon.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = daemon.Wait()
		close(ended)
	}()
	s.t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		<-ended
		if s.t.Failed() {
			s.t.Logf("the daemon: %s", log)
		}
	})
	for range 600 {
		if exec.Command(s.path("bin/synergy"), "queue", "--daemon", "http://"+s.address).Run() == nil {
			s.backUp()
			return
		}
		select {
		case <-ended:
			s.t.Fatal("the daemon has ended")
		case <-time.After(100 * time.Millisecond):
		}
	}
	s.t.Fatal("the daemon has held no round within a minute")
}

// backUp makes the backup that a page puts back.
func (s *stage) backUp() {
	s.t.Helper()
	backup := exec.Command(s.path("bin/synergy-slurmd"), "ledger", "backup", s.path("backup/synergy-2026-11-21.tar.gz"),
		"--ledger", s.path("kept.ledger"))
	if out, err := backup.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
}

func (s *stage) link(from, name string) {
	s.t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(s.path(name), text, 0o755)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

var goRun = regexp.MustCompile(`go run \./cmd/`)

// here is the text of a command with what this stage has in place of a site: its files, its daemon, a job that there
// is.
func (s *stage) here(text string) string {
	return strings.NewReplacer("/etc/synergy/", "site/", "/backup/", "backup/", "/tmp/ledger", "once.ledger",
		"http://127.0.0.1:9817", "http://"+s.address, "localhost:9817", s.address, " 4711", " 5").Replace(text)
}

// made is what make would run, with our programs as they are built already.
func (s *stage) made(text string) string {
	s.t.Helper()
	show := exec.Command("bash", "-c", strings.Replace(text, "make ", "make --no-print-directory -n ", 1))
	show.Dir, show.Env = s.folder, s.environment
	recipe, err := show.Output()
	if err != nil {
		s.t.Errorf("%s: %v", text, err)
	}
	return goRun.ReplaceAllString(string(recipe), "bin/")
}

// execute runs the command by a shell, and returns what it prints.
func (s *stage) execute(c command) string {
	s.t.Helper()
	text := s.here(c.text + moreOf(given, c) + moreOf(smaller, c))
	if c.program() == "make" {
		text = s.made(text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", "set -o pipefail; "+text)
	shell.Dir, shell.Env, shell.WaitDelay = s.folder, s.environment, time.Second
	var errors strings.Builder
	shell.Stderr = &errors
	began := time.Now()
	out, err := shell.Output()
	if err != nil {
		s.t.Errorf("%s: %v: %s", c, err, firstLine(errors.String()))
	}
	if took := time.Since(began); took > 2*time.Second {
		s.t.Logf("%s took %s", c, took.Round(100*time.Millisecond))
	}
	return string(out)
}
