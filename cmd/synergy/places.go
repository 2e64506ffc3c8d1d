package main

import (
	"errors"

	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
)

// given is a flag whose value may not be empty: with an unset shell variable the flag would otherwise look as if it had
// been left out.
type given struct{ text *string }

func (g given) Set(text string) error {
	if text == "" {
		return errors.New("is empty: leave the flag out, or say what it is for")
	}
	*g.text = text
	return nil
}

func (g given) String() string {
	if g.text == nil {
		return ""
	}
	return *g.text
}

// Type is the type's name in the help.
func (g given) Type() string { return "string" }

// give defines such a flag.
func (g group) give(to *string, name, value, usage string) {
	*to = value
	g.flags.Var(given{to}, name, usage)
}

// rounds defines the flags that say where rounds are read.
func (g group) rounds(s *ask.Source) {
	g.give(&s.Daemon, "daemon", "", "the daemon's `address`, as "+ask.UsualAddress+
		", or its socket, as unix:"+ask.UsualSocket+" (default: that socket, else that address)")
	g.give(&s.Ledger, "ledger", "",
		"the `file` of a daemon that is down, instead (default, where no daemon answers and none is named: "+
			ask.UsualLedger+")")
}

// past defines the flags that say where rounds and what is older are read.
func (g group) past(s *ask.Past) {
	g.rounds(&s.Source)
	g.give(&s.Folder, "history", "", "the `folder` of the history of a daemon that is down, instead "+
		"(default, where no daemon answers and nothing is named: "+ask.UsualHistory+")")
}

// profileExtension is that of a profile's file.
const profileExtension = ".json"
