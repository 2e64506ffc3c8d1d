package slurmtest

import (
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// Nodes are powered down and resumed as by power_save.c and node_mgr.c of slurmctld 24.11. A POWERED_DOWN node can be
// chosen like others, but comes last; a job that gets it is CONFIGURING until the node is up, and its run counts from
// then. A node with POWER_DOWN takes jobs until it is idle, and none while it powers down. Nodes are not powered down
// for being idle: a test calls PowerDown.

// The words of a node's state about power.
const (
	poweredDown   = "POWERED_DOWN"
	poweringUp    = "POWERING_UP"
	powerUp       = "POWER_UP" // requested to be up
	powerDown     = "POWER_DOWN"
	poweringDown  = "POWERING_DOWN"
	notResponding = "NOT_RESPONDING"
)

// openStates are the words with which slurmctld always starts jobs on a node.
var openStates = []string{
	poweredDown,
	poweringUp,
	powerUp,
	"CLOUD",
	"COMPLETING",
	"DYNAMIC_NORM",
	"MAINTENANCE",
	"PLANNED",
	"REBOOT_REQUESTED",
	"RESERVED",
}

// closesNode reports whether this word of the node's state keeps slurmctld from starting jobs here. Some words do so
// only in combination: a node that is off or boots is expected not to respond, and POWER_DOWN closes a node only when
// it is idle.
func (n *node) closesNode(word string) bool {
	switch word {
	case notResponding: // expected of a node that is off or boots
		return !slices.Contains(n.state, poweredDown) && !slices.Contains(n.state, poweringUp)
	case powerDown:
		return len(n.holders) == 0
	}
	return !slices.Contains(openStates, word)
}

// closingWords is why the scheduler starts nothing here: the state words that keep jobs off, joined by +. Empty: the
// node is open.
func (n *node) closingWords() string {
	if len(n.state) == 0 {
		return ""
	}
	return strings.Join(
		slices.DeleteFunc(slices.Clone(n.state), func(word string) bool { return !n.closesNode(word) }),
		"+",
	)
}

// stateWords are the node's state as Slurm prints it: the base state first. It follows from what is allocated, unless
// DOWN, FUTURE, UNKNOWN or ERROR was set.
func (n *node) stateWords() []string {
	for _, base := range []string{"DOWN", "FUTURE", "UNKNOWN", "ERROR"} {
		if slices.Contains(n.state, base) {
			return n.state
		}
	}
	switch {
	case len(n.holders) == 0:
		return append([]string{"IDLE"}, n.state...)
	case n.allocated.CPUs == n.fixed.Total.CPUs:
		return append([]string{"ALLOCATED"}, n.state...)
	}
	return append([]string{"MIXED"}, n.state...)
}

// hasState reports whether the node's state has a word.
func (n *node) hasState(word string) bool { return slices.Contains(n.state, word) }

// replaceState removes the words out from the node's state and adds the words in, each only once.
func (n *node) replaceState(out []string, in ...string) {
	n.state = slices.DeleteFunc(slices.Clone(n.state), func(word string) bool {
		return slices.Contains(out, word) || slices.Contains(in, word)
	})
	n.state = append(n.state, in...)
}

// continuePower plans how a node goes on whose state was set from outside in the middle of powering up or down. Without
// that it would stay in it for ever.
func (s *Slurm) continuePower(n *node) {
	switch {
	case n.hasState(powerDown):
		s.powerDownIfIdle(n)
	case n.hasState(poweringDown):
		s.runAfter(s.options.SuspendDelay, func() { s.finishPowerDown(n) })
	case n.hasState(poweringUp), n.hasState(poweredDown) && n.hasState(powerUp):
		s.bootNode(n)
	}
}

// runAfter runs do after d, with the lock held. Unlike planForRun it is not bound to a run of a job.
func (s *Slurm) runAfter(d time.Duration, do func()) {
	s.clock.At(s.clock.Now().Add(d), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		do()
	})
}

// bootNode boots a node, which takes ResumeDelay. Jobs that were given the node wait for it, and a pass then follows
// for others.
func (s *Slurm) bootNode(n *node) {
	n.replaceState([]string{poweredDown, powerUp}, poweringUp, notResponding)
	n.booted = s.clock.Now().Add(s.options.ResumeDelay)
	s.runAfter(s.options.ResumeDelay, func() {
		n.replaceState([]string{poweringUp, notResponding})
		s.planPass()
	})
}

// powerDownIfIdle begins to power a node down if that was requested and no job holds it any more; else it does nothing.
func (s *Slurm) powerDownIfIdle(n *node) {
	if !n.hasState(powerDown) || len(n.holders) > 0 {
		return
	}
	n.replaceState([]string{powerDown, poweredDown}, poweringDown)
	s.runAfter(s.options.SuspendDelay, func() { s.finishPowerDown(n) })
}

// finishPowerDown completes powering down, at the end of SuspendTimeout. If the node's state was changed meanwhile it
// does nothing.
func (s *Slurm) finishPowerDown(n *node) {
	if n.hasState(poweringDown) {
		n.replaceState([]string{poweringDown}, poweredDown)
		s.planPass()
	}
}

// PowerDown is scontrol update nodename= state=power_down: jobs that run there continue.
func (s *Slurm) PowerDown(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, found := s.byName[name]
	if !found || s.nodes[i].hasState(poweringDown) {
		return
	}
	s.nodes[i].replaceState(nil, powerDown)
	s.powerDownIfIdle(s.nodes[i])
}

// bootAll resumes those nodes of a starting job that are powered down, and returns when the last of its nodes will be
// up: the present time if all are.
func (s *Slurm) bootAll(nodes []*node) time.Time {
	up := s.clock.Now()
	for _, n := range nodes {
		if n.hasState(poweredDown) {
			s.bootNode(n)
		}
		if n.hasState(poweringUp) && n.booted.After(up) {
			up = n.booted
		}
	}
	return up
}

// endConfiguring is called when all nodes of the job are up: its script begins, and Slurm counts run and time limit
// from here.
func (s *Slurm) endConfiguring(j *job) {
	j.configuring = false
	j.run.started, j.run.rate = s.clock.Now(), jobRate(s, j)
	s.changed(j)
	s.planEnd(j)
}

// byBootRank orders nodes by slurmctld's preference: up, booting, down.
func byBootRank(a, b *node) int { return a.bootRank() - b.bootRank() }

// bootRank ranks a node by how long it takes to be usable: 0 up, 1 booting, 2 powered down.
func (n *node) bootRank() int {
	switch {
	case n.hasState(poweredDown):
		return 2
	case n.hasState(poweringUp):
		return 1
	}
	return 0
}

// closedReason is why the node is observed as closed, empty if open: by Options.Closed, the rule of the adapter under
// test, or else by the scheduler's own rule.
func (s *Slurm) closedReason(n *node) string {
	if s.options.Closed != nil {
		return s.options.Closed(n.stateWords())
	}
	return n.closingWords()
}

// SetState sets a node's state to Slurm's words, without the base states that follow from its jobs. A power transition
// goes on from there.
func SetState(s *Slurm, name string, words ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, found := s.byName[name]; found {
		s.nodes[i].state = words
		s.continuePower(s.nodes[i])
		s.planPass()
	}
}

// stateOf is the initial state of a node: the words in Closed.
func stateOf(fixed *slurm.Node) []string {
	if fixed.Closed == "" {
		return nil
	}
	return strings.Split(fixed.Closed, "+")
}
