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

// maxProcesses bounds what is read of one cgroup.
const maxProcesses = 1 << 16

// JobCgroup returns the folder of the cgroup, version 2 or 1, in which Slurm keeps a job's processes on this host.
// Slurm 26.05 does not name it by the job ID, unless cgroup.conf has CgroupJobIdPaths=yes.
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

// cgroupOfStepd finds a job's cgroup by the slurmstepd in it, whose title names the job. It looks only into the
// subgroup for Slurm's own processes, since a user can give his processes any title. The job's folder is three above
// the list.
func (h Host) cgroupOfStepd(job int) string {
	for _, scope := range []string{"sys/fs/cgroup/system.slice/*slurmstepd.scope/",
		"sys/fs/cgroup/*slurmstepd.scope/"} {
		lists, err := filepath.Glob(h.path(scope + "s*/step_*/slurm/cgroup.procs"))
		if err != nil {
			continue
		}
		for _, list := range lists {
			if slices.ContainsFunc(processesIn(list), func(pid int) bool { return h.isStepdOf(pid, job) }) {
				return filepath.Dir(filepath.Dir(filepath.Dir(list)))
			}
		}
	}
	return ""
}

// isStepdOf reports whether a process is a slurmstepd of the job, with a title such as slurmstepd: [17.batch]. A dot
// follows the ID, or a plus in a heterogeneous job.
func (h Host) isStepdOf(pid, job int) bool {
	title, err := os.ReadFile(h.path("proc/" + strconv.Itoa(pid) + "/cmdline"))
	if err != nil {
		return false
	}
	_, of, stepd := strings.Cut(string(title), "slurmstepd: [")
	rest, same := strings.CutPrefix(of, strconv.Itoa(job))
	return stepd && same && strings.IndexAny(rest, ".+") == 0
}

// Processes returns the PIDs, as on the host, of all processes in a cgroup and those below it. Processes that end
// meanwhile are left out.
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

// processesIn reads one list. A threaded cgroup has no readable list; its processes are listed in the cgroup above it.
func processesIn(path string) []int {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var all []int
	for word := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 0 { // 0 is a process of another PID namespace
			all = append(all, pid)
		}
	}
	return all
}
