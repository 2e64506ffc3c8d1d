package bound_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
)

// starving is two hungry jobs on a node of four GPUs, of which some cannot give back, and nobody else.
func starving(t testing.TB, saves bool, stranded float64, limit time.Duration) (policy.Cluster, bound.Certificate) {
	c := clusterOf(of(1, 4, 12, 250))
	for id := 1; id <= 2; id++ {
		c.Jobs = append(c.Jobs, policy.Job{ID: id, GPUs: 1, Profile: profile(t, "res18"), Arrival: epoch, Saves: saves,
			TimeLimit: limit})
	}
	c.Now = epoch
	c.Rules = policy.Rules{Stranded: stranded}
	plan := policy.Decide(c, policy.FIFO(), policy.Tune())
	if err := policy.Check(c, plan); err != nil {
		t.Fatal(err)
	}
	return c, bound.Certify(&c, plan)
}

// TestACertificateSaysWhatIsKeptFromJobsThatCannotGiveBack: with nine cores each is 2.4 times as fast as with three;
// six are idle beside two jobs.
func TestACertificateSaysWhatIsKeptFromJobsThatCannotGiveBack(t *testing.T) {
	_, cert := starving(t, false, 0.001, 0)
	if l := cert.Lending; l.Jobs != 1 || math.Abs(l.Kept-1.4) > 1e-9 || l.Lent != 0 {
		t.Errorf("%+v, want one job that would be 2.4 times as fast", l)
	}
	if s := cert.String(); !strings.Contains(s, "what idles beside 1 job that cannot give back would be worth ") {
		t.Error(s)
	}
	if got, want := cert.LendingCost(), 1.4/cert.Bound; math.Abs(got-want) > 1e-9 {
		t.Errorf("it costs %g of the bound, want %g", got, want)
	}
	for name, give := range map[string]func() bound.Certificate{
		"they declared a checkpoint":            func() bound.Certificate { _, c := starving(t, true, 0.001, 0); return c },
		"they end before anybody can miss it":   func() bound.Certificate { _, c := starving(t, false, 0.001, time.Second); return c },
		"all that is idle may be lent for good": func() bound.Certificate { _, c := starving(t, false, 1, 0); return c },
	} {
		if cert := give(); cert.Lending.Kept > 0 || cert.Value < 3.4-1e-9 {
			t.Errorf("%s: %s", name, cert.String())
		}
	}
	if _, cert := starving(t, false, 1, 0); cert.Lending.Lent != 2 ||
		!strings.Contains(cert.String(), "; 2 GPUs free without their share, which is lent for good") {
		t.Errorf("%+v: %s", cert.Lending, cert.String())
	}
}

func TestTheOrderOfASnapshotsJobsMakesNoDifferenceToWhatIsKept(t *testing.T) {
	c, cert := starving(t, false, 0.001, 0)
	slices.Reverse(c.Jobs)
	if again := bound.Certify(&c, policy.Decide(c, policy.FIFO(), policy.Tune())); again.Lending != cert.Lending {
		t.Errorf("%+v, want %+v", again.Lending, cert.Lending)
	}
}

// What is said to be kept could be given: the value and it together are within the bound of jobs that may be sized
// anew.
func TestWhatIsKeptBackIsNoMoreThanCouldBeHad(t *testing.T) {
	models := profiles(t, "res18", "gnmt", "alexnet", "transformer")
	rapid.Check(t, func(t *rapid.T) {
		c := clusterOf(of(2, 4, 12, 250))
		for id := 1; id <= rapid.IntRange(1, 8).Draw(t, "jobs"); id++ {
			c.Jobs = append(c.Jobs, policy.Job{ID: id, GPUs: 1, Profile: rapid.SampledFrom(models).Draw(t, "model"),
				Arrival: epoch,
				Saves:   rapid.Bool().Draw(t, "saves")})
		}
		c.Rules.Stranded = rapid.SampledFrom([]float64{0.001, 0.1, 1}).Draw(t, "stranded")
		cert := bound.Certify(&c, policy.Decide(c, policy.FIFO(), policy.Tune()))
		if l := cert.Lending; l.Kept < 0 || cert.Value+l.Kept > cert.Bound*(1+1e-9) || (l.Kept > 0) != (l.Jobs > 0) {
			t.Fatalf("%+v: %s", l, cert.String())
		}
	})
}
