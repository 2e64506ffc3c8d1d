package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest"
)

// workloadManager is an open workload manager: Slurm by slurmrestd, or another one by a plugin.
type workloadManager struct {
	slurm.Manager
	tickets leader.Tickets
	limits  bridge.Limits  // nil: it has none to read
	watcher slurm.Watcher  // nil: it has none
	splits  slurm.Splitter // nil: it splits no arrays
	leases  slurm.Leases   // nil: it has no lease job
	close   func()
}

// dial opens the workload manager that the flags name.
func (c *connector) dial(ctx context.Context, config Config) (*workloadManager, error) {
	if c.flags.slurmPlugin != "" {
		return c.dialPlugin(ctx, config)
	}
	client, err := slurmrest.Open(ctx, c.options(config))
	if err != nil {
		return nil, err
	}
	c.log.Info().Str("url", c.flags.slurmrestd).Str("user", c.flags.user).Str("api",
		client.Version()).Msg("connected to slurm")
	partition := config.partition()
	return &workloadManager{client, client.Tickets(partition), client, client, client, client.Leases(partition),
		client.Close}, nil
}

// dialPlugin opens the workload manager that a plugin drives. It has neither limits to read nor a watcher.
func (c *connector) dialPlugin(ctx context.Context, config Config) (*workloadManager, error) {
	options, err := c.pluginOptions(config)
	if err != nil {
		return nil, err
	}
	client, err := plugin.Open(ctx, options)
	if err != nil {
		return nil, err
	}
	c.log.Info().Str("plugin", c.flags.slurmPlugin).Str("version", client.Version()).Msg("connected to slurm")
	return &workloadManager{client, client, nil, nil, client, client, client.Close}, nil
}

// options are those of the client of slurmrestd. Running jobs that report progress are read again twice in the time
// after which two reports are compared, so that no comparison waits much longer than that.
func (c *connector) options(config Config) slurmrest.Options {
	return slurmrest.Options{
		URL:             c.flags.slurmrestd,
		User:            c.flags.user,
		TokenFile:       c.flags.tokenFile,
		APIVersion:      c.flags.apiVersion,
		Scontrol:        []string{c.flags.scontrol},
		ScontrolByToken: c.flags.byToken,
		Concurrent:      config.Concurrency,
		Rate:            config.Rate,
		ReportsEvery:    config.Audit / 2,
		OnCall:          c.count,
	}
}

// pluginOptions are the options of the plugin. What it writes to stderr is logged for debugging.
func (c *connector) pluginOptions(config Config) (plugin.Options, error) {
	file, err := pluginFile(c.flags.slurmConfig)
	if err != nil {
		return plugin.Options{}, err
	}
	lines := c.log.With().Str("plugin", c.flags.slurmPlugin).Logger()
	return plugin.Options{
		Path:   c.flags.slurmPlugin,
		SHA256: c.flags.slurmSum,
		Config: plugin.Configuration{
			File: file, TicketPartition: config.partition(), Concurrent: config.Concurrency, Rate: config.Rate,
			ReportsEvery: config.Audit / 2,
		},
		OnCall: c.countPlugin,
		Said:   func(line string) { lines.Debug().Str("line", line).Msg("slurm plugin says") },
	}, nil
}

// pluginFile is the content of the plugin's configuration file; nothing if none is named. Only the plugin can read it.
func pluginFile(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration of the slurm plugin: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, plugin.MaxConfig+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("configuration of the slurm plugin: %w", err)
	case len(text) > plugin.MaxConfig:
		return nil, fmt.Errorf("configuration of the slurm plugin: %s has more than %d bytes", path, plugin.MaxConfig)
	}
	return text, nil
}

// inspectPlugin checks the plugin's program and configuration before anything is started. It returns nil if no plugin
// is named.
func inspectPlugin(f flags) error {
	if f.slurmPlugin == "" {
		return nil
	}
	if err := plugin.Inspect(f.slurmPlugin, f.slurmSum); err != nil {
		return err
	}
	_, err := pluginFile(f.slurmConfig)
	return err
}

// count counts a request to slurmrestd, and warns once if slurmctld limits our requests.
func (c *connector) count(call slurmrest.Call) {
	if c.metrics == nil {
		return
	}
	c.metrics.request(call.Method+" "+call.Path, call.Err, call.Took, call.Bytes)
	if call.Method == http.MethodPost && c.bound.update(call.Took) {
		c.log.Warn().Str("remedy",
			"raise rl_refill_rate and rl_bucket_size in slurm.conf, or make the lease longer and rate in the "+
				"configuration lower").
			Msg("updates take a second each: slurmctld bounds our requests (rl_enable)")
	}
}

func (c *connector) countPlugin(call plugin.Call) {
	if c.metrics != nil {
		c.metrics.request("plugin "+call.Verb, call.Err, call.Took, call.Bytes)
	}
}
