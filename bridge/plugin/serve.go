package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin/slurmpb"
	"github.com/synergy-slurmd/synergy-slurmd/guest"
)

// Configuration is what a plugin is told before anything is asked of it.
type Configuration struct {
	File            []byte  // what stands in the file that the administrator named
	TicketPartition string  // where tickets are taken; empty: anywhere
	Concurrent      int     // requests to the workload manager at a time; 0: as the plugin likes
	Rate            float64 // requests per second; 0: as many as it takes
	// how long what a running job reports in its comment may go unseen; 0: as for other edits
	ReportsEvery time.Duration
}

// Driven is what a plugin serves.
type Driven struct {
	Slurm   bridge.Slurm
	Tickets leader.Tickets // nil: it has none, and the daemon must be alone
	Version string         // for the log: what drives what
}

// Opener opens the workload manager. It is called again when it has failed; ctx ends with the call and not with what
// was opened.
type Opener func(ctx context.Context, c Configuration) (Driven, error)

// Serve makes this process a plugin that drives a workload manager. It is all that a main function need call.
func Serve(open Opener) {
	guest.Serve(guest.Slurm, func(server grpc.ServiceRegistrar) {
		slurmpb.RegisterSlurmServer(server, &service{open: open})
	})
}

// service is a workload manager as gRPC sees it.
type service struct {
	slurmpb.UnimplementedSlurmServer
	open Opener

	mu     sync.Mutex
	driven Driven // Slurm is nil: it is not open

	looking sync.Mutex // one look at a time
	last    sight      // what was shown last
}

// errUnconfigured is for a host that does not keep to the protocol.
var errUnconfigured = fmt.Errorf("the plugin was not configured: %w", bridge.ErrRefused)

// errNoTickets is for a daemon that wants to share what cannot be shared.
var errNoTickets = fmt.Errorf(
	"this plugin has no tickets: start the daemon with --alone and see to it that there is no second one: %w",
	bridge.ErrRefused)

// Configure implements slurmpb.SlurmServer.
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
	return &slurmpb.ConfigureResponse{Failure: failureOut(err), Version: valid(driven.Version), Aims: true}, nil
}

func (s *service) slurm() (bridge.Slurm, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.driven.Slurm == nil {
		return nil, errUnconfigured
	}
	return s.driven.Slurm, nil
}

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
	slurm, err := s.slurm()
	if err != nil {
		return &slurmpb.ObserveResponse{Failure: failureOut(err)}, nil
	}
	seen, err := slurm.Observe(ctx)
	if err != nil {
		return &slurmpb.ObserveResponse{Failure: failureOut(err)}, nil
	}
	return s.last.show(seen, r.GetVersion()), nil
}

// Update implements slurmpb.SlurmServer.
func (s *service) Update(ctx context.Context, r *slurmpb.UpdateRequest) (*slurmpb.DoneResponse, error) {
	return s.do(func(slurm bridge.Slurm) error { return slurm.Update(ctx, updateIn(r)) })
}

// Signal implements slurmpb.SlurmServer.
func (s *service) Signal(ctx context.Context, r *slurmpb.SignalRequest) (*slurmpb.DoneResponse, error) {
	return s.do(func(slurm bridge.Slurm) error {
		to, err := targetIn(r.GetTo())
		if err != nil {
			return err
		}
		return slurm.Signal(ctx, int(r.GetJob()), bridge.Signal{Name: r.GetSignal(), To: to})
	})
}

// Requeue implements slurmpb.SlurmServer.
func (s *service) Requeue(ctx context.Context, r *slurmpb.RequeueRequest) (*slurmpb.DoneResponse, error) {
	return s.do(func(slurm bridge.Slurm) error { return slurm.Requeue(ctx, int(r.GetJob())) })
}

// Split implements slurmpb.SlurmServer.
func (s *service) Split(ctx context.Context, r *slurmpb.SplitRequest) (*slurmpb.DoneResponse, error) {
	return s.do(func(slurm bridge.Slurm) error {
		splits, can := slurm.(bridge.Splitter)
		if !can {
			return errNoSplits
		}
		return splits.Split(ctx, int(r.GetArray()), narrow(r.GetTasks()))
	})
}

func (s *service) do(verb func(bridge.Slurm) error) (*slurmpb.DoneResponse, error) {
	slurm, err := s.slurm()
	if err == nil {
		err = verb(slurm)
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
	return s.with(func(tickets leader.Tickets) error { return tickets.Beat(ctx, int(r.GetId()), wordsIn(r.GetWords())) })
}

// Tear implements slurmpb.SlurmServer.
func (s *service) Tear(ctx context.Context, r *slurmpb.TearRequest) (*slurmpb.DoneResponse, error) {
	return s.with(func(tickets leader.Tickets) error { return tickets.Tear(ctx, int(r.GetId())) })
}

func (s *service) with(verb func(leader.Tickets) error) (*slurmpb.DoneResponse, error) {
	tickets, err := s.tickets()
	if err == nil {
		err = verb(tickets)
	}
	return &slurmpb.DoneResponse{Failure: failureOut(err)}, nil
}
