package slurmrest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/v0042"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/v0045"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// version is one of slurmrestd's API, for the slurmrestd at an address.
type version func(server string) wire.API

// versions are those that are known here, newest first.
func versions() []version { return []version{v0045.API, v0042.API} }

// choose finds the version that both sides speak.
func (l *link) choose(ctx context.Context, server string) (spoken wire.API, failure error) {
	defer l.discreet(&failure)
	if l.options.APIVersion != "" { // who names one is not asked whether slurmrestd has it: the first request tells
		return named(l.options.APIVersion, server)
	}
	request, err := http.NewRequest(http.MethodGet, server+"/openapi/v3", nil)
	body, err := l.call(ctx, "/openapi/v3", request, err)
	if err != nil {
		return wire.API{}, fmt.Errorf("ask for API versions: %w", err)
	}
	var document struct {
		Paths map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return wire.API{}, fmt.Errorf("read API versions: %w", unheard{err})
	}
	offered := versionsIn(slices.Collect(maps.Keys(document.Paths)))
	for _, known := range versions() {
		if api := known(server); served(api, offered) {
			return api, nil
		}
	}
	return wire.API{}, fmt.Errorf("no common API version: slurmrestd has %s, known here are %s: %w",
		strings.Join(offered, " "), strings.Join(knownVersions(), " "), bridge.ErrRefused)
}

// served says that all of what a version is spoken by is offered.
func served(api wire.API, offered []string) bool {
	return !slices.ContainsFunc(api.By, func(version string) bool { return !slices.Contains(offered, version) })
}

// named is the version that the site has asked for.
func named(name, server string) (wire.API, error) {
	for _, known := range versions() {
		if api := known(server); api.Name == name {
			return api, nil
		}
	}
	return wire.API{}, fmt.Errorf("API version %q: known here are %s", name, strings.Join(knownVersions(), " "))
}

// knownVersions are the names for sentences, newest first.
func knownVersions() []string {
	var names []string
	for _, known := range versions() {
		names = append(names, known("").Name)
	}
	return names
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
