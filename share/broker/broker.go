// Package broker decides on a node which job may use a shared GPU now. There is a socket for each GPU with an Arbiter
// of package turns behind it; this package knows sockets, processes and the clock, and decides nothing about turns. The
// kernel says which job a client is (pidfd, cgroup), and the stamp written by the prolog says what the daemon allows
// it; a client gains nothing by what it says of itself. Without a broker jobs run on, and the GPU time-slices them.
//
//   - From a request to its grant everything happens under the GPU's lock in the goroutine that read the request, and
//     messages are written without waiting; a client that does not read is dropped.
//   - Stopping and thawing read /proc and write cgroups, so each job has a goroutine for that (halt.go). Meanwhile the
//     arbiter's clock stands still, for maxClockHold at most, so no job is granted what another still uses.
//   - What is stopped is written down before it is stopped, so that the next broker can thaw it. What was stopped by
//     others is neither recorded nor thawed.
//   - A client that has outlived its job's stamp is dropped.
package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/synergy-slurmd/synergy-slurmd/share/node"
	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// Config configures a broker.
type Config struct {
	RunDir string // node.Folder
	GPUs   []int  // indices on the node
	Rules  turns.Rules
	// Identify returns the job of a process of the given user; nil: Proc.Job.
	Identify func(pid, uid int) (int, error)
	Proc     Proc
	Limits   Limits
	// SilentAfter is how long a job may have no client before it is stopped during the slices of others; 0: such jobs
	// are never stopped.
	SilentAfter time.Duration
	Release     string
	Log         *slog.Logger
	// Fill tries to let all jobs of a GPU run at once; nil: they take turns.
	Fill Filler
	// Report tells the daemon about jobs that do not yield; nil: it is not told.
	Report Reporter
	// Ready is called when all sockets exist; may be nil.
	Ready func()
}

// Limits bound the resources that clients can make the broker use.
type Limits struct {
	// Most connections in all, of one user, and of one job.
	Clients, PerUser, PerJob int
	Hello                    time.Duration // time within which a connection must send HELLO
	Messages                 int           // of a job per second; 0: the default
	Hellos                   int           // connections of a user that are read per second; 0: the default
}

// DefaultLimits returns limits for a node with a GPU for each of some dozen jobs.
func DefaultLimits() Limits {
	return Limits{Clients: 1024, PerUser: 256, PerJob: 64, Hello: 5 * time.Second, Messages: 4000, Hellos: 200}
}

// Broker is the broker of one node.
type Broker struct {
	Config
	start            time.Time
	freezeController freezeController
	gpus             []*gpu
	next             atomic.Uint64 // the last client ID that was given
	admission        admission
	problems         problemLog               // bad stamps that were logged; used by refresh alone, so without a lock
	refreshRequests  chan chan<- pendingFills // requests to read the stamps now, since one has changed
	// spawn runs a function in a goroutine for which Serve waits. The context ends with the broker.
	spawn func(func(context.Context))

	offences chan offence // to be reported
}

// AdminPath returns the path of the socket on which a broker tells its status.
func AdminPath(dir string) string { return filepath.Join(dir, "broker.sock") }

// frozenDir returns the folder with a file for each stopped job, from which the next broker knows what to thaw.
func frozenDir(dir string) string { return filepath.Join(dir, "frozen") }

// New returns a broker that is not serving yet. It fills in defaults for what the configuration leaves unset.
func New(c Config) *Broker {
	if c.Identify == nil {
		c.Identify = c.Proc.Job
	}
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits()
	}
	if c.Limits.Messages <= 0 {
		c.Limits.Messages = DefaultLimits().Messages
	}
	if c.Limits.Hellos <= 0 {
		c.Limits.Hellos = DefaultLimits().Hellos
	}
	b := &Broker{Config: c, start: time.Now(), problems: problemLog{}, refreshRequests: make(chan chan<- pendingFills),
		offences:         make(chan offence, mostQueued),
		freezeController: freezeController{freezer: &freezer{proc: c.Proc, dir: frozenDir(c.RunDir)}, log: c.Log},
		admission: admission{
			limits:  c.Limits,
			users:   map[int]*connCount{},
			jobs:    map[int]*connCount{},
			refused: map[string]int{},
		}}
	for _, index := range c.GPUs {
		b.gpus = append(b.gpus, newGPU(b, index))
	}
	return b
}

// ErrThaws means that a broker runs there. It thaws what it has stopped by itself; thawing for it would let a job run
// beside the one that has the slice.
var ErrThaws = errors.New("a broker runs there and thaws by itself what it has stopped: stop it first")

// Thaw lets all jobs go on that a broker that has ended had frozen, and returns them; otherwise they would stay stopped
// for ever. It also withdraws what that broker told tasks about MPS. If a broker runs in dir it returns ErrThaws.
// Without a lock file no broker has made the folder, so there is none to keep out.
func Thaw(dir string, proc Proc) ([]int, error) {
	lock, err := os.OpenFile(lockPath(dir), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return thaw(dir, proc)
	}
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := holdLock(lock); errors.Is(err, ErrRunning) {
		return nil, ErrThaws
	} else if err != nil {
		return nil, err
	}
	return thaw(dir, proc)
}

// thaw does the work of Thaw for a caller that holds the folder's lock.
func thaw(dir string, proc Proc) ([]int, error) {
	jobs, err := (&freezer{proc: proc, dir: frozenDir(dir)}).thawAll()
	return jobs, errors.Join(err, node.Withdraw(dir))
}

// ErrRunning means that another broker runs there already.
var ErrRunning = errors.New("another broker runs there: stop it first")

// Serve runs the broker until the context ends. Afterwards nothing is frozen, and clients run on by themselves. A GPU
// takes connections only after its Filler has answered for the first time, so its first clients find the mode that fits
// the jobs that are there.
func (b *Broker) Serve(ctx context.Context) error {
	lock, err := lockFolder(b.RunDir, b.Proc.Owner)
	if err != nil {
		return fmt.Errorf("start in %s: %w", b.RunDir, err)
	}
	defer lock.Close()
	b.thawAll()
	defer b.thawAll()
	listeners, err := b.listen()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	b.spawn = func(do func(context.Context)) { running.Go(func() { do(ctx) }) }
	b.freezeController.spawn = b.spawn
	first := b.refresh() // jobs that were there before the broker are known from here on
	for _, job := range b.stillFrozen() {
		b.freezeController.requestThaw(job)
	}
	for i, g := range b.gpus {
		running.Go(func() {
			first.wait(ctx, []int{g.index}, b.gpus)
			g.accept(ctx, listeners[i], &running)
		})
	}
	running.Go(func() { b.serveAdmin(ctx, listeners[len(b.gpus)]) })
	running.Go(func() { b.keepReporting(ctx) })
	running.Go(func() { b.keepRefreshing(ctx) })
	b.Log.Info("serving", "gpus", b.GPUs, "folder", b.RunDir)
	if b.Ready != nil {
		b.Ready()
	}
	<-ctx.Done()
	for _, l := range listeners {
		l.Close()
	}
	for _, g := range b.gpus {
		g.close()
	}
	running.Wait()
	return nil
}

// thawAll thaws and logs what an earlier broker or this one has frozen. It runs before serving and after it, since no
// job may stay stopped when no broker is there to thaw it. Jobs whose thaw fails stay on record (stillFrozen).
func (b *Broker) thawAll() {
	jobs, err := thaw(b.RunDir, b.Proc)
	if err != nil {
		b.Log.Error("thaw", "error", err)
	}
	if len(jobs) > 0 {
		b.Log.Warn("thawed what was frozen", "jobs", jobs)
	}
}

// frozenPath returns the path of the file that lists what was stopped of a job. Without that file nothing of it is
// stopped by us.
func (b *Broker) frozenPath(job int) string { return (&freezer{dir: frozenDir(b.RunDir)}).path(job) }

// stillFrozen returns the jobs that the last broker has stopped and this one could not thaw yet. Serve requests their
// thaw again, with retries.
func (b *Broker) stillFrozen() []int {
	jobs, _ := (&freezer{dir: frozenDir(b.RunDir)}).recordedJobs() // thawAll has logged the error
	return jobs
}

// lockFolder makes the folder if it is missing and locks it until the returned file is closed: two brokers would thaw
// what the other one has stopped. If another holds the lock, the error is ErrRunning. It refuses a folder in which
// other users may write, since the broker trusts the files in it. A folder of root is accepted besides one of owner,
// since tests run as another user.
func lockFolder(dir string, owner int) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil {
		return nil, err
	}
	if int(stat.Uid) != owner && stat.Uid != 0 || stat.Mode&0o022 != 0 {
		return nil, fmt.Errorf("want a folder of user %d's to which nobody else can write: chown and chmod it", owner)
	}
	file, err := os.OpenFile(lockPath(dir), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := holdLock(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// lockPath returns the path of the file whose lock means that a broker runs in the folder.
func lockPath(dir string) string { return filepath.Join(dir, "broker.lock") }

// holdLock takes the lock on a folder's lock file without waiting; ErrRunning if another process has it. The lock lasts
// until the file is closed or its process ends, so a broker that died leaves none.
func holdLock(file *os.File) error {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrRunning
	}
	return err
}

// listen opens the sockets in the order in which Serve uses them: one for each GPU, which all users may open since jobs
// run as any user, and last the administrator's, for root alone.
func (b *Broker) listen() ([]*net.UnixListener, error) {
	var all []*net.UnixListener
	for _, index := range b.GPUs {
		l, err := listenAt(node.SocketPath(b.RunDir, index), 0o666)
		if err != nil {
			return nil, errors.Join(err, closeAll(all))
		}
		all = append(all, l)
	}
	l, err := listenAt(AdminPath(b.RunDir), 0o600)
	if err != nil {
		return nil, errors.Join(err, closeAll(all))
	}
	return append(all, l), nil
}

// listenAt listens on a unix socket with the given mode. It removes the socket that a broker that died has left there;
// the caller holds the folder's lock, so no live broker listens on it. A file that is no socket is not ours, and is an
// error.
func listenAt(path string, mode fs.FileMode) (*net.UnixListener, error) {
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSocket == 0 {
		return nil, fmt.Errorf("listen at %s: is a file and no socket: remove it", path)
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), l.Close())
	}
	return l, nil
}

// closeAll closes the sockets that were opened before a later one failed.
func closeAll(listeners []*net.UnixListener) (err error) {
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}

// admission counts connections against the limits, so that one user or job cannot use up the broker's file descriptors
// and memory.
type admission struct {
	limits Limits

	mu      sync.Mutex
	total   int
	users   map[int]*connCount
	jobs    map[int]*connCount
	refused map[string]int // by the code that was sent
}

// connCount counts the connections of one user or one job, and has the pace at which all of them together are read.
type connCount struct {
	size int
	pace *pace // shared by all of them
}

// connCountOf returns the count of the user or job with this ID, and makes one if there is none. When its last
// connection has ended, a count is kept until its pace would be as good as new (isUnused), so that reconnecting does
// not escape the pace. Counts that are past that are dropped first, so that the map does not grow with the users of a
// year.
func connCountOf(crews map[int]*connCount, id, perSecond int, now time.Time) *connCount {
	maps.DeleteFunc(crews, func(_ int, left *connCount) bool { return left.size == 0 && left.pace.isUnused(now) })
	if crews[id] == nil {
		crews[id] = &connCount{pace: newPace(perSecond)}
	}
	return crews[id]
}

// enter counts a new connection of a user, and returns the pace at which the user's connections are read. If there are
// too many connections, it counts nothing and returns the error to send. This comes before the job is identified, since
// that costs the broker more than sending HELLO costs the client.
func (c *admission) enter(uid int, now time.Time) (*pace, *wire.Bad) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total >= c.limits.Clients {
		return nil, &wire.Bad{Code: wire.Busy, Text: fmt.Sprintf("there are %d clients: try again later", c.total)}
	}
	of := connCountOf(c.users, uid, c.limits.Hellos, now)
	if of.size >= c.limits.PerUser {
		return nil, &wire.Bad{Code: wire.Busy, Text: fmt.Sprintf("user %d has %d clients: want fewer", uid, of.size)}
	}
	c.total++
	of.size++
	return of.pace, nil
}

// enterJob counts a connection for a job, and returns the pace at which the job's messages are read. If the job has too
// many connections, it counts nothing and returns the error to send.
func (c *admission) enterJob(job int, now time.Time) (*pace, *wire.Bad) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := connCountOf(c.jobs, job, c.limits.Messages, now)
	if of.size >= c.limits.PerJob {
		return nil, &wire.Bad{Code: wire.Busy, Text: fmt.Sprintf("job %d has %d clients: want fewer", job, of.size)}
	}
	of.size++
	return of.pace, nil
}

// leaveJob undoes a successful enterJob when the connection ends.
func (c *admission) leaveJob(job int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs[job].size--
}

// leave undoes a successful enter when the connection ends.
func (c *admission) leave(uid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	c.users[uid].size--
}

// refuse counts a refused connection, for the status, by the code that it was sent.
func (c *admission) refuse(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[code]++
}
