package report

import (
	"fmt"
	"math"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// check returns an error for rounds and spans that no simulation can produce and no plot can show. Package outcome
// checks the values that statistics need; such a fault is shown in the report.
func check(run outcome.Run) error {
	if err := checkSetting(run.Setting); err != nil {
		return err
	}
	for i, round := range run.Rounds {
		if err := checkRound(round); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		if i > 0 && round.At < run.Rounds[i-1].At {
			return fmt.Errorf("round %d: at %v s, and the one before at %v s: want rounds in order", i, round.At,
				run.Rounds[i-1].At)
		}
	}
	for i, span := range run.Spans {
		if err := checkSpan(span); err != nil {
			return fmt.Errorf("span %d: job %d: %w", i, span.Job, err)
		}
	}
	return nil
}

// checkSetting returns an error for numbers of a setting that no axis or text can show.
func checkSetting(s outcome.Setting) error {
	for _, value := range []struct {
		name string
		is   float64
	}{{"load", s.Load}, {"round", s.RoundSeconds}, {"restart", s.RestartSeconds}, {"until", s.Until}} {
		if !isAmount(value.is) {
			return fmt.Errorf("%s = %v: want a number from 0", value.name, value.is)
		}
	}
	return nil
}

// checkRound returns an error for numbers of a round that no plot can show.
func checkRound(r outcome.Round) error {
	for _, value := range []struct {
		name string
		is   float64
	}{{"at", r.At}, {"GPUs", r.GPUs}, {"cores", r.CPUs}, {"memory", r.Memory}, {"demand", r.Demand}} {
		if !isAmount(value.is) {
			return fmt.Errorf("%s = %v: want a number from 0", value.name, value.is)
		}
	}
	return nil
}

// mostIndex bounds the index of a server or GPU, since the picture has a row for every index below it.
const mostIndex = 1 << 20

// checkSpan returns an error for a span with impossible times, or with a server or GPU for which the picture would be
// too large.
func checkSpan(s outcome.Span) error {
	if !isAmount(s.From) || !isAmount(s.To) || s.To < s.From {
		return fmt.Errorf("from %v to %v s: want moments from 0, in order", s.From, s.To)
	}
	if s.Server < 0 || s.Server > mostIndex || s.GPUs < 0 || s.GPUs > mostIndex {
		return fmt.Errorf("%d GPUs of server %d: want numbers from 0 to %d", s.GPUs, s.Server, mostIndex)
	}
	for _, device := range s.Devices {
		if device < 0 || device > mostIndex {
			return fmt.Errorf("GPU %d: want one from 0 to %d", device, mostIndex)
		}
	}
	return nil
}

// isAmount says whether x is a number from 0 that fits an int64.
func isAmount(x float64) bool { return x >= 0 && x <= math.MaxInt64 }
