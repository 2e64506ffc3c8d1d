// Package v0042 is slurmrestd's API v0.0.42 (Slurm 24.11 to 26.05): what it has otherwise than packages slurmctld and
// accounts. Its trimmed document is beside it. To make that anew, from a slurmrestd:
//
//	curl -H "X-SLURM-USER-TOKEN: $SLURM_JWT" http://slurmrestd:6820/openapi/v3 |
//		go run ../trim v0.0.42 >openapi-v0.0.42.json
package v0042

import (
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/accounts"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/slurmctld"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

const version = "v0.0.42"

// API is v0.0.42, spoken with the slurmrestd at an address such as http://host:6820. It has no requeue.
func API(server string) wire.API {
	api := slurmctld.Speak(wire.API{Name: version, By: []string{version}}, server, version)
	api.Ping = func() wire.Call[[]wire.Controller] { return ping(slurmctld.Address(server, version)) }
	api.Requeue = nil
	return accounts.Speak(api, server)
}

// pings is the answer to a ping. Only this version has the word pinged; it counts like responding.
type pings struct {
	Pings []struct {
		Pinged     string `json:"pinged"` // UP
		Responding bool   `json:"responding"`
	} `json:"pings"`
	Errors   []slurmctld.Error   `json:"errors"`
	Warnings []slurmctld.Warning `json:"warnings"`
}

// ping asks which controllers answer. In this version one answers if it is responding or its pinged is UP.
func ping(address string) wire.Call[[]wire.Controller] {
	request, err := slurmctld.NewPingRequest(address)
	return slurmctld.Call("/ping/", request, err,
		func(a *pings) (all []wire.Controller, _ []slurmctld.Error, _ []slurmctld.Warning) {
			for _, p := range a.Pings {
				all = append(all, wire.Controller{Answers: p.Responding || p.Pinged == "UP"})
			}
			return all, a.Errors, a.Warnings
		})
}
