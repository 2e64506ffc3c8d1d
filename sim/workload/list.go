package workload

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// amount is one NAME=NUMBER of a list.
type amount struct {
	name   string
	number float64
}

// amounts parses a list such as image=50,language=50, with each name once and no negative numbers. Errors name the
// option.
func amounts(option, text string) ([]amount, error) {
	var list []amount
	for field := range strings.SplitSeq(text, ",") {
		name, number, _ := strings.Cut(field, "=")
		a := amount{name: strings.TrimSpace(name)}
		var ok bool
		if a.number, ok = positive(number); !ok || a.name == "" {
			return nil, wrong(option, text, fmt.Sprintf("NAME=NUMBER,… with numbers from 0, where it has %q", field))
		}
		if slices.ContainsFunc(list, func(b amount) bool { return b.name == a.name }) {
			return nil, wrong(option, text, fmt.Sprintf("every name once; %s is there twice", a.name))
		}
		list = append(list, a)
	}
	return list, nil
}

// positive parses a number from 0 to 1e9, and returns false if the text is none. It returns 0 for -0, which would be
// printed with its sign.
func positive(text string) (float64, bool) {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return math.Abs(x), err == nil && inRange(x, 0, 1e9)
}

// choose returns the choice that text names, in either case; the error names the option and lists the choices.
func choose[T ~string](option, text string, choices ...T) (T, error) {
	for _, c := range choices {
		if strings.EqualFold(string(c), strings.TrimSpace(text)) {
			return c, nil
		}
	}
	return "", wrong(option, text, oneOf(choices...))
}

// oneOf lists the choices: a, b or c.
func oneOf[T ~string](choices ...T) string {
	var text strings.Builder
	for i, c := range choices {
		switch {
		case i == 0:
		case i == len(choices)-1:
			text.WriteString(" or ")
		default:
			text.WriteString(", ")
		}
		text.WriteString(string(c))
	}
	return text.String()
}

// shares divides [0, 1) among choices: the interval of choice i ends at shares[i] and begins where that of choice i-1
// ends.
type shares []float64

// sharesOf makes shares in the ratio of the weights, which must not all be 0.
func sharesOf(weights []float64) shares {
	ends, sum := make(shares, len(weights)), 0.0
	for i, w := range weights {
		sum += w
		ends[i] = sum
	}
	for i := range ends {
		ends[i] /= sum
	}
	return ends
}

// pick draws a choice with the probability of its share. The last choice needs no comparison: its interval ends at 1,
// even if the computed end is slightly off by rounding.
func (s shares) pick(t *twister) int {
	u, i := t.random(), 0
	for i < len(s)-1 && u >= s[i] {
		i++
	}
	return i
}
