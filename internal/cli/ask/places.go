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

// daemonPath describes a place of the daemon for error messages: the flag or the word for it, what it should be, and
// its usual path.
type daemonPath struct{ flag, want, usual string }

// The places.
var (
	ledgerPlace  = daemonPath{"ledger", "the file that the daemon has as its ledger", UsualLedger}
	historyPlace = daemonPath{"--history", "the folder of the daemon's history", UsualHistory}
	savingsPlace = daemonPath{"--book", "the folder that the daemon's configuration has as savings", UsualSavings}
)

// contentError is the error of a path at which something else was found (err) than was wanted. It also names the
// place's usual path, unless the path is that already.
func (p daemonPath) contentError(path string, err error) error {
	if p.usual == path {
		return fmt.Errorf("%s %s: %w: want %s", p.flag, path, err, p.want)
	}
	return fmt.Errorf("%s %s: %w: want %s, which is %s as a rule", p.flag, path, err, p.want, p.usual)
}

// Why a place is not what was wanted.
var (
	errFolder  = errors.New("is a folder")
	errFile    = errors.New("is a file")
	errSpecial = errors.New("is a device, a pipe or a socket")
	errEmpty   = errors.New("is empty")
)

// readError rewords an error in reading the place, so that a missing path, or one that this user may not read, is told
// with a remedy. A path of which a part is a file (ENOTDIR) counts as missing. Any other error is returned as it is.
// errors.Is still finds the system's error in the result, since callers then try another place.
func (p daemonPath) readError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return p.contentError(path, rewordedError{fs.ErrNotExist, "is not there"})
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s %s: %w: it takes the daemon's user or root, as with sudo -u synergy before the command",
			p.flag, path, rewordedError{fs.ErrPermission, "may not be read by you"})
	}
	return err
}

// rewordedError is an error in other words, which still is the same error by errors.Is.
type rewordedError struct {
	error
	words string
}

func (n rewordedError) Error() string { return n.words }
func (n rewordedError) Unwrap() error { return n.error }

// checkLedgerFile checks that a ledger may be at a path: a file that is not empty. It does not open it, since opening a
// pipe would wait for ever.
func checkLedgerFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return ledgerPlace.readError(path, err)
	case info.IsDir():
		return ledgerPlace.contentError(path, errFolder)
	case !info.Mode().IsRegular():
		return ledgerPlace.contentError(path, errSpecial)
	case info.Size() == 0:
		return ledgerPlace.contentError(path, errEmpty)
	}
	return nil
}

// openLedger opens the ledger of a daemon that is down. While a daemon has it open the error is an Unseen: the path is
// right, and that daemon is the one to ask.
func openLedger(path string) (*ledger.Book, error) {
	if err := checkLedgerFile(path); err != nil {
		return nil, err
	}
	kept, err := ledger.Read(path)
	switch {
	case errors.Is(err, ledger.ErrLocked):
		return nil, Unseen{fmt.Errorf("a daemon has the ledger %s open: ask it, without --ledger", path)}
	case errors.Is(err, ledger.ErrAlien):
		return nil, ledgerPlace.contentError(path, rewordedError{ledger.ErrAlien, "is no ledger"})
	case err != nil:
		return nil, ledgerPlace.readError(path, err)
	}
	return kept, nil
}

// openHistory opens the folder of a history. Its errors say what to name instead.
func openHistory(path string) (*history.Reader, error) {
	if err := checkFolder(historyPlace, path); err != nil {
		return nil, err
	}
	past, err := history.Read(path)
	switch {
	// The folder is there, as was just checked: what is missing are its files, one a day.
	case errors.Is(err, fs.ErrNotExist):
		return nil, historyPlace.contentError(path, rewordedError{err, "has no day of a history"})
	case err != nil:
		return nil, historyPlace.readError(path, err)
	}
	return past, nil
}

// checkFolder checks that a folder is there and may be listed. It is called before a package reads the folder, since
// that package's own errors do not tell a user what to name instead.
func checkFolder(p daemonPath, path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return p.contentError(path, errFile)
	}
	if err == nil {
		_, err = os.ReadDir(path)
	}
	if err != nil {
		return p.readError(path, err)
	}
	return nil
}

// CheckSavings checks that a folder can be a ledger of savings. An empty folder is one, as at a site that has just
// started, and the note says that nothing is booked there. A folder that has only other files is an error, since most
// likely it is the wrong one.
func CheckSavings(path string) (note string, err error) {
	if err := checkFolder(savingsPlace, path); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", savingsPlace.readError(path, err)
	}
	ours := func(e fs.DirEntry) bool { return book.Owns(e.Name()) }
	switch {
	case len(entries) == 0:
		return "nothing was ever booked there: want " + savingsPlace.want, nil
	case !slices.ContainsFunc(entries, ours):
		return "", savingsPlace.contentError(path, errors.New("has no day of a ledger of savings, and other files"))
	}
	return "", nil
}
