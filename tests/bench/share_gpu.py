"""Two training jobs on one GPU, by each way to share it (share_gpu.sh).

The important one is a ResNet-50 with a gap after each step, in which it does not use the GPU; the other
a ViT-B/16 without. Each trial starts them, waits until both have warmed up, lets them go at once, and
counts their steps. Two trials more: one has two important jobs, and in one the other is killed while it
has the GPU. share.json has what came out, a trial an entry, in the format of the measurements in
share/predict; its last entry has a verdict for each bound. To miss one is a finding and no failure."""

import argparse
import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GPU_MS = {"resnet50": 23.0, "vit": 36.0}  # a step, where the GPU is pretended
BATCH = 64
WARM_UP = 12  # steps
LOADED_WITHIN, OVER_WITHIN = 180, 60  # seconds, beside those that are measured
IMPORTANT, REST = 0.95, 0.8  # the goal: of its speed alone, and of what that leaves idle
# The other goal: the important one's steps, of their mean alone; what the other loses beside the time that the
# important one uses; and how many steps of the important one are longer than SLO times its mean alone.
MEAN, P95, COST, SLO, LATE = 1.10, 1.3, 0.02, 1.6, 0.05
AFTER_KILL_MS = 10.0  # until the important one has the GPU of one that was killed
STANDS_MS = 1000.0  # a step of one of two important jobs that is longer is no wait but a stand-still


# One job, in a process of its own.


class Pretended:
    """A GPU that is a file: a kernel holds its lock for a millisecond."""

    def __init__(self, kind, path):
        self.kernels = int(GPU_MS[kind])
        self.file = open(path, "w")

    def step(self):
        for _ in range(self.kernels):
            fcntl.flock(self.file, fcntl.LOCK_EX)
            time.sleep(0.001)
            fcntl.flock(self.file, fcntl.LOCK_UN)

    def begin(self):
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def memory(self):
        return 0.0


class Torch:
    """A model that trains on the GPU, with a batch that is there already."""

    def __init__(self, kind):
        import torch
        import torchvision

        self.torch = torch
        torch.backends.cudnn.benchmark = True
        make = {"resnet50": torchvision.models.resnet50, "vit": torchvision.models.vit_b_16}
        self.model = make[kind]().cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.images = torch.randn(BATCH, 3, 224, 224, device="cuda")
        self.labels = torch.randint(0, 1000, (BATCH,), device="cuda")

    def step(self):
        with self.torch.autocast("cuda", dtype=self.torch.bfloat16):
            loss = self.torch.nn.functional.cross_entropy(self.model(self.images), self.labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.torch.cuda.synchronize()

    def begin(self):
        """Has kernels in the GPU's queue, and does not wait for them."""
        with self.torch.autocast("cuda", dtype=self.torch.bfloat16):
            self.model(self.images).sum().backward()

    def memory(self):
        return self.torch.cuda.max_memory_reserved() / 2**20


def job(arguments):
    """Says loaded, waits for a line, trains, and says what it measured."""
    sys.path.insert(0, os.path.join(ROOT, "python"))
    import synergy

    if arguments.pretended:
        trainer = Pretended(arguments.kind, arguments.pretended)
    else:
        trainer = Torch(arguments.kind)
    for _ in range(0 if arguments.pretended else WARM_UP):
        trainer.step()
    print("loaded", flush=True)
    sys.stdin.readline()
    took, waits, used, turns = [], [], [], []
    start = time.monotonic()
    end = start + arguments.seconds
    while time.monotonic() < end:
        wanted = time.monotonic()
        with synergy.turn():
            began = time.monotonic()
            if arguments.die_after and began > start + arguments.die_after:
                die(trainer, arguments.hold)
            trainer.step()
            over = time.monotonic()
        took.append(1000 * (over - wanted))
        waits.append(1000 * (began - wanted))
        used.append(1000 * (over - began))
        turns.append((wanted, began, over))
        time.sleep(arguments.gap / 1000)
    client = sys.modules["synergy.turn"]._client
    print(json.dumps({
        "kind": arguments.kind, "prio": arguments.prio, "gap_ms": arguments.gap,
        "it_per_s": len(took) / arguments.seconds,
        "mean_ms": sum(took) / max(1, len(took)), "p50_ms": quantile(took, 0.5),
        "p95_ms": quantile(took, 0.95), "p99_ms": quantile(took, 0.99), "max_ms": max(took, default=0.0),
        "late": late(took, arguments.alone_ms), **({"turns": turns} if arguments.trace else {}),
        "wait_p50_ms": quantile(waits, 0.5), "gpu_mean_ms": sum(used) / max(1, len(used)),
        "mem_mib": trainer.memory(), "unmanaged": client.unmanaged if client else None,
        "mps": "CUDA_MPS_PIPE_DIRECTORY" in os.environ,
    }), flush=True)  # fmt: skip


def die(trainer, hold):
    """Ends as by kill -9 in the middle of a step, when the important one waits for the GPU."""
    trainer.begin()
    time.sleep(hold)
    print(json.dumps({"killed_at": time.monotonic()}), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def late(took, alone):
    """The part of the steps that took more than SLO times as long as alone; None where that is not known."""
    return sum(t > SLO * alone for t in took) / len(took) if alone and took else None


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else 0.0


# Trials.


def plan(gaps, percentages, seconds):
    """What is tried. The keys beside trial and jobs say how; Go reads them, too."""
    high = [{"kind": "resnet50", "prio": 2, "gap_ms": gap, "step_ms": GPU_MS["resnet50"]} for gap in gaps]
    low = {"kind": "vit", "prio": 1, "gap_ms": 0.0, "step_ms": GPU_MS["vit"]}
    alone = [(f"hi alone gap {h['gap_ms']:g}", "alone", 0, [h]) for h in high]
    alone.append(("lo alone", "alone", 0, [low]))
    pairs = []
    for h in high:
        ways = [("timeslice", "timeslice", 0), ("turns", "turns", 0), ("lookahead", "lookahead", 0),
                ("mps", "mps", 100), ("mps prio", "mps prio", 100)]  # fmt: skip
        ways += [(f"mps prio {p} % of threads", "mps prio", p) for p in percentages]
        pairs += [(f"{name} gap {h['gap_ms']:g}", mode, p, [h, low]) for name, mode, p in ways]
    two = min(high, key=lambda h: abs(h["gap_ms"] - 60))  # of a gap in which both have room
    pairs.append((f"{TWO} gap {two['gap_ms']:g}", "lookahead", 0, [two, low, two]))
    return [
        {"trial": name, "mode": mode, "percent": percent, "Seconds": seconds, "jobs": jobs}
        for name, mode, percent, jobs in alone + pairs
    ]


TWO = "two important"
KILL = "turns, the holder is killed"


def killing(gaps, seconds):
    """The trial in which the other job dies with the GPU, once the important one surely waits for it: turns
    by class alone, since with look-ahead it is hardly ever kept waiting. It needs processes."""
    gap = min(gaps)
    high = {"kind": "resnet50", "prio": 2, "gap_ms": gap, "trace": True}
    hold = (gap + GPU_MS["resnet50"]) / 1000
    low = {"kind": "vit", "prio": 1, "gap_ms": 0.0, "die_after": seconds / 2, "hold": hold}
    return {"trial": f"{KILL} gap {gap:g}", "mode": "turns", "percent": 0, "jobs": [high, low]}


@contextlib.contextmanager
def helper(arguments, *words):
    """sharebench beside the jobs; gives its first line."""
    with tempfile.TemporaryDirectory(prefix="share-") as folder:
        os.chmod(folder, 0o755)
        process = subprocess.Popen(
            [arguments.sharebench, *words, "--dir", folder], stdout=subprocess.PIPE, text=True
        )
        try:
            line = line_within(process, 30)
            if not line:
                raise RuntimeError(f"{' '.join(words)} did not start")
            yield line
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def line_within(process, seconds):
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    return process.stdout.readline().strip() if ready else ""


@contextlib.contextmanager
def surroundings(arguments, trial):
    """The environment of each of the trial's jobs."""
    base = {k: v for k, v in os.environ.items() if not k.startswith(("CUDA_MPS_", "SYNERGY_"))}
    mode = trial["mode"]
    if mode in ("turns", "lookahead"):
        with helper(arguments, "broker", f"--lookahead={str(mode == 'lookahead').lower()}") as line:
            yield [
                {**base, "SYNERGY_TURN_SOCK": line.split()[1], "SHAREBENCH_JOB": job}
                for job in numbers(trial["jobs"])
            ]
    elif mode.startswith("mps"):
        with helper(arguments, "mps", "--threads", str(trial["percent"])) as line:
            fill = json.loads(line)
            classes = [fill["high"]["env"] if j["prio"] == 2 or mode == "mps" else fill["low"]["env"]
                       for j in trial["jobs"]]  # fmt: skip
            yield [{**base, **env} for env in classes]
    else:
        yield [base for _ in trial["jobs"]]


def numbers(jobs):
    """Of which job each process says that it is: sharebench has 1 and 4 for important ones, 2 and 3 for others."""
    free = {True: ["1", "4"], False: ["2", "3"]}
    return [free[j["prio"] == 2].pop(0) for j in jobs]


def start(arguments, job, environ, pretended):
    words = [sys.executable, os.path.abspath(__file__), "job", job["kind"], "--gap", str(job["gap_ms"]),
             "--prio", str(job["prio"]), "--seconds", str(arguments.seconds)]  # fmt: skip
    if pretended:
        words += ["--pretended", pretended]
    for key in ("alone_ms", "die_after", "hold"):
        if job.get(key):
            words += ["--" + key.replace("_", "-"), str(job[key])]
    if job.get("trace"):
        words.append("--trace")
    return subprocess.Popen(
        words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def attempt(arguments, trial, pretended):
    """The jobs of a trial, from their barrier to their ends."""
    with surroundings(arguments, trial) as environs:
        running = [start(arguments, j, e, pretended) for j, e in zip(trial["jobs"], environs)]
        try:
            for process in running:
                if line_within(process, LOADED_WITHIN) != "loaded":
                    raise RuntimeError("a job did not load")
            for process in running:
                process.stdin.write("go\n")
                process.stdin.flush()
            return [json.loads(line_within(p, arguments.seconds + OVER_WITHIN)) for p in running]
        finally:
            for process in running:
                process.kill()
                process.wait()
                process.stdin.close()
                process.stdout.close()


def measure(arguments, trials, pretend):
    results, alone = [], {}
    with tempfile.TemporaryDirectory() as folder:
        pretended = os.path.join(folder, "gpu") if pretend else None
        for trial in trials:
            known = [{**j, "alone_ms": alone.get((j["kind"], j["gap_ms"]))} for j in trial["jobs"]]
            try:
                jobs = attempt(arguments, {**trial, "jobs": known}, pretended)
                for j in jobs:
                    if "turns" in j:
                        j["after_kill_ms"] = after_kill(jobs, j.pop("turns"))
                if trial["mode"] == "alone":
                    alone[jobs[0]["kind"], jobs[0]["gap_ms"]] = jobs[0]["mean_ms"]
            except (RuntimeError, ValueError, OSError) as wrong:
                jobs = [{"error": str(wrong)}]
            results.append({"trial": trial["trial"], "jobs": jobs})
            said = ", ".join(
                j.get("error") or ("killed" if "killed_at" in j else f"{j['kind']} {j['it_per_s']:.1f}/s") for j in jobs
            )
            print(f"{trial['trial']}: {said}", file=sys.stderr, flush=True)
    return results


def emulate(arguments, trials):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(trials, file)
        file.flush()
        return json.loads(
            subprocess.run([arguments.sharebench, "emulated", "--plan", file.name], check=True,
                           stdout=subprocess.PIPE).stdout
        )  # fmt: skip


# What came out.


def frontier(results):
    """Of each pair: the important job's part of its speed alone, the other's, and the other's part of
    what the important one, alone, leaves idle; None where that is less than a twentieth."""
    alone = {}
    for entry in results:
        if len(entry["jobs"]) == 1 and "it_per_s" in entry["jobs"][0]:
            only = entry["jobs"][0]
            alone[only["kind"], only["gap_ms"]] = only
    points = []
    for entry in results:
        jobs = sorted(entry["jobs"], key=lambda j: -j.get("prio", 0))
        if len(jobs) != 2 or any("it_per_s" not in j for j in jobs):
            continue
        high, low = (alone.get((j["kind"], j["gap_ms"])) for j in jobs)
        if not high or not low or not high["it_per_s"] or not low["it_per_s"]:
            continue
        idle = max(0.0, 1 - high["it_per_s"] * high["gpu_mean_ms"] / 1000)
        other = jobs[1]["it_per_s"] / low["it_per_s"]
        left = 1 - jobs[0]["it_per_s"] * high["gpu_mean_ms"] / 1000  # by what it uses beside the other
        mean = high.get("mean_ms")
        points.append({
            "trial": entry["trial"], "important": jobs[0]["it_per_s"] / high["it_per_s"],
            "other": other, "idle": idle, "rest": other / idle if idle >= 0.05 else None,
            "mean": jobs[0]["mean_ms"] / mean if mean else None, "p95": jobs[0]["p95_ms"] / mean if mean else None,
            "cost": 1 - other / left if left >= 0.05 else None, "late": jobs[0].get("late"),
        })  # fmt: skip
    return points


def best(points):
    """Those that no other of the same gap beats in both."""
    def gap(p):
        return p["trial"].rsplit(" gap ", 1)[-1]

    def beaten(p):
        return any(gap(o) == gap(p) and o is not p and o["important"] >= p["important"]
                   and o["other"] >= p["other"] and (o["important"], o["other"]) != (p["important"], p["other"])
                   for o in points)  # fmt: skip

    return [p for p in points if not beaten(p)]


def verdicts(results):
    """What is wanted, what was measured, and whether that is within. Of the pairs it is the one that is nearest to
    the goal in what it is worst at; a value of None was not measured."""
    found = []

    def say(what, value, limit, least=False, trial="", unit=""):
        within = None if value is None else (value >= limit if least else value <= limit)
        found.append({"what": what, "value": value, "limit": limit, "least": least, "unit": unit, "within": within,
                      "trial": trial})  # fmt: skip

    points = frontier(results)
    near = [p for p in points if p["rest"] is not None]
    near = max(near, key=lambda p: min(p["important"] / IMPORTANT, p["rest"] / REST), default={})
    say("important speed of alone", near.get("important"), IMPORTANT, True, near.get("trial", ""))
    say("other speed of what is left idle", near.get("rest"), REST, True, near.get("trial", ""))
    steps = [p for p in points if None not in (p["mean"], p["p95"], p["cost"], p["late"])]
    p = min(steps, key=lambda p: max(p["mean"] / MEAN, p["p95"] / P95, (1 + p["cost"]) / (1 + COST),
                                     (1 + p["late"]) / (1 + LATE)), default={})  # fmt: skip
    trial = p.get("trial", "")
    say("important mean of alone", p.get("mean"), MEAN, trial=trial)
    say("important p95 of the mean alone", p.get("p95"), P95, trial=trial)
    say("cost for the other beside what the important uses", p.get("cost"), COST, trial=trial)
    say(f"important steps beyond {SLO} of alone", p.get("late"), LATE, trial=trial)
    for entry in results:
        jobs = entry["jobs"]
        if entry["trial"].startswith(KILL):
            after = next((j["after_kill_ms"] for j in jobs if "after_kill_ms" in j), None)
            say("important waits for the GPU of a killed holder", after, AFTER_KILL_MS, trial=entry["trial"],
                unit=" ms")  # fmt: skip
        if entry["trial"].startswith(TWO):
            high = [j.get("max_ms") for j in jobs if j.get("prio") == 2 and j.get("it_per_s")]
            longest = max(high) if len(high) == 2 and None not in high else None
            say("longest step of two important jobs", longest, STANDS_MS, trial=entry["trial"], unit=" ms")
    return found


def after_kill(jobs, turns):
    """How long the important one, whose turns these are, waited for the turn that it got after the kill, ms:
    from the kill, or from when it wanted one, if that was later."""
    killed = next((j["killed_at"] for j in jobs if "killed_at" in j), None)
    waits = [1000 * (began - max(killed, wanted)) for wanted, began, _ in turns if killed and began > killed]
    return waits[0] if waits else None


def verdict(v):
    shown = "not measured" if v["value"] is None else f"{v['value']:.2f}{v['unit']}"
    word = {True: "within", False: "misses", None: "wanted:"}[v["within"]]
    where = f" ({v['trial']})" if v["trial"] else ""
    return f"{v['what']} {shown}: {word} {'>= ' if v['least'] else ''}{v['limit']:.2f}{v['unit']}{where}"


def broken(results):
    """The trials that failed. Where there is no MPS that is the machine's doing."""
    return [e["trial"] for e in results
            if any("error" in j for j in e["jobs"]) and not e["trial"].startswith("mps")]  # fmt: skip


def report(results, out):
    results = [e for e in results if "verdicts" not in e]
    points = frontier(results)
    front = {p["trial"] for p in best(points)}
    print(f"{'':2}{'how':38}{'important':>10}{'other':>8}{'of the idle':>13}", file=out)
    for p in points:
        rest = "-" if p["rest"] is None else f"{p['rest']:.2f}"
        mark = "*" if p["trial"] in front else ""
        print(f"{mark:2}{p['trial']:38}{p['important']:10.2f}{p['other']:8.2f}{rest:>13}", file=out)
    for entry in results:
        for j in entry["jobs"]:
            if "error" in j:
                print(f"  {entry['trial']}: not measured: {j['error']}", file=out)
    print("* no other way with this gap is better for both", file=out)
    goal = [p for p in points if p["important"] >= IMPORTANT and (p["rest"] or 0) >= REST]
    wanted = f"important >= {IMPORTANT} with the other >= {REST} of what it leaves idle"
    if goal:
        print(f"{wanted}: met by {', '.join(p['trial'] for p in goal)}", file=out)
    else:
        near = [p for p in points if p["rest"] is not None]
        near = max(near, key=lambda p: min(p["important"] / IMPORTANT, p["rest"] / REST), default=None)
        said = f"; nearest: {near['trial']} with {near['important']:.2f} and {near['rest']:.2f}" if near else ""
        print(f"{wanted}: not met{said}", file=out)
    for v in verdicts(results):
        print(verdict(v), file=out)


COLOURS = {"timeslice": "#777", "turns": "#c33", "lookahead": "#e80", "mps": "#37b", "mps prio": "#074"}


def svg(points, caption):
    """The frontier: right is good for the important job, up for the other."""
    width, height, left, low = 760, 480, 60, 430

    def x(v):
        return left + 640 * min(v, 1.2) / 1.2

    def y(v):
        return low - 380 * min(v, 1.2) / 1.2

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
             f'font-size="11"><rect width="100%" height="100%" fill="#fff"/><text x="{left}" y="24" '
             f'font-size="14">{caption}</text>']  # fmt: skip
    for tick in range(0, 7):
        v = tick / 5
        parts.append(f'<path d="M{x(v):.1f} {low}V50M{left} {y(v):.1f}H700" stroke="#eee"/>'
                     f'<text x="{x(v):.1f}" y="{low + 16}" text-anchor="middle">{v:g}</text>'
                     f'<text x="{left - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{v:g}</text>')  # fmt: skip
    parts.append(f'<rect x="{x(IMPORTANT):.1f}" y="50" width="{700 - x(IMPORTANT):.1f}" height="{y(REST) - 50:.1f}" '
                 f'fill="#cfc" opacity="0.5"/><text x="380" y="{low + 36}" text-anchor="middle">important job, part '
                 f'of its speed alone</text><text transform="translate(18 240) rotate(-90)" text-anchor="middle">other '
                 f'job, part of what is left idle</text>')  # fmt: skip
    for p in points:
        if p["rest"] is None:
            continue
        colour = next((c for name, c in sorted(COLOURS.items(), key=lambda n: -len(n[0]))
                       if p["trial"].startswith(name)), "#a0a")  # fmt: skip
        text = p["trial"].replace("&", "&amp;").replace("<", "&lt;")
        parts.append(f'<circle cx="{x(p["important"]):.1f}" cy="{y(p["rest"]):.1f}" r="4" fill="{colour}">'
                     f'<title>{text}</title></circle><text x="{x(p["important"]) + 6:.1f}" '
                     f'y="{y(p["rest"]) + 4:.1f}" fill="{colour}">{text}</text>')  # fmt: skip
    return "\n".join(parts) + "\n</svg>\n"


def main():
    if sys.argv[1:2] == ["job"]:
        parser = argparse.ArgumentParser(prog="share_gpu.py job")
        parser.add_argument("kind", choices=sorted(GPU_MS))
        parser.add_argument("--gap", type=float, default=0)
        parser.add_argument("--prio", type=int, default=1)
        parser.add_argument("--seconds", type=float, default=5)
        parser.add_argument("--pretended")
        parser.add_argument("--alone-ms", type=float, default=0)
        parser.add_argument("--die-after", type=float, default=0)
        parser.add_argument("--hold", type=float, default=0)
        parser.add_argument("--trace", action="store_true")
        return job(parser.parse_args(sys.argv[2:]))
    parser = argparse.ArgumentParser(prog="share_gpu.sh OUT")
    parser.add_argument("--out", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--sharebench", default="", help=argparse.SUPPRESS)
    parser.add_argument("--emulated", action="store_true", help="ask the emulated GPU")
    parser.add_argument("--rehearse", action="store_true", help="all but the GPU, which is pretended")
    parser.add_argument("--report", help="only report this share.json")
    parser.add_argument("--seconds", type=float, default=6, help="of each trial (default %(default)s)")
    parser.add_argument("--gaps", default="0,20,60", help="of the important job, ms (default %(default)s)")
    parser.add_argument("--threads", default="25,30,40,50", help="per cent for the other (default %(default)s)")
    arguments = parser.parse_args()
    if arguments.report:
        with open(arguments.report) as file:
            results = json.load(file)
        caption = f"reported from {os.path.basename(arguments.report)}"
    else:
        gaps = [float(g) for g in arguments.gaps.split(",")]
        percentages = [int(p) for p in arguments.threads.split(",") if p]
        trials, kill = plan(gaps, percentages, arguments.seconds), killing(gaps, min(arguments.seconds, 4))
        if arguments.emulated:  # a kill takes processes: that one trial has them, on a GPU that is pretended
            arguments.seconds = min(arguments.seconds, 4)
            results = emulate(arguments, trials) + measure(arguments, [kill], True)
        else:
            results = measure(arguments, [*trials, kill], arguments.rehearse)
        results.append({"trial": "verdicts", "jobs": [], "verdicts": verdicts(results)})
        caption = "emulated GPU" if arguments.emulated else "pretended GPU" if arguments.rehearse else device()
        with open(os.path.join(arguments.out, "share.json"), "w") as file:
            json.dump(results, file, indent=1)
    with open(os.path.join(arguments.out, "frontier.svg"), "w") as file:
        file.write(svg(frontier(results), f"Two jobs on one GPU ({caption})"))
    print(f"{caption}:")
    report(results, sys.stdout)
    return ", ".join(["these trials failed", *broken(results)]) if broken(results) else None


def device():
    """The GPU that was measured."""
    asked = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                           stdout=subprocess.PIPE, text=True, check=False)  # fmt: skip
    return asked.stdout.strip().splitlines()[0] if asked.returncode == 0 else "a GPU"


if __name__ == "__main__":
    sys.exit(main())
