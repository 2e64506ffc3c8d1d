package sensitivity

import "fmt"

// Noise is how far a measured throughput may be below the one with fewer resources, relative to it, and still count as
// equal. Runs of a minute on a shared server differ by 3 to 4 % at the same point; a larger fall has another cause,
// such as too many workers.
const Noise = 0.05

// check finds what is wrong with the numbers of p, and evens out noise.
func (p *Profile) check(found *problems) {
	p.checkAxes(found)
	p.checkCost("checkpoint_s", p.CheckpointSeconds, found)
	p.checkCost("start_s", p.StartSeconds, found)
	if p.checkShape(found) {
		p.checkThroughput(found)
	}
}

// checkAxes checks that the axes ascend and cores are within their limits.
func (p *Profile) checkAxes(found *problems) {
	for i, cores := range p.CoresPerGPU {
		if cores < minCores || cores > maxCores {
			found.add("cores_per_gpu[%d] = %v: want a number from %v to %d", i, cores, minCores, maxCores)
		}
		if i > 0 && cores <= p.CoresPerGPU[i-1] {
			found.add("cores_per_gpu[%d] = %v: want more than the %v before it", i, cores, p.CoresPerGPU[i-1])
		}
	}
	for j, memory := range p.MemoryPerGPU {
		if j > 0 && memory <= p.MemoryPerGPU[j-1] {
			found.add("memory_per_gpu_mib[%d] = %d: want more than the %d before it", j, memory, p.MemoryPerGPU[j-1])
		}
	}
}

func (p *Profile) checkCost(name string, seconds float64, found *problems) {
	if seconds < 0 || seconds > maxCost {
		found.add("%s = %v: want seconds from 0 to %d", name, seconds, maxCost)
	}
}

// checkShape reports whether the matrix has one row for every number of cores and one column for every amount of
// memory.
func (p *Profile) checkShape(found *problems) bool {
	before := len(*found)
	if rows, want := len(p.Throughput), len(p.CoresPerGPU); rows != want {
		found.add("throughput_samples_per_s has %d rows: want %d, one for each of cores_per_gpu", rows, want)
	}
	for i, row := range p.Throughput {
		if want := len(p.MemoryPerGPU); len(row) != want {
			found.add("throughput_samples_per_s[%d] has %d numbers: want %d, one for each of memory_per_gpu_mib", i,
				len(row), want)
		}
	}
	return len(*found) == before
}

// checkThroughput compares every cell with its neighbours with fewer cores and less memory, and raises it to them if it
// is lower by no more than noise. It goes by rows, so the neighbours have been raised before.
func (p *Profile) checkThroughput(found *problems) {
	for i, row := range p.Throughput {
		for j, rate := range row {
			floor, with := p.floor(i, j)
			if want := wrong(rate, floor, with); want != "" {
				found.add("throughput_samples_per_s[%d][%d] = %v: want %s", i, j, rate, want)
			}
			row[j] = max(rate, floor)
		}
	}
}

// floor returns the larger throughput of the two neighbours of cell (i, j) with less, and what they have less of.
func (p *Profile) floor(i, j int) (rate float64, with string) {
	if j > 0 {
		rate, with = p.Throughput[i][j-1], "less memory"
	}
	if i > 0 && p.Throughput[i-1][j] > rate {
		rate, with = p.Throughput[i-1][j], "fewer cores"
	}
	return rate, with
}

// wrong says what a throughput should have been; empty if it is right.
func wrong(rate, floor float64, with string) string {
	switch {
	case rate <= 0:
		return "a number greater than 0"
	case rate < minThroughput || rate > maxThroughput:
		return fmt.Sprintf("a number from %v to %v", minThroughput, maxThroughput)
	case rate < floor*(1-Noise):
		return fmt.Sprintf("no less than the %v with %s", floor, with)
	}
	return ""
}
