package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
)

// Work is what one job of a model does on the GPU, and how long it takes alone.
type Work struct {
	predict.Kernels
	Alone time.Duration
	// Remark says which part of it was not measured; empty: all was.
	Remark string
}

// GPU returns how long the kernels take, one after the other.
func (w Work) GPU() time.Duration { return time.Duration(w.Count) * w.Each }

// Host returns the part of a job in which the GPU does nothing for it.
func (w Work) Host() time.Duration { return max(0, w.Alone-w.GPU()) }

// Busy returns the part of the time, pauses included, in which a model alone keeps the GPU busy.
func (w Work) Busy(pause time.Duration) float64 {
	return float64(w.GPU()) / float64(w.GPU()+w.Host()+pause)
}

// measured are the models that Deft's authors measured, on a GPU that they do not name: ratios carry over to another
// GPU, milliseconds do not. Times without a unit are nanoseconds.
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

// assumed are models that Deft's files name and of which too little was published.
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

// families map name prefixes to the known model that stands for them: torchvision's models, and the language models
// that Deft's files name. A backbone alone counts as the segmentation network around one.
var families = []struct {
	as     string
	begins []string
}{
	{"fasterrcnn_resnet50_fpn", []string{"fasterrcnn"}},
	{"maskrcnn_resnet50_fpn_v2", []string{"maskrcnn"}},
	{"keypointrcnn_resnet50_fpn", []string{"keypointrcnn"}},
	{"retinanet_resnet50_fpn", []string{"retinanet", "ssd"}},
	{"fcos_resnet50_fpn", []string{"fcos"}},
	{"mobilenet_v3_small", []string{"mobilenet", "alexnet", "mnasnet", "shufflenet", "squeezenet"}},
	{"deeplabv3_resnet50", []string{
		"deeplab", "fcn", "lraspp", "resnet", "resnext", "wide_resnet", "vgg", "densenet", "inception", "googlenet",
		"efficientnet", "regnet", "convnext", "vit", "swin", "maxvit",
	}},
	{language, []string{"bloom", "codegen", "gpt"}},
}

const (
	language   = "bloom" // reads no picture, so the picture size does not matter
	anyOther   = "fcos_resnet50_fpn"
	usualShape = float64(usualWidth) / usualHeight
	// growth is the power of (pixels × batch) with which GPU time grows. It fits best how each measured model differs
	// from itself with its smallest work; the models alone give powers from 0.56 to 0.97.
	growth = 0.85
	// perPicture is the growth of the number of kernels for each further picture of a batch, relative to that of one
	// picture, as measured for RetinaNet.
	perPicture = 0.2
	// shortest is the shortest kernel: as long as it takes to launch it.
	shortest    = 5 * time.Microsecond
	mostAssumed = 1_000_000 // the most kernels, as for --kernels
	longestJob  = time.Minute
	maxName     = 128
)

// WorkOf returns what a job of the model does: as measured, or scaled from the nearest known model, which Remark then
// says.
func WorkOf(m Model) (Work, error) {
	for _, k := range known(m.Name) {
		if k.fits(m) {
			return k.work, nil
		}
	}
	name := printable.Line(m.Name, maxShown)
	if !plain(m.Name) {
		return Work{}, fmt.Errorf("%s: nothing is known of it, and no model is called so: say its kernels with "+
			"--kernels %s=COUNT,MS, how many a job launches and how long one takes", name, m.Out)
	}
	k := nearest(m)
	w := k.scaled(m)
	if w.Alone > longestJob {
		return Work{}, fmt.Errorf("%s with %d x %d pixels and batch %d: a job would take %v if it is as %s: say its "+
			"kernels with --kernels %s=COUNT,MS", name, m.Height, m.Width, m.Batch, w.Alone.Round(time.Second), k.name,
			m.Out)
	}
	why := "nothing is known of it"
	if k.name == m.Name {
		why = "of this size nothing is known"
	}
	pixels := fmt.Sprintf("%d x %d pixels and ", m.Height, m.Width)
	if k.name == language {
		pixels = ""
	}
	w.Remark = fmt.Sprintf("%s: assumed are %d kernels of %.3g ms in %.4g ms, those of %s with %s, scaled by the "+
		"power %g to %sbatch %d; --kernels %s=COUNT,MS says it better", why, w.Count, w.Each.Seconds()*1000,
		w.Alone.Seconds()*1000, k.name, k.size(), growth, pixels, m.Batch, m.Out)
	return w, nil
}

// reference is what is known of a model with one picture size and batch.
type reference struct {
	name          string
	height, batch int
	anyPicture    bool // the picture size was not published
	work          Work
}

// known returns the references with this name.
func known(name string) (all []reference) {
	for _, k := range measured {
		if k.name == name {
			w := Work{Kernels: predict.Kernels{Count: k.kernels, Each: k.each},
				Alone: time.Duration(k.alone * float64(time.Millisecond))}
			all = append(all, reference{name, k.height, k.batch, false, w})
		}
	}
	for _, a := range assumed {
		if a.name == name {
			all = append(all, reference{name, usualHeight, 1, name == language, a.work})
		}
	}
	return all
}

func (k reference) fits(m Model) bool {
	return k.batch == m.Batch && (k.anyPicture || k.height == m.Height)
}

func (k reference) size() string {
	if k.anyPicture {
		return fmt.Sprintf("batch %d", k.batch)
	}
	return fmt.Sprintf("%d lines and batch %d", k.height, k.batch)
}

// inputRatio returns how many times as much input a job of the model reads as the reference. The pictures of all
// references have the usual shape, so their width follows from the height.
func (k reference) inputRatio(m Model) float64 {
	batch := float64(m.Batch) / float64(k.batch)
	if k.anyPicture {
		return batch
	}
	return batch * float64(m.Height) * float64(m.Width) / (float64(k.height) * float64(k.height) * usualShape)
}

// scaled returns the reference's work, scaled to the model's picture and batch. The GPU time grows with all of the
// input, the number of kernels with the batch alone; the length of a kernel follows.
func (k reference) scaled(m Model) Work {
	by := math.Pow(k.inputRatio(m), growth)
	count := float64(k.work.Count) * kernelFactor(m.Batch) / kernelFactor(k.batch)
	n := int(min(mostAssumed, math.Round(count)))
	each := max(shortest, time.Duration(by*float64(k.work.GPU())/float64(n)))
	w := Work{Kernels: predict.Kernels{Count: n, Each: each}}
	w.Alone = max(w.GPU(), time.Duration(by*float64(k.work.Alone)))
	return w
}

// kernelFactor returns how many times as many kernels a batch has as one picture.
func kernelFactor(batch int) float64 { return 1 + float64(perPicture*float64(batch-1)) }

// nearest returns the reference of the model itself, or else of its family, whose input size is most like the model's.
// Sizes are compared by their ratio: half as much is as far as twice as much.
func nearest(m Model) reference {
	all := known(m.Name)
	if len(all) == 0 {
		all = known(family(m.Name))
	}
	return slices.MinFunc(all, func(a, b reference) int {
		return cmp.Compare(math.Abs(math.Log(a.inputRatio(m))), math.Abs(math.Log(b.inputRatio(m))))
	})
}

// family returns the known model that stands for this name.
func family(name string) string {
	for _, f := range families {
		for _, begin := range f.begins {
			if strings.HasPrefix(strings.ToLower(name), begin) {
				return f.as
			}
		}
	}
	return anyOther
}

// plain reports whether a name could be a model's: not a path nor anything else.
func plain(name string) bool {
	if name == "" || len(name) > maxName || name[0] == '.' || name[0] == '-' {
		return false
	}
	return !strings.ContainsFunc(name, func(c rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-", c)
	})
}
