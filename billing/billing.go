// Package billing computes what Slurm charges by the TRESBillingWeights of a partition (slurm.conf(5)). Slurm computes
// the figure at a job's first start, keeps it on the job, and charges every later run the same, whatever that run
// holds; see "What a resized run is charged" in ARCHITECTURE.md. The package makes no requests and does not look up
// partitions.
package billing

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Weights are the charges of one unit of each TRES.
type Weights struct {
	Core, Node, GPU float64
	Memory          float64            // per MiB
	Types           map[string]float64 // charged for a GPU of that type in addition to GPU; nil: none
	// Most charges the largest product instead of the sum of all, as PriorityFlags=MAX_TRES does.
	Most bool
}

// Cores returns the weights of a partition without TRESBillingWeights: Slurm then charges cores alone.
func Cores() Weights { return Weights{Core: 1} }

// units are the suffixes of a memory weight in MiB, which is Slurm's own unit.
var units = map[string]float64{"": 1, "K": 1.0 / 1024, "M": 1, "G": 1 << 10, "T": 1 << 20, "P": 1 << 30}

// Parse reads weights in the form of slurm.conf: CPU=1.0,Mem=0.25G,GRES/gpu=2.0. An empty text gives Cores, the weights
// of a partition without any. A TRES whose amount the daemon never changes (a license, a burst buffer) is accepted and
// ignored.
func Parse(text string) (w Weights, err error) {
	text = strings.Trim(strings.TrimSpace(text), `"`)
	if text == "" {
		return Cores(), nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue // Slurm skips empty entries, too
		}
		if err := w.read(entry); err != nil {
			return Weights{}, err
		}
	}
	return w, nil
}

// read stores the weight of one entry, NAME=WEIGHT with an optional unit.
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

// Of returns what an allocation of per on each of nodes is charged per hour. GPUs of every type are charged as GPU
// alone, since an allocation does not say of which type they are.
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

// Sized lists the TRES with a weight whose amount can change from run to run, by their names in slurm.conf. A job's
// nodes and GPUs never change.
func (w Weights) Sized() (names []string) {
	if w.Core > 0 {
		names = append(names, "CPU")
	}
	if w.Memory > 0 {
		names = append(names, "Mem")
	}
	return names
}
