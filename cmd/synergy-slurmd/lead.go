package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

// leaveLimit is how long a daemon that stops tries to give its ticket back; a successor then waits for a time to live.
const leaveLimit = 5 * time.Second

// seat is the daemon's place among those that could lead. A nil one is that of a daemon that is alone, by its
// administrator's promise, or only watches.
type seat struct {
	member *leader.Member
	log    zerolog.Logger
	// takeover is called when this daemon leads after another one.
	takeover func()
	show     func(leads bool)
	crowned  chan struct{} // has room for one: this daemon leads, and did not before

	mu     sync.Mutex
	leads  bool
	behind leader.Ticket // ID 0: nobody
	err    error         // of the last step
	stood  bool          // behind somebody, since it led last
}

// newSeat is the seat of the daemon with this ledger, or nil where it takes no ticket.
func newSeat(f flags, book *ledger.Book, tickets leader.Tickets, log zerolog.Logger, numbers *metrics) (*seat, error) {
	if f.alone || f.shadow {
		numbers.leads(!f.shadow)
		return nil, nil
	}
	identity, err := book.Identity()
	if err != nil {
		return nil, err
	}
	return &seat{
		member: newMember(f, identity, tickets), log: log, show: numbers.leads, takeover: func() {},
		crowned: make(chan struct{}, 1),
	}, nil
}

// newMember is known by its host and by what its ledger says: the lock on that file proves that an earlier process of
// that name is dead.
func newMember(f flags, identity string, tickets leader.Tickets) *leader.Member {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &leader.Member{
		Tickets: tickets, Clock: wall{}, TTL: leader.TTLFor(f.round),
		Holder: host + "/" + identity, Run: fmt.Sprintf("%08x", rand.Uint32()),
	}
}

// fence is slurm as this daemon may use it.
func (s *seat) fence(slurm bridge.Slurm) bridge.Slurm {
	if s == nil {
		return slurm
	}
	return leader.Fence{Slurm: slurm, Member: s.member}
}

// fenceSplitter is the same for who splits arrays.
func (s *seat) fenceSplitter(splits bridge.Splitter) bridge.Splitter {
	if s == nil || splits == nil {
		return splits
	}
	return leader.FencedSplitter{Splitter: splits, Fence: leader.Fence{Member: s.member}}
}

// take begins to step, and returns the function that ends it and gives the ticket back.
func (s *seat) take() (leave func()) {
	if s == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var sitting sync.WaitGroup
	sitting.Go(func() { s.sit(ctx) })
	return func() {
		cancel()
		sitting.Wait()
		s.leave()
	}
}

// sit steps until ctx ends.
func (s *seat) sit(ctx context.Context) {
	for ctx.Err() == nil {
		pause, err := s.member.Step(ctx)
		if ctx.Err() == nil {
			s.note(err)
		}
		_ = s.member.Clock.Sleep(ctx, pause) // it ends early with ctx alone
	}
}

func (s *seat) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	if err := s.member.Leave(ctx); err != nil {
		s.log.Info().Err(err).Msg("the ticket was not given back: a successor waits until it is stale")
	}
}

// win is for one round: this daemon leads now, or the error says who does.
func (s *seat) win(ctx context.Context) error {
	if s == nil {
		return nil
	}
	err := s.member.Win(ctx)
	s.note(err)
	return err
}

// note tells everybody what has changed, once.
func (s *seat) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	leads := s.member.Leads()
	behind, isBehind := s.member.Behind()
	s.err = unheard(err)
	s.show(leads)
	switch {
	case leads && !s.leads:
		s.lead()
	case isBehind && behind.ID != s.behind.ID:
		s.stood, s.behind = true, behind
		s.log.Info().Str("leader", behind.Words.Holder).Int("ticket", behind.ID).Msg("standing by")
	case !leads && s.leads:
		s.log.Info().AnErr("reason", err).Msg("standing by: slurm did not confirm the lead in time")
	}
	s.leads = leads
}

// unheard names a step that ran out of time for what it is: nothing was heard of Slurm. It is no round that took too
// long.
func unheard(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, bridge.ErrUnreachable) {
		return fmt.Errorf("%w: %w", err, bridge.ErrUnreachable)
	}
	return err
}

func (s *seat) lead() {
	s.log.Info().Str("holder", s.member.Holder).Bool("takeover", s.stood).Msg("leading")
	if s.stood {
		s.takeover()
	}
	s.stood, s.behind = false, leader.Ticket{}
	select {
	case s.crowned <- struct{}{}:
	default: // nobody has looked since the last time
	}
}

// errUnconfirmed stands for the time between a beat that did not come through and the step that says why.
var errUnconfirmed = fmt.Errorf("slurm did not confirm the lead in time: %w", bridge.ErrUnreachable)

// position is nil when this daemon leads, or else either the sentence that says behind whom it stands, or what went
// wrong.
func (s *seat) position() (line string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.leads && s.member.Leads():
		// a lead counts once note has told of it: its news would else come after the round that it is for
		return "", nil
	case s.err != nil:
		return "", s.err
	case s.behind.ID != 0:
		return fmt.Sprintf("standing by: %s leads by job %d", s.behind.Words.Holder, s.behind.ID), nil
	case s.leads:
		return "", errUnconfirmed
	}
	return "standing by: looking for the leader", nil
}

// news comes when this daemon leads and did not before.
func (s *seat) news() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.crowned
}

// heard takes the news of a lead back, where somebody acts on it already.
func (s *seat) heard() {
	select {
	case <-s.crowned:
	default:
	}
}

// await returns when this daemon may act, with nil, or cannot even stand by. While it stands by it follows reloads, is
// well, and holds no rounds.
func (d *daemon) await(ctx context.Context) error {
	if d.seat == nil {
		return nil
	}
	tick := time.NewTicker(d.seat.member.TTL / 4)
	defer tick.Stop()
	for ctx.Err() == nil {
		line, err := d.seat.position()
		if line == "" {
			d.seat.heard()
			d.health.lead(time.Now())
			return err
		}
		d.journal.recovery()
		d.failures = 0
		d.health.standBy(line)
		d.manager.standBy(line)
		d.expect(d.seat.member.TTL + slack)
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-d.seat.news():
		case <-d.hangups:
			d.reconfigure()
		}
	}
	return errStopped
}

// queue opens Slurm for the member as soon as it wants something, and again after a reload.
type queue struct{ slurm *connector }

var _ leader.Tickets = queue{}

func (q queue) Take(ctx context.Context, words leader.Words) (int, error) {
	tickets, err := q.slurm.tickets(ctx)
	if err != nil {
		return 0, err
	}
	id, err := tickets.Take(ctx, words)
	if errors.Is(err, bridge.ErrRefused) || errors.Is(err, bridge.ErrDenied) {
		err = fmt.Errorf(
			"%w: let the daemon's user submit jobs there, or start the daemon with --alone and see to it that there "+
				"is no second one", err)
	}
	return id, err
}

func (q queue) List(ctx context.Context, ids ...int) ([]leader.Ticket, error) {
	tickets, err := q.slurm.tickets(ctx)
	if err != nil {
		return nil, err
	}
	return tickets.List(ctx, ids...)
}

func (q queue) Beat(ctx context.Context, id int, words leader.Words) error {
	tickets, err := q.slurm.tickets(ctx)
	if err != nil {
		return err
	}
	return tickets.Beat(ctx, id, words)
}

func (q queue) Tear(ctx context.Context, id int) error {
	tickets, err := q.slurm.tickets(ctx)
	if err != nil {
		return err
	}
	return tickets.Tear(ctx, id)
}

// recollection is the ledger of a daemon that may lead after others: what it remembers of jobs is then older than what
// they carry in their annotations, and is left out until a round has settled anew.
type recollection struct {
	*ledger.Book

	mu    sync.Mutex
	stale bool
}

func (r *recollection) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = true
}

// Load implements bridge.Ledger.
func (r *recollection) Load() (bridge.Records, *bridge.Intent, error) {
	records, intent, err := r.Book.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stale {
		records = nil
	}
	return records, intent, err
}

// Settle implements bridge.Ledger.
func (r *recollection) Settle(records bridge.Records, report bridge.Report) error {
	err := r.Book.Settle(records, report)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = r.stale && err != nil
	return err
}
