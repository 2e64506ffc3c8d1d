package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sim"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
	"github.com/synergy-slurmd/synergy-slurmd/sim/production"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

// simSetup is the cluster and the models of the jobs.
type simSetup struct {
	cluster  cluster.Cluster
	ratio    int // cores per GPU for which the table of models holds; 0: with profiles, which need no table
	profiles map[string]*sensitivity.Profile
	classes  []workload.Class
}

// readSetup reads the cluster and the models that the options name. Without --profiles the jobs have the models of the
// paper's table.
func (o *options) readSetup() (simSetup, error) {
	var g simSetup
	var err error
	if g.cluster, g.ratio, err = o.site.openCluster(o.changed("cluster")); err != nil {
		return simSetup{}, err
	}
	if g.profiles, err = o.site.loadProfiles(); err != nil {
		return simSetup{}, fmt.Errorf("--profiles %s: %w", o.site.profiles, err)
	}
	if o.site.profiles != "" {
		g.classes, g.ratio = sim.Classes(g.profiles, g.cluster), 0
		return g, nil
	}
	g.classes, err = workload.Paper(g.ratio)
	return g, err
}

// openCluster returns the cluster, and the ratio of cores to GPUs whose column of the models' table is used. named says
// that --cluster was given. If only one of --cluster and --ratio is given, the other follows from it, and if both are,
// they must agree. For servers with a ratio that the table does not have, its first column is used, as in the published
// program.
func (s site) openCluster(named bool) (cluster.Cluster, int, error) {
	if s.ratio != 0 && !isMeasured(s.ratio) {
		return cluster.Cluster{}, 0, ratioError(s.ratio)
	}
	c, err := s.readCluster()
	if err != nil {
		return cluster.Cluster{}, 0, err
	}
	if s.ratio != 0 && !named {
		return withRatio(c, s.ratio), s.ratio, nil
	}
	own := ratioOf(c)
	switch {
	case s.ratio == 0 && own == 0:
		return c, models.LeastRatio, nil
	case s.ratio != 0 && s.ratio != own:
		return cluster.Cluster{}, 0,
			fmt.Errorf("--ratio %d: %s has other servers: give them %[1]d cores for each GPU, or leave --ratio out",
				s.ratio, c)
	}
	return c, own, nil
}

// readCluster reads the cluster from a file, or if there is no such file from the text itself, as 16x8:24:500. The
// error then says both, since either may have been meant. If the file cannot be looked at for another reason, the error
// says only that.
func (s site) readCluster() (cluster.Cluster, error) {
	info, err := os.Stat(s.cluster)
	if err == nil && !info.IsDir() {
		return cluster.Open(s.cluster)
	}
	c, wrong := cluster.Parse(s.cluster)
	if wrong != nil && err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cluster.Cluster{}, fmt.Errorf("--cluster: %w", err)
	}
	if wrong != nil {
		return cluster.Cluster{}, fmt.Errorf("--cluster: there is no file %s, and as a description: %w", s.cluster,
			wrong)
	}
	return c, nil
}

// withRatio is the cluster with this number of cores per GPU on each server.
func withRatio(c cluster.Cluster, ratio int) cluster.Cluster {
	var other cluster.Cluster
	for _, g := range c.Groups {
		g.CPUs = ratio * g.GPUs
		other.Groups = append(other.Groups, g)
	}
	return other
}

// ratioOf returns the number of cores per GPU of the servers. It is 0 if the servers differ, or if the table of models
// does not have that number.
func ratioOf(c cluster.Cluster) int {
	for ratio := models.LeastRatio; ratio <= models.MostRatio; ratio++ {
		other := func(g cluster.Group) bool { return g.CPUs != ratio*g.GPUs }
		if !slices.ContainsFunc(c.Groups, other) {
			return ratio
		}
	}
	return 0
}

// loadProfiles reads the profiles of --profiles, by model, or else those of the paper.
func (s site) loadProfiles() (map[string]*sensitivity.Profile, error) {
	if s.profiles == "" {
		return sim.Profiles(profiles.FS)
	}
	return sim.Profiles(os.DirFS(s.profiles))
}

// The cost of a restart if it was not measured, and the part of it that is the save.
const (
	usualRestart = time.Minute
	saveDivisor  = 3 // one of so many parts
)

// withRestartCosts returns the profiles with the restart costs of the options. With --profiles and without --restart
// the profiles keep their own costs; --checkpoint alone is an error then, since it would change only a part of them. No
// cost was measured for the paper's profiles, so without --restart they get the usual one. A third of a cost is the
// save, unless --checkpoint says otherwise.
func (o *options) withRestartCosts(own map[string]*sensitivity.Profile) (map[string]*sensitivity.Profile, error) {
	p, restart := o.production, usualRestart
	switch {
	case o.changed("restart"):
		restart = time.Duration(p.restart)
	case o.site.profiles != "" && o.changed("checkpoint"):
		return nil, errors.New("--checkpoint: say --restart, too, or leave both to the profiles")
	case o.site.profiles != "":
		return own, nil
	}
	save := restart / saveDivisor
	if o.changed("checkpoint") {
		save = time.Duration(p.checkpoint)
	}
	if save > restart {
		return nil, fmt.Errorf("--checkpoint %s: is part of a restart, which costs %s in all: want no more than that",
			save, restart)
	}
	return sim.WithRestart(own, save, restart-save), nil
}

// simSite returns the site that the production engine simulates: the daemon's rules and profiles, what its users do,
// and how long Slurm takes. Its errors name the option with the wrong value.
func (o *options) simSite(g simSetup) (sim.Site, error) {
	p := o.production
	costed, err := o.withRestartCosts(g.profiles)
	if err != nil {
		return sim.Site{}, err
	}
	if p.ends != endsAtOnce && p.ends != endsInRounds {
		return sim.Site{}, fmt.Errorf("--ends %q: want %s or %s", p.ends, endsAtOnce, endsInRounds)
	}
	if p.maxPreemptions < 0 {
		return sim.Site{}, fmt.Errorf("--max-preemptions %d: want 0, which is no bound, or more", p.maxPreemptions)
	}
	// 0 would mean the default, so the least part stands for none.
	if !(p.stranded >= 0.001 && p.stranded <= 1) { // written so that NaN fails
		return sim.Site{}, fmt.Errorf("--stranded %g: want a part of the cluster's GPUs, from 0.001 to 1", p.stranded)
	}
	habits, err := p.userHabits()
	if err != nil {
		return sim.Site{}, err
	}
	mode, err := p.parseShareMode()
	if err != nil {
		return sim.Site{}, err
	}
	scheduler, err := p.backfillConfig()
	if err != nil {
		return sim.Site{}, err
	}
	return sim.Site{
		Users: habits, Mode: mode, Backfill: scheduler,
		Profiles: costed,
		Rules: policy.Rules{
			MinRun: time.Duration(p.minRun), MaxPreemptions: p.maxPreemptions,
			Horizon: time.Duration(p.horizon), Payback: time.Duration(p.payback), Patience: time.Duration(p.patience),
			Stranded: p.stranded,
		},
		Slurm: production.Delays{
			Scheduler: time.Duration(p.schedulerDelay), Teardown: time.Duration(p.teardown),
			Launch: time.Duration(p.launch),
		},
		AtRounds: p.ends == endsInRounds, Certify: o.output.certify,
	}, nil
}
