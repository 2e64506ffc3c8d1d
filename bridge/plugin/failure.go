package plugin

import (
	"context"
	"errors"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin/slurmpb"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// kinds are the errors that a round branches on, and their words on the wire. That another daemon leads is none of
// them: whoever drives the workload manager has no say in that.
var kinds = []struct {
	err  error
	kind slurmpb.Kind
	word string // for counting
}{
	{bridge.ErrGone, slurmpb.Kind_GONE, "gone"},
	{bridge.ErrHeld, slurmpb.Kind_HELD, "held"},
	{bridge.ErrNotPending, slurmpb.Kind_NOT_PENDING, "not pending"},
	{bridge.ErrNotRunning, slurmpb.Kind_NOT_RUNNING, "not running"},
	{bridge.ErrDenied, slurmpb.Kind_DENIED, "denied"},
	{bridge.ErrRefused, slurmpb.Kind_REFUSED, "refused"},
	{bridge.ErrUnreachable, slurmpb.Kind_UNREACHABLE, "unreachable"},
	{context.DeadlineExceeded, slurmpb.Kind_LATE, "late"},
	{context.Canceled, slurmpb.Kind_LATE, "cancelled"},
}

// Failure is what a plugin has answered in place of what it was asked for. It wraps the errors that a round branches
// on.
type Failure struct {
	Text string // the plugin's own words, in one line
	kind []error
}

func (f *Failure) Error() string   { return f.Text }
func (f *Failure) Unwrap() []error { return f.kind }

// failureOut is nil for no error.
func failureOut(err error) *slurmpb.Failure {
	if err == nil {
		return nil
	}
	out := &slurmpb.Failure{Text: valid(err.Error())}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			out.Kinds = append(out.Kinds, k.kind)
		}
	}
	return out
}

// failureIn reads a failure. A kind that is not known here says nothing.
func failureIn(sent *slurmpb.Failure) error {
	if sent == nil {
		return nil
	}
	in := &Failure{Text: "slurm plugin: " + plain(sent.Text)}
	for _, said := range sent.Kinds {
		for _, k := range kinds {
			if k.kind == said && said != slurmpb.Kind_LATE {
				in.kind = append(in.kind, k.err)
			}
		}
		if said == slurmpb.Kind_LATE { // its own patience has ended and not ours
			in.kind = append(in.kind, bridge.ErrUnreachable)
		}
	}
	return in
}

// unheard is a question to which there was no answer that could be used: what was asked may be done all the same.
type unheard struct{ cause error }

func (u unheard) Error() string   { return "slurm plugin: " + u.cause.Error() }
func (u unheard) Unwrap() []error { return []error{bridge.ErrUnreachable, u.cause} }

// wordFor names the kind of an error for counters; empty: none.
func wordFor(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.word
		}
	}
	if err != nil {
		return "other"
	}
	return ""
}

// longest is how much of a sentence that a plugin says is shown.
const longest = 500 // bytes

// plain keeps a sentence short, on one line, and free of what a terminal would obey.
func plain(text string) string { return printable.Line(text, longest) }

// valid makes a text one that the protocol takes: what a user wrote may be any bytes.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
