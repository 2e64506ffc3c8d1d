package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// call sends one request. It returns the body of a successful answer, or passes the body to read as it arrives. At most
// Concurrent requests are in flight; waiting for a slot does not count against a request's timeout. path is the path as
// the API document writes it, for counters. err is the error of building the request, so that callers need not check
// it. Requests that got no slot are not reported to OnCall.
func (l *link) call(ctx context.Context, path string, request *http.Request, err error,
	read func(io.Reader) error) ([]byte, error) {
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
	body, err := l.exchange(ctx, request, &counted, read)
	if l.options.OnCall != nil {
		counted.Took, counted.Err = time.Since(began), kindWord(err)
		l.options.OnCall(counted)
	}
	return body, err
}

// ask sends a request of the API and reads the answer. What Slurm complains of in an answer with HTTP status 200 is an
// error, too (failed).
func ask[T any](ctx context.Context, l *link, call wire.Call[T]) (T, error) {
	value, said, err := askWithComplaint(ctx, l, call)
	if err == nil {
		err = failed(http.StatusOK, said)
	}
	if err != nil {
		var none T
		return none, err
	}
	return value, nil
}

// askWithComplaint asks like ask, but returns the complaints (errors and warnings) of an answer with HTTP status 200 in
// said and not as an error: a ping that finds no controller is such an answer, and its caller must tell why. An answer
// that cannot be decoded counts as none (noAnswerError), since it does not show whether the request was carried out.
func askWithComplaint[T any](
	ctx context.Context,
	l *link,
	call wire.Call[T],
) (value T, said wire.Complaint, err error) {
	if call.Stream != nil {
		_, err = l.call(ctx, call.Path, call.Request, call.Err, func(answer io.Reader) (err error) {
			value, said, err = call.Stream(answer)
			return err
		})
		return value, said, err
	}
	body, err := l.call(ctx, call.Path, call.Request, call.Err, nil)
	if err != nil {
		return value, said, err
	}
	if value, said, err = call.Read(body); err != nil {
		return value, said, noAnswerError{fmt.Errorf("read answer: %w", err)}
	}
	return value, said, nil
}

// exchange sends the request and records status and size in call. Without a readable token nothing is sent: Slurm would
// deny any request.
func (l *link) exchange(ctx context.Context, request *http.Request, call *Call,
	read func(io.Reader) error) ([]byte, error) {
	token, err := l.token.read()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", slurm.ErrDenied, err)
	}
	if due, bounded := ctx.Deadline(); bounded && !time.Now().Before(due) {
		// A process that was suspended may get here before its timers fire.
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
		return nil, l.noAnswer(ctx, err)
	}
	defer answer.Body.Close()
	call.Status = answer.StatusCode
	if read != nil && answer.StatusCode == http.StatusOK && isJSON(answer) {
		return nil, l.stream(ctx, answer.Body, call, token, read)
	}
	return l.take(ctx, answer, call, token)
}

// patience is the timeout for a path. A listing of all jobs takes slurmrestd a millisecond per job, and several where
// it shares its cores: with 5,000 jobs that has exceeded the normal timeout. A listing of all associations may, too.
func (l *link) patience(path string) time.Duration {
	if path == allJobs || path == wire.AllAssociations {
		return 8 * l.options.Timeout
	}
	return l.options.Timeout
}

// take reads an answer to its end and returns its body, or the failure that it means. It checks status and content type
// before decoding, since slurmrestd answers an unknown API version in plain text.
func (l *link) take(ctx context.Context, answer *http.Response, call *Call, token string) ([]byte, error) {
	kind := contentType(answer)
	body, err := io.ReadAll(io.LimitReader(answer.Body, l.options.MaxBody+1))
	call.Bytes = int64(len(body))
	switch {
	case err != nil:
		return nil, l.noAnswer(ctx, err)
	case int64(len(body)) > l.options.MaxBody:
		return nil, noAnswerError{fmt.Errorf("answer has more than %d bytes", l.options.MaxBody)}
	case repeatsToken(body, token):
		return nil, noAnswerError{errRepeats}
	case kind != "application/json" && answer.StatusCode == http.StatusOK:
		return nil, noAnswerError{fmt.Errorf("answer of type %q: want application/json", kind)}
	case kind != "application/json":
		return nil, withoutJSON(answer.StatusCode, inLine(string(body[:min(len(body), 400)]), "without a reason"))
	case answer.StatusCode != http.StatusOK:
		return nil, reclassifyGet(answer.Request.Method, l.failureIn(answer.StatusCode, body))
	}
	return body, nil
}

// contentType is the media type of an answer without its parameters; empty if there is none.
func contentType(answer *http.Response) string {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return kind
}

func isJSON(answer *http.Response) bool { return contentType(answer) == "application/json" }

// stream passes an answer to read as it arrives, with the same checks of length and token as take.
func (l *link) stream(ctx context.Context, body io.Reader, call *Call, token string,
	read func(io.Reader) error) error {
	guard := &guard{from: body, left: l.options.MaxBody, token: token}
	err := read(guard)
	if _, rest := io.Copy(io.Discard, guard); err == nil { // the rest may repeat the token, too
		err = rest
	}
	call.Bytes = guard.took
	switch {
	case errors.Is(guard.err, errTooLong):
		return noAnswerError{fmt.Errorf("answer has more than %d bytes", l.options.MaxBody)}
	case errors.Is(guard.err, errRepeats):
		return noAnswerError{errRepeats}
	case guard.err != nil && guard.err != io.EOF:
		return l.noAnswer(ctx, guard.err)
	case err != nil:
		return noAnswerError{fmt.Errorf("read answer: %w", err)}
	}
	return nil
}

// guard is the body of a streamed answer. It fails if the answer is too long or repeats the token.
type guard struct {
	from  io.Reader
	left  int64
	token string
	took  int64
	last  []byte // end of what was read, since the token may be split between two reads
	err   error
}

var errTooLong = errors.New("too long")

// Read implements io.Reader. After a failure it returns no bytes, so that nothing of such an answer is decoded.
func (g *guard) Read(p []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.from.Read(p)
	g.took += int64(n)
	g.left -= int64(n)
	g.last = append(g.last, p[:n]...)
	switch {
	case g.left < 0:
		g.err = errTooLong
	case repeatsToken(g.last, g.token):
		g.err = errRepeats
	default:
		g.err = err
	}
	g.last = append(g.last[:0], g.last[max(0, len(g.last)-leakLength):]...)
	if g.err != nil && g.err != io.EOF { // nothing of such an answer may be decoded, not even what was read before
		return 0, g.err
	}
	return n, g.err
}

// reclassifyGet makes an unspecified error of a GET one of ErrUnreachable. After an update it may be a veto by the
// site's lua, but lua is not asked about a GET, so there it means that no controller was found.
func reclassifyGet(method string, err error) error {
	if failure := (*Failure)(nil); method == http.MethodGet && errors.As(err, &failure) &&
		failure.Number == errorUnspecified {
		failure.Kind = slurm.ErrUnreachable
	}
	return err
}

// noAnswer is the error of a request without an answer: the context's if the caller gave up, since that says nothing
// about Slurm, and else one that wraps ErrUnreachable.
func (l *link) noAnswer(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return noAnswerError{err}
}
