// Package node is what a node does for a job that shares a GPU, before the job begins, before each task, and after it.
// Prolog, as root, keeps what the daemon said of the job as a stamp; TaskProlog, as the user, tells the task where the
// broker of its GPU listens; Epilog removes the stamp. Anything that a user may have written is compared with what
// Slurm itself says before it is believed. Where anything is missing the job runs as if there were no broker: a missing
// stamp costs the job its turns, a wrong one would cost another job's. What is set for tasks is listed, and unset in a
// job submitted from inside another.
package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Folder holds stamps, sockets and fills, in files that only root writes. It is not the daemon's /run/synergy, which
// belongs to another user and, where both run on one host, is removed when the daemon stops.
const Folder = "/run/synergy-broker"

// The most that is read of a file and of an annotation, bytes; ours have a few hundred.
const (
	maxAnnotation = 16 << 10
	maxFile       = 16 << 10
)

// ErrNotShared means that the daemon did not say that the job shares a GPU.
var ErrNotShared = errors.New("the job shares no GPU")

// StampPath returns the path of a job's stamp.
func StampPath(dir string, job int) string {
	return filepath.Join(dir, "jobs", strconv.Itoa(job)+".json")
}

// SocketPath returns the path of the socket on which the broker of a GPU listens.
func SocketPath(dir string, gpu int) string {
	return filepath.Join(dir, "turn-"+strconv.Itoa(gpu)+".sock")
}

// FillPath returns the path of the file in which the broker says that a GPU is shared by MPS.
func FillPath(dir string, gpu int) string {
	return filepath.Join(dir, "fill-"+strconv.Itoa(gpu)+".json")
}

// StampOf makes the stamp of a job from the environment that Slurm gives its Prolog. It returns ErrNotShared if the
// daemon did not say that the job shares a GPU.
func StampOf(environ []string) (share.Stamp, error) {
	job, err := jobOf(environ)
	if err != nil {
		return share.Stamp{}, err
	}
	told, err := parseGrant(envValue(environ, "SLURM_JOB_EXTRA"), job)
	if err != nil {
		return share.Stamp{}, err
	}
	uid, err := envNumber(environ, "SLURM_JOB_UID", share.MostUID)
	if err != nil {
		return share.Stamp{}, err
	}
	gpu, err := envNumber(environ, "SLURM_JOB_GPUS", mostGPU) // a list of GPUs is no number: such a job shares none
	if err != nil {
		return share.Stamp{}, err
	}
	stamp := share.Stamp{V: share.StampVersion, Job: job, UID: uid, GPU: gpu, Class: told.Class, Memory: told.Memory,
		SLO: told.SLO}
	if err := stamp.Check(); err != nil {
		return share.Stamp{}, fmt.Errorf("SLURM_JOB_EXTRA: share: %w", err)
	}
	return stamp, nil
}

// shareGrant is what the daemon's annotation says about a shared GPU.
type shareGrant struct {
	Class  share.Class `json:"class"`
	Memory gres.Memory `json:"gpu_memory_mib"`
	SLO    int64       `json:"slo_ms"`
}

// parseGrant returns what the daemon's annotation of a job (its Extra field) says about a shared GPU; ErrNotShared if
// there is no such annotation or it says nothing of one. The daemon's annotations are recognised by their exact first
// bytes, as in etc/node/prolog.sh, so what a user writes in their place is not taken for one. JSON allows a field twice
// and the last one counts, so the values are compared again after parsing.
func parseGrant(extra string, job int) (shareGrant, error) {
	start := fmt.Sprintf(`{"v":1,"lua":0,"job":%d,"round":`, job)
	if len(extra) > maxAnnotation || !strings.HasPrefix(extra, start) {
		return shareGrant{}, ErrNotShared
	}
	var annotation struct {
		V     int         `json:"v"`
		Lua   int         `json:"lua"`
		Job   int         `json:"job"`
		Round uint        `json:"round"`
		Share *shareGrant `json:"share"`
	}
	if json.Unmarshal([]byte(extra), &annotation) != nil {
		return shareGrant{}, errors.New("SLURM_JOB_EXTRA begins as an annotation and is none")
	}
	if annotation.V != 1 || annotation.Lua != 0 || annotation.Job != job {
		return shareGrant{}, errors.New("SLURM_JOB_EXTRA is the annotation of two jobs")
	}
	if annotation.Share == nil {
		return shareGrant{}, ErrNotShared
	}
	return *annotation.Share, nil
}

// The largest numbers that Slurm uses: job IDs have 32 bits, of which a federation uses the highest six; GPU indices
// have at most nine digits.
const (
	mostJob = math.MaxUint32
	mostGPU = 999_999_999
)

// jobOf returns the ID of the job that has this environment.
func jobOf(environ []string) (int, error) { return envNumber(environ, "SLURM_JOB_ID", mostJob) }

var digits = regexp.MustCompile(`^(0|[1-9][0-9]{0,9})$`)

// envNumber returns the whole number in a variable of the environment, 0 to most. Any other text is an error, and so is
// a number that does not fit an int of this machine.
func envNumber(environ []string, name string, most int64) (int, error) {
	text := envValue(environ, name)
	n, err := strconv.Atoi(text)
	if err != nil || !digits.MatchString(text) || int64(n) > most {
		return 0, fmt.Errorf("%s=%.20q: want one whole number, 0 to %d, in digits alone", name, text, most)
	}
	return n, nil
}

// envValue returns the value of the first variable of this name, as the C library does; "" if there is none.
func envValue(environ []string, name string) string {
	for _, variable := range environ {
		if text, is := strings.CutPrefix(variable, name+"="); is {
			return text
		}
	}
	return ""
}

// Run identifies one run of a job on a shared GPU. A requeued job has another stamp, which its prolog wrote later.
type Run struct {
	Job     int   `json:"job"`
	UID     int   `json:"uid"`
	Stamped int64 `json:"stamped_ns"` // modification time of the stamp, since 1970
	// Begun is set if the run may already have begun when it was first seen, so that no prolog waits for what is
	// written about it.
	Begun bool `json:"-"`
}

// Is reports whether both are the same run. What the broker knows of a run does not hold for a later run of the same
// job.
func (r Run) Is(other Run) bool {
	return r.Job == other.Job && r.UID == other.UID && r.Stamped == other.Stamped
}

// Stamp is called by Prolog: it writes the stamp of a job that shares a GPU and removes one left by an earlier run
// whose Epilog did not happen. For a job that shares none it does nothing more. A failure is also recorded in a file,
// from which the broker's status reports it: the job runs without turns, and the prolog could only write a log.
func Stamp(environ []string, dir string) error {
	err := stamp(environ, dir)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("stamp a job: %w", err)
	job, _ := jobOf(environ)
	if wrong := writeUnstamped(dir, job, err); wrong != nil {
		return fmt.Errorf("%w; nor is it written down for the broker: %w", err, wrong)
	}
	return err
}

// stamp replaces the stamp of a job; a job that shares no GPU gets none. The old one is removed first, so that no error
// leaves the job with the stamp of an earlier run.
func stamp(environ []string, dir string) error {
	if err := Unstamp(environ, dir); err != nil {
		return err
	}
	stamp, err := StampOf(environ)
	if errors.Is(err, ErrNotShared) {
		return nil
	}
	if err != nil {
		return err
	}
	return writeFile(StampPath(dir, stamp.Job), stamp)
}

// Unstamp is called by Epilog: it removes the stamp of a job, if there is one, so that no later process counts as a
// client of the job.
func Unstamp(environ []string, dir string) error {
	job, err := jobOf(environ)
	if err != nil {
		return fmt.Errorf("remove a stamp: %w", err)
	}
	if err := os.Remove(StampPath(dir, job)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a stamp: %w", err)
	}
	return nil
}

// ReadStamp reads and checks the stamp of a job; fs.ErrNotExist: the job shares no GPU. Where it matters that root owns
// the file, the caller must check that.
func ReadStamp(dir string, job int) (share.Stamp, error) {
	var stamp share.Stamp
	path := StampPath(dir, job)
	if err := readFile(path, &stamp); err != nil {
		return share.Stamp{}, err
	}
	if err := stamp.Check(); err != nil {
		return share.Stamp{}, fmt.Errorf("%s: %w", path, err)
	}
	if stamp.Job != job {
		return share.Stamp{}, fmt.Errorf("%s: job = %d: want %d, by which the file is called", path, stamp.Job, job)
	}
	return stamp, nil
}

// Stamps returns the stamps of all jobs of a node, in no order. Those that cannot be read are left out, and the error
// names each of them.
func Stamps(dir string) ([]share.Stamp, error) {
	entries, err := os.ReadDir(filepath.Dir(StampPath(dir, 0)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []share.Stamp
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), ".json")
		job, wrong := strconv.Atoi(name)
		if !is || wrong != nil {
			continue
		}
		stamp, wrong := ReadStamp(dir, job)
		switch {
		case errors.Is(wrong, fs.ErrNotExist): // the job has just ended
		case wrong != nil:
			err = errors.Join(err, wrong)
		default:
			all = append(all, stamp)
		}
	}
	return all, err
}

// readFile parses a JSON file of at most maxFile bytes into the given value. It does not open what is no ordinary file.
func readFile(path string, into any) error {
	about, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !about.Mode().IsRegular() || about.Size() > maxFile { // opening a pipe would wait for its writer
		return fmt.Errorf("%s: want an ordinary file of at most %d bytes", path, maxFile)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return err
	}
	if json.Unmarshal(text, into) != nil {
		return fmt.Errorf("%s: want one JSON object as synergy-broker writes it", path)
	}
	return nil
}

// writeFile writes a value as JSON into a new file and renames it, so that a reader sees all of it or nothing. All
// users may read it, whatever the umask.
func writeFile(path string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	folder := filepath.Dir(path)
	if err := ensureFolders(filepath.Dir(folder), folder); err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	err = errors.Join(err, file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// ensureFolders makes the folder of a file, and the one above, if they are missing. It refuses a folder in which other
// users could place files, since the files in it are believed; the folder above only has to exist. A new folder gets
// its mode by chmod, whatever the umask; a failed Mkdir shows in the Lstat below.
func ensureFolders(above, folder string) error {
	for _, path := range []string{above, folder} {
		if os.Mkdir(path, 0o755) == nil {
			if err := os.Chmod(path, 0o755); err != nil {
				return err
			}
		}
	}
	about, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	system, known := about.Sys().(*syscall.Stat_t)
	if !about.IsDir() || about.Mode().Perm()&0o022 != 0 || !known || int(system.Uid) != os.Geteuid() {
		return fmt.Errorf("%s: want a folder of user %d's to which nobody else can write", folder, os.Geteuid())
	}
	return nil
}
