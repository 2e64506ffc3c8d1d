package mps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// daemon is NVIDIA's MPS control daemon for one GPU and one user. It runs as that user and serves that user's jobs.
type daemon struct {
	gpu, uid int
	dir      string // the parent of its own folders
	program  string
	proc     string        // path of /proc
	patience time.Duration // for a start or an end
	answer   time.Duration // for one call of the program
}

// pipeDir returns the folder by which clients find the daemon. It is unique to this daemon, so it identifies the
// daemon's processes.
func (d daemon) pipeDir() string { return filepath.Join(d.dir, fmt.Sprintf("mps-%d-%d", d.gpu, d.uid)) }

// logDir returns the folder in which the daemon writes its logs.
func (d daemon) logDir() string { return d.pipeDir() + "-log" }

// environ returns the whole environment of NVIDIA's program. CUDA_VISIBLE_DEVICES is left out: with it clients would
// have to number devices anew, and Slurm has already told them which one is theirs.
func (d daemon) environ() []string {
	return []string{"PATH=" + os.Getenv("PATH"), d.markVar(), "CUDA_MPS_LOG_DIRECTORY=" + d.logDir()}
}

// markVar returns the variable of the daemon's environment that no other daemon has, by which its processes are found.
func (d daemon) markVar() string { return "CUDA_MPS_PIPE_DIRECTORY=" + d.pipeDir() }

// start starts the daemon and waits until it answers, so that tasks that begin afterwards are its clients. One that
// does not answer within patience is killed, and the error is errNoAnswer.
func (d daemon) start(ctx context.Context) error {
	for _, folder := range []string{d.pipeDir(), d.logDir()} {
		if err := d.ensureFolder(folder); err != nil {
			return err
		}
	}
	if said, err := d.run(ctx, "", "-d"); err != nil {
		return fmt.Errorf("%s -d: %w: %s", d.program, err, said)
	}
	for end := time.Now().Add(d.patience); ; time.Sleep(lookEvery) {
		err := d.ping(ctx)
		if err == nil {
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return errors.Join(fmt.Errorf("%w, though it was started: %w", errNoAnswer, err), d.kill(ctx))
		}
	}
}

// ensureFolder makes a folder that belongs to the daemon's user, and that no other user may look into. The parent
// folder is root's, so no other user can have put something there. A folder that an earlier daemon left is used again.
func (d daemon) ensureFolder(folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if info, err := os.Lstat(folder); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is no folder (%v): remove it", folder, err)
	}
	if d.uid == os.Geteuid() {
		return nil
	}
	return os.Lchown(folder, d.uid, d.gid())
}

// gid returns the user's own group if the machine knows it, and otherwise one that owns nothing.
func (d daemon) gid() int {
	const nogroup = 65534
	u, err := user.LookupId(strconv.Itoa(d.uid))
	if err != nil {
		return nogroup
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nogroup
	}
	return gid
}

// errNoAnswer means that the daemon did not answer in time.
var errNoAnswer = errors.New("its MPS daemon does not answer")

// ping returns nil if the daemon runs and answers, and errNoAnswer if NVIDIA's program does not return in time. Any
// other error means that no daemon runs. If the daemon's folder is missing, none was started, and the program need not
// be called.
func (d daemon) ping(ctx context.Context) error {
	if _, err := os.Lstat(d.pipeDir()); err != nil {
		return err
	}
	said, err := d.run(ctx, "get_server_list\n")
	if errors.Is(err, errNoAnswer) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
}

// quit asks the daemon to quit, and waits for its processes to end, for d.patience at most. It does nothing for a
// daemon that does not answer. The caller kills what is left.
func (d daemon) quit(ctx context.Context) {
	if d.program == "" || d.ping(ctx) != nil {
		return
	}
	_, _ = d.run(ctx, "quit\n") // the next loop sees whether it did
	for end := time.Now().Add(d.patience); len(d.processes()) > 0 && time.Now().Before(end); {
		time.Sleep(lookEvery)
	}
}

// end kills what is left of the daemon and removes its folders, after which it counts as ended.
func (d daemon) end(ctx context.Context) error {
	if err := d.kill(ctx); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(d.pipeDir()), os.RemoveAll(d.logDir()))
}

// kill ends the processes of the daemon and of its servers, which have both its mark and NVIDIA's name. Its clients
// have the mark, too, but are not killed. The processes have a second to end after each of the two signals; if one
// still runs then, that is an error.
func (d daemon) kill(ctx context.Context) error {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, pid := range d.processes() {
			d.signal(pid, signal)
		}
		for end := time.Now().Add(answerWithin / 5); time.Now().Before(end); time.Sleep(lookEvery) {
			if len(d.processes()) == 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("processes %v do not end: the GPU takes turns until they do", d.processes())
}

// signal signals a process of the daemon. It checks the process again once it has a handle on it, so that another
// process that got the PID since is not hit.
func (d daemon) signal(pid int, signal os.Signal) {
	process, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer func() { _ = process.Release() }()
	if d.isOwnProcess(pid) {
		_ = process.Signal(signal) // it may have ended by itself
	}
}

// processes returns the PIDs of this daemon and its servers. There are none if /proc cannot be listed: a PID is
// signalled only after its owner, mark and name were read there, so nothing could be done then.
func (d daemon) processes() []int {
	entries, err := os.ReadDir(d.proc)
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && d.isOwnProcess(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isOwnProcess reports whether a process is this daemon or a server of it. Only these have both the mark and NVIDIA's
// name: clients have the mark alone, and other daemons the name alone.
func (d daemon) isOwnProcess(pid int) bool { return d.hasMark(pid) && d.isNVIDIAs(pid) }

// hasMark reports whether a process has the daemon's mark and belongs to its user. The user is checked, too, since
// every user can put the mark into the environment of a process and choose its name.
func (d daemon) hasMark(pid int) bool {
	if user, err := d.userOf(pid); err != nil || user != d.uid {
		return false
	}
	environ, err := d.read(pid, "environ")
	return err == nil && slices.Contains(strings.Split(environ, "\x00"), d.markVar())
}

// isNVIDIAs reports whether a process is called like one of NVIDIA's MPS programs, which tells the daemon from its
// clients. The first words of the command line are looked at, since a wrapper script has its interpreter in front.
func (d daemon) isNVIDIAs(pid int) bool {
	words, err := d.read(pid, "cmdline")
	return err == nil && slices.ContainsFunc(strings.SplitN(words, "\x00", 4), func(word string) bool {
		return strings.HasPrefix(filepath.Base(word), "nvidia-cuda-mps-")
	})
}

// userOf returns the real user ID of a process, which only root can have set to another user's.
func (d daemon) userOf(pid int) (int, error) {
	status, err := d.read(pid, "status")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(status, "\nUid:")
	var user int
	_, err = fmt.Sscan(after, &user)
	return user, err
}

func (d daemon) read(pid int, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(d.proc, strconv.Itoa(pid), name))
	return string(text), err
}

// run runs NVIDIA's program as the user and returns the beginning of its output, for messages. The output goes through
// a file, because a daemon that is started keeps the output open. errNoAnswer means that the program was ended because
// it took longer than d.answer. WaitDelay bounds the wait for the goroutine that writes the input.
func (d daemon) run(ctx context.Context, input string, args ...string) (string, error) {
	within, cancel := context.WithTimeout(ctx, d.answer)
	defer cancel()
	said, err := os.CreateTemp("", "mps-")
	if err != nil {
		return "", err
	}
	defer said.Close()
	if err := os.Remove(said.Name()); err != nil {
		return "", err
	}
	command := exec.CommandContext(within, d.program, args...)
	command.Env, command.Dir, command.Stdout, command.Stderr = d.environ(), "/", said, said
	if input != "" {
		command.Stdin = strings.NewReader(input)
		command.WaitDelay = d.answer
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if d.uid != os.Geteuid() {
		command.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(d.uid), Gid: uint32(d.gid())}
	}
	err = command.Run()
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		err = errNoAnswer
	}
	text := make([]byte, 300)
	n, _ := said.ReadAt(text, 0)
	return printable.Quote(string(bytes.TrimSpace(text[:n])), 200), err
}
