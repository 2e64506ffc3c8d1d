package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// Clock is a time that passes evenly whatever becomes of the date.
type Clock interface {
	Elapsed() time.Duration
	// Sleep returns after d, or with ctx's error when that ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

// Member is a daemon among those that could lead. Step is called by one goroutine, again and again; the rest by any.
type Member struct {
	Tickets Tickets
	Clock   Clock
	Holder  string // the same after a restart on the same host, and nobody else's
	Run     string // another one after each restart
	TTL     time.Duration

	mine    Ticket        // ID 0: none
	words   Words         // as last sent
	foreign Words         // of my ticket, as a dead process with my identity left them
	before  map[int]sight // the tickets that must be gone before I lead
	apart   bool          // I gave my ticket back until those are gone
	rival   Ticket        // whom I have seen alive; ID 0: nobody

	mu    sync.Mutex
	sure  bool // that it leads, until then
	until time.Duration
	chief Ticket // whom it stands behind; ID 0: nobody it knows of
}

// sight is how long a ticket has looked the same.
type sight struct {
	look   look
	ttl    time.Duration // as the ticket said when it was last there
	since  time.Duration
	broken bool // nothing is known: it was not looked at yet, or a look failed since
}

// look is what of a ticket tells a living holder from a dead one.
type look struct {
	words Words
	known bool
}

// ErrLost is the end of a ticket by another hand, or that Slurm does not list it any more.
var ErrLost = errors.New("my ticket is gone")

// trust is the part of the time to live for which a beat lets its sender believe that it leads. Others take it for dead
// after all of it: what lies between is for clocks that run at different speeds, and for a write that is under way.
func trust(ttl time.Duration) time.Duration { return ttl * 3 / 4 }

// every is the time between two beats, and between two looks. slurmctld logs each beat in two lines, so a short time to
// live has three of them and not four: the next one still comes before the others take its sender for dead when Slurm
// was away for half of it.
func every(ttl time.Duration) time.Duration { return max(seldom, ttl/4) }

// seldom is the least time between two beats.
const seldom = MinTTL / 3

// Leads says whether this daemon may act now.
func (m *Member) Leads() bool {
	_, leads := m.Until()
	return leads
}

// Until is the moment up to which this daemon may act, on its own clock.
func (m *Member) Until() (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until, m.sure && m.Clock.Elapsed() < m.until
}

// Behind is the ticket that this daemon stands behind; false when it knows of none.
func (m *Member) Behind() (Ticket, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.chief, m.chief.ID != 0
}

// believe lets this daemon act up to a moment.
func (m *Member) believe(until time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sure, m.until = true, until
}

// doubt lets it act no more.
func (m *Member) doubt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sure = false
}

// Step makes the next move and says how long to wait until the one after it. An error is for the log: the next step
// tries again.
func (m *Member) Step(ctx context.Context) (pause time.Duration, err error) {
	began := m.Clock.Elapsed()
	if err := m.step(ctx); err != nil {
		if errors.Is(err, ErrLost) {
			m.forget()
		}
		return every(m.TTL) / 2, err
	}
	return max(0, m.pause()-(m.Clock.Elapsed()-began)), nil
}

// step makes sure of everybody before it leads: whoever does not lead and sees nobody ahead looks at all tickets once
// more, since much may have happened while it was silent.
func (m *Member) step(ctx context.Context) error {
	if m.mine.ID == 0 && !m.apart || !m.Leads() && len(m.before) == 0 {
		if err := m.enter(ctx); err != nil {
			return err
		}
	}
	if err := m.watch(ctx); err != nil {
		return err
	}
	if m.mine.ID == 0 {
		return nil
	}
	return m.beat(ctx)
}

// pause is short where somebody's time is up sooner than the next look is due, or nobody is ahead any more.
func (m *Member) pause() time.Duration {
	pause := every(m.TTL)
	if len(m.before) == 0 && !m.Leads() {
		return 0
	}
	now := m.Clock.Elapsed()
	for _, s := range m.before {
		if !s.broken {
			pause = min(pause, max(time.Millisecond, s.since+s.ttl-now))
		}
	}
	return pause
}

// enter finds this daemon's ticket or takes one, and notes who is ahead.
func (m *Member) enter(ctx context.Context) error {
	all, err := m.Tickets.List(ctx)
	if err != nil {
		return err
	}
	own, err := m.own(ctx, all)
	if err != nil {
		return err
	}
	if own.ID == 0 {
		if own, all, err = m.take(ctx); err != nil {
			return err
		}
	}
	m.foreign, m.apart = own.Words, false
	m.mine, m.words.Beat = own, max(m.words.Beat, own.Words.Beat)
	return m.lineUp(ctx, all)
}

// own is the first live ticket with my name. It is mine even if I took it in an earlier life: the lock on the ledger
// says that the process that had this identity is dead. Others of mine are left over from a Take whose answer was lost.
func (m *Member) own(ctx context.Context, all []Ticket) (Ticket, error) {
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

// take takes a ticket first and looks at the others afterwards: of two that start at once, the second sees the first.
func (m *Member) take(ctx context.Context) (Ticket, []Ticket, error) {
	id, err := m.Tickets.Take(ctx, m.next(false))
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

// lineUp notes who must be gone before I lead. What was seen of them before is kept. Where the order is in doubt I go
// to the end: my ticket is given back, and another one is taken when those are gone.
func (m *Member) lineUp(ctx context.Context, all []Ticket) error {
	known, doubt := m.before, false
	m.before = map[int]sight{}
	for id, seen := range known {
		if _, there := find(all, id); !there {
			m.before[id] = seen // Slurm has forgotten it, and its holder may not know yet
		}
	}
	for _, t := range all {
		if !m.counts(t) {
			continue
		}
		where := place(t, m.mine)
		doubt = doubt || where == doubtful && t.Live
		if where != behind || t.Words.Leads && t.Live {
			m.before[t.ID] = orNothing(known, t.ID)
		}
	}
	m.name(all)
	if !doubt {
		return nil
	}
	m.apart = true
	return m.Leave(ctx)
}

// orNothing is what is known of a ticket.
func orNothing(known map[int]sight, id int) sight {
	if seen, is := known[id]; is {
		return seen
	}
	return sight{broken: true}
}

// counts says whether somebody may act by this ticket. One that was cancelled counts for as long as its holder may not
// have noticed; both times are slurmctld's.
func (m *Member) counts(t Ticket) bool {
	switch {
	case t.ID == m.mine.ID, t.Words.Holder == m.Holder:
		return false
	case t.Live:
		return true
	case m.mine.Words.Leads:
		return false // by my ticket I have led since, or a process before me with my name
	}
	return !t.Words.Left && (t.Ended.IsZero() || m.mine.Submitted.Sub(t.Ended) < t.Words.ttl())
}

// watch looks at those ahead, and at my own ticket.
func (m *Member) watch(ctx context.Context) error {
	ids := make([]int, 0, len(m.before)+1)
	for id := range m.before {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if m.mine.ID != 0 {
		ids = append(ids, m.mine.ID)
	}
	began := m.Clock.Elapsed()
	found, err := m.list(ctx, ids)
	if err != nil {
		for id, s := range m.before {
			s.broken = true
			m.before[id] = s
		}
		return err
	}
	if err := m.mineStill(found); err != nil {
		return err
	}
	m.name(found)
	return m.outlast(ctx, began, found)
}

// list asks for tickets, for no longer than a beat is worth.
func (m *Member) list(ctx context.Context, ids []int) ([]Ticket, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.TTL/2)
	defer cancel()
	return m.Tickets.List(ctx, ids...)
}

// mineStill finds out that my ticket is still there and nobody else writes to it.
func (m *Member) mineStill(found []Ticket) error {
	if m.mine.ID == 0 {
		return nil
	}
	for _, t := range found {
		if t.ID == m.mine.ID && t.Live && t.Words.Holder == m.Holder && (t.Words.Run == m.Run || t.Words == m.foreign) {
			return nil
		}
	}
	return fmt.Errorf("ticket %d: %w", m.mine.ID, ErrLost)
}

// outlast drops those ahead of whom it is certain that they do not act any more. A ticket that has looked the same for
// a whole time to live is dead, whether it waits or not; one that waits is torn then, and looked at once more, since
// its holder may have written into it at the last moment.
func (m *Member) outlast(ctx context.Context, began time.Duration, found []Ticket) error {
	for id, seen := range m.before {
		t, known := find(found, id)
		if now := (look{t.Words, known}); seen.broken || seen.look != now {
			m.meet(t, seen)
			seen = sight{look: now, ttl: seen.ttl, since: m.Clock.Elapsed()}
		}
		if known || seen.ttl == 0 {
			seen.ttl = t.Words.ttl()
		}
		m.before[id] = seen
		dead := began-seen.since >= seen.ttl
		switch {
		case t.Live && (dead || t.Words.Left):
			if err := m.tear(ctx, id); err != nil {
				return err
			}
		case !t.Live && (dead || t.Words.Left), t.Live && m.overtaken(t):
			delete(m.before, id)
		}
	}
	return nil
}

// tear fences the holder of a ticket. The next look, at once, tells whether that came in time.
func (m *Member) tear(ctx context.Context, id int) error {
	ctx, cancel := context.WithTimeout(ctx, m.TTL/2)
	defer cancel()
	if err := m.Tickets.Tear(ctx, id); err != nil {
		return fmt.Errorf("tear ticket %d of a dead daemon: %w", id, err)
	}
	return nil
}

// next are the words of the next beat. Each is sent once: a word that is seen twice was not renewed in between.
func (m *Member) next(leads bool) Words {
	m.words = Words{Holder: m.Holder, Run: m.Run, Beat: m.words.Beat + 1, TTL: int(m.TTL / time.Second), Leads: leads}
	return m.words
}

// meet notes a holder that is alive: its ticket looks different from before.
func (m *Member) meet(t Ticket, before sight) {
	if t.Live && !t.Words.Left && !before.broken {
		m.rival = t
	}
}

// overtaken says that a ticket behind mine was watched only because its holder led, which it does not any more.
func (m *Member) overtaken(t Ticket) bool {
	return m.mine.ID != 0 && place(t, m.mine) == behind && !t.Words.Leads
}

// beat says that I live. Only a beat with nobody ahead lets me believe that I lead, and from the moment at which it was
// sent.
func (m *Member) beat(ctx context.Context) error {
	sent, leads := m.Clock.Elapsed(), len(m.before) == 0
	ctx, cancel := context.WithTimeout(ctx, m.TTL/2)
	defer cancel()
	if !leads {
		m.doubt()
	}
	err := m.Tickets.Beat(ctx, m.mine.ID, m.next(leads))
	switch {
	case errors.Is(err, bridge.ErrGone), errors.Is(err, bridge.ErrNotPending):
		return fmt.Errorf("ticket %d: %w: %w", m.mine.ID, ErrLost, err)
	case err != nil:
		return err
	}
	if leads {
		m.believe(sent + trust(m.TTL))
	}
	return nil
}

// Led is the error of who wanted to lead while somebody else does.
type Led struct{ By Ticket }

func (l Led) Error() string {
	return fmt.Sprintf("%s leads, or will before this one: its ticket is job %d", l.By.Words.Holder, l.By.ID)
}

func (l Led) Unwrap() error { return bridge.ErrNotLeader }

// Win steps until this daemon leads. It waits for those that are dead, a time to live at most, and gives its ticket
// back with the error Led when one of them is alive.
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

// forget lets go of a ticket that is gone. The next step takes another one, at the end of the queue.
func (m *Member) forget() {
	m.doubt()
	m.mine = Ticket{}
}

// Leave gives the ticket back, so that a successor need not wait. It is called when this daemon acts no more, and after
// the last Step.
func (m *Member) Leave(ctx context.Context) error {
	m.doubt()
	if m.mine.ID == 0 {
		return nil
	}
	words := m.next(false)
	words.Left = true
	if err := m.Tickets.Beat(ctx, m.mine.ID, words); err != nil {
		return fmt.Errorf("give ticket %d back: %w", m.mine.ID, err)
	}
	if err := m.Tickets.Tear(ctx, m.mine.ID); err != nil {
		return fmt.Errorf("give ticket %d back: %w", m.mine.ID, err)
	}
	m.mine = Ticket{}
	return nil
}

// name notes who leads: the first of those ahead, as far as there are any.
func (m *Member) name(found []Ticket) {
	var chief Ticket
	for _, t := range sorted(found) {
		if _, before := m.before[t.ID]; before && (chief.ID == 0 || t.Words.Leads && !chief.Words.Leads) {
			chief = t
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chief = chief
}

func find(tickets []Ticket, id int) (Ticket, bool) {
	for _, t := range tickets {
		if t.ID == id {
			return t, true
		}
	}
	return Ticket{ID: id}, false
}

func sorted(tickets []Ticket) []Ticket {
	return slices.SortedFunc(slices.Values(tickets), func(a, b Ticket) int { return cmp.Compare(a.ID, b.ID) })
}
