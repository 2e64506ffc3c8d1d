// Command builtin is the daemon's own planner as a plugin. It plans as the configuration says, so nothing changes but
// the process: it is here to be compared with, and to begin from.
package main

import "github.com/synergy-slurmd/synergy-slurmd/policy/plugin"

func main() { plugin.Serve(plugin.Configured()) }
