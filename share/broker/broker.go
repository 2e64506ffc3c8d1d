// Package broker says on a node who may use a GPU now, where several jobs share one. There is a socket for each GPU,
// and an Arbiter of package turns behind it; this package knows sockets, processes and the clock, and decides nothing
// about turns. Who a client is the kernel says, and what it may the daemon, by the stamp that the prolog wrote; nothing
// that a client says of itself gives it anything. Without a broker jobs run on, and the GPU slices their time.
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

// Config is what a broker needs to know.
type Config struct {
	RunDir string // node.Folder
	GPUs   []int  // indexes on the node
	Rules  turns.Rules
	// Identify says which job a process of a user belongs to; nil: Proc does.
	Identify func(pid, uid int) (int, error)
	Proc     Proc
	Limits   Limits
	// SilentAfter is for how long a job has had no client until it is stopped while others have their turns; 0: never.
	SilentAfter time.Duration
	Release     string
	Log         *slog.Logger
	// Fill has jobs of a GPU run at the same time; nil: they take turns.
	Fill Filler
	// Report tells the daemon of jobs that do not give their turns back; nil: nobody does.
	Report Reporter
	// Ready is called when all sockets are there; nil: nobody wants to know.
	Ready func()
}

// Limits bound what clients can make the broker keep.
type Limits struct {
	Clients, PerUser, PerJob int
	Hello                    time.Duration // until which a connection says who it is
	Messages                 int           // of a job in a second; 0: as by default
	Hellos                   int           // connections of a user that are heard in a second; 0: as by default
}

// DefaultLimits are for a node with a GPU for each of some dozen jobs.
func DefaultLimits() Limits {
	return Limits{Clients: 1024, PerUser: 256, PerJob: 64, Hello: 5 * time.Second, Messages: 4000, Hellos: 200}
}

// Broker is that of one node.
type Broker struct {
	Config
	start time.Time
	halts halts
	gpus  []*gpu
	next  atomic.Uint64
	crowd crowd
	says  saying             // of stamps; whoever looks has it
	said  chan chan<- looked // that stamps have changed
	// begin runs something beside the broker, which waits for it when it ends. The context ends with the broker.
	begin func(func(context.Context))

	offences chan offence // that are to be reported
}

// AdminPath is where a broker tells its status.
func AdminPath(dir string) string { return filepath.Join(dir, "broker.sock") }

func frozenDir(dir string) string { return filepath.Join(dir, "frozen") }

// New is a broker that does nothing yet.
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
	b := &Broker{Config: c, start: time.Now(), says: saying{}, said: make(chan chan<- looked),
		offences: make(chan offence, mostQueued),
		halts:    halts{freezer: &freezer{proc: c.Proc, dir: frozenDir(c.RunDir)}, log: c.Log},
		crowd:    crowd{limits: c.Limits, users: map[int]*crew{}, jobs: map[int]*crew{}, refused: map[string]int{}}}
	for _, index := range c.GPUs {
		b.gpus = append(b.gpus, newGPU(b, index))
	}
	return b
}

// ErrThaws is that a broker runs whose frozen jobs are its own business: a job that it has stopped would go on beside
// the one whose turn it is.
var ErrThaws = errors.New("a broker runs there and thaws by itself what it has stopped: stop it first")

// Thaw lets all jobs go on that a broker has frozen which is no more, and says which. What that told tasks of MPS is
// taken back, too.
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

func thaw(dir string, proc Proc) ([]int, error) {
	jobs, err := (&freezer{proc: proc, dir: frozenDir(dir)}).thawAll()
	return jobs, errors.Join(err, node.Withdraw(dir))
}

// ErrRunning is that a broker runs there already.
var ErrRunning = errors.New("another broker runs there: stop it first")

// Serve is the broker, until the context ends. Then nothing is frozen, and clients run on by themselves.
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
	b.begin = func(do func(context.Context)) { running.Go(func() { do(ctx) }) }
	b.halts.begin = b.begin
	first := b.look() // who was there before the broker is known from then on
	for _, job := range b.stillFrozen() {
		b.halts.goOn(job)
	}
	for i, g := range b.gpus {
		running.Go(func() {
			first.wait(ctx, []int{g.index}, b.gpus)
			g.accept(ctx, listeners[i], &running)
		})
	}
	running.Go(func() { b.answer(ctx, listeners[len(b.gpus)]) })
	running.Go(func() { b.keepReporting(ctx) })
	running.Go(func() { b.keepLooking(ctx) })
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

func (b *Broker) thawAll() {
	jobs, err := thaw(b.RunDir, b.Proc)
	if err != nil {
		b.Log.Error("thaw", "error", err)
	}
	if len(jobs) > 0 {
		b.Log.Warn("thawed what was frozen", "jobs", jobs)
	}
}

// frozenPath is where it stands what was stopped of a job.
func (b *Broker) frozenPath(job int) string { return (&freezer{dir: frozenDir(b.RunDir)}).path(job) }

// stillFrozen are the jobs that the last broker has stopped and this one could not thaw.
func (b *Broker) stillFrozen() []int {
	jobs, _ := (&freezer{dir: frozenDir(b.RunDir)}).kept() // thawAll has said what is wrong
	return jobs
}

// lockFolder makes the folder where it is missing, and holds it against a second broker until the file is closed. A
// folder in which others may write is refused: what is believed lies there.
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

func lockPath(dir string) string { return filepath.Join(dir, "broker.lock") }

// holdLock holds a folder's lock until the file is closed.
func holdLock(file *os.File) error {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrRunning
	}
	return err
}

// listen makes the sockets: one for each GPU, open to all, and behind them that of the administrator.
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

// listenAt listens in the place of a broker that is dead; the lock says that it is.
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

func closeAll(listeners []*net.UnixListener) (err error) {
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}

// crowd counts connections.
type crowd struct {
	limits Limits

	mu      sync.Mutex
	total   int
	users   map[int]*crew
	jobs    map[int]*crew
	refused map[string]int
}

// crew are the connections of a user or a job.
type crew struct {
	size int
	pace *pace // of all of them together
}

// crewOf is that of a user or a job. Those that have just left are remembered until their pace is paid: who comes back
// is no other.
func crewOf(crews map[int]*crew, id, perSecond int, now time.Time) *crew {
	maps.DeleteFunc(crews, func(_ int, left *crew) bool { return left.size == 0 && left.pace.paid(now) })
	if crews[id] == nil {
		crews[id] = &crew{pace: paceOf(perSecond)}
	}
	return crews[id]
}

// enter takes a connection of a user, and says at which pace those are heard, or why not. That is before anybody knows
// of which job it is: to find that out costs more than to say HELLO.
func (c *crowd) enter(uid int, now time.Time) (*pace, *wire.Bad) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total >= c.limits.Clients {
		return nil, &wire.Bad{Code: wire.Busy, Text: fmt.Sprintf("there are %d clients: try again later", c.total)}
	}
	of := crewOf(c.users, uid, c.limits.Hellos, now)
	if of.size >= c.limits.PerUser {
		return nil, &wire.Bad{Code: wire.Busy, Text: fmt.Sprintf("user %d has %d clients: want fewer", uid, of.size)}
	}
	c.total++
	of.size++
	return of.pace, nil
}

// enterJob takes it as one of a job, and says how fast that is read.
func (c *crowd) enterJob(job int, now time.Time) (*pace, *wire.Bad) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := crewOf(c.jobs, job, c.limits.Messages, now)
	if of.size >= c.limits.PerJob {
		return nil, &wire.Bad{Code: wire.Busy, Text: fmt.Sprintf("job %d has %d clients: want fewer", job, of.size)}
	}
	of.size++
	return of.pace, nil
}

func (c *crowd) leaveJob(job int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs[job].size--
}

func (c *crowd) leave(uid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	c.users[uid].size--
}

func (c *crowd) refuse(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[code]++
}
