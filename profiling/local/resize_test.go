package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/profiling/inside"
)

// following is a trainer that looks at its cores before each step and says for how many it has workers; with another
// word for them it says nothing that is known. Each start leaves a line in the file starts.
func following(word string) string {
	return `echo x >> starts; i=0; while :; do i=$((i+1)); sleep 0.02
echo "{\"iterations\": $i, \"` + word + `\": $(env -u OMP_NUM_THREADS nproc)}" > p; mv p "$SYNERGY_PROGRESS"; done`
}

// startsOf is how often three trials start a trainer, each of which has so much more memory.
func startsOf(t *testing.T, script string, more gres.Memory) int {
	t.Helper()
	l, folder := shell(t, script)
	l.Confine, l.Patience = inside.Confine, 5*time.Second
	if len(l.CPUs) < 2 {
		t.Fatalf("this machine lets a process use %d CPU: want two", len(l.CPUs))
	}
	for k, cores := range []int{1, 2, 1} {
		next := trial(cores, 300*time.Millisecond)
		next.Memory = gres.Memory(k) * more
		m, err := l.Run(t.Context(), next)
		if n, _ := iterations(m); err != nil || n < 1 {
			t.Fatalf("%d cores: %g iterations, %v", cores, n, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, "starts"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "x")
}

func TestATrainerThatFollowsItsCoresIsStartedOnceForAllSizes(t *testing.T) {
	if n := startsOf(t, following("cores"), 0); n != 1 {
		t.Errorf("it was started %d times", n)
	}
}

func TestATrainerIsStartedForEachSizeWhereItDoesNotFollow(t *testing.T) {
	if n := startsOf(t, following("workers"), 0); n != 3 {
		t.Errorf("one that says nothing of its cores was started %d times", n)
	}
	confinedElsewhere := strings.ReplaceAll(following("cores"), "nproc)", "echo 64)")
	if n := startsOf(t, confinedElsewhere, 0); n != 3 {
		t.Errorf("one with other cores than it was given was started %d times", n)
	}
	if n := startsOf(t, following("cores"), 1); n != 3 {
		t.Errorf("one that is to have other memory was started %d times", n)
	}
}

func TestATrainerThatDoesNotTakeUpItsCoresIsStartedAnew(t *testing.T) {
	stays := strings.ReplaceAll(following("cores"), "while", "n=$(env -u OMP_NUM_THREADS nproc); while")
	stays = strings.ReplaceAll(stays, "$(env -u OMP_NUM_THREADS nproc)}", "$n}")
	if n := startsOf(t, stays, 0); n != 3 {
		t.Errorf("it was started %d times", n)
	}
}
