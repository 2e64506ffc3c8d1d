package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/v0042"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

func TestASlowSlurmIsUnreachable(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{Timeout: 20 * time.Millisecond})
	fake.answers("GET", "/nodes/", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if _, err := client.Observe(t.Context()); !errors.Is(err, slurm.ErrUnreachable) {
		t.Errorf("%v: want unreachable", err)
	}
}

func TestACallerThatGivesUpIsNotASlurmThatDoesNotAnswer(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	fake.answers("GET", "/nodes/", func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	_, err := client.Observe(ctx)
	if !errors.Is(err, context.Canceled) || errors.Is(err, slurm.ErrUnreachable) {
		t.Errorf("%v: want cancelled and nothing else", err)
	}
}

func TestAHugeAnswerIsNotReadToItsEnd(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{MaxBody: 4096})
	_, err := client.nodes(t.Context())
	if !errors.Is(err, slurm.ErrUnreachable) || !strings.Contains(err.Error(), "more than 4096 bytes") {
		t.Errorf("%v: want a bound on the answer", err)
	}
}

func TestNoMoreRequestsAreInFlightThanAllowed(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{Concurrent: 3})
	if _, err := client.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for id := range fake.jobs {
		group.Go(func() { _, _ = client.job(t.Context(), id) })
	}
	group.Wait()
	fake.mu.Lock()
	defer fake.mu.Unlock()
	if fake.most > 3 {
		t.Errorf("%d requests in flight: want 3 at most", fake.most)
	}
}

func TestARequestWaitsForItsTurnAndStopsWaitingWithItsCaller(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{Concurrent: 1, Rate: 1e-6})
	// Open has taken the one request that the rate lends.
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := client.ping(ctx); !errors.Is(err, context.DeadlineExceeded) &&
		!strings.Contains(fmt.Sprint(err), "exceed context deadline") {
		t.Errorf("%v: want the caller's deadline", err)
	}
	if calls := fake.saw(); len(calls) != 0 {
		t.Errorf("%q were sent", calls)
	}
}

func TestTheTokenIsReadAnewWhenItsFileChanges(t *testing.T) {
	var sent []string
	fake := startFake(t)
	path := tokenIn(t)
	client := fake.open(t, Options{TokenFile: path, User: "synergy"})
	fake.answers("GET", "/ping/", func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get("X-SLURM-USER-NAME")+":"+r.Header.Get("X-SLURM-USER-TOKEN"))
		sayFile(w, 200, "ping.json")
	})
	for _, line := range []string{"first.token", "SLURM_JWT=second.token\n"} {
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := client.ping(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	equal(t, "sent", sent, []string{"synergy:first.token", "synergy:first.token", "synergy:second.token",
		"synergy:second.token"})
}

func TestATokenThatOthersCanReadIsNotUsed(t *testing.T) {
	fake := startFake(t)
	path := tokenIn(t)
	client := fake.open(t, Options{TokenFile: path})
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		err := client.ping(t.Context())
		if !errors.Is(err, slurm.ErrDenied) || !strings.Contains(err.Error(), "want 0600") {
			t.Errorf("mode %o: %v: want denied, with the mode that is wanted", mode, err)
		}
	}
	if calls := fake.saw(); len(calls) != 0 {
		t.Errorf("%q were sent", calls)
	}
}

func TestAFileThatHoldsNoTokenIsRefused(t *testing.T) {
	for _, content := range []string{"", "\n", "two words", "a\nb", "ünicode"} {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		file := tokenFile{path: path}
		if value, err := file.read(); err == nil {
			t.Errorf("%q: token %q", content, value)
		}
	}
	missing := tokenFile{path: filepath.Join(t.TempDir(), "none")}
	if _, err := missing.read(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v: want that the file does not exist", err)
	}
}

func TestNoErrorAndNoCountShowsTheToken(t *testing.T) {
	fake := startFake(t)
	var said []string
	client := fake.open(t, Options{OnCall: func(call Call) { said = append(said, fmt.Sprintf("%+v", call)) }})
	for _, with := range []http.HandlerFunc{plainText(401, "no"), text(500, "{"), cut, half, plainText(307, "there")} {
		fake.answers("GET", "/ping/", with)
		_, err := client.Observe(t.Context())
		said = append(said, err.Error())
	}
	fake.Close()
	_, err := client.Observe(t.Context())
	said = append(said, err.Error())
	for _, line := range said {
		if strings.Contains(line, "payload") {
			t.Errorf("%q", line)
		}
	}
}

func TestAPingThatIsAnErrorSaysWhatSlurmSaid(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{})
	fake.answers("GET", "/ping/", text(200,
		`{"pings":[],"errors":[{"error_number":1000,"error":"Unspecified communication error"}]}`))
	err := client.ping(t.Context())
	if !errors.Is(err, slurm.ErrUnreachable) || !strings.Contains(err.Error(), "Unspecified communication error") {
		t.Errorf("%v: want unreachable, in Slurm's words", err)
	}
}

// TestAnAnswerThatRepeatsTheTokenIsNotShown: something between us and slurmrestd echoes what it was sent, in every
// place of an answer whose text enters an error.
func TestAnAnswerThatRepeatsTheTokenIsNotShown(t *testing.T) {
	const long = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJleHAiOjE3OTUzMDk2MzMsInN1biI6InN5bmVyZ3kifQ.Wf3Q0vPq7y5dYlYvK2m1xA8bN4cD6eF0gHiJkLmNoPq"
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	fake := startFake(t)
	echoes := map[string]http.HandlerFunc{
		"plain text":   plainText(500, "you sent X-SLURM-USER-TOKEN: "+long),
		"cut":          plainText(500, strings.Repeat("x", 160)+long),
		"in lines":     plainText(403, long[:60]+"\n"+long[60:]),
		"as an error":  text(500, `{"errors":[{"error_number":2002,"error":"`+long+`"}]}`),
		"escaped":      text(500, `{"errors":[{"error_number":1,"description":"\u0065`+long[1:]+`"}]}`),
		"as a warning": text(200, `{"warnings":[{"description":"Ignoring unknown field `+long+`"}]}`),
		"as a type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", long)
			w.WriteHeader(200)
		},
		"as a number": text(200, `{"jobs":[{"job_id":"`+long+`","state":["RUNNING"]}]}`),
		"as a number, escaped": text(200, `{"jobs":[{"job_id":"`+long[:110]+`\u0065\u0065`+long[112:]+
			`","state":["RUNNING"]}]}`),
	}
	for name, with := range echoes {
		client := fake.open(t, Options{TokenFile: path})
		_, _ = client.Observe(t.Context()) // so that the next one sweeps
		fake.answers("GET", "/jobs/state/", with)
		fake.answers("POST", fmt.Sprintf("/job/%d", fake.jobNamed(t, "gated")), with)
		_, err := client.Observe(t.Context())
		_, nodes := client.nodes(t.Context())
		said := []error{err, nodes, client.Update(t.Context(),
			slurm.Update{Job: fake.jobNamed(t, "gated"), Begin: time.Now()})}
		for _, err := range said {
			if err != nil && leaksToken(err.Error(), long) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if said[0] == nil || said[2] == nil {
			t.Errorf("%s: taken for a success: %v", name, said)
		}
	}
}

func TestWhatReadsLikeAJobAndRepeatsTheTokenIsNotObserved(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{})
	fake.set(fake.jobNamed(t, "gated"), "name", "of "+secret)
	if seen, err := client.Observe(t.Context()); !errors.Is(err, slurm.ErrUnreachable) || len(seen.Jobs) > 0 {
		t.Errorf("%v, %d jobs: want the answer refused", err, len(seen.Jobs))
	}
}

func TestAScontrolThatRepeatsTheTokenIsNotShown(t *testing.T) {
	argv, _ := fakeScontrol(t, `echo "auth: bad token $SLURM_JWT" >&2; exit 1`)
	fake, client, _ := watched(t, Options{Scontrol: argv, ScontrolByToken: true})
	err := client.Requeue(t.Context(), fake.jobNamed(t, "running"))
	if !errors.Is(err, slurm.ErrRefused) || leaksToken(err.Error(), secret) {
		t.Errorf("%v: want a refusal without the token", err)
	}
}

func TestEveryCallIsCountedByItsTemplate(t *testing.T) {
	fake := startFake(t)
	var counted []string
	client := fake.open(t, Options{OnCall: func(c Call) {
		counted = append(counted, strings.TrimSpace(fmt.Sprintf("%s %s %d %s", c.Method, c.Path, c.Status, c.Err)))
	}})
	_ = client.ping(t.Context())
	_, _ = client.job(t.Context(), fake.jobNamed(t, "held"))
	_, _ = client.job(t.Context(), 999999)
	_ = client.signal(t.Context(), fake.jobNamed(t, "running"), usr1)
	equal(t, "counted", counted, []string{
		"GET /openapi/v3 200", "GET /ping/ 200", "GET /job/{job_id} 200", "GET /job/{job_id} 404 gone",
		"GET /job/{job_id} 200", "DELETE /job/{job_id} 200",
	})
}

func TestARedirectIsNotFollowed(t *testing.T) {
	var reached []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached = append(reached, r.URL.Path) }))
	defer elsewhere.Close()
	fake := startFake(t)
	client := fake.open(t, Options{})
	fake.answers("GET", "/ping/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/stolen", http.StatusTemporaryRedirect)
	})
	if err := client.ping(t.Context()); !errors.Is(err, slurm.ErrUnreachable) || len(reached) > 0 {
		t.Errorf("%v, reached %q: want the redirect as an answer", err, reached)
	}
}

func TestSlurmrestdIsReachedByItsSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	fake := startFake(t)
	server := &http.Server{Handler: fake}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	defer func() { _ = server.Close(); <-done }()
	client, err := Open(t.Context(), Options{URL: "unix:" + path, TokenFile: tokenIn(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if seen, err := client.Observe(t.Context()); err != nil || len(seen.Nodes) != 4 {
		t.Errorf("%d nodes, %v: want 4", len(seen.Nodes), err)
	}
}

func TestOpenTakesTheNewestVersionThatBothSidesKnow(t *testing.T) {
	fake := startFake(t)
	if got := fake.open(t, Options{}).Version(); got != "v0.0.42" {
		t.Errorf("speaks %s", got)
	}
	fake.answers("GET", "/openapi/v3", text(200, `{"paths":{"/slurm/v0.0.38/jobs":{},"/slurm/v0.0.40/jobs/":{}}}`))
	_, err := Open(t.Context(), Options{URL: fake.URL, TokenFile: tokenIn(t)})
	if err == nil || !strings.Contains(err.Error(), "slurmrestd has v0.0.38 v0.0.40, known here are v0.0.45 v0.0.42") {
		t.Errorf("%v: want both sides' versions", err)
	}
	if client, err := Open(t.Context(), Options{URL: fake.URL, TokenFile: tokenIn(t),
		APIVersion: "v0.0.42"}); err != nil {
		t.Errorf("the version that the options name is not taken: %v", err)
	} else {
		client.Close()
	}
	if _, err := Open(t.Context(), Options{URL: fake.URL, TokenFile: tokenIn(t), APIVersion: "v0.0.99"}); err == nil {
		t.Error("an unknown version is taken")
	}
}

func TestOpenRefusesAURLThatNamesNoServer(t *testing.T) {
	for _, url := range []string{"", "slurm:6820", "ftp://slurm", "http://", "://"} {
		if _, err := Open(t.Context(), Options{URL: url}); err == nil ||
			!strings.Contains(err.Error(), "want http://host:port or unix:/path") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

const down = `{"pings":[{"hostname":"a","pinged":"DOWN"},{"hostname":"b","pinged":"DOWN"}]}`

// Slurm takes nine seconds to say so otherwise.
func TestAControllerThatIsDownCostsAPingAndAMomentsDoubt(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{})
	fake.answers("GET", "/ping/", text(200, down))
	fake.answers("GET", "/jobs/state/", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	})
	began := time.Now()
	_, err := client.Observe(t.Context())
	if !errors.Is(err, slurm.ErrUnreachable) || errors.Is(err, slurm.ErrDenied) ||
		!slices.Equal(fake.saw(), []string{"GET /ping/", "GET /jobs/state/"}) {
		t.Errorf("%v: want unreachable after %q", err, fake.saw())
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
	fake.answers("GET", "/jobs/state/", always(200, "states.json"))
	fake.answers("GET", "/ping/", text(200,
		`{"pings":[{"hostname":"a","pinged":"DOWN"},{"hostname":"b","responding":true}]}`))
	if _, err := client.Observe(t.Context()); err != nil {
		t.Errorf("the backup controller answers: %v", err)
	}
}

func TestTheBytesOfEveryAnswerAreCountedAlsoOfABadOne(t *testing.T) {
	fake := startFake(t)
	var counted []int64
	client := fake.open(t, Options{OnCall: func(c Call) { counted = append(counted, c.Bytes) }})
	counted = nil
	for _, with := range []http.HandlerFunc{text(200, `{"pings":[{"pinged":"UP"}]}`),
		text(500, `{"errors":[{"error_number":1007}]}`), plainText(404, "nothing here"), cut} {
		fake.answers("GET", "/ping/", with)
		_ = client.ping(t.Context())
	}
	if want := []int64{27, 34, 12, 0}; !slices.Equal(counted, want) {
		t.Errorf("counted %v, want %v", counted, want)
	}
}

// deadlines notes how long each request may take.
type deadlines struct {
	http.RoundTripper
	mu      sync.Mutex
	allowed map[string]time.Duration
}

func (d *deadlines) RoundTrip(request *http.Request) (*http.Response, error) {
	at, _ := request.Context().Deadline()
	d.mu.Lock()
	d.allowed[strings.TrimPrefix(request.URL.Path, "/slurm/v0.0.42")] = time.Until(at)
	d.mu.Unlock()
	return d.RoundTripper.RoundTrip(request)
}

func TestOnlyListingsOfAllJobsOrAssociationsMayTakeLonger(t *testing.T) {
	client := startFake(t).open(t, Options{Timeout: time.Hour})
	noted := &deadlines{RoundTripper: client.http.Transport, allowed: map[string]time.Duration{}}
	client.http.Transport = noted
	observe(t, client)
	observe(t, client)
	for _, path := range []string{"/ping/", "/jobs/state/", "/nodes/"} {
		if allowed := noted.allowed[path]; allowed <= 0 || allowed > time.Hour {
			t.Errorf("%s may take %v, want an hour", path, allowed)
		}
	}
	if allowed := noted.allowed["/jobs/"]; allowed < 7*time.Hour || allowed > 8*time.Hour {
		t.Errorf("a listing may take %v, want eight hours", allowed)
	}
	if allowed := client.patience("/slurmdb/associations/"); allowed != 8*time.Hour {
		t.Errorf("a listing of associations may take %v, want eight hours", allowed)
	}
}

// With a token that has ended slurmrestd pings in vain and says that the controllers are down.
func TestABadTokenIsNotTakenForAControllerThatIsDown(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{})
	fake.answers("GET", "/ping/", text(200, down))
	fake.answers("GET", "/jobs/state/", always(511, "token-bad.json"))
	if _, err := client.Observe(t.Context()); !errors.Is(err, slurm.ErrDenied) ||
		errors.Is(err, slurm.ErrUnreachable) {
		t.Errorf("%v: want denied", err)
	}
}

// TestAListingThatIsTooLongCutOffOrRepeatsOurTokenIsNotBelieved: it is read while it comes, and each of these may show
// only at its end.
func TestAListingThatIsTooLongCutOffOrRepeatsOurTokenIsNotBelieved(t *testing.T) {
	const good = `{"jobs":[{"job_id":7,"job_state":["PENDING"]}],"errors":[],"warnings":[]}`
	token := strings.Repeat("x", 30) + "endOfTheTokenItIs"
	for name, c := range map[string]struct {
		body string
		most int64
		want string
	}{
		"good":                      {good, 1 << 20, ""},
		"too long":                  {good, 20, "more than 20 bytes"},
		"too long by what follows":  {good + strings.Repeat(" ", 4096), 200, "more than 200 bytes"},
		"cut off":                   {good[:60], 1 << 20, "read answer"},
		"cut off before its end":    {good[:len(good)-1], 1 << 20, "read answer"},
		"no list":                   {`{"jobs":{"a":1}}`, 1 << 20, "where a list should be"},
		"no object":                 {`[]`, 1 << 20, "where"},
		"repeats the token":         {strings.Replace(good, "PENDING", token, 1), 1 << 20, "repeats our token"},
		"repeats it after its end":  {good + " " + token, 1 << 20, "repeats our token"},
		"something of another kind": {`{"jobs":[{"job_id":"seven"}]}`, 1 << 20, "read answer"},
		"no jobs at all":            {`{"jobs":null,"errors":[],"warnings":[]}`, 1 << 20, ""},
		"errors before the jobs":    {`{"errors":[{"error":"no"}],"jobs":[]}`, 1 << 20, ""},
	} {
		l := &link{options: Options{MaxBody: c.most}}
		var told []wire.Job
		var said wire.Complaint
		var counted Call
		err := l.stream(t.Context(), iotest.OneByteReader(strings.NewReader(c.body)), &counted, token,
			func(r io.Reader) (err error) {
				told, said, err = v0042.API("").Jobs().Stream(r)
				return err
			})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (!errors.Is(err, slurm.ErrUnreachable) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", name, err, c.want)
		case name == "good" && (len(told) != 1 || told[0].ID != 7 || counted.Bytes != int64(len(c.body))):
			t.Errorf("%s: %+v, %d bytes", name, told, counted.Bytes)
		case name == "errors before the jobs" && len(said.Errors) != 1:
			t.Errorf("%s: %+v", name, said)
		}
	}
}
