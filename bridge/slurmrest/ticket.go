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

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// Tickets is the queue of the daemons: held jobs of the user of a client. Its requests do not wait behind those of
// rounds, since a beat that comes late costs the lead. Which jobs are tickets it learns from the client's own listings.
type Tickets struct {
	client    *Client
	line      *link // to the same Slurm, without limits
	partition string
}

var _ leader.Tickets = (*Tickets)(nil)

// Tickets are taken in that partition, where they never run.
func (c *Client) Tickets(partition string) *Tickets {
	line := &link{
		options: c.options, http: c.http, api: c.api, token: tokenFile{path: c.options.TokenFile},
		slots: make(chan struct{}, c.options.Concurrent), limit: rate.NewLimiter(rate.Inf, 0), now: c.now,
	}
	return &Tickets{client: c, line: line, partition: partition}
}

// script is what a ticket would run if somebody released it.
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

// ticket is the least job that there is. It is held in the very request that makes it, so that no scheduler ever sees
// it free.
func (t *Tickets) ticket(words leader.Words) wire.Submission {
	return wire.Submission{
		Name: leader.Name, Partition: t.partition, Extra: words.String(), Held: true, Requeue: false,
		Folder: "/", Output: "/dev/null", Script: script,
		Environment: []string{"PATH=/usr/bin:/bin"}, // Slurm takes no batch job without one
	}
}

// submit makes the job. An answer without a number is no refusal: a ticket may stand in the queue, which the next
// listing finds by its name.
func (t *Tickets) submit(ctx context.Context, job wire.Submission) (int, error) {
	id, err := ask(ctx, t.line, t.line.api.Submit(job))
	if err != nil {
		return 0, err
	}
	if id <= 0 {
		return 0, unheard{fmt.Errorf("answer names job %d", id)}
	}
	return id, nil
}

// List implements leader.Tickets. Without numbers it brings the client's knowledge of all jobs up to date, as an
// Observe does; the tickets themselves are always read anew.
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
		case errors.Is(err, bridge.ErrGone):
		case err != nil:
			return nil, fmt.Errorf("read ticket %d: %w", id, err)
		default:
			tickets = append(tickets, shown(job))
		}
	}
	return tickets, nil
}

// shown is a ticket as the daemons compare them. One that is not pending is not live: somebody has released or
// cancelled it, and whoever held it has lost the lead.
func shown(job listed) leader.Ticket {
	return leader.Ticket{ID: job.ID, Words: leader.ParseWords(job.Extra), Live: job.State == bridge.Pending,
		Submitted: job.Submitted, Ended: job.ended}
}

// read reads a ticket. Another job under its number, as after a slurmctld that lost its last seconds, is none.
func (t *Tickets) read(ctx context.Context, id int) (listed, error) {
	job, err := t.line.job(ctx, id)
	if err == nil && !t.client.isTicket(&job) {
		err = bridge.ErrGone
	}
	if errors.Is(err, bridge.ErrGone) {
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

// beat writes the words into a ticket that was just seen to be one: after a slurmctld that lost its last seconds the
// number may be another's job.
func (t *Tickets) beat(ctx context.Context, id int, words leader.Words) error {
	job, err := t.read(ctx, id)
	if err != nil {
		return err
	}
	if job.State != bridge.Pending {
		return fmt.Errorf("it is %s: %w", job.words, bridge.ErrNotPending)
	}
	text := words.String()
	return t.line.post(ctx, id, wire.Change{Extra: &text})
}

// Tear implements leader.Tickets. It kills nothing that it has not just seen to be a ticket.
func (t *Tickets) Tear(ctx context.Context, id int) error {
	job, err := t.read(ctx, id)
	if err == nil && job.State != bridge.Finished {
		err = t.cancel(ctx, id)
	}
	if err != nil && !errors.Is(err, bridge.ErrGone) && !errors.Is(err, bridge.ErrNotRunning) {
		return fmt.Errorf("cancel ticket %d: %w", id, err)
	}
	return nil
}

// cancel sends SIGKILL to a job that waits, which ends it. The signal is named: what a DELETE without one does is not
// ours to rely on.
func (t *Tickets) cancel(ctx context.Context, id int) error {
	return t.line.act(ctx, t.line.api.Signal(strconv.Itoa(id), "KILL", wire.All))
}

// ticketsSeen are the numbers of all tickets that were seen so far, after a look at what is new.
func (c *Client) ticketsSeen(ctx context.Context) ([]int, error) {
	c.observing.Lock()
	defer c.observing.Unlock()
	c.look(true)
	defer c.look(false)
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

// isTicket says that a job has the name and is one of the daemons' own.
func (c *Client) isTicket(job *listed) bool {
	if job.Name != leader.Name || job.Shape != "" || job.Interactive || job.Array != 0 {
		return false
	}
	user := c.options.User
	if user == "" {
		user = c.token.user()
	}
	return job.User == user && user != ""
}

// noteTicket remembers one that was made here, before any listing shows it.
func (m *memory) noteTicket(id int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tickets[id] = true
}

// forgetTicket drops one that is gone. A ticket that was taken for gone too early is found again by its name.
func (m *memory) forgetTicket(id int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tickets, id)
}

// user is whom the token names, as far as it can be read. It proves nothing; slurmctld looks at the signature.
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

// ended is when a job that is over ended.
func ended(state bridge.State, end wire.Number) time.Time {
	if state != bridge.Finished {
		return time.Time{}
	}
	return moment(end)
}
