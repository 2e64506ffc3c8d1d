package plugin

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/synergy-slurmd/synergy-slurmd/guest"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/plannerpb"
)

// Round is the question to a plugin.
type Round struct {
	Number    int
	Policy    string // as configured; a plugin may ignore it
	Allocator string
	Cluster   policy.Cluster // the plugin may change it
}

// Decider decides a round: one decision for each job of the cluster, ascending in job ID. It is never called
// concurrently.
type Decider func(ctx context.Context, round Round) (policy.Plan, error)

// Serve makes this process a planner plugin. A main function needs to call nothing else.
func Serve(decide Decider) {
	guest.Serve(guest.Planner, func(server grpc.ServiceRegistrar) {
		plannerpb.RegisterPlannerServer(server, &service{decide: decide})
	})
}

// Ordered decides with a policy of the plugin's own and an allocator of this project, which keeps all promises.
func Ordered(p policy.Policy, a policy.Allocator) Decider {
	var planner policy.Planner
	return func(_ context.Context, round Round) (policy.Plan, error) {
		return planner.Decide(round.Cluster, p, a), nil
	}
}

// Configured decides as the daemon would, with the configured policy and allocator, as far as the question has all of
// the snapshot: the protocol has no ends of foreign jobs and no devices (nodeOut).
func Configured() Decider {
	var planner policy.Planner
	return func(_ context.Context, round Round) (policy.Plan, error) {
		p, err := policy.ParsePolicy(round.Policy)
		if err != nil {
			return policy.Plan{}, err
		}
		a, err := policy.ParseAllocator(round.Allocator)
		if err != nil {
			return policy.Plan{}, err
		}
		return planner.Decide(round.Cluster, p, a), nil
	}
}

// service adapts a Decider to gRPC.
type service struct {
	plannerpb.UnimplementedPlannerServer
	decide Decider

	mu       sync.Mutex // gRPC may serve several questions at once, a Decider one
	profiles profileCache
}

// Plan implements plannerpb.PlannerServer: it decodes the question, has the Decider decide, and encodes the plan.
func (s *service) Plan(ctx context.Context, request *plannerpb.PlanRequest) (*plannerpb.PlanResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.profiles.decodeCluster(request.GetCluster())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	plan, err := s.decide(ctx, Round{int(request.GetRound()), request.GetPolicy(), request.GetAllocator(), c})
	if err != nil {
		return nil, status.Error(codes.Internal, fmt.Sprintf("round %d: %v", request.GetRound(), err))
	}
	return planOut(plan), nil
}
