package slurmtest

import (
	"context"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// Daemons is the user whose jobs are tickets.
const Daemons = "synergy"

// Tickets is the daemons' queue for the election.
type Tickets struct{ slurm *Slurm }

var _ leader.Tickets = Tickets{}

// Tickets returns the tickets of the user Daemons.
func (s *Slurm) Tickets() Tickets { return Tickets{s} }

// Take implements leader.Tickets.
func (t Tickets) Take(ctx context.Context, words leader.Words) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("take a ticket: %w", err)
	}
	return t.slurm.Submit(Spec{Name: leader.Name, User: Daemons, Extra: words.String(), Held: true, NoRequeue: true,
		Work: Work{Length: time.Millisecond}})
}

// List implements leader.Tickets. Without IDs it lists all tickets that Slurm still knows, ascending.
func (t Tickets) List(ctx context.Context, ids ...int) ([]leader.Ticket, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list tickets: %w", err)
	}
	t.slurm.mu.Lock()
	defer t.slurm.mu.Unlock()
	if len(ids) == 0 {
		for id := range t.slurm.jobs {
			ids = append(ids, id+1)
		}
	}
	var tickets []leader.Ticket
	for _, id := range ids {
		if j, err := t.ticket(id); err == nil {
			tickets = append(tickets, leader.Ticket{ID: id, Words: leader.ParseWords(j.extra),
				Live:      j.state == slurm.Pending,
				Submitted: j.submitted, Ended: j.history.Ended})
		}
	}
	return tickets, nil
}

// ticket finds a ticket that Slurm still knows, live or over, else ErrGone. The user is compared, because any user may
// submit a job with a ticket's name.
func (t Tickets) ticket(id int) (*job, error) {
	j, err := t.slurm.known(id)
	if err != nil || j.spec.Name != leader.Name || j.spec.User != Daemons {
		return nil, slurm.ErrGone
	}
	return j, nil
}

// Beat implements leader.Tickets. A ticket that is over takes no words, so that its daemon learns that it must not act.
func (t Tickets) Beat(ctx context.Context, id int, words leader.Words) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	t.slurm.mu.Lock()
	defer t.slurm.mu.Unlock()
	j, err := t.ticket(id)
	if err == nil && j.state != slurm.Pending {
		err = slurm.ErrNotPending
	}
	if err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	j.extra = words.String()
	t.slurm.noteUpdate(j)
	return nil
}

// Tear implements leader.Tickets.
func (t Tickets) Tear(ctx context.Context, id int) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("tear: %w", err)
	}
	t.slurm.mu.Lock()
	_, err := t.ticket(id)
	t.slurm.mu.Unlock()
	if err == nil {
		t.slurm.Cancel(id)
	}
	return nil
}
