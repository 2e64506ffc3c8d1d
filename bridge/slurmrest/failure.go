package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Failure is a request that slurmrestd or slurmctld did not serve. It wraps the error that a round branches on.
type Failure struct {
	Status int    // of HTTP
	Number int    // Slurm's error number, where it told one
	Text   string // Slurm's own words
	Kind   error  // bridge.ErrGone, ErrNotPending, …
}

func (f *Failure) Error() string {
	if f.Number == 0 {
		return fmt.Sprintf("slurmrestd: %d %s", f.Status, f.Text)
	}
	return fmt.Sprintf("slurmrestd: %d error %d %s", f.Status, f.Number, f.Text)
}

func (f *Failure) Unwrap() error { return f.Kind }

// Slurm's error numbers that mean more than "refused" (slurm/slurm_errno.h).
const (
	errorUnspecified   = -1   // a veto by the site's lua, or no controller
	errorTokenInvalid  = 1007 // damaged, expired or another user's
	errorAccessDenied  = 2002
	errorNotYourJob    = 2010
	errorNoSuchJob     = 2017
	errorNotAlterable  = 2020 // signalled while not running
	errorAlreadyDone   = 2021
	errorNotPending    = 2073
	errorJobFinished   = 2084
	firstCommunication = 1000 // up to 1999 slurmrestd could not talk with slurmctld
	lastCommunication  = 1999
	firstSocket        = 5000 // and up to 5999 not even open a socket
	lastSocket         = 5999
)

// kindOf is the error that a round branches on. A number that is not known here is a refusal: the request itself cannot
// be served.
func kindOf(number int) error {
	switch {
	case number == errorTokenInvalid, number == errorAccessDenied, number == errorNotYourJob:
		return bridge.ErrDenied
	case number == errorNoSuchJob:
		return bridge.ErrGone
	case number == errorNotPending, number == errorJobFinished:
		return bridge.ErrNotPending
	case number == errorNotAlterable, number == errorAlreadyDone:
		return bridge.ErrNotRunning
	case number >= firstCommunication && number <= lastCommunication,
		number >= firstSocket && number <= lastSocket:
		return bridge.ErrUnreachable
	}
	return bridge.ErrRefused
}

// failed is the failure that an answer with this status tells of, or nil. An HTTP 200 may carry errors, and a warning
// that a field was ignored means that what we asked for was not done.
func failed(status int, said wire.Complaint) error {
	for _, e := range said.Errors {
		return refusal(status, e)
	}
	for _, warning := range said.Warnings {
		if strings.Contains(warning, "Ignoring unknown field") {
			return &Failure{Status: status, Text: inLine(warning, ""), Kind: bridge.ErrRefused}
		}
	}
	if status != 200 {
		return withoutJSON(status, "without a reason")
	}
	return nil
}

// refusal judges an error by its number, and where that says nothing by the status: 502 to 504 are of a slurmrestd that
// found no controller.
func refusal(status int, e wire.Error) *Failure {
	failure := &Failure{Status: status, Number: e.Number, Text: inLine(e.Text, e.Description), Kind: kindOf(e.Number)}
	if failure.Kind == bridge.ErrRefused && status >= 502 && status <= 504 {
		failure.Kind = bridge.ErrUnreachable
	}
	return failure
}

// failureIn reads the failure out of the body of an answer that is not a success.
func (l *link) failureIn(status int, body []byte) error {
	said, err := l.api.Complaint(body)
	if err != nil {
		return withoutJSON(status, "with a body that is not JSON")
	}
	return failed(status, said)
}

// withoutJSON judges an answer by its status alone: slurmrestd's own refusals are plain text, and a proxy may answer
// for it.
func withoutJSON(status int, text string) error {
	failure := &Failure{Status: status, Text: text, Kind: bridge.ErrUnreachable}
	switch {
	case status == 401, status == 403, status == 511:
		failure.Kind = bridge.ErrDenied
	case status >= 400 && status < 500 && status != 408 && status != 429:
		failure.Kind = bridge.ErrRefused
	}
	return failure
}

// unheard is an answer that never came whole: what was asked may be done all the same.
type unheard struct{ cause error }

func (u unheard) Error() string   { return "slurmrestd: " + u.cause.Error() }
func (u unheard) Unwrap() []error { return []error{bridge.ErrUnreachable, u.cause} }

// inLine bounds what of Slurm's text enters our errors, and keeps it on one line and free of what a terminal would
// obey.
func inLine(text, instead string) string {
	if text == "" {
		text = instead
	}
	return printable.Line(text, 200)
}

// kindWord names the kind of an error for counters.
func kindWord(err error) string {
	for _, kind := range []struct {
		err  error
		word string
	}{
		{bridge.ErrGone, "gone"},
		{bridge.ErrNotPending, "not pending"},
		{bridge.ErrNotRunning, "not running"},
		{bridge.ErrDenied, "denied"},
		{bridge.ErrRefused, "refused"},
		{context.Canceled, "cancelled"},
		{bridge.ErrUnreachable, "unreachable"},
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
