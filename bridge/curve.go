package bridge

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
)

// Curve is what a job measured of itself inside its own grant.
type Curve struct {
	Rates []learned.Rate // ascending in cores on its node, at most maxRates
	At    time.Time      // end of the measurement by the clock of its node; zero: no curve
}

const (
	curveWord = "synergy-curve"
	maxRates  = 16
)

// curveValue is CORES:ITERATIONS/s, points separated by /, and the seconds since the epoch:
// 1:0.58/2:1.13/3:1.56@1767268800. It contains no character that separates words.
var curveValue = regexp.MustCompile(
	`^([1-9][0-9]{0,3}:[0-9]{1,7}(?:\.[0-9]{1,6})?(?:/[1-9][0-9]{0,3}:[0-9]{1,7}(?:\.[0-9]{1,6})?)*)@([1-9][0-9]{0,10})$`)

// Teaches says that a comment has synergy-profile=auto, so that the job may report a curve at any time.
func Teaches(comment string) bool {
	for word := range words(comment) {
		if word == "synergy-profile="+autoProfile {
			return true
		}
	}
	return false
}

// ParseCurve reads the curve in a comment; the zero Curve if there is none. Like progress, it is separate from
// ParseComment, so that a mistake in it costs only the curve.
func ParseCurve(comment string) (Curve, error) {
	if len(comment) > maxComment {
		return Curve{}, nil // ParseComment refuses the whole comment
	}
	for word := range words(comment) {
		name, value, _ := strings.Cut(word, "=")
		if name != curveWord {
			continue
		}
		c, right := parseCurve(value)
		if len(word) > maxWord || !right {
			return Curve{},
				fmt.Errorf(
					"%s=%.40q: ignored: want up to %d of CORES:ITERATIONS-A-SECOND with / between, ascending in "+
						"cores, "+
						"@ and the seconds since the epoch, in no more than %d bytes, as 1:0.58/2:1.13@1767268800",
					curveWord,
					value, maxRates, maxWord)
		}
		return c, nil
	}
	return Curve{}, nil
}

// parseCurve reads the value of synergy-curve. right is false if it is malformed, not ascending in cores or out of
// range. The pattern has checked that all parts are numbers, so their conversion cannot fail.
func parseCurve(value string) (c Curve, right bool) {
	parts := curveValue.FindStringSubmatch(value)
	if parts == nil {
		return Curve{}, false
	}
	for point := range strings.SplitSeq(parts[1], "/") {
		cores, rate, _ := strings.Cut(point, ":")
		n, _ := strconv.Atoi(cores)
		x, _ := strconv.ParseFloat(rate, 64)
		if x <= 0 || x > maxSpeed || len(c.Rates) == maxRates ||
			len(c.Rates) > 0 && n <= c.Rates[len(c.Rates)-1].Cores {
			return Curve{}, false
		}
		c.Rates = append(c.Rates, learned.Rate{Cores: n, Rate: x})
	}
	at, _ := strconv.ParseInt(parts[2], 10, 64)
	c.At = time.Unix(at, 0)
	return c, at <= maxEpoch
}
