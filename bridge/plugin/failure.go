package plugin

import (
	"context"
	"errors"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin/slurmpb"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// kinds are the errors on which a round branches, with their values on the wire. ErrNotLeader is not among them, since
// a plugin has no say in that.
var kinds = []struct {
	err  error
	kind slurmpb.Kind
	word string // for counters
}{
	{slurm.ErrGone, slurmpb.Kind_GONE, "gone"},
	{slurm.ErrHeld, slurmpb.Kind_HELD, "held"},
	{slurm.ErrNotPending, slurmpb.Kind_NOT_PENDING, "not pending"},
	{slurm.ErrNotRunning, slurmpb.Kind_NOT_RUNNING, "not running"},
	{slurm.ErrDenied, slurmpb.Kind_DENIED, "denied"},
	{slurm.ErrRefused, slurmpb.Kind_REFUSED, "refused"},
	{slurm.ErrUnreachable, slurmpb.Kind_UNREACHABLE, "unreachable"},
	{context.DeadlineExceeded, slurmpb.Kind_LATE, "late"},
	{context.Canceled, slurmpb.Kind_LATE, "cancelled"},
}

// Failure is an error that a plugin answered. It wraps the errors on which a round branches.
type Failure struct {
	Text string // the plugin's message, in one line
	kind []error
}

func (f *Failure) Error() string   { return f.Text }
func (f *Failure) Unwrap() []error { return f.kind }

// failureOut encodes an error as its text and the kinds on which a round branches. A nil error gives nil, which means
// success.
func failureOut(err error) *slurmpb.Failure {
	if err == nil {
		return nil
	}
	out := &slurmpb.Failure{Text: validUTF8(err.Error())}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			out.Kinds = append(out.Kinds, k.kind)
		}
	}
	return out
}

// failureIn decodes a failure; nil means success. A timeout of the plugin counts as an unreachable Slurm. Unknown kinds
// are ignored: a failure with no other kind is an error on which no round branches.
func failureIn(sent *slurmpb.Failure) error {
	if sent == nil {
		return nil
	}
	in := &Failure{Text: "slurm plugin: " + oneLine(sent.Text)}
	for _, said := range sent.Kinds {
		for _, k := range kinds {
			if k.kind == said && said != slurmpb.Kind_LATE {
				in.kind = append(in.kind, k.err)
			}
		}
		if said == slurmpb.Kind_LATE { // the plugin's timeout, not ours
			in.kind = append(in.kind, slurm.ErrUnreachable)
		}
	}
	return in
}

// noAnswerError means that no usable answer arrived. The request may have been carried out.
type noAnswerError struct{ cause error }

func (u noAnswerError) Error() string   { return "slurm plugin: " + u.cause.Error() }
func (u noAnswerError) Unwrap() []error { return []error{slurm.ErrUnreachable, u.cause} }

// wordFor is the kind of an error, for counters; empty for nil.
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

// maxMessage limits what is shown of a plugin's message.
const maxMessage = 500 // bytes

// oneLine makes a message short, one line, and free of terminal control characters.
func oneLine(text string) string { return printable.Line(text, maxMessage) }

// validUTF8 makes a text valid UTF-8, with a replacement character for each invalid part. protobuf refuses any other
// text, and Slurm's texts may contain any bytes that a user wrote.
func validUTF8(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
