package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin/slurmpb"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/guest"
)

// Configuration is sent to a plugin before any other call.
type Configuration struct {
	File            []byte  // content of the file that the administrator named
	TicketPartition string  // where tickets are submitted; empty: anywhere
	Concurrent      int     // concurrent requests to the workload manager; 0: the plugin's choice
	Rate            float64 // requests per second; 0: no limit
	// how long a report in a running job's comment may go unnoticed; 0: as for other edits
	ReportsEvery time.Duration
}

// Driven is what a plugin serves.
type Driven struct {
	Slurm   slurm.Manager
	Tickets leader.Tickets // nil: no tickets, so the daemon must be the only one
	Leases  slurm.Leases   // nil: no lease job, so waiting jobs have begin times
	Version string         // for the log: which plugin drives which workload manager
}

// Opener opens the workload manager. It is called again after a failure. ctx ends with the call; what was opened must
// live on.
type Opener func(ctx context.Context, c Configuration) (Driven, error)

// Serve makes this process a plugin that drives a workload manager. A main function needs to call nothing else.
func Serve(open Opener) {
	guest.Serve(guest.Slurm, func(server grpc.ServiceRegistrar) {
		slurmpb.RegisterSlurmServer(server, &service{open: open})
	})
}

// service adapts a workload manager to gRPC. Errors of the workload manager are part of the answer (Failure) and keep
// their kind; an error of gRPC would mean that the plugin itself has failed.
type service struct {
	slurmpb.UnimplementedSlurmServer
	open Opener

	mu     sync.Mutex
	driven Driven // Slurm is nil: not open

	looking sync.Mutex // one observation at a time
	last    lastSeen   // the last observation sent
}

// errUnconfigured is for a caller that does not keep to the protocol.
var errUnconfigured = fmt.Errorf("the plugin was not configured: %w", slurm.ErrRefused)

// errNoTickets is the answer to a daemon that asks a plugin without tickets for one: without --alone it cannot know
// that it is the only daemon.
var errNoTickets = fmt.Errorf(
	"this plugin has no tickets: start the daemon with --alone and see to it that there is no second one: %w",
	slurm.ErrRefused)

// Configure implements slurmpb.SlurmServer. If opening fails, what an earlier call opened stays in use. Aims is always
// true: every Go plugin knows the targets of signals.
func (s *service) Configure(ctx context.Context, r *slurmpb.ConfigureRequest) (*slurmpb.ConfigureResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	driven, err := s.open(ctx, configurationIn(r))
	if err == nil && driven.Slurm == nil {
		err = errors.New("the plugin has opened nothing")
	}
	if err == nil {
		s.driven = driven
	}
	return &slurmpb.ConfigureResponse{Failure: failureOut(err), Version: validUTF8(driven.Version), Aims: true}, nil
}

// slurm is the workload manager; an error before the first Configure that opened one, since then there is none to call.
func (s *service) slurm() (slurm.Manager, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.driven.Slurm == nil {
		return nil, errUnconfigured
	}
	return s.driven.Slurm, nil
}

// tickets are the tickets of the workload manager. It is an error if none is open, or if it has no tickets, in which
// case only one daemon may run.
func (s *service) tickets() (leader.Tickets, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.driven.Slurm == nil:
		return nil, errUnconfigured
	case s.driven.Tickets == nil:
		return nil, errNoTickets
	}
	return s.driven.Tickets, nil
}

// Observe implements slurmpb.SlurmServer.
func (s *service) Observe(ctx context.Context, r *slurmpb.ObserveRequest) (*slurmpb.ObserveResponse, error) {
	s.looking.Lock()
	defer s.looking.Unlock()
	manager, err := s.slurm()
	if err != nil {
		return &slurmpb.ObserveResponse{Failure: failureOut(err)}, nil
	}
	seen, err := manager.Observe(ctx)
	if err != nil {
		return &slurmpb.ObserveResponse{Failure: failureOut(err)}, nil
	}
	return s.last.show(seen, r.GetVersion()), nil
}

// Update implements slurmpb.SlurmServer.
func (s *service) Update(ctx context.Context, r *slurmpb.UpdateRequest) (*slurmpb.DoneResponse, error) {
	return s.withManager(func(manager slurm.Manager) error { return manager.Update(ctx, updateIn(r)) })
}

// Signal implements slurmpb.SlurmServer.
func (s *service) Signal(ctx context.Context, r *slurmpb.SignalRequest) (*slurmpb.DoneResponse, error) {
	return s.withManager(func(manager slurm.Manager) error {
		to, err := targetIn(r.GetTo())
		if err != nil {
			return err
		}
		return manager.Signal(ctx, int(r.GetJob()), slurm.Signal{Name: r.GetSignal(), To: to})
	})
}

// Requeue implements slurmpb.SlurmServer.
func (s *service) Requeue(ctx context.Context, r *slurmpb.RequeueRequest) (*slurmpb.DoneResponse, error) {
	return s.withManager(func(manager slurm.Manager) error { return manager.Requeue(ctx, int(r.GetJob())) })
}

// Split implements slurmpb.SlurmServer.
func (s *service) Split(ctx context.Context, r *slurmpb.SplitRequest) (*slurmpb.DoneResponse, error) {
	return s.withManager(func(manager slurm.Manager) error {
		splits, can := manager.(slurm.Splitter)
		if !can {
			return errNoSplits
		}
		return splits.Split(ctx, int(r.GetArray()), narrow(r.GetTasks()))
	})
}

// withManager runs a verb on the workload manager. Its error is part of the answer, so that it keeps its kind.
func (s *service) withManager(verb func(slurm.Manager) error) (*slurmpb.DoneResponse, error) {
	manager, err := s.slurm()
	if err == nil {
		err = verb(manager)
	}
	return &slurmpb.DoneResponse{Failure: failureOut(err)}, nil
}

// leases are the leases of the workload manager. It is an error if none is open, or if it has no leases, in which case
// waiting jobs have begin times.
func (s *service) leases() (slurm.Leases, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.driven.Slurm == nil:
		return nil, errUnconfigured
	case s.driven.Leases == nil:
		return nil, errNoLease
	}
	return s.driven.Leases, nil
}

// RenewLease implements slurmpb.SlurmServer.
func (s *service) RenewLease(ctx context.Context, r *slurmpb.RenewLeaseRequest) (*slurmpb.RenewLeaseResponse, error) {
	leases, err := s.leases()
	job := 0
	if err == nil {
		job, err = leases.Renew(ctx, time.Duration(r.GetLengthNs()))
	}
	return &slurmpb.RenewLeaseResponse{Failure: failureOut(err), Job: int64(job)}, nil
}

// EndLease implements slurmpb.SlurmServer.
func (s *service) EndLease(ctx context.Context, _ *slurmpb.EndLeaseRequest) (*slurmpb.DoneResponse, error) {
	leases, err := s.leases()
	if err == nil {
		err = leases.End(ctx)
	}
	if errors.Is(err, errNoLease) {
		err = nil // there is no lease to end
	}
	return &slurmpb.DoneResponse{Failure: failureOut(err)}, nil
}

// Take implements slurmpb.SlurmServer.
func (s *service) Take(ctx context.Context, r *slurmpb.TakeRequest) (*slurmpb.TakeResponse, error) {
	tickets, err := s.tickets()
	id := 0
	if err == nil {
		id, err = tickets.Take(ctx, wordsIn(r.GetWords()))
	}
	return &slurmpb.TakeResponse{Failure: failureOut(err), Id: int64(id)}, nil
}

// List implements slurmpb.SlurmServer.
func (s *service) List(ctx context.Context, r *slurmpb.ListRequest) (*slurmpb.ListResponse, error) {
	var ids []int
	for _, id := range r.GetIds() {
		ids = append(ids, int(id))
	}
	tickets, err := s.tickets()
	var listed []leader.Ticket
	if err == nil {
		listed, err = tickets.List(ctx, ids...)
	}
	answer := &slurmpb.ListResponse{Failure: failureOut(err)}
	for i := range listed {
		answer.Tickets = append(answer.Tickets, ticketOut(&listed[i]))
	}
	return answer, nil
}

// Beat implements slurmpb.SlurmServer.
func (s *service) Beat(ctx context.Context, r *slurmpb.BeatRequest) (*slurmpb.DoneResponse, error) {
	return s.withTickets(
		func(tickets leader.Tickets) error { return tickets.Beat(ctx, int(r.GetId()), wordsIn(r.GetWords())) },
	)
}

// Tear implements slurmpb.SlurmServer.
func (s *service) Tear(ctx context.Context, r *slurmpb.TearRequest) (*slurmpb.DoneResponse, error) {
	return s.withTickets(func(tickets leader.Tickets) error { return tickets.Tear(ctx, int(r.GetId())) })
}

// withTickets runs a verb on the tickets; without tickets the answer has the reason as its failure.
func (s *service) withTickets(verb func(leader.Tickets) error) (*slurmpb.DoneResponse, error) {
	tickets, err := s.tickets()
	if err == nil {
		err = verb(tickets)
	}
	return &slurmpb.DoneResponse{Failure: failureOut(err)}, nil
}
