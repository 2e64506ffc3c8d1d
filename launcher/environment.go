package launcher

import (
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Environment returns variables that tell a process of a job its size, without those that its environment has already
// (docs/node-setup.md has the names and the rules). It adds nothing that Slurm does not say. OpenMP gets one thread for
// each core of a GPU, since a training process has one GPU; the model was profiled in the same way.
func Environment(env []string, onNode gres.Vector) (more []string) {
	has := map[string]string{}
	for _, word := range env {
		name, value, _ := strings.Cut(word, "=")
		has[name] = value
	}
	say := func(value int, names ...string) {
		for _, name := range names {
			if _, said := has[name]; !said && value > 0 {
				more = append(more, name+"="+strconv.Itoa(value))
			}
		}
	}
	if has["SLURM_JOB_ID"] == "" {
		return nil
	}
	tasks := tasksHere(has)
	gpus := max(1, onNode.GPUs/tasks)
	say(coresOfTask(has, onNode.CPUs, tasks)/gpus, "OMP_NUM_THREADS", "MKL_NUM_THREADS")
	say(onNode.CPUs, "SYNERGY_CPUS")
	say(onNode.GPUs, "SYNERGY_GPUS")
	say(int(onNode.Memory), "SYNERGY_MEMORY_MB")
	return more
}

// coresOfTask returns SLURM_CPUS_PER_TASK, and else the task's part of the cores that the job has on this node. A
// number above these cores is not used. here is 0 if they are unknown.
func coresOfTask(has map[string]string, here, tasks int) int {
	said, err := strconv.Atoi(has["SLURM_CPUS_PER_TASK"])
	if err == nil && said > 0 && (here == 0 || said <= here) {
		return said
	}
	return here / tasks
}

// tasksHere returns how many tasks share a node. A managed job has the same number on each node: 2(x3) is two on each
// of three.
func tasksHere(has map[string]string) int {
	text := has["SLURM_STEP_TASKS_PER_NODE"]
	if text == "" {
		text = has["SLURM_TASKS_PER_NODE"]
	}
	digits := strings.FieldsFunc(text, func(c rune) bool { return c < '0' || c > '9' })
	if len(digits) == 0 {
		return 1
	}
	n, err := strconv.Atoi(digits[0])
	if err != nil {
		return 1
	}
	return max(1, n)
}
