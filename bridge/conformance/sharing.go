package conformance

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// sharing lists the claims about shards. Each uses GPUs of its own, so that they can run in parallel.
func sharing() []claim {
	return []claim{
		{"JobsWithAShardOfOneGPUHoldItTogether", sharersHoldOne},
		{"AJobComesBackToAnotherGPUAndThenToOneOfItsOwn", movesAndReturns},
		{"AGPUInShardsIsNobodysWholeAndTheReverse", shardsOrWhole},
		{"ShardsThatSlurmWouldNotGiveAreRefused", shardsRefused},
		{"AShardIsReadFromAJobThatWaits", shardIsRead},
		{"WhatAnAdministratorSaysOfAJobIsReadAndOutlivesItsRuns", adminCommentShows},
	}
}

// deviceType is the type of a GPU of a node, by which a job asks for it; fromLast 0 is the node's last GPU. Jobs of
// other tests get the first ones.
func (b *bench) deviceType(node string, fromLast int) string {
	b.Helper()
	devices := b.node(node).Devices
	if len(devices) < 4 {
		b.Fatalf("node %s has devices %+v: want four or more", node, devices)
	}
	return devices[len(devices)-1-fromLast].Type
}

// startOnShard starts a waiting job with a shard of one GPU in place of its own GPU, by an update.
func (b *bench) startOnShard(job slurm.Job, node, device string) {
	b.Helper()
	b.must(b.update(job, b.observe().At, func(r *slurm.Request) { r.Shard, r.Pin = device, []string{node} }))
}

// runsOnShard is the condition that a job runs with a shard of that GPU and of no other.
func runsOnShard(node, device string) jobCondition {
	return func(job slurm.Job, _ time.Time) bool {
		return job.State == slurm.Running && job.Runs.Shard == device && job.Runs.PerNode.GPUs == 1 &&
			slices.Equal(job.Runs.Nodes, []string{node}) && job.Request.Shard == device
	}
}

// shardedGPUs is the number of GPUs of which a shard is allocated, and the index of the last of them, from what Slurm
// prints, as shard:g1:1(0/4,1/4). Jobs here ask for one shard, so no part is larger than 1.
func shardedGPUs(printed []string) (n, last int) {
	for _, text := range printed {
		_, parts, _ := strings.Cut(text, "(")
		for d, part := range strings.Split(strings.TrimSuffix(parts, ")"), ",") {
			if given, _, _ := strings.Cut(part, "/"); given == "1" {
				n, last = n+1, d
			}
		}
	}
	return n, last
}

// sharersHoldOne: two jobs with a shard of the same GPU run on it at the same time, and Slurm reports for both the GPU
// that was meant.
func sharersHoldOne(b *bench) {
	node := b.nodes(1)[0]
	device := b.deviceType(node, 0)
	first, second := b.submitWaiting(Job{Asks: oneGPU(nil)}), b.submitWaiting(Job{Asks: oneGPU(nil)})
	b.startOnShard(first, node, device)
	b.startOnShard(second, node, device)
	for _, id := range []int{first.ID, second.ID} {
		job := b.waitFor(id, "on its shard", shortLimit, runsOnShard(node, device))
		n, last := shardedGPUs(job.Runs.Devices)
		if devices := b.node(node).Devices; n != 1 || devices[last].Type != device {
			b.Errorf("job %d: Slurm says %q, want a shard of %s of %+v", id, job.Runs.Devices, device, devices)
		}
	}
}

// movesAndReturns: after a requeue a job can run on another shared GPU, and after another one with a GPU of its own
// again: nothing of the shard is left in its request.
func movesAndReturns(b *bench) {
	node := b.nodes(1)[0]
	job := b.submitWaiting(Job{Asks: oneGPU(nil), Does: Saves})
	own := job.Request
	for _, device := range []string{b.deviceType(node, 1), b.deviceType(node, 2)} {
		b.startOnShard(job, node, device)
		b.waitFor(job.ID, "on its shard", shortLimit, runsOnShard(node, device))
		b.requeue(job.ID)
		b.waitFor(job.ID, "back", shortLimit, isBack)
	}
	b.must(b.update(job, b.observe().At, func(r *slurm.Request) { *r = own }))
	job = b.waitFor(job.ID, "running", shortLimit, isRunning)
	if job.Runs.Shard != "" || job.Runs.PerNode.GPUs != 1 || !sameRequest(job.Request, own) {
		b.Errorf("it holds %+v and asks for %+v, want a GPU of its own by %+v", job.Runs, job.Request, own)
	}
}

// shardsOrWhole: a GPU with a shard in use is given to no job as a whole, and of a GPU that a job holds as a whole no
// shard is given. To show that, the test fills the second node: two jobs share one GPU, and a third job holds all
// others.
func shardsOrWhole(b *bench) {
	node := b.nodes(2)[1]
	total := b.node(node).Total.GPUs
	device := b.deviceType(node, 0)
	first, second := b.submitWaiting(Job{Asks: oneGPU(nil)}), b.submitWaiting(Job{Asks: oneGPU(nil)})
	b.startOnShard(first, node, device)
	b.waitFor(first.ID, "on its shard", shortLimit, runsOnShard(node, device))
	others := b.submitRunning(Job{Asks: slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 1, GPUs: total - 1,
		Pin: []string{node}}})
	b.startOnShard(second, node, device)
	b.waitFor(second.ID, "on its shard", shortLimit, runsOnShard(node, device))
	b.waitForNode(node, "full", func(n slurm.Node) bool { return n.Allocated.GPUs == total })
	whole := b.lab.Submit(b, Job{Asks: oneGPU([]string{node})})
	third := b.submitWaiting(Job{Asks: oneGPU(nil)})
	b.startOnShard(third, node, b.deviceType(node, 1))
	b.lab.Sleep(5 * time.Second)
	for _, id := range []int{whole, third.ID} {
		if job := b.job(id); job.State != slurm.Pending {
			b.Errorf("job %d is %s with %+v: want it to wait for a GPU", id, job.State, job.Runs)
		}
	}
	if others = b.job(others.ID); others.Runs.PerNode.GPUs != total-1 || others.Runs.Shard != "" {
		b.Errorf("the one with whole GPUs holds %+v", others.Runs)
	}
}

// shardsRefused: a shard is refused for a job with two GPUs or with amounts per GPU, for which Slurm has none, and the
// job's request stays as it was.
func shardsRefused(b *bench) {
	node := b.nodes(1)[0]
	device := b.deviceType(node, 3)
	for name, asks := range map[string]slurm.Request{
		"two GPUs":            {Nodes: 1, Tasks: 1, CPUsPerTask: 1, GPUs: 2},
		"memory for each GPU": {Nodes: 1, Tasks: 1, CPUsPerTask: 1, GPUs: 1, MemoryPerGPU: gres.Gigabyte},
	} {
		job := b.submitWaiting(Job{Asks: asks})
		err := b.update(job, b.observe().At, func(r *slurm.Request) { r.Shard = device })
		if !errors.Is(err, slurm.ErrRefused) {
			b.Errorf("%s: %v, want a refusal", name, err)
		}
		if after := b.job(job.ID); after.State != slurm.Pending || !sameRequest(after.Request, job.Request) {
			b.Errorf("%s: it is %s and asks for %+v, want %+v", name, after.State, after.Request, job.Request)
		}
	}
}

// shardIsRead: a waiting job that was given a shard shows it, and shows its own request after that was restored, so
// that a later daemon can tell and undo what an earlier one wrote.
func shardIsRead(b *bench) {
	node := b.nodes(1)[0]
	device := b.deviceType(node, 3)
	job := b.submitWaiting(Job{Asks: oneGPU(nil)})
	own := job.Request
	b.must(b.update(job, b.beginIn(farBegin), func(r *slurm.Request) { r.Shard = device }))
	if job = b.job(job.ID); job.Request.Shard != device || job.Request.GPUs != 1 || job.Odd != "" {
		b.Errorf("it asks for %+v, odd %q: want a shard of %s", job.Request, job.Odd, device)
	}
	b.must(b.update(job, b.beginIn(farBegin), func(r *slurm.Request) { *r = own }))
	if job = b.job(job.ID); !sameRequest(job.Request, own) {
		b.Errorf("it asks for %+v, want its own %+v", job.Request, own)
	}
}

// adminCommentShows: an AdminComment is observed while the job waits, runs and after a requeue. A node notes there that
// a job did not give up its slice of a shared GPU, and rounds then put the job beside no other.
func adminCommentShows(b *bench) {
	const says = "seen by ops synergy-offence=3@1764000000"
	node := b.nodes(1)[0]
	job := b.submitWaiting(Job{Asks: oneGPU(nil), Does: Saves})
	if job.Admin != "" {
		b.Errorf("of job %d an administrator says %q: nobody said anything", job.ID, job.Admin)
	}
	b.lab.Administer(b, job.ID, says)
	b.startOnShard(job, node, b.deviceType(node, 3))
	b.waitFor(job.ID, "running, with what was said of it", shortLimit, func(job slurm.Job, at time.Time) bool {
		return isRunning(job, at) && job.Admin == says
	})
	b.requeue(job.ID)
	if job = b.waitFor(job.ID, "back", shortLimit, isBack); job.Admin != says {
		b.Errorf("after its run an administrator says %q, want %q", job.Admin, says)
	}
}
