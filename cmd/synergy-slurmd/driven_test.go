package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin"
)

// pluginFlags name a program that can be started and a file for it.
func pluginFlags(t *testing.T, text string) flags {
	t.Helper()
	dir := t.TempDir()
	f := flags{slurmPlugin: filepath.Join(dir, "mine"), slurmConfig: filepath.Join(dir, "mine.json"),
		slurmSum: strings.Repeat("ab", 32)}
	if err := os.WriteFile(f.slurmPlugin, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.slurmConfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestEveryOptionReachesThePlugin(t *testing.T) {
	c := &connector{flags: pluginFlags(t, "{}"), log: zerolog.Nop(), metrics: testMetrics()}
	options, err := c.pluginOptions(fullConfig())
	if err != nil {
		t.Fatal(err)
	}
	if names := strings.Join(unset(options), " "); names != "Timeout" {
		t.Errorf("not set: %v", names)
	}
	if names := unset(options.Config); len(names) > 0 {
		t.Errorf("not set of what it is configured with: %v", names)
	}
}

func TestThePluginsFileIsHandedOverAsItIs(t *testing.T) {
	text := "any \x00 bytes\n"
	if got, err := pluginFile(pluginFlags(t, text).slurmConfig); err != nil || string(got) != text {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := pluginFile(""); err != nil || got != nil {
		t.Errorf("without a file: %q, %v", got, err)
	}
	if _, err := pluginFile(pluginFlags(t, strings.Repeat("x", plugin.MaxConfig)).slurmConfig); err != nil {
		t.Error(err)
	}
}

func TestAPluginThatCannotBeUsedIsRefusedBeforeAnythingIsOpened(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *flags)
		says   string
	}{
		"no such program":  {func(f *flags) { f.slurmPlugin += "x" }, "no such file"},
		"another checksum": {func(*flags) {}, "has the checksum"},
		"no such file": {func(f *flags) { f.slurmSum, f.slurmConfig = "", f.slurmConfig+"x" },
			"configuration of the slurm plugin"},
		"a file of any size": {func(f *flags) {
			f.slurmSum = ""
			_ = os.WriteFile(f.slurmConfig, bytes.Repeat([]byte("x"), plugin.MaxConfig+1), 0o600)
		}, "more than 1048576 bytes"},
	} {
		f := pluginFlags(t, "{}")
		c.change(&f)
		f.ledger = filepath.Join(t.TempDir(), "ledger")
		err := runDaemon(t.Context(), f, fullConfig(), zerolog.Nop())
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if _, err := os.Stat(f.ledger); err == nil {
			t.Errorf("%s: the ledger was made", name)
		}
	}
}

func TestAPluginThatDoesNotStartFailsTheRoundAndNotTheDaemon(t *testing.T) {
	f := pluginFlags(t, "{}")
	f.slurmSum = ""
	c := &connector{flags: f, log: zerolog.Nop(), metrics: testMetrics()}
	defer c.close()
	began := time.Now()
	if _, err := c.connect(t.Context(), fullConfig()); err == nil || !strings.Contains(err.Error(), "does not start") {
		t.Errorf("got %v after %s", err, time.Since(began))
	}
	if c.client != nil {
		t.Error("something is open")
	}
}

func TestWhatIsOfAPluginNeedsOne(t *testing.T) {
	for _, flag := range []string{"--slurm-plugin-sha256=ab", "--slurm-plugin-config=/etc/mine"} {
		if _, err := parseFlags([]string{flag}, io.Discard); err == nil ||
			!strings.Contains(err.Error(), "--slurm-plugin") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
