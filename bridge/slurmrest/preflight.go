package slurmrest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// Questions for checks before the daemon is started; rounds do not use them. They change nothing, except that Rehearse
// submits a held job and cancels it.

// ReadToken returns the user and the end of the token in a file, as far as the token contains them. Only Slurm can say
// whether it is valid.
func ReadToken(path string) (user string, ends time.Time, err error) {
	file := tokenFile{path: path}
	token, err := file.read()
	if err != nil {
		return "", time.Time{}, err
	}
	var claims struct {
		User string  `json:"sun"`
		Ends float64 `json:"exp"`
	}
	if parts := strings.Split(token, "."); len(parts) == 3 {
		text, _ := base64.RawURLEncoding.DecodeString(parts[1]) // not decodable: no claims
		_ = json.Unmarshal(text, &claims)
	}
	if claims.Ends > 0 && claims.Ends < 1<<40 { // seconds; more is no date, but 34,000 years
		ends = time.Unix(int64(claims.Ends), 0)
	}
	return inLine(claims.User, ""), ends, nil
}

// Partition is a partition of the cluster.
type Partition struct {
	Name    string
	GPUs    int    // of all its nodes
	Weights string // TRESBillingWeights in slurm.conf; empty: none
}

// Partitions returns the cluster's partitions, ascending in name, and the version of Slurm.
func (c *Client) Partitions(ctx context.Context) (all []Partition, release string, failure error) {
	defer c.hideToken(&failure)
	told, err := ask(ctx, c.link, c.api.Partitions())
	if err != nil {
		return nil, "", fmt.Errorf("list partitions: %w", err)
	}
	for i, p := range told.Limits {
		all = append(all, Partition{Name: inLine(p.Name, "without a name"), GPUs: told.GPUs[i],
			Weights: inLine(told.Weights[i], "")})
	}
	slices.SortFunc(all, func(a, b Partition) int { return strings.Compare(a.Name, b.Name) })
	return all, inLine(told.Release, ""), nil
}

// ThreadsPerCore is the largest number of threads per core over all nodes.
func (c *Client) ThreadsPerCore(ctx context.Context) (most int, failure error) {
	defer c.hideToken(&failure)
	if most, failure = ask(ctx, c.link, c.api.Threads()); failure != nil {
		return 0, fmt.Errorf("list nodes: %w", failure)
	}
	return most, nil
}

// Level is the user's administrator level in slurmdbd: None, Operator, Administrator.
func (c *Client) Level(ctx context.Context, user string) (level string, failure error) {
	defer c.hideToken(&failure)
	level, err := ask(ctx, c.link, c.api.Level(user))
	switch {
	case err != nil:
		return "", fmt.Errorf("ask slurmdbd for user %s: %w", user, err)
	case level == "":
		return "", fmt.Errorf("slurmdbd knows no user %s", user)
	}
	return inLine(level, "None"), nil
}

// Accounting returns the accounts and users of this cluster's associations, ascending.
func (c *Client) Accounting(ctx context.Context) (accounts, users []string, failure error) {
	defer c.hideToken(&failure)
	told, err := ask(ctx, c.link, c.api.Partitions())
	if err != nil {
		return nil, nil, fmt.Errorf("ask for the cluster's name: %w", err)
	}
	if told.Storage != slurmdbd {
		return nil, nil, errors.New("the cluster has no slurmdbd, and so neither accounts nor users")
	}
	all, err := ask(ctx, c.link, c.api.Associations(told.Cluster))
	if err != nil {
		return nil, nil, fmt.Errorf("ask slurmdbd for associations: %w", notServed(err))
	}
	for _, a := range all {
		accounts = append(accounts, inLine(a.Account, ""))
		if a.User != "" {
			users = append(users, inLine(a.User, ""))
		}
	}
	slices.Sort(accounts)
	slices.Sort(users)
	return slices.Compact(accounts), slices.Compact(users), nil
}

// Rehearsal is the result of submitting a held job with our directive and cancelling it.
type Rehearsal struct {
	Refused   error         // why it was not accepted; ErrRefused by the gate or Slurm
	Annotated bool          // it has the gate's annotation: the gate manages this partition
	Lease     time.Duration // from submission to begin time; 0: none
	// error of an update that rounds make and owners may not; nil: the gate trusts us
	Update error
	Left   int // ID of the job if it could not be cancelled; 0: it was
}

// RehearsalName is the name of the job of a rehearsal. The job is held from its submission on, and its script does
// nothing.
const RehearsalName = "synergy-check"

// Rehearse submits a held job to the partition, with this comment, updates its annotation as rounds do, and cancels it.
// So an administrator sees whether the gate manages the partition and lets the daemon write. The error means that Slurm
// could not be asked. The gate is recognised by the beginning of its annotation (job_submit.lua). Where it has not
// annotated the job, a refused update says nothing about whether it trusts us, and is dropped.
func (c *Client) Rehearse(ctx context.Context, partition, comment string) (r Rehearsal, failure error) {
	defer c.hideToken(&failure)
	submitted := c.now()
	id, err := c.submitHeld(ctx, partition, comment)
	if errors.Is(err, slurm.ErrUnreachable) || ctx.Err() != nil {
		return r, fmt.Errorf("submit a held job to partition %s: %w", partition, err)
	}
	if err != nil {
		return Rehearsal{Refused: err}, nil
	}
	defer func() { r.Left = c.takeBack(ctx, id) }()
	job, err := c.job(ctx, id)
	if err != nil {
		return r, fmt.Errorf("read job %d: %w", id, err)
	}
	r.Annotated = strings.HasPrefix(job.Extra, `{"v":1,"lua":1`)
	if !job.Begin.IsZero() {
		r.Lease = max(0, job.Begin.Sub(submitted))
	}
	if _, err := ask(ctx, c.link, c.api.Update(id, wire.Change{Extra: &job.Extra})); r.Annotated && err != nil {
		r.Update = err
	}
	return r, nil
}

// submitHeld submits the job of a rehearsal and returns its ID. An answer without an ID counts as no answer and not as
// a refusal, since the job may be in the queue.
func (c *Client) submitHeld(ctx context.Context, partition, comment string) (int, error) {
	id, err := ask(ctx, c.link, c.api.Submit(wire.Submission{
		Name: RehearsalName, Partition: partition, Comment: comment, GRES: "gres/gpu:1", Held: true,
		Folder: "/", Output: "/dev/null", Environment: []string{"PATH=/usr/bin:/bin"}, Script: script,
	}))
	if err == nil && id <= 0 {
		err = noAnswerError{fmt.Errorf("answer names job %d", id)}
	}
	return id, err
}

// takeBack cancels the job of a rehearsal, even if the caller's context has ended. It returns 0, or the job's ID if it
// could not be cancelled, so that the administrator can do so.
func (c *Client) takeBack(ctx context.Context, id int) int {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.options.Timeout)
	defer cancel()
	if _, err := ask(ctx, c.link, c.api.Signal(strconv.Itoa(id), "KILL", wire.All)); err != nil &&
		!errors.Is(err, slurm.ErrGone) {
		return id
	}
	return 0
}
