package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// call sends one request and returns the body of a success. At most Concurrent of them are in flight, and a request waits for
// its turn before its time begins to count. The path is as the document writes it, for counters.
func (c *Client) call(ctx context.Context, path string, request *http.Request, err error) ([]byte, error) {
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	if err := c.limit.Wait(ctx); err != nil {
		return nil, err
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	began, counted := time.Now(), Call{Method: request.Method, Path: path}
	body, err := c.exchange(ctx, request, &counted)
	if c.options.OnCall != nil {
		counted.Took, counted.Err = time.Since(began), kindWord(err)
		c.options.OnCall(counted)
	}
	return body, err
}

// exchange sends the request, and notes in the call what was heard.
func (c *Client) exchange(ctx context.Context, request *http.Request, call *Call) ([]byte, error) {
	token, err := c.token.read()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", bridge.ErrDenied, err)
	}
	if due, bounded := ctx.Deadline(); bounded && !time.Now().Before(due) {
		return nil, context.DeadlineExceeded // a process that was stopped for a while may come here before its timers do
	}
	within, cancel := context.WithTimeout(ctx, c.patience(call.Path))
	defer cancel()
	request = request.WithContext(within)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("X-SLURM-USER-TOKEN", token)
	if c.options.User != "" {
		request.Header.Set("X-SLURM-USER-NAME", c.options.User)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, c.unheard(ctx, err)
	}
	defer answer.Body.Close()
	call.Status = answer.StatusCode
	return c.take(ctx, answer, call, token)
}

// patience is how long an answer to this path may take. A listing of all jobs takes slurmrestd a millisecond for each, and several
// where it has to share its cores: with 5,000 jobs that has been longer than anything else may take.
func (c *Client) patience(path string) time.Duration {
	if path == allJobs {
		return 8 * c.options.Timeout
	}
	return c.options.Timeout
}

// take reads an answer. Its status and content type are looked at before anything is decoded: an API version that slurmrestd
// does not have is answered in plain text.
func (c *Client) take(ctx context.Context, answer *http.Response, call *Call, token string) ([]byte, error) {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	body, err := io.ReadAll(io.LimitReader(answer.Body, c.options.MaxBody+1))
	call.Bytes = int64(len(body))
	switch {
	case err != nil:
		return nil, c.unheard(ctx, err)
	case int64(len(body)) > c.options.MaxBody:
		return nil, unheard{fmt.Errorf("answer has more than %d bytes", c.options.MaxBody)}
	case repeats(body, token):
		return nil, unheard{errRepeats}
	case kind != "application/json" && answer.StatusCode == http.StatusOK:
		return nil, unheard{fmt.Errorf("answer of type %q: want application/json", kind)}
	case kind != "application/json":
		return nil, withoutJSON(answer.StatusCode, words(string(body[:min(len(body), 400)]), "without a reason"))
	case answer.StatusCode != http.StatusOK:
		return nil, ofQuestion(answer.Request.Method, failureIn(answer.StatusCode, body))
	}
	return body, nil
}

// ofQuestion judges the failure of a request by its method. There is nothing about a question that the site's lua could veto: one that
// fails for no reason has found no controller.
func ofQuestion(method string, err error) error {
	if failure := (*Failure)(nil); method == http.MethodGet && errors.As(err, &failure) && failure.Number == errorUnspecified {
		failure.Kind = bridge.ErrUnreachable
	}
	return err
}

// unheard tells a caller that gave up from a Slurm that did not answer.
func (c *Client) unheard(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return unheard{err}
}
