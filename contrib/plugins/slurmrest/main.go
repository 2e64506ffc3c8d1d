// Command slurmrest drives Slurm over slurmrestd as the daemon does, but as a plugin, in another process. It serves
// for comparison with other plugins and as a starting point for new ones. Its configuration is a JSON file:
//
//	{"url": "http://127.0.0.1:6820", "user": "synergy", "token_file": "/var/lib/synergy/token"}
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest"
)

// Config says where slurmrestd is and as which user to call it; the fields are the daemon's own flags. URL and
// TokenFile are required.
type Config struct {
	URL             string   `json:"url"`
	User            string   `json:"user"`
	TokenFile       string   `json:"token_file"`
	APIVersion      string   `json:"api_version"`
	Scontrol        []string `json:"scontrol"` // the command and its first arguments
	ScontrolByToken bool     `json:"scontrol_by_token"`
	Environ         []string `json:"environ"` // the environment of scontrol, as NAME=value
}

func main() { plugin.Serve(open) }

// open reads the configuration and asks slurmrestd for its API versions.
func open(ctx context.Context, c plugin.Configuration) (plugin.Driven, error) {
	config, err := parse(c.File)
	if err != nil {
		return plugin.Driven{}, fmt.Errorf("configuration of the slurmrest plugin: %w", err)
	}
	client, err := slurmrest.Open(ctx, slurmrest.Options{
		URL: config.URL, User: config.User, TokenFile: config.TokenFile, APIVersion: config.APIVersion,
		Scontrol: config.Scontrol, ScontrolByToken: config.ScontrolByToken, Environ: config.Environ,
		Concurrent: c.Concurrent, Rate: c.Rate, ReportsEvery: c.ReportsEvery,
	})
	if err != nil {
		return plugin.Driven{}, err
	}
	return plugin.Driven{Slurm: client, Tickets: client.Tickets(c.TicketPartition),
		Leases:  client.Leases(c.TicketPartition),
		Version: "slurmrestd " + client.Version()}, nil
}

// parse reads the configuration strictly: one JSON object, no unknown fields, nothing after it.
func parse(text []byte) (config Config, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return config, fmt.Errorf("want a JSON object: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return config, errors.New("want one JSON object and nothing after it")
	}
	if config.URL == "" || config.TokenFile == "" {
		return config, errors.New("want url and token_file")
	}
	return config, nil
}
