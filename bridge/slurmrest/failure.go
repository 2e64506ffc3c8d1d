package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Failure is a request that slurmrestd or slurmctld did not serve. It wraps the error on which a round branches.
type Failure struct {
	Status int    // of HTTP
	Number int    // Slurm's error number; 0: none
	Text   string // Slurm's message
	Kind   error  // slurm.ErrGone, ErrNotPending, …
}

// Error has the HTTP status, Slurm's error number if there is one, and Slurm's message.
func (f *Failure) Error() string {
	if f.Number == 0 {
		return fmt.Sprintf("slurmrestd: %d %s", f.Status, f.Text)
	}
	return fmt.Sprintf("slurmrestd: %d error %d %s", f.Status, f.Number, f.Text)
}

func (f *Failure) Unwrap() error { return f.Kind }

// Slurm's error numbers that mean more than ErrRefused (slurm/slurm_errno.h).
const (
	errorUnspecified   = -1   // veto by the site's lua, or no controller
	errorTokenInvalid  = 1007 // damaged, expired or of another user
	errorAccessDenied  = 2002
	errorNotYourJob    = 2010
	errorNoSuchJob     = 2017
	errorNotAlterable  = 2020 // the job is not running, in answer to a signal
	errorAlreadyDone   = 2021
	errorNotPending    = 2073
	errorJobFinished   = 2084
	firstCommunication = 1000 // 1000 to 1999: slurmrestd could not talk to slurmctld
	lastCommunication  = 1999
	firstSocket        = 5000 // 5000 to 5999: it could not even open a socket
	lastSocket         = 5999
)

// kindOf maps an error number to the error on which a round branches. An unknown number is a refusal: the request
// itself cannot be served.
func kindOf(number int) error {
	switch {
	case number == errorTokenInvalid, number == errorAccessDenied, number == errorNotYourJob:
		return slurm.ErrDenied
	case number == errorNoSuchJob:
		return slurm.ErrGone
	case number == errorNotPending, number == errorJobFinished:
		return slurm.ErrNotPending
	case number == errorNotAlterable, number == errorAlreadyDone:
		return slurm.ErrNotRunning
	case number >= firstCommunication && number <= lastCommunication,
		number >= firstSocket && number <= lastSocket:
		return slurm.ErrUnreachable
	}
	return slurm.ErrRefused
}

// failed is the failure that an answer means; nil: the request succeeded. An answer with HTTP status 200 may contain
// errors, and a warning that a field was ignored means that the request was not carried out as sent. Of several errors
// the first one counts.
func failed(status int, said wire.Complaint) error {
	for _, e := range said.Errors {
		return refusal(status, e)
	}
	for _, warning := range said.Warnings {
		if strings.Contains(warning, "Ignoring unknown field") {
			return &Failure{Status: status, Text: inLine(warning, ""), Kind: slurm.ErrRefused}
		}
	}
	if status != 200 {
		return withoutJSON(status, "without a reason")
	}
	return nil
}

// refusal classifies an error by its number and, if that is not specific, by the status: slurmrestd answers 502 to 504
// if it found no controller.
func refusal(status int, e wire.Error) *Failure {
	failure := &Failure{Status: status, Number: e.Number, Text: inLine(e.Text, e.Description), Kind: kindOf(e.Number)}
	if failure.Kind == slurm.ErrRefused && status >= 502 && status <= 504 {
		failure.Kind = slurm.ErrUnreachable
	}
	return failure
}

// failureIn is the failure that the body of an unsuccessful answer tells, or else its status.
func (l *link) failureIn(status int, body []byte) error {
	said, err := l.api.Complaint(body)
	if err != nil {
		return withoutJSON(status, "with a body that is not JSON")
	}
	return failed(status, said)
}

// withoutJSON classifies an answer by its status alone: slurmrestd's own refusals are plain text, and a proxy may
// answer in its place. slurmrestd answers 511 to an invalid token. 408 and 429 are about time and load and not about
// the request, so they count as unreachable like all 5xx.
func withoutJSON(status int, text string) error {
	failure := &Failure{Status: status, Text: text, Kind: slurm.ErrUnreachable}
	switch {
	case status == 401, status == 403, status == 511:
		failure.Kind = slurm.ErrDenied
	case status >= 400 && status < 500 && status != 408 && status != 429:
		failure.Kind = slurm.ErrRefused
	}
	return failure
}

// noAnswerError means that no complete answer arrived. The request may have been carried out.
type noAnswerError struct{ cause error }

func (u noAnswerError) Error() string   { return "slurmrestd: " + u.cause.Error() }
func (u noAnswerError) Unwrap() []error { return []error{slurm.ErrUnreachable, u.cause} }

// inLine makes text of Slurm fit for errors: at most 200 bytes, one line, no terminal control characters. In place of
// an empty text it takes instead.
func inLine(text, instead string) string {
	if text == "" {
		text = instead
	}
	return printable.Line(text, 200)
}

// kindWord is the kind of an error, for counters; empty for nil. The error of a cancelled request may be an
// ErrUnreachable as well; it counts as cancelled.
func kindWord(err error) string {
	for _, kind := range []struct {
		err  error
		word string
	}{
		{slurm.ErrGone, "gone"},
		{slurm.ErrNotPending, "not pending"},
		{slurm.ErrNotRunning, "not running"},
		{slurm.ErrDenied, "denied"},
		{slurm.ErrRefused, "refused"},
		{context.Canceled, "cancelled"},
		{slurm.ErrUnreachable, "unreachable"},
	} {
		if errors.Is(err, kind.err) {
			return kind.word
		}
	}
	if err != nil {
		return "other"
	}
	return ""
}
