package learned

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// MaxBytes is the size of the largest entry that Parse reads, MaxText the longest name of a user or a job. Slurm's own
// names are shorter.
const (
	MaxBytes = 16 << 10
	MaxText  = 1024
)

// Print formats an entry for people and for Parse.
func (e *Entry) Print() ([]byte, error) {
	text, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("print what was learned: %w", err)
	}
	return append(text, '\n'), nil
}

// Parse parses an entry strictly: one that was damaged or edited by hand is refused with the reason, and is not used.
func Parse(text []byte) (*Entry, error) {
	if len(text) > MaxBytes || !utf8.Valid(text) {
		return nil, fmt.Errorf("%d bytes: want UTF-8 of at most %d", len(text), MaxBytes)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	e := &Entry{}
	if err := decoder.Decode(e); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("goes on after its object: want nothing there")
	}
	return e, e.check()
}

// Valid reports whether an entry may have this user and job name, so that Parse reads it back unchanged.
func (k Key) Valid() bool {
	return k.User != "" && !strings.ContainsRune(k.User, 0) && len(k.User) <= MaxText && len(k.Job) <= MaxText &&
		utf8.ValidString(k.User) && utf8.ValidString(k.Job)
}

// check finds values to which no report can have led.
func (e *Entry) check() error {
	switch {
	case e.Version != Version:
		return fmt.Errorf("version = %d: want %d", e.Version, Version)
	case !e.Key().Valid() || len(e.GPUType) > MaxText:
		return fmt.Errorf("user, job_name, gpu_type: want a user's name, and no text of more than %d bytes", MaxText)
	case len(e.Points) > MaxPoints:
		return fmt.Errorf("points: %d of them: want at most %d", len(e.Points), MaxPoints)
	case len(e.Points) > 0 && (e.Memory < 1 || e.Memory > maxMemory):
		return fmt.Errorf("memory_per_gpu_mib = %d: want 1 to %d", e.Memory, maxMemory)
	}
	for k, p := range e.Points {
		if err := p.check(); err != nil {
			return fmt.Errorf("points[%d]: %w", k, err)
		}
		if k > 0 && p.Cores <= e.Points[k-1].Cores {
			return fmt.Errorf("points[%d]: cores_per_gpu = %v: want more than the %v before it", k, p.Cores,
				e.Points[k-1].Cores)
		}
	}
	return nil
}

// check returns an error for the first field that is out of range.
func (p Point) check() error {
	switch {
	case !(p.Cores >= 0.01 && p.Cores <= maxCores) || !hundredths(p.Cores):
		return fmt.Errorf("cores_per_gpu = %v: want hundredths from 0.01 to %d", p.Cores, maxCores)
	case !(p.Rate >= minRate && p.Rate <= maxRate):
		return fmt.Errorf("iterations_per_s = %v: want %v to %v", p.Rate, minRate, maxRate)
	case p.Count < 1 || !(p.Scatter >= 0 && p.Scatter <= 1):
		return fmt.Errorf("count = %d, scatter = %v: want a report at least, and 0 to 1", p.Count, p.Scatter)
	case p.Way != Curve && p.Way != Progress:
		return fmt.Errorf("way = %.20q: want curve or progress", p.Way)
	}
	return nil
}

func hundredths(x float64) bool {
	hundred := float64(x * 100)
	return math.Abs(hundred-math.Round(hundred)) <= 1e-6
}
