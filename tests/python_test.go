package tests

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestThePythonPackageKeepsItsPromises runs the package's own tests with the machine's python3. Where there is none it
// fails: what is not tested is not promised. The package is copied file by file, so that the test cache knows what it
// depends on and nothing is left beside the sources.
func TestThePythonPackageKeepsItsPromises(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatalf("the tests of python/synergy need python3 (3.9 or later) in PATH: %v", err)
	}
	dir := t.TempDir()
	copyFiles(t, "../python", filepath.Join(dir, "python"))
	copyFiles(t, "../etc/profiles", filepath.Join(dir, "etc/profiles"))
	run := exec.Command(python, "-W", "error::SyntaxWarning", "-m", "unittest", "discover", "-s", "tests", "-t", ".")
	run.Dir = filepath.Join(dir, "python")
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(run.Args, " "), err, out)
	}
	if strings.Contains(string(out), "Ran 0 tests") {
		t.Fatalf("no test was found:\n%s", out)
	}
	t.Logf("%s", out)
}

func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Name() == "__pycache__" {
			return fs.SkipDir
		}
		name, err := filepath.Rel(from, path)
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return writeInto(filepath.Join(to, name), data)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func writeInto(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
