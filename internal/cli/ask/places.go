package ask

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/synergy-slurmd/synergy-slurmd/history"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/savings/book"
)

// Where a daemon keeps its files as a rule.
const (
	UsualLedger  = "/var/lib/synergy/ledger"
	UsualHistory = "/var/lib/synergy/history"
	UsualSavings = "/var/lib/synergy/savings"
)

// place describes a place of the daemon for error messages: the flag or the word for it, what it should be, and its
// usual path.
type place struct{ of, want, usual string }

// The places.
var (
	ledgerPlace  = place{"ledger", "the file that the daemon has as its ledger", UsualLedger}
	historyPlace = place{"--history", "the folder of the daemon's history", UsualHistory}
	savingsPlace = place{"--book", "the folder that the daemon's configuration has as savings", UsualSavings}
)

// wrong is the error of a path that has something else (err) than was wanted. It names the usual path, unless that is
// the path itself.
func (p place) wrong(path string, err error) error {
	if p.usual == path {
		return fmt.Errorf("%s %s: %w: want %s", p.of, path, err, p.want)
	}
	return fmt.Errorf("%s %s: %w: want %s, which is %s as a rule", p.of, path, err, p.want, p.usual)
}

// Why a place is not what was wanted.
var (
	errFolder  = errors.New("is a folder")
	errFile    = errors.New("is a file")
	errSpecial = errors.New("is a device, a pipe or a socket")
	errEmpty   = errors.New("is empty")
)

// read rewords an error in reading the place: what is missing, or forbidden to this user, is said with a remedy. A part
// of the path that is a file (ENOTDIR) counts as missing. Any other error is returned as it is. errors.Is still finds
// the system's errors, by which callers choose another place.
func (p place) read(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return p.wrong(path, reworded{fs.ErrNotExist, "is not there"})
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s %s: %w: it takes the daemon's user or root, as with sudo -u synergy before the command",
			p.of, path, reworded{fs.ErrPermission, "may not be read by you"})
	}
	return err
}

// reworded is an error in other words, which still is the same error by errors.Is.
type reworded struct {
	error
	words string
}

func (n reworded) Error() string { return n.words }
func (n reworded) Unwrap() error { return n.error }

// plainFile checks that a ledger may be at a path: a file that is not empty. It does not open it, since opening a pipe
// would wait for ever.
func plainFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return ledgerPlace.read(path, err)
	case info.IsDir():
		return ledgerPlace.wrong(path, errFolder)
	case !info.Mode().IsRegular():
		return ledgerPlace.wrong(path, errSpecial)
	case info.Size() == 0:
		return ledgerPlace.wrong(path, errEmpty)
	}
	return nil
}

// openLedger opens the ledger of a daemon that is down. While a daemon has it open the error is an Unseen: the path is
// right, and that daemon is the one to ask.
func openLedger(path string) (*ledger.Book, error) {
	if err := plainFile(path); err != nil {
		return nil, err
	}
	kept, err := ledger.Read(path)
	switch {
	case errors.Is(err, ledger.ErrLocked):
		return nil, Unseen{fmt.Errorf("a daemon has the ledger %s open: ask it, without --ledger", path)}
	case errors.Is(err, ledger.ErrAlien):
		return nil, ledgerPlace.wrong(path, reworded{ledger.ErrAlien, "is no ledger"})
	case err != nil:
		return nil, ledgerPlace.read(path, err)
	}
	return kept, nil
}

// openHistory opens the folder of a history. Its errors say what to name instead.
func openHistory(path string) (*history.Reader, error) {
	if err := folder(historyPlace, path); err != nil {
		return nil, err
	}
	past, err := history.Read(path)
	switch {
	// The folder is there, as was just checked: what is missing are its files, one a day.
	case errors.Is(err, fs.ErrNotExist):
		return nil, historyPlace.wrong(path, reworded{err, "has no day of a history"})
	case err != nil:
		return nil, historyPlace.read(path, err)
	}
	return past, nil
}

// folder checks that a folder is there and may be listed, so that the packages that read it need no errors for users.
func folder(p place, path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return p.wrong(path, errFile)
	}
	if err == nil {
		_, err = os.ReadDir(path)
	}
	if err != nil {
		return p.read(path, err)
	}
	return nil
}

// CheckSavings checks that a folder can be a ledger of savings. The note is for one that is empty, as at a site that
// has just started. An error is a folder that has other files only, which is most likely the wrong one.
func CheckSavings(path string) (note string, err error) {
	if err := folder(savingsPlace, path); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", savingsPlace.read(path, err)
	}
	ours := func(e fs.DirEntry) bool { return book.Owns(e.Name()) }
	switch {
	case len(entries) == 0:
		return "nothing was ever booked there: want " + savingsPlace.want, nil
	case !slices.ContainsFunc(entries, ours):
		return "", savingsPlace.wrong(path, errors.New("has no day of a ledger of savings, and other files"))
	}
	return "", nil
}
