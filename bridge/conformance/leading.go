package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// leading lists the claims about leader.Tickets.
func leading() []claim {
	return []claim{
		{"ATicketWaitsHeldAndCarriesItsWords", ticketWaits},
		{"TicketsAreNumberedInTheOrderInWhichTheyWereTaken", ticketsAscend},
		{"ABeatReplacesTheWords", beatReplaces},
		{"ATornTicketNeverComesBack", tornIsOver},
		{"AReleasedTicketRunsOutAndTakesNoBeat", releasedEnds},
		{"AUsersJobWithTheNameOfATicketIsNone", usersJobIsNone},
		{"ATicketIsNoneOfTheJobsThatARoundMayStart", ticketIsHeld},
	}
}

// ticketWords are the content of a test's ticket with that number of its beat. Labs are shared by tests that run in
// parallel, so each test is a holder of its own.
func (b *bench) ticketWords(beat int) leader.Words {
	return leader.Words{Holder: b.Name(), Run: "1f", Beat: beat, TTL: 15, Leads: true}
}

// ticket takes a ticket, which is cancelled when the test ends.
func (b *bench) ticket() int {
	b.Helper()
	id, err := b.lab.Tickets().Take(context.Background(), b.ticketWords(1))
	b.must(err)
	b.Cleanup(func() { _ = b.lab.Tickets().Tear(context.Background(), id) })
	return id
}

// tickets lists the tickets with these IDs; without IDs all tickets.
func (b *bench) tickets(ids ...int) []leader.Ticket {
	b.Helper()
	tickets, err := b.lab.Tickets().List(context.Background(), ids...)
	b.must(err)
	return tickets
}

// listTicket is a ticket as listed now. If it is missing the test ends: a ticket stays listed after its end, so that
// other daemons see that it is over.
func (b *bench) listTicket(id int) leader.Ticket {
	b.Helper()
	tickets := b.tickets(id)
	if len(tickets) != 1 || tickets[0].ID != id {
		b.Fatalf("ticket %d: %+v", id, tickets)
	}
	return tickets[0]
}

// ticketWaits: a ticket stays pending with its words, as long as nothing is done to it. If it could start or end by
// itself, its daemon would lose the lead.
func ticketWaits(b *bench) {
	id := b.ticket()
	b.lab.Sleep(6 * time.Second)
	t := b.listTicket(id)
	if !t.Live || t.Words != b.ticketWords(1) || t.Submitted.IsZero() || !t.Ended.IsZero() {
		b.Errorf("got %+v", t)
	}
	if all := b.tickets(); !slices.Contains(all, t) {
		b.Errorf("%+v is not among %+v", t, all)
	}
}

// ticketsAscend: a later ticket has a higher ID. The live ticket with the lowest one leads, so a new daemon never takes
// the lead from another.
func ticketsAscend(b *bench) {
	first, second := b.ticket(), b.ticket()
	all := b.tickets(first, second)
	if len(all) != 2 || first >= second || all[1].Submitted.Before(all[0].Submitted) {
		b.Errorf("%d, then %d: %+v", first, second, all)
	}
}

// beatReplaces: a beat replaces the words of a live ticket. By changing words the other daemons see that its daemon is
// alive.
func beatReplaces(b *bench) {
	id := b.ticket()
	for beat := 2; beat < 5; beat++ {
		b.must(b.lab.Tickets().Beat(context.Background(), id, b.ticketWords(beat)))
		if t := b.listTicket(id); t.Words != b.ticketWords(beat) || !t.Live {
			b.Errorf("after beat %d: %+v", beat, t)
		}
	}
}

// tornIsOver: a cancelled ticket stays cancelled, keeps its words, and refuses beats. Cancelling is the fence: a daemon
// that others took for dead cannot lead any more.
func tornIsOver(b *bench) {
	id := b.ticket()
	for range 2 { // it may be repeated
		b.must(b.lab.Tickets().Tear(context.Background(), id))
	}
	t := b.listTicket(id)
	if t.Live || t.Words != b.ticketWords(1) || t.Ended.Before(t.Submitted) {
		b.Errorf("got %+v", t)
	}
	b.refusesBeats(id)
	if t := b.listTicket(id); t.Words != b.ticketWords(1) {
		b.Errorf("after the beat: %+v", t)
	}
	if all := b.tickets(); !slices.Contains(all, t) {
		b.Errorf("%+v is not among %+v", t, all)
	}
}

// refusesBeats requires that a beat into a ticket that is over fails, so that its holder learns that it must not act.
func (b *bench) refusesBeats(id int) {
	b.Helper()
	err := b.lab.Tickets().Beat(context.Background(), id, b.ticketWords(9))
	if !errors.Is(err, slurm.ErrNotPending) && !errors.Is(err, slurm.ErrGone) {
		b.Errorf("a beat into a ticket that is over: %v", err)
	}
}

// releasedEnds: a ticket that an administrator releases runs, ends, and refuses beats, so it cannot lead for ever.
func releasedEnds(b *bench) {
	id := b.ticket()
	b.lab.Release(b, id)
	for waited := time.Duration(0); b.listTicket(id).Live; waited += pollInterval {
		if waited >= longLimit {
			b.Fatalf("it still waits after %s", longLimit)
		}
		b.lab.Sleep(pollInterval)
	}
	b.waitFor(id, "over", longLimit, isOver)
	b.refusesBeats(id)
}

// usersJobIsNone: a user's job with the name of a ticket is neither listed nor changed: no user can stop the daemons by
// submitting one.
func usersJobIsNone(b *bench) {
	id := b.lab.Submit(b, Job{Name: leader.Name, Held: true})
	b.ticket() // so that the list is updated
	for _, t := range slices.Concat(b.tickets(), b.tickets(id)) {
		if t.ID == id {
			b.Errorf("got %+v", t)
		}
	}
	if err := b.lab.Tickets().Beat(context.Background(), id, b.ticketWords(2)); !errors.Is(err, slurm.ErrGone) {
		b.Errorf("a beat into it: %v", err)
	}
	b.must(b.lab.Tickets().Tear(context.Background(), id))
	if job := b.job(id); job.State != slurm.Pending || job.Extra != "" {
		b.Errorf("it was touched: %+v", job)
	}
}

// ticketIsHeld: a ticket is held and has neither our directive nor GPUs, so no round can take it for a job to start.
func ticketIsHeld(b *bench) {
	job := b.job(b.ticket())
	if job.State != slurm.Pending || !job.Held || job.Comment != "" || job.Request.GPUs != 0 {
		b.Errorf("got %+v", job)
	}
}
