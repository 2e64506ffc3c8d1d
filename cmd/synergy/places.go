package main

import (
	"errors"

	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
)

// nonEmptyFlag is a flag whose value may not be empty: with an unset shell variable the flag would otherwise look as if
// it had been left out.
type nonEmptyFlag struct{ text *string }

// Set takes over the flag's value, and refuses an empty one.
func (g nonEmptyFlag) Set(text string) error {
	if text == "" {
		return errors.New("is empty: leave the flag out, or say what it is for")
	}
	*g.text = text
	return nil
}

// String is the default in the help; pflag also calls it on a zero value.
func (g nonEmptyFlag) String() string {
	if g.text == nil {
		return ""
	}
	return *g.text
}

// Type is the type's name in the help.
func (g nonEmptyFlag) Type() string { return "string" }

// nonEmptyVar defines a flag of the group whose value may not be empty; value is its default.
func (g group) nonEmptyVar(to *string, name, value, usage string) {
	*to = value
	g.flags.Var(nonEmptyFlag{to}, name, usage)
}

// addSourceFlags defines the flags that say where rounds are read.
func (g group) addSourceFlags(s *ask.Source) {
	g.nonEmptyVar(&s.Daemon, "daemon", "", "the daemon's `address`, as "+ask.UsualAddress+
		", or its socket, as unix:"+ask.UsualSocket+" (default: that socket, else that address)")
	g.nonEmptyVar(&s.Ledger, "ledger", "",
		"the `file` of a daemon that is down, instead (default, where no daemon answers and none is named: "+
			ask.UsualLedger+")")
}

// addHistoryFlags defines the flags that say where rounds and what is older are read.
func (g group) addHistoryFlags(s *ask.Past) {
	g.addSourceFlags(&s.Source)
	g.nonEmptyVar(&s.Folder, "history", "", "the `folder` of the history of a daemon that is down, instead "+
		"(default, where no daemon answers and nothing is named: "+ask.UsualHistory+")")
}

// profileExtension is the extension of a profile's file.
const profileExtension = ".json"
