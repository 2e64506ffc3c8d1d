package conformance

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

func observing() []claim {
	return []claim{
		{"APendingJobCarriesWhatItsUserAskedFor", carriesItsRequest},
		{"AJobIsSeenAsItWasSubmitted", asSubmitted},
		{"WhatWasSeenOfAJobStaysAsItWas", sightsStay},
		{"ARunningJobShowsWhatItHolds", showsWhatItHolds},
		{"AForeignJobCountsOnItsNode", foreignCounts},
		{"WhatARoundMustNotTouchHasAShape", hasShape},
		{"AHeldJobIsHeld", heldIsHeld},
		{"AJobThatWaitsForAnotherSaysSo", dependencyShows},
		{"AnExcludedNodeIsSeen", exceptIsSeen},
		{"ADrainedNodeIsClosed", drainedIsClosed},
		{"AFinishedJobIsNotSeen", finishedIsNotSeen},
	}
}

func carriesItsRequest(b *bench) {
	pin := b.nodes(2)[1:]
	for _, c := range []struct {
		name       string
		asks, want bridge.Request
	}{
		{
			"CPUs and GPUs, memory by default",
			bridge.Request{CPUsPerTask: 3, GPUs: 2},
			bridge.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 3, CPUs: 3, CPUsPerNode: 3, MemoryPerCPU: 1000, GRES: "gres/gpu:2", GPUs: 2},
		},
		{
			"memory per node",
			bridge.Request{CPUsPerTask: 2, Memory: 7000, GPUs: 1},
			bridge.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 2, CPUs: 2, CPUsPerNode: 2, Memory: 7000, GRES: "gres/gpu:1", GPUs: 1},
		},
		{
			"memory per CPU",
			bridge.Request{CPUsPerTask: 2, MemoryPerCPU: 512, GPUs: 1},
			bridge.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 2, CPUs: 2, CPUsPerNode: 2, MemoryPerCPU: 512, GRES: "gres/gpu:1", GPUs: 1},
		},
		{
			"several tasks",
			bridge.Request{Tasks: 4, CPUsPerTask: 2, Memory: 4000, GPUs: 1},
			bridge.Request{Nodes: 1, Tasks: 4, CPUsPerTask: 2, CPUs: 8, CPUsPerNode: 2, Memory: 4000, GRES: "gres/gpu:1", GPUs: 1},
		},
		{
			"a gang",
			bridge.Request{Nodes: 2, Tasks: 2, CPUsPerTask: 2, Memory: 4000, GPUs: 4},
			bridge.Request{Nodes: 2, Tasks: 2, CPUsPerTask: 2, CPUs: 4, CPUsPerNode: 2, Memory: 4000, GRES: "gres/gpu:2", GPUs: 4},
		},
		{
			"a node by name",
			bridge.Request{CPUsPerTask: 1, Memory: 1000, GPUs: 1, Pin: pin},
			bridge.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 1, CPUs: 1, CPUsPerNode: 1, Memory: 1000, GRES: "gres/gpu:1", GPUs: 1, Pin: pin},
		},
	} {
		if job := b.waits(Job{Asks: c.asks}); !same(job.Request, c.want) {
			b.Errorf("%s: got %+v, want %+v", c.name, job.Request, c.want)
		}
	}
}

func asSubmitted(b *bench) {
	before := b.observe().At
	job := b.waits(Job{Comment: "a user's words", NoRequeue: true})
	switch {
	case job.Comment != "a user's words", job.Partition != Plain, job.User == "", job.Requeue, job.Restarts != 0:
		b.Errorf("got %+v", job)
	case job.Shape != "" || job.Odd != "" || job.Held || job.Dependency || job.Completing || len(job.Runs.Nodes) > 0:
		b.Errorf("a plain batch job that waits is %+v", job)
	case job.Submitted.Before(before.Add(-2 * time.Second)), job.Submitted.After(b.observe().At):
		b.Errorf("submitted at %s, between %s and now", job.Submitted, before)
	}
	ahead := job.Begin.Sub(before)
	if ahead < later-time.Minute || ahead > later+time.Minute {
		b.Errorf("begins in %s, want %s", ahead, later)
	}
}

func sightsStay(b *bench) {
	id := b.waits(Job{Asks: bridge.Request{CPUsPerTask: 1, Memory: 1000, GPUs: 1}}).ID
	seen := b.observe()
	first := handedOut(seen, id)
	before, pin := *first, b.nodes(1)
	b.must(b.update(before, seen.At.Add(later), func(r *bridge.Request) { cpus(r, 2); r.Pin = pin }))
	if now := handedOut(b.observe(), id); now == first || now.Request.CPUsPerTask != 2 {
		b.Errorf("after an update it is seen as %+v", now)
	}
	if !reflect.DeepEqual(*first, before) {
		b.Errorf("what was seen as %+v became %+v", before, *first)
	}
}

func showsWhatItHolds(b *bench) {
	pin := b.nodes(1)
	job := b.runs(Job{Asks: bridge.Request{CPUsPerTask: 3, Memory: 3000, GPUs: 2, Pin: pin}})
	if want := (gres.Vector{GPUs: 2, CPUs: 3, Memory: 3000}); job.Runs.PerNode != want || !slices.Equal(job.Runs.Nodes, pin) {
		b.Errorf("holds %s on %v, want %s on %v", job.Runs.PerNode, job.Runs.Nodes, want, pin)
	}
	if len(job.Runs.Devices) != 1 {
		b.Fatalf("devices %q, want one entry for its one node", job.Runs.Devices)
	}
	counts, err := gres.ParseCounts(job.Runs.Devices[0])
	b.must(err)
	if n, _ := gres.GPUs(counts); n != 2 || counts[0].Index == "" {
		b.Errorf("devices %q, want which two they are", job.Runs.Devices)
	}
	if at := b.observe().At; job.Started.IsZero() || job.Started.After(at) {
		b.Errorf("started at %s, now is %s", job.Started, at)
	}
}

func foreignCounts(b *bench) {
	job := b.runs(Job{Asks: bridge.Request{CPUsPerTask: 2, Memory: 2000, GPUs: 1}})
	node := b.node(job.Runs.Nodes[0])
	if !job.Runs.PerNode.Fits(node.Allocated) || !node.Allocated.Fits(node.Total) {
		b.Errorf("job %d holds %s of %s, node %s counts %s", job.ID, job.Runs.PerNode, node.Total, node.Name, node.Allocated)
	}
}

func hasShape(b *bench) {
	for _, form := range []Form{Array, Het, Exclusive, Interactive} {
		id := b.lab.Submit(b, Job{Form: form, Begin: later})
		if job := b.until(id, "seen", soon, alive); job.Shape == "" {
			b.Errorf("%s: no shape: %+v", form, job)
		}
	}
}

func alive(job bridge.Job, _ time.Time) bool { return job.State != bridge.Finished }

func heldIsHeld(b *bench) {
	id := b.lab.Submit(b, Job{Held: true})
	if job := b.until(id, "pending", soon, pending); !job.Held {
		b.Errorf("got %+v", job)
	}
	if job := b.waits(Job{}); job.Held {
		b.Errorf("a job that waits for its begin time is held: %+v", job)
	}
}

func dependencyShows(b *bench) {
	first := b.runs(Job{Lasts: 4 * time.Second})
	second := b.lab.Submit(b, Job{After: first.ID})
	if job := b.until(second, "pending", soon, pending); !job.Dependency {
		b.Errorf("got %+v", job)
	}
	if job := b.until(second, "running", patience, running); job.Dependency {
		b.Errorf("it runs and waits for another: %+v", job)
	}
}

func exceptIsSeen(b *bench) {
	except := b.nodes(2)
	if job := b.waits(Job{Except: except}); !slices.Equal(job.Except, except) || len(job.Request.Pin) != 0 {
		b.Errorf("excludes %v and names %v, want %v and none", job.Except, job.Request.Pin, except)
	}
}

func drainedIsClosed(b *bench) {
	nodes := b.observe().Nodes
	name := nodes[len(nodes)-1].Name
	b.untilNode(name, "open", isOpen)
	b.Run("drained", func(t *testing.T) {
		b.lab.Drain(t, name)
		newBench(t, b.lab).untilNode(name, "closed", isClosed)
	})
	b.untilNode(name, "open again", isOpen)
}

func isOpen(node bridge.Node) bool   { return node.Closed == "" }
func isClosed(node bridge.Node) bool { return node.Closed != "" }

func finishedIsNotSeen(b *bench) {
	job := b.runs(Job{Lasts: time.Second})
	b.until(job.ID, "over", patience, over)
	for _, other := range b.observe().Jobs {
		if other.State == bridge.Finished && !other.Completing {
			b.Errorf("job %d is over and seen", other.ID)
		}
	}
}
