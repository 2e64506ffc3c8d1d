package ask

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

func TestALedgerOfALivingDaemonIsLeftToIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	book, err := ledger.Open(path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	_, err = openLedger(path)
	want := "a daemon has the ledger " + path + " open: ask it, without --ledger"
	if !errors.As(err, new(Unseen)) || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestWhatMayNotBeReadTakesTheDaemonsUser(t *testing.T) {
	for _, p := range []daemonPath{ledgerPlace, historyPlace, savingsPlace} {
		err := p.readError("/x", &fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES})
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "sudo -u synergy") {
			t.Errorf("%v", err)
		}
	}
	if os.Geteuid() == 0 {
		return // may read everything
	}
	shut := filepath.Join(t.TempDir(), "shut")
	if err := os.Mkdir(shut, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := openLedger(filepath.Join(shut, "ledger")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a ledger in a folder that is shut: %v", err)
	}
	if _, err := CheckSavings(shut); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("savings in a folder that is shut: %v", err)
	}
}

func TestAFolderOfSomethingElseIsNoLedgerOfSavings(t *testing.T) {
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := CheckSavings(other); err == nil || !strings.Contains(err.Error(), "no day of a ledger of savings") {
		t.Errorf("%v", err)
	}
	if note, err := CheckSavings(t.TempDir()); err != nil || !strings.Contains(note, "nothing was ever booked") {
		t.Errorf("an empty folder, as before the first round: %q, %v", note, err)
	}
}
