package profiler

import (
	"fmt"
	"strconv"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Worth is what a profile promises a job on an otherwise empty node.
type Worth struct {
	Fair   gres.Vector        // the proportional share
	Best   sensitivity.Option // fewest cores and least memory with all but a trifle of the best speed
	Most   sensitivity.Option // the demand: full speed
	Enough sensitivity.Option // the first option: no slower than the share, with the least resources
}

// trifle is a part of the speed that is not worth spending cores on.
const trifle = 0.02

// On returns what p promises a job with this many GPUs on an empty node. Best is searched from the fastest option down,
// and changes only to one with no more cores.
func On(p *sensitivity.Profile, node gres.Vector, gpus int) Worth {
	fair := gres.Proportional(node, gpus)
	options := p.Options(fair, node)
	w := Worth{Fair: fair, Most: options[len(options)-1], Enough: options[0]}
	w.Best = w.Most
	for i := len(options) - 1; i >= 0; i-- {
		if options[i].Gain < w.Most.Gain*(1-trifle) {
			break
		}
		if options[i].Size.CPUs <= w.Best.Size.CPUs {
			w.Best = options[i]
		}
	}
	return w
}

// String says it in a sentence: 9 cores instead of 3 train it 2.4 times as fast; beyond 9 nothing.
func (w Worth) String() string {
	best, fair := w.Best.Size.CPUs, w.Fair.CPUs
	memory := ""
	if w.Best.Size.Memory > w.Fair.Memory {
		memory = fmt.Sprintf(" and %s instead of %s", gigabytes(w.Best.Size.Memory), gigabytes(w.Fair.Memory))
	}
	switch {
	case w.Best.Gain >= 1+trifle && (best > fair || memory != ""):
		return fmt.Sprintf("%s instead of %d%s train it %s times as fast; beyond %d %s", cores(best), fair, memory,
			times(w.Best.Gain), best, w.beyond())
	case w.Enough.Size.CPUs < fair:
		return fmt.Sprintf("%s as good as the %d of its share: the other %d do nothing for it",
			areEnough(w.Enough.Size.CPUs), fair, fair-w.Enough.Size.CPUs)
	}
	return fmt.Sprintf("its share, %s, is what it can use; beyond that nothing", cores(fair))
}

// beyond says what more cores than the best size gain.
func (w Worth) beyond() string {
	if more := w.Most.Gain/w.Best.Gain - 1; more >= 0.005 {
		return fmt.Sprintf("%.0f %% at most", 100*more)
	}
	return "nothing"
}

func areEnough(n int) string {
	if n == 1 {
		return "1 core is"
	}
	return fmt.Sprintf("%d cores are", n)
}

func cores(n int) string {
	if n == 1 {
		return "1 core"
	}
	return strconv.Itoa(n) + " cores"
}

// times formats a gain for people: 2.4, or 1.05 where one decimal would say too little.
func times(gain float64) string {
	if gain < 1.2 {
		return strconv.FormatFloat(gain, 'f', 2, 64)
	}
	return strconv.FormatFloat(gain, 'f', 1, 64)
}

func gigabytes(m gres.Memory) string {
	return strconv.FormatFloat(float64(m)/float64(gres.Gigabyte), 'f', -1, 64) + " GB"
}
