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

// Fill is what the broker writes about a GPU with an MPS daemon: which jobs are its clients, and the environment that a
// job of each class needs. It lies beside the GPU's socket and is removed before the MPS daemon ends.
type Fill struct {
	V   int `json:"v"` // FillVersion
	GPU int `json:"gpu"`
	// UID is the only user whom the MPS daemon serves; nil: it serves all.
	UID *int `json:"uid,omitempty"`
	// Jobs are the runs whose tasks are MPS clients. A job is a client from its first task to its last or never, so a
	// job that began before is not added.
	Jobs []Run    `json:"jobs"`
	High Settings `json:"high"`
	Low  Settings `json:"low"`
}

// Serves reports whether the tasks of a run are MPS clients.
func (f Fill) Serves(run Run) bool { return slices.ContainsFunc(f.Jobs, run.Is) }

// Settings are the environment variables for one class.
type Settings struct {
	Env map[string]string `json:"env"`
}

// FillVersion is the version of Fill's format.
const FillVersion = 1

// maxValue is the longest value of a variable, bytes.
const maxValue = 1024

// mpsNames are the only variables that a fill may set for a task.
var mpsNames = []string{"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_CLIENT_PRIORITY",
	"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"}

// Check returns an error if the fill is not valid: a task takes variables from it, so a damaged one must not be used.
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

// check returns an error if a variable is not one of mpsNames or its value is not printable, so that a fill sets
// nothing else in a task's environment.
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

// Write stores the fill where the tasks of its GPU look for it. It needs the rights of root or of the folder's owner.
func (f Fill) Write(dir string) error {
	if err := f.Check(); err != nil {
		return fmt.Errorf("write a fill: %w", err)
	}
	return writeFile(FillPath(dir, f.GPU), f)
}

// ReadFill reads the fill of a GPU. It returns fs.ErrNotExist if the GPU has none.
func ReadFill(dir string, gpu int) (Fill, error) { return readFill(FillPath(dir, gpu), gpu) }

// readFill reads and checks a fill, which must be of this GPU; fs.ErrNotExist: there is none.
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

// Withdraw removes the fills of all GPUs, because no broker watches any more whether the MPS daemons live, so tasks
// must not be told of them. Which jobs are clients is kept in a note for the next broker. The note's modification time
// says since when. A fill that cannot be renamed is removed.
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

// withdrawnTTL is how long a broker may be away for its note to hold. A task that starts meanwhile is not told of MPS,
// so its job is no longer wholly a client. In a restart of a second hardly any task starts, and one that does runs
// beside the others in time slices.
const withdrawnTTL = time.Minute

// Withdrawn returns the fill that a broker withdrew from a GPU less than withdrawnTTL ago, so that the next broker goes
// on with the jobs that are MPS clients; fs.ErrNotExist if there is none or it is older. It deletes the note in any
// case, since the note holds for the next broker only.
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
	if away := now.Sub(about.ModTime()); away > withdrawnTTL {
		return Fill{}, fs.ErrNotExist
	}
	return f, nil
}

// settingsFor returns the environment of a job's tasks, by its class; empty if the job is no MPS client.
func (f Fill) settingsFor(slot *Slot) Settings {
	run := Run{Job: slot.Stamp.Job, UID: slot.Stamp.UID, Stamped: slot.Stamped}
	switch {
	case !f.Serves(run):
		return Settings{}
	case slot.Stamp.Class == share.High:
		return f.High
	default:
		return f.Low
	}
}

// isMissing reports whether a file does not exist, which is no fault: there is no stamp or no fill.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
