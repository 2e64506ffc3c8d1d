package broker

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/node"
	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// Filler lets the given jobs of a GPU run at the same time, if it can, and reports whether they do. It is called again
// and again.
type Filler func(ctx context.Context, gpu int, jobs []node.Run) (fills bool, err error)

// lookEvery is how often stamps are read if nothing says that one has changed.
const lookEvery = 15 * time.Second

// fillLease is the lease of a client that has the GPU together with others.
const fillLease = 10 * time.Second

// pendingFills holds, for each GPU whose Filler is called after a look, a channel that is closed when that is done.
type pendingFills map[int]<-chan struct{}

// wait waits until the Fillers of these GPUs have answered, or the context ends. If gpus is empty or names a GPU that
// is not the broker's, it waits for all. Waiting for too many GPUs only takes longer, while missing one would let a job
// begin before it is known whether its tasks are MPS clients.
func (l pendingFills) wait(ctx context.Context, gpus []int, broker []*gpu) {
	all := len(gpus) == 0 || slices.ContainsFunc(gpus, func(index int) bool {
		return !slices.ContainsFunc(broker, func(g *gpu) bool { return g.index == index })
	})
	for index, asked := range l {
		if !all && !slices.Contains(gpus, index) {
			continue
		}
		select {
		case <-asked:
		case <-ctx.Done():
			return
		}
	}
}

// look reads the stamps to see which jobs share which GPU, drops clients whose job has lost its stamp or got another,
// and asks each GPU's Filler how its jobs are shared. A GPU with an unreadable stamp stays as it is: nothing that
// serves jobs is ended because the broker could not read a stamp. It does not wait for the Fillers, but returns
// what to wait for; nil if the stamps could not be listed. Only one look runs at a time.
func (b *Broker) look() pendingFills {
	clients := b.clients() // before reading stamps: a client that connects later has read a newer stamp
	seen, err := b.readStamps()
	if b.problems.changed(anyGPU, err) {
		b.Log.Error("look at stamps: GPUs are shared as before", "error", err)
	}
	if err != nil {
		for _, g := range b.gpus {
			g.overlook(nil)
		}
		return nil
	}
	for _, c := range clients {
		if why := seen.ends(c.stamp); why != "" {
			c.gpu.drop(c, why)
		}
	}
	asked := pendingFills{}
	for _, g := range b.gpus {
		g.notice(seen)
		switch {
		case b.Fill == nil:
		case seen.hides(g.index):
			g.overlook(seen.runs[g.index])
		default:
			asked[g.index] = g.inquire(seen.runs[g.index])
		}
	}
	return asked
}

// errHidden is why a GPU stops running all jobs at once when one of its stamps cannot be read.
var errHidden = errors.New("the stamp of a job on it cannot be read, and another has come")

// overlook records that the stamps were read but this GPU's Filler could not be asked, since a stamp could not be read.
// jobs are those known to be on the GPU all the same. Their prologs do not wait for the Filler, so a job that came
// since the last inquiry may begin before it is told of MPS, and may be no MPS client. The GPU then stops running all
// jobs at once, since that needs all of them to be clients.
func (g *gpu) overlook(jobs []node.Run) {
	g.mu.Lock()
	g.overlooked = true
	fills := g.fills
	stranger := slices.ContainsFunc(jobs, func(job node.Run) bool { return !slices.ContainsFunc(g.told, job.Is) })
	g.mu.Unlock()
	if fills && stranger {
		g.fill(false, errHidden)
	}
}

// inquiry is the next question to a GPU's Filler: which jobs share the GPU, and the channels to close when it has
// answered.
type inquiry struct {
	jobs  []node.Run
	asked []chan struct{}
}

// inquire has the Filler asked how these jobs share the GPU, and returns a channel that is closed when it has answered.
// The Filler may take long, so it is asked in a goroutine of the GPU: one that hangs delays no other GPU, and of
// several inquiries that come meanwhile only the last is asked.
//
// It also sets Begun for each job, since a job that began without MPS cannot become an MPS client. A known job keeps
// its Begun. A new one may have begun if the Filler could not be asked when it came (overlook), since its prolog did
// not wait then.
func (g *gpu) inquire(jobs []node.Run) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next == nil {
		g.next = &inquiry{}
	}
	for i, job := range jobs {
		if known := slices.IndexFunc(g.told, job.Is); known >= 0 {
			jobs[i].Begun = g.told[known].Begun
		} else {
			jobs[i].Begun = g.overlooked
		}
	}
	g.told, g.overlooked = jobs, false
	asked := make(chan struct{})
	g.next.jobs, g.next.asked = jobs, append(g.next.asked, asked)
	if !g.asking {
		g.asking = true
		g.broker.begin(g.ask)
	}
	return asked
}

// ask calls the Filler until no inquiry is left, then ends. While it runs, asking is set, so that there is one call at
// a time for a GPU.
func (g *gpu) ask(ctx context.Context) {
	for {
		g.mu.Lock()
		next := g.next
		g.next, g.asking = nil, next != nil
		g.mu.Unlock()
		if next == nil {
			return
		}
		fills, err := g.broker.Fill(ctx, g.index, next.jobs)
		g.fill(fills && err == nil, err)
		for _, asked := range next.asked {
			close(asked)
		}
	}
}

// clients returns the clients of all GPUs at this moment.
func (b *Broker) clients() (all []*client) {
	for _, g := range b.gpus {
		g.mu.Lock()
		all = slices.AppendSeq(all, maps.Values(g.clients))
		g.mu.Unlock()
	}
	return all
}

// drop ends a client whose job's stamp no longer allows it, and tells it why. The GPU is taken from it when its
// connection is seen to have ended. A client that is the broker itself (silentClient) is removed at once, and its job
// goes on.
func (g *gpu) drop(c *client, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.clients[c.id] == nil {
		return // it has left meanwhile
	}
	if c.silent != nil {
		g.removeSilentClient(g.jobs[c.stamp.Job])
		delete(g.jobs, c.stamp.Job)
		return
	}
	g.dropped++
	g.broker.Log.Info("dropped a client", "gpu", g.index, "job", c.stamp.Job, "client", c.id, "since", why)
	c.tell(wire.Message{Type: wire.Error, Code: wire.NotSharing, Text: why})
	c.conn.Close()
}

// keepLooking calls look every lookEvery, and whenever it is requested because stamps have changed, until the context
// ends. As the only caller besides Serve's first one, it keeps looks from overlapping.
func (b *Broker) keepLooking(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			b.look()
		case answer := <-b.lookRequests:
			answer <- b.look()
		}
	}
}

// lookNow has the stamps read and waits until the Fillers of these GPUs have answered; none: all GPUs. A prolog waits
// for this, so that its job's tasks find out how they share the GPU. If the context ends first, it returns and the look
// is carried out all the same.
func (b *Broker) lookNow(ctx context.Context, gpus []int) {
	answer := make(chan pendingFills, 1)
	select {
	case b.lookRequests <- answer:
	case <-ctx.Done():
		return
	}
	select {
	case l := <-answer:
		l.wait(ctx, gpus, b.gpus)
	case <-ctx.Done():
	}
}

// fill sets whether all clients of the GPU use it at once from now on, or take turns. If turns begin, the clients that
// use it together are told to yield; until they end their steps, the GPU time-slices them beside the client with the
// slice. why is the reason for taking turns where the jobs should run at once; nil: there is no such reason. The broker
// stops silent jobs only while others take turns, so it begins or ends that here.
func (g *gpu) fill(fills bool, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.whyNot
	if g.whyNot = ""; why != nil {
		g.whyNot = why.Error()
	}
	if g.whyNot != "" && g.whyNot != was { // logged once, not at every inquiry
		g.broker.Log.Warn("fill", "gpu", g.index, "error", why)
	}
	if g.fills == fills {
		return
	}
	g.fills = fills
	g.reconcileSilent()
	g.broker.Log.Info("shared", "gpu", g.index, "mode", g.mode())
	for _, c := range g.clients {
		if c.fills && !fills && c.state == wire.Holding {
			c.become(wire.Yielding)
			c.tell(wire.Message{Type: wire.Yield, Seq: c.seq, Grace: turns.DefaultQuantum.Microseconds()})
		}
	}
}

// mode returns how the GPU is shared now, as the status and the log name it.
func (g *gpu) mode() string {
	if g.fills {
		return "fill"
	}
	return "turns"
}

// Tell tells the broker of a folder that stamps have changed. It waits until the broker has read them and knows how
// these GPUs are shared; none: all GPUs. A prolog calls it so that its job does not begin before that.
func Tell(ctx context.Context, dir string, gpus ...int) error {
	query := url.Values{}
	for _, index := range gpus {
		query.Add("gpu", strconv.Itoa(index))
	}
	_, err := adminRequest(ctx, dir, http.MethodPost, "/look?"+query.Encode())
	return err
}

// told returns the GPUs for which the request wants to wait; nil, which means all, if one is not a number. Waiting for
// all only takes longer.
func told(r *http.Request) (gpus []int) {
	for _, text := range r.URL.Query()["gpu"] {
		index, err := strconv.Atoi(text)
		if err != nil {
			return nil
		}
		gpus = append(gpus, index)
	}
	return gpus
}
