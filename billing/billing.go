// Package billing reckons what Slurm charges by the TRESBillingWeights of a partition (slurm.conf(5)). Slurm reckons it
// when a job starts for the first time, keeps it on the job, and charges each later run the same, whatever that holds;
// see "What a resized run is charged" in ARCHITECTURE.md. The package asks nobody and knows no partition.
package billing

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Weights are what one of each TRES counts.
type Weights struct {
	Core, Node, GPU float64
	Memory          float64            // of a MiB
	Types           map[string]float64 // of GPUs of a type, beside GPU; nil: none
	// Most says that the largest product counts and not their sum, as with PriorityFlags=MAX_TRES.
	Most bool
}

// Cores are the weights of a partition that has none: Slurm then charges cores.
func Cores() Weights { return Weights{Core: 1} }

// units are the suffixes of a weight of memory, of which Slurm's own unit is a MiB.
var units = map[string]float64{"": 1, "K": 1.0 / 1024, "M": 1, "G": 1 << 10, "T": 1 << 20, "P": 1 << 30}

// Parse reads weights as slurm.conf has them: CPU=1.0,Mem=0.25G,GRES/gpu=2.0. The empty text is that of a partition
// without any. A TRES that no daemon sizes (a license, a burst buffer) is read and left out.
func Parse(text string) (w Weights, err error) {
	text = strings.Trim(strings.TrimSpace(text), `"`)
	if text == "" {
		return Cores(), nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue // as Slurm reads it
		}
		if err := w.read(entry); err != nil {
			return Weights{}, err
		}
	}
	return w, nil
}

// read takes one entry.
func (w *Weights) read(entry string) error {
	name, amount, _ := strings.Cut(entry, "=")
	name = strings.ToLower(name)
	digits := strings.TrimRight(amount, "kmgtpKMGTP")
	weight, err := strconv.ParseFloat(digits, 64)
	unit := strings.ToUpper(amount[len(digits):])
	per, known := units[unit]
	switch {
	case name == "" || err != nil || !known || math.IsNaN(weight) || math.IsInf(weight, 0):
		return fmt.Errorf("%q: want weights as CPU=1.0,Mem=0.25G,GRES/gpu=2.0", entry)
	case weight < 0:
		return fmt.Errorf("%q: want a weight that is not negative", entry)
	case name == "mem":
		w.Memory = weight / per
	case unit != "":
		return fmt.Errorf("%q: a unit is for memory alone", entry)
	case name == "cpu":
		w.Core = weight
	case name == "node":
		w.Node = weight
	case name == "gres/gpu":
		w.GPU = weight
	case strings.HasPrefix(name, "gres/gpu:"):
		if w.Types == nil {
			w.Types = make(map[string]float64)
		}
		w.Types[strings.TrimPrefix(name, "gres/gpu:")] = weight
	}
	return nil
}

// Of is what an allocation is charged an hour: so much on each of some nodes. GPUs of a type count as GPUs alone, since
// an allocation does not say which they are.
func (w Weights) Of(nodes int, per gres.Vector) float64 {
	n := float64(nodes)
	products := []float64{w.Core * n * float64(per.CPUs), w.Memory * n * float64(per.Memory), w.Node * n,
		w.GPU * n * float64(per.GPUs)}
	if w.Most {
		return slices.Max(products)
	}
	sum := 0.
	for _, p := range products {
		sum += p
	}
	return sum
}

// Sized are the TRES with a weight of which a job can have more or less from run to run, as slurm.conf names them. Its
// nodes and GPUs stay the same.
func (w Weights) Sized() (names []string) {
	if w.Core > 0 {
		names = append(names, "CPU")
	}
	if w.Memory > 0 {
		names = append(names, "Mem")
	}
	return names
}
