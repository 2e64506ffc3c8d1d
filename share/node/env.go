package node

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// What a task is told, besides the variables of MPS. Slurm passes a job's environment on to jobs submitted from inside
// it, and a job on another GPU must not use the MPS daemon of this one. So the variables set for MPS are listed in
// listName, and unset where they do not hold. What the user has set is not on the list.
const (
	socketName = "SYNERGY_TURN_SOCK"
	listName   = "SYNERGY_SHARE_SET"
)

// gpuRequestVars are the variables in which sbatch stores the GPUs that the user asked for, for srun in the script. A
// slot is no GPU to Slurm, so a step that asked for a GPU would not start; one that asks for nothing gets what its job
// has.
var gpuRequestVars = []string{"SLURM_GPUS", "SLURM_GPUS_PER_NODE"}

// Slot is a job's slot on a shared GPU as the node knows it.
type Slot struct {
	Stamp   share.Stamp
	Stamped int64  // when the stamp was written, as in Run
	Socket  string // where the broker of its GPU listens; empty: there is none, and the job runs without turns
	Fill    *Fill  // nil: no MPS daemon runs on its GPU
}

// EnvOf returns the lines, unset or export, that TaskProlog prints to Slurm for a task with this environment. A nil
// slot means that the job shares no GPU here. What the TaskProlog of an outer job has set, and does not hold here, is
// unset.
func EnvOf(environ []string, slot *Slot) []string {
	set := slot.settings()
	var lines []string
	for _, name := range slices.Concat(earlierNames(environ), slot.gpuRequests(environ)) {
		if _, again := set[name]; !again {
			lines = append(lines, "unset "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		lines = append(lines, "export "+name+"="+set[name])
	}
	return lines
}

// settings returns the variables that a task in the slot is given: the broker's socket, and those of MPS if the job is
// an MPS client. There are none if the job shares no GPU or no broker listens.
func (s *Slot) settings() map[string]string {
	set := map[string]string{}
	if s == nil || s.Socket == "" {
		return set
	}
	set[socketName] = s.Socket
	if s.Fill == nil {
		return set
	}
	if mps := s.Fill.settingsFor(s).Env; len(mps) > 0 {
		maps.Copy(set, mps)
		set[listName] = strings.Join(slices.Sorted(maps.Keys(mps)), " ")
	}
	return set
}

// gpuRequests returns the variables to unset because a step would ask by them for GPUs that the job does not have; none
// if the job shares no GPU.
func (s *Slot) gpuRequests(environ []string) []string {
	var names []string
	for _, name := range gpuRequestVars {
		if s != nil && envValue(environ, name) != "" {
			names = append(names, name)
		}
	}
	return names
}

// earlierNames returns the variables in an environment that an earlier TaskProlog has set, as that of the job from
// inside which this one was submitted. They may not hold here.
func earlierNames(environ []string) []string {
	var names []string
	for _, name := range []string{socketName, listName} {
		if envValue(environ, name) != "" {
			names = append(names, name)
		}
	}
	listed := strings.Fields(envValue(environ, listName))
	for _, name := range mpsNames {
		if slices.Contains(listed, name) {
			names = append(names, name)
		}
	}
	return names
}

// Env is called by TaskProlog as the job's user, and prints changes of the task's environment to w. An error is for
// people to read; what was printed holds all the same.
func Env(environ []string, dir string, w io.Writer) error {
	slot, wrong := slotOf(environ, dir, os.Getuid())
	lines := EnvOf(environ, slot)
	if len(lines) == 0 {
		return wrong
	}
	if _, err := io.WriteString(w, strings.Join(lines, "\n")+"\n"); err != nil {
		return err
	}
	return wrong
}

// slotOf returns the slot of a user's job; nil if it shares no GPU. If an error comes with a slot, the fill could not
// be read, and the slot is used without it. If there is no socket, or its path cannot be printed, the slot has none:
// Slurm reads the variables line by line.
func slotOf(environ []string, dir string, uid int) (*Slot, error) {
	job, err := jobOf(environ)
	if err != nil {
		return nil, err
	}
	stamp, err := ReadStamp(dir, job)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if stamp.UID != uid {
		return nil, fmt.Errorf("job %d is of user %d, and this is user %d", job, stamp.UID, uid)
	}
	socket := SocketPath(dir, stamp.GPU)
	if about, err := os.Stat(socket); err != nil || about.Mode()&os.ModeSocket == 0 || !printable.Is(socket) {
		return &Slot{Stamp: stamp}, nil
	}
	about, err := os.Lstat(StampPath(dir, job))
	if err != nil {
		return nil, err
	}
	slot := &Slot{Stamp: stamp, Stamped: about.ModTime().UnixNano(), Socket: socket}
	fill, err := ReadFill(dir, stamp.GPU)
	if isMissing(err) {
		return slot, nil
	}
	if err != nil {
		return slot, err
	}
	slot.Fill = &fill
	return slot, nil
}
