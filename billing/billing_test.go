package billing_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/billing"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

func weights(t interface{ Fatal(...any) }, text string) billing.Weights {
	w, err := billing.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The figures are Slurm's own: AllocTRES of jobs that ran in partitions with these weights, on 24.11.5 and 26.05.5,
// which cuts fractions off.
func TestAnAllocationIsChargedWhatSlurmCharges(t *testing.T) {
	three := gres.Vector{GPUs: 1, CPUs: 3, Memory: 3000}
	six := gres.Vector{GPUs: 1, CPUs: 6, Memory: 6000}
	for _, c := range []struct {
		weights string
		nodes   int
		per     gres.Vector
		want    float64
	}{
		{"CPU=1.0,Mem=0.25G,GRES/gpu=2.0", 1, three, 5},
		{"CPU=1.0,Mem=0.25G,GRES/gpu=2.0", 1, six, 9},
		{`"cpu=1,mem=0.25g,gres/gpu=2"`, 2, six, 18},
		{"", 1, six, 6},
		{"CPU=0,Mem=0,GRES/gpu=1", 1, six, 1},
		{"Node=4,License/matlab=7,", 2, six, 8},
	} {
		if got := math.Floor(weights(t, c.weights).Of(c.nodes, c.per)); got != c.want {
			t.Errorf("%q: %d nodes with %v are charged %g, want %g", c.weights, c.nodes, c.per, got, c.want)
		}
	}
	most := weights(t, "CPU=1.0,Mem=0.25G,GRES/gpu=2.0")
	most.Most = true
	if got := most.Of(1, six); got != 6 {
		t.Errorf("with MAX_TRES %g, want the 6 of the cores", got)
	}
}

// Whatever GPUs alone are charged, no size of a job changes it; and whatever weighs cores or memory is told.
func TestWhatIsChargedDependsOnTheSizeJustWhereCoresOrMemoryWeigh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.SampledFrom([]float64{0, 0, 0.5, 1, 3})
		core, memory, node, gpu := amount.Draw(t, "core"), amount.Draw(t, "memory"), amount.Draw(t, "node"),
			amount.Draw(t, "gpu")
		entries := []string{fmt.Sprintf("CPU=%g", core),
			fmt.Sprintf("Mem=%g%s", memory, rapid.SampledFrom([]string{"", "K", "M", "G", "T"}).Draw(t, "unit")),
			fmt.Sprintf("Node=%g", node), fmt.Sprintf("GRES/gpu=%g", gpu), "bb/cray=9"}
		w := weights(t, strings.Join(rapid.Permutation(entries).Draw(t, "order"), ","))
		size := func(name string) gres.Vector {
			return gres.Vector{GPUs: 4, CPUs: rapid.IntRange(1, 64).Draw(t, name),
				Memory: gres.Memory(rapid.IntRange(1, 1<<20).Draw(t, name+" MiB"))}
		}
		a, b, nodes := size("first"), size("later"), rapid.IntRange(1, 4).Draw(t, "nodes")
		var want []string
		if core > 0 {
			want = append(want, "CPU")
		}
		if memory > 0 {
			want = append(want, "Mem")
		}
		if got := w.Sized(); !slices.Equal(got, want) {
			t.Fatalf("sized by %v, want %v", got, want)
		}
		if same := w.Of(nodes, a) == w.Of(nodes, b); len(want) == 0 && !same {
			t.Fatalf("%v and %v are charged %g and %g by nothing that a size changes", a, b, w.Of(nodes, a),
				w.Of(nodes, b))
		}
		more := a
		more.CPUs++
		if got := w.Of(nodes, more) - w.Of(nodes, a); math.Abs(got-core*float64(nodes)) > 1e-6 {
			t.Fatalf("a core more on each of %d nodes is charged %g, and weighs %g", nodes, got, core)
		}
	})
}

func TestWrongWeightsAreNamedWithWhatWouldBeRight(t *testing.T) {
	for _, text := range []string{"CPU", "CPU=", "=1", "CPU=one", "CPU=-1", "CPU=1G", "Mem=1X", "CPU=NaN",
		"CPU=Inf", "Mem=1GG"} {
		if w, err := billing.Parse(text); err == nil || !strings.Contains(err.Error(), "want") &&
			!strings.Contains(err.Error(), "alone") {
			t.Errorf("%q is read as %+v, %v", text, w, err)
		}
	}
}
