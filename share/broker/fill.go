package broker

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// Filler has the jobs of a GPU run on it at the same time, if it can: it is told whose they are, one entry a job, and
// says whether they do. It is asked again every so often.
type Filler func(ctx context.Context, gpu int, users []int) (fills bool, err error)

// lookEvery is how often stamps are looked at though nobody said that one has changed.
const lookEvery = 15 * time.Second

// fillLease is for how long a client has a GPU that others have, too.
const fillLease = 10 * time.Second

// look sees which jobs share which GPU, by their stamps, drops clients that have outlived theirs, and has each GPU
// shared in the way that fits. One of which that cannot be seen is left as it is: nobody ends what serves jobs because
// he could not read whose they are.
func (b *Broker) look(ctx context.Context) {
	b.looking.Lock()
	defer b.looking.Unlock()
	clients := b.clients() // before: a stamp that comes now was read by one that comes now
	seen, err := b.stamped()
	if b.says.changed(anyGPU, err) {
		b.Log.Error("look at stamps: GPUs are shared as before", "error", err)
	}
	if err != nil {
		return
	}
	for _, c := range clients {
		if why := seen.ends(c.stamp); why != "" {
			c.gpu.drop(c, why)
		}
	}
	for _, g := range b.gpus {
		if b.Fill == nil || seen.hides(g.index) {
			continue
		}
		fills, err := b.Fill(ctx, g.index, seen.users[g.index])
		g.fill(fills && err == nil, err)
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
	g.dropped++
	g.broker.Log.Info("dropped a client", "gpu", g.index, "job", c.stamp.Job, "client", c.id, "since", why)
	c.tell(wire.Message{Type: wire.Error, Code: wire.NotSharing, Text: why})
	c.conn.Close()
}

// keepLooking looks until the context ends.
func (b *Broker) keepLooking(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			b.look(ctx)
		}
	}
}

// fill has all clients of the GPU have it at once from now on, or no longer. Those that have it together are told to
// yield then; until they have ended their steps they and the one whose turn it is slice time.
func (g *gpu) fill(fills bool, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if why != nil && why.Error() != g.whyNot { // said once, not every time it is asked
		g.broker.Log.Warn("fill", "gpu", g.index, "error", why)
		g.whyNot = why.Error()
	}
	if g.fills == fills {
		return
	}
	g.fills = fills
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

// withdraw takes back what tasks are told of jobs that run at the same time: nobody looks any more whether what serves
// them lives.
func withdraw(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "fill-*.json"))
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// Tell tells the broker of a folder that stamps have changed, and waits until it has looked at them.
func Tell(ctx context.Context, dir string) error {
	_, err := ask(ctx, dir, http.MethodPost, "/look")
	return err
}
