package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

// ledgerVerb is the verb for what the daemon has on its disk: ledger backup and ledger restore.
const ledgerVerb = "ledger"

const usageKeep = `synergy-slurmd ledger backup FILE writes what the daemon remembers to a file: the ledger, and the
history where there is one. The daemon may run meanwhile. A file that is there is
replaced when the new one is whole.

synergy-slurmd ledger restore FILE puts that back, after it was read whole. The daemon must have been
stopped. What was there is kept beside it, as ledger.before-TIME.

Usage: synergy-slurmd ledger backup [flags] FILE
       synergy-slurmd ledger restore [flags] FILE

`

// defineFiles defines the flags of both.
func defineFiles(set *pflag.FlagSet, files *ledger.Files) {
	set.StringVar(&files.Ledger, "ledger", "/var/lib/synergy/ledger", "`file` that the daemon has as its ledger")
	set.StringVar(&files.History, "history", "",
		"`folder` of the history, as in the configuration (default history beside the ledger)")
}

// runLedger runs `ledger backup` or `ledger restore`, and returns the exit code.
func runLedger(args []string, stdout, stderr io.Writer) int {
	var files ledger.Files
	set := newFlagSet(stdout, usageKeep)
	defineFiles(set, &files)
	err := set.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		return exitGood
	}
	word, file := set.Arg(0), set.Arg(1)
	switch {
	case err != nil:
		return complain(stderr, err)
	case word != "backup" && word != "restore":
		return complain(stderr, fmt.Errorf("ledger %q: want ledger backup FILE, or ledger restore FILE", word))
	case set.NArg() != 2 || file == "":
		return complain(stderr, fmt.Errorf("ledger %s: %d arguments: want one, the backup's file", word, set.NArg()-1))
	}
	if files.History == "" {
		files.History = filepath.Join(filepath.Dir(files.Ledger), "history")
	}
	if word == "backup" {
		err = backUp(files, file, stdout)
	} else {
		err = putBack(files, file, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "synergy-slurmd:", err)
		return exitFailed
	}
	return exitGood
}

// backUp writes a backup, and says what it contains.
func backUp(files ledger.Files, file string, stdout io.Writer) error {
	content, err := ledger.Backup(files, file)
	if errors.Is(err, os.ErrPermission) {
		err = fmt.Errorf("%w: run this as the daemon's user, or root", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s has %s\n", file, sentence(content))
	return nil
}

// putBack restores a backup. What was there is told even if the restoring failed, since it has been moved aside by
// then.
func putBack(files ledger.Files, file string, stdout io.Writer) error {
	if err := checkOwner(filepath.Dir(files.Ledger)); err != nil {
		return fmt.Errorf("restore %s: %w", file, err)
	}
	content, kept, err := ledger.Restore(file, files, time.Now())
	if len(kept) > 0 {
		fmt.Fprintf(stdout, "what was there is kept as %s\n", strings.Join(kept, " and "))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "restored: %s\n", sentence(content))
	return nil
}

// sentence says what a backup contains.
func sentence(content ledger.Content) string {
	text := fmt.Sprintf("the ledger up to round %d, with records of %d jobs", content.Round, content.Jobs)
	if content.Days > 0 {
		text += fmt.Sprintf(", and %d days of the history", content.Days)
	}
	if len(content.Damaged) > 0 {
		text += fmt.Sprintf("; left out are days that are damaged: %s", strings.Join(content.Damaged, ", "))
	}
	return text
}

// checkOwner refuses a folder of another user, since the daemon could not open what root restored there.
func checkOwner(folder string) error {
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	if owner, known := info.Sys().(*syscall.Stat_t); known && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to the user with the number %d: run this as that user, as with sudo -u synergy",
			folder, owner.Uid)
	}
	return nil
}
