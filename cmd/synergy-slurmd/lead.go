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
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

// leaveLimit is how long a stopping daemon tries to give its ticket back. Without that its successor waits until the
// ticket is stale.
const leaveLimit = 5 * time.Second

// elector is this daemon's part in the leader election (package leader): it renews the daemon's ticket and knows
// whether the daemon leads. A nil elector means that the daemon takes no ticket: it is alone, as the administrator
// promised by --alone, or in shadow mode.
type elector struct {
	member *leader.Member
	log    zerolog.Logger
	// takeover is called when this daemon becomes the leader after another one.
	takeover   func()
	show       func(leads bool)
	leadGained chan struct{} // buffer of one; a value means: this daemon leads, and did not before

	mu     sync.Mutex
	leads  bool
	behind leader.Ticket // ID 0: none
	err    error         // of the last step
	stood  bool          // behind another daemon, since this one led last
}

// newElector is the elector of the daemon with this ledger, or nil if the daemon takes no ticket.
func newElector(
	f flags,
	book *ledger.Book,
	tickets leader.Tickets,
	log zerolog.Logger,
	numbers *metrics,
) (*elector, error) {
	if f.alone || f.shadow {
		numbers.leads(!f.shadow)
		return nil, nil
	}
	identity, err := book.Identity()
	if err != nil {
		return nil, err
	}
	return &elector{
		member: newMember(f, identity, tickets), log: log, show: numbers.leads, takeover: func() {},
		leadGained: make(chan struct{}, 1),
	}, nil
}

// newMember is a member of the election named by its host and the identity in its ledger. The lock on the ledger proves
// that an earlier process of that name is dead.
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

// fence makes all writes to Slurm fail when this daemon does not lead.
func (s *elector) fence(manager slurm.Manager) slurm.Manager {
	if s == nil {
		return manager
	}
	return leader.Fence{Manager: manager, Member: s.member}
}

// fenceSplitter makes splits of arrays fail when this daemon does not lead. nil stays nil: the workload manager splits
// none.
func (s *elector) fenceSplitter(splits slurm.Splitter) slurm.Splitter {
	if s == nil || splits == nil {
		return splits
	}
	return leader.FencedSplitter{Splitter: splits, Fence: leader.Fence{Member: s.member}}
}

// fenceLeases makes changes of the lease job fail when this daemon does not lead. Without an elector there is no lease
// job (nil): the daemon's user may submit no job then, and each waiting job has a begin time instead.
func (s *elector) fenceLeases(leases slurm.Leases) slurm.Leases {
	if s == nil || leases == nil {
		return nil
	}
	return leader.FencedLeases{Leases: leases, Fence: leader.Fence{Member: s.member}}
}

// join starts taking part in the election. leave ends that and gives the ticket back.
func (s *elector) join() (leave func()) {
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

// sit takes step after step of the election until ctx ends.
func (s *elector) sit(ctx context.Context) {
	for ctx.Err() == nil {
		pause, err := s.member.Step(ctx)
		if ctx.Err() == nil {
			s.recordStep(err)
		}
		_ = s.member.Clock.Sleep(ctx, pause) // fails only if ctx has ended
	}
}

// leave gives the ticket back. If that fails, only the successor waits longer.
func (s *elector) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	if err := s.member.Leave(ctx); err != nil {
		s.log.Info().Err(err).Msg("the ticket was not given back: a successor waits until it is stale")
	}
}

// win is for a single round: it waits until this daemon leads, or returns an error that says which daemon does.
func (s *elector) win(ctx context.Context) error {
	if s == nil {
		return nil
	}
	err := s.member.Win(ctx)
	s.recordStep(err)
	return err
}

// recordStep takes over the state of the election after a step, and logs and signals changes once. A daemon that stands
// by for the same leader as before has nothing to log.
func (s *elector) recordStep(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	leads := s.member.Leads()
	behind, isBehind := s.member.Behind()
	s.err = markUnreachable(err)
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

// markUnreachable adds slurm.ErrUnreachable to a step that ran out of time, because it means that Slurm did not answer.
// Without that it would be reported as a round that took too long.
func markUnreachable(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, slurm.ErrUnreachable) {
		return fmt.Errorf("%w: %w", err, slurm.ErrUnreachable)
	}
	return err
}

// lead logs that this daemon has become the leader, and signals it. It is called with mu held.
func (s *elector) lead() {
	s.log.Info().Str("holder", s.member.Holder).Bool("takeover", s.stood).Msg("leading")
	if s.stood {
		s.takeover()
	}
	s.stood, s.behind = false, leader.Ticket{}
	select {
	case s.leadGained <- struct{}{}:
	default: // the last signal has not been read yet
	}
}

// errUnconfirmed is the state between a renewal that was not confirmed and the next step, which finds out why.
var errUnconfirmed = fmt.Errorf("slurm did not confirm the lead in time: %w", slurm.ErrUnreachable)

// position returns "" and nil if this daemon leads. Otherwise it returns a sentence that says which daemon it stands by
// for, or the error.
func (s *elector) position() (line string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.leads && s.member.Leads():
		// Both must hold: note must have signalled the lead, or its signal would come after the round that it is for.
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

// leadSignal delivers a value when this daemon has become the leader. nil, without an elector, never delivers.
func (s *elector) leadSignal() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.leadGained
}

// clearLeadSignal discards a signal of news, since its caller acts on the lead already.
func (s *elector) clearLeadSignal() {
	select {
	case <-s.leadGained:
	default:
	}
}

// await returns nil when this daemon may act, and an error if it cannot even stand by or ctx ends. While it stands by
// it reloads the configuration when asked to, is healthy, and holds no rounds.
func (d *daemon) await(ctx context.Context) error {
	if d.elector == nil {
		return nil
	}
	tick := time.NewTicker(d.elector.member.TTL / 4)
	defer tick.Stop()
	for ctx.Err() == nil {
		line, err := d.elector.position()
		if line == "" {
			d.elector.clearLeadSignal()
			d.health.lead(time.Now())
			return err
		}
		// Rounds that failed before are another daemon's concern now, and are not counted on.
		d.journal.recovery()
		d.failures = 0
		d.health.standBy(line)
		d.serviceManager.standBy(line)
		d.expect(d.elector.member.TTL + slack)
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-d.elector.leadSignal():
		case <-d.hangups:
			d.reconfigure()
		}
	}
	return errStopped
}

// lazyTickets is the tickets for the election. It opens Slurm when they are first used, and again after a reload.
type lazyTickets struct{ slurm *connector }

var _ leader.Tickets = lazyTickets{}

// Take submits the ticket. If Slurm refuses that, the error has the remedy.
func (q lazyTickets) Take(ctx context.Context, words leader.Words) (int, error) {
	tickets, err := q.slurm.tickets(ctx)
	if err != nil {
		return 0, err
	}
	id, err := tickets.Take(ctx, words)
	if errors.Is(err, slurm.ErrRefused) || errors.Is(err, slurm.ErrDenied) {
		err = fmt.Errorf(
			"%w: let the daemon's user submit jobs there, or start the daemon with --alone and see to it that there "+
				"is no second one", err)
	}
	return id, err
}

func (q lazyTickets) List(ctx context.Context, ids ...int) ([]leader.Ticket, error) {
	tickets, err := q.slurm.tickets(ctx)
	if err != nil {
		return nil, err
	}
	return tickets.List(ctx, ids...)
}

func (q lazyTickets) Beat(ctx context.Context, id int, words leader.Words) error {
	tickets, err := q.slurm.tickets(ctx)
	if err != nil {
		return err
	}
	return tickets.Beat(ctx, id, words)
}

func (q lazyTickets) Tear(ctx context.Context, id int) error {
	tickets, err := q.slurm.tickets(ctx)
	if err != nil {
		return err
	}
	return tickets.Tear(ctx, id)
}

// failoverLedger is the ledger of a daemon that may become the leader after others. Its records of jobs are then older
// than the annotations of the jobs, so they are ignored until a round has been settled.
type failoverLedger struct {
	*ledger.Book

	mu    sync.Mutex
	stale bool
}

// markStale marks the records as out of date.
func (r *failoverLedger) markStale() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = true
}

// Load implements bridge.Ledger.
func (r *failoverLedger) Load() (bridge.Records, *bridge.Intent, error) {
	records, intent, err := r.Book.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stale {
		records = nil
	}
	return records, intent, err
}

// Settle implements bridge.Ledger.
func (r *failoverLedger) Settle(records bridge.Records, report bridge.Report) error {
	err := r.Book.Settle(records, report)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = r.stale && err != nil
	return err
}
