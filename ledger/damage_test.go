package ledger_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

// written is the content of a ledger's file after some rounds.
func written(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger")
	book := open(t, path)
	for round := 1; round <= 6; round++ {
		jobs := make([]int, 0, 60)
		for job := round; job < round+60; job++ {
			jobs = append(jobs, job)
		}
		must(t, book.Intend(intentOf(round)))
		must(t, book.Settle(recordsOf(jobs...), reportOf(round)))
	}
	must(t, book.Close())
	content, err := os.ReadFile(path)
	must(t, err)
	return content
}

// tried opens content as a ledger and uses it for a round.
func tried(t *testing.T, content []byte) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger")
	must(t, os.WriteFile(path, content, 0o600))
	book, err := ledger.Open(path, ledger.Options{Keep: 3})
	if err != nil {
		return err
	}
	defer book.Close()
	if records, _ := load(t, book); len(content) > 0 && len(records) != 60 {
		t.Errorf("%d records are left", len(records))
	}
	must(t, book.Intend(intentOf(7)))
	must(t, book.Settle(recordsOf(5, 6), reportOf(7)))
	return nil
}

func TestATornLedgerIsRefusedOrWhole(t *testing.T) {
	content := written(t)
	refused := 0
	for end := 1000; end < len(content); end += os.Getpagesize() / 2 {
		err := tried(t, content[:end])
		if err != nil && !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("cut to %d of %d bytes: %v", end, len(content), err)
		}
		if err != nil {
			refused++
		}
	}
	if refused < 10 {
		t.Errorf("only %d cuts were noticed", refused)
	}
}

func TestALedgerThatWasCutAfterAFewBytesIsDamaged(t *testing.T) {
	content := written(t)
	for end := 1; end < 64; end++ {
		if err := tried(t, content[:end]); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("cut after %d bytes: %v", end, err)
		}
	}
}

func TestAPageOfGarbageNeverEndsTheProcess(t *testing.T) {
	content := written(t)
	refused := 0
	for page := 0; page < len(content)/os.Getpagesize(); page++ {
		spoilt := bytes.Clone(content)
		for i := range os.Getpagesize() {
			spoilt[page*os.Getpagesize()+i] ^= 0xA5
		}
		if err := tried(t, spoilt); errors.Is(err, ledger.ErrCorrupt) {
			refused++
		} else if err != nil {
			t.Errorf("page %d: %v", page, err)
		}
	}
	if refused == 0 {
		t.Error("no page was missed")
	}
}

// TestAPageThatLeadsBackIsDamageAndCostsNoMemory: bbolt would follow it for ever. Each leaf in turn becomes a branch
// that leads to itself, and then to the leaf of another.
func TestAPageThatLeadsBackIsDamageAndCostsNoMemory(t *testing.T) {
	content, size := written(t), os.Getpagesize()
	at := func(id int) []byte { return content[id*size:][:size] }
	var leaves []int
	for id := 2; id < len(content)/size; id++ {
		if page := at(id); binary.NativeEndian.Uint64(page) == uint64(id) && page[8] == 0x02 {
			leaves = append(leaves, id)
		}
	}
	refused := 0
	for i, id := range leaves {
		for _, to := range []int{id, leaves[(i+1)%len(leaves)]} {
			spoilt := bytes.Clone(content)
			page := spoilt[id*size:][:size]
			page[8] = 0x01
			binary.NativeEndian.PutUint16(page[10:], 1)
			binary.NativeEndian.PutUint64(page[16+8:], uint64(to))
			if err := tried(t, spoilt); errors.Is(err, ledger.ErrCorrupt) {
				refused++
			} else if err != nil {
				t.Errorf("page %d leads to %d: %v", id, to, err)
			}
		}
	}
	if refused < 2 { // of a page that is not in force nothing is seen
		t.Errorf("%d of %d leaves were missed", refused, len(leaves))
	}
}

func TestAFileOfZerosIsADamagedLedger(t *testing.T) {
	if err := tried(t, make([]byte, 20000)); !errors.Is(err, ledger.ErrCorrupt) {
		t.Error(err)
	}
}

func TestAnEmptyFileIsANewLedger(t *testing.T) {
	must(t, tried(t, nil))
}

func TestSomebodyElsesFileIsLeftWhereItIs(t *testing.T) {
	for _, content := range []string{"partitions: [gpu]\n", string(bytes.Repeat([]byte("precious"), 4000))} {
		if err := tried(t, []byte(content)); !errors.Is(err, ledger.ErrAlien) {
			t.Errorf("%.20q: %v", content, err)
		}
	}
}

// rewritten changes a ledger behind its back.
func rewritten(t *testing.T, change func(tx *bolt.Tx) error) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger")
	must(t, os.WriteFile(path, written(t), 0o600))
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(change))
	must(t, db.Close())
	_, err = ledger.Open(path, ledger.Options{})
	return err
}

func TestAnotherProgramsDatabaseIsLeftWhereItIs(t *testing.T) {
	err := rewritten(t, func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("meta")) })
	if !errors.Is(err, ledger.ErrAlien) {
		t.Error(err)
	}
}

func TestALedgerOfAnotherFormatIsNotGuessedAt(t *testing.T) {
	err := rewritten(t, func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("format"), binary.BigEndian.AppendUint64(nil, 5))
	})
	if !errors.Is(err, ledger.ErrNewer) {
		t.Error(err)
	}
}

// TestALedgerOfTheFormatBeforeIsReadAndRenewed: its records lack what came since; a daemon that does not know that must
// not open it any more.
func TestALedgerOfTheFormatBeforeIsReadAndRenewed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	book, err := ledger.Open(path, ledger.Options{})
	must(t, err)
	must(t, book.Close())
	format := []byte("format")
	inside(t, path, func(tx *bolt.Tx) error {
		old := `{"job":5,"first":"2026-01-01T12:00:00Z","attained_gpu_s":90,"done_ns":1,"until":"2026-01-01T12:00:00Z","gain":1,"starts":2,` +
			`"own":{"nodes":1,"tasks":1,"cpus_per_task":1,"cpus":1,"cpus_per_node":1,"gpus":1}}`
		return errors.Join(tx.Bucket([]byte("meta")).Put(format, binary.BigEndian.AppendUint64(nil, 1)),
			tx.Bucket([]byte("records")).Put(binary.BigEndian.AppendUint64(nil, 5), []byte(old)))
	})
	book, err = ledger.Open(path, ledger.Options{})
	must(t, err)
	records, _, err := book.Load()
	must(t, err)
	if r := records.Of(5); r == nil || r.Attained != 90 || r.Runs != 0 || r.Audit.Found != nil {
		t.Errorf("read %+v", r)
	}
	must(t, book.Close())
	inside(t, path, func(tx *bolt.Tx) error {
		if now := binary.BigEndian.Uint64(tx.Bucket([]byte("meta")).Get(format)); now != 4 {
			t.Errorf("it says format %d", now)
		}
		return nil
	})
}

// inside changes a ledger's file with nobody's help.
func inside(t *testing.T, path string, change func(*bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(change))
	must(t, db.Close())
}

func TestARecordThatSaysTooMuchIsDamage(t *testing.T) {
	for _, raw := range []string{`{"job":5,"surprise":1}`, `{"job":5} {"job":5}`, `{"job":6}`, `[]`, ``, `{"job":5`} {
		err := rewritten(t, func(tx *bolt.Tx) error {
			return tx.Bucket([]byte("records")).Put(binary.BigEndian.AppendUint64(nil, 5), []byte(raw))
		})
		if !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestAReportThatCannotBeReadIsDamage(t *testing.T) {
	err := rewritten(t, func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("reports")).Put([]byte("sixteen bytes ab"), []byte("{}"))
	})
	if !errors.Is(err, ledger.ErrCorrupt) {
		t.Error(err)
	}
}

func TestAReportThatCannotBeFoundIsDamage(t *testing.T) {
	err := rewritten(t, func(tx *bolt.Tx) error {
		reports := tx.Bucket([]byte("reports"))
		_, packed := reports.Cursor().First()
		return reports.Put([]byte("short"), bytes.Clone(packed))
	})
	if !errors.Is(err, ledger.ErrCorrupt) {
		t.Error(err)
	}
}

func TestAPageThatIsBothUsedAndFreeIsDamage(t *testing.T) {
	content := written(t)
	const leaf, freelist = 0x02, 0x10
	kind := func(page int) uint16 { return binary.NativeEndian.Uint16(content[page*os.Getpagesize()+8:]) }
	for page := range len(content) / os.Getpagesize() {
		if kind(page) == freelist {
			free := content[page*os.Getpagesize()+16:]
			binary.NativeEndian.PutUint64(free, lastOfKind(kind, len(content)/os.Getpagesize(), leaf))
		}
	}
	if err := tried(t, content); !errors.Is(err, ledger.ErrCorrupt) {
		t.Error(err)
	}
}

func lastOfKind(kind func(page int) uint16, pages int, wanted uint16) uint64 {
	last := 0
	for page := range pages {
		if kind(page) == wanted {
			last = page
		}
	}
	return uint64(last)
}

func TestARefusedLedgerIsNotKeptLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	content := written(t)
	for end := 3 * os.Getpagesize(); end < len(content); end += os.Getpagesize() {
		must(t, os.WriteFile(path, content[:end], 0o600))
		for range 2 {
			book, err := ledger.Open(path, ledger.Options{Wait: time.Millisecond})
			if err == nil {
				book.Close()
			} else if !errors.Is(err, ledger.ErrCorrupt) {
				t.Errorf("cut to %d bytes: %v", end, err)
			}
		}
	}
}

func TestALedgerWithoutABucketIsDamaged(t *testing.T) {
	for _, name := range []string{"records", "intent", "reports"} {
		err := rewritten(t, func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(name)) })
		if !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALedgerThatMayNotBeOpenedIsNotCalledDamaged(t *testing.T) {
	_, err := ledger.Open(filepath.Join(t.TempDir(), "missing", "ledger"), ledger.Options{})
	if !errors.Is(err, os.ErrNotExist) || errors.Is(err, ledger.ErrCorrupt) {
		t.Error(err)
	}
}

func TestADamagedLedgerIsKeptUnderAnotherName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	torn := written(t)[:9000]
	must(t, os.WriteFile(path, torn, 0o600))
	aside, err := ledger.SetAside(path, noon)
	must(t, err)
	equal(t, "the new name", aside, path+".corrupt-20261121T120000Z")
	kept, err := os.ReadFile(aside)
	must(t, err)
	if !bytes.Equal(kept, torn) {
		t.Error("its content changed")
	}
	open(t, path)
	if _, err := ledger.SetAside(filepath.Join(path, "none"), noon); err == nil {
		t.Error("a missing file was set aside")
	}
}

func FuzzALedgerOfAnyContentIsOpenedOrRefused(f *testing.F) {
	f.Add([]byte("x"))
	f.Add([]byte(fmt.Sprintf("%16s\xed\xda\x0c\xed", "")))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "ledger")
		must(t, os.WriteFile(path, content, 0o600))
		if book, err := ledger.Open(path, ledger.Options{}); err == nil {
			load(t, book)
			book.Close()
		}
	})
}
