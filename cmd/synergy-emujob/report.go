package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// reporter writes the job's progress into its comment (docs/job-contract.md). It runs scontrol as the job's user, with
// arguments and without a shell.
type reporter struct {
	job   string
	words string // of the comment, written before the progress
}

// reportLimit is how long scontrol may take. Training waits for it.
const reportLimit = 20 * time.Second

// report replaces the whole comment, since scontrol cannot add to it. So the words of --report, the profile among them,
// go along each time.
func (r reporter) report(iterations int64) error {
	if _, err := strconv.Atoi(r.job); err != nil {
		return errors.New("there is no job to report for: SLURM_JOB_ID is not a number")
	}
	ctx, cancel := context.WithTimeout(context.Background(), reportLimit)
	defer cancel()
	said, err := exec.CommandContext(ctx, "scontrol", r.arguments(iterations, time.Now())...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("scontrol: %w: %.200s", err, said)
	}
	return nil
}

func (r reporter) arguments(iterations int64, at time.Time) []string {
	words := []string{r.words, fmt.Sprintf("synergy-progress=%d@%d", iterations, at.Unix())}
	return []string{"update", "jobid=" + r.job, "comment=" + strings.Join(words, " ")}
}
