package plugin

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/plannerpb"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// FuzzPlan takes whatever a plugin may send. What is taken over must be fit to be checked, printed and added up.
func FuzzPlan(f *testing.F) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	c := policy.Cluster{
		Now:   now,
		Nodes: []policy.Node{{Name: "n1", Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}}, {Name: "n2"}},
		Jobs: []policy.Job{{ID: 1, GPUs: 1}, {ID: 2, GPUs: 2, Saves: true, Started: now, Running: &policy.Placement{
			Nodes: []string{"n1"}, PerNode: gres.Vector{GPUs: 2, CPUs: 6, Memory: 125000},
		}}},
	}
	for _, a := range policy.Allocators() {
		seed, err := proto.Marshal(planOut(policy.Decide(c, policy.FIFO(), a)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var sent plannerpb.PlanResponse
		if proto.Unmarshal(text, &sent) != nil {
			return
		}
		plan, err := planIn(&c, &sent)
		if err != nil || policy.Check(c, plan) != nil {
			return
		}
		used := map[string]gres.Vector{}
		for _, d := range plan.Decisions {
			if d.Grant == nil {
				continue
			}
			for _, n := range d.Grant.Nodes {
				used[n] = used[n].Plus(d.Grant.PerNode)
			}
		}
		for _, n := range c.Nodes {
			if u := used[n.Name]; !u.Fits(n.Total) || min(u.GPUs, u.CPUs, int(u.Memory)) < 0 {
				t.Fatalf("a checked plan gives away %v of %v on %s", u, n.Total, n.Name)
			}
		}
	})
}

// A field that is not sent is one that a plugin plans without, and nobody notices.
func TestEveryFieldOfASnapshotReachesAPlugin(t *testing.T) {
	var c policy.Cluster
	fill(t, reflect.ValueOf(&c).Elem(), "Cluster", new(int64))
	c.Jobs[0].Quotas = []int{0}
	// Of sharing it is told nothing: it plans the jobs that lead, see policy.Shared.
	c.Nodes[0].Devices, c.Jobs[0].Running.Device = nil, ""
	c.Nodes[0].ForeignEnds = nil // whether it keeps nodes for a job, and how long, is its own to say
	c.Jobs[0].Share, c.Jobs[0].Kept, c.Jobs[0].Unruly = nil, nil, false
	c.Jobs[0].PerCore = false // what it grants is brought into that form, see bridge
	var s profileCache
	got, err := s.decodeCluster(clusterOut(&c))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, c) {
		t.Errorf("got  %+v\nwant %+v", got, c)
	}
}

func TestASnapshotWithAQuotaThatThereIsNotIsRefused(t *testing.T) {
	c := policy.Cluster{Quotas: []policy.Quota{{Name: "ml"}}, Jobs: []policy.Job{{ID: 7, Quotas: []int{0, 1}}}}
	var s profileCache
	if _, err := s.decodeCluster(clusterOut(&c)); err == nil || err.Error() != "job 7: quota 1: the snapshot has 1" {
		t.Errorf("got %v", err)
	}
}

// fill gives every field a value of its own.
func fill(t *testing.T, v reflect.Value, path string, last *int64) {
	t.Helper()
	*last++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(*last, 0).UTC()))
		return
	case *sensitivity.Profile:
		v.Set(reflect.ValueOf(&sensitivity.Profile{
			Version: 1, Model: "m", Task: "image", GPUType: "v100", Batch: 3, Source: "s", CoresPerGPU: []float64{1, 2},
			CheckpointSeconds: 4,
			StartSeconds:      5, MemoryPerGPU: []gres.Memory{1000}, Throughput: [][]float64{{1}, {2}},
		}))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), path+"."+v.Type().Field(i).Name, last)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), path, last)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), path, last)
	case reflect.Int, reflect.Int64:
		v.SetInt(*last)
	case reflect.Float64:
		v.SetFloat(float64(*last))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *last))
	default:
		t.Fatalf("%s is a %s, of which this test knows nothing", path, v.Type())
	}
}
