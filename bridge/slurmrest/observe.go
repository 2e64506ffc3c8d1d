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

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Observe sweeps the states of all jobs and reads those that the sweep or our own updates make doubtful. It pings Slurm
// first: a ping tells in a tenth of a second that no controller answers, for which any other request takes nine
// seconds.
func (c *Client) Observe(ctx context.Context) (seen slurm.Observed, failure error) {
	defer c.hideToken(&failure)
	c.observing.Lock()
	defer c.observing.Unlock()
	c.setLooking(true)
	defer c.setLooking(false)
	if err := c.ping(ctx); err != nil {
		return slurm.Observed{}, fmt.Errorf("observe: %w", err)
	}
	if err := c.askTime(ctx); err != nil {
		return slurm.Observed{}, fmt.Errorf("observe the time: %w", err)
	}
	at := c.now() // before anything is read, so that anything that happens meanwhile is later
	if err := c.refresh(ctx, at); err != nil {
		return slurm.Observed{}, fmt.Errorf("observe jobs: %w", err)
	}
	nodes, err := c.nodes(ctx)
	if err != nil {
		return slurm.Observed{}, fmt.Errorf("observe nodes: %w", err)
	}
	if err := c.askReservations(ctx, at); err != nil {
		return slurm.Observed{}, fmt.Errorf("observe reservations: %w", err)
	}
	return c.assemble(at, nodes), nil
}

// ping checks that a controller answers; if none does, the error says whether the token or the controller is the cause.
func (c *Client) ping(ctx context.Context) error {
	controllers, said, err := askWithComplaint(ctx, c.link, c.api.Ping())
	if err != nil {
		return err
	}
	if slices.ContainsFunc(controllers, func(controller wire.Controller) bool { return controller.Answers }) {
		return nil
	}
	return c.whyNone(ctx, failed(http.StatusOK, said))
}

// pingDoubtLimit limits the request that whyNone makes after a ping has found no controller.
const pingDoubtLimit = 3 * time.Second

// whyNone finds out why a ping found no controller. slurmrestd finds none with an invalid token either, and any other
// request then names the token at once. So it tries a sweep. If there really is no controller a sweep takes nine
// seconds, so it is cut short after pingDoubtLimit.
func (c *Client) whyNone(ctx context.Context, said error) error {
	within, cancel := context.WithTimeout(ctx, pingDoubtLimit)
	defer cancel()
	switch _, _, err := c.sweep(within); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, slurm.ErrDenied):
		return err
	case said != nil:
		return noAnswerError{said}
	}
	return noAnswerError{errors.New("no controller answers a ping")}
}

// refresh updates what is known of the jobs: by a full listing if the last one is too old, and else by a sweep of the
// states and reads of the doubtful jobs. If there are so many doubtful jobs that a listing is cheaper, it lists.
func (c *Client) refresh(ctx context.Context, at time.Time) error {
	if elapsed(c.lastListing, at, c.options.FullEvery) {
		return c.readAll(ctx, at)
	}
	states, swept, err := c.sweep(ctx)
	if err != nil {
		return err
	}
	c.forgetOthers(states, at)
	doubtful := c.doubtful(states, at)
	if c.costs.listingPays(len(doubtful), swept) {
		err = c.readAll(ctx, at)
	} else {
		err = c.costs.ofReads(len(doubtful), func() error { return c.readEach(ctx, doubtful, at) })
	}
	if err == nil { // after a failed read the arrays must look changed to the next sweep
		c.count(states)
	}
	return err
}

// clockTolerance is how far Slurm's clock may seem to go back without having been set.
const clockTolerance = 2 * time.Second

// elapsed reports whether at least that much time has passed since a moment of Slurm's clock. If the clock was set back
// the time is unknown and counts as passed.
func elapsed(since, at time.Time, atLeast time.Duration) bool {
	passed := at.Sub(since)
	return since.IsZero() || passed >= atLeast || passed < -clockTolerance
}

// sweep asks for the states of all jobs. It returns the folded state of every job that waits, runs or is completing,
// and of those with our directive that are over (followed), by ID. A state that differs from the known one shows that
// the job must be read. swept is the number of Slurm's entries, by which the cost of a listing is estimated.
func (c *Client) sweep(ctx context.Context) (states map[int]string, swept int, err error) {
	jobs, err := ask(ctx, c.link, c.api.States())
	if err != nil {
		return nil, 0, err
	}
	states, err = foldStates(jobs, c.followed())
	return states, len(jobs), err
}

// foldStates gives each job ID the states that a sweep showed for it. Array tasks without a job of their own have
// entries under the array's ID: their states are joined, and their number is appended after a star, so that a change of
// the number alone is seen as a change. Entries of ended jobs are left out, except of the followed jobs: those that an
// earlier observation reported and whose end is still to be told.
func foldStates(swept []wire.State, followed map[int]bool) (map[int]string, error) {
	words, entries, ended := make(map[int][]string, len(swept)), map[int]int{}, map[int][]string{}
	for _, job := range swept {
		isOver := over(job.Words)
		if isOver && len(followed) == 0 { // it counts for nothing: its ID need not be parsed
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
		if words[id] == nil { // no task is alive
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

// joined appends the words that are not in the list yet. An array of ten thousand tasks repeats the same word as often.
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

// ownID is the job ID at the start of a name in the sweep: 17, 9_1 for a task with job ID 9, 19+1 for a component of a
// het job.
func ownID(name string) (int, error) {
	digits := name
	if end := strings.IndexFunc(name, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = name[:end]
	}
	id, err := strconv.Atoi(digits)
	if err != nil || id <= 0 {
		return 0, noAnswerError{fmt.Errorf("job ID %q: want a number", name)}
	}
	return id, nil
}

// allJobs is the path of the full listing.
const allJobs = "/jobs/"

// readAll lists all jobs and replaces what is known, which also finds edits that change no state. If that fails, the
// marks that beginRead took away are set again. Tickets are only added: one that is over is still listed for the
// election, until forgetTicket.
func (c *Client) readAll(ctx context.Context, at time.Time) error {
	touched, began := c.beginRead(nil), time.Now()
	jobs, err := c.listing(ctx, c.api.Jobs())
	if err != nil {
		c.touch(touched...)
		return err
	}
	c.costs.listed(len(jobs), time.Since(began))
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.jobs
	c.jobs = make(map[int]*knownJob, len(jobs))
	clear(c.leases) // Slurm may reuse the ID of a lease job that it has forgotten
	for i := range jobs {
		if c.isTicket(&jobs[i]) {
			c.tickets[jobs[i].ID] = true
		}
		if c.isDaemons(&jobs[i], slurm.LeaseName) {
			c.leases[jobs[i].ID] = jobs[i].State == slurm.Pending
		}
	}
	for _, job := range jobs {
		job.depend(c.leases)
		if job.isObservable() {
			c.jobs[job.ID] = nextKnown(before[job.ID], job, at, touched)
		}
	}
	c.lastListing = at
	return nil
}

// readEach reads these jobs, several at once. A job that is gone meanwhile is no error. If a read fails, the marks that
// beginRead took away are set again.
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

// firstOf is the first error in the order of the jobs, so that the same outage gives the same message; nil: there is
// none.
func firstOf(failures []error) error {
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

// readOne reads a job and stores it. A failed read leaves what is known unchanged; a job that Slurm no longer knows, or
// that is over and not ours, is dropped.
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
	if err == nil && c.isLease(&job) {
		c.leases[id] = true
	}
	switch {
	case errors.Is(err, slurm.ErrGone):
		delete(c.jobs, id)
		return nil
	case err != nil:
		return fmt.Errorf("job %d: %w", id, err)
	case !job.isObservable():
		delete(c.jobs, id)
		return nil
	}
	c.jobs[id] = nextKnown(c.jobs[id], job, at, touched)
	return nil
}

// job reads one job and separates its lease from its user's dependencies.
func (c *Client) job(ctx context.Context, id int) (parsedJob, error) {
	job, err := c.link.job(ctx, id)
	c.depend(&job)
	return job, err
}

// job reads one job; ErrGone if Slurm does not know it. For an array Slurm's answer includes its tasks.
func (l *link) job(ctx context.Context, id int) (parsedJob, error) {
	jobs, err := l.listing(ctx, l.api.Job(id))
	if err != nil {
		return parsedJob{}, err
	}
	for _, job := range jobs {
		if job.ID == id {
			return job, nil
		}
	}
	return parsedJob{}, slurm.ErrGone
}

// listing reads jobs and converts them.
func (l *link) listing(ctx context.Context, call wire.Call[[]wire.Job]) ([]parsedJob, error) {
	told, err := ask(ctx, l, call)
	if err != nil {
		return nil, err
	}
	jobs := make([]parsedJob, len(told))
	for i := range told {
		jobs[i] = readJob(&told[i])
	}
	return jobs, nil
}

// nodes reads all nodes each time: it takes a few milliseconds, and their allocation has no version to compare.
func (c *Client) nodes(ctx context.Context) ([]slurm.Node, error) {
	told, err := ask(ctx, c.link, c.api.Nodes())
	if err != nil {
		return nil, err
	}
	nodes := make([]slurm.Node, len(told))
	for i := range told {
		nodes[i] = readNode(&told[i])
	}
	return nodes, nil
}

// reservationsEvery is the maximum age of reservations. A new reservation must be known before a start that it prevents
// is given up.
const reservationsEvery = 5 * time.Second

// askReservations updates the reservations if they are old. It makes a new list, since the old one was handed out.
func (c *Client) askReservations(ctx context.Context, at time.Time) error {
	if !elapsed(c.reservationsRead, at, reservationsEvery) {
		return nil
	}
	told, err := ask(ctx, c.link, c.api.Reservations())
	if err != nil {
		return err
	}
	reservations := make([]slurm.Reservation, len(told))
	for i := range told {
		if reservations[i], err = readReservation(&told[i]); err != nil {
			return err
		}
	}
	slices.SortFunc(reservations, func(a, b slurm.Reservation) int { return cmp.Compare(a.Name, b.Name) })
	c.reservations, c.reservationsRead = reservations, at
	return nil
}

// readReservation converts a reservation. One whose nodes cannot be parsed fails the observation: ignoring it would
// start jobs on nodes that are reserved for others.
func readReservation(r *wire.Reservation) (slurm.Reservation, error) {
	nodes, err := gres.ParseHosts(r.Nodes)
	if err != nil {
		return slurm.Reservation{}, noAnswerError{
			fmt.Errorf("reservation %s: %w", inLine(r.Name, "without a name"), err),
		}
	}
	slices.Sort(nodes)
	return slurm.Reservation{Name: r.Name, From: moment(r.From), To: moment(r.To), Nodes: nodes}, nil
}

// assemble makes the observation, sorted, from what is known of the jobs and the nodes just read. It adds to the nodes
// what jobs still hold although Slurm shows it as free.
func (c *Client) assemble(at time.Time, nodes []slurm.Node) slurm.Observed {
	c.mu.Lock()
	defer c.mu.Unlock()
	observed := slurm.Observed{At: at, Nodes: nodes, Jobs: make([]*slurm.Job, 0, len(c.jobs)),
		Reservations: c.reservations}
	for _, id := range slices.Sorted(maps.Keys(c.jobs)) {
		observed.Jobs = append(observed.Jobs, &c.jobs[id].Job)
	}
	slices.SortFunc(observed.Nodes, func(a, b slurm.Node) int { return cmp.Compare(a.Name, b.Name) })
	uncounted := c.uncounted()
	for i := range observed.Nodes {
		node := &observed.Nodes[i]
		node.Allocated = capped(node.Total, node.Allocated.Plus(uncounted[node.Name]))
		c.addCompletingGPUs(node)
	}
	return observed
}

// addCompletingGPUs adds the GPUs of completing jobs to the node's counts by type, if it has several types: Slurm shows
// them as free before their processes have ended. For a job that asked for no type it does not show which they were, so
// they are counted for each type.
func (m *jobCache) addCompletingGPUs(node *slurm.Node) {
	for _, job := range m.jobs {
		held := job.heldByNode[node.Name].GPUs
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

// uncounted is what jobs still hold on each node although Slurm shows it as free: everything of a completing job, and
// the CPUs of a suspended one.
func (m *jobCache) uncounted() map[string]gres.Vector {
	held := map[string]gres.Vector{}
	for _, job := range m.jobs {
		for node, has := range job.heldByNode {
			switch {
			case job.Completing && m.isGPUCounted(job, node):
				held[node] = held[node].Plus(gres.Vector{CPUs: has.CPUs, Memory: has.Memory})
			case job.Completing:
				held[node] = held[node].Plus(has)
			case job.isSuspended:
				held[node] = held[node].Plus(gres.Vector{CPUs: has.CPUs})
			}
		}
	}
	return held
}

// isGPUCounted reports whether the GPU of which a completing job has a shard is counted without this job, because
// another job has a shard of it, too. If all jobs on the GPU are completing, only the one with the lowest ID counts it.
func (m *jobCache) isGPUCounted(leaves *knownJob, node string) bool {
	if leaves.Runs.Shard == "" {
		return false
	}
	for id, job := range m.jobs {
		_, there := job.heldByNode[node]
		if there && job.Runs.Shard == leaves.Runs.Shard && id != leaves.ID && (!job.Completing || id < leaves.ID) {
			return true
		}
	}
	return false
}

// capped is what is allocated, but no more than the total. Jobs and nodes are read one after the other, and a job may
// end in between.
func capped(total, allocated gres.Vector) gres.Vector {
	return gres.Vector{
		GPUs:   min(total.GPUs, allocated.GPUs),
		CPUs:   min(total.CPUs, allocated.CPUs),
		Memory: min(total.Memory, allocated.Memory),
	}
}
