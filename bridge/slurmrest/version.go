package slurmrest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/v0042"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/v0045"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// version makes the API of one version for a slurmrestd address.
type version func(server string) wire.API

// versions are the known versions, newest first.
func versions() []version { return []version{v0045.API, v0042.API} }

// choose returns the newest version that both sides know, or the one that the options name; ErrRefused if there is
// none.
func (l *link) choose(ctx context.Context, server string) (spoken wire.API, failure error) {
	defer l.hideToken(&failure)
	if l.options.APIVersion != "" { // not verified: the first request shows whether slurmrestd has it
		return named(l.options.APIVersion, server)
	}
	request, err := http.NewRequest(http.MethodGet, server+"/openapi/v3", nil)
	body, err := l.call(ctx, "/openapi/v3", request, err, nil)
	if err != nil {
		return wire.API{}, fmt.Errorf("ask for API versions: %w", err)
	}
	var document struct {
		Paths map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return wire.API{}, fmt.Errorf("read API versions: %w", noAnswerError{err})
	}
	offered := versionsIn(slices.Collect(maps.Keys(document.Paths)))
	for _, known := range versions() {
		if api := known(server); served(api, offered) {
			return api, nil
		}
	}
	return wire.API{}, fmt.Errorf("no common API version: slurmrestd has %s, known here are %s: %w",
		strings.Join(offered, " "), strings.Join(knownVersions(), " "), slurm.ErrRefused)
}

// served reports whether slurmrestd offers all versions that an API uses.
func served(api wire.API, offered []string) bool {
	return !slices.ContainsFunc(api.By, func(version string) bool { return !slices.Contains(offered, version) })
}

// named is the API of the version that the options name; an error if it is not known here.
func named(name, server string) (wire.API, error) {
	for _, known := range versions() {
		if api := known(server); api.Name == name {
			return api, nil
		}
	}
	return wire.API{}, fmt.Errorf("API version %q: known here are %s", name, strings.Join(knownVersions(), " "))
}

// knownVersions are the names of the known versions, newest first.
func knownVersions() []string {
	var names []string
	for _, known := range versions() {
		names = append(names, known("").Name)
	}
	return names
}

// versionsIn lists the versions of the slurmctld part in the paths, ascending.
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
