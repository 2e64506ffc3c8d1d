// Package node is what a node does for a job that shares a GPU, before it begins, before each of its tasks, and after
// it: Prolog, as root, keeps what the daemon said of the job as a stamp; TaskProlog, as the user, tells the task where
// the broker of its GPU listens; Epilog removes the stamp. It believes nothing that a user can have written before it
// was compared with what Slurm itself says, and where anything is missing the job runs as if there were no broker.
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

// Folder is where stamps, sockets and fills are, in files that root alone writes. It is not the daemon's /run/synergy,
// which is another user's and goes when the daemon stops, where both run on one host.
const Folder = "/run/synergy-broker"

// The most that is read of a file, and of an annotation; ours have a few hundred bytes.
const (
	maxAnnotation = 16 << 10
	maxFile       = 16 << 10
)

// ErrNotShared is of a job of which the daemon did not say that it shares a GPU.
var ErrNotShared = errors.New("the job shares no GPU")

// StampPath is where a job's stamp is.
func StampPath(dir string, job int) string {
	return filepath.Join(dir, "jobs", strconv.Itoa(job)+".json")
}

// SocketPath is where the broker of a GPU listens.
func SocketPath(dir string, gpu int) string {
	return filepath.Join(dir, "turn-"+strconv.Itoa(gpu)+".sock")
}

// FillPath is where the broker says that a GPU is shared by MPS.
func FillPath(dir string, gpu int) string {
	return filepath.Join(dir, "fill-"+strconv.Itoa(gpu)+".json")
}

// StampOf is the stamp of a job by the environment of its Prolog; ErrNotShared where the daemon said nothing of a
// shared GPU.
func StampOf(environ []string) (share.Stamp, error) {
	job, err := jobOf(environ)
	if err != nil {
		return share.Stamp{}, err
	}
	told, err := told(value(environ, "SLURM_JOB_EXTRA"), job)
	if err != nil {
		return share.Stamp{}, err
	}
	uid, err := number(environ, "SLURM_JOB_UID", share.MostUID)
	if err != nil {
		return share.Stamp{}, err
	}
	gpu, err := number(environ, "SLURM_JOB_GPUS", mostGPU) // a list is no number: such a job shares nothing
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

// grant is what the daemon's annotation says of a shared GPU.
type grant struct {
	Class  share.Class `json:"class"`
	Memory gres.Memory `json:"gpu_memory_mib"`
	SLO    int64       `json:"slo_ms"`
}

// told reads the annotation of a job. Annotations are known by how the daemon begins them, byte by byte, as in
// etc/node/prolog.sh: what a user wrote in their place says nothing.
func told(extra string, job int) (grant, error) {
	start := fmt.Sprintf(`{"v":1,"lua":0,"job":%d,"round":`, job)
	if len(extra) > maxAnnotation || !strings.HasPrefix(extra, start) {
		return grant{}, ErrNotShared
	}
	var annotation struct {
		V     int    `json:"v"`
		Lua   int    `json:"lua"`
		Job   int    `json:"job"`
		Round uint   `json:"round"`
		Share *grant `json:"share"`
	}
	if json.Unmarshal([]byte(extra), &annotation) != nil {
		return grant{}, errors.New("SLURM_JOB_EXTRA begins as an annotation and is none")
	}
	if annotation.V != 1 || annotation.Lua != 0 || annotation.Job != job {
		return grant{}, errors.New("SLURM_JOB_EXTRA is the annotation of two jobs")
	}
	if annotation.Share == nil {
		return grant{}, ErrNotShared
	}
	return *annotation.Share, nil
}

// The largest numbers that Slurm says: a job's has 32 bits, of which a federation uses the highest six, and an index is
// any that fits.
const (
	mostJob = math.MaxUint32
	mostGPU = 999_999_999
)

// jobOf is the number of the job whose environment this is.
func jobOf(environ []string) (int, error) { return number(environ, "SLURM_JOB_ID", mostJob) }

var digits = regexp.MustCompile(`^(0|[1-9][0-9]{0,9})$`)

// number reads one number in the environment. What an int of this machine does not hold is refused, too.
func number(environ []string, name string, most int64) (int, error) {
	text := value(environ, name)
	n, err := strconv.Atoi(text)
	if err != nil || !digits.MatchString(text) || int64(n) > most {
		return 0, fmt.Errorf("%s=%.20q: want one whole number, 0 to %d, in digits alone", name, text, most)
	}
	return n, nil
}

// value is that of the first variable of this name, as the C library has it.
func value(environ []string, name string) string {
	for _, variable := range environ {
		if text, is := strings.CutPrefix(variable, name+"="); is {
			return text
		}
	}
	return ""
}

// Run is one run of a job on a shared GPU, as far as the broker tells those apart: a job that was requeued has another
// stamp, which its prolog wrote later.
type Run struct {
	Job     int   `json:"job"`
	UID     int   `json:"uid"`
	Stamped int64 `json:"stamped_ns"` // since 1970
	// Begun is of one that may have begun when it was first seen: no prolog waits for what is said of it.
	Begun bool `json:"-"`
}

// Is says whether two are the same run.
func (r Run) Is(other Run) bool {
	return r.Job == other.Job && r.UID == other.UID && r.Stamped == other.Stamped
}

// Stamp is for Prolog: it keeps the stamp of a job that shares a GPU, and drops that of a run before, whose Epilog did
// not come about. For a job that shares none there is nothing else to do. Where it fails, it writes that down for the
// broker: whoever has called it can tell nobody but a log.
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

// Unstamp is for Epilog: it removes the stamp of a job, which may have none.
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

// ReadStamp reads the stamp of a job. Whose file it is, is for the caller to look at where it matters.
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

// Stamps are those of all jobs of a node, in no order. The error says of each that cannot be read what is wrong.
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
		case errors.Is(wrong, fs.ErrNotExist): // it has just ended
		case wrong != nil:
			err = errors.Join(err, wrong)
		default:
			all = append(all, stamp)
		}
	}
	return all, err
}

func readFile(path string, into any) error {
	about, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !about.Mode().IsRegular() || about.Size() > maxFile { // to open a pipe would wait for its writer
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

// writeFile writes a new file and renames it, so that whoever reads it reads all of it or nothing. Everybody may read
// it, whatever the umask.
func writeFile(path string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	folder := filepath.Dir(path)
	if err := ownFolders(filepath.Dir(folder), folder); err != nil {
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

// ownFolders makes the folder of a file where it is missing, and refuses one in which others could put a file of their
// own. The folder above it only has to be there.
func ownFolders(above, folder string) error {
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
