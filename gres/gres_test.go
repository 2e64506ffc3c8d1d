package gres_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

var paperServer = gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}

func TestAShareOfThePapersServerIsThreeCoresAnd62AndAHalfGigabytes(t *testing.T) {
	got := gres.Proportional(paperServer, 1)
	if want := (gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500}); got != want {
		t.Errorf("one GPU's share is %v, want %v", got, want)
	}
	if got := got.String(); got != "gpu=1 cpu=3 mem=62.5G" {
		t.Errorf("printed as %q", got)
	}
}

func TestProportionalShares(t *testing.T) {
	for _, c := range []struct {
		name  string
		total gres.Vector
		gpus  int
		want  gres.Vector
	}{
		{"the whole server", paperServer, 8, paperServer},
		{"a remainder of cores is nobody's", gres.Vector{GPUs: 3, CPUs: 10, Memory: 100}, 1,
			gres.Vector{GPUs: 1, CPUs: 3, Memory: 33}},
		{"two GPUs share a remainder", gres.Vector{GPUs: 3, CPUs: 10, Memory: 100}, 2,
			gres.Vector{GPUs: 2, CPUs: 6, Memory: 66}},
		{"fewer cores than GPUs", gres.Vector{GPUs: 8, CPUs: 4, Memory: 800}, 1,
			gres.Vector{GPUs: 1, CPUs: 1, Memory: 100}},
		{"a server without GPUs", gres.Vector{CPUs: 24, Memory: 500000}, 1, gres.Vector{}},
	} {
		if got := gres.Proportional(c.total, c.gpus); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestProportionalSharesOfAllGPUsFitTheServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := vector(t, "total")
		total.GPUs = rapid.IntRange(1, 16).Draw(t, "gpus")
		total.CPUs = max(total.CPUs, total.GPUs)
		used := gres.Vector{}
		for used.GPUs < total.GPUs {
			gpus := rapid.IntRange(1, total.GPUs-used.GPUs).Draw(t, "job")
			used = used.Plus(gres.Proportional(total, gpus))
		}
		if !used.Fits(total) {
			t.Fatalf("shares add up to %v, the server has %v", used, total)
		}
	})
}

func TestVectorsAddAndSubtractLikeNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := vector(t, "a"), vector(t, "b")
		if got := a.Plus(b).Minus(b); got != a {
			t.Fatalf("%v plus and minus %v is %v", a, b, got)
		}
		if got := a.Times(3); got != a.Plus(a).Plus(a) {
			t.Fatalf("three times %v is %v", a, got)
		}
		if top := a.Max(b); !a.Fits(top) || !b.Fits(top) || top.Minus(a).Fits(gres.Vector{}) && top != a {
			t.Fatalf("the maximum of %v and %v is %v", a, b, top)
		}
	})
}

func TestWhatLacksOneResourceDoesNotFit(t *testing.T) {
	free := gres.Vector{GPUs: 2, CPUs: 6, Memory: 125000}
	if !free.Fits(free) {
		t.Error("the same amount does not fit")
	}
	for _, more := range []gres.Vector{{GPUs: 1}, {CPUs: 1}, {Memory: 1}} {
		if free.Plus(more).Fits(free) {
			t.Errorf("%v more than what is free fits", more)
		}
	}
}

func TestMemoryIsPrintedInGigabytesOfPlainDigits(t *testing.T) {
	for m, want := range map[gres.Memory]string{
		0: "0G", 1: "0.001G", 62500: "62.5G", 500000: "500G", -2000: "-2G", 1000000000: "1000000G",
	} {
		if got := m.String(); got != want {
			t.Errorf("%d MiB printed as %q, want %q", int64(m), got, want)
		}
	}
}

func vector(t *rapid.T, label string) gres.Vector {
	return gres.Vector{
		GPUs:   rapid.IntRange(0, 16).Draw(t, label+" GPUs"),
		CPUs:   rapid.IntRange(0, 512).Draw(t, label+" cores"),
		Memory: gres.Memory(rapid.IntRange(0, 1<<22).Draw(t, label+" MiB")),
	}
}
