package ledger

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

func TestWhatWasReadWhileARoundWasWrittenDownDoesNotCount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	book, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	round := 0
	read := func() error {
		round++
		return book.Settle(nil, bridge.Report{Round: round})
	}
	for range 5 { // either of the two pages of a state, and both
		if err := unmoved(path, read); !errors.Is(err, errMoved) {
			t.Errorf("after round %d: %v", round, err)
		}
	}
	if err := unmoved(path, func() error { return errors.Join(read(), read()) }); !errors.Is(err, errMoved) {
		t.Errorf("after two rounds: %v", err)
	}
	if err := unmoved(path, func() error { return nil }); err != nil {
		t.Errorf("nothing was written: %v", err)
	}
}
