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


def ends_in_time(job, node, now):
    """Whether the job, started now, would end before others have the node."""
    return all(
        (job.reservation and r.name == job.reservation)
        or (r.to_ns and r.to_ns <= now)
        or (job.time_limit_ns and now + job.time_limit_ns <= r.from_ns)
        for r in node.reserved
    )


def suits(job, node, now):
    return (
        not node.closed
        and ends_in_time(job, node, now)
        and node.total.gpus > 0
        and (not job.gpu_type or job.gpu_type == node.gpu_type)
        and set(job.features) <= set(node.features)
        and (not job.only or node.name in job.only)
        and node.name not in getattr(job, "except")
    )


def within_terms(job, size):
    """The size that keeps what the user asked for and what the site allows, in whole cores for each task; None where there is none."""
    tasks = max(1, job.tasks_per_node)
    most = Vector(gpus=size.gpus, cpus=job.ceiling.cpus // tasks * tasks, memory_mib=job.ceiling.memory_mib)
    cpus = max(-(-n // tasks) * tasks for n in (size.cpus, job.pace.cpus))
    memory = max(size.memory_mib, job.pace.memory_mib)
    if job.ceiling.cpus:
        cpus = min(cpus, most.cpus)
    if job.ceiling.memory_mib:
        memory = min(memory, most.memory_mib)
    least = -(-max(job.floor.cpus, tasks) // tasks) * tasks
    if job.ceiling.cpus and least > most.cpus or job.ceiling.memory_mib and job.floor.memory_mib > most.memory_mib:
        return None
    return Vector(gpus=size.gpus, cpus=max(cpus, least), memory_mib=max(memory, job.floor.memory_mib))


class Quota:
    """What is left to the jobs of a group: jobs, nodes, GPUs, cores, MiB; -1 is no bound."""

    def __init__(self, quota):
        self.most = [quota.jobs, quota.nodes, quota.gpus, quota.cpus, quota.memory_mib]
        self.used = [0] * 5

    def leaves(self, bill):
        return all(most < 0 or used + more <= most for most, used, more in zip(self.most, self.used, bill))

    def charge(self, bill):
        self.used = [used + more for used, more in zip(self.used, bill)]


def bill(placement):
    n, v = len(placement.nodes), placement.per_node
    return [1, n, n * v.gpus, n * v.cpus, n * v.memory_mib]


def place(job, nodes, free, now):
    """Nodes of one kind that have room for the job, and what it gets on each; None where there are none."""
    for width in [job.nodes] if job.nodes else range(1, job.gpus + 1):
        if job.gpus % width:
            continue
        for first in nodes:
            if not suits(job, first, now):
                continue
            size = within_terms(job, share(first.total, job.gpus // width))
            if size is None:
                return None
            equal = [n.name for n in nodes if n.total == first.total and suits(job, n, now) and fits(size, free[n.name])]
            if len(equal) >= width:
                return Placement(nodes=sorted(equal)[:width], per_node=size)
    return None


def decide(request):
    cluster = request.cluster
    free = {n.name: take(n.total, n.foreign) for n in cluster.nodes}
    quotas = [Quota(q) for q in cluster.quotas]
    decisions = {}
    for job in cluster.jobs:
        if job.HasField("running"):
            for q in job.quotas:
                quotas[q].charge(bill(job.running))
            decisions[job.id] = Decision(job=job.id, grant=job.running)
            for name in job.running.nodes:
                if name in free:
                    free[name] = take(free[name], job.running.per_node)
    for job in sorted(cluster.jobs, key=lambda j: (j.arrival_ns, j.id)):
        if job.id in decisions:
            continue
        grant = None if job.barred else place(job, cluster.nodes, free, cluster.now_ns)
        if grant is None:
            reason = "barred" if job.barred else "turn"
            decisions[job.id] = Decision(job=job.id, reason=reason, why=job.barred or "no room for it behind those that came first")
            continue
        if not all(quotas[q].leaves(bill(grant)) for q in job.quotas):
            decisions[job.id] = Decision(job=job.id, reason="quota", why="its group holds all that the site leaves it")
            continue
        decisions[job.id] = Decision(job=job.id, grant=grant)
        for q in job.quotas:
            quotas[q].charge(bill(grant))
        for name in grant.nodes:
            free[name] = take(free[name], grant.per_node)
    return PlanResponse(decisions=[decisions[i] for i in sorted(decisions)])


if __name__ == "__main__":
    serve(decide)
