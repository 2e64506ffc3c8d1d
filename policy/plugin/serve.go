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

// Round is what a plugin is asked to decide.
type Round struct {
	Number    int
	Policy    string // as the administrator configured it; a plugin may do as it likes
	Allocator string
	Cluster   policy.Cluster // the plugin's own: it may change it
}

// Decider decides a round: for each job of the cluster one decision, ascending in the job's ID. It is called for one
// round at a time.
type Decider func(ctx context.Context, round Round) (policy.Plan, error)

// Serve makes this process a planner plugin. It is all that a main function need call.
func Serve(decide Decider) {
	guest.Serve(guest.Planner, func(server grpc.ServiceRegistrar) {
		plannerpb.RegisterPlannerServer(server, &service{decide: decide})
	})
}

// Ordered decides by an order of one's own and leaves the rest to an allocator of ours, which keeps all promises.
func Ordered(p policy.Policy, a policy.Allocator) Decider {
	var planner policy.Planner
	return func(_ context.Context, round Round) (policy.Plan, error) {
		return planner.Decide(round.Cluster, p, a), nil
	}
}

// Configured decides as the daemon itself would: by the policy and the allocator that are configured.
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

// service is the decider as gRPC sees it.
type service struct {
	plannerpb.UnimplementedPlannerServer
	decide Decider

	mu       sync.Mutex
	profiles shelf
}

// Plan implements plannerpb.PlannerServer.
func (s *service) Plan(ctx context.Context, request *plannerpb.PlanRequest) (*plannerpb.PlanResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.profiles.cluster(request.GetCluster())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	plan, err := s.decide(ctx, Round{int(request.GetRound()), request.GetPolicy(), request.GetAllocator(), c})
	if err != nil {
		return nil, status.Error(codes.Internal, fmt.Sprintf("round %d: %v", request.GetRound(), err))
	}
	return planOut(plan), nil
}
