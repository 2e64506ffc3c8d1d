// Package share is the vocabulary of several jobs on one GPU: what a job asks for when it opts in, what the daemon
// tells the node of it, and the bounds that both keep. It decides nothing.
package share

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Class is how important a job is on a GPU that it shares.
type Class string

// The classes. Of the jobs on one GPU at most one is High.
const (
	High Class = "high" // runs nearly as if alone
	Low  Class = "low"  // fills what the other leaves
)

// Mode is by which way a node has jobs share a GPU, in the words of its administrator.
type Mode string

// The modes. The empty one is Turns.
const (
	Turns Mode = "turns" // one job at a time, with look-ahead: what every node can give
	// Fill is all at once by MPS. The classic server is one user's alone, so jobs of several users take turns there.
	Fill Mode = "fill"
)

// ParseMode reads the name of a mode.
func ParseMode(name string) (Mode, error) {
	if m := Mode(name); m == Turns || m == Fill {
		return m, nil
	}
	return "", fmt.Errorf("%.40q: want %s or %s", name, Turns, Fill)
}

// Bounds of a shared GPU.
const (
	MostJobs   = 4    // on one GPU
	MemoryPart = 0.95 // of the GPU's memory that the jobs on it may need together
	// HighKeeps is the part of its speed alone that a job of class High keeps by prediction, or it is not paired.
	HighKeeps = 0.9
	// LowKeeps is the part of its speed alone with the proportional share that a job of class Low keeps at least, by
	// prediction and with the cores and memory that it is given, or it is not paired: to run at a fifth beats to wait,
	// and below that a job holds memory of the GPU for nearly nothing.
	LowKeeps = 0.2
)

// Request is what a job says of sharing a GPU, by the directive synergy-share. A job that has none is never put on a
// GPU that another job uses.
type Request struct {
	Class Class `json:"class"`
	// Memory is how much of the GPU's memory the job needs at most, MiB; 0: its profile says it.
	Memory gres.Memory `json:"gpu_memory_mib,omitempty"`
	// SLO is within how long each step of the job shall end, counted from when it wants the GPU; 0: not said.
	SLO time.Duration `json:"slo_ns,omitempty"`
}

// The most that a request may say: more memory than any GPU has, and a step longer than any.
const (
	mostMemory = 1024 // GiB
	mostSLO    = 10 * time.Minute
)

var (
	decimal = regexp.MustCompile(`^[0-9]{1,6}(\.[0-9]{1,3})?$`)
	whole   = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)
)

// ParseRequest reads the directive's value: high or low, and behind it, each once and in any order, mem=GIB and
// slo=MILLISECONDS, joined by commas.
func ParseRequest(value string) (Request, error) {
	parts := strings.Split(value, ",")
	r := Request{Class: Class(parts[0])}
	if r.Class != High && r.Class != Low {
		return Request{}, fmt.Errorf("synergy-share=%.40q: want high or low first", value)
	}
	seen := map[string]bool{}
	for _, part := range parts[1:] {
		name, amount, _ := strings.Cut(part, "=")
		if seen[name] {
			return Request{}, fmt.Errorf("synergy-share=%.40q: %.20q said twice: say it once", value, name)
		}
		seen[name] = true
		if err := r.set(name, amount); err != nil {
			return Request{}, fmt.Errorf("synergy-share=%.40q: %w", value, err)
		}
	}
	return r, nil
}

func (r *Request) set(name, amount string) error {
	switch name {
	case "mem":
		gib, err := strconv.ParseFloat(amount, 64)
		if err != nil || !decimal.MatchString(amount) || gib <= 0 || gib > mostMemory {
			return fmt.Errorf("mem=%.20q: want GiB of the GPU's memory, more than 0 and at most %d", amount, mostMemory)
		}
		r.Memory = gres.Memory(max(1, float64(gib*1024)))
		return nil
	case "slo":
		ms, err := strconv.Atoi(amount)
		if err != nil || !whole.MatchString(amount) || time.Duration(ms)*time.Millisecond > mostSLO {
			return fmt.Errorf("slo=%.20q: want whole milliseconds, 1 to %d", amount, mostSLO.Milliseconds())
		}
		r.SLO = time.Duration(ms) * time.Millisecond
		return nil
	}
	return fmt.Errorf("%.20q: want mem= or slo=", name)
}

// Announced is by which a node says that a broker is there: a word of its Comment in Slurm, which the broker writes, or
// a Feature, which an administrator does.
const Announced = "synergy-broker"

// Stamp is what the node is told of a job that shares a GPU: only what the daemon wrote, and never what the job says of
// itself. The prolog writes it, as root, into a file that is called by the job's number.
type Stamp struct {
	V      int         `json:"v"` // StampVersion
	Job    int         `json:"job"`
	UID    int         `json:"uid"`
	GPU    int         `json:"gpu"` // index on the node, as in SLURM_JOB_GPUS
	Class  Class       `json:"class"`
	Memory gres.Memory `json:"gpu_memory_mib"`
	SLO    int64       `json:"slo_ms,omitempty"`
}

// StampVersion is that of Stamp.
const StampVersion = 1

// MostUID is the largest number of a user. The next, of ones alone, is nobody's: to chown it says "as it is".
const MostUID = math.MaxUint32 - 1

// Check says what is wrong with a stamp.
func (s Stamp) Check() error {
	switch {
	case s.V != StampVersion:
		return fmt.Errorf("v = %d: want %d", s.V, StampVersion)
	case s.Job < 1:
		return fmt.Errorf("job = %d: want a job's number", s.Job)
	case s.UID < 0 || int64(s.UID) > MostUID:
		return fmt.Errorf("uid = %d: want 0 to %d", s.UID, int64(MostUID))
	case s.GPU < 0:
		return fmt.Errorf("gpu = %d: want 0 or more", s.GPU)
	case s.Class != High && s.Class != Low:
		return fmt.Errorf("class = %.20q: want high or low", s.Class)
	case s.Memory < 1:
		return errors.New("gpu_memory_mib: want more than 0")
	case s.SLO < 0 || s.SLO > mostSLO.Milliseconds():
		return fmt.Errorf("slo_ms = %d: want 0 to %d", s.SLO, mostSLO.Milliseconds())
	}
	return nil
}
