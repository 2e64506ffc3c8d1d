package nvml

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxProcesses bounds what is read of one control group.
const maxProcesses = 1 << 16

// JobCgroup is the folder of the control group that Slurm keeps a job's processes of this host in, for version 2 and
// for version 1 of control groups. Slurm 26.05 names it not by the job's number, unless cgroup.conf has
// CgroupJobIdPaths=yes.
func (h Host) JobCgroup(job int) (string, error) {
	name := "job_" + strconv.Itoa(job)
	for _, pattern := range []string{
		"sys/fs/cgroup/system.slice/*slurmstepd.scope/" + name,
		"sys/fs/cgroup/*slurmstepd.scope/" + name,
		"sys/fs/cgroup/*/slurm*/uid_*/" + name,
	} {
		if found, err := filepath.Glob(h.path(pattern)); err == nil && len(found) > 0 {
			return found[0], nil
		}
	}
	if found := h.cgroupOfStepd(job); found != "" {
		return found, nil
	}
	return "",
		fmt.Errorf(
			"job %d has no control group on this host: it does not run here, or Slurm runs without "+
				"ProctrackType=proctrack/cgroup", job)
}

// cgroupOfStepd finds a job's control group by the slurmstepd in it, which says in its title whose steps it minds. Only
// Slurm's own processes are in the group below a step that is asked: a user may call his as he likes.
func (h Host) cgroupOfStepd(job int) string {
	for _, scope := range []string{"sys/fs/cgroup/system.slice/*slurmstepd.scope/",
		"sys/fs/cgroup/*slurmstepd.scope/"} {
		lists, err := filepath.Glob(h.path(scope + "s*/step_*/slurm/cgroup.procs"))
		if err != nil {
			continue
		}
		for _, list := range lists {
			if slices.ContainsFunc(processesIn(list), func(pid int) bool { return h.minds(pid, job) }) {
				return filepath.Dir(filepath.Dir(filepath.Dir(list)))
			}
		}
	}
	return ""
}

// minds says that a process is a slurmstepd of the job: slurmstepd: [17.batch].
func (h Host) minds(pid, job int) bool {
	title, err := os.ReadFile(h.path("proc/" + strconv.Itoa(pid) + "/cmdline"))
	if err != nil {
		return false
	}
	_, of, stepd := strings.Cut(string(title), "slurmstepd: [")
	rest, same := strings.CutPrefix(of, strconv.Itoa(job))
	return stepd && same && strings.IndexAny(rest, ".+") == 0
}

// Processes are the IDs of all processes in a control group and in those below it, as the host numbers them. What ends
// meanwhile is left out.
func Processes(cgroup string) ([]int, error) {
	var all []int
	err := filepath.WalkDir(cgroup, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != cgroup:
			return nil
		case err != nil:
			return err
		case entry.Name() != "cgroup.procs":
			return nil
		}
		all = append(all, processesIn(path)...)
		if len(all) > maxProcesses {
			return fmt.Errorf("more than %d processes", maxProcesses)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("processes of %s: %w", cgroup, err)
	}
	return all, nil
}

// processesIn reads one list. A control group of threads has none that can be read, and the processes stand in the one
// above it.
func processesIn(path string) []int {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var all []int
	for word := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 0 { // 0 is a process of another namespace
			all = append(all, pid)
		}
	}
	return all
}
