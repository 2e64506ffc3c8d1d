package slurmrest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Observe sweeps the states of all jobs and reads those that the sweep, or what we did since, makes doubtful. Slurm is
// asked first whether it is there at all: a ping tells in a tenth of a second what any other request takes nine for.
func (c *Client) Observe(ctx context.Context) (seen bridge.Observed, failure error) {
	defer c.discreet(&failure)
	c.observing.Lock()
	defer c.observing.Unlock()
	c.look(true)
	defer c.look(false)
	if err := c.ping(ctx); err != nil {
		return bridge.Observed{}, fmt.Errorf("observe: %w", err)
	}
	if err := c.askTime(ctx); err != nil {
		return bridge.Observed{}, fmt.Errorf("observe the time: %w", err)
	}
	at := c.now() // before anything is read: what happens meanwhile is then later than what is told
	if err := c.refresh(ctx, at); err != nil {
		return bridge.Observed{}, fmt.Errorf("observe jobs: %w", err)
	}
	nodes, err := c.nodes(ctx)
	if err != nil {
		return bridge.Observed{}, fmt.Errorf("observe nodes: %w", err)
	}
	if err := c.askReservations(ctx, at); err != nil {
		return bridge.Observed{}, fmt.Errorf("observe reservations: %w", err)
	}
	return c.assemble(at, nodes), nil
}

// ping says whether a controller answers.
func (c *Client) ping(ctx context.Context) error {
	controllers, said, err := hear(ctx, c.link, c.api.Ping())
	if err != nil {
		return err
	}
	if slices.ContainsFunc(controllers, func(controller wire.Controller) bool { return controller.Answers }) {
		return nil
	}
	return c.whyNone(ctx, failed(http.StatusOK, said))
}

// doubt is how long Slurm has to say that it is there after a ping has found no controller.
const doubt = 3 * time.Second

// whyNone tells why a ping has found no controller, with what slurmrestd said about it. With a token that is no good
// slurmrestd finds none either; any other request then says at once that it is the token. That takes nine seconds where
// there is really no controller, so it is not waited for.
func (c *Client) whyNone(ctx context.Context, said error) error {
	within, cancel := context.WithTimeout(ctx, doubt)
	defer cancel()
	switch _, _, err := c.sweep(within); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, bridge.ErrDenied):
		return err
	case said != nil:
		return unheard{said}
	}
	return unheard{errors.New("no controller answers a ping")}
}

// refresh brings what is known of the jobs up to date.
func (c *Client) refresh(ctx context.Context, at time.Time) error {
	if elapsed(c.full, at, c.options.FullEvery) {
		return c.readAll(ctx, at)
	}
	states, swept, err := c.sweep(ctx)
	if err != nil {
		return err
	}
	c.forgetOthers(states, at)
	doubtful := c.doubtful(states, at)
	if listingPays(len(doubtful), swept) {
		err = c.readAll(ctx, at)
	} else {
		err = c.readEach(ctx, doubtful, at)
	}
	if err == nil {
		c.count(states)
	}
	return err
}

// back is by how much Slurm's clock may seem to go back without having been set.
const back = 2 * time.Second

// elapsed says that so long has passed since a moment of Slurm's. When its clock was set back nobody knows how long ago
// that was.
func elapsed(since, at time.Time, atLeast time.Duration) bool {
	passed := at.Sub(since)
	return since.IsZero() || passed >= atLeast || passed < -back
}

// listingPays says whether one full listing is cheaper than single reads. slurmrestd takes 2 ms for a single read and 1
// ms for each job of a listing, finished ones included.
func listingPays(doubtful, swept int) bool { return doubtful > 16 && doubtful > swept/2 }

// sweep returns the state of every job that waits, runs or is being torn down, and of those that are over and followed,
// folded, by ID, and how many entries Slurm had in all.
func (c *Client) sweep(ctx context.Context) (states map[int]string, swept int, err error) {
	jobs, err := ask(ctx, c.link, c.api.States())
	if err != nil {
		return nil, 0, err
	}
	states, err = foldStates(jobs, c.followed())
	return states, len(jobs), err
}

// foldStates joins the entries of one ID: each task of an array that has no job of its own has an entry under the
// array's, and how many they are is told behind a star. Of those that are over only the followed ones count.
func foldStates(swept []wire.State, followed map[int]bool) (map[int]string, error) {
	words, entries, ended := make(map[int][]string, len(swept)), map[int]int{}, map[int][]string{}
	for _, job := range swept {
		isOver := over(job.Words)
		if isOver && len(followed) == 0 {
			continue
		}
		id, err := ownID(job.Job)
		switch {
		case err != nil:
			return nil, err
		case !isOver:
			words[id] = joined(words[id], job.Words)
			entries[id]++
		case followed[id]:
			ended[id] = joined(ended[id], job.Words)
		}
	}
	for id, each := range ended {
		if words[id] == nil { // nothing of it lives
			words[id] = each
		}
	}
	states := make(map[int]string, len(words))
	for id, each := range words {
		states[id] = fold(each)
		if entries[id] > 1 {
			states[id] += fmt.Sprintf("*%d", entries[id])
		}
	}
	return states, nil
}

// joined adds the words that are not in the list yet: an array of ten thousand tasks says the same word so often.
func joined(list, more []string) []string {
	if list == nil {
		return slices.Clone(more)
	}
	for _, word := range more {
		if !slices.Contains(list, word) {
			list = append(list, word)
		}
	}
	return list
}

// ownID is the job's own number at the beginning of a sweep's name for it: 17, 9_1 for a task of an array that got the
// number 9, 19+1 for a component of a het job.
func ownID(name string) (int, error) {
	digits := name
	if end := strings.IndexFunc(name, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = name[:end]
	}
	id, err := strconv.Atoi(digits)
	if err != nil || id <= 0 {
		return 0, unheard{fmt.Errorf("job ID %q: want a number", name)}
	}
	return id, nil
}

// allJobs is the path of the full listing.
const allJobs = "/jobs/"

// readAll lists all jobs.
func (c *Client) readAll(ctx context.Context, at time.Time) error {
	touched := c.beginRead(nil)
	jobs, err := c.listing(ctx, c.api.Jobs())
	if err != nil {
		c.touch(touched...)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.jobs
	c.jobs = make(map[int]*known, len(jobs))
	for _, job := range jobs {
		if c.isTicket(&job) {
			c.tickets[job.ID] = true
		}
		if job.tells() {
			c.jobs[job.ID] = next(before[job.ID], job, at, touched)
		}
	}
	c.full = at
	return nil
}

// readEach reads these jobs, as many at once as the client may. One that is gone meanwhile is gone.
func (c *Client) readEach(ctx context.Context, ids []int, at time.Time) error {
	touched := c.beginRead(ids)
	failures := make([]error, len(ids))
	work := make(chan int)
	var readers sync.WaitGroup
	for range min(c.options.Concurrent, len(ids)) {
		readers.Go(func() {
			for i := range work {
				failures[i] = c.readOne(ctx, ids[i], at, touched)
			}
		})
	}
	for i := range ids {
		work <- i
	}
	close(work)
	readers.Wait()
	if err := firstOf(failures); err != nil {
		c.touch(touched...)
		return err
	}
	return nil
}

// firstOf is the failure of the first job in order, so that the same outage is told in the same words.
func firstOf(failures []error) error {
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

// readOne reads a job and takes it up. What was known of it stands until an answer says otherwise: a read that failed
// changes nothing, and a job that Slurm does not know any more is forgotten.
func (c *Client) readOne(ctx context.Context, id int, at time.Time, touched []int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	job, err := c.job(ctx, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.isTicket(&job) {
		c.tickets[id] = true
	}
	switch {
	case errors.Is(err, bridge.ErrGone):
		delete(c.jobs, id)
		return nil
	case err != nil:
		return fmt.Errorf("job %d: %w", id, err)
	case !job.tells():
		delete(c.jobs, id)
		return nil
	}
	c.jobs[id] = next(c.jobs[id], job, at, touched)
	return nil
}

// job reads one job. Slurm answers for the master of an array with its tasks as well.
func (l *link) job(ctx context.Context, id int) (listed, error) {
	jobs, err := l.listing(ctx, l.api.Job(id))
	if err != nil {
		return listed{}, err
	}
	for _, job := range jobs {
		if job.ID == id {
			return job, nil
		}
	}
	return listed{}, bridge.ErrGone
}

// listing reads jobs in the words of this package.
func (l *link) listing(ctx context.Context, call wire.Call[[]wire.Job]) ([]listed, error) {
	told, err := ask(ctx, l, call)
	if err != nil {
		return nil, err
	}
	jobs := make([]listed, len(told))
	for i := range told {
		jobs[i] = readJob(&told[i])
	}
	return jobs, nil
}

// nodes reads all nodes, each time: a request of a few milliseconds, and what they have allocated has no version.
func (c *Client) nodes(ctx context.Context) ([]bridge.Node, error) {
	told, err := ask(ctx, c.link, c.api.Nodes())
	if err != nil {
		return nil, err
	}
	nodes := make([]bridge.Node, len(told))
	for i := range told {
		nodes[i] = readNode(&told[i])
	}
	return nodes, nil
}

// reservationsEvery is how old what is told of reservations may be: one that is made for now is to be known before a
// start that it keeps from coming about is given up.
const reservationsEvery = 5 * time.Second

// askReservations brings what is known of reservations up to date, if that is old. The list that has been handed out
// stays as it is.
func (c *Client) askReservations(ctx context.Context, at time.Time) error {
	if !elapsed(c.reserved, at, reservationsEvery) {
		return nil
	}
	told, err := ask(ctx, c.link, c.api.Reservations())
	if err != nil {
		return err
	}
	reservations := make([]bridge.Reservation, len(told))
	for i := range told {
		if reservations[i], err = readReservation(&told[i]); err != nil {
			return err
		}
	}
	slices.SortFunc(reservations, func(a, b bridge.Reservation) int { return cmp.Compare(a.Name, b.Name) })
	c.reservations, c.reserved = reservations, at
	return nil
}

// readReservation refuses one whose nodes are not understood, and with it the observation: to take it for none would
// start jobs on what is kept for others.
func readReservation(r *wire.Reservation) (bridge.Reservation, error) {
	nodes, err := gres.ParseHosts(r.Nodes)
	if err != nil {
		return bridge.Reservation{}, unheard{fmt.Errorf("reservation %s: %w", inLine(r.Name, "without a name"), err)}
	}
	slices.Sort(nodes)
	return bridge.Reservation{Name: r.Name, From: moment(r.From), To: moment(r.To), Nodes: nodes}, nil
}

// assemble puts jobs and nodes together, in order.
func (c *Client) assemble(at time.Time, nodes []bridge.Node) bridge.Observed {
	c.mu.Lock()
	defer c.mu.Unlock()
	observed := bridge.Observed{At: at, Nodes: nodes, Jobs: make([]*bridge.Job, 0, len(c.jobs)),
		Reservations: c.reservations}
	for _, id := range slices.Sorted(maps.Keys(c.jobs)) {
		observed.Jobs = append(observed.Jobs, &c.jobs[id].Job)
	}
	slices.SortFunc(observed.Nodes, func(a, b bridge.Node) int { return cmp.Compare(a.Name, b.Name) })
	uncounted := c.uncounted()
	for i := range observed.Nodes {
		node := &observed.Nodes[i]
		node.Allocated = within(node.Total, node.Allocated.Plus(uncounted[node.Name]))
		c.leaving(node)
	}
	return observed
}

// leaving counts the GPUs of jobs in teardown by type. Slurm does not say any more which those are of a job that asked
// for none: they are counted for each.
func (m *memory) leaving(node *bridge.Node) {
	for _, job := range m.jobs {
		held := job.holds[node.Name].GPUs
		if len(node.Types) == 0 || !job.Completing || held == 0 {
			continue
		}
		for i := range node.Types {
			if t := &node.Types[i]; job.Request.GPUType == "" || job.Request.GPUType == t.Type {
				t.Allocated = min(t.Total, t.Allocated+held)
			}
		}
	}
}

// uncounted is what jobs still hold on each node although Slurm says otherwise: it gives back everything of a job the
// moment its teardown begins, and the CPUs of a job that an operator suspends.
func (m *memory) uncounted() map[string]gres.Vector {
	held := map[string]gres.Vector{}
	for _, job := range m.jobs {
		for node, has := range job.holds {
			switch {
			case job.Completing && m.others(job, node):
				held[node] = held[node].Plus(gres.Vector{CPUs: has.CPUs, Memory: has.Memory})
			case job.Completing:
				held[node] = held[node].Plus(has)
			case job.idle:
				held[node] = held[node].Plus(gres.Vector{CPUs: has.CPUs})
			}
		}
	}
	return held
}

// others says that the GPU of which a job in teardown has a shard is counted without it: somebody else has one, too.
func (m *memory) others(leaves *known, node string) bool {
	if leaves.Runs.Shard == "" {
		return false
	}
	for id, job := range m.jobs {
		_, there := job.holds[node]
		if there && job.Runs.Shard == leaves.Runs.Shard && id != leaves.ID && (!job.Completing || id < leaves.ID) {
			return true
		}
	}
	return false
}

// within bounds what is allocated by what there is: jobs and nodes are read one after the other, and a job may leave in
// between.
func within(total, allocated gres.Vector) gres.Vector {
	return gres.Vector{
		GPUs:   min(total.GPUs, allocated.GPUs),
		CPUs:   min(total.CPUs, allocated.CPUs),
		Memory: min(total.Memory, allocated.Memory),
	}
}
