package broker

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Proc finds out which job a process belongs to, from what the kernel says about it.
type Proc struct {
	Root    string // the path of /proc
	Cgroups string // the path of /sys/fs/cgroup
	// Owner is root's user ID, or the test's own in a test that is not run as root. It owns slurmstepd and what it
	// makes.
	Owner int
}

// unknownJobError is the error for a process that belongs to no job of this node. Its sentence is sent to the client.
type unknownJobError struct{ sentence string }

func (u unknownJobError) Error() string { return u.sentence }

// Job returns the job that a process belongs to, if the process is of that user. It uses the process's cgroup, in which
// only root can have put it. Where Slurm makes no cgroups, it uses the environment, if the process descends from that
// job's slurmstepd; the environment alone proves nothing, since every user can write it. The error is an
// unknownJobError.
func (p Proc) Job(pid, uid int) (int, error) {
	owner, err := p.user(pid)
	switch {
	case err != nil:
		return 0, unknownJobError{fmt.Sprintf("process %d is gone", pid)}
	case owner != uid:
		return 0, unknownJobError{fmt.Sprintf("process %d is of user %d by now: want one of user %d", pid, owner, uid)}
	}
	if job, found := p.jobByCgroup(pid); found {
		return job, nil
	}
	return p.jobByParents(pid)
}

// user returns the real user ID of a process. It is -1 if the process's user IDs differ, as those of a setuid program
// do: such a process may act for another user than the one that started it, so it counts as no user's.
func (p Proc) user(pid int) (int, error) {
	status, err := p.read(pid, "status")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(lineOf(status, "Uid:"))
	if len(fields) != 4 {
		return 0, errors.New("its status has no Uid")
	}
	for _, field := range fields[1:] {
		if field != fields[0] {
			return -1, nil
		}
	}
	return strconv.Atoi(fields[0])
}

// lineOf returns the rest of the first line that starts with begin; "" if there is none.
func lineOf(text []byte, begin string) string {
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, begin); is {
			return rest
		}
	}
	return ""
}

// read reads a small file of a process.
func (p Proc) read(pid int, name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(p.Root, strconv.Itoa(pid), name))
}

var (
	jobDir    = regexp.MustCompile(`^job_([1-9][0-9]{0,9})$`)
	uidDir    = regexp.MustCompile(`^uid_[0-9]{1,10}$`)
	userSlice = regexp.MustCompile(`^(user\.slice|user-.*|user@.*)$`)
)

// jobOf returns the job ID in a cgroup's path, and the path up to it. Slurm's own are …/slurmstepd.scope/job_N in
// version 2 and …/slurm/uid_U/job_N in version 1. Only the first match counts, since the user may make cgroups with
// such names below it. Nothing counts below a user's login session (user.slice), since the user may make all of that.
func jobOf(path string) (job int, dir string, found bool) {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if userSlice.MatchString(part) {
			return 0, "", false
		}
		match := jobDir.FindStringSubmatch(part)
		if match == nil || i == 0 {
			continue
		}
		above := parts[i-1]
		if !strings.HasSuffix(above, "slurmstepd.scope") &&
			!(uidDir.MatchString(above) && i > 1 && strings.HasPrefix(parts[i-2], "slurm")) {
			continue
		}
		number, err := strconv.Atoi(match[1])
		return number, strings.Join(parts[:i+1], "/"), err == nil
	}
	return 0, "", false
}

// jobByCgroup returns the job named by the cgroups of a process, in all hierarchies. It returns false if none names a
// job, or if two name different ones, of which none is believed. The caller then goes by the parent processes.
func (p Proc) jobByCgroup(pid int) (int, bool) {
	dirs := p.cgroupsOf(pid)
	job := 0
	for _, d := range dirs {
		if job != 0 && d.job != job {
			return 0, false
		}
		job = d.job
	}
	return job, job != 0
}

// cgroup is a cgroup of a job, or one below it.
type cgroup struct {
	job        int
	controller string // freezer, …; empty: version 2
	path       string
}

// cgroupsOf returns the job cgroups that a process is in; none if the process has ended. One that root did not make is
// left out: a user to whom a part of the hierarchy was delegated can make a cgroup named like a job's and move
// processes into it.
func (p Proc) cgroupsOf(pid int) []cgroup {
	text, err := p.read(pid, "cgroup")
	if err != nil {
		return nil
	}
	var all []cgroup
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		job, dir, found := jobOf(parts[2])
		if c := (cgroup{job, parts[1], dir}); found && p.isRoots(c) {
			all = append(all, c)
		}
	}
	return all
}

// isRoots reports whether root made a cgroup, which then names the job truly. It is true if the hierarchy is not
// mounted here, so that its owner cannot be seen.
func (p Proc) isRoots(c cgroup) bool {
	var stat unix.Stat_t
	for _, dir := range p.cgroupDirs(c) {
		if unix.Stat(dir, &stat) == nil {
			return int(stat.Uid) == p.Owner
		}
	}
	return true // the hierarchy is not mounted here, so the owner cannot be checked
}

// cgroupDirs returns the paths at which a cgroup's directory may be; not all of them exist. Hosts with both versions
// mount version 2 at unified. A named hierarchy of version 1, as name=systemd, is mounted by the name alone.
func (p Proc) cgroupDirs(c cgroup) []string {
	if c.controller == "" {
		return []string{filepath.Join(p.Cgroups, c.path), filepath.Join(p.Cgroups, "unified", c.path)}
	}
	controller := strings.TrimPrefix(c.controller, "name=")
	return []string{filepath.Join(p.Cgroups, controller, c.path)}
}

// mostParents is how many parents up a slurmstepd is searched, which bounds the work for one client.
const mostParents = 256

// stepdPrograms has the names of the program slurmstepd; Debian uses its own.
var stepdPrograms = map[string]bool{"slurmstepd": true, "slurmstepd-wlm": true}

// stepdTitle matches the title that a slurmstepd gives itself, such as slurmstepd: [17.batch].
var stepdTitle = regexp.MustCompile(`^slurmstepd: \[([1-9][0-9]{0,9})\.`)

// jobByParents returns the job of the first slurmstepd among the parents of a process. If the process's environment can
// be read, it must name the same job: a process that a user started in one job and that claims another belongs to
// neither.
func (p Proc) jobByParents(pid int) (int, error) {
	said, told := p.environJob(pid)
	if told && said == 0 {
		return 0, unknownJobError{fmt.Sprintf("process %d is in no job: start it by sbatch or srun", pid)}
	}
	at := pid
	for range mostParents {
		parent, err := p.parent(at)
		if err != nil || parent <= 1 {
			break
		}
		if job := p.stepdJob(parent); job != 0 && (job == said || !told) {
			return job, nil
		} else if job != 0 {
			return 0, unknownJobError{fmt.Sprintf("process %d says that it is of job %d, and is of job %d", pid, said,
				job)}
		}
		at = parent
	}
	if !told {
		return 0, unknownJobError{fmt.Sprintf("process %d is in no job: no slurmstepd is above it", pid)}
	}
	return 0, unknownJobError{
		fmt.Sprintf("process %d says that it is of job %d, and no slurmstepd of that is above it", pid,
			said),
	}
}

// environJob returns the job that a process's environment names; 0 if it names none or the process has ended. told is
// false if root may not read other users' environments, as in most containers. Then the parent processes alone decide,
// which a user cannot choose.
func (p Proc) environJob(pid int) (job int, told bool) {
	environ, err := p.read(pid, "environ")
	if err != nil {
		return 0, errors.Is(err, fs.ErrNotExist)
	}
	for word := range bytes.SplitSeq(environ, []byte{0}) {
		if value, is := bytes.CutPrefix(word, []byte("SLURM_JOB_ID=")); is {
			job, err := strconv.Atoi(string(value))
			if err != nil || job < 0 {
				return 0, true
			}
			return job, true
		}
	}
	return 0, true
}

// jobRuns reports whether a job has a process on this node, including Slurm's own. If /proc cannot be listed it is
// true, since the callers discard what they know of a job that has ended.
func (p Proc) jobRuns(job int) bool {
	entries, err := os.ReadDir(p.Root)
	if err != nil {
		return true // unknown, so assume that it runs
	}
	return slices.ContainsFunc(entries, func(entry fs.DirEntry) bool {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			return false
		}
		owner, err := p.user(pid)
		if err != nil {
			return false
		}
		of, err := p.Job(pid, owner)
		return err == nil && of == job || p.stepdJob(pid) == job
	})
}

// parent returns the PID of a process's parent; 0 if it has none here.
func (p Proc) parent(pid int) (int, error) {
	status, err := p.read(pid, "status")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(lineOf(status, "PPid:")))
}

// stepdJob returns the job of a slurmstepd, which is Slurm's process above all processes of a job step; 0 if the
// process is none. All its user IDs must be root's and the program must be slurmstepd, since a user can give a process
// any name and can run setuid programs.
func (p Proc) stepdJob(pid int) int {
	if user, err := p.user(pid); err != nil || user != p.Owner {
		return 0 // checked first, since reading a command line reads the process's own memory
	}
	cmdline, err := p.read(pid, "cmdline")
	if err != nil {
		return 0
	}
	match := stepdTitle.FindSubmatch(cmdline)
	if match == nil {
		return 0
	}
	program, err := os.Readlink(filepath.Join(p.Root, strconv.Itoa(pid), "exe"))
	if err != nil || !stepdPrograms[filepath.Base(strings.TrimSuffix(program, " (deleted)"))] {
		return 0
	}
	job, err := strconv.Atoi(string(match[1]))
	if err != nil {
		return 0
	}
	return job
}
