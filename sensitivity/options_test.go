package sensitivity_test

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// profiles draws valid profiles: axes that rise and throughput that never falls along them.
func profiles() *rapid.Generator[*sensitivity.Profile] {
	return rapid.Custom(func(t *rapid.T) *sensitivity.Profile {
		p := &sensitivity.Profile{
			Version: 1,
			Model:   rapid.StringMatching(`[a-z\[][a-z0-9 \]"\\]{0,8}`).Draw(t, "model"),
			Task:    "image", GPUType: "V100",
			Batch:             rapid.IntRange(1, 1024).Draw(t, "batch"),
			CheckpointSeconds: rapid.Float64Range(0, 86400).Draw(t, "checkpoint"),
			StartSeconds:      rapid.Float64Range(0, 86400).Draw(t, "start"),
		}
		cores, memory := 0.0, gres.Memory(0)
		for range rapid.IntRange(1, 6).Draw(t, "core points") {
			cores += float64(rapid.IntRange(1, 16).Draw(t, "quarter cores more")) / 4
			p.CoresPerGPU = append(p.CoresPerGPU, cores)
		}
		for range rapid.IntRange(1, 4).Draw(t, "memory points") {
			memory += gres.Memory(rapid.IntRange(1, 70000).Draw(t, "MiB more"))
			p.MemoryPerGPU = append(p.MemoryPerGPU, memory)
		}
		p.Throughput = climb(t, len(p.CoresPerGPU), len(p.MemoryPerGPU))
		return p
	})
}

// climb draws a matrix that never falls; half of its steps are level, as beyond the knee of a real one.
func climb(t *rapid.T, rows, columns int) [][]float64 {
	step := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 500))
	matrix := make([][]float64, rows)
	for i := range matrix {
		matrix[i] = make([]float64, columns)
		for j := range matrix[i] {
			floor := 1.0
			if i > 0 {
				floor = max(floor, matrix[i-1][j])
			}
			if j > 0 {
				floor = max(floor, matrix[i][j-1])
			}
			matrix[i][j] = floor + step.Draw(t, "more throughput")
		}
	}
	return matrix
}

// servers draws a server and the number of GPUs of a job on it.
func servers(t *rapid.T) (server gres.Vector, gpus int) {
	server.GPUs = rapid.IntRange(1, 8).Draw(t, "GPUs")
	server.CPUs = server.GPUs * rapid.IntRange(1, 8).Draw(t, "cores per GPU")
	server.Memory = gres.Memory(server.GPUs * rapid.IntRange(1, 200000).Draw(t, "MiB per GPU"))
	return server, rapid.IntRange(1, server.GPUs).Draw(t, "GPUs of the job")
}

func TestRateInterpolatesBetweenMeasuredPoints(t *testing.T) {
	p, err := sensitivity.Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name          string
		cores, memory float64
		want          float64
	}{
		{"a measured point", 2, 4000, 35.5},
		{"the first point", .5, 1000, 10},
		{"the last point", 4, 4000, 60},
		{"between two numbers of cores", 3, 4000, 47.75},
		{"between two amounts of memory", 4, 2500, 35},
		{"in the middle of a cell", 3, 2500, 28.875},
		{"more of everything than was measured", 99, 1e9, 60},
		{"half of the fewest cores", .25, 1000, 5},
		{"a tenth of the least memory", 4, 100, 1},
		{"half of both", .25, 500, 2.5},
		{"no cores", 0, 4000, 0},
		{"no memory", 4, 0, 0},
		{"less than nothing", -1, -1, 0},
	} {
		if got := p.Rate(sensitivity.Share{Cores: c.cores, Memory: c.memory}); got != c.want {
			t.Errorf("%s: %v samples/s, want %v", c.name, got, c.want)
		}
	}
}

func TestRateNeverFallsWhenTheShareGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := profiles().Draw(t, "profile")
		less := sensitivity.Share{
			Cores:  rapid.Float64Range(0, 30).Draw(t, "cores"),
			Memory: rapid.Float64Range(0, 300000).Draw(t, "memory"),
		}
		more := sensitivity.Share{
			Cores:  less.Cores + rapid.Float64Range(0, 10).Draw(t, "more cores"),
			Memory: less.Memory + rapid.Float64Range(0, 100000).Draw(t, "more memory"),
		}
		if a, b := p.Rate(less), p.Rate(more); a > b*(1+1e-12) {
			t.Fatalf("%v with %v, %v with %v", a, less, b, more)
		}
	})
}

func TestRateAndGainAllocateNothing(t *testing.T) {
	p := shipped(t, "alexnet")
	fair := gres.Proportional(paperServer, 1)
	var sink float64
	if n := testing.AllocsPerRun(100, func() { sink += p.Gain(paperServer, fair) }); n != 0 {
		t.Errorf("%v allocations, sum %v", n, sink)
	}
}

func TestTheGainCurveOfAlexnet(t *testing.T) {
	fair := gres.Proportional(paperServer, 1)
	want := []string{
		"gpu=1 cpu=3 mem=62.5G ×1",
		"gpu=1 cpu=4 mem=62.5G ×1.25",
		"gpu=1 cpu=5 mem=62.5G ×1.53",
		"gpu=1 cpu=6 mem=62.5G ×1.75",
		"gpu=1 cpu=7 mem=62.5G ×1.833333333",
		"gpu=1 cpu=8 mem=62.5G ×1.916666667",
		"gpu=1 cpu=9 mem=62.5G ×2",
		"gpu=1 cpu=10 mem=125G ×2.313333333",
		"gpu=1 cpu=11 mem=125G ×2.626666667",
		"gpu=1 cpu=12 mem=125G ×2.94",
	}
	var got []string
	for _, o := range shipped(t, "alexnet").Options(fair, paperServer) {
		got = append(got, fmt.Sprintf("%v ×%v", o.Size, o.Gain))
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Either way to twice the speed is worth choosing: a server may be short of memory or of cores.
func TestASizeWithMoreCoresAndLessMemoryIsAnOptionOfItsOwn(t *testing.T) {
	p := &sensitivity.Profile{
		CoresPerGPU: []float64{1, 2}, MemoryPerGPU: []gres.Memory{100, 200},
		Throughput: [][]float64{{10, 20}, {20, 20}},
	}
	got := p.Options(gres.Vector{GPUs: 1, CPUs: 1, Memory: 100}, gres.Vector{GPUs: 1, CPUs: 4, Memory: 400})
	want := []sensitivity.Option{
		{Size: gres.Vector{GPUs: 1, CPUs: 1, Memory: 100}, Gain: 1},
		{Size: gres.Vector{GPUs: 1, CPUs: 2, Memory: 100}, Gain: 2},
		{Size: gres.Vector{GPUs: 1, CPUs: 1, Memory: 200}, Gain: 2},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMemoryBetweenMeasuredPointsIsUsedUpToTheServersLimit(t *testing.T) {
	p := &sensitivity.Profile{
		CoresPerGPU: []float64{1}, MemoryPerGPU: []gres.Memory{100, 200, 300},
		Throughput: [][]float64{{10, 20, 30}},
	}
	got := p.Demand(gres.Vector{GPUs: 1, CPUs: 1, Memory: 100}, gres.Vector{GPUs: 2, CPUs: 2, Memory: 250})
	if want := (sensitivity.Option{Size: gres.Vector{GPUs: 1, CPUs: 1, Memory: 250}, Gain: 2.5}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAJobOwedNothingIsOfferedNoMoreThanThat(t *testing.T) {
	p := shipped(t, "res18")
	for _, fair := range []gres.Vector{{}, {GPUs: 1}, {GPUs: 1, CPUs: 1}} {
		if got := p.Gain(paperServer, fair); got != 1 {
			t.Errorf("owed %v, the whole server gains %v", fair, got)
		}
		if got := p.Demand(fair, fair); got != (sensitivity.Option{Size: fair, Gain: 1}) {
			t.Errorf("owed %v: %v", fair, got)
		}
	}
}

func TestOptionsAscendFitAndKeepThePromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := profiles().Draw(t, "profile")
		server, gpus := servers(t)
		fair := gres.Proportional(server, gpus)
		limit := server
		limit.GPUs = gpus
		options := p.Options(fair, limit)
		if len(options) == 0 {
			t.Fatal("no option")
		}
		for i, o := range options {
			if o.Gain < 1 || o.Gain != p.Gain(o.Size, fair) || o.Size.GPUs != gpus || !o.Size.Fits(limit) {
				t.Fatalf("option %d of %v is %v, the gain there %v", i, options, o, p.Gain(o.Size, fair))
			}
			if i > 0 && o.Gain < options[i-1].Gain {
				t.Fatalf("option %d of %v is slower than the one before", i, options)
			}
		}
	})
}

func TestNoOptionIsBeatenByAnotherSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := profiles().Draw(t, "profile")
		server, gpus := servers(t)
		fair := gres.Proportional(server, gpus)
		options := p.Options(fair, server)
		for i, o := range options {
			for k, other := range options {
				if i != k && other.Size.Fits(o.Size) && other.Gain >= o.Gain {
					t.Fatalf("%v is as fast as %v with no more", other, o)
				}
			}
			if least := cheaper(p, o, fair); least != o.Size {
				t.Fatalf("%v is as fast as %v with no more", least, o)
			}
		}
	})
}

// cheaper is the size with fewer cores or with one of the measured amounts of memory that is as fast as o, or o's own.
func cheaper(p *sensitivity.Profile, o sensitivity.Option, fair gres.Vector) gres.Vector {
	size := o.Size
	for size.CPUs = 1; size.CPUs < o.Size.CPUs; size.CPUs++ {
		if p.Gain(size, fair) >= o.Gain {
			return size
		}
	}
	for _, memory := range p.MemoryPerGPU {
		size.Memory = memory * gres.Memory(size.GPUs)
		if size.Memory < o.Size.Memory && p.Gain(size, fair) >= o.Gain {
			return size
		}
	}
	return o.Size
}

func TestTheDemandIsAsFastAsTheWholeServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := profiles().Draw(t, "profile")
		server, gpus := servers(t)
		fair := gres.Proportional(server, gpus)
		whole := server
		whole.GPUs = gpus
		if got, want := p.Demand(fair, server).Gain, p.Gain(whole, fair); got != want {
			t.Fatalf("gain %v, with the whole server %v", got, want)
		}
	})
}

func TestAJobOfSeveralGPUsIsOfferedWhatEachOfThemWouldBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := profiles().Draw(t, "profile")
		one, _ := servers(t)
		one.GPUs = 1
		gpus := rapid.IntRange(2, 8).Draw(t, "GPUs")
		fair := gres.Vector{GPUs: 1, CPUs: rapid.IntRange(1, one.CPUs).Draw(t, "fair"), Memory: one.Memory}
		several := p.Options(fair.Times(gpus), one.Times(gpus))
		for _, o := range p.Options(fair, one) {
			if !offered(several, o.Size.Times(gpus), o.Gain) {
				t.Fatalf("%v is an option for one GPU, %v are the ones for %d", o, several, gpus)
			}
		}
	})
}

func offered(options []sensitivity.Option, size gres.Vector, gain float64) bool {
	for _, o := range options {
		if o.Size.Fits(size) && o.Gain >= gain {
			return true
		}
	}
	return false
}

func TestOptionsLeaveTheProfileAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := profiles().Draw(t, "profile")
		before, _ := p.Print()
		server, gpus := servers(t)
		first := p.Options(gres.Proportional(server, gpus), server)
		if after, _ := p.Print(); string(after) != string(before) {
			t.Fatalf("%s became %s", before, after)
		}
		if again := p.Options(gres.Proportional(server, gpus), server); !reflect.DeepEqual(first, again) {
			t.Fatalf("%v, then %v", first, again)
		}
	})
}

func BenchmarkRate(b *testing.B) {
	p := shipped(b, "alexnet")
	var sink float64
	for b.Loop() {
		sink += p.Rate(sensitivity.Share{Cores: 7, Memory: 100000})
	}
}

func BenchmarkOptions(b *testing.B) {
	p := shipped(b, "alexnet")
	fair := gres.Proportional(paperServer, 2)
	for b.Loop() {
		p.Options(fair, paperServer)
	}
}

func BenchmarkOptionsOfTheLargestProfile(b *testing.B) {
	p := &sensitivity.Profile{}
	for i := range 256 {
		p.CoresPerGPU = append(p.CoresPerGPU, float64(i+1))
		p.Throughput = append(p.Throughput, nil)
		for j := range 64 {
			p.Throughput[i] = append(p.Throughput[i], float64(1000+64*i+70*j))
		}
	}
	for j := range 64 {
		p.MemoryPerGPU = append(p.MemoryPerGPU, gres.Memory(1000*(j+1)))
	}
	fair := gres.Vector{GPUs: 1, CPUs: 16, Memory: 8000}
	for b.Loop() {
		p.Options(fair, gres.Vector{GPUs: 8, CPUs: 256, Memory: 64000})
	}
}
