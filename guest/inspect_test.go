package guest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// program makes one at root/a/b/c/plugin, in folders that are ours alone.
func program(t *testing.T) (root, path string) {
	t.Helper()
	root = t.TempDir()
	path = filepath.Join(root, "a", "b", "c", "plugin")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return root, path
}

func open(t *testing.T, place string) {
	t.Helper()
	if err := os.Chmod(place, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(place, 0o755) })
}

func TestAPluginBelowAnyFolderThatOthersCanChangeIsNotStarted(t *testing.T) {
	for _, folder := range []string{"", "a", "a/b", "a/b/c", "a/b/c/plugin"} {
		root, path := program(t)
		if err := (Program{Path: path}).Check(); err != nil {
			t.Fatal(err)
		}
		place := filepath.Join(root, folder)
		open(t, place)
		if err := (Program{Path: path}).Check(); err == nil ||
			!strings.Contains(err.Error(), place+" can be changed by others: chmod go-w it") {
			t.Errorf("%s can be changed by anybody: %v", place, err)
		}
	}
}

func TestAPluginNamedByALinkIsNotStartedWhereOthersCanTurnTheLink(t *testing.T) {
	root, _ := program(t)
	link := func(to string, names ...string) string {
		place := filepath.Join(append([]string{root}, names...)...)
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, place); err != nil {
			t.Fatal(err)
		}
		return place
	}
	inner := link("../a/b", "middle", "inner") // of a folder, by a path of its own
	outer := link(filepath.Join(inner, "c", "plugin"), "outer", "deep", "plugin")
	if err := (Program{Path: outer}).Check(); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"outer", "outer/deep", "middle", "a"} {
		place := filepath.Join(root, folder)
		open(t, place)
		if err := (Program{Path: outer}).Check(); err == nil ||
			!strings.Contains(err.Error(), place+" can be changed by others") {
			t.Errorf("%s can be changed by anybody: %v", place, err)
		}
		if err := os.Chmod(place, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := (Program{Path: link("round", "round")}).Check(); err == nil {
		t.Error("a link to itself leads to a program")
	}
}

func TestAStickyFolderIsNoDanger(t *testing.T) {
	root, path := program(t)
	if err := os.Chmod(filepath.Join(root, "a"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := (Program{Path: path}).Check(); err != nil {
		t.Error(err)
	}
}

// Behind a link .. is not the folder in which the link stands.
func TestAPluginIsNotStartedWhereOthersCanChangeWhatTwoDotsBehindALinkLeadTo(t *testing.T) {
	root, path := program(t)
	for _, folder := range []string{"decoy"} {
		if err := os.Mkdir(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	decoy, link := filepath.Join(root, "decoy", "plugin"), filepath.Join(root, "decoy", "link")
	for to, place := range map[string]string{filepath.Dir(path): link,
		"link/../c/plugin": filepath.Join(root, "decoy", "by-text")} {
		if err := os.Symlink(to, place); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(decoy, []byte("#!/bin/sh\n"), 0o755); err != nil { // what the path names by its text
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "decoy", "c"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(decoy, filepath.Join(root, "decoy", "c", "plugin")); err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{link + "/../c/plugin", filepath.Join(root, "decoy", "by-text")} {
		if err := (Program{Path: named}).Check(); err != nil {
			t.Fatal(err)
		}
	}
	open(t, filepath.Join(root, "a", "b"))
	for _, named := range []string{link + "/../c/plugin", filepath.Join(root, "decoy", "by-text")} {
		if err := (Program{Path: named}).Check(); err == nil ||
			!strings.Contains(err.Error(), "can be changed by others") {
			t.Errorf("%s leads through a folder that anybody can change: %v", named, err)
		}
	}
}
