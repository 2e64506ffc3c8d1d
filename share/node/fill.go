package node

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Fill is what the broker says of a GPU that is shared by MPS: the environment that a job of each class needs. It lies
// beside the GPU's socket, and is removed before its MPS daemon ends.
type Fill struct {
	V   int `json:"v"` // FillVersion
	GPU int `json:"gpu"`
	// UID is the one user whom the MPS daemon serves; nil: it serves all.
	UID  *int     `json:"uid,omitempty"`
	High Settings `json:"high"`
	Low  Settings `json:"low"`
}

// Settings are those of one class.
type Settings struct {
	Env map[string]string `json:"env"`
}

// FillVersion is that of Fill.
const FillVersion = 1

// maxValue is how long a variable may be, bytes.
const maxValue = 1024

// mpsNames are what a fill may say to a task, and all that it may.
var mpsNames = []string{"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_CLIENT_PRIORITY",
	"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"}

// Check says what is wrong with a fill.
func (f Fill) Check() error {
	if f.V != FillVersion {
		return fmt.Errorf("v = %d: want %d", f.V, FillVersion)
	}
	if f.GPU < 0 {
		return fmt.Errorf("gpu = %d: want 0 or more", f.GPU)
	}
	if f.UID != nil && *f.UID < 0 {
		return fmt.Errorf("uid = %d: want 0 or more", *f.UID)
	}
	if err := f.High.check(); err != nil {
		return fmt.Errorf("high: %w", err)
	}
	if err := f.Low.check(); err != nil {
		return fmt.Errorf("low: %w", err)
	}
	return nil
}

func (s Settings) check() error {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if !slices.Contains(mpsNames, name) {
			return fmt.Errorf("env %s: want one of %v", printable.Quote(name, 60), mpsNames)
		}
		if text := s.Env[name]; text == "" || len(text) > maxValue || !printable.Is(text) {
			return fmt.Errorf("env %s: want 1 to %d bytes that can be printed", name, maxValue)
		}
	}
	return nil
}

// Write puts the fill where the tasks of its GPU look for it. Only root does, or whose folder it is.
func (f Fill) Write(dir string) error {
	if err := f.Check(); err != nil {
		return fmt.Errorf("write a fill: %w", err)
	}
	return writeFile(FillPath(dir, f.GPU), f)
}

// ReadFill reads the fill of a GPU; one that is not filled has none, which is fs.ErrNotExist.
func ReadFill(dir string, gpu int) (Fill, error) {
	var f Fill
	path := FillPath(dir, gpu)
	if err := readFile(path, &f); err != nil {
		return Fill{}, err
	}
	if err := f.Check(); err != nil {
		return Fill{}, fmt.Errorf("%s: %w", path, err)
	}
	if f.GPU != gpu {
		return Fill{}, fmt.Errorf("%s: gpu = %d: want %d, by which the file is called", path, f.GPU, gpu)
	}
	return f, nil
}

// of are the settings of a job; none where the MPS daemon does not serve its user.
func (f Fill) of(stamp share.Stamp) Settings {
	switch {
	case f.UID != nil && *f.UID != stamp.UID:
		return Settings{}
	case stamp.Class == share.High:
		return f.High
	default:
		return f.Low
	}
}

func isAway(err error) bool { return errors.Is(err, fs.ErrNotExist) }
