package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// freezer stops the processes of jobs and lets them go on. What it stops is written to a file first, so that the broker
// after one that died finds it. What was stopped before, as by Slurm when it suspends a job, is left alone, since it is
// not ours to thaw. If Slurm suspends a job that the freezer has stopped, the freezer cannot tell, and the thaw lets
// the job go on; in Slurm it must then be resumed and suspended again. Calls for one job must not overlap.
type freezer struct {
	proc Proc
	dir  string // of the files, one for each job
}

// freezeRecord lists what was stopped of a job.
type freezeRecord struct {
	V         int       `json:"v"`
	Job       int       `json:"job"`
	Cgroups   []string  `json:"cgroups"` // directories in the freezer's hierarchy
	Processes []process `json:"processes"`
}

// process identifies a process: PIDs are reused, start times are not.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // ticks since the machine started
}

// maxPasses is how often freeze looks for processes that the job has started meanwhile.
const maxPasses = 8

// freeze stops all processes that a user runs in a job, so that none uses the GPU. Slurm's own processes in the job go
// on, since by them Slurm ends the job. The job may start processes meanwhile, so the search is repeated until it finds
// nothing new, but at most maxPasses times, after which the little that may still run is no error. When the context
// ends, what is not stopped by then stays running, and the error says so.
func (f *freezer) freeze(ctx context.Context, job, uid int) error {
	before, err := f.readRecord(job)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("freeze job %d: %w", job, err)
	}
	h := freezeCall{freezer: f, uid: uid, before: before, now: freezeRecord{V: 1, Job: job}}
	for range maxPasses {
		found, err := h.freezeNew(ctx)
		if err != nil {
			return fmt.Errorf("freeze job %d: %w", job, err)
		}
		if !found {
			return nil
		}
	}
	return nil // it starts processes faster than they are found; most of it is stopped
}

// freezeCall is one call of freeze for a job.
type freezeCall struct {
	*freezer
	uid int
	// before is what was stopped earlier and perhaps not thawed; it stays on record whatever is found now.
	before, now freezeRecord
}

// freezeNew stops what runs of the job by now, and reports whether there was anything. It uses cgroups where it can,
// and signals for the other processes. What it stops is written to the job's record first, so that the next broker can
// thaw it if this one dies. A cgroup or process that is stopped already and is not in an earlier record was stopped by
// others, as by Slurm, and is left out, so that it is not thawed later. A process that cannot be read has ended.
func (h *freezeCall) freezeNew(ctx context.Context) (bool, error) {
	pids, err := h.proc.jobProcesses(h.now.Job, h.uid)
	if err != nil {
		return false, err
	}
	freezable := map[string]bool{} // by cgroup; each is examined once, since it may have thousands of processes
	var dirs []string
	var signals []process
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if dir := h.proc.freezableCgroup(pid, h.uid, freezable); dir != "" {
			if slices.Contains(h.now.Cgroups, dir) || slices.Contains(dirs, dir) {
				continue
			}
			if slices.Contains(h.before.Cgroups, dir) || !isFrozen(dir) {
				dirs = append(dirs, dir)
			}
			continue
		}
		p, stands, err := h.proc.inspect(pid)
		if err == nil && !slices.Contains(h.now.Processes, p) && (!stands || slices.Contains(h.before.Processes, p)) {
			signals = append(signals, p)
		}
	}
	if len(dirs)+len(signals) == 0 {
		return false, nil
	}
	h.now.Cgroups = append(h.now.Cgroups, dirs...)
	h.now.Processes = append(h.now.Processes, signals...)
	if err := h.writeRecord(h.now.union(h.before)); err != nil {
		return false, err
	}
	for _, dir := range h.now.Cgroups {
		if err := setFrozen(dir, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return true, err
		}
	}
	for _, p := range signals {
		h.signal(p, unix.SIGSTOP)
	}
	return true, nil
}

// union returns what either record lists: a job may be frozen again before what was stopped earlier is thawed, and that
// must stay on record.
func (s freezeRecord) union(other freezeRecord) freezeRecord {
	s.Cgroups, s.Processes = slices.Clone(s.Cgroups), slices.Clone(s.Processes)
	for _, dir := range other.Cgroups {
		if !slices.Contains(s.Cgroups, dir) {
			s.Cgroups = append(s.Cgroups, dir)
		}
	}
	for _, p := range other.Processes {
		if !slices.Contains(s.Processes, p) {
			s.Processes = append(s.Processes, p)
		}
	}
	return s
}

// readRecord reads what was stopped of a job; fs.ErrNotExist: nothing. Only a file that root alone can have written
// counts.
func (f *freezer) readRecord(job int) (freezeRecord, error) {
	path := f.path(job)
	text, err := readOwned(path, f.proc.Owner, maxRecordSize)
	if err != nil {
		return freezeRecord{}, err
	}
	s, err := parseRecord(text)
	if err != nil {
		return freezeRecord{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// thaw lets go on what freeze has stopped of a job, and deletes the record. Without a record it does nothing. After an
// error the record stays, for another try. A recorded path outside of the cgroup hierarchies is skipped: a damaged
// record must not make root write elsewhere.
func (f *freezer) thaw(job int) error {
	s, err := f.readRecord(job)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("thaw job %d: %w", job, err)
	}
	for _, dir := range s.Cgroups {
		if !strings.HasPrefix(filepath.Clean(dir), filepath.Clean(f.proc.Cgroups)+"/") {
			continue
		}
		if wrong := setFrozen(dir, false); wrong != nil && !errors.Is(wrong, fs.ErrNotExist) {
			err = fmt.Errorf("thaw job %d: %w", job, wrong)
		}
	}
	for _, p := range s.Processes {
		f.signal(p, unix.SIGCONT)
	}
	if err != nil {
		return err // the file stays, for the next try
	}
	return os.Remove(f.path(job))
}

// gone reports whether a job has no process here any more, and then deletes its record, so that nothing tries to thaw
// it again. It returns false if the record cannot be deleted.
func (f *freezer) gone(job int) bool {
	if f.proc.jobRuns(job) {
		return false
	}
	err := os.Remove(f.path(job))
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// thawAll thaws all jobs that have a record, of whatever broker, and returns them. Those that could not be thawed are
// among them; the error names them.
func (f *freezer) thawAll() ([]int, error) {
	jobs, err := f.recordedJobs()
	for _, job := range jobs {
		err = errors.Join(err, f.thaw(job))
	}
	return jobs, err
}

// recordedJobs returns the jobs that have a record: they were stopped and not thawed.
func (f *freezer) recordedJobs() (jobs []int, err error) {
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), ".json")
		if job, err := strconv.Atoi(name); is && err == nil {
			jobs = append(jobs, job)
		}
	}
	return jobs, err
}

// path returns the path of a job's record.
func (f *freezer) path(job int) string { return filepath.Join(f.dir, strconv.Itoa(job)+".json") }

// writeRecord writes a job's record, before what it lists is stopped. The file is not synced to disk, since processes
// do not outlive the machine.
func (f *freezer) writeRecord(s freezeRecord) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return err
	}
	return replaceFile(f.path(s.Job), text)
}

// replaceFile writes a file so that a reader sees all of the new text or the old file.
func replaceFile(path string, text []byte) error {
	fresh := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(fresh, text, 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// maxRecordSize is the largest size of a job's record, bytes.
const maxRecordSize = 4 << 20

// parseRecord parses a job's record. A record of another version is an error: it was written by another release, and
// what it says is not known here.
func parseRecord(text []byte) (freezeRecord, error) {
	var s freezeRecord
	if err := json.Unmarshal(text, &s); err != nil {
		return freezeRecord{}, errors.New("want one JSON object")
	}
	if s.V != 1 {
		return freezeRecord{}, fmt.Errorf("v = %d: want 1", s.V)
	}
	return s, nil
}

// signal sends a signal to a process, unless its PID belongs to another process by now. The pidfd is opened first and
// the start time read then, so the signal goes to the process that was compared. Without pidfds, the PID could still
// change hands between the two. Errors are ignored, since they mean that the process has ended.
func (f *freezer) signal(p process, s unix.Signal) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		if now, wrong := f.proc.process(p.PID); withoutPidfd(err) && wrong == nil && now == p {
			unix.Kill(p.PID, s)
		}
		return
	}
	defer unix.Close(fd)
	if now, err := f.proc.process(p.PID); err == nil && now == p {
		unix.PidfdSendSignal(fd, s, nil, 0)
	}
}

// withoutPidfd reports whether the error means that this kernel has no pidfds or that they are forbidden here.
func withoutPidfd(err error) bool { return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) }

// setFrozen freezes or thaws a cgroup, of version 1 (which has freezer.state) or 2. The kernel may still be stopping
// its processes when this returns.
func setFrozen(dir string, frozen bool) error {
	name, value := "cgroup.freeze", "0"
	if _, err := os.Stat(filepath.Join(dir, "freezer.state")); err == nil {
		name, value = "freezer.state", "THAWED"
	}
	if frozen {
		value = map[string]string{"cgroup.freeze": "1", "freezer.state": "FROZEN"}[name]
	}
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// isFrozen reports whether a cgroup of version 1 or 2 is itself frozen. A frozen parent does not count, since thawing
// this cgroup would not thaw the parent. It is false if the cgroup cannot be read.
func isFrozen(dir string) bool {
	for _, name := range []string{"cgroup.freeze", "freezer.self_freezing"} {
		path := filepath.Join(dir, name)
		if about, err := os.Lstat(path); err != nil || !about.Mode().IsRegular() { // opening a pipe would wait
			continue
		}
		text, err := os.ReadFile(path)
		if err == nil && string(bytes.TrimSpace(text)) == "1" {
			return true
		}
	}
	return false
}

// process returns the PID and start time of the process that has this PID now, to tell it from a later one.
func (p Proc) process(pid int) (process, error) {
	found, _, err := p.inspect(pid)
	return found, err
}

// inspect returns the process that has this PID now, and whether a signal has stopped it.
func (p Proc) inspect(pid int) (found process, stands bool, err error) {
	stat, err := p.read(pid, "stat")
	if err != nil {
		return process{}, false, err
	}
	state, start, err := parseStat(stat)
	return process{pid, start}, state == "T", err
}

// parseStat returns the third field of /proc/PID/stat, the state, and the 22nd, the start time in ticks since the
// machine started. The second is the program's name, which may contain anything, so fields are counted from the last
// parenthesis.
func parseStat(stat []byte) (state string, start uint64, err error) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", 0, errors.New("stat has too few fields")
	}
	start, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return string(fields[0]), start, err
}

// jobProcesses returns the PIDs of the processes that a user has in a job, without the broker and Slurm's own. If /proc
// cannot be listed it returns an error, since an empty list would mean that nothing of the job runs.
func (p Proc) jobProcesses(job, uid int) ([]int, error) {
	entries, err := os.ReadDir(p.Root)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if owner, err := p.user(pid); err != nil || owner != uid || p.stepdJob(pid) != 0 {
			continue
		}
		if of, err := p.Job(pid, uid); err == nil && of == job {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// freezableCgroup returns the directory of a cgroup by which a process of a job can be frozen: one of the job's cgroups
// in which all processes are that user's, since a cgroup is frozen as a whole. It returns "" if there is none, and the
// process must be stopped by a signal. known remembers for each directory whether it is such a cgroup, so that each is
// examined once.
func (p Proc) freezableCgroup(pid, uid int, known map[string]bool) string {
	text, err := p.read(pid, "cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 || parts[1] != "" && parts[1] != "freezer" {
			continue
		}
		if _, _, found := jobOf(parts[2]); !found {
			continue
		}
		for _, dir := range p.cgroupDirs(cgroup{controller: parts[1], path: parts[2]}) {
			if _, looked := known[dir]; !looked {
				known[dir] = hasFreezer(dir) && p.hasOnlyUser(dir, uid)
			}
			if known[dir] {
				return dir
			}
		}
	}
	return ""
}

// hasFreezer reports whether the cgroup has a freezer, of version 1 or 2, that we may write.
func hasFreezer(dir string) bool {
	for _, name := range []string{"cgroup.freeze", "freezer.state"} {
		if unix.Access(filepath.Join(dir, name), unix.W_OK) == nil {
			return true
		}
	}
	return false
}

// hasOnlyUser reports whether all processes of a cgroup are a user's own and none is Slurm's or the broker, so that
// freezing it stops nothing else. It is false if the cgroup cannot be read.
func (p Proc) hasOnlyUser(dir string, uid int) bool {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return false
	}
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil || pid == os.Getpid() || p.stepdJob(pid) != 0 {
			return false
		}
		// A process that cannot be read has ended meanwhile.
		if owner, err := p.user(pid); err == nil && owner != uid {
			return false
		}
	}
	return true
}
