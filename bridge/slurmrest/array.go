package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// mostTasks limits the tasks of an array that are reported; it is far more than start at once.
const mostTasks = 1024

// parseTasks reads the task indices for which an array's common record stands, in Slurm's notation (1,3-7,10-20:5%4).
// They must ascend. Slurm cuts long lists off with "..."; at most mostTasks indices are returned.
func parseTasks(text string) ([]int, error) {
	list, _, _ := strings.Cut(text, "%")
	var tasks []int
	for _, part := range strings.Split(list, ",") {
		if part == "..." && len(tasks) > 1 { // after a single index "..." does not show whether that is the last task
			break
		}
		run, err := parseRun(part)
		if err != nil || len(tasks) > 0 && run.first <= tasks[len(tasks)-1] {
			return nil, fmt.Errorf("names tasks %q of an array: want ascending numbers and ranges",
				inLine(text, "none"))
		}
		for task := run.first; task <= run.last && len(tasks) < mostTasks; task += run.step {
			tasks = append(tasks, task)
		}
	}
	return tasks, nil
}

// taskRange is a range of tasks.
type taskRange struct{ first, last, step int }

// parseRun reads one index or range of indices: 7, 3-7 or 10-20:5. Any other text is an error.
func parseRun(text string) (r taskRange, err error) {
	ends, step, stepped := strings.Cut(text, ":")
	first, last, ranged := strings.Cut(ends, "-")
	r.step = 1
	if r.first, err = index(first); err != nil {
		return r, err
	}
	if r.last = r.first; ranged {
		if r.last, err = index(last); err != nil {
			return r, err
		}
	}
	if stepped {
		if r.step, err = index(step); err != nil {
			return r, err
		}
	}
	if r.last < r.first || r.step < 1 || stepped && !ranged {
		return r, strconv.ErrRange
	}
	return r, nil
}

// index reads a task index. Slurm allows up to four million.
func index(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	return int(n), err
}

var _ slurm.Splitter = (*Client)(nil)

// Split implements slurm.Splitter. No API of slurmrestd addresses a single task, so scontrol writes the present Extra
// of these tasks again, and for that Slurm gives each of them a job of its own. Since the value does not change, an
// interruption leaves the tasks as they were.
func (c *Client) Split(ctx context.Context, array int, tasks []int) (failure error) {
	defer c.hideToken(&failure)
	if err := c.split(ctx, array, tasks); err != nil {
		return fmt.Errorf("split %d tasks of array %d: %w", len(tasks), array, err)
	}
	return nil
}

// split writes the array's present Extra to those of the tasks that have no job of their own yet: the update changes
// nothing, but makes Slurm split them off. If all tasks have one, nothing is sent.
func (c *Client) split(ctx context.Context, array int, tasks []int) error {
	job, err := c.pending(ctx, array)
	if err != nil {
		return err
	}
	var own []string // tasks still without a job of their own
	for _, task := range tasks {
		if slices.Contains(job.Tasks, task) {
			own = append(own, strconv.Itoa(task))
		}
	}
	if len(own) == 0 {
		return nil
	}
	// An update of all remaining tasks changes their common record and splits nothing. The last task keeps that record.
	if len(own) == len(job.Tasks) {
		own = own[:len(own)-1]
	}
	defer c.touch(array)
	err = c.scontrol(ctx, "update", fmt.Sprintf("JobId=%d_[%s]", array, strings.Join(own, ",")), "Extra="+job.Extra)
	if !errors.Is(err, slurm.ErrRefused) {
		return err
	}
	return c.notSplit(ctx, job, err)
}

// notSplit handles a refusal. If some tasks were cancelled meanwhile Slurm refuses but splits off the others, which is
// a success; otherwise it returns the refusal.
func (c *Client) notSplit(ctx context.Context, before parsedJob, refusal error) error {
	after, err := c.job(ctx, before.ID)
	switch {
	case errors.Is(err, slurm.ErrGone):
		return err
	case err != nil:
		return fmt.Errorf("%v: then read it: %w", refusal, err)
	case !slices.Equal(after.Tasks, before.Tasks):
		return nil
	}
	return refusal
}
