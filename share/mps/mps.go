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
	mu       sync.Mutex
	starts   []time.Time
	known    bool       // Serve was told of it
	last     []node.Run // of which jobs
	clients  []node.Run // and which of them began as clients of its daemon
	recalled bool       // what the manager before has noted of that
	silence  time.Duration
	until    time.Time // it is not asked before; for so long it has not answered
	why      error
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
// The jobs fill the GPU if all are of one user and each began as a client of his daemon, which is started for the first
// of them: a job that began without MPS never becomes a client of it. Otherwise they take turns. A daemon whose user
// has no job on the GPU is ended. The error says why they take turns though they could fill.
func (m *Manager) Serve(ctx context.Context, gpu int, jobs []node.Run) (predict.Mode, error) {
	g := m.of(gpu)
	g.mu.Lock()
	defer g.mu.Unlock()
	err := m.recall(g, gpu)
	defer func() { g.known, g.last = true, slices.Clone(jobs) }()
	err = errors.Join(err, m.endOthers(ctx, gpu, usersOf(jobs)))
	if users := usersOf(jobs); len(users) != 1 {
		return predict.LookAhead, errors.Join(err, m.withdraw(gpu), m.keep(g, gpu, g.still(jobs)))
	}
	if err := errors.Join(err, m.fill(ctx, gpu, jobs)); err != nil {
		return predict.LookAhead, errors.Join(fmt.Errorf("fill GPU %d: %w", gpu, err), m.withdraw(gpu),
			m.keep(g, gpu, g.still(jobs)))
	}
	return predict.Fill, nil
}

func usersOf(jobs []node.Run) []int {
	var users []int
	for _, job := range jobs {
		users = append(users, job.UID)
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// errBegun is of jobs that began to take turns, which they do until the last of those that did is gone.
var errBegun = errors.New("a job on it began without MPS")

func (m *Manager) fill(ctx context.Context, gpu int, jobs []node.Run) error {
	g := m.of(gpu)
	d, err := m.daemon(gpu, jobs[0].UID)
	if err != nil {
		return err
	}
	if g.silent(m.time()) {
		return g.why
	}
	// asked of jobs that began without it, too: whether it hangs is to be said
	err = d.answers(ctx)
	switch {
	case errors.Is(err, errMute):
	case slices.ContainsFunc(jobs, g.without):
		return errBegun
	case err != nil && !slices.ContainsFunc(jobs, g.seen):
		err = m.start(ctx, d)
	case err != nil:
		return errBegun // as good as: what they were clients of is no more
	}
	if errors.Is(err, errMute) {
		return g.backOff(m.time(), err)
	}
	if err != nil {
		return err
	}
	g.silence = 0
	// the note comes last: of a job that is not in it is thought that it began without
	return errors.Join(m.fillOf(d).Write(m.Dir), m.keep(g, gpu, jobs))
}

// seen says of a job whether it was there before; without of one, too, whether it began without a daemon. One that is
// new has not begun: its prolog waits for the answer.
func (g *gpu) seen(job node.Run) bool { return !g.known || slices.Contains(g.last, job) }

func (g *gpu) without(job node.Run) bool { return g.seen(job) && !slices.Contains(g.clients, job) }

// still are the clients that are among these jobs.
func (g *gpu) still(jobs []node.Run) (clients []node.Run) {
	for _, job := range g.clients {
		if slices.Contains(jobs, job) {
			clients = append(clients, job)
		}
	}
	return clients
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

func (m *Manager) start(ctx context.Context, d daemon) error {
	if err := m.mayStart(d.gpu); err != nil {
		return err
	}
	// what the last one left: one that is there and does not answer cannot be used
	if err := errors.Join(m.withdraw(d.gpu), d.kill(ctx)); err != nil {
		return err
	}
	return d.start(ctx)
}

// mayStart counts starts.
func (m *Manager) mayStart(gpu int) error {
	g, now := m.of(gpu), m.time()
	recent := slices.DeleteFunc(g.starts, func(at time.Time) bool { return now.Sub(at) >= startsPer })
	if len(recent) >= mostStarts {
		return fmt.Errorf("its daemon was started %d times in %v: see its log in %s", len(recent), startsPer, m.Dir)
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

// withdraw has no more tasks fill the GPU. Those that do go on.
func (m *Manager) withdraw(gpu int) error {
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
	if f, err := node.ReadFill(m.Dir, d.gpu); err == nil && f.UID != nil && *f.UID == d.uid {
		if err := m.withdraw(d.gpu); err != nil {
			return err
		}
	}
	g := m.of(d.gpu)
	silent := g.silent(m.time())
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
	err := errors.Join(m.recall(g, gpu), m.withdraw(gpu), m.endOthers(ctx, gpu, users),
		m.keep(g, gpu, g.still(jobs)))
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
