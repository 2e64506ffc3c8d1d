package main

import (
	"context"
	"io"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// This file has the names by which the commands below share use package ask.

// screen is a text for people that keeps the first error in writing.
type screen struct {
	text *ask.Text
	err  error
}

func screenOf(out io.Writer) *screen { return &screen{text: ask.NewText(out)} }

func (s *screen) say(indent int, text string) {
	s.text.Say(indent, text)
	s.err = s.text.Err()
}

func (s *screen) table(rows [][]string, most int) {
	s.text.Table(rows, most)
	s.err = s.text.Err()
}

// write writes an empty line, whatever its argument, which is always a newline.
func (s *screen) write(string) {
	s.text.Blank()
	s.err = s.text.Err()
}

const (
	longestName     = ask.LongestName
	longestSentence = ask.LongestSentence
)

func asJSON(out io.Writer, answer any) error { return ask.JSON(out, answer) }
func cell(text string, most int) string      { return ask.Cell(text, most) }
func ago(d time.Duration) string             { return ask.Ago(d) }

func asOf(round int, began, now time.Time, shadow bool) string {
	return ask.AsOf(round, began, now, shadow)
}

// broker is a client of a node's broker. It serves its pages over HTTP as a daemon does, at a socket.
type broker struct{ ask.Client }

func bySocket(path string) broker { return broker{ask.BySocket(path)} }

func (b broker) get(ctx context.Context, page string, into any) error { return b.Get(ctx, page, into) }

// errSilent is the error where nobody answers.
var errSilent = ask.ErrSilent

// whyNotOptions are the flags of share status for a job: where the last round is read.
type whyNotOptions struct {
	source ask.Source
	json   bool
}

// define adds the flags to a command.
func (o *whyNotOptions) define(where group) { where.rounds(&o.source) }

// ask is the last round, and what it says of the job. It is an error if the round does not know the job.
func (o *whyNotOptions) ask(ctx context.Context, name string) (bridge.Report, story.WhyNot, error) {
	return o.source.WhyNot(ctx, name)
}
