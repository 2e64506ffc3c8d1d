package slurmrest

import (
	"errors"
	"testing"
	"time"
)

func TestAListingIsReadWhereItIsCheaperThanSingleReadsByWhatBothTookHere(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		read, listed   time.Duration // of a job
		doubtful, jobs int
		pays           bool
	}{
		"nothing was measured, a quarter is doubtful":  {0, 0, 250, 1000, false},
		"nothing was measured, most are doubtful":      {0, 0, 600, 1000, true},
		"a few are doubtful of a few":                  {0, 0, 16, 17, false},
		"single reads are dear, a quarter is doubtful": {20 * ms, ms, 250, 1000, true},
		"a listing is dear, nearly all are doubtful":   {ms, 8 * ms, 900, 1000, false},
		"both are slow, most are doubtful":             {20 * ms, 10 * ms, 600, 1000, true},
		"both are slow, a quarter is doubtful":         {20 * ms, 10 * ms, 250, 1000, false},
	} {
		costs := newCosts()
		for range 8 {
			if c.read > 0 {
				costs.read = averaged(costs.read, c.read)
			}
			if c.listed > 0 {
				costs.listed(1000, 1000*c.listed)
			}
		}
		if costs.listingPays(c.doubtful, c.jobs) != c.pays {
			t.Errorf("%s: pays is %t (%+v)", name, !c.pays, costs)
		}
	}
}

func TestWhatSingleReadsTakeIsMeasuredWhereTheyAreManyAndSucceed(t *testing.T) {
	costs := newCosts()
	slow := func() error { time.Sleep(40 * time.Millisecond); return nil }
	if err := costs.ofReads(smallBatch, slow); err != nil || costs != newCosts() {
		t.Errorf("%v: %+v", err, costs)
	}
	fails := errors.New("no")
	if err := costs.ofReads(4, func() error { return fails }); !errors.Is(err, fails) || costs != newCosts() {
		t.Errorf("%v: %+v", err, costs)
	}
	if err := costs.ofReads(20, slow); err != nil || costs.read < newCosts().read/2+time.Millisecond {
		t.Errorf("%v: %+v", err, costs)
	}
}
