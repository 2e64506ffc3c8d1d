package plugin

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/plannerpb"
)

// Written is a question as JSON, as protobuf has it: whoever reads planner.proto in any language can read it, profiles
// included.
func Written(round int, c policy.Cluster, who policy.Policy, how policy.Allocator) ([]byte, error) {
	return protojson.MarshalOptions{Multiline: true, Indent: "  "}.Marshal(question(round, &c, who, how))
}

// Read reads the cluster of a question that was written.
func Read(text []byte) (policy.Cluster, error) {
	var request plannerpb.PlanRequest
	if err := protojson.Unmarshal(text, &request); err != nil {
		return policy.Cluster{}, fmt.Errorf("read question: %w", err)
	}
	var profiles shelf
	return profiles.cluster(request.GetCluster())
}

func question(round int, c *policy.Cluster, who policy.Policy, how policy.Allocator) *plannerpb.PlanRequest {
	return &plannerpb.PlanRequest{Round: int64(round), Policy: who.Name, Allocator: how.Name, Cluster: clusterOut(c)}
}
