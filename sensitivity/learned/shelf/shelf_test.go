package shelf_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned/shelf"
)

var noon = time.Unix(1767268800, 0).UTC()

// entry is what one report of a job of that name makes, so many seconds after noon.
func entry(user, job string, second int) *learned.Entry {
	var e *learned.Entry
	return e.With(learned.Key{User: user, Job: job}, learned.Report{
		Job: 7, At: noon.Add(time.Duration(second) * time.Second), GPUType: "v100", GPUs: 1, Memory: 1000,
		Way: learned.Curve, Latest: noon.Add(time.Hour),
		Rates: []learned.Rate{{Cores: 1, Rate: 10}, {Cores: 2, Rate: 20}},
	})
}

func open(t *testing.T, dir string) *shelf.Shelf {
	t.Helper()
	s, wrong, err := shelf.Open(dir)
	if err != nil || len(wrong) > 0 {
		t.Fatal(err, wrong)
	}
	return s
}

func keep(t *testing.T, s *shelf.Shelf, e *learned.Entry) {
	t.Helper()
	if err := s.Keep(e); err != nil {
		t.Fatal(err)
	}
}

// TestNamesOfUsersAreNoPaths: whatever a job is called, its file lies in the folder, and is found again by who opens it
// anew.
func TestNamesOfUsersAreNoPaths(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "learned")
	s := open(t, dir)
	names := []string{"vision", "../../etc/passwd", "/abs", "", ".", "..", "a\x00b", "a\nb", "\x1b[31m", "ä",
		strings.Repeat("x", 900), `"}{`, "a b", "vision.json"}
	for k, name := range names {
		keep(t, s, entry("alice", name, k))
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != len(names) {
		t.Fatalf("%d files of %d names: %v", len(files), len(names), err)
	}
	again := open(t, dir)
	for _, name := range names {
		if e := again.Of(learned.Key{User: "alice", Job: name}); e == nil || len(e.Points) != 2 {
			t.Errorf("%q: %+v", name, e)
		}
		if e := again.Of(learned.Key{User: "bob", Job: name}); e != nil {
			t.Errorf("bob has alice's %q", name)
		}
	}
	if err := s.Keep(entry("alice", "bad\xffutf8", 1)); err == nil {
		t.Error("a name that no file can hold is kept")
	}
}

// TestAFloodOfNamesPushesOutNobodyElses: who invents names loses his own oldest.
func TestAFloodOfNamesPushesOutNobodyElses(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	keep(t, s, entry("alice", "vision", 0))
	for k := range shelf.MaxOfUser + 20 {
		keep(t, s, entry("mallory", fmt.Sprintf("job%d", k), k+1))
	}
	if s.Of(learned.Key{User: "alice", Job: "vision"}) == nil {
		t.Error("alice's is gone")
	}
	if n := len(s.All()); n != shelf.MaxOfUser+1 || len(open(t, dir).All()) != n {
		t.Errorf("%d entries, want %d of mallory and one of alice, on the disk as well", n, shelf.MaxOfUser)
	}
	if s.Of(learned.Key{User: "mallory", Job: "job0"}) != nil ||
		s.Of(learned.Key{User: "mallory", Job: fmt.Sprintf("job%d", shelf.MaxOfUser+19)}) == nil {
		t.Error("the newest was dropped, and not the oldest")
	}
}

// TestWhatIsCutOffOrForgedIsLeftAlone: half a file, one under another's name and a link cost their own jobs'
// profiles and nothing else.
func TestWhatIsCutOffOrForgedIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for k, name := range []string{"whole", "cut", "forged", "linked"} {
		keep(t, s, entry("alice", name, k))
	}
	files := map[string]string{}
	all, _ := os.ReadDir(dir)
	for _, file := range all {
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		e, err := learned.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		files[e.Job] = filepath.Join(dir, file.Name())
	}
	text, _ := os.ReadFile(files["cut"])
	must(t, os.WriteFile(files["cut"], text[:len(text)/2], 0o644))
	text, _ = os.ReadFile(files["whole"])
	must(t, os.WriteFile(files["forged"], text, 0o644))
	elsewhere := filepath.Join(t.TempDir(), "linked") // what it says is right, and anybody's to change
	must(t, os.Rename(files["linked"], elsewhere))
	must(t, os.Symlink(elsewhere, files["linked"]))
	must(t, os.WriteFile(filepath.Join(dir, "."+filepath.Base(files["whole"])+".new"), text[:5], 0o644)) // of a crash
	again, wrong, err := shelf.Open(dir)
	if err != nil || len(wrong) != 3 {
		t.Fatalf("%v: %d files are wrong, want 3: %v", err, len(wrong), wrong)
	}
	if n := len(again.All()); n != 1 || again.Of(learned.Key{User: "alice", Job: "whole"}) == nil {
		t.Errorf("%d entries, want the whole one", n)
	}
	keep(t, again, entry("alice", "whole", 99)) // over what the crash has left
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAFolderThatCannotBeWrittenKeepsWhatWasKnown: the entry before stands, here and on the disk.
func TestAFolderThatCannotBeWrittenKeepsWhatWasKnown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "learned")
	s := open(t, dir)
	first := entry("alice", "vision", 0)
	keep(t, s, first)
	must(t, os.Rename(dir, dir+".away"))
	if err := s.Keep(entry("alice", "vision", 9)); err == nil {
		t.Error("it is kept in a folder that is gone")
	}
	if s.Of(first.Key()) != first {
		t.Error("what was known has changed")
	}
	if _, _, err := shelf.Read(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that there is not can be read")
	}
}
