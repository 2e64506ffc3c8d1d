// Package share defines how several jobs share one GPU: what a job asks for when it opts in, what the daemon tells the
// node about it, and the bounds that both keep. It decides nothing. The parts of a synergy-share= directive are joined
// by single commas, although a comma ends any other directive in a comment; the gate, the daemon and the filter agree
// on that.
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

// Class is a job's importance on the GPU that it shares.
type Class string

// The classes. At most one of the jobs on a GPU is High.
const (
	High Class = "high" // runs nearly as if alone
	Low  Class = "low"  // uses what the other jobs leave
)

// Mode is how jobs share the GPUs of a node, as its administrator set it.
type Mode string

// The modes. The empty one means Turns.
const (
	Turns Mode = "turns" // one job at a time, with look-ahead; works on every node
	// Fill runs all jobs at once through MPS. The classic MPS server serves one user only, so jobs of several users
	// take turns there.
	Fill Mode = "fill"
)

// ParseMode reads the name of a mode, as an administrator writes it. The empty mode is an error here.
func ParseMode(name string) (Mode, error) {
	if m := Mode(name); m == Turns || m == Fill {
		return m, nil
	}
	return "", fmt.Errorf("%.40q: want %s or %s", name, Turns, Fill)
}

// Bounds of a shared GPU.
const (
	MostJobs   = 4    // jobs on one GPU
	MemoryPart = 0.95 // of the GPU's memory, which all its jobs together may need
	// HighKeeps is the part of its speed alone that a job of class High must keep by prediction; otherwise it is not
	// paired.
	HighKeeps = 0.9
	// LowKeeps is the part of its speed alone, with the proportional share, that a job of class Low must keep by
	// prediction with the cores and memory that it gets; otherwise it is not paired. A fifth of the speed is better
	// than waiting, but below that a job holds GPU memory for nearly nothing.
	LowKeeps = 0.2
)

// Request is what a job asks for by the directive synergy-share. A job without one is never placed on a GPU that
// another job uses.
type Request struct {
	Class Class `json:"class"`
	// Memory is the most GPU memory that the job needs, MiB; 0: as its profile says.
	Memory gres.Memory `json:"gpu_memory_mib,omitempty"`
	// SLO is the time within which each step of the job should end, counted from when it wants the GPU; 0: not given.
	SLO time.Duration `json:"slo_ns,omitempty"`
}

// The largest values in a request: more memory than any GPU has, and a step longer than any real one.
const (
	mostMemory = 1024 // GiB
	mostSLO    = 10 * time.Minute
)

var (
	decimalPattern = regexp.MustCompile(`^[0-9]{1,6}(\.[0-9]{1,3})?$`)
	wholePattern   = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)
)

// ParseRequest reads the directive's value: high or low, then mem=GIB and slo=MILLISECONDS, each at most once and in
// any order, joined by commas.
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
		if err := r.setOption(name, amount); err != nil {
			return Request{}, fmt.Errorf("synergy-share=%.40q: %w", value, err)
		}
	}
	return r, nil
}

// setOption parses one option of the directive, such as mem=16, into the request. The error says what is wanted
// instead.
func (r *Request) setOption(name, amount string) error {
	switch name {
	case "mem":
		gib, err := strconv.ParseFloat(amount, 64)
		if err != nil || !decimalPattern.MatchString(amount) || gib <= 0 || gib > mostMemory {
			return fmt.Errorf("mem=%.20q: want GiB of the GPU's memory, more than 0 and at most %d", amount, mostMemory)
		}
		r.Memory = gres.Memory(max(1, float64(gib*1024)))
		return nil
	case "slo":
		ms, err := strconv.Atoi(amount)
		if err != nil || !wholePattern.MatchString(amount) || time.Duration(ms)*time.Millisecond > mostSLO {
			return fmt.Errorf("slo=%.20q: want whole milliseconds, 1 to %d", amount, mostSLO.Milliseconds())
		}
		r.SLO = time.Duration(ms) * time.Millisecond
		return nil
	}
	return fmt.Errorf("%.20q: want mem= or slo=", name)
}

// Announced marks a node on which a broker runs. It is a word in the node's Comment in Slurm, written by the broker, or
// a Feature, set by an administrator.
const Announced = "synergy-broker"

// Stamp is what the node is told about a job that shares a GPU. It has only what the daemon wrote, never what the job
// says of itself. The prolog, as root, writes it to a file named by the job's ID.
type Stamp struct {
	V      int         `json:"v"` // StampVersion
	Job    int         `json:"job"`
	UID    int         `json:"uid"`
	GPU    int         `json:"gpu"` // index on the node, as in SLURM_JOB_GPUS
	Class  Class       `json:"class"`
	Memory gres.Memory `json:"gpu_memory_mib"`
	SLO    int64       `json:"slo_ms,omitempty"`
}

// StampVersion is the version of Stamp's format.
const StampVersion = 1

// MostUID is the largest user ID. The next number, all ones, is no user: chown takes it as "leave unchanged".
const MostUID = math.MaxUint32 - 1

// Check returns an error for the first field of the stamp that is out of range. A stamp that was damaged must not
// decide which jobs share a GPU.
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
