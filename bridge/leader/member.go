package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// Clock is a monotonic clock, independent of the date.
type Clock interface {
	Elapsed() time.Duration
	// Sleep returns after d, or with ctx's error when that ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

// Member is one daemon in the election. Step must be called by one goroutine only; other methods may be called by any.
type Member struct {
	Tickets Tickets
	Clock   Clock
	Holder  string        // identity; kept by a restart on the same host, unique otherwise
	Run     string        // different after each restart
	TTL     time.Duration // time without a beat after which this daemon counts as dead

	ownedTicket  Ticket             // this daemon's ticket; ID 0: none
	words        Words              // as last sent
	adoptedWords Words              // content of an adopted ticket, as an earlier process of this identity left it
	ticketsAhead map[int]ticketView // by ID: the tickets that must be gone before this daemon leads
	givenBack    bool               // the ticket was given back until those in ticketsAhead are gone
	rival        Ticket             // another daemon that was seen alive; ID 0: none

	mu             sync.Mutex
	hasLead        bool // whether the daemon may act, until the time in until
	until          time.Duration
	blockingTicket Ticket // the ticket that leads, or the first ahead; ID 0: none known
}

// ticketView is what was last seen of another ticket, and since when it looks the same, by this daemon's clock.
type ticketView struct {
	state     ticketState
	ttl       time.Duration // the ticket's TTL when it was last listed
	since     time.Duration // when it began to look like this
	isUnknown bool          // nothing is known: not seen yet, or the last list failed
}

// ticketState is what distinguishes a living holder's ticket from a dead one's: the words change with each beat.
type ticketState struct {
	words    Words
	isListed bool
}

// ErrLost means that this daemon's ticket was cancelled by another party or is no longer listed by Slurm.
var ErrLost = errors.New("my ticket is gone")

// leadTime is how long a beat lets its sender act as the leader: three quarters of the TTL. Others count it as dead
// after the whole TTL. The difference covers clocks of different speed and a write that is under way.
func leadTime(ttl time.Duration) time.Duration { return ttl * 3 / 4 }

// beatInterval is the time between two beats, and between two looks at other tickets: a quarter of the TTL, but at
// least minBeatInterval, since slurmctld logs two lines per beat. With the shortest TTL that is a third of it: even if
// Slurm was away for half of the TTL, the next beat comes before others count the sender as dead.
func beatInterval(ttl time.Duration) time.Duration { return max(minBeatInterval, ttl/4) }

// minBeatInterval is the shortest time between two beats.
const minBeatInterval = MinTTL / 3

// Leads reports whether this daemon may act now.
func (m *Member) Leads() bool {
	_, leads := m.Until()
	return leads
}

// Until is the time on its own clock until which this daemon may act, and whether it may act now.
func (m *Member) Until() (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until, m.hasLead && m.Clock.Elapsed() < m.until
}

// Behind is the ticket behind which this daemon waits; false if it knows of none.
func (m *Member) Behind() (Ticket, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blockingTicket, m.blockingTicket.ID != 0
}

// extendLead lets this daemon act until a time.
func (m *Member) extendLead(until time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hasLead, m.until = true, until
}

// endLead makes this daemon stop acting at once, although its last beat may allow more.
func (m *Member) endLead() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hasLead = false
}

// Step makes one move of the protocol and returns the pause until the next. An error is for the log; the next step
// tries again, after a shorter pause. With ErrLost it takes another ticket.
func (m *Member) Step(ctx context.Context) (pause time.Duration, err error) {
	began := m.Clock.Elapsed()
	if err := m.step(ctx); err != nil {
		if errors.Is(err, ErrLost) {
			m.dropTicket()
		}
		return beatInterval(m.TTL) / 2, err
	}
	return max(0, m.pause()-(m.Clock.Elapsed()-began)), nil
}

// step is one move without the pause: find or take a ticket, look at the tickets ahead, and renew this daemon's own. A
// daemon that has given its ticket back only looks at those ahead until all are gone. If this daemon does not lead and
// knows of no ticket ahead, it lists all tickets anew before it leads, since others may have come ahead since its last
// look.
func (m *Member) step(ctx context.Context) error {
	if m.ownedTicket.ID == 0 && !m.givenBack || !m.Leads() && len(m.ticketsAhead) == 0 {
		if err := m.findOrTake(ctx); err != nil {
			return err
		}
	}
	if err := m.watch(ctx); err != nil {
		return err
	}
	if m.ownedTicket.ID == 0 {
		return nil
	}
	return m.beat(ctx)
}

// pause is the time until the next step: beatInterval, or less if a ticket ahead counts as dead sooner, and 0 if none
// is ahead any more, so that this daemon leads at once.
func (m *Member) pause() time.Duration {
	pause := beatInterval(m.TTL)
	if len(m.ticketsAhead) == 0 && !m.Leads() {
		return 0
	}
	now := m.Clock.Elapsed()
	for _, s := range m.ticketsAhead {
		if !s.isUnknown {
			pause = min(pause, max(time.Millisecond, s.since+s.ttl-now))
		}
	}
	return pause
}

// findOrTake finds this daemon's ticket or takes one, and determines which tickets are ahead. Beat numbers go on from
// where an earlier process with the same ticket stopped, since others take unchanged words for a missing beat.
func (m *Member) findOrTake(ctx context.Context) error {
	all, err := m.Tickets.List(ctx)
	if err != nil {
		return err
	}
	own, err := m.ownTicket(ctx, all)
	if err != nil {
		return err
	}
	if own.ID == 0 {
		if own, all, err = m.takeAndList(ctx); err != nil {
			return err
		}
	}
	m.adoptedWords, m.givenBack = own.Words, false
	m.ownedTicket, m.words.Beat = own, max(m.words.Beat, own.Words.Beat)
	return m.lineUp(ctx, all)
}

// ownTicket is the first live ticket of this daemon's identity; ID 0: there is none, so it takes one. It may be from an
// earlier process: the lock on the ledger ensures that that process is dead. Further ones are from a Take whose answer
// was lost, and are cancelled.
func (m *Member) ownTicket(ctx context.Context, all []Ticket) (Ticket, error) {
	var first Ticket
	for _, t := range sorted(all) {
		switch {
		case !t.Live || t.Words.Holder != m.Holder:
		case first.ID == 0:
			first = t
		default:
			if err := m.Tickets.Tear(ctx, t.ID); err != nil {
				return Ticket{}, fmt.Errorf("tear a ticket too many: %w", err)
			}
		}
	}
	return first, nil
}

// takeAndList takes a ticket and then lists all, so that of two daemons that start at once the second sees the first.
// It returns the ticket and the list; ErrLost if the list does not show the new ticket as live.
func (m *Member) takeAndList(ctx context.Context) (Ticket, []Ticket, error) {
	id, err := m.Tickets.Take(ctx, m.nextWords(false))
	if err != nil {
		return Ticket{}, nil, fmt.Errorf("take a ticket: %w", err)
	}
	all, err := m.Tickets.List(ctx)
	if err != nil {
		return Ticket{}, nil, err // the next step finds it by its holder
	}
	for _, t := range all {
		if t.ID == id && t.Live && t.Words.Run == m.Run {
			return t, all, nil
		}
	}
	return Ticket{}, nil, fmt.Errorf("ticket %d: %w", id, ErrLost)
}

// lineUp determines the tickets that must be gone before this daemon leads, and keeps what was seen of them before.
// These are the earlier ones, those of doubtful order, and a later one whose holder leads. If the order of a live
// ticket and this daemon's is in doubt, both daemons might lead. This one then gives its ticket back, and takes another
// one, at the end of the queue, when the tickets ahead are gone.
func (m *Member) lineUp(ctx context.Context, all []Ticket) error {
	known, doubt := m.ticketsAhead, false
	m.ticketsAhead = map[int]ticketView{}
	for id, seen := range known {
		if _, there := find(all, id); !there {
			m.ticketsAhead[id] = seen // Slurm has forgotten it, but its holder may not know yet
		}
	}
	for _, t := range all {
		if !m.otherMayAct(t) {
			continue
		}
		where := orderOf(t, m.ownedTicket)
		doubt = doubt || where == doubtful && t.Live
		if where != behind || t.Words.Leads && t.Live {
			m.ticketsAhead[t.ID] = viewOr(known, t.ID)
		}
	}
	m.setBlockingTicket(all)
	if !doubt {
		return nil
	}
	m.givenBack = true
	return m.Leave(ctx)
}

// viewOr is what was seen of a ticket before. For a ticket that was not seen the view is unknown, so that its TTL is
// counted from the first look at it.
func viewOr(known map[int]ticketView, id int) ticketView {
	if seen, is := known[id]; is {
		return seen
	}
	return ticketView{isUnknown: true}
}

// otherMayAct reports whether another daemon may act by this ticket, so that this one must wait for its end. A ticket
// that was cancelled counts until one TTL later, since its holder may not have noticed. Whether that time is over is
// judged by when this daemon submitted its own ticket, because both that and the other's end are times of slurmctld's
// clock. If the holder wrote that it left, there is no wait.
func (m *Member) otherMayAct(t Ticket) bool {
	switch {
	case t.ID == m.ownedTicket.ID, t.Words.Holder == m.Holder:
		return false
	case t.Live:
		return true
	case m.ownedTicket.Words.Leads:
		return false // this daemon, or an earlier one of its identity, has led since: the other's time is over
	}
	return !t.Words.Left && (t.Ended.IsZero() || m.ownedTicket.Submitted.Sub(t.Ended) < t.Words.ttl())
}

// watch looks at the tickets ahead and at this daemon's own. Tickets ahead whose holders are dead are dropped; ErrLost
// if this daemon's own is gone. If the look fails, nothing is known of the tickets ahead, and their TTLs count anew
// from the next one.
func (m *Member) watch(ctx context.Context) error {
	ids := make([]int, 0, len(m.ticketsAhead)+1)
	for id := range m.ticketsAhead {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if m.ownedTicket.ID != 0 {
		ids = append(ids, m.ownedTicket.ID)
	}
	began := m.Clock.Elapsed()
	found, err := m.list(ctx, ids)
	if err != nil {
		for id, s := range m.ticketsAhead {
			s.isUnknown = true
			m.ticketsAhead[id] = s
		}
		return err
	}
	if err := m.checkOwnTicket(found); err != nil {
		return err
	}
	m.setBlockingTicket(found)
	return m.dropDeadTickets(ctx, began, found)
}

// list lists tickets, with half of the TTL as timeout, so that a slow answer leaves time for another beat. Without IDs
// it returns none.
func (m *Member) list(ctx context.Context, ids []int) ([]Ticket, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.TTL/2)
	defer cancel()
	return m.Tickets.List(ctx, ids...)
}

// checkOwnTicket returns ErrLost if this daemon's ticket is not live or another process writes to it. Until its first
// beat an adopted ticket has the words of the earlier process, which is no loss. Without a ticket there is no error.
func (m *Member) checkOwnTicket(found []Ticket) error {
	if m.ownedTicket.ID == 0 {
		return nil
	}
	for _, t := range found {
		if t.ID == m.ownedTicket.ID && t.Live && t.Words.Holder == m.Holder &&
			(t.Words.Run == m.Run || t.Words == m.adoptedWords) {
			return nil
		}
	}
	return fmt.Errorf("ticket %d: %w", m.ownedTicket.ID, ErrLost)
}

// dropDeadTickets drops tickets ahead whose holders certainly no longer act, those whose holders have left, and later
// ones whose holders no longer lead. It also notes changes of the others, which show that their holders live. A ticket
// that has looked the same for its whole TTL is dead, whether it is pending or not. A pending one is cancelled first
// and looked at again, since its holder may have written a beat at the last moment. began is when the list found was
// asked for, since what it shows may be that old.
func (m *Member) dropDeadTickets(ctx context.Context, began time.Duration, found []Ticket) error {
	for id, seen := range m.ticketsAhead {
		t, known := find(found, id)
		if now := (ticketState{t.Words, known}); seen.isUnknown || seen.state != now {
			m.noteRival(t, seen)
			seen = ticketView{state: now, ttl: seen.ttl, since: m.Clock.Elapsed()}
		}
		// A ticket that is no longer listed keeps the TTL that it had; one that never was has the longest.
		if known || seen.ttl == 0 {
			seen.ttl = t.Words.ttl()
		}
		m.ticketsAhead[id] = seen
		dead := began-seen.since >= seen.ttl
		switch {
		case t.Live && (dead || t.Words.Left):
			if err := m.tear(ctx, id); err != nil {
				return err
			}
		case !t.Live && (dead || t.Words.Left), t.Live && m.noLongerLeads(t):
			delete(m.ticketsAhead, id)
		}
	}
	return nil
}

// tear cancels the ticket of a holder that is dead or has left, so that the holder cannot lead by it any more. The next
// look shows whether the holder sent a beat before that; for a dead holder it follows at once.
func (m *Member) tear(ctx context.Context, id int) error {
	ctx, cancel := context.WithTimeout(ctx, m.TTL/2)
	defer cancel()
	if err := m.Tickets.Tear(ctx, id); err != nil {
		return fmt.Errorf("tear ticket %d of a dead daemon: %w", id, err)
	}
	return nil
}

// nextWords returns the words of the next beat. The beat number rises each time, so equal words mean that no beat was
// sent.
func (m *Member) nextWords(leads bool) Words {
	m.words = Words{Holder: m.Holder, Run: m.Run, Beat: m.words.Beat + 1, TTL: int(m.TTL / time.Second), Leads: leads}
	return m.words
}

// noteRival notes that another holder is alive, since its ticket has changed since the last look; Win then gives up.
// The first look at a ticket shows no change.
func (m *Member) noteRival(t Ticket, before ticketView) {
	if t.Live && !t.Words.Left && !before.isUnknown {
		m.rival = t
	}
}

// noLongerLeads reports whether a ticket behind this daemon's was watched only because its holder led, and the holder
// no longer leads. Then this daemon does not wait for it any more.
func (m *Member) noLongerLeads(t Ticket) bool {
	return m.ownedTicket.ID != 0 && orderOf(t, m.ownedTicket) == behind && !t.Words.Leads
}

// beat renews this daemon's ticket. Without tickets ahead it also extends the lead, counted from when the beat was
// sent: others count from when they see it, which is later.
func (m *Member) beat(ctx context.Context) error {
	sent, leads := m.Clock.Elapsed(), len(m.ticketsAhead) == 0
	ctx, cancel := context.WithTimeout(ctx, m.TTL/2)
	defer cancel()
	if !leads {
		m.endLead()
	}
	err := m.Tickets.Beat(ctx, m.ownedTicket.ID, m.nextWords(leads))
	switch {
	case errors.Is(err, slurm.ErrGone), errors.Is(err, slurm.ErrNotPending):
		return fmt.Errorf("ticket %d: %w: %w", m.ownedTicket.ID, ErrLost, err)
	case err != nil:
		return err
	}
	if leads {
		m.extendLead(sent + leadTime(m.TTL))
	}
	return nil
}

// Led is the error of a daemon that wanted to lead while another one does.
type Led struct{ By Ticket }

func (l Led) Error() string {
	return fmt.Sprintf("%s leads, or will before this one: its ticket is job %d", l.By.Words.Holder, l.By.ID)
}

// Unwrap makes Led an ErrNotLeader: nothing was sent to Slurm.
func (l Led) Unwrap() error { return slurm.ErrNotLeader }

// Win steps until this daemon leads. It waits for dead daemons, at most their TTL. If another one is alive it gives its
// ticket back and returns Led.
func (m *Member) Win(ctx context.Context) error {
	m.rival = Ticket{}
	for {
		pause, err := m.Step(ctx)
		switch {
		case err == nil && m.Leads():
			return nil
		case err == nil && m.rival.ID != 0:
			err = Led{m.rival}
		}
		if err == nil {
			err = m.Clock.Sleep(ctx, pause)
		}
		if err != nil {
			return errors.Join(err, m.Leave(context.WithoutCancel(ctx)))
		}
	}
}

// dropTicket drops a lost ticket and ends the lead. The next step takes another ticket, at the end of the queue.
func (m *Member) dropTicket() {
	m.endLead()
	m.ownedTicket = Ticket{}
}

// Leave gives the ticket back, so that a successor need not wait. Call it when this daemon no longer acts, after the
// last Step.
func (m *Member) Leave(ctx context.Context) error {
	m.endLead()
	if m.ownedTicket.ID == 0 {
		return nil
	}
	words := m.nextWords(false)
	words.Left = true
	if err := m.Tickets.Beat(ctx, m.ownedTicket.ID, words); err != nil {
		return fmt.Errorf("give ticket %d back: %w", m.ownedTicket.ID, err)
	}
	if err := m.Tickets.Tear(ctx, m.ownedTicket.ID); err != nil {
		return fmt.Errorf("give ticket %d back: %w", m.ownedTicket.ID, err)
	}
	m.ownedTicket = Ticket{}
	return nil
}

// setBlockingTicket sets the ticket that is reported as the one for which this daemon waits: the leading one among
// those ahead, or else the first of them; ID 0 if none is ahead.
func (m *Member) setBlockingTicket(found []Ticket) {
	var chief Ticket
	for _, t := range sorted(found) {
		if _, before := m.ticketsAhead[t.ID]; before && (chief.ID == 0 || t.Words.Leads && !chief.Words.Leads) {
			chief = t
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blockingTicket = chief
}

// find is the ticket with this ID; if it is not listed, one with nothing but the ID.
func find(tickets []Ticket, id int) (Ticket, bool) {
	for _, t := range tickets {
		if t.ID == id {
			return t, true
		}
	}
	return Ticket{ID: id}, false
}

// sorted is a new list of the tickets, ascending in ID.
func sorted(tickets []Ticket) []Ticket {
	return slices.SortedFunc(slices.Values(tickets), func(a, b Ticket) int { return cmp.Compare(a.ID, b.ID) })
}
