// Package mps lets the jobs of one user use a GPU at the same time: it starts and ends NVIDIA's MPS control daemon, one
// for each GPU and user, and says what environment the jobs of each class need. Of all ways measured, this keeps most
// of the important job's speed while the other gets most of the rest. Where it is not possible, jobs take turns.
//
// A job is an MPS client from its first task to its last, or never. A GPU is filled only while all jobs on it are
// clients of one user's daemon. Only the end of its jobs ends a daemon: no change of mode, no new broker and no Stop
// does. NVIDIA's program may hang, so each GPU is handled under its own lock. A daemon is found again by its folder,
// which is in the environment of its processes. It is not given CUDA_VISIBLE_DEVICES.
//
// MPS isolates neither memory nor faults: a client that crashes may end the others of its server. So the clients of one
// server belong to one user. MPS of driver 615 can serve several users, each with its own settings; that was not tried,
// so jobs of several users take turns, whatever the driver.
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

// Program is the name of NVIDIA's program.
const Program = "nvidia-cuda-mps-control"

// LowThreads is the default part of a GPU's threads that jobs of class Low may use, percent. With half of them the
// important job keeps 0.89 of its speed and the other has 0.52, with a quarter 0.91 and 0.31 (H100).
const LowThreads = 50

// Times allowed to NVIDIA's program.
const (
	answerWithin = 5 * time.Second
	patience     = 10 * time.Second // for a daemon to start or quit, which waits for its clients
	lookEvery    = 50 * time.Millisecond
)

// A daemon is started at most maxStarts times for one GPU within startsPer. One that dies again and again takes its
// clients' jobs with it.
const (
	maxStarts = 3
	startsPer = 10 * time.Minute
)

// A GPU whose daemon does not answer is not asked for minBackoff, doubled each time up to maxBackoff, until it
// answers. Each question delays the prologs that wait for the GPU.
const (
	minBackoff = 30 * time.Second
	maxBackoff = 10 * time.Minute
)

// ErrNoProgram means that the node does not have NVIDIA's program.
var ErrNoProgram = errors.New(Program + " is not installed")

// Manager runs the MPS daemons of one node. It asks the machine each time what runs, so a new manager goes on with what
// the last one left.
type Manager struct {
	Dir        string // the node's folder for shared GPUs: node.Folder
	Program    string // path of NVIDIA's program; "": found in PATH
	LowThreads int    // percent; 0: LowThreads
	Proc       string // "": /proc
	// Patience is how long a daemon may take to start or quit; 0: ten seconds.
	Patience time.Duration
	// Answer is how long a daemon may take to answer; 0: five seconds.
	Answer time.Duration

	now  func() time.Time // nil: time.Now
	mu   sync.Mutex       // never held while NVIDIA's program runs
	gpus map[int]*gpu
}

// gpu is what a manager remembers of one GPU. Its lock is held while its daemons are asked, so that one that hangs
// delays no other GPU.
type gpu struct {
	mu          sync.Mutex
	starts      []time.Time // of its daemons, within startsPer
	wasServed   bool        // Serve has been called for it
	lastJobs    []node.Run  // the jobs of the last Serve
	currentFill node.Fill   // what tasks are told: whose daemon runs, and which jobs are its clients; zero: nothing
	// backoff is how long the GPU is not asked after its daemon did not answer; 0 if it answered. retryAt is when it is
	// asked again.
	backoff time.Duration
	retryAt time.Time
	lastErr error // the error to return until retryAt
}

// gpuState returns what the manager remembers of a GPU, and makes it at the first call.
func (m *Manager) gpuState(index int) *gpu {
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

// time returns the present time, or that of a test.
func (m *Manager) time() time.Time {
	if m.now != nil {
		return m.now()
	}
	return time.Now()
}

// Serve makes the given jobs share a GPU, and returns how they do. It may be repeated, and is called regularly so that
// a daemon that died is noticed.
//
// A job that begins while its user's daemon runs is its client from the first task to the last; a job that began
// without one never becomes a client. A daemon is started for a job that begins, if all jobs are of one user. The jobs
// fill the GPU (use it at the same time) if all are clients of one user's daemon. Otherwise they take turns, clients or
// not. A daemon whose user has no job on the GPU is ended. The error says why jobs take turns though they could fill.
func (m *Manager) Serve(ctx context.Context, gpu int, jobs []node.Run) (predict.Mode, error) {
	g := m.gpuState(gpu)
	g.mu.Lock()
	defer g.mu.Unlock()
	var err error
	if !g.wasServed {
		err = m.restoreFill(g, gpu)
	}
	users := usersOf(jobs)
	ended := m.endOthers(ctx, gpu, users)
	fills := false
	if len(users) > 0 {
		var wrong error
		fills, wrong = m.serveJobs(ctx, g, gpu, jobs, ended == nil)
		err = errors.Join(err, ended, wrong)
	} else {
		err = errors.Join(err, ended, m.removeFill(g, gpu))
	}
	g.wasServed, g.lastJobs = true, slices.Clone(jobs)
	switch {
	case fills && err == nil:
		return predict.Fill, nil
	case err != nil:
		return predict.LookAhead, fmt.Errorf("fill GPU %d: %w", gpu, err)
	}
	return predict.LookAhead, nil
}

// usersOf returns the users of the jobs, ascending, without duplicates. MPS serves one user at a time, so the jobs can
// run at once only if there is one.
func usersOf(jobs []node.Run) []int {
	var users []int
	for _, job := range jobs {
		users = append(users, job.UID)
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// errBegun is why jobs take turns until the last one that began without MPS has ended.
var errBegun = errors.New("a job on it began without MPS")

// serveJobs makes the jobs that begin clients of a daemon, which it may start, and reports whether all jobs are
// clients. The daemon is the one that has clients already, or else that of the only user; for jobs of several users
// none is started. A daemon is started only for a job that begins, since no other job can become a client, and only if
// mayStart is set: it is false if another user's daemon could not be ended. The error says why jobs take turns though
// they could run at once. After any error but errBegun, tasks are told of no daemon.
func (m *Manager) serveJobs(
	ctx context.Context,
	g *gpu,
	gpu int,
	jobs []node.Run,
	mayStart bool,
) (fills bool, err error) {
	users, uid := usersOf(jobs), jobs[0].UID
	if g.currentFill.UID != nil && slices.Contains(users, *g.currentFill.UID) {
		uid = *g.currentFill.UID
	} else if len(users) > 1 {
		return false, m.removeFill(g, gpu)
	}
	d, err := m.daemon(gpu, uid)
	if err != nil {
		return false, errors.Join(err, m.removeFill(g, gpu))
	}
	if g.isBackedOff(m.time()) {
		return false, errors.Join(g.lastErr, m.removeFill(g, gpu))
	}
	err = d.ping(ctx)
	begins := func(job node.Run) bool { return g.hasNotBegun(job, m.time()) }
	if err != nil && !errors.Is(err, errNoAnswer) {
		// The clients of the earlier daemon ended with it.
		err = m.removeFill(g, gpu)
		switch {
		case err != nil || len(users) > 1:
			return false, err
		case !mayStart || !slices.ContainsFunc(jobs, begins):
			return false, errBegun
		}
		err = m.start(ctx, g, d)
	}
	if errors.Is(err, errNoAnswer) {
		return false, errors.Join(g.backOff(m.time(), err), m.removeFill(g, gpu))
	}
	if err != nil {
		return false, errors.Join(err, m.removeFill(g, gpu))
	}
	g.backoff = 0
	var clients []node.Run
	for _, job := range jobs {
		if job.UID == uid && (g.currentFill.Serves(job) || begins(job)) {
			clients = append(clients, job)
		}
	}
	if err := m.writeFill(g, d, clients); err != nil || len(users) > 1 {
		return false, err
	}
	if len(clients) < len(jobs) {
		return false, errBegun
	}
	return true, nil
}

// maxStampAge is the largest age of a stamp at which its prolog is assumed to be waiting for the broker still, so that
// its job has not begun. The prolog waits for twelve seconds.
const maxStampAge = 10 * time.Second

// hasNotBegun reports whether a job has not begun yet, so that its first task will see what is written about it now and
// the job can become an MPS client as a whole. A job that the last Serve was given counts as begun, also if this is a
// later run of it and the epilog in between did not happen. In doubt it is false: at the first call of Serve all jobs
// may have begun before this manager.
func (g *gpu) hasNotBegun(job node.Run, now time.Time) bool {
	return g.wasServed && !job.Begun && now.Sub(time.Unix(0, job.Stamped)) < maxStampAge &&
		!slices.ContainsFunc(g.lastJobs, func(was node.Run) bool { return was.Job == job.Job && was.UID == job.UID })
}

// writeFill tells the tasks of these jobs, by the fill, to be clients of a daemon; without such jobs it removes the
// fill. A job is a client from its first task to its last, so this stays written for as long as the daemon lives,
// however the GPU is shared.
func (m *Manager) writeFill(g *gpu, d daemon, clients []node.Run) error {
	if len(clients) == 0 {
		return m.removeFill(g, d.gpu)
	}
	fill := m.fillOf(d)
	fill.Jobs = clients
	if err := fill.Write(m.Dir); err != nil {
		return errors.Join(err, m.removeFill(g, d.gpu))
	}
	g.currentFill = fill
	return nil
}

// restoreFill finds out which jobs are clients of a daemon that an earlier manager has started: from the fill itself if
// that manager died, or from the note that it left at its end (node.Withdraw). If there is neither, no job is a client.
// If one cannot be read the jobs take turns, which is slower but never wrong.
func (m *Manager) restoreFill(g *gpu, gpu int) error {
	said, err := node.ReadFill(m.Dir, gpu)
	if errors.Is(err, fs.ErrNotExist) {
		said, err = node.Withdrawn(m.Dir, gpu, m.time())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errors.Join(fmt.Errorf("which jobs are clients of MPS: %w: they take turns", err), m.removeFill(g, gpu))
	}
	g.currentFill = said
	return nil
}

// isBackedOff reports whether the GPU's daemon is not to be asked now, since it did not answer lately.
func (g *gpu) isBackedOff(now time.Time) bool { return g.backoff > 0 && now.Before(g.retryAt) }

// backOff sets when a daemon that did not answer is asked again, and returns an error that says so.
func (g *gpu) backOff(now time.Time, why error) error {
	g.backoff = min(max(minBackoff, 2*g.backoff), maxBackoff)
	g.retryAt = now.Add(g.backoff)
	g.lastErr = fmt.Errorf("%w; it is asked again at %s", why, g.retryAt.Format(time.TimeOnly))
	return g.lastErr
}

// start starts the daemon, unless the GPU's daemons were started too often lately (countStart). Processes of an earlier
// daemon of the same user are killed first, since a daemon that does not answer cannot be used.
func (m *Manager) start(ctx context.Context, g *gpu, d daemon) error {
	if err := g.countStart(m.time(), m.Dir); err != nil {
		return err
	}
	if err := d.kill(ctx); err != nil { // left by the last manager: a daemon that does not answer cannot be used
		return err
	}
	return d.start(ctx)
}

// countStart counts a start that is about to be made, and returns an error, without counting it, if there were too
// many. A daemon that dies again and again would take its clients' jobs with it each time.
func (g *gpu) countStart(now time.Time, dir string) error {
	recent := slices.DeleteFunc(g.starts, func(at time.Time) bool { return now.Sub(at) >= startsPer })
	if len(recent) >= maxStarts {
		return fmt.Errorf("its daemon was started %d times in %v: see its log in %s", len(recent), startsPer, dir)
	}
	g.starts = append(recent, now)
	return nil
}

// fillOf returns the environment that makes the tasks of the user's jobs clients of the daemon, for each class. Jobs of
// class Low get a lower priority and a part of the GPU's threads, so that the important job keeps most of its speed.
func (m *Manager) fillOf(d daemon) node.Fill {
	threads := m.LowThreads
	if threads == 0 {
		threads = LowThreads
	}
	settings := func(priority string, more ...string) node.Settings {
		env := map[string]string{"CUDA_MPS_PIPE_DIRECTORY": d.pipeDir(), "CUDA_MPS_LOG_DIRECTORY": d.logDir(),
			"CUDA_MPS_CLIENT_PRIORITY": priority}
		for _, percent := range more {
			env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = percent
		}
		return node.Settings{Env: env}
	}
	return node.Fill{V: node.FillVersion, GPU: d.gpu, UID: &d.uid, High: settings("0"),
		Low: settings("1", strconv.Itoa(threads))}
}

// removeFill removes the fill of the GPU, the file by which tasks learn that they are to be clients of an MPS daemon.
// It is called when the jobs on the GPU are to take turns. Tasks that are clients go on as such, but their jobs are no
// longer treated as clients: a job counts as one only if all of its tasks are.
func (m *Manager) removeFill(g *gpu, gpu int) error {
	g.currentFill = node.Fill{}
	err := os.Remove(node.FillPath(m.Dir, gpu))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// endOthers ends the GPU's daemons whose user is not among these, the users of its jobs.
func (m *Manager) endOthers(ctx context.Context, gpu int, users []int) error {
	var all error
	for _, d := range m.startedDaemons() {
		if d.gpu == gpu && !slices.Contains(users, d.uid) {
			all = errors.Join(all, m.endDaemon(ctx, d))
		}
	}
	return all
}

// endDaemon ends a daemon. It removes the fill of the daemon's user first, so that no task is told of a daemon that has
// ended. A daemon that still answers takes its last start off the count, since only those that die are to be limited.
// One that did not answer lately is killed without being asked to quit; if it still lived, the next daemon, which may
// answer, is asked at once. The lock of the GPU is held.
func (m *Manager) endDaemon(ctx context.Context, d daemon) error {
	g := m.gpuState(d.gpu)
	if f, err := node.ReadFill(m.Dir, d.gpu); err == nil && f.UID != nil && *f.UID == d.uid {
		if err := m.removeFill(g, d.gpu); err != nil {
			return err
		}
	}
	silent := g.isBackedOff(m.time())
	if !silent && len(g.starts) > 0 && d.ping(ctx) == nil {
		g.starts = g.starts[:len(g.starts)-1] // only daemons that die are counted
	}
	if !silent { // one that does not answer would not obey either
		d.quit(ctx)
	}
	lived := len(d.processes()) > 0
	if err := d.end(ctx); err != nil {
		return fmt.Errorf("end the MPS daemon of GPU %d and user %d: %w", d.gpu, d.uid, err)
	}
	if silent && lived {
		g.backoff = 0 // the next daemon is another one
	}
	return nil
}

// Retire makes these jobs take turns and starts no daemon for them. It ends a daemon whose user has no job on the GPU.
// A daemon that an earlier manager started for jobs that still run is left, since they would end with it; the error
// says so. It is for a node that is not configured to share GPUs by MPS, and is repeated like Serve.
func (m *Manager) Retire(ctx context.Context, gpu int, jobs []node.Run) error {
	g := m.gpuState(gpu)
	g.mu.Lock()
	defer g.mu.Unlock()
	users := usersOf(jobs)
	err := errors.Join(m.removeFill(g, gpu), m.endOthers(ctx, gpu, users))
	for _, d := range m.startedDaemons() {
		if d.gpu == gpu && slices.Contains(users, d.uid) && len(d.processes()) > 0 {
			err = errors.Join(err, fmt.Errorf("the MPS daemon of user %d is left until his jobs have ended", d.uid))
		}
	}
	return err
}

// Stop ends the daemons whose user has no job on their GPU, judged by the node's stamps; if a stamp cannot be read it
// ends none. Other daemons are left, since their jobs would end with them, and the error names them.
func (m *Manager) Stop(ctx context.Context) error {
	var all error
	for _, d := range m.startedDaemons() {
		all = errors.Join(all, m.stop(ctx, d))
	}
	return all
}

// stop ends a daemon, unless its user has a job on the GPU, which would end with it, or the stamps cannot be read. The
// error says why it was left.
func (m *Manager) stop(ctx context.Context, d daemon) error {
	g := m.gpuState(d.gpu)
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
	return m.endDaemon(ctx, d)
}

// startedDaemons returns the daemons that a manager of this folder has started and not ended, whether they live or not.
// Each has its folder until it is ended, so a new manager finds those of an earlier one.
func (m *Manager) startedDaemons() []daemon {
	paths, _ := filepath.Glob(filepath.Join(m.Dir, "mps-*-*")) // the pattern is well formed, so there is no error
	var all []daemon
	for _, path := range paths {
		words := strings.Split(filepath.Base(path), "-")
		// A log folder has a fourth word.
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

// daemon returns the daemon of a GPU and a user, whether it runs or not. With ErrNoProgram it is returned all the same:
// its processes can still be found and killed.
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
