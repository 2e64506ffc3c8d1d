package node

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Fill is what the broker says of a GPU on which an MPS daemon runs: whose jobs are its clients, and the environment
// that a job of each class needs. It lies beside the GPU's socket, and is removed before its MPS daemon ends.
type Fill struct {
	V   int `json:"v"` // FillVersion
	GPU int `json:"gpu"`
	// UID is the one user whom the MPS daemon serves; nil: it serves all.
	UID *int `json:"uid,omitempty"`
	// Jobs are the runs whose tasks are its clients. A job is one from its first task to its last or not at all, so
	// one that began before is not added.
	Jobs []Run    `json:"jobs"`
	High Settings `json:"high"`
	Low  Settings `json:"low"`
}

// Serves says whether the tasks of a run are clients.
func (f Fill) Serves(run Run) bool { return slices.ContainsFunc(f.Jobs, run.Is) }

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
	for _, run := range f.Jobs {
		if run.Job < 1 || f.UID != nil && run.UID != *f.UID {
			return fmt.Errorf("jobs: job %d of user %d: want jobs of the user whom it serves", run.Job, run.UID)
		}
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
func ReadFill(dir string, gpu int) (Fill, error) { return readFill(FillPath(dir, gpu), gpu) }

func readFill(path string, gpu int) (Fill, error) {
	var f Fill
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

// Withdraw takes back what tasks are told of MPS on all GPUs: nobody looks any more whether what serves them lives.
// Which jobs are clients is left as a note for the next broker.
func Withdraw(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "fill-*.json"))
	for _, file := range files {
		note := filepath.Join(dir, "was-"+filepath.Base(file))
		now := time.Now()
		if wrong := os.Rename(file, note); wrong != nil {
			err = errors.Join(err, wrong, os.Remove(file))
			continue
		}
		err = errors.Join(err, os.Chtimes(note, now, now))
	}
	return err
}

// mostAway is for how long a broker may be away and its note still hold: a task that begins meanwhile is told of no
// MPS, and its job is a client no longer. In a restart of a second hardly one begins, and were it so, it would run
// beside the others in time slices.
const mostAway = time.Minute

// Withdrawn is what was taken back of a GPU a short while ago; fs.ErrNotExist: nothing was. It is said once.
func Withdrawn(dir string, gpu int, now time.Time) (Fill, error) {
	path := filepath.Join(dir, "was-"+filepath.Base(FillPath(dir, gpu)))
	about, err := os.Lstat(path)
	if err != nil {
		return Fill{}, err
	}
	f, err := readFill(path, gpu)
	if err := errors.Join(err, os.Remove(path)); err != nil {
		return Fill{}, err
	}
	if away := now.Sub(about.ModTime()); away > mostAway {
		return Fill{}, fs.ErrNotExist
	}
	return f, nil
}

// of are the settings of a run; none where it is no client.
func (f Fill) of(seat *Seat) Settings {
	run := Run{Job: seat.Stamp.Job, UID: seat.Stamp.UID, Stamped: seat.Stamped}
	switch {
	case !f.Serves(run):
		return Settings{}
	case seat.Stamp.Class == share.High:
		return f.High
	default:
		return f.Low
	}
}

func isAway(err error) bool { return errors.Is(err, fs.ErrNotExist) }
