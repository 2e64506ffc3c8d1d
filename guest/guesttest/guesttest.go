// Package guesttest lets a test be its own plugin: a copy of the test's program under another name, by which its
// TestMain knows what it is to do.
package guesttest

import (
	"os"
	"path/filepath"
	"testing"
)

// Copy is the path of this program under that name, in a folder of the test's.
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
	text, err := os.ReadFile(self) // the folder is on another disk
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
