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
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/v0042"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Observe sweeps the states of all jobs and reads those that the sweep, or what we did since, makes doubtful. Slurm is asked first
// whether it is there at all: a ping tells in a tenth of a second what any other request takes nine for.
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
	at := c.now()
	if err := c.refresh(ctx, at); err != nil {
		return bridge.Observed{}, fmt.Errorf("observe jobs: %w", err)
	}
	nodes, err := c.nodes(ctx)
	if err != nil {
		return bridge.Observed{}, fmt.Errorf("observe nodes: %w", err)
	}
	return c.assemble(at, nodes), nil
}

// ping says whether a controller answers.
func (c *Client) ping(ctx context.Context) error {
	request, err := v0042.NewPingRequest(c.base)
	body, err := c.call(ctx, "/ping/", request, err)
	if err != nil {
		return err
	}
	var answer v0042.PingArrayResp
	if err := decode(body, &answer); err != nil {
		return err
	}
	for _, controller := range answer.Pings {
		if controller.Responding || controller.Pinged == "UP" { // v0.0.45 has only the former
			return nil
		}
	}
	return c.whyNone(ctx, complaint{answer.Errors, answer.Warnings}.failed(http.StatusOK))
}

// doubt is how long Slurm has to say that it is there after a ping has found no controller.
const doubt = 3 * time.Second

// whyNone tells why a ping has found no controller, with what slurmrestd said about it. With a token that is no good slurmrestd finds
// none either; any other request then says at once that it is the token. That takes nine seconds where there is really no
// controller, so it is not waited for.
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
	if c.full.IsZero() || at.Sub(c.full) >= c.options.FullEvery {
		return c.readAll(ctx, at)
	}
	states, swept, err := c.sweep(ctx)
	if err != nil {
		return err
	}
	c.forgetOthers(states)
	doubtful := c.doubtful(states, at)
	if listingPays(len(doubtful), swept) {
		return c.readAll(ctx, at)
	}
	return c.readEach(ctx, doubtful, at)
}

// listingPays says whether one full listing is cheaper than single reads. slurmrestd takes 2 ms for a single read and 1 ms for
// each job of a listing, finished ones included.
func listingPays(doubtful, swept int) bool { return doubtful > 16 && doubtful > swept/2 }

// sweep returns the state of every job that waits, runs or is being torn down, folded, by ID, and how many entries Slurm had in
// all.
func (c *Client) sweep(ctx context.Context) (states map[int]string, swept int, err error) {
	request, err := v0042.NewGetJobStatesRequest(c.base)
	body, err := c.call(ctx, "/jobs/state/", request, err)
	if err != nil {
		return nil, 0, err
	}
	jobs, err := readStates(body)
	if err != nil {
		return nil, 0, err
	}
	states, err = foldStates(jobs)
	return states, len(jobs), err
}

func readStates(body []byte) ([]v0042.JobStateOf, error) {
	var answer v0042.JobStatesResp
	if err := decode(body, &answer); err != nil {
		return nil, err
	}
	return answer.Jobs, complaint{answer.Errors, answer.Warnings}.failed(http.StatusOK)
}

// foldStates joins the entries of one ID: each waiting task of an array has its own.
func foldStates(swept []v0042.JobStateOf) (map[int]string, error) {
	words := make(map[int][]string, len(swept))
	for _, job := range swept {
		if over(job.State) {
			continue
		}
		id, err := ownID(job.JobId)
		if err != nil {
			return nil, err
		}
		words[id] = append(words[id], job.State...)
	}
	states := make(map[int]string, len(words))
	for id, each := range words {
		states[id] = fold(each)
	}
	return states, nil
}

// ownID is the job's own number at the beginning of a sweep's name for it: 17, 9_1 for a task of an array that got the number 9,
// 19+1 for a component of a het job.
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
	request, err := v0042.NewGetJobsRequest(c.base)
	jobs, err := c.listing(ctx, allJobs, request, err)
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
		if job.State != bridge.Finished || job.Completing {
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

func firstOf(failures []error) error {
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

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
	case job.State == bridge.Finished && !job.Completing:
		delete(c.jobs, id)
		return nil
	}
	c.jobs[id] = next(c.jobs[id], job, at, touched)
	return nil
}

// job reads one job. Slurm answers for the master of an array with its tasks as well.
func (c *Client) job(ctx context.Context, id int) (listed, error) {
	request, err := v0042.NewGetJobRequest(c.base, strconv.Itoa(id))
	jobs, err := c.listing(ctx, "/job/{job_id}", request, err)
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

func (c *Client) listing(ctx context.Context, path string, request *http.Request, err error) ([]listed, error) {
	body, err := c.call(ctx, path, request, err)
	if err != nil {
		return nil, err
	}
	return c.dialect.jobs(body)
}

func (c *Client) nodes(ctx context.Context) ([]bridge.Node, error) {
	request, err := v0042.NewGetNodesRequest(c.base)
	body, err := c.call(ctx, "/nodes/", request, err)
	if err != nil {
		return nil, err
	}
	return c.dialect.nodes(body)
}

// assemble puts jobs and nodes together, in order.
func (c *Client) assemble(at time.Time, nodes []bridge.Node) bridge.Observed {
	c.mu.Lock()
	defer c.mu.Unlock()
	observed := bridge.Observed{At: at, Nodes: nodes, Jobs: make([]*bridge.Job, 0, len(c.jobs))}
	for _, id := range slices.Sorted(maps.Keys(c.jobs)) {
		observed.Jobs = append(observed.Jobs, &c.jobs[id].Job)
	}
	slices.SortFunc(observed.Nodes, func(a, b bridge.Node) int { return cmp.Compare(a.Name, b.Name) })
	uncounted := c.uncounted()
	for i := range observed.Nodes {
		node := &observed.Nodes[i]
		node.Allocated = within(node.Total, node.Allocated.Plus(uncounted[node.Name]))
	}
	return observed
}

// uncounted is what jobs still hold on each node although Slurm says otherwise: it gives back everything of a job the moment its
// teardown begins, and the CPUs of a job that an operator suspends.
func (c *Client) uncounted() map[string]gres.Vector {
	held := map[string]gres.Vector{}
	for _, job := range c.jobs {
		for node, has := range job.holds {
			switch {
			case job.Completing:
				held[node] = held[node].Plus(has)
			case job.idle:
				held[node] = held[node].Plus(gres.Vector{CPUs: has.CPUs})
			}
		}
	}
	return held
}

// within bounds what is allocated by what there is: jobs and nodes are read one after the other, and a job may leave in between.
func within(total, allocated gres.Vector) gres.Vector {
	return gres.Vector{
		GPUs:   min(total.GPUs, allocated.GPUs),
		CPUs:   min(total.CPUs, allocated.CPUs),
		Memory: min(total.Memory, allocated.Memory),
	}
}
