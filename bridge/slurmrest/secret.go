package slurmrest

import (
	"bytes"
	"errors"
	"strings"
)

// errRepeats is an answer that nobody but an echo gives. Nothing of it is used, not even what reads like jobs: those
// would be shown.
var errRepeats = errors.New("the answer repeats our token")

// piece is how much of a token gives it away: whoever answers may repeat it cut short or broken into lines.
const piece = 16

// repeats says that an answer has the end of the token in it, which no other text has.
func repeats(body []byte, token string) bool {
	return bytes.Contains(body, []byte(token[max(0, len(token)-piece):]))
}

// shows says that a text has any piece of the token.
func shows(text, token string) bool {
	if len(token) <= piece {
		return token != "" && strings.Contains(text, token)
	}
	for at := 0; at+piece <= len(token); at++ {
		if strings.Contains(text, token[at:at+piece]) {
			return true
		}
	}
	return false
}

// hidden is an error whose text is not for others.
type hidden struct{ cause error }

func (hidden) Error() string   { return "slurmrestd: what was said repeats our token, and is not shown" }
func (h hidden) Unwrap() error { return h.cause }

// discreet keeps the error that leaves the package from showing the token, wherever in it an answer's text has come to
// stand. What a round branches on stays.
func (l *link) discreet(err *error) {
	if *err != nil && shows((*err).Error(), l.token.last()) {
		*err = hidden{*err}
	}
}
