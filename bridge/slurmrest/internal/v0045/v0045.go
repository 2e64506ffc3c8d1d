// Package v0045 is slurmrestd's API v0.0.45 (Slurm 26.05 and later): what it has otherwise than packages slurmctld and
// accounts. Its trimmed document is beside it. To make that anew, from a slurmrestd:
//
//	curl -H "X-SLURM-USER-TOKEN: $SLURM_JWT" http://slurmrestd:6820/openapi/v3 |
//		go run ../trim v0.0.45 >openapi-v0.0.45.json
package v0045

import (
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/accounts"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/slurmctld"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// API is v0.0.45, spoken with the slurmrestd at an address such as http://host:6820. Jobs are read as v0.0.44 has them,
// which every slurmrestd with this version serves too: v0.0.45 of Slurm 26.05.5 no longer tells which jobs are
// exclusive. The other fields are the same in both.
func API(server string) wire.API {
	const version, jobs = "v0.0.45", "v0.0.44"
	api := wire.API{Name: version, By: []string{version, jobs}}
	return accounts.Speak(slurmctld.Speak(api, server, jobs), server)
}
