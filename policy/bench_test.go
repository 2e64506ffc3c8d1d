package policy

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// scales are the sizes at which rounds are timed: jobs, and servers of eight GPUs. There is a fifth more work than
// GPUs.
var scales = []struct{ jobs, servers int }{{200, 16}, {2000, 128}, {10000, 2048}}

// BenchmarkDecide times a whole plan in four situations: everything is planned from an empty cluster; a twentieth of
// the jobs has ended and as many have come; nothing has changed; all jobs hold their proportional share, as when the
// planner takes a cluster over.
func BenchmarkDecide(b *testing.B) {
	planners := []struct {
		policy    Policy
		allocator Allocator
	}{{FIFO(), Tune()}, {LAS(), Tune()}, {FIFO(), Proportional()}, {FIFO(), Greedy()}, {FIFO(), Opt()}}
	for _, size := range scales {
		for _, p := range planners {
			b.Run(fmt.Sprintf("%d/%s-%s", size.jobs, p.policy.Name, p.allocator.Name), func(b *testing.B) {
				empty := crowded(b, size.jobs, size.servers)
				for _, s := range []struct {
					name    string
					cluster Cluster
				}{
					{"empty", empty},
					{"steady", steady(b, empty, p.policy, p.allocator)},
					{"taken-over", carriedOut(empty, Decide(empty, p.policy, Proportional()))},
					{"unchanged", carriedOut(empty, Decide(empty, p.policy, p.allocator))},
				} {
					b.Run(s.name, func(b *testing.B) { benchDecide(b, s.cluster, p.policy, p.allocator) })
				}
			})
		}
	}
}

func benchDecide(b *testing.B, c Cluster, p Policy, a Allocator) {
	b.ReportAllocs()
	before := cpuTime()
	for b.Loop() {
		Decide(c, p, a)
	}
	b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(len(c.Jobs)), "jobs/op")
	started, stopped := 0, 0
	for j, d := range decided(c, Decide(c, p, a)) {
		if d.Grant != nil && j.Running == nil {
			started++
		}
		if j.Running != nil && !unchanged(j, d) {
			stopped++
		}
	}
	b.ReportMetric(float64(started), "started/op")
	b.ReportMetric(float64(stopped), "stopped/op")
}

// cpuTime is what this process has had of the machine: others do not count, as they do in the time that passes.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkRound times what a simulator asks for again and again: Decide and Check, round after round of a full cluster
// in which up to four jobs have ended and as many have come.
func BenchmarkRound(b *testing.B) {
	for _, size := range []struct{ servers, waiting int }{{16, 20}, {16, 300}, {64, 50}, {64, 2000}} {
		for _, gpus := range []struct {
			name  string
			drawn []int
		}{{"one", oneGPU}, {"many", manyGPUs}} {
			for _, p := range []Policy{FIFO(), SRTF()} {
				name := fmt.Sprintf("%d-gpus/%d-waiting/%s/%s", 8*size.servers, size.waiting, gpus.name, p.Name)
				b.Run(name, func(b *testing.B) { benchRound(b, newSite(b, size.servers, size.waiting, gpus.drawn, p, Tune())) })
			}
		}
	}
}

// benchRound reports also the mean over the rounds of the least time that each took, which a busy machine changes less.
func benchRound(b *testing.B, s *site) {
	s.play(40)
	seen := s.play(16)
	least := make([]time.Duration, len(seen))
	b.ReportAllocs()
	var planner Planner
	round := 0
	for b.Loop() {
		c := seen[round%len(seen)]
		began := time.Now()
		if err := Check(c, planner.Decide(c, s.policy, s.alloc)); err != nil {
			b.Fatal(err)
		}
		if took := time.Since(began); round < len(seen) || took < least[round%len(seen)] {
			least[round%len(seen)] = took
		}
		round++
	}
	var sum time.Duration
	jobs, changed := 0, 0
	for i, c := range seen {
		sum, jobs = sum+least[i], jobs+len(c.Jobs)
		for j, d := range decided(c, Decide(c, s.policy, s.alloc)) {
			if !unchanged(j, d) && (j.Running != nil || d.Grant != nil) {
				changed++
			}
		}
	}
	rounds := float64(len(seen))
	b.ReportMetric(float64(sum.Nanoseconds())/rounds, "least-ns/op")
	b.ReportMetric(float64(jobs)/rounds, "jobs/op")
	b.ReportMetric(float64(changed)/rounds, "changed/op")
}

func BenchmarkCheck(b *testing.B) {
	for _, size := range scales {
		b.Run(fmt.Sprint(size.jobs), func(b *testing.B) {
			c := crowded(b, size.jobs, size.servers)
			plan := Decide(c, FIFO(), Tune())
			b.ReportAllocs()
			for b.Loop() {
				if err := Check(c, plan); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(c.Jobs)), "jobs/op")
		})
	}
}

// crowded is a cluster on which all jobs wait: the paper's mix, 1 to 8 GPUs each.
func crowded(b *testing.B, jobs, servers int) Cluster {
	c := paperCluster(servers)
	c.Jobs = mix(b, jobs, 20, 70, manyGPUs)
	for i := range c.Jobs {
		age(&c.Jobs[i])
	}
	return c
}

// age makes the times of a job its own.
func age(j *Job) {
	j.Arrival = epoch.Add(-time.Duration(j.ID*7919%36000) * time.Second)
	j.Length = time.Duration(3600+j.ID*104729%360000) * time.Second
}

// unchangedRound is the cluster one round after its plan was carried out.
func unchangedRound(c Cluster, p Policy, a Allocator) Cluster {
	after := carriedOut(c, Decide(c, p, a))
	after.Now = after.Now.Add(5 * time.Minute)
	for i := range after.Jobs {
		if j := &after.Jobs[i]; j.Running != nil {
			j.Attained, j.Done = 300*float64(j.GPUs), 5*time.Minute
		}
	}
	return after
}

// steady is the cluster after a day of rounds, when a twentieth of the running jobs has just ended and as many have
// come.
func steady(b *testing.B, c Cluster, p Policy, a Allocator) Cluster {
	b.Helper()
	after := unchangedRound(c, p, a)
	id := len(after.Jobs)
	for i := range after.Jobs {
		j := &after.Jobs[i]
		if j.Running == nil || i%20 != 0 {
			j.Attained = float64(j.ID * 7919 % 100000)
			continue
		}
		id++
		*j = Job{ID: id, GPUs: j.GPUs, Profile: j.Profile, ProfileName: j.ProfileName, Saves: true, Restart: j.Restart}
		age(j)
		j.Arrival = after.Now.Add(-time.Minute)
	}
	slices.SortFunc(after.Jobs, func(x, y Job) int { return cmp.Compare(x.ID, y.ID) })
	return after
}

// BenchmarkWorst times plans of snapshots in which what is usually shared is not, or in which everything happens at
// once, each at two sizes, the second four times the first in all that grows: no more than n log n means that it takes
// no more than five times as long.
func BenchmarkWorst(b *testing.B) {
	for _, w := range []struct {
		name   string
		policy Policy
		make   func(n int) Cluster // of n nodes
		nodes  int                 // the larger n
	}{
		{"profiles-each-tenth-job", FIFO(), func(n int) Cluster { return ownProfiles(crowded(b, 5*n, n), n/2) }, 2048},
		{"profiles-taken-over", FIFO(), func(n int) Cluster { return takenOver(ownProfiles(crowded(b, 5*n, n), n/2), FIFO()) }, 2048},
		{"shapes-many-jobs", FIFO(), func(n int) Cluster { return unlike(b, n, 10*n, manyGPUs, 0) }, 512},
		{"shapes-few-jobs", FIFO(), func(n int) Cluster { return unlike(b, n, n/8, oneGPU, 0) }, 8192},
		{"shapes-next-round", FIFO(), func(n int) Cluster { return nextRound(unlike(b, n, 8*n, oneGPU, 0), FIFO()) },
			1024},
		{"shapes-and-old-gangs", FIFO(), func(n int) Cluster { return unlike(b, n, n/4, []int{16}, 2*time.Hour) },
			2048},
		{"memory-tight", FIFO(), func(n int) Cluster { return tight(crowded(b, 5*n, n)) }, 20000},
		{"all-preempted", SRTF(), func(n int) Cluster { return preempted(b, n) }, 2048},
		{"all-gangs", FIFO(), func(n int) Cluster { return gangs(b, n) }, 2048},
		{"gangs-taken-over", FIFO(), func(n int) Cluster { return takenOver(gangs(b, n), FIFO()) }, 2048},
		{"taken-over", FIFO(), func(n int) Cluster { return takenOver(crowded(b, 5*n, n), FIFO()) }, 2048},
		{"180-classes", FIFO(), func(n int) Cluster { return ownProfiles(crowded(b, 5*n, n), 45) }, 2048},
	} {
		for _, n := range []int{w.nodes / 4, w.nodes} {
			b.Run(fmt.Sprintf("%s/%d", w.name, n), func(b *testing.B) { benchDecide(b, w.make(n), w.policy, Tune()) })
		}
	}
}

// BenchmarkSharers times plans of a cluster all of whose GPUs are in use by jobs that share, while others wait for a
// seat beside them: of a few kinds, or each with a need for memory of its own. The second size is four times the first.
func BenchmarkSharers(b *testing.B) {
	for _, kinds := range []int{4, 1 << 20} {
		for _, n := range []int{128, 512} {
			b.Run(fmt.Sprintf("%d-kinds/%d", kinds, n), func(b *testing.B) {
				benchDecide(b, sharers(b, n, kinds), FIFO(), Tune())
			})
		}
	}
}

// sharers are nodes of eight GPUs with four seats each, a job on each GPU, and ten jobs for each node that wait.
func sharers(b *testing.B, nodes, kinds int) Cluster {
	c := paperCluster(nodes)
	for i := range c.Nodes {
		for g := range 8 {
			d := Device{Name: fmt.Sprint("g", g), Memory: 80 << 10, Slots: 4}
			c.Nodes[i].Devices = append(c.Nodes[i].Devices, d)
		}
	}
	c.Jobs = mix(b, 18*nodes, 20, 70, oneGPU)
	type lightKey struct {
		of   *sensitivity.Profile
		busy int
	}
	light := map[lightKey]*sensitivity.Profile{}
	for i := range c.Jobs {
		of := c.Jobs[i].Profile
		for k, busy := range []float64{0.1, 0.2, 0.4, 0.8} {
			if key := (lightKey{of, k}); light[key] == nil {
				own := *of
				own.GPUBusy = busy
				light[key] = &own
			}
		}
	}
	for i := range c.Jobs {
		j := &c.Jobs[i]
		j.Share = &share.Request{Class: share.Low, Memory: gres.Memory(4<<10 + i*37%min(kinds*37, 60<<10))}
		j.Profile = light[lightKey{j.Profile, i % 4}]
		if i < 8*nodes {
			node, g := c.Nodes[i/8], i%8
			j.Running = &Placement{Nodes: []string{node.Name}, PerNode: gres.Vector{GPUs: 1, CPUs: 1, Memory: 20830},
				Device: fmt.Sprint("g", g)}
			c.Nodes[i/8].Devices[g].Job = j.ID
			j.Started = epoch
		}
	}
	return c
}

// unlike are nodes of which no two have the same memory, and jobs that have waited for a time.
func unlike(b *testing.B, nodes, jobs int, gpus []int, age time.Duration) Cluster {
	c := paperCluster(nodes)
	for i := range c.Nodes {
		c.Nodes[i].Total.Memory += gres.Memory(i)
	}
	c.Jobs = mix(b, jobs, 20, 70, gpus)
	for i := range c.Jobs {
		c.Jobs[i].Arrival = epoch.Add(-age)
	}
	return c
}

// ownProfiles gives the jobs so many profiles, none like another.
func ownProfiles(c Cluster, count int) Cluster {
	own := make([]*sensitivity.Profile, count)
	for i := range own {
		was := c.Jobs[i%len(c.Jobs)].Profile
		p := *was
		p.Model, p.Throughput = fmt.Sprintf("own-%d", i), nil
		for r, row := range was.Throughput {
			rates := make([]float64, len(row))
			for k, rate := range row {
				rates[k] = rate * (1 + float64(r+k)*float64(i%17)/400)
			}
			p.Throughput = append(p.Throughput, rates)
		}
		own[i] = &p
	}
	for i := range c.Jobs {
		c.Jobs[i].Profile = own[i%count]
	}
	return c
}

// takenOver is a cluster that has been in use at the proportional share.
func takenOver(c Cluster, p Policy) Cluster { return carriedOut(c, Decide(c, p, Proportional())) }

// nextRound is a cluster that Tune has planned.
func nextRound(c Cluster, p Policy) Cluster { return unchangedRound(c, p, Tune()) }

// tight leaves servers too little memory for all that gain by it.
func tight(c Cluster) Cluster {
	for i := range c.Nodes {
		c.Nodes[i].Total.Memory = 300 * gres.Gigabyte
	}
	return c
}

// preempted is a full cluster to which as much comes again, all of it shorter.
func preempted(b *testing.B, nodes int) Cluster {
	c := takenOver(crowded(b, 5*nodes, nodes), SRTF())
	c.Now = c.Now.Add(24 * time.Hour)
	for _, j := range mix(b, 5*nodes, 20, 70, manyGPUs) {
		j.ID += 5 * nodes
		j.Arrival, j.Length = c.Now, time.Duration(10+j.ID%50)*time.Minute
		c.Jobs = append(c.Jobs, j)
	}
	return c
}

// gangs are jobs of two to eight servers each.
func gangs(b *testing.B, nodes int) Cluster {
	c := paperCluster(nodes)
	c.Jobs = mix(b, nodes/3, 33, 34, []int{16, 24, 32, 64})
	for i := range c.Jobs {
		age(&c.Jobs[i])
	}
	return c
}
