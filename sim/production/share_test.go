package production

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/users"
)

// few is long jobs that hold all GPUs of a server, of which half starve for data, and short ones behind them, of the
// users in turn.
func few(t testing.TB, sharing float64, of ...string) Config {
	var jobs []trace.Job
	for id := range 60 {
		j := trace.Job{ID: id, GPUs: 1, Arrival: float64(120 * id), Iterations: 3000, Model: "gnmt"}
		if id%2 == 1 {
			j.Model = "res18"
		}
		if id < 8 {
			j.Iterations = 20_000
		}
		if len(of) > 0 {
			j.User = of[id/2%len(of)]
		}
		jobs = append(jobs, j)
	}
	config := small(t, jobs...)
	config.Cluster = servers(1, 8, 24, 500)
	config.Users = users.Habits{Sharing: sharing, Seed: 3}
	return config
}

func mean(run outcome.Run) (sum float64) {
	for _, j := range run.Jobs {
		sum += j.Finish - j.Arrival
	}
	return sum / float64(len(run.Jobs))
}

// TestJobsThatShareGPUsAreThroughEarlier: as much is trained on the same GPUs as fits beside each other.
func TestJobsThatShareGPUsAreThroughEarlier(t *testing.T) {
	alone := simulate(t, few(t, 0))
	config, beside := few(t, 1), 0
	config.Watch = func(c *policy.Cluster, plan policy.Plan) {
		if err := policy.Check(*c, plan); err != nil {
			t.Error(err)
		}
		for _, d := range plan.Decisions {
			if d.Reason == policy.Shares {
				beside++
			}
		}
	}
	shared := simulate(t, config)
	if beside < 15 {
		t.Errorf("%d jobs were seated beside others, too few to see anything", beside)
	}
	if a, s := mean(alone), mean(shared); s > 0.95*a {
		t.Errorf("jobs take %.0f s in the mean, and %.0f s without sharing", s, a)
	}
	if most := float64(shared.GPUs) * shared.Ended; shared.BusyGPUs > most {
		t.Errorf("GPUs were in use for %.0f s, and there are %.0f", shared.BusyGPUs, most)
	}
	if again := simulate(t, few(t, 1)); !reflect.DeepEqual(again, shared) {
		t.Error("the same simulation gave another outcome")
	}
}

// TestNodesFillGPUsForTheJobsOfOneUserOnly: not that this is faster. Where no important job is there, it is not.
func TestNodesFillGPUsForTheJobsOfOneUserOnly(t *testing.T) {
	filled := func(users ...string) Config {
		config := few(t, 1, users...)
		config.Mode = share.Fill
		return config
	}
	if fill, turns := mean(simulate(t, filled("ann"))), mean(simulate(t, few(t, 1, "ann"))); fill == turns {
		t.Errorf("jobs of one user take %.0f s in the mean either way", fill)
	}
	if fill, turns := mean(simulate(t, filled())), mean(simulate(t, few(t, 1))); fill != turns {
		t.Errorf("jobs of nobody known take %.0f s in the mean, and %.0f s by turns", fill, turns)
	}
}

// TestAnImportantJobKeepsWhatItIsPromised in every round, by the speeds at which the simulation has jobs run.
func TestAnImportantJobKeepsWhatItIsPromised(t *testing.T) {
	for _, mode := range []share.Mode{share.Turns, share.Fill} {
		t.Run(string(mode), func(t *testing.T) { importantKeep(t, mode) })
	}
}

func importantKeep(t *testing.T, mode share.Mode) {
	config, important := few(t, 1, "ann", "bob"), 0
	config.Policy = policy.LAS() // in the order of arrival important ones would come when the long jobs have gone
	config.Mode, config.Profiles = mode, maps.Clone(config.Profiles)
	idle := *config.Profiles["res18"] // by turns an important one has partners only if it leaves most of its GPU idle
	idle.GPUBusy, config.Profiles["res18"] = 0.1, &idle
	s := newSite(config)
	config.Watch = func(c *policy.Cluster, plan policy.Plan) {
		there := map[string][]int{}
		for _, d := range plan.Decisions {
			if d.Grant != nil && d.Grant.Device != "" {
				there[d.Grant.Nodes[0]+d.Grant.Device] = append(there[d.Grant.Nodes[0]+d.Grant.Device], d.Job)
			}
		}
		for _, ids := range there {
			for _, id := range ids {
				at := slices.IndexFunc(c.Jobs, func(j policy.Job) bool { return j.ID == id })
				if c.Jobs[at].Share.Class != share.High || len(ids) < 2 {
					continue
				}
				important++
				if speed := s.sharedSpeed(id, ids); speed < share.HighKeeps {
					t.Errorf("job %d runs at %.3f of its speed alone", id, speed)
				}
			}
		}
	}
	jobs := few(t, 1, "ann", "bob").Jobs
	for j, more := jobs.Next(); more; j, more = jobs.Next() {
		s.jobs = append(s.jobs, outcome.Job{ID: j.ID, Model: j.Model, GPUs: j.GPUs, User: j.User})
	}
	simulate(t, config)
	if important < 10 {
		t.Errorf("%d important jobs were seen beside others, too few to see anything", important)
	}
}

func TestTheGivenProfilesStayAsTheyAre(t *testing.T) {
	config := few(t, 1)
	simulate(t, config)
	for name, p := range config.Profiles {
		if p.GPUBusy != 0 {
			t.Errorf("%s is now said to keep its GPU busy for %g", name, p.GPUBusy)
		}
	}
}

func TestATimeThatJobsShareIsCountedOnce(t *testing.T) {
	at := func(s float64) stay { return stay{epoch().Add(seconds(s)), epoch().Add(seconds(s + 10))} }
	s := site{stays: map[gpu][]stay{
		{"n1", 0}: {at(5), at(0), at(30), at(32)}, // 0 to 15 and 30 to 42
		{"n1", 1}: {at(7)},
	}}
	if got := s.sharedSeconds(); got != 37 {
		t.Errorf("%g s, want 37", got)
	}
}
