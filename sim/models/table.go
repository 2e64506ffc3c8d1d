package models

// perRatio is a value on servers with 3, 4, 5 and 6 cores per GPU.
type perRatio [MostRatio - LeastRatio + 1]float64

// always is a value that does not depend on the ratio.
func always(x float64) perRatio { return perRatio{x, x, x, x} }

// row is one model of the table.
type row struct {
	name      string
	family    Family
	memory    float64
	cpus      perRatio
	iteration perRatio
	speedup   perRatio
}

// table is indexed by the artifact's class IDs; its workloads depend on their order.
var table = [...]row{
	{"alexnet", Image, 125, perRatio{12, 12, 12, 24}, perRatio{0.6, 0.48, 0.392, 0.34},
		perRatio{2.94, 2.352, 1.92, 2.18}},
	{"res18", Image, 62.5, always(9), perRatio{0.64, 0.5, 0.41, 0.365}, perRatio{2.4, 1.85, 1.568, 1.37}},
	{"res50", Image, 62.5, always(4), perRatio{0.78, 0.68, 0.68, 0.68}, perRatio{1.15, 1, 1, 1}},
	{"mobilenet", Image, 62.5, always(6), perRatio{0.71, 0.55, 0.47, 0.458}, perRatio{1.55, 1.2, 1.04, 1}},
	{"shufflenet", Image, 125, perRatio{12, 12, 12, 24}, perRatio{0.615, 0.492, 0.401, 0.351},
		perRatio{2.89, 2.312, 1.88, 2.59}},
	{"gnmt", Language, 20, always(1), always(0.12), always(1)},
	{"transformer", Language, 20, always(1), always(0.67), always(1)},
	{"lstm", Language, 20, always(1), always(0.011), always(1)},
	{"m5", Speech, 187.5, always(6), perRatio{0.6, 0.5, 0.42, 0.3}, perRatio{2.5, 2.08, 1.78, 1}},
	{"deepspeech", Speech, 62.5, always(3), always(0.757), always(1)},
}

// CPUAxis and MemoryAxis are the cores and the GB per GPU at which Sensitivity was measured.
func CPUAxis() [9]float64    { return [...]float64{1, 2, 3, 4, 5, 6, 9, 12, 24} }
func MemoryAxis() [5]float64 { return [...]float64{20.83, 62.5, 125, 187.5, 250} }

// Matrix is the throughput relative to that with the proportional share of a server with three cores and 62.5 GB per
// GPU: [i][j] is that with CPUAxis[i] cores and MemoryAxis[j] GB per GPU.
type Matrix [9][5]float64

// Sensitivity returns the matrix of the model with this class ID, for the CPU:GPU ratio 3. With the least memory, image
// and speech models starve, and language models lose nothing. The artifact also uses the matrix with the other ratios,
// although it is not 1 at the proportional share there; other users should not.
func Sensitivity(id int) Matrix {
	starved, curves := starvedImageOrSpeech, measured[id]
	if table[id].family == Language {
		starved = 1
	}
	var m Matrix
	for i := range m {
		m[i][0] = starved
		for j := 1; j < len(m[i]); j++ {
			m[i][j] = curves[min(j, len(curves))-1][i]
		}
	}
	return m
}

// starvedImageOrSpeech is the relative throughput of every image and speech model with the least memory, whatever its
// cores.
const starvedImageOrSpeech = 0.1

// curve is throughput by cores, at the points of CPUAxis.
type curve [9]float64

var flat = curve{1, 1, 1, 1, 1, 1, 1, 1, 1}

// measured has, for each model, its curves at 62.5 GB per GPU, at 125 GB and so on; the last curve also holds for all
// larger amounts.
var measured = [len(table)][]curve{
	{{.3, .66, 1, 1.25, 1.53, 1.75, 2, 2, 2}, {.3, .66, 1, 1.25, 1.53, 1.75, 2, 2.94, 2.94}},
	{{.37, .72, 1, 1.3, 1.53, 1.75, 2.4, 2.4, 2.4}},
	{{.4, .74, 1, 1.15, 1.15, 1.15, 1.15, 1.15, 1.15}},
	{{.37, .72, 1, 1.3, 1.49, 1.55, 1.55, 1.55, 1.55}},
	{{.3, .66, 1, 1.25, 1.53, 1.75, 2, 2, 2}, {.3, .66, 1, 1.25, 1.53, 1.75, 2, 2.89, 2.89}},
	{flat},
	{flat},
	{flat},
	{{.3, .66, 1, 1.2, 1.4, 1.5, 1.5, 1.5, 1.5}, {.3, .66, 1, 1.2, 1.4, 2, 2, 2, 2},
		{.3, .66, 1, 1.2, 1.4, 2.5, 2.5, 2.5, 2.5}},
	{{.3, .66, 1, 1, 1, 1, 1, 1, 1}},
}
