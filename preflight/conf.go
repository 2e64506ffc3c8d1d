package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// slurmConf are the checks of slurm.conf, as printed by scontrol show config.
var slurmConf = []check{
	{"slurm.conf", confReadable},
	conf("JobSubmitPlugins", jobSubmit),
	conf("RequeueExit", requeueExit),
	conf("JobRequeue", jobRequeue),
	conf("KillWait", killWait),
	conf("CompleteWait", completeWait),
	conf("MinJobAge", minJobAge),
	conf("SelectType", selectType),
	conf("SelectTypeParameters", selectParameters),
	conf("SchedulerType", schedulerType),
	conf("SchedulerParameters", schedulerParameters),
	conf("SlurmctldParameters", rateLimit),
	conf("PreemptMode", preemptMode),
	conf("PriorityType", priority),
	conf("AccountingStorageEnforce", limits),
	conf("AccountingStoreFlags", storeFlags),
}

// conf is the check of one key. It is skipped if the key is not printed, and the value is empty if Slurm prints (null).
func conf(key string, judge func(value string, f *Facts) finding) check {
	return check{key, func(f *Facts) []finding {
		value, told := f.Scontrol.Value[key]
		switch {
		case f.Scontrol.Why != "":
			return nil // reported once, by the check told
		case !told:
			return []finding{skip("scontrol show config does not tell it")}
		case value == "(null)":
			value = ""
		}
		return []finding{judge(value, f)}
	}}
}

// confReadable reports why slurm.conf is unknown, if it is.
func confReadable(f *Facts) []finding {
	if f.Scontrol.Why == "" {
		return nil
	}
	return []finding{skip("not looked at: %s", f.Scontrol.Why)}
}

// number reads the first word of a value as an integer: 10 of "10 sec".
func number(value string) (int, bool) {
	first, _, _ := strings.Cut(value, " ")
	n, err := strconv.Atoi(first)
	return n, err == nil
}

// jobSubmit requires the gate, job_submit.lua.
func jobSubmit(value string, _ *Facts) finding {
	if !hasPlugin(value, "job_submit", "lua") {
		return fail("JobSubmitPlugins=lua, and job_submit.lua beside slurm.conf: "+
			"without the gate Slurm starts jobs before the daemon has seen them", "is %s", orElse(value, "empty"))
	}
	return ok("%s", value)
}

// savedExit is the exit code by which a job says that it has saved and wants to be requeued.
const savedExit = 98

// requeueExit requires that Slurm requeues a job that exits with savedExit.
func requeueExit(value string, _ *Facts) finding {
	if !slices.ContainsFunc(strings.Split(value, ","),
		func(entry string) bool { return inRange(strings.TrimSpace(entry), savedExit) }) {
		return fail(
			fmt.Sprintf(
				"RequeueExit=%d, and scontrol reconfigure: a job that saves and leaves would count as failed, and "+
					"its run be lost", savedExit),
			"is %s", orElse(value, "empty"))
	}
	return ok("%s", value)
}

// inRange says whether an entry such as 98 or 90-99 contains the code.
func inRange(entry string, code int) bool {
	from, to, isRange := strings.Cut(entry, "-")
	low, err := strconv.Atoi(from)
	if err != nil {
		return false
	}
	high := low
	if isRange {
		if high, err = strconv.Atoi(to); err != nil {
			return false
		}
	}
	return low <= code && code <= high
}

// jobRequeue warns if jobs are submitted as not to be requeued, which costs a further request per preemption.
func jobRequeue(value string, _ *Facts) finding {
	if value != "1" {
		return warn("JobRequeue=1, or expect one request more for each job that is asked to save",
			"is %s: jobs are submitted as not to be requeued", orElse(value, "empty"))
	}
	return ok("%s", value)
}

// The bounds of KillWait that give no warning, in seconds.
const killWaitLeast, killWaitMost = 30, 600

// killWait warns if a job that does not leave within its grace is killed too soon, or if one that ignores SIGTERM
// blocks its nodes for too long.
func killWait(value string, _ *Facts) finding {
	switch seconds, read := number(value); {
	case !read:
		return skip("%q is no time", value)
	case seconds < killWaitLeast:
		return warn("KillWait=60", "%d s is all that a job has that does not leave in its grace, before it is killed",
			seconds)
	case seconds > killWaitMost:
		return warn("lower it: nodes of a job that ignores SIGTERM are blocked for so long, for everybody", "is %d s",
			seconds)
	default:
		return ok("%d s", seconds)
	}
}

// completeWait warns if starts wait for the end of other jobs. A value that is no number counts as Slurm's default, 0.
func completeWait(value string, _ *Facts) finding {
	if seconds, read := number(value); read && seconds > 0 {
		return warn("CompleteWait=0: starts wait for other jobs' ends otherwise", "is %d s", seconds)
	}
	return ok("0")
}

// minJobAgeLeast is how long Slurm must remember an ended job so that a round sees how it ended, in seconds.
const minJobAgeLeast = 60

// minJobAge warns if Slurm forgets ended jobs too soon. 0 gives no warning: Slurm then keeps them.
func minJobAge(value string, _ *Facts) finding {
	if seconds, read := number(value); read && seconds > 0 && seconds < minJobAgeLeast {
		return warn("MinJobAge=300, or at least a round",
			"Slurm forgets ended jobs after %d s: how a job left is not learnt", seconds)
	}
	return ok("%s", value)
}

// selectType requires the allocation of cores and GPUs instead of whole nodes.
func selectType(value string, _ *Facts) finding {
	if !strings.HasPrefix(value, "select/cons_tres") {
		return fail("SelectType=select/cons_tres", "%s gives out whole nodes, or knows no GPUs", orElse(value, "empty"))
	}
	return ok("%s", value)
}

// selectParameters warns if Slurm does not allocate memory, or rounds cores up on nodes with several threads per core.
func selectParameters(value string, f *Facts) finding {
	upper := strings.ToUpper(value)
	switch {
	case !strings.Contains(upper, "MEMORY"):
		return warn("SelectTypeParameters=CR_Core_Memory or CR_CPU_Memory",
			"%s: Slurm gives out no memory, so what jobs are given of it binds nobody", orElse(value, "empty"))
	case strings.Contains(upper, "CR_CORE") && f.Threads.Why == "" && f.Threads.Value > 1:
		return warn("CR_CPU_Memory, or ThreadsPerCore=1: Slurm rounds what jobs are given up to whole cores",
			"%s on nodes with %d threads a core", value, f.Threads.Value)
	}
	return ok("%s", value)
}

// schedulerType warns if there is no backfill, so that one waiting job blocks all jobs behind it.
func schedulerType(value string, _ *Facts) finding {
	if value != "sched/backfill" {
		return warn("SchedulerType=sched/backfill", "%s: a job that waits for room keeps all behind it from starting",
			orElse(value, "empty"))
	}
	return ok("%s", value)
}

// The longest intervals of the schedulers at which starts are not noticeably late.
const batchDelayMost, backfillMost = 10 * time.Second, time.Minute

// schedulerParameters warns if Slurm would start a job late: because a scheduler runs rarely, or because it looks at
// fewer jobs than are eligible. Only the first fault found is reported. The depth that it advises is twice the present
// queue.
func schedulerParameters(value string, f *Facts) finding {
	s, waiting := ReadScheduler(f.Scontrol.Value), f.Slurm.Value.Eligible
	switch {
	case s.BatchDelay > batchDelayMost:
		return warn("batch_sched_delay=3, which is Slurm's default",
			"batch jobs are held back for %d s: every start is as late", s.BatchDelay/time.Second)
	case s.Defers != "":
		return warn("leave it out unless slurmctld is overloaded",
			"%s: a job starts at the next pass of the scheduler, not when it is updated", s.Defers)
	case s.Backfill > backfillMost:
		return warn("bf_interval=30, which is Slurm's default",
			"backfill looks every %d s: a start behind a job that waits for room is as late", s.Backfill/time.Second)
	case s.Backfill > 0 && waiting > s.BackfillDepth:
		return warn(fmt.Sprintf("bf_max_job_test=%d, and bf_continue", 2*waiting),
			"%d jobs wait that Slurm may start, and backfill looks at the first %d: a start behind them is not seen",
			waiting, s.BackfillDepth)
	case waiting > s.Depth:
		return warn(fmt.Sprintf("default_queue_depth=%d", 2*waiting),
			"%d jobs wait that Slurm may start, and its main scheduler looks at the first %d: a start behind them "+
				"waits for a look at the whole queue, every %d s", waiting, s.Depth,
			cmp.Or(s.Backfill, s.Main)/time.Second)
	}
	return ok("%s", orElse(value, "defaults"))
}

// Slurm's defaults with rl_enable: requests per refill, and seconds between refills.
const refillDefault, periodDefault = 2, 1

// rateLimit warns if slurmctld accepts fewer requests a second than the daemon may send. Without rl_enable it has no
// limit, whatever the other parameters say.
func rateLimit(value string, f *Facts) finding {
	refill, period, limited := float64(refillDefault), float64(periodDefault), false
	for entry := range strings.SplitSeq(value, ",") {
		name, amount, _ := strings.Cut(strings.TrimSpace(entry), "=")
		switch x, err := strconv.ParseFloat(amount, 64); {
		case name == "rl_enable":
			limited = true
		case name == "rl_refill_rate" && err == nil:
			refill = x
		case name == "rl_refill_period" && err == nil && x > 0:
			period = x
		}
	}
	refill /= period
	if limited && refill < f.Wanted.Rate {
		return warn(
			"raise rl_refill_rate and rl_bucket_size, and leave rl_refill_period out, or set rate in the "+
				"configuration below them and make the lease longer",
			"rl_enable lets through %g requests a second, and rate is %g: each one beyond takes a second", refill,
			f.Wanted.Rate)
	}
	return ok("%s", orElse(value, "no bound on requests"))
}

// preemptMode warns if Slurm preempts jobs itself, since it does not ask them to save.
func preemptMode(value string, _ *Facts) finding {
	if value != "OFF" && value != "" {
		return warn(
			"see that what Slurm may preempt are not the managed jobs: it does not ask them to save, and the daemon "+
				"plans with what they hold",
			"%s: Slurm stops jobs by itself", value)
	}
	return ok("%s", value)
}

// priority warns if waiting jobs gain no age priority. A leased job is not eligible, and without ACCRUE_ALWAYS only
// eligible jobs gain it.
func priority(value string, f *Facts) finding {
	weight, _ := number(f.Scontrol.Value["PriorityWeightAge"])
	always := has(f.Scontrol.Value["PriorityFlags"], "ACCRUE_ALWAYS")
	if strings.HasSuffix(value, "multifactor") && weight > 0 && !always {
		return warn("PriorityFlags=ACCRUE_ALWAYS",
			"a job gathers age only while it may start, and so none under a lease, while PriorityWeightAge is %d",
			weight)
	}
	return ok("%s", value)
}

// limits reports whether Slurm enforces limits. Both are fine.
func limits(value string, _ *Facts) finding {
	if value == "" || value == "none" || value == "0" {
		return ok("nothing is enforced: limits of associations and QOS bind nobody")
	}
	return ok("%s", value)
}

// storeFlags warns if accounting does not keep a job's directive and grant.
func storeFlags(value string, _ *Facts) finding {
	var missing []string
	for _, flag := range []string{"job_comment", "job_extra"} {
		if !has(value, flag) {
			missing = append(missing, flag)
		}
	}
	if len(missing) > 0 {
		return warn("AccountingStoreFlags=job_comment,job_extra",
			"accounting keeps no %s: afterwards nobody can see what a job asked for, and what it was given and why",
			strings.Join(missing, " and no "))
	}
	return ok("%s", value)
}
