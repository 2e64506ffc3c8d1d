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
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// call sends one request and returns the body of a success. At most Concurrent of them are in flight, and a request
// waits for its turn before its time begins to count. The path is as the document writes it, for counters.
func (l *link) call(ctx context.Context, path string, request *http.Request, err error) ([]byte, error) {
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	if err := l.limit.Wait(ctx); err != nil {
		return nil, err
	}
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	began, counted := time.Now(), Call{Method: request.Method, Path: path}
	body, err := l.exchange(ctx, request, &counted)
	if l.options.OnCall != nil {
		counted.Took, counted.Err = time.Since(began), kindWord(err)
		l.options.OnCall(counted)
	}
	return body, err
}

// ask sends a request of the API's and reads the answer.
func ask[T any](ctx context.Context, l *link, call wire.Call[T]) (T, error) {
	value, said, err := hear(ctx, l, call)
	if err == nil {
		err = failed(http.StatusOK, said)
	}
	if err != nil {
		var none T
		return none, err
	}
	return value, nil
}

// hear is ask without judging what is said beside a success.
func hear[T any](ctx context.Context, l *link, call wire.Call[T]) (value T, said wire.Complaint, err error) {
	body, err := l.call(ctx, call.Path, call.Request, call.Err)
	if err != nil {
		return value, said, err
	}
	if value, said, err = call.Read(body); err != nil {
		return value, said, unheard{fmt.Errorf("read answer: %w", err)}
	}
	return value, said, nil
}

// exchange sends the request, and notes in the call what was heard.
func (l *link) exchange(ctx context.Context, request *http.Request, call *Call) ([]byte, error) {
	token, err := l.token.read()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", bridge.ErrDenied, err)
	}
	if due, bounded := ctx.Deadline(); bounded && !time.Now().Before(due) {
		// a process that was stopped for a while may come here before its timers do
		return nil, context.DeadlineExceeded
	}
	within, cancel := context.WithTimeout(ctx, l.patience(call.Path))
	defer cancel()
	request = request.WithContext(within)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("X-SLURM-USER-TOKEN", token)
	if l.options.User != "" {
		request.Header.Set("X-SLURM-USER-NAME", l.options.User)
	}
	answer, err := l.http.Do(request)
	if err != nil {
		return nil, l.unheard(ctx, err)
	}
	defer answer.Body.Close()
	call.Status = answer.StatusCode
	return l.take(ctx, answer, call, token)
}

// patience is how long an answer to this path may take. A listing of all jobs takes slurmrestd a millisecond for each,
// and several where it has to share its cores: with 5,000 jobs that has been longer than anything else may take. So may
// one of all associations.
func (l *link) patience(path string) time.Duration {
	if path == allJobs || path == wire.AllAssociations {
		return 8 * l.options.Timeout
	}
	return l.options.Timeout
}

// take reads an answer. Its status and content type are looked at before anything is decoded: an API version that
// slurmrestd does not have is answered in plain text.
func (l *link) take(ctx context.Context, answer *http.Response, call *Call, token string) ([]byte, error) {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	body, err := io.ReadAll(io.LimitReader(answer.Body, l.options.MaxBody+1))
	call.Bytes = int64(len(body))
	switch {
	case err != nil:
		return nil, l.unheard(ctx, err)
	case int64(len(body)) > l.options.MaxBody:
		return nil, unheard{fmt.Errorf("answer has more than %d bytes", l.options.MaxBody)}
	case repeats(body, token):
		return nil, unheard{errRepeats}
	case kind != "application/json" && answer.StatusCode == http.StatusOK:
		return nil, unheard{fmt.Errorf("answer of type %q: want application/json", kind)}
	case kind != "application/json":
		return nil, withoutJSON(answer.StatusCode, inLine(string(body[:min(len(body), 400)]), "without a reason"))
	case answer.StatusCode != http.StatusOK:
		return nil, ofQuestion(answer.Request.Method, l.failureIn(answer.StatusCode, body))
	}
	return body, nil
}

// ofQuestion judges the failure of a request by its method. There is nothing about a question that the site's lua could
// veto: one that fails for no reason has found no controller.
func ofQuestion(method string, err error) error {
	if failure := (*Failure)(nil); method == http.MethodGet && errors.As(err, &failure) &&
		failure.Number == errorUnspecified {
		failure.Kind = bridge.ErrUnreachable
	}
	return err
}

// unheard tells a caller that gave up from a Slurm that did not answer.
func (l *link) unheard(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return unheard{err}
}
