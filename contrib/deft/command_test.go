package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestARowOfACommandsFileThatIsStillWrittenCountsAsNotThere(t *testing.T) {
	const head = "start_timestamp_ns,end_timestamp_ns,jct_ms,max_allocated_gpu_memory_allocated_byte," +
		"max_reserved_gpu_memory_byte\n"
	path := filepath.Join(t.TempDir(), "jobs")
	if _, err := ownDone(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]int{
		"": 0, head[:20]: 0, head: 0, head + "1,2,1,0,0\n": 1, head + "1,2,1,0,0\n3,4": 1,
		head + "1,2,1,0,0\n3,4,1,0,0": 1,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if jobs, err := ownDone(path); err != nil || len(jobs) != want {
			t.Errorf("%q: %d jobs, %v, want %d", text, len(jobs), err, want)
		}
	}
	if err := os.WriteFile(path, []byte(head+"1,x,1,0,0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ownDone(path)
	if err == nil || !strings.Contains(err.Error(), "row 1: end_timestamp_ns = x: want a whole") {
		t.Error(err)
	}
}

func TestACommandIsLoadedWhenALineOfItsOwnSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if saysLoaded(path) {
		t.Error("there is no log")
	}
	for text, want := range map[string]bool{
		"model loaded\n": true, "10 %\r99 %\rmodel loaded\r\n": true, "warning\nmodel loaded": true,
		"no model loaded\n": false, "model loaded?\n": false, "": false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if saysLoaded(path) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
