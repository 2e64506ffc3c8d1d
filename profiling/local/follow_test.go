package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// printed is a file to which a trainer prints, and how many iterations are seen in it.
type printed struct {
	t    *testing.T
	path string
}

func newPrinted(t *testing.T, text string) printed {
	p := printed{t, filepath.Join(t.TempDir(), "out.log")}
	if text != "" {
		p.append(text)
	}
	return p
}

func (p printed) append(text string) {
	p.t.Helper()
	file, err := os.OpenFile(p.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
		file.Close()
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p printed) replace(text string) {
	p.t.Helper()
	if err := os.Remove(p.path); err != nil {
		p.t.Fatal(err)
	}
	p.append(text)
}

func (p printed) count() func() int64 {
	p.t.Helper()
	pattern, err := ParsePattern("step")
	if err != nil {
		p.t.Fatal(err)
	}
	return Files("", []string{p.path}, pattern)
}

func stepLines(numbers ...int) string {
	var text strings.Builder
	for _, n := range numbers {
		fmt.Fprintf(&text, "step %d loss 2.0\n", n)
	}
	return text.String()
}

// TestEveryEpochBetweenTwoLooksIsCounted: three of them end and a fourth begins before anybody looks again.
func TestEveryEpochBetweenTwoLooksIsCounted(t *testing.T) {
	p := newPrinted(t, "")
	count := p.count()
	p.append(stepLines(50, 100))
	if got := count(); got != 100 {
		t.Errorf("%d, want 100", got)
	}
	p.append(stepLines(100, 20, 100, 40, 100, 30))
	if got := count(); got != 330 {
		t.Errorf("%d, want 100 + 100 + 100 + 30", got)
	}
}

func TestWhatARunBeforeHasPrintedIsNoProgress(t *testing.T) {
	p := newPrinted(t, stepLines(5000))
	count := p.count()
	if got := count(); got != 0 {
		t.Errorf("%d of the run before are counted", got)
	}
	p.append(stepLines(7))
	if got := count(); got != 7 {
		t.Errorf("%d, want the 7 of this run", got)
	}
}

func TestAFileThatIsCutOrReplacedIsReadFromItsBeginning(t *testing.T) {
	p := newPrinted(t, stepLines(1, 2, 3))
	count := p.count()
	if err := os.Truncate(p.path, 0); err != nil {
		t.Fatal(err)
	}
	p.append(stepLines(4))
	if got := count(); got != 4 {
		t.Errorf("cut: %d, want 4", got)
	}
	p.replace(stepLines(5, 6, 7, 8, 9))
	if got := count(); got != 9 {
		t.Errorf("replaced: %d, want 9", got)
	}
	if err := os.Remove(p.path); err != nil {
		t.Fatal(err)
	}
	if got := count(); got != 9 {
		t.Errorf("gone: %d, want the 9 that were seen", got)
	}
}

func TestOfATrainerThatPrintsWithoutEndTheLastIsRead(t *testing.T) {
	p := newPrinted(t, "x")
	count := p.count()
	p.append(stepLines(1) + strings.Repeat("nothing of interest\n", 3*behind/20) + stepLines(2))
	if got := count(); got != 2 {
		t.Errorf("%d, want 2", got)
	}
}

// TestWhatIsNoOrdinaryFileIsNotWaitedFor: a pipe that nobody writes to, a folder, a device that never ends.
func TestWhatIsNoOrdinaryFileIsNotWaitedFor(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	p := newPrinted(t, "")
	for _, path := range []string{pipe, t.TempDir(), "/dev/zero", "/dev/null"} {
		p.path = path
		if got := p.count()(); got != 0 {
			t.Errorf("%s: %d iterations", path, got)
		}
		if got := Files(path, nil, nil)(); got != 0 {
			t.Errorf("%s: %d iterations of progress", path, got)
		}
	}
}
