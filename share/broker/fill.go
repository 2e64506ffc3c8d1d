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
// and again, since jobs come and go and what it has started may have ended.
type Filler func(ctx context.Context, gpu int, jobs []node.Run) (fills bool, err error)

// refreshEvery is how often stamps are read if nothing says that one has changed.
const refreshEvery = 15 * time.Second

// fillLease is the lease of a client that has the GPU together with others.
const fillLease = 10 * time.Second

// pendingFills holds, for each GPU whose Filler is called after the stamps were read, a channel that is closed when the
// Filler has answered.
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

// refresh reads the stamps to see which jobs share which GPU, drops clients whose job has lost its stamp or got
// another, and asks each GPU's Filler how its jobs are shared. A GPU with an unreadable stamp stays as it is: nothing
// that serves jobs is ended because the broker could not read a stamp. It does not wait for the Fillers, but returns
// what to wait for; nil if the stamps could not be listed. Only one refresh runs at a time.
func (b *Broker) refresh() pendingFills {
	clients := b.clients() // before reading stamps: a client that connects later has read a newer stamp
	seen, err := b.readStamps()
	if b.problems.changed(anyGPU, err) {
		b.Log.Error("look at stamps: GPUs are shared as before", "error", err)
	}
	if err != nil {
		for _, g := range b.gpus {
			g.skipFiller(nil)
		}
		return nil
	}
	for _, c := range clients {
		if why := seen.whyDropped(c.stamp); why != "" {
			c.gpu.dropClient(c, why)
		}
	}
	asked := pendingFills{}
	for _, g := range b.gpus {
		g.updateJobs(seen)
		switch {
		case b.Fill == nil:
		case seen.hides(g.index):
			g.skipFiller(seen.runs[g.index])
		default:
			asked[g.index] = g.requestFill(seen.runs[g.index])
		}
	}
	return asked
}

// errHidden is why a GPU stops running all jobs at once when one of its stamps cannot be read.
var errHidden = errors.New("the stamp of a job on it cannot be read, and another has come")

// skipFiller records that this GPU's Filler was not asked, since a stamp of a job on it, or the list of all stamps,
// could not be read. jobs are those known to be on the GPU all the same; none if the list could not be read. Their
// prologs do not wait for the Filler, so a job that came since the Filler was last asked may begin before it is told of
// MPS, and may be no MPS client. The GPU then stops running all jobs at once, since that needs all of them to be
// clients.
func (g *gpu) skipFiller(jobs []node.Run) {
	g.mu.Lock()
	g.skippedFiller = true
	fills := g.fills
	stranger := slices.ContainsFunc(jobs, func(job node.Run) bool { return !slices.ContainsFunc(g.knownRuns, job.Is) })
	g.mu.Unlock()
	if fills && stranger {
		g.setFills(false, errHidden)
	}
}

// fillRequest is the next question to a GPU's Filler: which jobs share the GPU, and the channels to close when it has
// answered.
type fillRequest struct {
	jobs    []node.Run
	waiters []chan struct{}
}

// requestFill has the Filler asked how these jobs share the GPU, and returns a channel that is closed when it has
// answered. The Filler may take long, so it is asked in a goroutine of the GPU: one that hangs delays no other GPU. Of
// several requests that come meanwhile only the last is asked, and its answer is for all.
//
// It also sets Begun for each job, since a job that began without MPS cannot become an MPS client. A known job keeps
// its Begun. A new one may have begun if the Filler could not be asked when it came (skipFiller), since its prolog did
// not wait then. From then on these jobs are the known ones.
func (g *gpu) requestFill(jobs []node.Run) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nextFill == nil {
		g.nextFill = &fillRequest{}
	}
	for i, job := range jobs {
		if known := slices.IndexFunc(g.knownRuns, job.Is); known >= 0 {
			jobs[i].Begun = g.knownRuns[known].Begun
		} else {
			jobs[i].Begun = g.skippedFiller
		}
	}
	g.knownRuns, g.skippedFiller = jobs, false
	asked := make(chan struct{})
	g.nextFill.jobs, g.nextFill.waiters = jobs, append(g.nextFill.waiters, asked)
	if !g.fillerRuns {
		g.fillerRuns = true
		g.broker.spawn(g.callFiller)
	}
	return asked
}

// callFiller calls the Filler until no request is left, then ends. While it runs, fillerRuns is set, so that there is
// one call at a time for a GPU.
func (g *gpu) callFiller(ctx context.Context) {
	for {
		g.mu.Lock()
		next := g.nextFill
		g.nextFill, g.fillerRuns = nil, next != nil
		g.mu.Unlock()
		if next == nil {
			return
		}
		fills, err := g.broker.Fill(ctx, g.index, next.jobs)
		g.setFills(fills && err == nil, err)
		for _, asked := range next.waiters {
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

// dropClient ends a client whose job's stamp no longer allows it, and tells it why. The GPU is taken from it when its
// connection is seen to have ended. A client that is the broker itself (silentClient) is removed at once, and its job
// goes on.
func (g *gpu) dropClient(c *client, why string) {
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
	c.send(wire.Message{Type: wire.Error, Code: wire.NotSharing, Text: why})
	c.conn.Close()
}

// keepRefreshing calls refresh every refreshEvery, and whenever it is requested because stamps have changed, until the
// context ends. Serve calls refresh before it starts this, and nothing else does, so that no two run at a time.
func (b *Broker) keepRefreshing(ctx context.Context) {
	ticker := time.NewTicker(refreshEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			b.refresh()
		case answer := <-b.refreshRequests:
			answer <- b.refresh()
		}
	}
}

// refreshNow has the stamps read and waits until the Fillers of these GPUs have answered; no GPUs means all. A prolog
// waits for this, so that its job's tasks find out how they share the GPU. If the context ends first, it returns and
// the stamps are read all the same.
func (b *Broker) refreshNow(ctx context.Context, gpus []int) {
	answer := make(chan pendingFills, 1)
	select {
	case b.refreshRequests <- answer:
	case <-ctx.Done():
		return
	}
	select {
	case l := <-answer:
		l.wait(ctx, gpus, b.gpus)
	case <-ctx.Done():
	}
}

// setFills sets whether all clients of the GPU use it at once from now on, or take turns. If turns begin, the clients
// that use it together are told to yield. Until they end their steps, the driver time-slices them beside the client
// that has a slice. why is the reason for taking turns where the jobs should run at once; nil if nothing is wrong. The
// broker stops silent jobs only while others take turns, so it begins or ends that here.
func (g *gpu) setFills(fills bool, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.whyTurns
	if g.whyTurns = ""; why != nil {
		g.whyTurns = why.Error()
	}
	if g.whyTurns != "" && g.whyTurns != was { // logged once, not at every request
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
			c.setState(wire.Yielding)
			c.send(wire.Message{Type: wire.Yield, Seq: c.seq, Grace: turns.DefaultQuantum.Microseconds()})
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
// these GPUs are shared; no GPUs means all. A prolog calls it so that its job does not begin before that.
func Tell(ctx context.Context, dir string, gpus ...int) error {
	query := url.Values{}
	for _, index := range gpus {
		query.Add("gpu", strconv.Itoa(index))
	}
	_, err := adminRequest(ctx, dir, http.MethodPost, "/look?"+query.Encode())
	return err
}

// namedGPUs returns the GPUs for which the request wants to wait; nil, which means all, if one is not a number. Waiting
// for all only takes longer.
func namedGPUs(r *http.Request) (gpus []int) {
	for _, text := range r.URL.Query()["gpu"] {
		index, err := strconv.Atoi(text)
		if err != nil {
			return nil
		}
		gpus = append(gpus, index)
	}
	return gpus
}
