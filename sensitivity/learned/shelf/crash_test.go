package shelf

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
)

var noon = time.Unix(1767268800, 0).UTC()

func taught(user, job string, minute int) *learned.Entry {
	var e *learned.Entry
	return e.With(learned.Key{User: user, Job: job}, learned.Report{
		Job: 7, At: noon.Add(time.Duration(minute) * time.Minute), Latest: noon.Add(24 * time.Hour),
		GPUType: "v100", GPUs: 1, Memory: 1000, Way: learned.Curve, Rates: []learned.Rate{{Cores: 1, Rate: 10}},
	})
}

// fate is what becomes of one call to the disk.
type fate string

const (
	diesBefore fate = "dies before"
	diesHalf   fate = "dies half way"
	diesAfter  fate = "dies after"
	isFull     fate = "finds the disk full at"
	readOnly   fate = "finds the disk read-only from"
)

// fragile is a folder at whose n-th call something happens. Who is dead does nothing more.
type fragile struct {
	folder
	n     int
	fate  fate
	calls int
	dead  bool
}

var errDead = errors.New("the daemon is dead")

// meet says whether the call comes about, and how it ends if it does not end by itself.
func (f *fragile) meet(half func()) (comes bool, ends error) {
	f.calls++
	switch {
	case f.dead:
		return false, errDead
	case f.fate == readOnly && f.calls >= f.n:
		return false, syscall.EROFS
	case f.calls != f.n:
		return true, nil
	case f.fate == isFull:
		half()
		return false, syscall.ENOSPC
	}
	f.dead = true
	if f.fate == diesHalf {
		half()
	}
	return f.fate == diesAfter, errDead
}

func (f *fragile) do(half func(), whole func() error) error {
	comes, ends := f.meet(half)
	if !comes {
		return ends
	}
	return errors.Join(whole(), ends)
}

func (f *fragile) write(name string, text []byte) error {
	half := func() { _ = os.WriteFile(f.path(name), text[:len(text)/2], 0o644) }
	return f.do(half, func() error { return f.folder.write(name, text) })
}

func (f *fragile) rename(from, to string) error {
	return f.do(func() {}, func() error { return f.folder.rename(from, to) })
}

func (f *fragile) remove(name string) error {
	return f.do(func() {}, func() error { return f.folder.remove(name) })
}

func (f *fragile) sync() error { return f.do(func() {}, f.folder.sync) }

// full is a folder in which mallory has as many names as he may, and alice and bob one each.
func full(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	entries := []*learned.Entry{taught("alice", "vision", 1), taught("bob", "vision", 2)}
	for k := range MaxOfUser {
		entries = append(entries, taught("mallory", fmt.Sprint("job", k), 3+k))
	}
	for _, e := range entries {
		text, err := e.Print()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fileOf(e.Key())), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// opened is the folder as a daemon finds it that is started now: all that is there has to be whole.
func opened(t *testing.T, dir string) *Shelf {
	t.Helper()
	s, wrong, err := Open(dir)
	if err != nil || len(wrong) > 0 {
		t.Fatal(err, wrong)
	}
	if hidden, _ := filepath.Glob(filepath.Join(dir, ".*")); len(hidden) > 0 {
		t.Errorf("%q is left there", hidden)
	}
	return s
}

func printed(t *testing.T, s *Shelf) map[learned.Key]string {
	t.Helper()
	all := map[learned.Key]string{}
	for _, e := range s.All() {
		text, err := e.Print()
		if err != nil {
			t.Fatal(err)
		}
		all[e.Key()] = string(text)
	}
	return all
}

// TestWhereverAWriteEndsTheShelfIsWholeAndEverybodyElsesIsAsItWas lets the daemon die in each call to the disk in turn,
// and the disk be full or read-only: of an entry that is new, and crowds out another, and of one that is there already.
func TestWhereverAWriteEndsTheShelfIsWholeAndEverybodyElsesIsAsItWas(t *testing.T) {
	before := full(t)
	for what, e := range map[string]*learned.Entry{
		"new": taught("mallory", "another", 99), "known": taught("mallory", "job0", 99),
	} {
		for _, fate := range []fate{diesBefore, diesHalf, diesAfter, isFull, readOnly} {
			for n := 1; ; n++ {
				dir := filepath.Join(t.TempDir(), "learned")
				if err := os.CopyFS(dir, os.DirFS(before)); err != nil {
					t.Fatal(err)
				}
				f := &fragile{folder: folder(dir), n: n, fate: fate}
				t.Run(fmt.Sprintf("%s, %s call %d", what, fate, n), func(t *testing.T) { f.keepOnce(t, e) })
				if f.calls < n {
					break
				}
			}
		}
	}
}

// keepOnce keeps the entry on the fragile folder, opens that anew, and keeps it again.
func (f *fragile) keepOnce(t *testing.T, e *learned.Entry) {
	s := opened(t, string(f.folder))
	was := printed(t, s)
	s.disk = f
	err := s.Keep(e)
	if f.calls >= f.n && err == nil {
		t.Error("nobody is told of it")
	}
	if !f.dead {
		f.mustAgree(t, s)
	}
	is := printed(t, opened(t, string(f.folder)))
	mustHaveBeenSpared(t, was, is)
	if unwritten := f.n <= 2; unwritten && !maps.Equal(was, is) {
		t.Error("it could not be written, and another one is gone")
	}
	s = opened(t, string(f.folder))
	if err := s.Keep(e); err != nil {
		t.Fatal(err)
	}
	if s.Of(e.Key()) != e || len(s.All()) != MaxOfUser+2 {
		t.Errorf("afterwards there are %d entries, want %d and the new one among them", len(s.All()), MaxOfUser+2)
	}
	f.mustAgree(t, s)
}

// mustAgree checks that who lives on knows what is on the disk.
func (f *fragile) mustAgree(t *testing.T, s *Shelf) {
	t.Helper()
	there, wrong, err := readAll(string(f.folder))
	if err != nil || len(wrong) > 0 {
		t.Fatal(err, wrong)
	}
	for key := range there {
		if s.Of(key) == nil {
			t.Errorf("%v is on the disk alone", key)
		}
	}
	for _, e := range s.All() {
		if there[e.Key()] == nil && f.fate != isFull && f.fate != readOnly {
			t.Errorf("%v is in memory alone", e.Key())
		}
	}
}

// mustHaveBeenSpared checks that of all others at most mallory's oldest is gone, and that none has changed.
func mustHaveBeenSpared(t *testing.T, was, is map[learned.Key]string) {
	t.Helper()
	if len(is) < MaxOfUser+1 || len(is) > MaxOfUser+2 {
		t.Errorf("%d entries of %d are there", len(is), len(was))
	}
	for key, text := range was {
		if is[key] != text && key != (learned.Key{User: "mallory", Job: "job0"}) {
			t.Errorf("%v was\n%s\nis\n%s", key, text, is[key])
		}
	}
}

// forgetful is a disk that does nothing: only what is in memory is looked at.
type forgetful struct{}

func (forgetful) write(string, []byte) error  { return nil }
func (forgetful) rename(string, string) error { return nil }
func (forgetful) remove(string) error         { return nil }
func (forgetful) sync() error                 { return nil }

// TestOnAFullShelfWhoHasTheMostLosesHisOldest: also where everybody has one, and the one who comes last has none to
// lose.
func TestOnAFullShelfWhoHasTheMostLosesHisOldest(t *testing.T) {
	few := []string{"greedy"}
	for k := range MaxAll - 1 {
		few = append(few, fmt.Sprint("user", k))
	}
	for _, c := range []struct{ next, loses string }{{"aaa", "greedy"}, {"zzz", "greedy"}, {"user7", "user7"}} {
		s := &Shelf{dir: t.TempDir(), disk: forgetful{}, entries: map[learned.Key]*learned.Entry{}}
		for k, user := range few {
			e := taught(user, "vision", k)
			s.entries[e.Key()] = e
		}
		before := slices.Collect(maps.Keys(s.entries))
		if err := s.Keep(taught(c.next, "new", 9999)); err != nil {
			t.Fatal(err)
		}
		for _, key := range before {
			if (s.Of(key) == nil) != (key.User == c.loses) {
				t.Errorf("%s comes: %s has %v", c.next, key.User, s.Of(key))
			}
		}
		if n := len(s.All()); n != MaxAll {
			t.Errorf("%d entries, want %d", n, MaxAll)
		}
	}
}

// TestASecondDaemonsLessonsAreTakenOverAndNotWrittenOver: what it has taught since stands, here as well, and what is
// learned next follows from it.
func TestASecondDaemonsLessonsAreTakenOverAndNotWrittenOver(t *testing.T) {
	dir := t.TempDir()
	first, second := opened(t, dir), opened(t, dir)
	mine, theirs := taught("alice", "vision", 1), taught("alice", "vision", 5)
	if err := first.Keep(mine); err != nil {
		t.Fatal(err)
	}
	if err := second.Keep(theirs); !errors.Is(err, errNewerEntry) {
		t.Errorf("the second writes over what it never read: %v", err)
	}
	known := second.Of(mine.Key())
	if known == nil || !known.Updated.Equal(mine.Updated) {
		t.Fatalf("it knows %+v, want what the first has taught", known)
	}
	if err := second.Keep(theirs); err != nil {
		t.Errorf("what follows from it is not kept: %v", err)
	}
	if _, err := first.Renew(); err != nil || !first.Of(mine.Key()).Updated.Equal(theirs.Updated) {
		t.Errorf("after it has read the folder again the first knows %+v: %v", first.Of(mine.Key()), err)
	}
}

// TestAFolderInWhichEverybodyMayWriteIsNotOpened: who can make a file could teach in any name.
func TestAFolderInWhichEverybodyMayWriteIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "mode 0777: want") {
		t.Errorf("it is opened: %v", err)
	}
}
