package bound_test

import (
	"fmt"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// crowds are full clusters with jobs that wait: usual ones, and those that have too many classes or shapes.
func crowds(b *testing.B) []crowded {
	return []crowded{
		{"128-gpus", func() policy.Cluster {
			return crowd(b, clusterOf(of(16, 8, 24, 500)), mixed{33, 33}, 200)
		}},
		{"1024-gpus", func() policy.Cluster {
			return crowd(b, clusterOf(of(128, 8, 24, 500)), mixed{33, 33}, 2000)
		}},
		{"16384-gpus", func() policy.Cluster {
			return crowd(b, clusterOf(of(2048, 8, 24, 500)), mixed{20, 70}, 10000)
		}},
		{"16384-gpus-33", func() policy.Cluster {
			return crowd(b, clusterOf(of(2048, 8, 24, 500)), mixed{33, 33}, 10000)
		}},
		{"16384-gpus-tight", func() policy.Cluster {
			return crowd(b, clusterOf(of(2048, 8, 24, 300)), mixed{33, 33}, 10000)
		}},
		{"16384-gpus-128-cores", func() policy.Cluster {
			return crowd(b, clusterOf(of(2048, 8, 128, 2000)), mixed{33, 33}, 10000)
		}},
		{"two-shapes", func() policy.Cluster {
			return crowd(b, clusterOf(of(1024, 8, 24, 500), of(1024, 8, 64, 500)), mixed{33, 33}, 10000)
		}},
		{"1000-profiles", func() policy.Cluster {
			return ownProfiles(crowd(b, clusterOf(of(2048, 8, 24, 500)), mixed{33, 33}, 10000), 1000)
		}},
		{"10000-profiles", func() policy.Cluster {
			return ownProfiles(crowd(b, clusterOf(of(2048, 8, 24, 500)), mixed{33, 33}, 10000), 10000)
		}},
		{"2048-shapes", func() policy.Cluster {
			return unlike(crowd(b, clusterOf(of(2048, 8, 24, 500)), mixed{33, 33}, 10000))
		}},
		{"100000-jobs", func() policy.Cluster {
			return crowd(b, clusterOf(of(20000, 8, 24, 500)), mixed{33, 33}, 100000)
		}},
	}
}

type crowded struct {
	name string
	make func() policy.Cluster
}

// BenchmarkCertify times certificates of plans from empty.
func BenchmarkCertify(b *testing.B) {
	for _, s := range crowds(b) {
		b.Run(s.name, func(b *testing.B) {
			c := s.make()
			plan := policy.Decide(c, policy.FIFO(), policy.Tune())
			var cert bound.Certificate
			b.ReportAllocs()
			for b.Loop() {
				cert = bound.Certify(&c, plan)
			}
			b.ReportMetric(100*cert.Ratio(), "%")
			b.ReportMetric(float64(cert.Classes), "classes")
			b.ReportMetric(float64(cert.Shapes), "shapes")
		})
	}
}

// BenchmarkFromEmpty times the plans that BenchmarkCertify certifies.
func BenchmarkFromEmpty(b *testing.B) {
	for _, s := range crowds(b) {
		b.Run(s.name, func(b *testing.B) {
			c := s.make()
			b.ReportAllocs()
			for b.Loop() {
				policy.Decide(c, policy.FIFO(), policy.Tune())
			}
		})
	}
}

// crowd adds so many waiting jobs of one to eight GPUs.
func crowd(t testing.TB, c policy.Cluster, m mixed, jobs int) policy.Cluster {
	many := clusterOf(of(jobs, 8, 24, 500))
	c.Jobs = batch(t, many, m, manyGPUs, 42).Jobs
	c.Jobs = c.Jobs[:jobs]
	return c
}

// ownProfiles gives the jobs so many profiles, none like another.
func ownProfiles(c policy.Cluster, count int) policy.Cluster {
	var own []*sensitivity.Profile
	for i := range count {
		p := *c.Jobs[i%len(c.Jobs)].Profile
		p.Model = fmt.Sprintf("own-%d", i)
		p.Throughput = make([][]float64, len(p.CoresPerGPU))
		for r, row := range c.Jobs[i%len(c.Jobs)].Profile.Throughput {
			for k, rate := range row {
				p.Throughput[r] = append(p.Throughput[r], rate*(1+float64(r+k)*float64(i%17)/400))
			}
		}
		own = append(own, &p)
	}
	for i := range c.Jobs {
		c.Jobs[i].Profile = own[i%count]
	}
	return c
}

// unlike makes each node a shape of its own.
func unlike(c policy.Cluster) policy.Cluster {
	for i := range c.Nodes {
		c.Nodes[i].Total.CPUs += i % 41
		c.Nodes[i].Total.Memory += gres.Memory(i * 100)
	}
	return c
}
