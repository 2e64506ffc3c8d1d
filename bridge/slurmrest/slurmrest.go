// Package slurmrest drives a real Slurm: it is the port bridge.Slurm over slurmrestd, and over scontrol for the one
// verb that slurmrestd may lack. No type of slurmrestd's leaves it, and only the packages below know an API version. It
// decides nothing, repeats nothing that may have been done, and refuses to send a signal that it does not know, since a
// DELETE without one is a kill.
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

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// Options tell where Slurm is, as whom to speak and how much to ask of it. URL and TokenFile are needed, the rest has
// defaults.
type Options struct {
	URL             string        // http://host:6820 or unix:/run/slurmrestd.sock
	User            string        // sent as X-SLURM-USER-NAME; empty: whoever the token names
	TokenFile       string        // a JWT, readable by its owner alone; read anew when it changes
	APIVersion      string        // v0.0.45; empty: the newest that both sides know
	Scontrol        []string      // the command and its first arguments; default scontrol
	Environ         []string      // what scontrol is started with; default PATH and, where it is set, SLURM_CONF
	ScontrolByToken bool          // give scontrol the token as SLURM_JWT, where there is no munge
	FullEvery       time.Duration // how long an edit that leaves the state alone may go unseen; default 10 minutes
	// of one request; default 15 s, since slurmctld takes 9 s to be found missing. A listing of all jobs has eight
	// times that
	Timeout      time.Duration
	ReportsEvery time.Duration // the same for a running job that reports its progress; 0: as for others
	Concurrent   int           // requests in flight; default 8
	Rate         float64       // requests per second; 0: as many as it takes
	MaxBody      int64         // bytes of one answer; default 256 MiB, room for 25,000 jobs
	OnCall       func(Call)    // told of every request; may be called from several goroutines
}

// Call is one request as the daemon counts it.
type Call struct {
	Method string
	Path   string // with {job_id} in place of a number
	Status int    // 0: nothing was heard
	Bytes  int64  // of the answer's body, as far as it was read
	Took   time.Duration
	Err    string // kind of the error: gone, denied, refused, unreachable, not pending; empty: none
}

// Client is a bridge.Slurm. Its methods may be called from several goroutines, for different jobs.
type Client struct {
	*link
	*memory
	clock *timepiece

	observing    sync.Mutex           // one Observe at a time; guards what follows
	reservations []bridge.Reservation // as they were last read
	reserved     time.Time            // when that was
	swept        time.Time            // when Quiet last swept
	spare        time.Duration        // for which it sweeps no more after that
}

// link is the way to slurmrestd and scontrol: it says things, within the bounds of the options, and understands the
// answers. It knows nothing from one to the next.
type link struct {
	options Options
	http    *http.Client
	api     wire.API
	token   tokenFile
	slots   chan struct{}
	limit   *rate.Limiter
	now     func() time.Time // Slurm's
}

// memory is what is known of the jobs: as they were read, and which of them may look otherwise by now.
type memory struct {
	reportsEvery time.Duration // see Options

	mu      sync.Mutex // guards what follows
	jobs    map[int]*known
	touched map[int]bool
	tasks   map[int]string // for how many tasks the jobs of arrays stand
	tickets map[int]bool   // jobs that were seen to be tickets, and are not known to be forgotten
	full    time.Time      // when all jobs were last listed, by Slurm's clock as all times here
	moved   time.Time      // when a job last began, ended or changed its state
	looking bool           // an Observe is under way: it may read what is written meanwhile before or after
}

// Open asks slurmrestd which versions of its API it has and takes the newest that is known here, unless the options
// name one. It proves nothing about the token: the first Observe does.
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
			http:    &http.Client{Transport: transport, CheckRedirect: stayHere},
			token:   tokenFile{path: options.TokenFile},
			slots:   make(chan struct{}, options.Concurrent),
			limit:   limiter(options),
			now:     clock.now,
		},
		memory: &memory{
			reportsEvery: options.ReportsEvery, jobs: map[int]*known{}, touched: map[int]bool{},
			tasks: map[int]string{}, tickets: map[int]bool{},
		},
		clock: clock,
	}
	client.api, err = client.choose(ctx, server)
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("open slurmrestd at %s: %w", options.URL, err)
	}
	return client, nil
}

// Close lets go of the connections.
func (l *link) Close() { l.http.CloseIdleConnections() }

// Version is the API version that is spoken.
func (l *link) Version() string { return l.api.Name }

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

func limiter(o Options) *rate.Limiter {
	if o.Rate <= 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(o.Rate), o.Concurrent)
}

// dial makes the transport: connections are kept, since a new one for each update takes three times as long, and no
// proxy is asked, since slurmrestd is a neighbour and the token must not pass through anything.
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
		return "http://slurmrestd", transport, nil
	}
	parsed, err := url.Parse(o.URL)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return "", nil, fmt.Errorf("slurmrestd URL %q: want http://host:port or unix:/path", o.URL)
	}
	return strings.TrimSuffix(o.URL, "/"), transport, nil
}

// stayHere follows no redirect: it would carry the token elsewhere.
func stayHere(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
