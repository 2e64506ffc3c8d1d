// Package guesttest lets a test be its own plugin: a copy of the test program under another name, by which its TestMain
// knows what to do.
package guesttest

import (
	"os"
	"path/filepath"
	"testing"
)

// Copy returns the path of a copy of this program with that name, in a temporary folder of the test.
func Copy(t testing.TB, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if os.Link(self, path) == nil {
		return path
	}
	text, err := os.ReadFile(self) // the folder is on another file system
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
