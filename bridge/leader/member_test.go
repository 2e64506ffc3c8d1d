package leader_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

const ttl = 20 * time.Second

// site is a Slurm in the bubble's time, with daemons that want to lead.
type site struct {
	slurm *slurmtest.Slurm
	clock *slurmtest.Clock
	began time.Time

	mu      sync.Mutex
	outage  bool
	daemons []*daemon
	trouble []string
	changes []string // who led, as it was seen to change
}

func newSite() *site {
	clock := slurmtest.NewClock(time.Now())
	server := gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}
	return &site{clock: clock, began: time.Now(),
		slurm: slurmtest.New(clock, slurmtest.Options{Nodes: slurmtest.Rack(2, server, "gpu")})}
}

// sync brings the cluster to the bubble's time.
func (s *site) sync() {
	if behind := time.Since(s.clock.Now()); behind > 0 {
		s.clock.Advance(behind)
	}
}

// wire is how bad the connection of a daemon is.
type wire struct {
	Latency time.Duration // each way, at most
	Loss    float64       // of questions, and as much of answers
}

// daemon is one process, or a sequence of them on one host.
type daemon struct {
	site  *site
	name  string
	speed float64 // of its clock
	ttl   time.Duration
	dice  *rand.Rand
	wire  wire

	mu     sync.Mutex
	paused chan struct{} // closed when the process may go on; nil: it runs
	cut    bool
	stops  bool // as soon as its next beat is written, before it hears of that
	kill   context.CancelFunc
	member *leader.Member
	gone   chan struct{}
}

// Elapsed is the daemon's own clock, which runs at its own speed.
func (d *daemon) Elapsed() time.Duration {
	return time.Duration(float64(time.Since(d.site.began)) * d.speed)
}

func (d *daemon) Sleep(ctx context.Context, long time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(float64(long) / d.speed)):
	}
	d.breathe()
	return ctx.Err()
}

// breathe stands still while the process is stopped.
func (d *daemon) breathe() {
	for {
		d.mu.Lock()
		paused := d.paused
		d.mu.Unlock()
		if paused == nil {
			return
		}
		<-paused
	}
}

var errWire = fmt.Errorf("nothing was heard: %w", slurm.ErrUnreachable)

// ask is a request over the wire: it takes its time, and either way may be lost. A process can be stopped at any point
// of it.
func (d *daemon) ask(ctx context.Context, do func(context.Context) error) error {
	d.breathe()
	if err := d.pass(ctx); err != nil {
		return err
	}
	d.site.mu.Lock()
	d.site.sync()
	err := do(context.WithoutCancel(ctx)) // Slurm does not know that the asker gave up
	d.site.mu.Unlock()
	if lost := d.pass(ctx); lost != nil {
		return lost
	}
	d.breathe()
	return err
}

func (d *daemon) pass(ctx context.Context) error {
	d.mu.Lock()
	latency, lost := time.Duration(d.dice.Float64()*float64(d.wire.Latency)), d.cut || d.dice.Float64() < d.wire.Loss
	d.mu.Unlock()
	if d.site.dark() || lost {
		latency = 9 * time.Second
	}
	select {
	case <-time.After(latency):
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.site.dark() || lost {
		return errWire
	}
	return nil
}

func (s *site) dark() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outage
}

func (d *daemon) Take(ctx context.Context, w leader.Words) (id int, err error) {
	err = d.ask(ctx, func(ctx context.Context) error { id, err = d.site.slurm.Tickets().Take(ctx, w); return err })
	return id, err
}

func (d *daemon) List(ctx context.Context, ids ...int) (all []leader.Ticket, err error) {
	err = d.ask(ctx, func(ctx context.Context) error { all, err = d.site.slurm.Tickets().List(ctx, ids...); return err })
	return all, err
}

func (d *daemon) Beat(ctx context.Context, id int, w leader.Words) error {
	return d.ask(ctx, func(ctx context.Context) error {
		err := d.site.slurm.Tickets().Beat(ctx, id, w)
		d.mu.Lock()
		stops := d.stops
		d.stops = false
		d.mu.Unlock()
		if stops {
			d.pause()
		}
		return err
	})
}

func (d *daemon) Tear(ctx context.Context, id int) error {
	return d.ask(ctx, func(ctx context.Context) error { return d.site.slurm.Tickets().Tear(ctx, id) })
}

// add is a daemon that does not run yet.
func (s *site) add(w wire, speed float64, seed uint64) *daemon {
	d := &daemon{site: s, name: fmt.Sprintf("host%d/ab", len(s.daemons)+1), speed: speed, ttl: ttl, wire: w,
		dice: rand.New(rand.NewPCG(seed, 1))}
	s.daemons = append(s.daemons, d)
	return d
}

// start is a new process on the daemon's host.
func (d *daemon) start() {
	ctx, cancel := context.WithCancel(context.Background())
	d.mu.Lock()
	defer d.mu.Unlock()
	member := &leader.Member{Tickets: d, Clock: d, Holder: d.name, Run: fmt.Sprint(d.dice.Uint32()), TTL: d.ttl}
	gone := make(chan struct{})
	d.kill, d.member, d.gone = cancel, member, gone
	go func() {
		defer close(gone)
		for ctx.Err() == nil {
			pause, _ := member.Step(ctx)
			_ = d.Sleep(ctx, pause)
		}
	}()
}

// die is a kill -9, or the end of the host. A process that is stopped cannot even die: it goes on first.
func (d *daemon) die() {
	d.mu.Lock()
	kill, gone := d.kill, d.gone
	d.kill, d.member = nil, nil
	d.mu.Unlock()
	if kill != nil {
		d.resume()
		kill()
		<-gone
	}
}

func (d *daemon) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused == nil {
		d.paused = make(chan struct{})
	}
}

func (d *daemon) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused != nil {
		close(d.paused)
		d.paused = nil
	}
}

// leads says whether the daemon holds a valid lease at this moment, stopped or not.
func (d *daemon) leads() bool {
	d.mu.Lock()
	member := d.member
	d.mu.Unlock()
	return member != nil && member.Leads()
}

// look checks the one promise of which there is no exception, and notes who leads.
func (s *site) look() {
	var leads []string
	for _, d := range s.daemons {
		if d.leads() {
			leads = append(leads, d.name)
		}
	}
	now := strings.Join(leads, "+")
	if len(leads) > 1 {
		s.trouble = append(s.trouble, fmt.Sprintf("at %s %s lead", time.Since(s.began), now))
	}
	if len(s.changes) == 0 || s.changes[len(s.changes)-1] != now {
		s.changes = append(s.changes, now)
	}
}

// pass lets time pass under the eyes of the checker.
func (s *site) pass(long time.Duration) {
	for end := time.Now().Add(long); time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
		s.look()
	}
}

// until waits for a daemon to lead, and returns how long that took.
func (s *site) until(t *testing.T, d *daemon, limit time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	for !d.leads() {
		if time.Since(began) > limit {
			t.Fatalf("%s does not lead after %s: %v %+v", d.name, limit, s.changes, s.tickets())
		}
		s.pass(100 * time.Millisecond)
	}
	return time.Since(began)
}

func (s *site) tickets() []leader.Ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sync()
	all, _ := s.slurm.Tickets().List(context.Background())
	return all
}

// end kills everybody, and tells what was wrong.
func (s *site) end(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	s.outage = false
	s.mu.Unlock()
	for _, d := range s.daemons {
		d.die()
	}
	for _, wrong := range s.trouble {
		t.Error(wrong)
	}
}

// at runs a story in virtual time with so many daemons, whose wire is good.
func at(t *testing.T, daemons int, story func(t *testing.T, s *site)) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		for range daemons {
			s.add(wire{Latency: 20 * time.Millisecond}, 1, uint64(len(s.daemons)))
		}
		defer s.end(t)
		story(t, s)
	})
}

const quick = time.Second // a few requests

func TestADaemonThatIsAloneLeadsAtOnceAndGoesOn(t *testing.T) {
	at(t, 1, func(t *testing.T, s *site) {
		s.daemons[0].start()
		s.until(t, s.daemons[0], quick)
		s.changes = nil
		s.pass(time.Hour)
		if len(s.changes) != 1 {
			t.Errorf("in an hour: %q", s.changes)
		}
		if n := len(s.tickets()); n != 1 {
			t.Errorf("it took %d tickets", n)
		}
	})
}

// Each beat is two lines in slurmctld's log.
func TestADaemonBeatsAtMostOnceInFiveSecondsAndThreeTimesInATimeToLive(t *testing.T) {
	for _, round := range []time.Duration{time.Second, 10 * time.Second, 17 * time.Second, 20 * time.Second,
		5 * time.Minute} {
		live := leader.TTLFor(round)
		at(t, 1, func(t *testing.T, s *site) {
			s.daemons[0].ttl = live
			s.daemons[0].start()
			s.until(t, s.daemons[0], quick)
			s.changes = nil
			before := s.tickets()[0].Words.Beat
			s.pass(time.Hour)
			beats, least := s.tickets()[0].Words.Beat-before, int(3*time.Hour/live)
			if beats > 12*60 || beats < least*95/100 || len(s.changes) != 1 {
				t.Errorf("rounds of %s, %s to live: %d beats in an hour; who led: %q", round, live, beats, s.changes)
			}
		})
	}
}

func TestWhoeverComesSecondStandsByAndNamesTheLeader(t *testing.T) {
	at(t, 3, func(t *testing.T, s *site) {
		for _, d := range s.daemons {
			d.start()
			s.pass(3 * time.Second)
		}
		s.pass(10 * time.Minute)
		if len(s.changes) > 2 || !s.daemons[0].leads() {
			t.Errorf("%q", s.changes)
		}
		if by, _ := s.daemons[2].member.Behind(); by.Words.Holder != s.daemons[0].name {
			t.Errorf("the third stands behind %+v", by)
		}
		if _, behind := s.daemons[0].member.Behind(); behind {
			t.Error("the first stands behind somebody")
		}
	})
}

func TestWhenTheLeaderDiesTheNextLeadsWithinOneAndAHalfTimesToLive(t *testing.T) {
	at(t, 3, func(t *testing.T, s *site) {
		for _, d := range s.daemons {
			d.start()
			s.pass(quick)
		}
		s.pass(time.Minute)
		for i := range 2 {
			s.daemons[i].die()
			took := s.until(t, s.daemons[i+1], ttl*3/2+quick)
			t.Logf("daemon %d led %s after the death of daemon %d", i+2, took, i+1)
		}
	})
}

func TestADaemonThatIsKilledAndStartedAgainOnItsHostLeadsAtOnce(t *testing.T) {
	at(t, 2, func(t *testing.T, s *site) {
		first := s.daemons[0]
		first.start()
		s.until(t, first, quick)
		s.daemons[1].start()
		for range 5 {
			s.pass(17 * time.Second)
			first.die()
			first.start()
			t.Logf("led again after %s", s.until(t, first, quick))
		}
		if n := len(s.tickets()); n != 2 {
			t.Errorf("%d tickets were taken by two daemons", n)
		}
	})
}

func TestADaemonThatTookOverAndIsKilledLeadsAgainAtOnce(t *testing.T) {
	at(t, 2, func(t *testing.T, s *site) {
		first, second := s.settled(t)
		first.die()
		s.until(t, second, ttl*3/2+quick)
		first.start() // its ticket was cancelled, and is still to be seen
		s.pass(3 * time.Second)
		second.die()
		second.start()
		s.until(t, second, quick)
	})
}

// settled is a minute after two daemons started: the first leads, the second stands by.
func (s *site) settled(t *testing.T) (first, second *daemon) {
	t.Helper()
	first, second = s.daemons[0], s.daemons[1]
	first.start()
	s.until(t, first, quick)
	second.start()
	s.pass(time.Minute)
	return first, second
}

func TestADaemonThatLeavesIsSucceededAtOnce(t *testing.T) {
	at(t, 2, func(t *testing.T, s *site) {
		first, second := s.settled(t)
		member := first.member
		first.die()
		if err := member.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := s.until(t, second, ttl/4+quick); took > ttl/4+quick {
			t.Errorf("it took %s", took)
		}
		first.start()
		s.pass(time.Minute)
		if !second.leads() {
			t.Error("who comes back does not stand behind")
		}
	})
}

func TestALeaderThatWasStoppedAndFencedWritesNothingWhenItWakesUp(t *testing.T) {
	at(t, 2, func(t *testing.T, s *site) {
		first, second := s.settled(t)
		fence := leader.Fence{Manager: s.slurm, Member: first.member}
		first.pause()
		s.until(t, second, 2*ttl)
		first.resume()
		for range 600 {
			if err := fence.Requeue(t.Context(), 1); !errors.Is(err, slurm.ErrNotLeader) {
				t.Fatalf("%s after it woke up: %v", time.Since(s.began), err)
			}
			s.pass(100 * time.Millisecond)
		}
		if by, _ := first.member.Behind(); by.Words.Holder != second.name || !second.leads() {
			t.Errorf("it stands behind %+v", by)
		}
	})
}

func TestABeatIsWorthNothingToWhoHearsTooLateThatItCameThrough(t *testing.T) {
	at(t, 2, func(t *testing.T, s *site) {
		first, second := s.settled(t)
		first.mu.Lock()
		first.stops = true
		first.mu.Unlock()
		s.until(t, second, 2*ttl)
		first.resume()
		for range 100 { // its next look would tell it, a moment later
			time.Sleep(time.Millisecond)
			s.look()
		}
	})
}

func TestAnOutageOfSlurmChangesNoLeader(t *testing.T) {
	for i := range 24 { // each time somebody else is the first to look again
		long := []time.Duration{ttl / 2, 3 * ttl, 10 * time.Minute}[i%3] + time.Duration(i)*700*time.Millisecond
		at(t, 3, func(t *testing.T, s *site) {
			for _, d := range s.daemons {
				d.start()
				s.pass(quick + time.Duration(i)*300*time.Millisecond)
			}
			s.pass(time.Minute)
			s.changes = nil
			s.switchOff()
			s.pass(long)
			s.switchOn()
			t.Logf("after %s without slurm: leads again after %s", long, s.until(t, s.daemons[0], ttl))
			s.pass(5 * ttl)
			if last := s.changes[len(s.changes)-1]; len(s.changes) > 3 || last != s.daemons[0].name {
				t.Errorf("an outage of %s: %q", long, s.changes)
			}
		})
	}
}

func (s *site) switchOff() { s.mu.Lock(); s.outage = true; s.mu.Unlock() }
func (s *site) switchOn()  { s.mu.Lock(); s.outage = false; s.mu.Unlock() }

func TestATicketThatSomebodyCancelsOrReleasesIsReplacedAndNobodyActsTooSoon(t *testing.T) {
	for name, hand := range map[string]func(s *site, id int){
		"cancelled": func(s *site, id int) { s.slurm.Cancel(id) },
		"released":  func(s *site, id int) { s.slurm.Release(id) },
		"scribbled": func(s *site, id int) { s.slurm.SetExtra(id, "mine") },
	} {
		at(t, 2, func(t *testing.T, s *site) {
			for _, d := range s.daemons {
				d.start()
				s.until(t, s.daemons[0], quick)
			}
			s.pass(time.Minute)
			s.mu.Lock()
			hand(s, 1)
			s.mu.Unlock()
			s.pass(leader.MaxTTL + 2*ttl)
			if !s.daemons[1].leads() {
				t.Errorf("%s: %q %+v", name, s.changes, s.tickets())
			}
		})
	}
}

func TestAnAdministratorWhoCancelsAllTicketsDoesNotMakeTwoLead(t *testing.T) {
	at(t, 3, func(t *testing.T, s *site) {
		for _, d := range s.daemons {
			d.start()
		}
		s.pass(time.Minute)
		for range 5 {
			for _, ticket := range s.tickets() {
				s.slurm.Cancel(ticket.ID)
			}
			s.pass(3 * ttl)
			if !s.anybody() {
				t.Errorf("nobody leads: %q %+v", s.changes, s.tickets())
			}
		}
	})
}

func (s *site) anybody() bool {
	for _, d := range s.daemons {
		if d.leads() {
			return true
		}
	}
	return false
}

func TestATicketWithTheWordsOfAnotherProcessIsGivenUp(t *testing.T) {
	at(t, 1, func(t *testing.T, s *site) {
		d := s.daemons[0]
		d.start()
		s.until(t, d, quick)
		words := s.tickets()[0].Words
		words.Run, words.Beat = "another", words.Beat+50
		if err := s.slurm.Tickets().Beat(t.Context(), 1, words); err != nil {
			t.Fatal(err)
		}
		s.pass(ttl/4 + quick)
		if d.leads() {
			t.Error("it goes on by a ticket that somebody else beats")
		}
	})
}

func TestWinSaysWhoLeadsAndGivesItsTicketBack(t *testing.T) {
	at(t, 2, func(t *testing.T, s *site) {
		first, second := s.daemons[0], s.daemons[1]
		first.start()
		s.until(t, first, quick)
		member := &leader.Member{Tickets: second, Clock: second, Holder: second.name, Run: "2", TTL: ttl}
		err := member.Win(t.Context())
		if led := (leader.Led{}); !errors.As(err, &led) || led.By.Words.Holder != first.name ||
			!errors.Is(err, slurm.ErrNotLeader) {
			t.Errorf("got %v", err)
		}
		if all := s.tickets(); len(all) != 2 || all[1].Live || !all[1].Words.Left {
			t.Errorf("left behind: %+v", all)
		}
		first.die()
		began := time.Now()
		if err := member.Win(t.Context()); err != nil || !member.Leads() {
			t.Errorf("behind a dead one: %v", err)
		}
		t.Logf("won %s after the leader's death", time.Since(began))
	})
}

// trial is what befalls a site: up to three daemons with bad wires and clocks that run at different speeds.
type trial struct {
	Seeds []uint64
	Speed []float64
	Wire  []wire
	Blows []blow
}

// blow is one misfortune, after which so much time passes.
type blow struct {
	What string
	Who  int
	Then time.Duration
}

func draw(rt *rapid.T) trial {
	n := rapid.IntRange(2, 3).Draw(rt, "daemons")
	var tr trial
	for range n {
		tr.Seeds = append(tr.Seeds, rapid.Uint64().Draw(rt, "seed"))
		tr.Speed = append(tr.Speed, rapid.Float64Range(0.9, 1.1).Draw(rt, "speed"))
		tr.Wire = append(tr.Wire, wire{
			Latency: time.Duration(rapid.IntRange(1, 1500).Draw(rt, "latency")) * time.Millisecond,
			Loss:    rapid.SampledFrom([]float64{0, 0, 0.05, 0.3}).Draw(rt, "loss"),
		})
	}
	deeds := []string{"start", "start", "kill", "pause", "resume", "resume", "cut", "join", "off", "on", "cancel",
		"release", "leave"}
	for range rapid.IntRange(3, 25).Draw(rt, "blows") {
		tr.Blows = append(tr.Blows, blow{
			What: rapid.SampledFrom(deeds).Draw(rt, "deed"), Who: rapid.IntRange(0, n-1).Draw(rt, "who"),
			Then: time.Duration(rapid.IntRange(0, 300).Draw(rt, "then")) * 100 * time.Millisecond,
		})
	}
	return tr
}

func (tr trial) strike(s *site, b blow) {
	d := s.daemons[b.Who]
	d.mu.Lock()
	member, running := d.member, d.kill != nil
	d.mu.Unlock()
	switch b.What {
	case "start":
		if !running {
			d.start()
		}
	case "kill":
		d.die()
	case "pause":
		d.pause()
	case "resume":
		d.resume()
	case "cut", "join":
		d.mu.Lock()
		d.cut = b.What == "cut"
		d.mu.Unlock()
	case "off":
		s.switchOff()
	case "on":
		s.switchOn()
	case "leave":
		if running {
			d.die()
			_ = member.Leave(context.Background())
		}
	case "cancel", "release":
		for _, ticket := range s.tickets() {
			if ticket.Words.Holder == d.name && ticket.Live {
				s.mu.Lock()
				if b.What == "cancel" {
					s.slurm.Cancel(ticket.ID)
				} else {
					s.slurm.Release(ticket.ID)
				}
				s.mu.Unlock()
			}
		}
	}
}

// TestAtNoInstantTwoDaemonsLead strikes sites with kills, stops, cuts, outages, and hands of administrators, over wires
// that are slow and lose messages. In the end everything works again, and somebody must lead, and go on to.
func TestAtNoInstantTwoDaemonsLead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tr := draw(rt)
		var trouble []string
		synctest.Test(t, func(t *testing.T) {
			s := newSite()
			for i := range tr.Seeds {
				s.add(tr.Wire[i], tr.Speed[i], tr.Seeds[i])
				s.daemons[i].start()
			}
			for _, b := range tr.Blows {
				tr.strike(s, b)
				s.pass(b.Then)
			}
			s.heal()
			s.pass(leader.MaxTTL + 4*ttl)
			s.changes = nil
			s.pass(5 * ttl)
			if len(s.changes) != 1 || s.changes[0] == "" {
				s.trouble = append(s.trouble, fmt.Sprintf("all is well, and yet: %q %+v", s.changes, s.tickets()))
			}
			trouble, s.trouble = s.trouble, nil
			s.end(t)
		})
		if len(trouble) > 0 {
			rt.Fatalf("%s", strings.Join(trouble, "\n"))
		}
	})
}

// heal ends all misfortunes.
func (s *site) heal() {
	s.switchOn()
	for _, d := range s.daemons {
		d.mu.Lock()
		d.cut, d.wire = false, wire{Latency: 20 * time.Millisecond}
		running := d.kill != nil
		d.mu.Unlock()
		d.resume()
		if !running {
			d.start()
		}
	}
}
