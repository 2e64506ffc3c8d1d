package ledger_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/synergy-slurmd/synergy-slurmd/history"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

// settled is a ledger after a round that settled so many jobs.
func settled(t *testing.T, path string, round, jobs int) {
	t.Helper()
	book, err := ledger.Open(path, ledger.Options{Keep: 3})
	must(t, err)
	all := make([]int, jobs)
	for k := range all {
		all[k] = k + 1
	}
	must(t, book.Settle(recordsOf(all...), reportOf(round)))
	must(t, book.Close())
}

// inFolder are the files of a daemon in a folder of its own.
func inFolder(t *testing.T) ledger.Files {
	t.Helper()
	folder := t.TempDir()
	return ledger.Files{Ledger: filepath.Join(folder, "ledger"), History: filepath.Join(folder, "history")}
}

// past is a day of a history, of which the ledger knows nothing but that it is a database.
func past(t *testing.T, path, said string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists([]byte("past"))
		must(t, err)
		within, err := bucket.CreateBucketIfNotExists([]byte("day"))
		must(t, err)
		return within.Put([]byte("said"), []byte(said))
	}))
	must(t, db.Close())
}

func TestWhatIsRestoredIsWhatWasBackedUpAndWhatWasThereIsKept(t *testing.T) {
	files, backup := inFolder(t), filepath.Join(t.TempDir(), "backup")
	days := []string{"2026-11-20.history", "2026-11-21.history"}
	settled(t, files.Ledger, 41, 3)
	for _, day := range days {
		past(t, filepath.Join(files.History, day), "then")
	}
	must(t, os.WriteFile(filepath.Join(files.History, "notes.txt"), []byte("somebody's"), 0o600))
	saved, err := ledger.Backup(files, backup)
	must(t, err)
	equal(t, "what is backed up", saved, ledger.Content{Round: 41, Jobs: 3, Days: 2})

	settled(t, files.Ledger, 42, 5)
	past(t, filepath.Join(files.History, days[1]), "now")
	content, kept, err := ledger.Restore(backup, ledger.Files{Ledger: files.Ledger, History: files.History + "/"}, noon)
	must(t, err)
	equal(t, "what is restored", content, saved)
	equal(t, "what is kept", kept, []string{files.History + ".before-20261121T120000Z",
		files.Ledger + ".before-20261121T120000Z"})

	records, _ := load(t, open(t, files.Ledger))
	equal(t, "the records", records, recordsOf(1, 2, 3))
	equal(t, "what was there", open(t, kept[1]).LastRound(), 42)
	for folder, said := range map[string]string{files.History: "then", kept[0]: "now"} {
		inside(t, filepath.Join(folder, days[1]), func(tx *bolt.Tx) error {
			equal(t, folder, string(tx.Bucket([]byte("past")).Bucket([]byte("day")).Get([]byte("said"))), said)
			return nil
		})
	}
	for _, path := range []string{backup, files.Ledger, filepath.Join(files.History, days[0])} {
		info, err := os.Stat(path)
		must(t, err)
		equal(t, "who reads "+path, info.Mode(), os.FileMode(0o600))
	}
	onlyThese(t, filepath.Dir(backup), "backup")
	onlyThese(t, files.History, days...)
	onlyThese(t, filepath.Dir(files.Ledger), "history", "history.before-20261121T120000Z", "ledger",
		"ledger.before-20261121T120000Z")
}

func TestADayOfTheHistoryThatIsDamagedCostsABackupNothingElse(t *testing.T) {
	files, backup := inFolder(t), filepath.Join(t.TempDir(), "backup")
	settled(t, files.Ledger, 41, 3)
	past(t, filepath.Join(files.History, "2026-11-20.history"), "then")
	torn := filepath.Join(files.History, "2026-11-21.history")
	past(t, torn, "then")
	must(t, os.Truncate(torn, 9000))
	saved, err := ledger.Backup(files, backup)
	must(t, err)
	equal(t, "what is backed up", saved, ledger.Content{Round: 41, Jobs: 3, Days: 1,
		Damaged: []string{"2026-11-21.history"}})
}

func onlyThese(t *testing.T, folder string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	must(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	equal(t, "the files of "+folder, names, want)
}

// TestABackupOfALedgerThatIsBeingWrittenToIsOneStateOfIt: round n settles n jobs, so any mixture shows.
func TestABackupOfALedgerThatIsBeingWrittenToIsOneStateOfIt(t *testing.T) {
	files, elsewhere := inFolder(t), inFolder(t)
	book := open(t, files.Ledger)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	defer func() {
		close(stop)
		must(t, <-stopped)
	}()
	first := make(chan struct{})
	go func() {
		jobs := []int{}
		for round := 1; ; round++ {
			jobs = append(jobs, round)
			err := errors.Join(book.Intend(intentOf(round)), book.Settle(recordsOf(jobs...), reportOf(round)))
			if round == 1 {
				close(first)
			}
			select {
			case <-stop:
				stopped <- err
				return
			case <-time.After(2 * time.Millisecond):
			}
			if err != nil {
				stopped <- err
				return
			}
		}
	}()
	<-first
	last := 0
	for k := range 25 {
		backup := filepath.Join(t.TempDir(), "backup")
		saved, err := ledger.Backup(files, backup)
		if err != nil {
			t.Errorf("backup %d: %v", k, err)
			continue
		}
		restored, _, err := ledger.Restore(backup, elsewhere, noon.Add(time.Duration(k)*time.Second))
		must(t, err)
		if restored.Round != saved.Round || restored.Jobs != saved.Jobs || saved.Round != saved.Jobs ||
			saved.Round < last {
			t.Errorf("backup %d: saved %+v, restored %+v after round %d", k, saved, restored, last)
		}
		last = saved.Round
	}
	if last < 5 {
		t.Errorf("only %d rounds were held meanwhile", last)
	}
}

func TestADamagedBackupChangesNothing(t *testing.T) {
	files, backup := inFolder(t), filepath.Join(t.TempDir(), "backup")
	settled(t, files.Ledger, 41, 3)
	past(t, filepath.Join(files.History, "2026-11-21.history"), "then")
	_, err := ledger.Backup(files, backup)
	must(t, err)
	whole, err := os.ReadFile(backup)
	must(t, err)
	before, err := os.ReadFile(files.Ledger)
	must(t, err)

	spoilt := map[string][]byte{
		"nothing": {}, "text": []byte("precious"), "more": append(bytes.Clone(whole), 1),
	}
	for end := 1; end < len(whole); end += len(whole)/40 + 1 {
		spoilt["cut to "+time.Duration(end).String()] = whole[:end]
		turned := bytes.Clone(whole)
		turned[end] ^= 0x10
		// A bit may say in another way what comes out, as for long rows of zeros, or when it was made.
		if !bytes.Equal(unzipped(turned), unzipped(whole)) {
			spoilt["turned at "+time.Duration(end).String()] = turned
		}
	}
	for how, content := range spoilt {
		must(t, os.WriteFile(backup, content, 0o600))
		if _, kept, err := ledger.Restore(backup, files, noon); !errors.Is(err, ledger.ErrNoBackup) || kept != nil {
			t.Errorf("%s: %v, kept %v", how, err, kept)
		}
	}
	after, err := os.ReadFile(files.Ledger)
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the ledger has changed")
	}
	onlyThese(t, filepath.Dir(files.Ledger), "history", "ledger")
}

// unzipped is what comes out of an archive, as far as it goes.
func unzipped(text []byte) []byte {
	zipped, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil
	}
	plain, _ := io.ReadAll(zipped)
	return plain
}

// packed is an archive of our kind with one file.
func packed(t *testing.T, name string, content []byte) string {
	t.Helper()
	var text bytes.Buffer
	zipped := gzip.NewWriter(&text)
	tape := tar.NewWriter(zipped)
	must(t, tape.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}))
	_, err := tape.Write(content)
	must(t, errors.Join(err, tape.Close(), zipped.Close()))
	path := filepath.Join(t.TempDir(), "backup")
	must(t, os.WriteFile(path, text.Bytes(), 0o600))
	return path
}

func TestAnArchiveOfSomethingElseIsNoBackup(t *testing.T) {
	for name, content := range map[string]string{"../../etc/passwd": "root", "ledger": "precious", "history": ""} {
		files := inFolder(t)
		_, _, err := ledger.Restore(packed(t, name, []byte(content)), files, noon)
		if !errors.Is(err, ledger.ErrNoBackup) {
			t.Errorf("%s: %v", name, err)
		}
		onlyThese(t, filepath.Dir(files.Ledger))
	}
}

func TestABackupOfALaterDaemonIsRefusedAndThatOfAnEarlierOneIsRestored(t *testing.T) {
	later := filepath.Join(t.TempDir(), "ledger")
	settled(t, later, 1, 1)
	inside(t, later, func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("format"), binary.BigEndian.AppendUint64(nil, 5))
	})
	content, err := os.ReadFile(later)
	must(t, err)
	files := inFolder(t)
	if _, _, err := ledger.Restore(packed(t, "ledger", content), files, noon); !errors.Is(err, ledger.ErrNewer) ||
		!strings.Contains(err.Error(), "of a later daemon: restore it by that one") {
		t.Errorf("a later one: %v", err)
	}
	onlyThese(t, filepath.Dir(files.Ledger))

	content, err = os.ReadFile(ofRelease(t, "v0.1.0"))
	must(t, err)
	restored, kept, err := ledger.Restore(packed(t, "ledger", content), files, noon)
	must(t, err)
	equal(t, "an earlier one", restored, ledger.Content{Round: 41, Jobs: 3})
	equal(t, "where nothing was there, what is kept", len(kept), 0)
	records, _ := load(t, open(t, files.Ledger))
	equal(t, "its records", records, recordsOf(3, 5, 8))
}

func TestNothingIsRestoredUnderADaemonThatRuns(t *testing.T) {
	files, backup := inFolder(t), filepath.Join(t.TempDir(), "backup")
	book := open(t, files.Ledger)
	must(t, book.Settle(nil, reportOf(7)))
	_, err := ledger.Backup(files, backup)
	must(t, err)
	if _, _, err := ledger.Restore(backup, files, noon); !errors.Is(err, ledger.ErrLocked) {
		t.Error(err)
	}
	must(t, book.Close())
	_, _, err = ledger.Restore(backup, files, noon)
	must(t, err)
}

// TestADaemonThatWaitedForALedgerDoesNotWriteToTheOneThatWasReplaced: it would have the old file under its new name.
func TestADaemonThatWaitedForALedgerDoesNotWriteToTheOneThatWasReplaced(t *testing.T) {
	files := inFolder(t)
	settled(t, files.Ledger, 41, 3)
	held, err := os.OpenFile(files.Ledger, os.O_RDWR, 0)
	must(t, err)
	must(t, syscall.Flock(int(held.Fd()), syscall.LOCK_EX))
	opened := make(chan error)
	go func() {
		book, err := ledger.Open(files.Ledger, ledger.Options{Wait: time.Minute})
		if err == nil {
			book.Close()
		}
		opened <- err
	}()
	time.Sleep(100 * time.Millisecond) // most likely it waits by now; the test holds if it does not yet
	must(t, os.Rename(files.Ledger, files.Ledger+".before"))
	must(t, held.Close())
	if err := <-opened; err != nil && !errors.Is(err, ledger.ErrLocked) {
		t.Error(err)
	} else if err == nil {
		if _, err := os.Stat(files.Ledger); err != nil {
			t.Error("it has opened the one that was replaced")
		}
	}
}

// full has no file of this process grow beyond a few kilobytes, as on a disk that is full.
func full(t *testing.T) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 6000, Max: 6000}))
}

// TestOnAFullDiskNeitherBackupNorRestoreChangesAnything has a copy of itself meet the full disk.
func TestOnAFullDiskNeitherBackupNorRestoreChangesAnything(t *testing.T) {
	const folders = "SYNERGY_TEST_FULL"
	if here, is := os.LookupEnv(folders); is {
		full(t)
		files, backup := ledger.Files{Ledger: filepath.Join(here, "ledger")}, filepath.Join(here, "backup")
		if _, err := ledger.Backup(files, backup); !errors.Is(err, syscall.EFBIG) {
			t.Errorf("a backup: %v", err)
		}
		_, _, err := ledger.Restore(backup, files, noon)
		if !errors.Is(err, syscall.EFBIG) || errors.Is(err, ledger.ErrNoBackup) {
			t.Errorf("a restoration: %v", err)
		}
		return
	}
	files := inFolder(t)
	folder := filepath.Dir(files.Ledger)
	backup := filepath.Join(folder, "backup")
	settled(t, files.Ledger, 41, 3)
	_, err := ledger.Backup(files, backup)
	must(t, err)
	settled(t, files.Ledger, 42, 5)

	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), folders+"="+folder)
	if said, err := again.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	onlyThese(t, folder, "backup", "ledger")
	equal(t, "the ledger's last round", open(t, files.Ledger).LastRound(), 42)
	restored, _, err := ledger.Restore(backup, inFolder(t), noon)
	must(t, err)
	equal(t, "the backup", restored, ledger.Content{Round: 41, Jobs: 3})
}

func TestADamagedLedgerIsNotBackedUpOverAGoodBackup(t *testing.T) {
	files, backup := inFolder(t), filepath.Join(t.TempDir(), "backup")
	for how, content := range map[string][]byte{"torn": written(t)[:9000], "alien": []byte("partitions: [gpu]\n")} {
		must(t, os.WriteFile(backup, []byte("good"), 0o600))
		must(t, os.WriteFile(files.Ledger, content, 0o600))
		_, err := ledger.Backup(files, backup)
		if !errors.Is(err, ledger.ErrCorrupt) && !errors.Is(err, ledger.ErrAlien) {
			t.Errorf("%s: %v", how, err)
		}
		if kept, err := os.ReadFile(backup); err != nil || string(kept) != "good" {
			t.Errorf("%s: the backup is %q, %v", how, kept, err)
		}
	}
	if _, err := ledger.Backup(inFolder(t), backup); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no ledger: %v", err)
	}
}

func FuzzABackupOfAnyContentIsRestoredOrRefused(f *testing.F) {
	f.Add([]byte("ledger"), []byte("x"), true)
	f.Add([]byte(""), []byte("\x1f\x8b\x08"), false)
	f.Fuzz(func(t *testing.T, name, content []byte, wrap bool) {
		path := filepath.Join(t.TempDir(), "backup")
		if wrap {
			var text bytes.Buffer
			zipped := gzip.NewWriter(&text)
			tape := tar.NewWriter(zipped)
			if tape.WriteHeader(&tar.Header{Name: string(name), Size: int64(len(content))}) != nil {
				return
			}
			if _, err := tape.Write(content); err != nil {
				return // a folder, by its name
			}
			must(t, errors.Join(tape.Close(), zipped.Close()))
			content = text.Bytes()
		}
		must(t, os.WriteFile(path, content, 0o600))
		files := inFolder(t)
		if _, _, err := ledger.Restore(path, files, noon); err != nil {
			onlyThese(t, filepath.Dir(files.Ledger))
			return
		}
		load(t, open(t, files.Ledger))
	})
}

// TestABackupKnowsTheDaysThatTheHistoryWrites: what their files are called is the history's to say.
func TestABackupKnowsTheDaysThatTheHistoryWrites(t *testing.T) {
	files, backup := inFolder(t), filepath.Join(t.TempDir(), "backup")
	settled(t, files.Ledger, 41, 3)
	store, err := history.Open(files.History, history.Options{LeastFree: 1})
	must(t, err)
	report := reportOf(41)
	report.Snapshot.Now = noon
	must(t, store.Note(&report))
	saved, err := ledger.Backup(files, backup) // beside the daemon that writes it
	must(t, err)
	must(t, store.Close())
	elsewhere := inFolder(t)
	restored, _, err := ledger.Restore(backup, elsewhere, noon)
	must(t, err)
	if saved.Days != 1 || restored.Days != 1 {
		t.Errorf("%d days are backed up, %d restored, want one", saved.Days, restored.Days)
	}
	reader, err := history.Read(elsewhere.History)
	must(t, err)
	if _, gaps, err := reader.Story(t.Context(), 1); err != nil || gaps != nil {
		t.Errorf("what is restored cannot be read: %v, %v", gaps, err)
	}
}
