package directive

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
)

// MaxSpeed is the highest speed that is believed, in iterations a second. Nothing trains faster.
const MaxSpeed = 1e6

// Bounds of a report.
const (
	maxEpoch = 1 << 33 // seconds since the epoch, the year 2242
	maxRates = 16
)

// Progress is how far a job says that it has come.
type Progress struct {
	Iterations int64     // since its first start
	At         time.Time // by the clock of its node; zero: nothing was reported
}

// Curve is what a job measured of itself inside its own grant.
type Curve struct {
	Rates []learned.Rate // ascending in cores on its node, at most maxRates
	At    time.Time      // end of the measurement by the clock of its node; zero: no curve
}

// progressValue is ITERATIONS@EPOCH.
var progressValue = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})@([1-9][0-9]{0,10})$`)

// parseProgress reads the value of synergy-progress. The error, for the user, says what is wanted. The pattern lets
// only numbers pass, so their conversion cannot fail.
func parseProgress(value string) (Progress, error) {
	parts := progressValue.FindStringSubmatch(value)
	if parts == nil {
		return Progress{},
			fmt.Errorf("%s=%.40q: ignored: want the iterations so far, @ and the seconds since the epoch",
				progressName, value)
	}
	iterations, _ := strconv.ParseInt(parts[1], 10, 64)
	at, _ := strconv.ParseInt(parts[2], 10, 64)
	if at > maxEpoch {
		return Progress{}, fmt.Errorf("%s=%.40q: ignored: want the seconds since the epoch after the @",
			progressName, value)
	}
	return Progress{iterations, time.Unix(at, 0)}, nil
}

// curveValue is CORES:RATE, points separated by /, and @EPOCH: 1:0.58/2:1.13/3:1.56@1767268800. It contains no
// character that separates words.
var curveValue = regexp.MustCompile(
	`^([1-9][0-9]{0,3}:[0-9]{1,7}(?:\.[0-9]{1,6})?(?:/[1-9][0-9]{0,3}:[0-9]{1,7}(?:\.[0-9]{1,6})?)*)@([1-9][0-9]{0,10})$`)

// parseCurve reads the value of synergy-curve. word is the whole word, whose length is limited as well. The error, for
// the user, says what is wanted.
func parseCurve(word, value string) (Curve, error) {
	c, right := curveOf(value)
	if len(word) > maxWord || !right {
		return Curve{},
			fmt.Errorf(
				"%s=%.40q: ignored: want up to %d of CORES:ITERATIONS-A-SECOND with / between, ascending in cores, "+
					"@ and the seconds since the epoch, in no more than %d bytes, as 1:0.58/2:1.13@1767268800",
				curveName, value, maxRates, maxWord)
	}
	return c, nil
}

// curveOf is the curve that a value describes. right is false if the value is malformed, not ascending in cores or out
// of range. The pattern has checked that all parts are numbers, so their conversion cannot fail.
func curveOf(value string) (c Curve, right bool) {
	parts := curveValue.FindStringSubmatch(value)
	if parts == nil {
		return Curve{}, false
	}
	for point := range strings.SplitSeq(parts[1], "/") {
		cores, rate, _ := strings.Cut(point, ":")
		n, _ := strconv.Atoi(cores)
		x, _ := strconv.ParseFloat(rate, 64)
		if x <= 0 || x > MaxSpeed || len(c.Rates) == maxRates ||
			len(c.Rates) > 0 && n <= c.Rates[len(c.Rates)-1].Cores {
			return Curve{}, false
		}
		c.Rates = append(c.Rates, learned.Rate{Cores: n, Rate: x})
	}
	at, _ := strconv.ParseInt(parts[2], 10, 64)
	c.At = time.Unix(at, 0)
	return c, at <= maxEpoch
}
