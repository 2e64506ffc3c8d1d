// Package directive reads the directives in a job's comment: each comment once, into one value that has the values and
// the mistakes. docs/job-contract.md is the contract with the users. The gate (etc/job_submit.lua) and the plugin
// (spank/words.c) check the same grammar.
//
// A comment is a list of words. Words are separated by commas, spaces and \t \n \v \f \r, the white space that the
// gate's Lua knows. A word that begins with synergy- is a directive, NAME or NAME=VALUE; all others belong to the user.
// Directives may stand in any order, each once. [ ] is optional, | separates alternatives, - is no value:
//
//	directive           value                                    field
//	synergy-profile     FILE.json | auto                         Managed, Teaches; Profile | Auto
//	synergy-checkpoint  - | SIGNAL[@SECONDS][/steps]             Saves, Signal, Grace, Steps
//	synergy-length      NUMBER s|m|h|d                           Length
//	synergy-cores       keep | give                              Cores
//	synergy-memory      keep | give                              Memory
//	synergy-share       high|low[,mem=GIB][,slo=MILLISECONDS]    Share; see share.ParseRequest
//	synergy-env         on | off                                 only nodes use it (docs/node-setup.md)
//	synergy-progress    - | ITERATIONS@EPOCH                     Reports; Progress
//	synergy-curve       CORES:RATE[/CORES:RATE]...@EPOCH         Curve
//
//	FILE        letters, digits, dot, dash, underscore, the first a letter or digit, without ".."; never a path
//	SIGNAL      USR1, USR2, HUP, INT or TERM; USR1 without a value
//	SECONDS     1 to 3600; 60 if left out
//	NUMBER      up to 9 digits, and up to 9 more after a point; its unit follows at once; above 0, at most 3650 days
//	ITERATIONS  up to 15 digits
//	EPOCH       seconds since the epoch, 1 to 2^33
//	CORES       1 to 9999, ascending, at most 16 points
//	RATE        iterations a second: up to 7 digits, and up to 6 more after a point; above 0, at most 10^6
//
// Numbers have no sign and no exponent. The value of synergy-share may contain commas: mem= and slo= belong to it where
// they follow it, or each other, after one comma and nothing else. A later word that reads like such an amount is a
// mistake, since it would have no effect.
//
// Comments are hostile. A comment has at most 4096 bytes and no control character; synergy-profile and synergy-curve
// have at most 128 bytes, name included. The text of a mistake is short and printable.
//
// A mistake in a directive costs the job this directive and the profile. There are two exceptions:
//
//   - A wrong value of synergy-progress or synergy-curve costs that report alone, since the running job writes it.
//   - A comment that is wrong as a whole has no directives. With a control character it still has Managed, Reports,
//     Teaches and the reports; if it is too long, only the first three.
package directive

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// The names of the directives.
const (
	profileName    = "synergy-profile"
	checkpointName = "synergy-checkpoint"
	lengthName     = "synergy-length"
	coresName      = "synergy-cores"
	memoryName     = "synergy-memory"
	shareName      = "synergy-share"
	envName        = "synergy-env"
	progressName   = "synergy-progress"
	curveName      = "synergy-curve"
)

// Bounds of a comment, in bytes.
const (
	maxComment = 4096
	maxWord    = 128 // "synergy-profile=" or "synergy-curve=" included
)

// Directives are what a comment says, with its mistakes. A directive that is absent or wrong has the zero value. The
// package comment says what remains of a comment that is wrong as a whole.
type Directives struct {
	Managed bool // the comment has synergy-profile=, whatever its value

	Profile string        // file name of the sensitivity profile; empty with Auto
	Auto    bool          // the profile is learned from the jobs of this owner and name
	Saves   bool          // the job declared a checkpoint
	Signal  string        // asks the job to save and leave, as USR1
	Steps   bool          // the signal is for the tasks of all steps, not for the batch script
	Grace   time.Duration // from the signal until the job is stopped by force
	Length  time.Duration // expected length at the proportional share; 0: not given
	Cores   Claim         // on the cores that the user asked for
	Memory  Claim         // on the memory that the user asked for
	// Share says that the job may share a GPU, and how; nil: it never does.
	Share *share.Request

	// Mistakes are the first maxMistakes in the directives, in the order of their words, and More is how many follow.
	Mistakes []Mistake
	More     int

	Reports     bool // the comment has synergy-progress, with or without a value
	Progress    Progress
	BadProgress *Mistake // in the progress report
	Teaches     bool     // the comment has synergy-profile=auto: the job may report a curve at any time
	Curve       Curve
	BadCurve    *Mistake // in the curve
}

// Mistake is a word that is wrong.
type Mistake struct {
	Word string // empty: the comment as a whole
	Text string // what is wrong, then what would be right; short and printable
}

// maxMistakes is how many mistakes are kept: a user corrects one at a time, and the text goes into log lines and
// annotations.
const maxMistakes = 3

// Err has the text of all Mistakes, a line each; nil: there is none. Mistakes in reports are not among them.
func (d *Directives) Err() error {
	if len(d.Mistakes) == 0 {
		return nil
	}
	lines := make([]string, 0, maxMistakes+1)
	for _, m := range d.Mistakes {
		lines = append(lines, m.Text)
	}
	if d.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", d.More))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// Parse reads a comment, in one pass over its words.
func Parse(comment string) Directives {
	p := parser{tooLong: len(comment) > maxComment}
	switch {
	case p.tooLong:
		p.addMistake("", fmt.Errorf("comment of %d bytes: want at most %d", len(comment), maxComment))
	case strings.ContainsFunc(comment, unicode.IsControl):
		p.addMistake("", errors.New("comment with a control character: want one line of plain text"))
	}
	p.refused = len(p.Mistakes) > 0
	for word := range words(comment) {
		name, value, given := strings.Cut(word, "=")
		p.Managed = p.Managed || name == profileName && given
		p.Reports = p.Reports || name == progressName
		p.Teaches = p.Teaches || word == profileName+"="+auto
		if !p.tooLong {
			p.readReport(word, name, value, given)
		}
		if !p.refused {
			p.readDirective(word, name, value, given)
		}
	}
	return p.Directives
}

// parser has what was read of a comment so far.
type parser struct {
	Directives
	tooLong   bool     // the comment is
	refused   bool     // the comment is wrong as a whole
	namesSeen []string // names of directives
	// progressed and curved say that a progress report, or a curve, was read; a later one does not count.
	progressed, curved bool
}

// addMistake notes a mistake in the directives, with the word that is wrong; beyond the first maxMistakes it only
// counts.
func (p *parser) addMistake(word string, err error) {
	if len(p.Mistakes) == maxMistakes {
		p.More++
		return
	}
	p.Mistakes = append(p.Mistakes, Mistake{word, err.Error()})
}

// readDirective reads one word of the comment, unless it is a report: it sets the directive's field or notes a mistake.
// given is false if the word has no "=". A word that is no directive belongs to the user, unless it reads like an
// amount of synergy-share, which would have no effect there.
func (p *parser) readDirective(word, name, value string, given bool) {
	if !strings.HasPrefix(name, "synergy-") {
		if slices.Contains(p.namesSeen, shareName) && isAmount(word) {
			p.addMistake(word, fmt.Errorf("%.40q %s", word, strayAmount))
		}
		return
	}
	if slices.Contains(p.namesSeen, name) {
		p.addMistake(word, fmt.Errorf("%.40q: said twice: say it once", name))
		return
	}
	p.namesSeen = append(p.namesSeen, name)
	if err := p.setValue(name, value, given); err != nil {
		p.addMistake(word, err)
	}
}

// setValue checks the value of a directive and sets its fields. The error, for the user, says what would be right; the
// fields stay zero then.
func (d *Directives) setValue(name, value string, given bool) (err error) {
	switch name {
	case profileName:
		return d.setProfile(value)
	case checkpointName:
		return d.setCheckpoint(value, given)
	case lengthName:
		d.Length, err = parseLength(value)
		return err
	case progressName, curveName:
		return nil // readReport has read it
	case envName:
		return checkEnv(value)
	case coresName:
		d.Cores, err = parseClaim(name, value)
		return err
	case memoryName:
		d.Memory, err = parseClaim(name, value)
		return err
	case shareName:
		return d.setShare(value)
	}
	return fmt.Errorf(
		"%.40q: no such word: want synergy-profile, -checkpoint, -length, -progress, -curve, -env, -cores, -memory "+
			"or -share", name)
}

// readReport reads a word if it is a progress report or a curve; of each only the first counts. synergy-progress
// without a value only announces reports. A mistake costs this report alone, since the running job writes it.
func (p *parser) readReport(word, name, value string, given bool) {
	var err error
	switch {
	case name == progressName && given && !p.progressed:
		p.progressed = true
		if p.Progress, err = parseProgress(value); err != nil {
			p.BadProgress = &Mistake{word, err.Error()}
		}
	case name == curveName && !p.curved:
		p.curved = true
		if p.Curve, err = parseCurve(word, value); err != nil {
			p.BadCurve = &Mistake{word, err.Error()}
		}
	}
}
