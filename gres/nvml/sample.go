package nvml

import (
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Reading is the state of one GPU at one moment.
type Reading struct {
	Minor int
	UUID  string
	// Busy is the percentage of the last fraction of a second in which any process's kernel ran on the GPU; Unknown if
	// the driver does not say, as in MIG mode.
	Busy   int
	Memory gres.Memory // in use on the GPU, by any process
	// Mine is the memory held by the processes that were asked for, 0 if none were; Unknown if the driver does not say.
	Mine gres.Memory
	Err  error // why there is no reading; all amounts are then 0
}

// Sample is one reading of several GPUs, in the order of their device files.
type Sample struct {
	At   time.Time
	GPUs []Reading
}

// Sampler reads again and again the GPUs that existed when it began. It remembers which is which, so that a GPU that
// falls off the bus is reported by its number; it is asked again, in case it comes back. A Sampler is not safe for
// concurrent use.
type Sampler struct {
	known []sampled
	clock func() time.Time
}

// sampled is a GPU with what identifies it.
type sampled struct {
	device
	minor int
	uuid  string
}

// Sampler returns a new Sampler. A GPU that cannot be read now has no number and is left out of all samples.
func (d *Driver) Sampler(clock func() time.Time) (*Sampler, error) {
	devices, _, err := d.lib.devices()
	if err != nil {
		return nil, err
	}
	s := &Sampler{clock: clock}
	for _, dev := range devices {
		if g, err := dev.describe(); err == nil {
			s.known = append(s.known, sampled{dev, g.Minor, g.UUID})
		}
	}
	slices.SortFunc(s.known, func(a, b sampled) int { return a.minor - b.minor })
	return s, nil
}

// OfDevices reads GPUs by the numbers of their device files. Slurm's indices (SLURM_JOB_GPUS, IDX) are the same numbers
// if gres.conf lists all device files in order, as the lines that this project prints do. A number without a GPU gets a
// reading with an error.
func (s *Sampler) OfDevices(minors ...int) Sample {
	sample := Sample{At: s.clock()}
	for _, minor := range minors {
		i := slices.IndexFunc(s.known, func(k sampled) bool { return k.minor == minor })
		if i < 0 {
			sample.GPUs = append(sample.GPUs, Reading{Minor: minor, Err: fmt.Errorf("GPU %d: there is none", minor)})
			continue
		}
		sample.GPUs = append(sample.GPUs, s.known[i].read(0))
	}
	return sample
}

// OfProcesses reads the GPUs that any of these processes uses. A GPU that cannot say who uses it is included, with its
// error, since it may be one of theirs.
func (s *Sampler) OfProcesses(pids ...int) Sample {
	sample := Sample{At: s.clock()}
	for _, k := range s.known {
		users, err := k.processes()
		if err != nil {
			sample.GPUs = append(sample.GPUs, k.broken(err))
			continue
		}
		if slices.ContainsFunc(pids, func(pid int) bool { _, uses := users[pid]; return uses }) {
			sample.GPUs = append(sample.GPUs, k.read(held(users, pids)))
		}
	}
	return sample
}

// read reads the GPU; mine is the memory held by the processes that were asked for.
func (k sampled) read(mine gres.Memory) Reading {
	u, err := k.usage()
	if err != nil {
		return k.broken(err)
	}
	return Reading{Minor: k.minor, UUID: k.uuid, Busy: u.busy, Memory: u.memory, Mine: mine}
}

func (k sampled) broken(err error) Reading {
	return Reading{Minor: k.minor, UUID: k.uuid, Err: fmt.Errorf("GPU %d: %w", k.minor, err)}
}

// held returns the sum of what the processes hold; Unknown if that of one is unknown.
func held(users map[int]gres.Memory, pids []int) gres.Memory {
	sum := gres.Memory(0)
	for _, pid := range pids {
		memory, uses := users[pid]
		if uses && memory == Unknown {
			return Unknown
		}
		sum += memory
	}
	return sum
}
