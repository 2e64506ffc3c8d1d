package experiment

import (
	"fmt"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
)

// Work is what one job of a model does on the GPU, and how long it takes alone.
type Work struct {
	predict.Kernels
	Alone time.Duration
	// Remark says what of it was not measured; empty: all was.
	Remark string
}

// GPU is how long the kernels take, one after the other.
func (w Work) GPU() time.Duration { return time.Duration(w.Count) * w.Each }

// Host is the part of a job in which the GPU does nothing for it.
func (w Work) Host() time.Duration { return max(0, w.Alone-w.GPU()) }

// Busy is the part of the time in which a model keeps the GPU busy alone, its pauses included.
func (w Work) Busy(pause time.Duration) float64 {
	return float64(w.GPU()) / float64(w.GPU()+w.Host()+pause)
}

// measured are the models that Deft's authors measured, on a GPU that they do not name: ratios carry over to another,
// milliseconds do not.
var measured = []struct {
	name    string
	height  int // of the picture
	batch   int
	kernels int
	each    time.Duration
	alone   float64 // ms
}{
	{"fasterrcnn_resnet50_fpn", 1440, 1, 913, 104 * time.Microsecond, 96.9},
	{"fasterrcnn_resnet50_fpn", 720, 1, 954, 33300, 31.5},
	{"maskrcnn_resnet50_fpn_v2", 1440, 1, 2444, 47800, 143.8},
	{"maskrcnn_resnet50_fpn_v2", 720, 1, 2475, 21700, 73.8},
	{"keypointrcnn_resnet50_fpn", 1440, 1, 1239, 79500, 114.2},
	{"deeplabv3_resnet50", 1440, 1, 246, 727 * time.Microsecond, 178.9},
	{"deeplabv3_resnet50", 720, 1, 247, 189 * time.Microsecond, 48.0},
	{"retinanet_resnet50_fpn", 720, 16, 4745, 90 * time.Microsecond, 460.0},
	{"retinanet_resnet50_fpn", 720, 8, 2820, 80 * time.Microsecond, 243.1},
	{"retinanet_resnet50_fpn", 1440, 1, 1175, 89700, 111.0},
	{"retinanet_resnet50_fpn", 720, 1, 1178, 30 * time.Microsecond, 33.6},
}

// assumed are models of which less was published than is needed here, and that their files name.
var assumed = []struct {
	name string
	work Work
}{
	{"bloom", Work{Kernels: predict.Kernels{Count: 1556, Each: 34400}, Alone: 53500 * time.Microsecond,
		Remark: "the length of its kernels is reckoned from its job alone"}},
	{"fcos_resnet50_fpn", Work{Kernels: predict.Kernels{Count: 1000, Each: 33 * time.Microsecond},
		Alone: 34400 * time.Microsecond, Remark: "only its job alone is known, and 1000 kernels are assumed"}},
	{"mobilenet_v3_small", Work{Kernels: predict.Kernels{Count: 200, Each: 20 * time.Microsecond},
		Alone: 6 * time.Millisecond, Remark: "it was not measured: 200 kernels of 0.02 ms in 6 ms are assumed"}},
}

// WorkOf is what a job of the model does, where that is known of its picture and batch.
func WorkOf(m Model) (Work, error) {
	var others []string
	for _, k := range measured {
		if k.name != m.Name {
			continue
		}
		if k.height == m.Height && k.batch == m.Batch {
			return Work{
				Kernels: predict.Kernels{Count: k.kernels, Each: k.each},
				Alone:   time.Duration(k.alone * float64(time.Millisecond)),
			}, nil
		}
		others = append(others, fmt.Sprintf("%d lines and batch %d", k.height, k.batch))
	}
	for _, a := range assumed {
		if a.name == m.Name && m.Batch == 1 {
			return a.work, nil
		}
	}
	name := printable.Line(m.Name, maxShown)
	if len(others) > 0 {
		return Work{}, fmt.Errorf("%s with %d lines and batch %d: known with %s: say its kernels with --kernels "+
			"%s=COUNT,MS", name, m.Height, m.Batch, strings.Join(others, ", "), m.Out)
	}
	return Work{}, fmt.Errorf("%s: nothing is known of it: say its kernels with --kernels %s=COUNT,MS, how many a job "+
		"launches and how long one takes", name, m.Out)
}
