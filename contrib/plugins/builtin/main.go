// Command builtin is the daemon's own planner as a plugin. It plans by the daemon's configuration, so its plans are the
// same. It serves for comparison with other plugins and as a starting point for new ones.
package main

import "github.com/synergy-slurmd/synergy-slurmd/policy/plugin"

func main() { plugin.Serve(plugin.Configured()) }
