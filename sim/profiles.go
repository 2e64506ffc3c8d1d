package sim

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

// Profiles reads all profiles of a folder, the files that end in .json, by model. Errors name the file. fs.Glob hides
// errors of reading the folder, so one that cannot be read looks like one without profiles.
func Profiles(folder fs.FS) (map[string]*sensitivity.Profile, error) {
	files, err := fs.Glob(folder, "*.json")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no profile is there: want files that end in .json, see docs/profile-format.md")
	}
	profiles, from := make(map[string]*sensitivity.Profile), make(map[string]string)
	for _, file := range files {
		text, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, err
		}
		p, err := sensitivity.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", file, err)
		}
		if from[p.Model] != "" {
			return nil, fmt.Errorf("profile %s: model = %s: %s has it already: keep one", file, p.Model, from[p.Model])
		}
		profiles[p.Model], from[p.Model] = p, file
	}
	return profiles, nil
}

// WithRestart returns copies of the profiles in which a restart of any model takes the same times: save for saving, and
// start for getting back to full speed. Experiments vary the cost of restarts in this way.
func WithRestart(profiles map[string]*sensitivity.Profile, save, start time.Duration) map[string]*sensitivity.Profile {
	all := make(map[string]*sensitivity.Profile, len(profiles))
	for model, p := range profiles {
		own := *p
		own.CheckpointSeconds, own.StartSeconds = save.Seconds(), start.Seconds()
		all[model] = &own
	}
	return all
}

// Classes returns the profiles' models in the form in which workloads draw them, sorted by name. The family is the
// profile's task, and the iteration time that with the proportional share of the cluster's first group of servers.
// Users request their jobs for this group if it can hold them (package users), so a drawn duration is about how long
// the job runs there as requested; not exactly, since a request has whole cores and MiB.
func Classes(profiles map[string]*sensitivity.Profile, on cluster.Cluster) []workload.Class {
	server := on.Groups[0].Vector()
	share := sensitivity.Share{Cores: float64(server.CPUs) / float64(server.GPUs),
		Memory: float64(server.Memory) / float64(server.GPUs)}
	var classes []workload.Class
	for _, model := range slices.Sorted(maps.Keys(profiles)) {
		p := profiles[model]
		classes = append(classes, workload.Class{
			Name: model, Family: strings.ToLower(p.Task), Iteration: float64(p.Batch) / p.Rate(share),
		})
	}
	return classes
}
