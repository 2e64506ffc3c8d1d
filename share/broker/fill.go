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

// Filler has the jobs of a GPU run on it at the same time, if it can: it is told which they are, and says whether they
// do. It is asked again every so often.
type Filler func(ctx context.Context, gpu int, jobs []node.Run) (fills bool, err error)

// lookEvery is how often stamps are looked at though nobody said that one has changed.
const lookEvery = 15 * time.Second

// fillLease is for how long a client has a GPU that others have, too.
const fillLease = 10 * time.Second

// looked are the GPUs that are asked after a look, until their channels are closed.
type looked map[int]<-chan struct{}

// wait waits until these GPUs have been asked; none, or one that is not the broker's: until all have.
func (l looked) wait(ctx context.Context, gpus []int, broker []*gpu) {
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

// look sees which jobs share which GPU, by their stamps, drops clients that have outlived theirs, and has each GPU
// shared in the way that fits. One of which that cannot be seen is left as it is: nobody ends what serves jobs because
// he could not read whose they are. It waits for no GPU. One at a time looks.
func (b *Broker) look() looked {
	clients := b.clients() // before: a stamp that comes now was read by one that comes now
	seen, err := b.stamped()
	if b.says.changed(anyGPU, err) {
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
	asked := looked{}
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

// errHidden is why a GPU fills no longer of which it cannot be asked how.
var errHidden = errors.New("the stamp of a job on it cannot be read, and another has come")

// overlook is for a look in which a GPU is not asked, though these jobs at least are on it: their prologs do not wait.
// With one that has come since it was asked last it fills no longer: nobody knows whether that is a client.
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

// inquiry is what a GPU is to be asked next: which jobs share it, and whoever waits for the answer.
type inquiry struct {
	jobs  []node.Run
	asked []chan struct{}
}

// inquire has the GPU asked how these jobs share it, and says when that was done. What answers may take its
// time: it is asked by one goroutine for each GPU, so that one which hangs delays no other, and of what has come up
// meanwhile only the last is asked.
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

// ask asks until there is nothing to ask.
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

// clients are those of all GPUs.
func (b *Broker) clients() (all []*client) {
	for _, g := range b.gpus {
		g.mu.Lock()
		all = slices.AppendSeq(all, maps.Values(g.clients))
		g.mu.Unlock()
	}
	return all
}

// drop ends a client that is none any more. What it had it has given back when its connection is seen to have ended.
func (g *gpu) drop(c *client, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.clients[c.id] == nil {
		return // it has left meanwhile
	}
	if c.silent != nil {
		g.dismiss(g.jobs[c.stamp.Job])
		delete(g.jobs, c.stamp.Job)
		return
	}
	g.dropped++
	g.broker.Log.Info("dropped a client", "gpu", g.index, "job", c.stamp.Job, "client", c.id, "since", why)
	c.tell(wire.Message{Type: wire.Error, Code: wire.NotSharing, Text: why})
	c.conn.Close()
}

// keepLooking looks every so often, and whenever somebody says so, until the context ends.
func (b *Broker) keepLooking(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			b.look()
		case answer := <-b.said:
			answer <- b.look()
		}
	}
}

// lookNow has the broker look, and waits until these GPUs have been asked; none: all. Whoever wants that may go: what
// was begun is done all the same.
func (b *Broker) lookNow(ctx context.Context, gpus []int) {
	answer := make(chan looked, 1)
	select {
	case b.said <- answer:
	case <-ctx.Done():
		return
	}
	select {
	case l := <-answer:
		l.wait(ctx, gpus, b.gpus)
	case <-ctx.Done():
	}
}

// fill has all clients of the GPU have it at once from now on, or no longer. Those that have it together are told to
// yield then; until they have ended their steps they and the one whose turn it is slice time.
func (g *gpu) fill(fills bool, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.whyNot
	if g.whyNot = ""; why != nil {
		g.whyNot = why.Error()
	}
	if g.whyNot != "" && g.whyNot != was { // said once, not every time it is asked
		g.broker.Log.Warn("fill", "gpu", g.index, "error", why)
	}
	if g.fills == fills {
		return
	}
	g.fills = fills
	g.attend()
	g.broker.Log.Info("shared", "gpu", g.index, "mode", g.mode())
	for _, c := range g.clients {
		if c.fills && !fills && c.state == wire.Holding {
			c.become(wire.Yielding)
			c.tell(wire.Message{Type: wire.Yield, Seq: c.seq, Grace: turns.DefaultQuantum.Microseconds()})
		}
	}
}

func (g *gpu) mode() string {
	if g.fills {
		return "fill"
	}
	return "turns"
}

// Tell tells the broker of a folder that stamps have changed, and waits until it has looked at them, and these GPUs are
// shared in the way that fits; none: all GPUs.
func Tell(ctx context.Context, dir string, gpus ...int) error {
	query := url.Values{}
	for _, index := range gpus {
		query.Add("gpu", strconv.Itoa(index))
	}
	_, err := ask(ctx, dir, http.MethodPost, "/look?"+query.Encode())
	return err
}

// told are the GPUs of such a request; nil, which are all, where one is no number.
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
