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

// Proc finds out whose a process is, by what the kernel says of it.
type Proc struct {
	Root    string // where /proc is
	Cgroups string // where /sys/fs/cgroup is
	// Root's user number; in a test that is not run as root, the test's own. It owns slurmstepd and what it makes.
	Owner int
}

// unknown is what somebody is told who belongs to no job of this node.
type unknown struct{ sentence string }

func (u unknown) Error() string { return u.sentence }

// Job is the number of the job that a process of that user belongs to: by its cgroup, which only root can have put it
// in; or where Slurm makes none by its environment, if it descends from that job's slurmstepd. What its own environment
// says alone is worth nothing, since everybody writes that himself.
func (p Proc) Job(pid, uid int) (int, error) {
	owner, err := p.user(pid)
	switch {
	case err != nil:
		return 0, unknown{fmt.Sprintf("process %d is gone", pid)}
	case owner != uid:
		return 0, unknown{fmt.Sprintf("process %d is of user %d by now: want one of user %d", pid, owner, uid)}
	}
	if job, found := p.jobByCgroup(pid); found {
		return job, nil
	}
	return p.jobByParents(pid)
}

// user is the real user of a process; -1 where its users differ, as those of a setuid program do.
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
	jobDir = regexp.MustCompile(`^job_([1-9][0-9]{0,9})$`)
	uidDir = regexp.MustCompile(`^uid_[0-9]{1,10}$`)
	ofUser = regexp.MustCompile(`^(user\.slice|user-.*|user@.*)$`)
)

// jobOf is the job's number in a cgroup's path, and the path up to it. Slurm's own are …/slurmstepd.scope/job_N with
// the second version, …/slurm/uid_U/job_N with the first. The first that looks so counts, since below it the user may
// make others; and below a session of a user all may be his.
func jobOf(path string) (job int, dir string, found bool) {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if ofUser.MatchString(part) {
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

// jobByCgroup looks at all the hierarchies that a process is in. They have to agree.
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

// cgroup is one of a job's.
type cgroup struct {
	job        int
	controller string // freezer, …; empty: the second version
	path       string
}

// cgroupsOf are those of the job that a process is in.
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

// isRoots says that root made a cgroup, as far as that can be seen from here.
func (p Proc) isRoots(c cgroup) bool {
	var stat unix.Stat_t
	for _, dir := range p.places(c) {
		if unix.Stat(dir, &stat) == nil {
			return int(stat.Uid) == p.Owner
		}
	}
	return true // the hierarchy is not mounted here
}

// places are where a cgroup's directory may be.
func (p Proc) places(c cgroup) []string {
	if c.controller == "" {
		return []string{filepath.Join(p.Cgroups, c.path), filepath.Join(p.Cgroups, "unified", c.path)}
	}
	controller := strings.TrimPrefix(c.controller, "name=")
	return []string{filepath.Join(p.Cgroups, controller, c.path)}
}

// mostParents is how far up a slurmstepd is looked for.
const mostParents = 256

// isStepd are the names of the program: Debian has its own.
var isStepd = map[string]bool{"slurmstepd": true, "slurmstepd-wlm": true}

var stepd = regexp.MustCompile(`^slurmstepd: \[([1-9][0-9]{0,9})\.`)

// jobByParents follows the parents of a process to the first slurmstepd, which says whose it is.
func (p Proc) jobByParents(pid int) (int, error) {
	said, told := p.said(pid)
	if told && said == 0 {
		return 0, unknown{fmt.Sprintf("process %d is in no job: start it by sbatch or srun", pid)}
	}
	at := pid
	for range mostParents {
		parent, err := p.parent(at)
		if err != nil || parent <= 1 {
			break
		}
		if job := p.stepOf(parent); job != 0 && (job == said || !told) {
			return job, nil
		} else if job != 0 {
			return 0, unknown{fmt.Sprintf("process %d says that it is of job %d, and is of job %d", pid, said, job)}
		}
		at = parent
	}
	if !told {
		return 0, unknown{fmt.Sprintf("process %d is in no job: no slurmstepd is above it", pid)}
	}
	return 0, unknown{fmt.Sprintf("process %d says that it is of job %d, and no slurmstepd of that is above it", pid,
		said)}
}

// said is the job that a process's environment names, and 0 where there is none. A root that may not look into the
// processes of others, as in most containers, is not told: then the parents alone have to do, which nobody chooses for
// himself.
func (p Proc) said(pid int) (job int, told bool) {
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

// runs says whether a job has a process here, be it Slurm's own.
func (p Proc) runs(job int) bool {
	entries, err := os.ReadDir(p.Root)
	if err != nil {
		return true // for all that can be known
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
		return err == nil && of == job || p.stepOf(pid) == job
	})
}

func (p Proc) parent(pid int) (int, error) {
	status, err := p.read(pid, "status")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(lineOf(status, "PPid:")))
}

// stepOf is the job of a slurmstepd, and 0 where the process is none. Root's it has to be in every way, and the program
// too: a user may call what he runs as he likes, and run programs that become root.
func (p Proc) stepOf(pid int) int {
	if user, err := p.user(pid); err != nil || user != p.Owner {
		return 0 // first of all: a command line is read out of the process's own memory
	}
	cmdline, err := p.read(pid, "cmdline")
	if err != nil {
		return 0
	}
	match := stepd.FindSubmatch(cmdline)
	if match == nil {
		return 0
	}
	program, err := os.Readlink(filepath.Join(p.Root, strconv.Itoa(pid), "exe"))
	if err != nil || !isStepd[filepath.Base(strings.TrimSuffix(program, " (deleted)"))] {
		return 0
	}
	job, err := strconv.Atoi(string(match[1]))
	if err != nil {
		return 0
	}
	return job
}
