package nvml

import (
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Reading is one GPU at one moment.
type Reading struct {
	Minor int
	UUID  string
	// Busy is the percentage of the last fraction of a second in which a kernel ran on the GPU, whoever's; Unknown
	// where the driver does not say, as of a GPU in MIG mode.
	Busy   int
	Memory gres.Memory // in use on the GPU, whoever's
	// Mine is what the processes that were asked for hold of it, 0 where none were; Unknown where the driver does not
	// say.
	Mine gres.Memory
	Err  error // why there is no reading, and all figures are 0
}

// Sample is one look at several GPUs, in the order of their device files.
type Sample struct {
	At   time.Time
	GPUs []Reading
}

// Sampler looks again and again at the GPUs that were there when it began. It remembers which is which, so that one
// that falls off the bus meanwhile is told by its number; and it asks again, in case it comes back. It is not safe for
// several goroutines.
type Sampler struct {
	known []sampled
	clock func() time.Time
}

type sampled struct {
	device
	minor int
	uuid  string
}

// Sampler begins. A GPU that cannot be read at that time has no number and is left out of all samples.
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

// OfDevices looks at GPUs by the numbers of their device files. Slurm's indices (SLURM_JOB_GPUS, IDX) are the same
// numbers where gres.conf lists all device files in order, as the lines that this project prints do. A number that
// there is no GPU of gets a reading with an error.
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

// OfProcesses looks at the GPUs that any of these processes uses. A GPU that cannot say who uses it is among them, with
// its error: it may be theirs.
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

// read looks at the GPU, of which mine belongs to those who ask.
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

// held adds up what the processes hold; it is Unknown where that of one is.
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
