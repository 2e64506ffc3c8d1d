#!/usr/bin/env python3
"""A planner in Python: first come, first served, everybody with the proportional share, nobody ever stopped."""

from planner_pb2 import Decision, Placement, PlanResponse, Vector
from synergy_plugin import serve


def share(total, gpus):
    """The proportional share of so many GPUs of a node: at least one core, rounded down."""
    return Vector(gpus=gpus, cpus=max(1, total.cpus * gpus // total.gpus), memory_mib=total.memory_mib * gpus // total.gpus)


def fits(need, free):
    return need.gpus <= free.gpus and need.cpus <= free.cpus and need.memory_mib <= free.memory_mib


def take(free, need, times=1):
    return Vector(
        gpus=free.gpus - times * need.gpus, cpus=free.cpus - times * need.cpus, memory_mib=free.memory_mib - times * need.memory_mib
    )


def suits(job, node):
    return (
        not node.closed
        and node.total.gpus > 0
        and (not job.gpu_type or job.gpu_type == node.gpu_type)
        and set(job.features) <= set(node.features)
        and (not job.only or node.name in job.only)
        and node.name not in getattr(job, "except")
    )


def place(job, nodes, free):
    """Nodes of one kind that have room for the job, and what it gets on each; None where there are none."""
    for width in [job.nodes] if job.nodes else range(1, job.gpus + 1):
        if job.gpus % width:
            continue
        for first in nodes:
            if not suits(job, first):
                continue
            size = share(first.total, job.gpus // width)
            tasks = max(1, job.tasks_per_node)
            size.cpus = -(-size.cpus // tasks) * tasks  # in whole cores for each task
            equal = [n.name for n in nodes if n.total == first.total and suits(job, n) and fits(size, free[n.name])]
            if len(equal) >= width:
                return Placement(nodes=sorted(equal)[:width], per_node=size)
    return None


def decide(request):
    cluster = request.cluster
    free = {n.name: take(n.total, n.foreign) for n in cluster.nodes}
    decisions = {}
    for job in cluster.jobs:
        if job.HasField("running"):
            decisions[job.id] = Decision(job=job.id, grant=job.running)
            for name in job.running.nodes:
                if name in free:
                    free[name] = take(free[name], job.running.per_node)
    for job in sorted(cluster.jobs, key=lambda j: (j.arrival_ns, j.id)):
        if job.id in decisions:
            continue
        grant = None if job.barred else place(job, cluster.nodes, free)
        if grant is None:
            reason = "barred" if job.barred else "turn"
            decisions[job.id] = Decision(job=job.id, reason=reason, why=job.barred or "no room for it behind those that came first")
            continue
        decisions[job.id] = Decision(job=job.id, grant=grant)
        for name in grant.nodes:
            free[name] = take(free[name], grant.per_node)
    return PlanResponse(decisions=[decisions[i] for i in sorted(decisions)])


if __name__ == "__main__":
    serve(decide)
