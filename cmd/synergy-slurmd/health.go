package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/page"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/rollout"
)

// longFailure bounds what is reported of a failed round, in bytes.
const longFailure = 400

// healthyRounds is how many rounds may pass without a good one until the daemon is unhealthy. The lease of a waiting
// job does not last much longer.
const healthyRounds = 3

// health says whether the daemon does its work. Rounds write it, HTTP requests read it.
type health struct {
	patience time.Duration
	status   *daemonStatus // what else /status says of the daemon; nil: nothing
	beside   sources       // what pages show beside reports

	mu    sync.Mutex
	since time.Time      // when the last good round ended, or the start
	last  int            // number of the last good round; 0: none yet
	err   error          // of the last round
	idle  string         // the sentence that says which leader it stands by for; empty: it holds rounds
	about rollout.Daemon // what /status says of the daemon, except for its health
	held  chan struct{}  // closed and replaced when a round has ended well; nil: no reader waits

	past   []page.Trouble // failed rounds, oldest first
	ailing bool           // the last round failed; kind is how
	kind   failureKind
	wrong  []page.Trouble // what is wrong beside rounds, until it is repaired
}

// newHealth is the health of a daemon that has just started: the first good round is due within its patience.
func newHealth(period time.Duration, now time.Time) *health {
	return &health{patience: healthyRounds * period, since: now}
}

// lastGoodTime is when the last good round ended, or the start.
func (h *health) lastGoodTime() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since
}

// round notes how a round ended. Well counts the good rounds in a row. A good one also wakes the readers that wait in
// next.
func (h *health) round(number int, now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
	if err != nil {
		h.about.Well, h.about.Failure = 0, printable.Line(err.Error(), longFailure)
		h.about.Failed++
		h.failed(now, err)
		return
	}
	h.about.Well++
	h.ailing = false
	h.since, h.last = now, number
	if h.held != nil {
		close(h.held)
		h.held = nil
	}
}

// next waits for the next round that ends well, at most for the time most. If a round after known has ended well
// already, it is returned at once; known is 0 if the reader knows of none.
func (h *health) next(ctx context.Context, known int, most time.Duration) (number int, held bool) {
	h.mu.Lock()
	if known > 0 && h.last > known {
		defer h.mu.Unlock()
		return h.last, true
	}
	if h.held == nil {
		h.held = make(chan struct{})
	}
	next := h.held
	h.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-next:
	case <-ctx.Done():
		return 0, false
	case <-timer.C:
		return 0, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last, true
}

// standBy notes that another daemon leads, so no rounds are due.
func (h *health) standBy(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.idle = line
}

// lead notes that rounds are due again. The time in which it stood by does not count: the patience begins anew.
func (h *health) lead(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.idle != "" {
		h.idle, h.since, h.err = "", now, nil
	}
}

// check returns a sentence about the last good round, or the reason why a person should look. A failed round is no
// reason before the patience is over, since the next may end well while all leases hold.
func (h *health) check(now time.Time) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.idle != "" {
		return h.idle, nil
	}
	ago := now.Sub(h.since).Round(time.Second)
	last := fmt.Sprintf("round %d ended well %s ago", h.last, ago)
	if h.last == 0 {
		last = fmt.Sprintf("no round has ended well in the %s since the start", ago)
	}
	switch {
	case ago <= h.patience:
		return last, nil
	case h.err != nil:
		return "", fmt.Errorf("%s; the last one: %w", last, h.err)
	}
	return "", fmt.Errorf("%s, and none has ended since", last)
}

// follows notes the configuration for the rounds from now on.
func (h *health) follows(config Config) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.about.Partitions, h.about.Canary, h.about.Lease = config.Partitions, config.Canary, config.Lease.Seconds()
}

// statusInfo is everything that /status says of the daemon's work.
func (h *health) statusInfo(now time.Time) rollout.Daemon {
	says, err := h.check(now)
	h.mu.Lock()
	defer h.mu.Unlock()
	about := h.about
	about.Says, about.Healthy, about.Behind = says, err == nil, h.idle != ""
	if err != nil {
		about.Says = printable.Line(err.Error(), longFailure)
	}
	return about
}

// mostFailures bounds the remembered failures of rounds. Equal ones in a row are one.
const mostFailures = 20

// failed notes a failed round. It is called with mu held.
func (h *health) failed(now time.Time, err error) {
	kind := failureKindOf(err)
	if n := len(h.past); n > 0 && h.ailing && h.kind == kind {
		h.past[n-1].Until, h.past[n-1].What = now, printable.Line(err.Error(), longestFault)
		h.past[n-1].Times++
		return
	}
	h.ailing, h.kind = true, kind
	h.past = append(h.past, page.Trouble{What: printable.Line(err.Error(), longestFault), Remedy: kind.remedy(),
		At: now, Until: now, Times: 1})
	h.past = h.past[max(0, len(h.past)-mostFailures):]
}

// setTrouble sets what is wrong beside rounds under the heading what; a nil error removes it.
func (h *health) setTrouble(what string, err error, remedy string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = slices.DeleteFunc(h.wrong, func(t page.Trouble) bool { return strings.HasPrefix(t.What, what+": ") })
	if err != nil {
		said := what + ": " + printable.Line(err.Error(), longestFault)
		h.wrong = append(h.wrong, page.Trouble{What: said, Remedy: remedy})
	}
}

// longestFault bounds the text of an error that is kept, in bytes.
const longestFault = 2000

// pageHealth is the daemon's health as the cluster's page shows it: whether rounds end well, what is wrong by the last
// report and beside rounds, and which rounds failed.
func (h *health) pageHealth(report bridge.Report, now time.Time) page.Health {
	says, wrong := h.check(now)
	if wrong != nil {
		says = wrong.Error()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	past := slices.Clone(h.past)
	slices.Reverse(past)
	return page.Health{Well: wrong == nil, Says: says, Version: programVersion(),
		Now: append(slices.Clone(h.wrong), troubles(report)...), Past: past}
}

// troubles are the problems in a report, with what an administrator can do about each.
func troubles(report bridge.Report) (all []page.Trouble) {
	say := func(wrong bool, job int, remedy, format string, args ...any) {
		if wrong {
			all = append(all, page.Trouble{What: fmt.Sprintf(format, args...), Remedy: remedy, Job: job})
		}
	}
	if i := report.Interrupted; i != nil {
		say(true, 0, "", "round %d was cut short; this one started from what is", i.Round)
	}
	say(report.LimitsGap != "", 0, remedyOfLimits, "the site's limits are not known: %s", report.LimitsGap)
	say(report.NoLeaseJob != "", 0, remedyOfLease, "each waiting job has a lease of its own: %s", report.NoLeaseJob)
	say(report.LearnFault != "", 0, remedyOfLearning, "what jobs teach cannot be kept: %s", report.LearnFault)
	say(report.Fallback != "", 0, remedyOfPlanner, "the built-in planner stood in: %s", report.Fallback)
	say(report.Refused != "", 0, remedyOfRefused, "a plan broke a promise, so one was made that stops nobody: %s",
		report.Refused)
	say(report.ClockAhead.Abs() > farApart, 0, remedyOfClocks, "slurm's clock is %s ahead of ours",
		report.ClockAhead.Round(time.Second))
	for _, loss := range report.Lost {
		say(true, loss.Job, "see that its script traps the signal, and ends with the exit code for it",
			"did not come back after it was asked to save and leave: it %s", loss.Why)
	}
	for _, s := range report.Steps {
		say(s.Error != "", s.Job, "the next round tries again", "%s: %s", s.Verb, s.Error)
	}
	for _, found := range report.Contradicting {
		say(true, found.Job, "measure its model again, or take the profile away", "contradicts its profile: %s",
			found.String())
	}
	for _, found := range report.Slowed {
		say(true, found.Job, "see what its node's synergy-broker says; its profile may say too little of its GPU",
			"slowed down: %s", found.String())
	}
	for _, found := range report.Unruly {
		say(true, found.Job, "see its program's turns in docs/sharing.md: it holds the GPU for longer than it says",
			"keeps turns: it %s", found.String())
	}
	for _, word := range bridge.AllIgnored() {
		n := report.Ignored[word]
		say(n > 0, 0, "the notes on the first page say of which jobs and why",
			"jobs of which a word is ignored, %s: %d", word, n)
	}
	return all
}
