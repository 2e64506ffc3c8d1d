package directive

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// auto is the value of synergy-profile for a profile that is learned.
const auto = "auto"

// Bounds and default of the grace of a checkpoint.
const (
	MaxGrace     = time.Hour
	DefaultGrace = time.Minute
)

const maxLength = 10 * 365 * 24 * time.Hour

var (
	fileName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*\.json$`)
	wholeNumber = regexp.MustCompile(`^[1-9][0-9]*$`)
	decimal     = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9})?$`)
	signals     = map[string]bool{"USR1": true, "USR2": true, "HUP": true, "INT": true, "TERM": true}
	units       = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
)

// setProfile reads the file name of a profile, or auto. A path is refused, since the user must not name files outside
// the site's folder of profiles.
func (d *Directives) setProfile(value string) error {
	if value == auto {
		d.Auto = true
		return nil
	}
	if len(profileName+"=")+len(value) > maxWord || strings.Contains(value, "..") || !fileName.MatchString(value) {
		return fmt.Errorf(
			"synergy-profile=%.40q: want the name of a profile, letters, digits, dot, dash and underscore, ending in "+
				".json, or auto", value)
	}
	d.Profile = value
	return nil
}

// setCheckpoint reads SIGNAL or SIGNAL@SECONDS, either with /steps appended. If no value is given it is USR1@60.
func (d *Directives) setCheckpoint(value string, given bool) error {
	timing, to, aimed := strings.Cut(value, "/")
	if aimed && to != "steps" {
		return fmt.Errorf(
			"synergy-checkpoint=%.40q: want /steps at its end, for a signal to the tasks of srun, or nothing, for "+
				"one to the batch script",
			value)
	}
	signal, seconds, timed := strings.Cut(timing, "@")
	if !given {
		signal = "USR1"
	}
	if !signals[signal] {
		return fmt.Errorf(
			"synergy-checkpoint=%.40q: want one of USR1, USR2, HUP, INT, TERM, and @ seconds if 60 are not right",
			value)
	}
	grace := DefaultGrace
	if timed {
		n, err := strconv.Atoi(seconds)
		if err != nil || n > int(MaxGrace/time.Second) || !wholeNumber.MatchString(seconds) {
			return fmt.Errorf("synergy-checkpoint=%.40q: want 1 to %d whole seconds after the @", value,
				MaxGrace/time.Second)
		}
		grace = time.Duration(n) * time.Second
	}
	d.Saves, d.Signal, d.Steps, d.Grace = true, signal, aimed, grace
	return nil
}

// parseLength reads a job's expected length, a number and a unit such as 2.5h; it must be above 0 and at most ten
// years.
func parseLength(value string) (time.Duration, error) {
	number := value[:max(0, len(value)-1)]
	unit, known := units[value[len(number):]]
	if known && decimal.MatchString(number) {
		n, err := strconv.ParseFloat(number, 64)
		if length := n * float64(unit); err == nil && length > 0 && length <= float64(maxLength) {
			return time.Duration(math.Round(length)), nil
		}
	}
	return 0, fmt.Errorf("synergy-length=%.40q: want a number and a unit, s, m, h or d, such as 2.5h", value)
}

// setShare reads how the job may share a GPU; Share stays nil if the value is wrong, so that it shares none.
func (d *Directives) setShare(value string) error {
	request, err := share.ParseRequest(value)
	if err == nil {
		d.Share = &request
	}
	return err
}

// checkEnv checks synergy-env, which says whether the job's tasks are told their sizes in the environment. Only the
// nodes use it, so nothing is stored.
func checkEnv(value string) error {
	if value != "on" && value != "off" {
		return fmt.Errorf("synergy-env=%.40q: want on or off, or no such word", value)
	}
	return nil
}

// Claim is what the user's directive says about the request for cores or memory.
type Claim uint8

// The values of synergy-cores and synergy-memory.
const (
	Unsaid Claim = iota // no directive: the site's setting counts
	Keeps               // the request is a lower bound
	Gives               // the profile decides
)

// Or says whether the user's request is a lower bound. Without a directive the site's setting decides.
func (c Claim) Or(site bool) bool {
	if c == Unsaid {
		return site
	}
	return c == Keeps
}

// parseClaim reads the value of synergy-cores or synergy-memory, which name says.
func parseClaim(name, value string) (Claim, error) {
	switch value {
	case "keep":
		return Keeps, nil
	case "give":
		return Gives, nil
	}
	return Unsaid,
		fmt.Errorf(
			"%s=%.40q: want keep, not to run with less than was asked for, or give, to leave that to the profile", name,
			value)
}
