package shelf

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
)

// What somebody may have put into the folder in the place of a file.
const (
	asIs = iota
	asItsOwn
	asLink
	asHardLink
	asFolder
	asPipe
	kinds
)

// plant puts something there under that name. What cannot have such a name is none of ours.
func plant(dir, name string, kind uint8, text []byte) {
	path := filepath.Join(dir, name)
	switch kind % kinds {
	case asIs:
		_ = os.WriteFile(path, text, 0o644)
	case asItsOwn:
		if e, err := learned.Parse(text); err == nil {
			_ = os.WriteFile(filepath.Join(dir, fileOf(e.Key())), text, 0o644)
		}
	case asLink:
		_ = os.Symlink(string(text), path)
	case asHardLink:
		_ = os.Link(filepath.Join(dir, fileOf(alices)), path)
	case asFolder:
		_ = os.Mkdir(path, 0o755)
	case asPipe:
		_ = syscall.Mkfifo(path, 0o644)
	}
}

var alices = learned.Key{User: "alice", Job: "vision"}

// FuzzAShelfOfAnyFilesIsReadOrTold: whatever lies in the folder costs its own jobs' profiles at most. Alice's stands
// and can be taught, each entry is of the file that is called by it, and nothing is made beside the folder.
func FuzzAShelfOfAnyFilesIsReadOrTold(f *testing.F) {
	whole := func(user, job string) []byte {
		text, err := taught(user, job, 1).Print()
		if err != nil {
			f.Fatal(err)
		}
		return text
	}
	other := fileOf(learned.Key{User: "bob", Job: "vision"})
	for _, seed := range []struct {
		name string
		kind uint8
		text []byte
	}{
		{other, asIs, whole("mallory", "vision")}, {fileOf(alices) + ".json", asIs, whole("alice", "vision")},
		{other, asIs, whole("bob", "vision")[:99]}, {other, asItsOwn, whole("bob", "../../etc/passwd")},
		{other, asItsOwn, whole("bob", "a\nb\x1b[31m")}, {other, asItsOwn, whole("bob", "a\x00b")},
		{other, asIs, []byte(strings.Repeat("[", 20_000))}, {other, asIs, []byte(strings.Repeat(" ", 1<<20))},
		{other, asIs, []byte(strings.Repeat(`{"points":`, 1000))}, {other, asLink, []byte("/dev/zero")},
		{other, asLink, []byte(fileOf(alices))}, {other, asHardLink, nil}, {other, asFolder, nil}, {other, asPipe, nil},
		{"." + other + unfinished, asFolder, nil}, {"." + fileOf(alices) + unfinished, asLink, []byte("/etc/passwd")},
	} {
		f.Add(seed.name, seed.kind, seed.text)
	}
	f.Fuzz(func(t *testing.T, name string, kind uint8, text []byte) {
		if strings.ContainsAny(name, "/\x00") || name == fileOf(alices) {
			return // such a name is no file's here
		}
		root := t.TempDir()
		dir := filepath.Join(root, "learned")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fileOf(alices)), whole("alice", "vision"), 0o644); err != nil {
			t.Fatal(err)
		}
		plant(dir, name, kind, text)
		mustBeReadOrTold(t, dir)
		if all, _ := os.ReadDir(root); len(all) != 1 {
			t.Errorf("beside the folder there is %v", all)
		}
	})
}

func mustBeReadOrTold(t *testing.T, dir string) {
	t.Helper()
	s, _, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range s.All() {
		if info, err := os.Lstat(filepath.Join(dir, fileOf(e.Key()))); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%+v is of no file of its own: %v", e.Key(), err)
		}
	}
	if s.Of(alices) == nil {
		t.Fatal("alice's is gone")
	}
	if err := s.Keep(taught("alice", "vision", 9)); err != nil {
		t.Fatalf("alice's cannot be taught: %v", err)
	}
}
