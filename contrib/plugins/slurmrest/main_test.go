package main

import (
	"strings"
	"testing"
)

func TestAConfigurationSaysWhatIsMissing(t *testing.T) {
	for text, says := range map[string]string{
		`{"url": "u", "token_file": "t", "scontrol": ["a", "b"]}`: "",
		``:                                   "want a JSON object",
		`{"url": "u"}`:                       "want url and token_file",
		`{"url": "u", "token_file": "t"} {}`: "nothing after it",
		`{"url": "u", "token": "t"}`:         `unknown field "token"`,
		`{"url": "u", "token_file": ["t"]}`:  "want a JSON object",
	} {
		_, err := parse([]byte(text))
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
