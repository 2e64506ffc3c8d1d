package production

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

func TestProto(t *testing.T) {
	f, _ := os.Open("../../../shared/parity/traces/single_gpu_load9_12000job.csv.gz")
	z, _ := gzip.NewReader(f)
	var jobs []trace.Job
	sc := bufio.NewScanner(z)
	for sc.Scan() {
		var j trace.Job
		p := strings.Split(sc.Text(), ",")
		j.Model = p[1]
		fmt.Sscan(p[0], &j.ID)
		fmt.Sscan(p[2], &j.Arrival)
		fmt.Sscan(p[3], &j.Iterations)
		fmt.Sscan(p[4], &j.GPUs)
		jobs = append(jobs, j)
	}
	ps := map[string]*sensitivity.Profile{}
	es, _ := profiles.FS.ReadDir(".")
	for _, e := range es {
		b, _ := profiles.FS.ReadFile(e.Name())
		p, err := sensitivity.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		p.CheckpointSeconds, p.StartSeconds = 0, 0
		ps[strings.TrimSuffix(e.Name(), ".json")] = p
	}
	t0 := time.Now()
	run, err := Run(context.Background(), Config{Cluster: cluster.Paper(), Policy: policy.FIFO(), Allocator: policy.Tune(), Profiles: ps,
		Rules: policy.Rules{}, Jobs: trace.Of(jobs), Window: outcome.Window{First: 4000, End: 5000}, Round: 300 * time.Second, AtRounds: true})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(t0)
	sum, n, fin, starts := 0.0, 0, 0, 0
	for _, j := range run.Jobs {
		if j.Done() {
			fin++
		}
		starts += j.Starts
		if j.ID >= 4000 && j.ID < 5000 {
			sum += j.Completion()
			n++
		}
	}
	t.Logf("%v, %d rounds, finished %d of %d, starts %d, ended %.0f, mean %.3f h, %.0f jobs/s", took, run.Held, fin, len(run.Jobs), starts, run.Ended, sum/float64(n)/3600, float64(fin)/took.Seconds())
}
