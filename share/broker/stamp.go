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

// mostStamp is how large a stamp's file may be, bytes.
const mostStamp = 4096

// readStamp reads what the prolog wrote of a job. Only an ordinary file of root's, that nobody else may write, counts.
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

// stamps are what the stamps of a node say.
type stamps struct {
	jobs map[int]share.Stamp
	bad  []int              // jobs that have one which is not to be believed
	runs map[int][]node.Run // that share each GPU
	// hidden are the GPUs on which there is a job of which nobody can say whose it is.
	hidden []int
}

// anyGPU is that of a job of which not even that can be read.
const anyGPU = -1

func (s stamps) hides(gpu int) bool {
	return slices.Contains(s.hidden, gpu) || slices.Contains(s.hidden, anyGPU)
}

// ends says why a client of a job may be none any more: its job's stamp is another by now, or there is none. A stamp
// that is not to be believed ends nothing.
func (s stamps) ends(was share.Stamp) string {
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

// stamped reads all stamps. A bad one hides its GPU for as long as its job runs, or all where it does not say which. Of
// a job that has no process here it is passed over: what one left behind shall keep no GPU from anything.
func (b *Broker) stamped() (stamps, error) {
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
		about, err := entry.Info() // before: of a file that is replaced meanwhile the next look sees the rest
		var stamp share.Stamp
		if err == nil {
			stamp, err = readStamp(b.RunDir, job, b.Proc.Owner)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has just ended
			b.says.changed(job, nil)
		case err != nil:
			seen.bad = append(seen.bad, job)
			if b.believesNot(job, err) {
				seen.hidden = append(seen.hidden, gpuOf(b.RunDir, job, b.Proc.Owner))
			}
		default:
			b.says.changed(job, nil)
			seen.jobs[job] = stamp
			run := node.Run{Job: job, UID: stamp.UID, Stamped: about.ModTime().UnixNano()}
			seen.runs[stamp.GPU] = append(seen.runs[stamp.GPU], run)
		}
	}
	return seen, nil
}

// believesNot says of a job with a bad stamp whether it runs, and the administrator what is wrong: once, not each time
// it is seen.
func (b *Broker) believesNot(job int, why error) (runs bool) {
	runs = b.Proc.runs(job)
	does := "its GPU is shared as before until it ends: mend or remove the file"
	if !runs {
		does = "it has no process here: remove the file"
	}
	if b.says.changed(job, fmt.Errorf("%w (%s)", why, does)) {
		b.Log.Error("read stamp", "job", job, "error", why, "so", does)
	}
	return runs
}

// saying is what was said last of each job, so that it is not said again.
type saying map[int]string

// changed notes what is wrong now, and says whether that is new.
func (s saying) changed(of int, why error) bool {
	if why == nil {
		delete(s, of)
		return false
	}
	was := s[of]
	s[of] = why.Error()
	return was != why.Error()
}

// gpuOf is that of a bad stamp, as far as it can be read: root wrote it, and it is a later version's perhaps.
func gpuOf(dir string, job, owner int) int {
	text, err := readOwned(node.StampPath(dir, job), owner, mostStamp)
	s := share.Stamp{GPU: anyGPU}
	if err != nil || json.Unmarshal(text, &s) != nil || s.Job != job || s.GPU < 0 {
		return anyGPU
	}
	return s.GPU
}

// readOwned reads a file of a user's, of at most so many bytes, that nobody else may write.
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

// parseStamp reads a stamp's text. Fields that a later version adds are ignored.
func parseStamp(text []byte) (share.Stamp, error) {
	var s share.Stamp
	if err := json.Unmarshal(text, &s); err != nil {
		return share.Stamp{}, errors.New("no stamp: want one JSON object")
	}
	return s, s.Check()
}
