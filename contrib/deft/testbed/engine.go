package testbed

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
)

// event is a planned action; of those at the same time, the one planned first happens first.
type event struct {
	at    time.Duration
	order int
	do    func()
}

// events is a heap of events by time and order.
type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, k int) { e[i], e[k] = e[k], e[i] }
func (e events) Less(i, k int) bool {
	return e[i].at < e[k].at || e[i].at == e[k].at && e[i].order < e[k].order
}
func (e *events) Push(x any) { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// engine is one simulated run.
type engine struct {
	Config
	now     time.Duration
	planned events
	order   int
	device  device
	jobs    []*job
	arbiter *turns.Arbiter
	tick    time.Duration // the earliest planned tick of the arbiter; 0: none
	state   *turns.State  // of the arbiter when the first job had finished
	high    int           // how many High jobs have a step open
}

// device executes kernels: submit gives it a job's work and calls back when that is done.
type device interface {
	submit(j *job, work time.Duration, done func())
}

// run simulates the experiment.
func run(c Config) (Result, error) {
	e := &engine{Config: c}
	switch c.Mode {
	case Slicing:
		e.device = &sliced{engine: e}
	case Fill:
		e.device = &mpsDevice{engine: e}
	default:
		e.device = &queue{engine: e}
	}
	if c.Mode == Turns || c.Mode == LookAhead {
		e.arbiter = turns.New(*c.Rules)
	}
	for i, client := range c.Clients {
		e.start(i, client)
	}
	for done := 0; e.planned.Len() > 0; done++ {
		if done == mostEvents {
			return Result{}, fmt.Errorf("more than %d events: want a shorter duration or fewer kernels", mostEvents)
		}
		next := heap.Pop(&e.planned).(event)
		e.now = next.at
		next.do()
	}
	return e.result(), nil
}

func (e *engine) result() Result {
	var r Result
	for _, j := range e.jobs {
		r.Clients = append(r.Clients, Outcome{Name: j.Name, Steps: j.steps})
	}
	r.State = e.state
	return r
}

// after plans an action.
func (e *engine) after(d time.Duration, do func()) {
	e.order++
	heap.Push(&e.planned, event{at: e.now + d, order: e.order, do: do})
}

// start makes a client's job and plans its first step. Each client has random numbers of its own, so that one more
// client does not change the others' steps.
func (e *engine) start(i int, client Client) {
	j := &job{engine: e, Client: client, id: turns.Client(i + 1), random: rand.New(rand.NewPCG(e.Seed+uint64(i), 1))}
	e.jobs = append(e.jobs, j)
	if e.arbiter != nil {
		e.tell(turns.Event{Kind: turns.Join, Client: j.id, Class: j.Class, Job: i + 1})
	}
	e.after(j.Start, j.begin)
}

// over reports whether the job begins no further step.
func (e *engine) over(j *job) bool {
	return e.now >= e.Duration && len(j.steps) >= e.LeastSteps
}

// job is a running client.
type job struct {
	*engine
	Client
	id          turns.Client
	random      *rand.Rand
	steps       []Step
	step        Step    // the open step
	longer      float64 // the factor on the length of the open step, from the jitter
	left        int     // kernels left in the open step
	whenResumed func()  // what it does when it may go on; nil: it is not held back

	turn turn
}

// jittered returns a random factor between 1−Jitter and 1+Jitter.
func (j *job) jittered() float64 {
	return 1 - j.Jitter + float64(2*j.Jitter*j.random.Float64())
}

func times(d time.Duration, by float64) time.Duration {
	return time.Duration(float64(d) * by)
}

// begin begins a step, if the job is not over; with an arbiter it asks for a slice first.
func (j *job) begin() {
	if j.over(j) {
		j.quit()
		return
	}
	j.step = Step{Start: j.now}
	j.longer = j.jittered()
	j.left = j.Kernels
	if j.Class == share.High {
		j.high++
	}
	if j.arbiter != nil {
		j.acquire(j.run)
		return
	}
	j.run()
}

// run begins to use the GPU.
func (j *job) run() {
	j.step.Run = j.now
	j.piece()
}

// pieces is how many parts a step has if the job waits for its host in between or can be frozen.
const pieces = 10

// batch returns how many kernels the job queues before it waits for them.
func (j *job) batch() int {
	n := j.Kernels
	if j.Host > 0 || j.arbiter != nil {
		n = max(1, j.Kernels/pieces)
	}
	if j.Every > 0 {
		n = min(n, j.Every)
	}
	return min(n, j.left)
}

// piece submits the next kernels, unless the job is frozen or, in mode Kernels, a High job has a step open.
func (j *job) piece() {
	if j.turn.frozen || j.Mode == Kernels && j.Class == share.Low && j.high > 0 {
		j.whenResumed = j.piece
		return
	}
	n := j.batch()
	took, pause := times(time.Duration(n)*j.Kernel, j.longer), j.pause(n)
	if j.Mode == Fill { // its measured speeds are those of whole steps
		took, pause = took+pause, 0
	}
	j.device.submit(j, took, func() { j.after(pause, func() { j.done(n) }) })
}

// pause returns how long the job gives the GPU no work after n kernels. With a bound on its queue the job pays for each
// wait, too.
func (j *job) pause(n int) time.Duration {
	host := times(j.Host, float64(j.longer*float64(n))/float64(j.Kernels))
	if j.Every > 0 {
		host += j.Sync
	}
	return host
}

// done counts n finished kernels. After the last one the step ends, and the next begins after the gap.
func (j *job) done(n int) {
	j.left -= n
	if j.left > 0 {
		j.piece()
		return
	}
	j.step.End = j.now
	j.steps = append(j.steps, j.step)
	if j.Class == share.High {
		j.high--
		j.resume()
	}
	gap := times(j.Gap, j.jittered())
	if j.arbiter != nil {
		j.stepEnded(gap)
	}
	j.after(gap, j.begin)
}

// resume lets the jobs go on that waited for High jobs, in their order.
func (e *engine) resume() {
	if e.Mode != Kernels || e.high > 0 {
		return
	}
	for _, j := range e.jobs {
		j.goOn()
	}
}

// goOn lets the job go on where it was held back; if it was not, nothing happens.
func (j *job) goOn() {
	if then := j.whenResumed; then != nil {
		j.whenResumed = nil
		then()
	}
}
