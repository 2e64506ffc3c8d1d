package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/node"
)

// mostStamp is the largest size of a stamp's file, bytes.
const mostStamp = 4096

// readStamp reads the stamp of a job, which says what the job may do. It counts only if it is an ordinary file that
// root owns and no other user may write, and if it names this job.
func readStamp(dir string, job, owner int) (share.Stamp, error) {
	path := node.StampPath(dir, job)
	text, err := readOwned(path, owner, mostStamp)
	if err != nil {
		return share.Stamp{}, err
	}
	s, err := parseStamp(text)
	if err == nil && s.Job != job {
		err = fmt.Errorf("job = %d: want %d, as the file is called", s.Job, job)
	}
	if err != nil {
		return share.Stamp{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// stamps is what the stamps of a node say at one moment.
type stamps struct {
	jobs map[int]share.Stamp
	bad  []int              // jobs whose stamp cannot be read or is not valid
	runs map[int][]node.Run // the runs that share each GPU
	// hidden are the GPUs with a running job whose stamp cannot be read.
	hidden []int
}

// anyGPU stands for all GPUs, where a bad stamp does not say which one.
const anyGPU = -1

// hides reports whether a job on the GPU has a stamp that cannot be read, so that the jobs on it are not fully known.
func (s stamps) hides(gpu int) bool {
	return slices.Contains(s.hidden, gpu) || slices.Contains(s.hidden, anyGPU)
}

// whyDropped returns why a client of a job must be dropped, given the stamp with which it was admitted: the job's stamp
// has changed or is gone. Empty: the client may stay. A stamp that cannot be read ends nothing.
func (s stamps) whyDropped(was share.Stamp) string {
	now, is := s.jobs[was.Job]
	switch {
	case slices.Contains(s.bad, was.Job) || now == was:
		return ""
	case !is:
		return fmt.Sprintf("job %d shares no GPU any more", was.Job)
	case now.UID != was.UID:
		return fmt.Sprintf("job %d is of user %d by now", was.Job, now.UID)
	case now.GPU != was.GPU:
		return fmt.Sprintf("job %d shares GPU %d by now: want the socket of that", was.Job, now.GPU)
	}
	return fmt.Sprintf("job %d was given something else by now: say HELLO again", was.Job)
}

// readStamps reads the stamps of all jobs. A bad stamp hides its GPU (all GPUs if it does not say which) for as long as
// its job runs: how the GPU is shared must not change while its jobs are not fully known. A bad stamp of a job without
// a process here is ignored, so that a leftover file affects no GPU.
func (b *Broker) readStamps() (stamps, error) {
	entries, err := os.ReadDir(filepath.Dir(node.StampPath(b.RunDir, 0)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return stamps{}, err
	}
	seen := stamps{jobs: map[int]share.Stamp{}, runs: map[int][]node.Run{}}
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), ".json")
		job, err := strconv.Atoi(name)
		if !is || err != nil || job < 1 {
			continue
		}
		about, err := entry.Info() // before reading: a file that replaces it meanwhile is seen at the next refresh
		var stamp share.Stamp
		if err == nil {
			stamp, err = readStamp(b.RunDir, job, b.Proc.Owner)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // the job has just ended
			b.problems.changed(job, nil)
		case err != nil:
			seen.bad = append(seen.bad, job)
			if b.noteBadStamp(job, err) {
				seen.hidden = append(seen.hidden, gpuOf(b.RunDir, job, b.Proc.Owner))
			}
		default:
			b.problems.changed(job, nil)
			seen.jobs[job] = stamp
			run := node.Run{Job: job, UID: stamp.UID, Stamped: about.ModTime().UnixNano()}
			seen.runs[stamp.GPU] = append(seen.runs[stamp.GPU], run)
		}
	}
	return seen, nil
}

// noteBadStamp reports whether the job of a bad stamp runs here, and logs what the administrator should do about the
// stamp, once and not at each refresh.
func (b *Broker) noteBadStamp(job int, why error) (runs bool) {
	runs = b.Proc.jobRuns(job)
	does := "its GPU is shared as before until it ends: mend or remove the file"
	if !runs {
		does = "it has no process here: remove the file"
	}
	if b.problems.changed(job, fmt.Errorf("%w (%s)", why, does)) {
		b.Log.Error("read stamp", "job", job, "error", why, "so", does)
	}
	return runs
}

// problemLog has the last logged problem of each job, so that it is not logged at each refresh. The key anyGPU is for
// the folder of the stamps.
type problemLog map[int]string

// changed records the present problem of a job (nil: none) and reports whether it is new, and so to be logged.
func (s problemLog) changed(of int, why error) bool {
	if why == nil {
		delete(s, of)
		return false
	}
	was := s[of]
	s[of] = why.Error()
	return was != why.Error()
}

// gpuOf returns the GPU that a bad stamp names, or anyGPU if none can be read from it. Root wrote the stamp, and it may
// be of a later version, so its GPU is believed although Check may have failed.
func gpuOf(dir string, job, owner int) int {
	text, err := readOwned(node.StampPath(dir, job), owner, mostStamp)
	s := share.Stamp{GPU: anyGPU}
	if err != nil || json.Unmarshal(text, &s) != nil || s.Job != job || s.GPU < 0 {
		return anyGPU
	}
	return s.GPU
}

// readOwned reads a file of at most `most` bytes on which the broker relies: it must belong to the user `owner`, and no
// other user may write it. It is opened without waiting, since opening a pipe would wait for a writer.
func readOwned(path string, owner int, most int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%s: want an ordinary file", path)
	case int(stat.Uid) != owner:
		return nil, fmt.Errorf("%s: is of user %d: want one that user %d wrote", path, stat.Uid, owner)
	case stat.Mode&0o022 != 0:
		return nil, fmt.Errorf("%s: others may write it: want mode 0644", path)
	}
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s: want at most %d bytes", path, most)
	}
	return text, err
}

// parseStamp parses a stamp and checks its fields. Fields that a later version adds are ignored.
func parseStamp(text []byte) (share.Stamp, error) {
	var s share.Stamp
	if err := json.Unmarshal(text, &s); err != nil {
		return share.Stamp{}, errors.New("no stamp: want one JSON object")
	}
	return s, s.Check()
}
