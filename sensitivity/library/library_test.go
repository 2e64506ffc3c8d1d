package library_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/library"
)

// document is a small profile of a model.
func document(model string) string {
	return fmt.Sprintf(`{"version":1, "model":%q, "task":"image", "gpu_type":"V100", "batch":8, "cores_per_gpu":[1],
		"memory_per_gpu_mib":[1000], "throughput_samples_per_s":[[10]], "checkpoint_s":1, "start_s":1}`, model)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// model is the model of the profile that l has under name.
func model(t *testing.T, l *library.Library, name string) string {
	t.Helper()
	p, err := l.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return p.Model
}

func TestTheShippedProfilesAreFound(t *testing.T) {
	if got := model(t, library.New("../../etc/profiles"), "res18.json"); got != "res18" {
		t.Errorf("res18.json is of %s", got)
	}
}

func TestTheFirstDirectoryWithTheNameWins(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	l := library.New("/nonexistent", first, second)
	write(t, filepath.Join(second, "a.json"), document("second"))
	if got := model(t, l, "a.json"); got != "second" {
		t.Errorf("found the profile of %s", got)
	}
	write(t, filepath.Join(first, "a.json"), document("first"))
	if got := model(t, l, "a.json"); got != "first" {
		t.Errorf("found the profile of %s", got)
	}
}

func TestANameThatIsNoPlainFileNameIsRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.json"), document("a"))
	l := library.New(filepath.Join(dir, "x"), dir)
	for _, name := range []string{
		"", ".json", "a", "a.yaml", "../a.json", "/etc/a.json", "./a.json", "sub/a.json", "..a.json", "a..json",
		".a.json", "-a.json",
		"a.json\n", "a.json\x00", "a\n.json", "ä.json", "a b.json", `a\b.json`, strings.Repeat("a", 124) + ".json",
		strings.Repeat("\x1b", 200),
	} {
		if _, err := l.Lookup(name); !errors.Is(err, library.ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := l.Lookup(strings.Repeat("a", 123) + ".json"); !errors.Is(err, library.ErrNoProfile) {
		t.Errorf("the longest name: %v", err)
	}
}

func TestAMissingProfileIsToldApartFromAnInvalidOne(t *testing.T) {
	dir := t.TempDir()
	l := library.New(dir)
	if _, err := l.Lookup("a.json"); !errors.Is(err, library.ErrNoProfile) || !strings.Contains(err.Error(), dir) {
		t.Errorf("missing: %v", err)
	}
	write(t, filepath.Join(dir, "a.json"), strings.Replace(document("a"), "[[10]]", "[[-4]]", 1))
	_, err := l.Lookup("a.json")
	if !errors.Is(err, library.ErrInvalid) || !strings.Contains(err.Error(),
		"throughput_samples_per_s[0][0] = -4: want") {
		t.Errorf("invalid: %v", err)
	}
}

func TestAnInvalidProfileIsNotPassedOver(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	write(t, filepath.Join(first, "a.json"), "{")
	write(t, filepath.Join(second, "a.json"), document("second"))
	if _, err := library.New(first, second).Lookup("a.json"); !errors.Is(err, library.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

func TestOnlyRegularFilesInsideTheDirectoryAreRead(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "secret.json"), document("secret"))
	write(t, filepath.Join(dir, "big.json"), document("big")+strings.Repeat(" ", sensitivity.MaxBytes))
	for _, err := range []error{
		syscall.Mkfifo(filepath.Join(dir, "fifo.json"), 0o644),
		os.Mkdir(filepath.Join(dir, "directory.json"), 0o755),
		os.Symlink(filepath.Join(outside, "secret.json"), filepath.Join(dir, "absolute.json")),
		os.Symlink("../"+filepath.Base(outside)+"/secret.json", filepath.Join(dir, "relative.json")),
		os.Symlink("/dev/zero", filepath.Join(dir, "zero.json")),
		os.Symlink("fifo.json", filepath.Join(dir, "link-to-fifo.json")),
		os.Symlink("loop.json", filepath.Join(dir, "loop.json")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"fifo.json":         "not a regular file but p",
		"link-to-fifo.json": "not a regular file but p",
		"directory.json":    "not a regular file but d",
		"big.json":          "want at most 1048576",
		"absolute.json":     "path escapes",
		"relative.json":     "path escapes",
		"zero.json":         "path escapes",
		"loop.json":         "too many",
	} {
		if p, err := library.New(dir).Lookup(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, error %v; want one with %q", name, p, err, want)
		}
	}
}

// Configuration that is mounted into a container is a link to a file that lies beside it.
func TestALinkInsideTheDirectoryIsFollowed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "v1"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "v1", "a.json"), document("linked"))
	if err := os.Symlink("v1/a.json", filepath.Join(dir, "a.json")); err != nil {
		t.Fatal(err)
	}
	if got := model(t, library.New(dir), "a.json"); got != "linked" {
		t.Errorf("found the profile of %s", got)
	}
}

func TestAFileIsReadOnceUntilItChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	l := library.New(filepath.Dir(path))
	write(t, path, document("old"))
	old, err := l.Lookup("a.json")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := l.Lookup("a.json"); err != nil || again != old {
		t.Errorf("read again: %p, then %p, %v", old, again, err)
	}
	write(t, path, document("new"))
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := model(t, l, "a.json"); got != "new" {
		t.Errorf("still the profile of %s", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Lookup("a.json"); !errors.Is(err, library.ErrNoProfile) {
		t.Errorf("after its file is gone: %v", err)
	}
}

// A file that replaces another by rename may have its time and size, as when a package is installed.
func TestAFileThatTakesTheNameIsReadThoughItLooksTheSame(t *testing.T) {
	dir := t.TempDir()
	l := library.New(dir)
	then := time.Now().Add(-time.Hour)
	for _, m := range []string{"old", "new"} {
		write(t, filepath.Join(dir, m), document(m))
		if err := os.Chtimes(filepath.Join(dir, m), then, then); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []string{"old", "new"} {
		if err := os.Rename(filepath.Join(dir, m), filepath.Join(dir, "a.json")); err != nil {
			t.Fatal(err)
		}
		if got := model(t, l, "a.json"); got != m {
			t.Errorf("the profile of %s, want that of %s", got, m)
		}
	}
}

func TestAnInvalidFileIsRememberedUntilItChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	l := library.New(filepath.Dir(path))
	write(t, path, "{")
	_, first := l.Lookup("a.json")
	_, second := l.Lookup("a.json")
	if errors.Unwrap(first) == nil || errors.Unwrap(first) != errors.Unwrap(second) {
		t.Errorf("%v, then %v: want the same finding", first, second)
	}
	write(t, path, document("mended"))
	if got := model(t, l, "a.json"); got != "mended" {
		t.Errorf("the profile of %s", got)
	}
}

func TestManyMayLookUpAtOnce(t *testing.T) {
	l := library.New("../../etc/profiles")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for _, name := range []string{"res18.json", "m5.json", "none.json"} {
				_, err := l.Lookup(name)
				if err != nil && !errors.Is(err, library.ErrNoProfile) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkLookup(b *testing.B) {
	l := library.New("../../etc/profiles")
	for b.Loop() {
		if _, err := l.Lookup("res18.json"); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNamesAreThoseThatALookupTakes, each once, of all folders that can be read.
func TestNamesAreThoseThatALookupTakes(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for _, path := range []string{first + "/b.json", first + "/a.json", second + "/b.json", second + "/.hidden.json",
		second + "/notes.txt", second + "/c d.json"} {
		if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	names, err := library.New(first, second).Names()
	if err != nil || !slices.Equal(names, []string{"a.json", "b.json"}) {
		t.Errorf("%q, %v", names, err)
	}
	names, err = library.New(first+"/gone", second).Names()
	if err == nil || !slices.Equal(names, []string{"b.json"}) {
		t.Errorf("%q, %v: want the fault, and what the other folder has", names, err)
	}
}
