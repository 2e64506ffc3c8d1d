package slurmrest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// dialect is one version of slurmrestd's API: what its answers mean, and how an update is said. Paths and parameters are the
// same from v0.0.40 on.
type dialect interface {
	version() string
	// jobs reads a listing of jobs, or of one.
	jobs(body []byte) ([]listed, error)
	// nodes reads the listing of nodes.
	nodes(body []byte) ([]bridge.Node, error)
	// update is the body that makes a job's request this one; before is what the job asks for now.
	update(wanted bridge.Update, before bridge.Request, begin int64) any
	// renewal is the body that moves only when the job may begin, and its stamp.
	renewal(wanted bridge.Update, begin int64) any
}

// listed is a job as an answer told it: what the round sees, and what only this package needs.
type listed struct {
	bridge.Job
	words string                 // its state, as the sweep folds it
	holds map[string]gres.Vector // by node, while it runs or is being torn down
	ended time.Time              // when it is over
	idle  bool                   // suspended: Slurm counts its memory and GPUs as used, but not its CPUs
}

// dialects are the versions that are known here, newest first.
func dialects() []dialect { return []dialect{dialect42{}} }

// choose finds the dialect that both sides speak.
func (c *Client) choose(ctx context.Context, server string) (spoken dialect, failure error) {
	defer c.discreet(&failure)
	if c.options.APIVersion != "" {
		return named(c.options.APIVersion)
	}
	request, err := http.NewRequest(http.MethodGet, server+"/openapi/v3", nil)
	body, err := c.call(ctx, "/openapi/v3", request, err)
	if err != nil {
		return nil, fmt.Errorf("ask for API versions: %w", err)
	}
	var document struct {
		Paths map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return nil, fmt.Errorf("read API versions: %w", unheard{err})
	}
	offered := versionsIn(slices.Collect(maps.Keys(document.Paths)))
	for _, known := range dialects() {
		if slices.Contains(offered, known.version()) {
			return known, nil
		}
	}
	return nil, fmt.Errorf("no common API version: slurmrestd has %s, known here are %s: %w",
		strings.Join(offered, " "), strings.Join(knownVersions(), " "), bridge.ErrRefused)
}

func named(version string) (dialect, error) {
	for _, known := range dialects() {
		if known.version() == version {
			return known, nil
		}
	}
	return nil, fmt.Errorf("API version %q: known here are %s", version, strings.Join(knownVersions(), " "))
}

func knownVersions() []string {
	var versions []string
	for _, known := range dialects() {
		versions = append(versions, known.version())
	}
	return versions
}

// versionsIn lists the versions whose slurmctld part the paths show, ascending.
func versionsIn(paths []string) []string {
	found := map[string]bool{}
	for _, path := range paths {
		if rest, ok := strings.CutPrefix(path, "/slurm/"); ok {
			version, _, _ := strings.Cut(rest, "/")
			found[version] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
