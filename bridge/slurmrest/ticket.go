package slurmrest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// Tickets is the daemons' queue for the election: held jobs of the client's user. Its requests do not wait behind those
// of rounds, since a late beat costs the lead. It learns which jobs are tickets from the client's listings.
type Tickets struct {
	client    *Client
	line      *link // to the same Slurm, without rate limit
	partition string
}

var _ leader.Tickets = (*Tickets)(nil)

// Tickets are submitted to that partition, where they never run.
func (c *Client) Tickets(partition string) *Tickets {
	line := &link{
		options: c.options, http: c.http, api: c.api, token: tokenFile{path: c.options.TokenFile},
		slots: make(chan struct{}, c.options.Concurrent), limit: rate.NewLimiter(rate.Inf, 0), now: c.now,
	}
	return &Tickets{client: c, line: line, partition: partition}
}

// script is what a ticket would run if it were released.
const script = "#!/bin/sh\nexit 0\n"

// Take implements leader.Tickets.
func (t *Tickets) Take(ctx context.Context, words leader.Words) (int, error) {
	id, err := t.submit(ctx, t.ticket(words))
	if err != nil {
		return 0, fmt.Errorf("submit job %s to partition %s: %w", leader.Name, t.partition, err)
	}
	t.client.noteTicket(id)
	return id, nil
}

// ticket is the smallest possible job. It is held by the request that submits it, so that no scheduler ever sees it
// free.
func (t *Tickets) ticket(words leader.Words) wire.Submission {
	return wire.Submission{
		Name: leader.Name, Partition: t.partition, Extra: words.String(), Held: true, Requeue: false,
		Folder: "/", Output: "/dev/null", Script: script,
		Environment: []string{"PATH=/usr/bin:/bin"}, // Slurm accepts no batch job without an environment
	}
}

// submit submits the job. An answer without an ID is not a refusal: the ticket may be in the queue, where the next
// listing finds it by name.
func (t *Tickets) submit(ctx context.Context, job wire.Submission) (int, error) {
	id, err := ask(ctx, t.line, t.line.api.Submit(job))
	if err != nil {
		return 0, err
	}
	if id <= 0 {
		return 0, noAnswerError{fmt.Errorf("answer names job %d", id)}
	}
	return id, nil
}

// List implements leader.Tickets. Without IDs it first updates the client's knowledge of all jobs, as Observe does. The
// tickets themselves are always read. One that is gone is left out.
func (t *Tickets) List(ctx context.Context, ids ...int) ([]leader.Ticket, error) {
	if len(ids) == 0 {
		all, err := t.client.ticketsSeen(ctx)
		if err != nil {
			return nil, fmt.Errorf("list tickets: %w", err)
		}
		ids = all
	}
	var tickets []leader.Ticket
	for _, id := range ids {
		job, err := t.read(ctx, id)
		switch {
		case errors.Is(err, slurm.ErrGone):
		case err != nil:
			return nil, fmt.Errorf("read ticket %d: %w", id, err)
		default:
			tickets = append(tickets, asTicket(job))
		}
	}
	return tickets, nil
}

// asTicket converts a ticket for package leader. A ticket that is not pending is not live: it was released or
// cancelled, so its daemon has lost the lead.
func asTicket(job parsedJob) leader.Ticket {
	return leader.Ticket{ID: job.ID, Words: leader.ParseWords(job.Extra), Live: job.State == slurm.Pending,
		Submitted: job.Submitted, Ended: job.ended}
}

// read reads a ticket; ErrGone if there is none. If another job has its ID, which can happen when slurmctld crashed and
// lost its last seconds, the ticket is gone.
func (t *Tickets) read(ctx context.Context, id int) (parsedJob, error) {
	job, err := t.line.job(ctx, id)
	if err == nil && !t.client.isTicket(&job) {
		err = slurm.ErrGone
	}
	if errors.Is(err, slurm.ErrGone) {
		t.client.forgetTicket(id)
	}
	return job, err
}

// Beat implements leader.Tickets.
func (t *Tickets) Beat(ctx context.Context, id int, words leader.Words) error {
	if err := t.beat(ctx, id, words); err != nil {
		return fmt.Errorf("renew ticket %d: %w", id, err)
	}
	return nil
}

// beat writes the words into a ticket. It reads the ticket first, since its ID may belong to another job after
// slurmctld has lost its last seconds.
func (t *Tickets) beat(ctx context.Context, id int, words leader.Words) error {
	job, err := t.read(ctx, id)
	if err != nil {
		return err
	}
	if job.State != slurm.Pending {
		return fmt.Errorf("it is %s: %w", job.stateText, slurm.ErrNotPending)
	}
	text := words.String()
	return t.line.post(ctx, id, wire.Change{Extra: &text})
}

// Tear implements leader.Tickets. It cancels only a job that it has just verified to be a ticket.
func (t *Tickets) Tear(ctx context.Context, id int) error {
	job, err := t.read(ctx, id)
	if err == nil && job.State != slurm.Finished {
		err = t.cancel(ctx, id)
	}
	if err != nil && !errors.Is(err, slurm.ErrGone) && !errors.Is(err, slurm.ErrNotRunning) {
		return fmt.Errorf("cancel ticket %d: %w", id, err)
	}
	return nil
}

// cancel sends SIGKILL to a waiting job, which cancels it. The signal is named, since what a DELETE without a signal
// does is not to be relied on.
func (t *Tickets) cancel(ctx context.Context, id int) error {
	return t.line.act(ctx, t.line.api.Signal(strconv.Itoa(id), "KILL", wire.All))
}

// ticketsSeen updates what is known and returns the IDs of all known tickets.
func (c *Client) ticketsSeen(ctx context.Context) ([]int, error) {
	c.observing.Lock()
	defer c.observing.Unlock()
	c.setLooking(true)
	defer c.setLooking(false)
	if err := c.ping(ctx); err != nil {
		return nil, err
	}
	if err := c.refresh(ctx, c.now()); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.tickets)), nil
}

// isTicket reports whether a job is a ticket of the daemons' user.
func (c *Client) isTicket(job *parsedJob) bool { return c.isDaemons(job, leader.Name) }

// isDaemons reports whether a job has that name and is a plain job of the daemons' user: any user may use the name. If
// the options name no user, the token says whose it is; if it does not, no job counts.
func (c *Client) isDaemons(job *parsedJob, name string) bool {
	if job.Name != name || job.Shape != "" || job.Interactive || job.Array != 0 {
		return false
	}
	user := c.options.User
	if user == "" {
		user = c.token.user()
	}
	return job.User == user && user != ""
}

// noteTicket records a ticket just submitted, before a listing shows it.
func (m *jobCache) noteTicket(id int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tickets[id] = true
}

// forgetTicket drops a ticket that is gone. If it is there after all, the next listing finds it again by name.
func (m *jobCache) forgetTicket(id int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tickets, id)
}

// user is the user named in the token, unverified, since slurmctld checks the signature; empty if it names none.
func (t *tokenFile) user() string {
	token, err := t.read()
	parts := strings.Split(token, ".")
	if err != nil || len(parts) != 3 {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		User string `json:"sun"`
	}
	if json.Unmarshal(text, &claims) != nil {
		return ""
	}
	return claims.User
}

// ended is the end time of a finished job. For others it is zero: Slurm shows an expected end for them.
func ended(state slurm.State, end wire.Number) time.Time {
	if state != slurm.Finished {
		return time.Time{}
	}
	return moment(end)
}
