package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Mix is how many GPUs jobs have: a name, or weights for numbers of GPUs, such as 1=70,2=10,4=15,8=5.
type Mix string

// The named mixes.
const (
	OneGPU   Mix = "one"   // as in the artifact's published workload
	PaperMix Mix = "paper" // 70, 10, 15 and 5 % with 1, 2, 4 and 8 GPUs, as in the artifact's synthetic workload
)

// mostGPUs is the largest number of GPUs of a job.
const mostGPUs = 1 << 20

// ParseMix parses a mix. Weights need not add up to 100.
func ParseMix(text string) (Mix, error) {
	m := Mix(strings.ToLower(strings.TrimSpace(text)))
	_, err := m.sizes()
	return m, err
}

// sizes are the possible numbers of GPUs, ascending, with their probabilities.
type sizes struct {
	gpus   []int
	shares shares
}

// paperSizes are those of PaperMix.
var paperSizes = sizes{[]int{1, 2, 4, 8}, sharesOf([]float64{70, 10, 15, 5})}

// sizes parses the mix: a name, or weights.
func (m Mix) sizes() (sizes, error) {
	switch {
	case m == OneGPU:
		return sizes{gpus: []int{1}}, nil
	case m == PaperMix:
		return paperSizes, nil
	case !strings.Contains(string(m), "="):
		return sizes{}, wrong("gpus", string(m), "one, paper, or GPUS=WEIGHT,… such as 1=70,2=10,4=15,8=5")
	}
	list, err := amounts("gpus", string(m))
	if err != nil {
		return sizes{}, err
	}
	return m.weighted(list)
}

// weighted makes sizes from weights, independent of the order in which they were written. A number of GPUs may stand
// there only once, also if it is written in two ways, as 1 and 01.
func (m Mix) weighted(list []amount) (sizes, error) {
	weights := make(map[int]float64, len(list))
	var gpus []int
	for _, a := range list {
		n, err := strconv.Atoi(a.name)
		if err != nil || n < 1 || n > mostGPUs || weights[n] > 0 || a.number < 1e-9 {
			const want = "whole numbers of GPUs from 1 to %d, each once, with weights above 0, where it has %s=%g"
			return sizes{}, wrong("gpus", string(m), fmt.Sprintf(want, mostGPUs, a.name, a.number))
		}
		weights[n] = a.number
		gpus = append(gpus, n)
	}
	slices.Sort(gpus)
	ordered := make([]float64, len(gpus))
	for i, n := range gpus {
		ordered[i] = weights[n]
	}
	return sizes{gpus, sharesOf(ordered)}, nil
}

// isSingle says whether all jobs have the same number of GPUs, so that nothing is drawn for it.
func (s sizes) isSingle() bool { return len(s.gpus) == 1 }

// draw returns the number of GPUs of a job. It draws only if there is a choice.
func (s sizes) draw(t *twister) int {
	if s.isSingle() {
		return s.gpus[0]
	}
	return s.gpus[s.shares.pick(t)]
}
