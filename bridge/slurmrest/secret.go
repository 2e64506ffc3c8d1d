package slurmrest

import (
	"bytes"
	"errors"
	"strings"
)

// errRepeats is for an answer that echoes our token. Nothing of it is used, since jobs read from it would be shown to
// users.
var errRepeats = errors.New("the answer repeats our token")

// leakLength is the length of a part of the token that is treated as a leak: an answer may repeat it cut short or
// broken into lines.
const leakLength = 16

// repeatsToken reports whether an answer contains the last leakLength bytes of the token, which no other text does. If
// the token is shorter, all of it is searched for.
func repeatsToken(body []byte, token string) bool {
	return bytes.Contains(body, []byte(token[max(0, len(token)-leakLength):]))
}

// leaksToken reports whether a text contains any piece of the token.
func leaksToken(text, token string) bool {
	if len(token) <= leakLength {
		return token != "" && strings.Contains(text, token)
	}
	for at := 0; at+leakLength <= len(token); at++ {
		if strings.Contains(text, token[at:at+leakLength]) {
			return true
		}
	}
	return false
}

// hiddenError is an error whose text must not be shown.
type hiddenError struct{ cause error }

func (hiddenError) Error() string {
	return "slurmrestd: what was said repeats our token, and is not shown"
}
func (h hiddenError) Unwrap() error { return h.cause }

// hideToken hides the text of an error that leaves the package if it contains the token. errors.Is still works.
func (l *link) hideToken(err *error) {
	if *err != nil && leaksToken((*err).Error(), l.token.last()) {
		*err = hiddenError{*err}
	}
}
