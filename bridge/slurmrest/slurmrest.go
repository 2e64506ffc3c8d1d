// Package slurmrest drives a real Slurm: it implements the port slurm.Manager with slurmrestd, and with scontrol for
// verbs that slurmrestd lacks. No type of slurmrestd leaves it, and only the packages below it know an API version. It
// decides nothing and never repeats a request that may have been carried out.
//
//   - An observation is one sweep of the job states and single reads of what changed; a full listing is rare (known.go,
//     cost.go).
//   - Slurm applies an update field by field and undoes nothing, so an update counts when a re-read shows it. Only a
//     renewal, which changes only lease and annotation, counts at once (renew.go).
//   - Each update of a job whose tasks Slurm would recount contains their number, or slurmctld may die (job.go).
//   - An unknown signal is refused, since a DELETE without one is a kill (signal.go).
//   - The token is in no error, and scontrol runs without a shell and without our environment.
package slurmrest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// Options say where Slurm is, which identity to use, and how much to ask of it. URL and TokenFile are required.
type Options struct {
	URL             string        // http://host:6820 or unix:/run/slurmrestd.sock
	User            string        // sent as X-SLURM-USER-NAME; empty: the token's user
	TokenFile       string        // a JWT, readable by its owner only; read again when it changes
	APIVersion      string        // v0.0.45; empty: the newest that both sides know
	Scontrol        []string      // command and first arguments; default scontrol
	Environ         []string      // environment of scontrol; default PATH and, if set, SLURM_CONF
	ScontrolByToken bool          // give scontrol the token as SLURM_JWT, where there is no munge
	FullEvery       time.Duration // how long an edit without a change of state may go unnoticed; default 10 minutes
	// timeout of a request; default 15 s, since slurmctld takes 9 s to be found missing; eight times that for a listing
	// of all jobs
	Timeout      time.Duration
	ReportsEvery time.Duration // FullEvery for running jobs that report progress; 0: as for others
	Concurrent   int           // requests in flight; default 8
	Rate         float64       // requests per second; 0: no limit
	MaxBody      int64         // bytes of one answer; default 256 MiB, enough for 25,000 jobs
	OnCall       func(Call)    // called for every request; may be called concurrently
}

// Call is one request, for counters.
type Call struct {
	Method string
	Path   string // with {job_id} in place of an ID
	Status int    // 0: no answer
	Bytes  int64  // of the answer's body, as far as it was read
	Took   time.Duration
	Err    string // kind of the error: gone, denied, refused, unreachable, not pending, …; empty: none
}

// Client implements slurm.Manager. Its methods may be called concurrently, for different jobs.
type Client struct {
	*link
	*jobCache
	clock *timepiece

	observing        sync.Mutex          // one Observe at a time; guards the fields below
	reservations     []slurm.Reservation // as last read
	reservationsRead time.Time           // when they were read
	lastSweep        time.Time           // when Quiet last swept
	sweepPause       time.Duration       // pause after that, in which Quiet does not sweep
	costs            costs
}

// link is the connection to slurmrestd and scontrol: it sends requests within the limits of the options and decodes
// answers. It keeps nothing about jobs.
type link struct {
	options Options
	http    *http.Client
	api     wire.API
	token   tokenFile
	slots   chan struct{}
	limit   *rate.Limiter
	now     func() time.Time // Slurm's clock
}

// jobCache is what is known of the jobs: as last read, and which of them may have changed since.
type jobCache struct {
	reportsEvery time.Duration // see Options

	mu          sync.Mutex // guards the fields below
	jobs        map[int]*knownJob
	touched     map[int]bool   // jobs that may differ from what is known
	tasks       map[int]string // number of tasks for which array jobs stand
	tickets     map[int]bool   // known tickets
	leases      map[int]bool   // lease jobs, and whether they still wait
	lastListing time.Time      // when all jobs were last listed, by Slurm's clock like all times here
	lastChange  time.Time      // when a job last started, ended or changed its state
	isObserving bool           // an Observe is under way, which may or may not see what is written meanwhile
}

// Open asks slurmrestd for its API versions and uses the newest that is known here, unless the options name one. It
// does not verify the token; the first Observe does.
func Open(ctx context.Context, options Options) (*Client, error) {
	options = options.withDefaults()
	server, transport, err := dial(options)
	if err != nil {
		return nil, err
	}
	clock := newTimepiece()
	client := &Client{
		link: &link{
			options: options,
			http:    &http.Client{Transport: transport, CheckRedirect: refuseRedirect},
			token:   tokenFile{path: options.TokenFile},
			slots:   make(chan struct{}, options.Concurrent),
			limit:   limiter(options),
			now:     clock.now,
		},
		jobCache: &jobCache{
			reportsEvery: options.ReportsEvery, jobs: map[int]*knownJob{}, touched: map[int]bool{},
			tasks: map[int]string{}, tickets: map[int]bool{}, leases: map[int]bool{},
		},
		clock: clock, costs: newCosts(),
	}
	client.api, err = client.choose(ctx, server)
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("open slurmrestd at %s: %w", options.URL, err)
	}
	return client, nil
}

// Close closes idle connections.
func (l *link) Close() { l.http.CloseIdleConnections() }

// Version is the API version in use.
func (l *link) Version() string { return l.api.Name }

// withDefaults replaces what the site left out by the defaults that Options names.
func (o Options) withDefaults() Options {
	if len(o.Scontrol) == 0 {
		o.Scontrol = []string{"scontrol"}
	}
	if o.Environ == nil {
		o.Environ = scontrolEnvironment()
	}
	if o.FullEvery <= 0 {
		o.FullEvery = 10 * time.Minute
	}
	if o.Timeout <= 0 {
		o.Timeout = 15 * time.Second
	}
	if o.Concurrent <= 0 {
		o.Concurrent = 8
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 256 << 20
	}
	return o
}

// limiter limits requests per second, with bursts of Concurrent.
func limiter(o Options) *rate.Limiter {
	if o.Rate <= 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(o.Rate), o.Concurrent)
}

// dial makes the transport. Connections are kept, since a new one for each update takes three times as long. No proxy
// is used, since slurmrestd is near and the token must not pass through anything.
func dial(o Options) (server string, transport *http.Transport, err error) {
	transport = &http.Transport{
		MaxIdleConnsPerHost: o.Concurrent,
		IdleConnTimeout:     90 * time.Second,
	}
	if path, isSocket := strings.CutPrefix(o.URL, "unix:"); isSocket {
		path = strings.TrimPrefix(path, "//")
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		return "http://slurmrestd", transport, nil // the host is never resolved: DialContext ignores it
	}
	parsed, err := url.Parse(o.URL)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return "", nil, fmt.Errorf("slurmrestd URL %q: want http://host:port or unix:/path", o.URL)
	}
	return strings.TrimSuffix(o.URL, "/"), transport, nil
}

// refuseRedirect follows no redirect, which would carry the token elsewhere.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
