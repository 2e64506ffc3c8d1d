//go:build live && (bench || fidelity)

package live

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// The workload of the comparison: 20 % image, 70 % language, 10 % speech by count, as in the paper. A second here
// stands for two and a half minutes: rounds of 2 s are the 300 s of a real site, jobs of 40 s to 4 min are 1.7 to 10
// hours.
const (
	benchJobs    = 60
	benchSpeedup = 40
	benchRound   = 2 * time.Second
	benchSpan    = 150.0 // seconds over which jobs arrive
)

// iterTime is the seconds of one iteration at the proportional share (Synergy's published profiles).
var iterTime = map[string]float64{
	"alexnet": 0.6, "res18": 0.64, "res50": 0.78, "mobilenet": 0.71, "shufflenet": 0.615,
	"gnmt": 0.12, "transformer": 0.67, "lstm": 0.011, "m5": 0.6, "deepspeech": 0.757,
}

// planned is one job of the workload.
type planned struct {
	model      string
	gpus       int
	iterations int
	arrival    time.Duration
	length     time.Duration // at the proportional share
}

// workload draws the jobs; the same seed draws the same.
func workload(seed uint64) []planned {
	draw := rand.New(rand.NewPCG(seed, 0))
	families := map[string][]string{
		"image":    {"alexnet", "res18", "res50", "mobilenet", "shufflenet"},
		"language": {"gnmt", "transformer", "lstm"},
		"speech":   {"m5", "deepspeech"},
	}
	var jobs []planned
	next, at := map[string]int{}, 0.0
	for k := range benchJobs {
		family := [10]string{"image", "language", "language", "speech", "language", "image", "language", "language",
			"language", "language"}[k%10]
		model := families[family][next[family]%len(families[family])]
		next[family]++
		seconds := 40 * math.Pow(6, draw.Float64())
		gpus := [20]int{1, 1, 4, 1, 1, 2, 1, 1, 1, 4, 1, 8, 1, 1, 2, 1, 1, 4, 1, 1}[draw.IntN(20)]
		jobs = append(jobs, planned{
			model: model, gpus: gpus, arrival: time.Duration(at * float64(time.Second)),
			length:     time.Duration(seconds * float64(time.Second)),
			iterations: int(seconds * benchSpeedup / iterTime[model]),
		})
		at += draw.ExpFloat64() * benchSpan / benchJobs
	}
	return jobs
}

// ended is when a job ended for good, and in how many runs.
func (c *Cluster) ended(id JobID) (time.Time, int) {
	c.t.Helper()
	ends := strings.Fields(c.MustExec("login", "root", "sacct", "-X", "-n", "-P", "--duplicates", "-j", id.String(),
		"--format=End"))
	slices.SortFunc(ends, cmp.Compare)
	return moment(c, ends[len(ends)-1]), len(ends)
}
