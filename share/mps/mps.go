// Package mps has the jobs of one user fill a GPU together: it starts and ends NVIDIA's MPS control daemon, one for
// each GPU and user, and says what environment the jobs of each class need. Of all that was measured this keeps most
// for the important job while the other gets most of the rest; where it cannot be had, jobs take turns.
//
// MPS isolates neither memory nor faults: a client that crashes may end the others of its server. Clients of one server
// are therefore one user's. The third version of MPS, of driver 615, serves several users each with its own settings;
// nobody here has tried it, so jobs of several users take turns, whatever the driver.
package mps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/node"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
)

// Program is NVIDIA's.
const Program = "nvidia-cuda-mps-control"

// LowThreads is the part of a GPU's threads that jobs of class Low may use, percent, where nothing else is said: with a
// half the important job keeps 0.89 of its speed and the other has 0.52, with a quarter 0.91 and 0.31 (H100).
const LowThreads = 50

// The times that are allowed to NVIDIA's program.
const (
	answerWithin = 5 * time.Second
	patience     = 10 * time.Second // with a daemon that starts or quits: its clients go first
	lookEvery    = 50 * time.Millisecond
)

// mostStarts is how often a daemon is started for one GPU within startsPer: one that dies again and again takes the
// jobs of its clients with it.
const (
	mostStarts = 3
	startsPer  = 10 * time.Minute
)

// A GPU whose daemon does not answer is not asked for so long, doubled each time until it answers: each time that it is
// asked whoever waits for the GPU waits for that.
const (
	firstSilence   = 30 * time.Second
	longestSilence = 10 * time.Minute
)

// ErrNoProgram is of a node without NVIDIA's program.
var ErrNoProgram = errors.New(Program + " is not installed")

// Manager keeps the daemons of one node. What runs is asked of the machine each time, so that a manager that was
// started anew goes on with what the last one left.
type Manager struct {
	Dir        string // where the node keeps what it knows of shared GPUs: node.Folder
	Program    string // path of NVIDIA's program; "": that of PATH
	LowThreads int    // percent; 0: LowThreads
	Proc       string // "": /proc
	// Patience is how long a daemon may take to start and to quit; 0: ten seconds.
	Patience time.Duration
	// Answer is how long it may take to answer; 0: five seconds.
	Answer time.Duration

	now  func() time.Time // nil: time.Now
	mu   sync.Mutex       // never held while NVIDIA's program is talked to
	gpus map[int]*gpu
}

// gpu is what a manager remembers of one. Its lock is held while its daemons are talked to, so that one that hangs
// delays no other GPU.
type gpu struct {
	mu      sync.Mutex
	starts  []time.Time
	known   bool       // Serve was told of it
	last    []node.Run // of which jobs
	said    node.Fill  // what tasks are told: whose daemon there is, and which jobs are its clients; zero: nothing
	silence time.Duration
	until   time.Time // it is not asked before; for so long it has not answered
	why     error
}

func (m *Manager) of(index int) *gpu {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gpus == nil {
		m.gpus = map[int]*gpu{}
	}
	if m.gpus[index] == nil {
		m.gpus[index] = &gpu{}
	}
	return m.gpus[index]
}

func (m *Manager) time() time.Time {
	if m.now != nil {
		return m.now()
	}
	return time.Now()
}

// Serve has the GPU of an index shared by these jobs, and says how. It is safe to say twice, and to be said again every
// so often: a daemon that died is noticed then.
//
// A job that begins where its user's daemon runs is a client of it from its first task to its last, and one that began
// without never becomes one; a daemon is started for a job that begins, where all are of one user. The jobs fill the
// GPU if all are of one user and clients. Otherwise they take turns, clients or not. A daemon whose user has no job on
// the GPU is ended. The error says why they take turns though they could fill.
func (m *Manager) Serve(ctx context.Context, gpu int, jobs []node.Run) (predict.Mode, error) {
	g := m.of(gpu)
	g.mu.Lock()
	defer g.mu.Unlock()
	var err error
	if !g.known {
		err = m.recall(g, gpu)
	}
	users := usersOf(jobs)
	ended := m.endOthers(ctx, gpu, users)
	fills := false
	if len(users) > 0 {
		var wrong error
		fills, wrong = m.share(ctx, g, gpu, jobs, ended == nil)
		err = errors.Join(err, ended, wrong)
	} else {
		err = errors.Join(err, ended, m.withdraw(g, gpu))
	}
	g.known, g.last = true, slices.Clone(jobs)
	switch {
	case fills && err == nil:
		return predict.Fill, nil
	case err != nil:
		return predict.LookAhead, fmt.Errorf("fill GPU %d: %w", gpu, err)
	}
	return predict.LookAhead, nil
}

func usersOf(jobs []node.Run) []int {
	var users []int
	for _, job := range jobs {
		users = append(users, job.UID)
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// errBegun is of jobs that take turns until the last that began without MPS is gone.
var errBegun = errors.New("a job on it began without MPS")

// share has the jobs that begin be clients of a daemon, which it may start, and says whether all are.
func (m *Manager) share(ctx context.Context, g *gpu, gpu int, jobs []node.Run, mayStart bool) (fills bool, err error) {
	users, uid := usersOf(jobs), jobs[0].UID
	if g.said.UID != nil && slices.Contains(users, *g.said.UID) {
		uid = *g.said.UID
	} else if len(users) > 1 {
		return false, m.withdraw(g, gpu)
	}
	d, err := m.daemon(gpu, uid)
	if err != nil {
		return false, errors.Join(err, m.withdraw(g, gpu))
	}
	if g.silent(m.time()) {
		return false, errors.Join(g.why, m.withdraw(g, gpu))
	}
	err = d.answers(ctx)
	begins := func(job node.Run) bool { return g.begins(job, m.time()) }
	if err != nil && !errors.Is(err, errMute) {
		// what its clients had of it is gone with it
		err = m.withdraw(g, gpu)
		switch {
		case err != nil || len(users) > 1:
			return false, err
		case !mayStart || !slices.ContainsFunc(jobs, begins):
			return false, errBegun
		}
		err = m.start(ctx, g, d)
	}
	if errors.Is(err, errMute) {
		return false, errors.Join(g.backOff(m.time(), err), m.withdraw(g, gpu))
	}
	if err != nil {
		return false, errors.Join(err, m.withdraw(g, gpu))
	}
	g.silence = 0
	var clients []node.Run
	for _, job := range jobs {
		if job.UID == uid && (g.said.Serves(job) || begins(job)) {
			clients = append(clients, job)
		}
	}
	if err := m.say(g, d, clients); err != nil || len(users) > 1 {
		return false, err
	}
	if len(clients) < len(jobs) {
		return false, errBegun
	}
	return true, nil
}

// prologWaits is how old a stamp may be of which it is thought that its prolog waits for what the broker says, and that
// its job has not begun. It waits for twelve seconds.
const prologWaits = 10 * time.Second

// begins says of a job that it has not begun yet, so that its first task will be told what is said of it now.
func (g *gpu) begins(job node.Run, now time.Time) bool {
	return g.known && !job.Begun && now.Sub(time.Unix(0, job.Stamped)) < prologWaits &&
		!slices.ContainsFunc(g.last, func(was node.Run) bool { return was.Job == job.Job && was.UID == job.UID })
}

// say has these jobs' tasks be clients of a daemon: from their first to their last, so it is written for as long as
// the daemon lives, however the GPU is shared.
func (m *Manager) say(g *gpu, d daemon, clients []node.Run) error {
	if len(clients) == 0 {
		return m.withdraw(g, d.gpu)
	}
	fill := m.fillOf(d)
	fill.Jobs = clients
	if err := fill.Write(m.Dir); err != nil {
		return errors.Join(err, m.withdraw(g, d.gpu))
	}
	g.said = fill
	return nil
}

// recall finds out which jobs are clients of a daemon that an earlier manager has started. Those of which that cannot
// be known take turns, which is slower and never wrong.
func (m *Manager) recall(g *gpu, gpu int) error {
	said, err := node.ReadFill(m.Dir, gpu)
	if errors.Is(err, fs.ErrNotExist) {
		said, err = node.Withdrawn(m.Dir, gpu, m.time())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errors.Join(fmt.Errorf("which jobs are clients of MPS: %w: they take turns", err), m.withdraw(g, gpu))
	}
	g.said = said
	return nil
}

// silent says whether the GPU is not to be asked now.
func (g *gpu) silent(now time.Time) bool { return g.silence > 0 && now.Before(g.until) }

// backOff has it not be asked for a while, and says that.
func (g *gpu) backOff(now time.Time, why error) error {
	g.silence = min(max(firstSilence, 2*g.silence), longestSilence)
	g.until = now.Add(g.silence)
	g.why = fmt.Errorf("%w; it is asked again at %s", why, g.until.Format(time.TimeOnly))
	return g.why
}

func (m *Manager) start(ctx context.Context, g *gpu, d daemon) error {
	if err := g.mayStart(m.time(), m.Dir); err != nil {
		return err
	}
	if err := d.kill(ctx); err != nil { // what the last one left: one that does not answer cannot be used
		return err
	}
	return d.start(ctx)
}

// mayStart counts starts.
func (g *gpu) mayStart(now time.Time, dir string) error {
	recent := slices.DeleteFunc(g.starts, func(at time.Time) bool { return now.Sub(at) >= startsPer })
	if len(recent) >= mostStarts {
		return fmt.Errorf("its daemon was started %d times in %v: see its log in %s", len(recent), startsPer, dir)
	}
	g.starts = append(recent, now)
	return nil
}

// fillOf is what the tasks of the user's jobs need.
func (m *Manager) fillOf(d daemon) node.Fill {
	threads := m.LowThreads
	if threads == 0 {
		threads = LowThreads
	}
	settings := func(priority string, more ...string) node.Settings {
		env := map[string]string{"CUDA_MPS_PIPE_DIRECTORY": d.pipe(), "CUDA_MPS_LOG_DIRECTORY": d.log(),
			"CUDA_MPS_CLIENT_PRIORITY": priority}
		for _, percent := range more {
			env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = percent
		}
		return node.Settings{Env: env}
	}
	return node.Fill{V: node.FillVersion, GPU: d.gpu, UID: &d.uid, High: settings("0"),
		Low: settings("1", strconv.Itoa(threads))}
}

// withdraw has no more tasks be clients. Those that are go on; but a job of which one task is and another is not is
// none, so from here on none is.
func (m *Manager) withdraw(g *gpu, gpu int) error {
	g.said = node.Fill{}
	err := os.Remove(node.FillPath(m.Dir, gpu))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// endOthers ends the daemons of the GPU whose user is none of these.
func (m *Manager) endOthers(ctx context.Context, gpu int, users []int) error {
	var all error
	for _, d := range m.known() {
		if d.gpu == gpu && !slices.Contains(users, d.uid) {
			all = errors.Join(all, m.end(ctx, d))
		}
	}
	return all
}

func (m *Manager) end(ctx context.Context, d daemon) error {
	g := m.of(d.gpu)
	if f, err := node.ReadFill(m.Dir, d.gpu); err == nil && f.UID != nil && *f.UID == d.uid {
		if err := m.withdraw(g, d.gpu); err != nil {
			return err
		}
	}
	silent := g.silent(m.time())
	if !silent && len(g.starts) > 0 && d.answers(ctx) == nil {
		g.starts = g.starts[:len(g.starts)-1] // only those that die are counted
	}
	if !silent { // one that does not answer does not hear either
		d.quit(ctx)
	}
	lived := len(d.processes()) > 0
	if err := d.end(ctx); err != nil {
		return fmt.Errorf("end the MPS daemon of GPU %d and user %d: %w", d.gpu, d.uid, err)
	}
	if silent && lived {
		g.silence = 0 // the next is another
	}
	return nil
}

// Retire has these jobs take turns: no daemon is started for them any more. One whose user has no job on the GPU is
// ended. One that an earlier manager has started for jobs which are still there is left, since they would end with it;
// the error says so. It is for a node that fills no GPUs, and like Serve is said again.
func (m *Manager) Retire(ctx context.Context, gpu int, jobs []node.Run) error {
	g := m.of(gpu)
	g.mu.Lock()
	defer g.mu.Unlock()
	users := usersOf(jobs)
	err := errors.Join(m.withdraw(g, gpu), m.endOthers(ctx, gpu, users))
	for _, d := range m.known() {
		if d.gpu == gpu && slices.Contains(users, d.uid) && len(d.processes()) > 0 {
			err = errors.Join(err, fmt.Errorf("the MPS daemon of user %d is left until his jobs have ended", d.uid))
		}
	}
	return err
}

// Stop ends the daemons whose user has no job on their GPU, by the stamps of the node; where one of those cannot be
// read it ends none. The others are left, since the jobs would end with them, and the error names them.
func (m *Manager) Stop(ctx context.Context) error {
	var all error
	for _, d := range m.known() {
		all = errors.Join(all, m.stop(ctx, d))
	}
	return all
}

func (m *Manager) stop(ctx context.Context, d daemon) error {
	g := m.of(d.gpu)
	g.mu.Lock()
	defer g.mu.Unlock()
	stamps, err := node.Stamps(m.Dir)
	var jobs []int
	for _, s := range stamps {
		if s.GPU == d.gpu && s.UID == d.uid {
			jobs = append(jobs, s.Job)
		}
	}
	if len(jobs) > 0 {
		err = errors.Join(err, fmt.Errorf("jobs %v run by it", slices.Sorted(slices.Values(jobs))))
	}
	if err != nil {
		return fmt.Errorf("the MPS daemon of GPU %d and user %d is left: %w", d.gpu, d.uid, err)
	}
	return m.end(ctx, d)
}

// known are the daemons that a manager of this folder has started and not ended.
func (m *Manager) known() []daemon {
	paths, _ := filepath.Glob(filepath.Join(m.Dir, "mps-*-*")) // the pattern is well formed
	var all []daemon
	for _, path := range paths {
		words := strings.Split(filepath.Base(path), "-")
		if len(words) != 3 {
			continue
		}
		gpu, err := strconv.Atoi(words[1])
		uid, err2 := strconv.Atoi(words[2])
		if err != nil || err2 != nil {
			continue
		}
		if d, err := m.daemon(gpu, uid); err == nil || errors.Is(err, ErrNoProgram) {
			all = append(all, d)
		}
	}
	return all
}

// daemon is that of a GPU and a user, whether it runs or not.
func (m *Manager) daemon(gpu, uid int) (daemon, error) {
	d := daemon{gpu: gpu, uid: uid, dir: m.Dir, program: m.Program, proc: cmp.Or(m.Proc, "/proc"),
		patience: cmp.Or(m.Patience, patience), answer: cmp.Or(m.Answer, answerWithin)}
	if d.program == "" {
		path, err := exec.LookPath(Program)
		if err != nil {
			return d, ErrNoProgram
		}
		d.program = path
	}
	return d, nil
}
