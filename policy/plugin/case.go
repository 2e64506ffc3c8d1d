package plugin

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/plannerpb"
)

// Written is the question to a plugin for one round as protobuf's JSON, including profiles, so that the round can be
// kept and asked again. Any program that can use planner.proto can read it.
func Written(round int, c policy.Cluster, who policy.Policy, how policy.Allocator) ([]byte, error) {
	return protojson.MarshalOptions{Multiline: true, Indent: "  "}.Marshal(question(round, &c, who, how))
}

// Read reads the cluster from a question made by Written.
func Read(text []byte) (policy.Cluster, error) {
	var request plannerpb.PlanRequest
	if err := protojson.Unmarshal(text, &request); err != nil {
		return policy.Cluster{}, fmt.Errorf("read question: %w", err)
	}
	var profiles profileCache
	return profiles.decodeCluster(request.GetCluster())
}

// question is the request to a plugin for one round.
func question(round int, c *policy.Cluster, who policy.Policy, how policy.Allocator) *plannerpb.PlanRequest {
	return &plannerpb.PlanRequest{Round: int64(round), Policy: who.Name, Allocator: how.Name, Cluster: clusterOut(c)}
}
