package launcher

import (
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Environment is what a process of a job is told of its size on top of the environment that it has, where that does not
// say it (docs/node-setup.md has the names and the rules). Where Slurm says nothing, neither does it. OpenMP gets a
// thread for each core of a GPU, since a training process has one GPU: so the model was profiled, too.
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

// coresOfTask is what SLURM_CPUS_PER_TASK says, unless that is more than there is here, or else its part of the node's.
func coresOfTask(has map[string]string, here, tasks int) int {
	said, err := strconv.Atoi(has["SLURM_CPUS_PER_TASK"])
	if err == nil && said > 0 && (here == 0 || said <= here) {
		return said
	}
	return here / tasks
}

// tasksHere is how many tasks share a node; a managed job has as many on each: 2(x3) is two on each of three.
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
