package emulate_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/emulate"
)

func store(t *testing.T) emulate.Store {
	return emulate.Store{Path: filepath.Join(t.TempDir(), "ckpt")}
}

// saved saves n checkpoints with 100, 200, … iterations and returns the last.
func saved(t *testing.T, s emulate.Store, n int) emulate.State {
	t.Helper()
	var state emulate.State
	for i := range n {
		state = emulate.State{Job: "17", Model: "res18", Saves: i + 1, Starts: 1, Iterations: int64(i+1) * 100}
		if err := s.Save(state); err != nil {
			t.Fatal(err)
		}
	}
	return state
}

func files(t *testing.T, s emulate.Store) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(s.Path))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestTheNewestCheckpointIsLoadedAndTheLastTwoAreKept(t *testing.T) {
	for n := 1; n <= 4; n++ {
		s := store(t)
		want := saved(t, s, n)
		got, err := s.Load()
		if err != nil || got.Saves != want.Saves || got.Iterations != want.Iterations || got.Job != "17" ||
			got.Model != "res18" {
			t.Errorf("after %d checkpoints: %+v, %v", n, got, err)
		}
	}
	s := store(t)
	saved(t, s, 4)
	if got := files(t, s); !slices.Equal(got, []string{"ckpt.0", "ckpt.1"}) {
		t.Errorf("files %v", got)
	}
}

func TestNoCheckpointIsToldApartFromADamagedOne(t *testing.T) {
	s := store(t)
	if _, err := s.Load(); !errors.Is(err, emulate.ErrNoState) {
		t.Errorf("none: %v", err)
	}
	overwrite(t, s.Path+".1", []byte("{}"))
	if got, err := s.Load(); !errors.Is(err, emulate.ErrDamaged) || errors.Is(err, emulate.ErrNoState) {
		t.Errorf("damaged: %+v, %v", got, err)
	}
}

func TestATornCheckpointNeverWins(t *testing.T) {
	s := store(t)
	saved(t, s, 3)
	whole := contents(t, s.Path+".1")
	for length := range whole {
		overwrite(t, s.Path+".1", whole[:length])
		if got, err := s.Load(); err != nil || got.Iterations != 200 {
			t.Fatalf("torn after %d bytes: %+v, %v", length, got, err)
		}
	}
}

func TestACheckpointWithAFlippedBitNeverWins(t *testing.T) {
	s := store(t)
	saved(t, s, 3)
	whole := contents(t, s.Path+".1")
	for i := range whole {
		for bit := range 8 {
			flipped := slices.Clone(whole)
			flipped[i] ^= 1 << bit
			overwrite(t, s.Path+".1", flipped)
			if got, err := s.Load(); err != nil || got.Iterations != 200 {
				t.Fatalf("bit %d of byte %d: %+v, %v", bit, i, got, err)
			}
		}
	}
}

func TestWhatWasLeftByASaveThatDiedIsNotLookedAt(t *testing.T) {
	s := store(t)
	overwrite(t, s.Path+".tmp", []byte(`{"version":1,"saves":9`))
	saved(t, s, 2)
	if got, err := s.Load(); err != nil || got.Iterations != 200 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAFollowerReadsCheckpointsAndWritesNone(t *testing.T) {
	s := store(t)
	saved(t, s, 2)
	before := contents(t, s.Path+".0")
	follower := emulate.Store{Path: s.Path, Follows: true}
	if got, err := follower.Load(); err != nil || got.Iterations != 200 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := errors.Join(follower.Save(emulate.State{Saves: 4}), follower.Note(300)); err != nil {
		t.Error(err)
	}
	if got := files(t, s); !slices.Equal(got, []string{"ckpt.0", "ckpt.1"}) ||
		!slices.Equal(before, contents(t, s.Path+".0")) {
		t.Errorf("it wrote: %v", got)
	}
}

func TestANoteThatCannotBeReadIsNone(t *testing.T) {
	s := store(t)
	if got := s.Seen(); got != 0 {
		t.Errorf("no note: %d", got)
	}
	if err := s.Note(1234); err != nil || s.Seen() != 1234 {
		t.Errorf("%d, %v", s.Seen(), err)
	}
	overwrite(t, s.Path+".seen", []byte("12x"))
	if got := s.Seen(); got != 0 {
		t.Errorf("a damaged note: %d", got)
	}
}

func TestACheckpointThatCannotBeWrittenIsAnError(t *testing.T) {
	s := emulate.Store{Path: filepath.Join(t.TempDir(), "missing", "ckpt")}
	if err := s.Save(emulate.State{Saves: 1}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func overwrite(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A file of any content is what was saved, or it is damaged.
func FuzzACheckpointOfAnyContentIsWholeOrDamaged(f *testing.F) {
	f.Add([]byte(`{"v":1,"job":"7","iterations":3,"saves":1}`))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		store := store(t)
		if err := os.WriteFile(store.Path+".1", text, 0o600); err != nil {
			t.Fatal(err)
		}
		state, err := store.Load()
		if err == nil && !bytes.Contains(text, []byte(state.Checksum)) {
			t.Errorf("%q is taken for %+v", text, state)
		}
		if err != nil && !errors.Is(err, emulate.ErrDamaged) && !errors.Is(err, emulate.ErrNoState) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
