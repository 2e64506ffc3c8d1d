package workload

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// near says that two numbers differ by no more than rounding, twice.
func near(a, b float64) bool { return a == b || math.Abs(a-b) <= 5e-16*math.Abs(b) }

func TestLogarithmsAndPowersAreThoseOfMathematics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(1e-300, 1).Draw(t, "x")
		y := rapid.Float64Range(-300, 300).Draw(t, "y")
		switch {
		case !near(ln(x), math.Log(x)):
			t.Fatalf("ln %g = %g, want %g", x, ln(x), math.Log(x))
		case !near(ln(1-x/2), math.Log(1-x/2)):
			t.Fatalf("ln %g = %g, want %g", 1-x/2, ln(1-x/2), math.Log(1-x/2))
		case !near(exp(y), math.Exp(y)):
			t.Fatalf("exp %g = %g, want %g", y, exp(y), math.Exp(y))
		case !near(pow10(x*4), math.Pow(10, x*4)) && math.Abs(pow10(x*4)/math.Pow(10, x*4)-1) > 1e-15:
			t.Fatalf("10^%g = %g, want %g", x*4, pow10(x*4), math.Pow(10, x*4))
		}
	})
}

// The bits were computed with sixty decimals and rounded once; those of package math may be other ones on another
// machine.
func TestLogarithmsAndPowersHaveTheSameBitsEverywhere(t *testing.T) {
	for _, c := range []struct {
		name string
		got  float64
		want string
	}{
		{"ln 0.1", ln(0.1), "-0x1.26bb1bbb55515p+01"},
		{"ln 0.3605732015421163", ln(0.3605732015421163), "-0x1.0522abc5cb2bap+00"},
		{"10^2.4591401976868257", pow10(2.4591401976868257), "0x1.1fd52eb2c6fa5p+08"},
		{"10^3.7", pow10(3.7), "0x1.393df516e1278p+12"},
		{"exp -1", exp(-1), "0x1.78b56362cef38p-02"},
		{"exp 20.5", exp(20.5), "0x1.7d6c4f0bcdd5cp+29"},
	} {
		if got := fmt.Sprintf("%x", c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Those that programs draw, many of them; the sum was taken where all of them were less than one unit in the last place
// off.
func TestManyLogarithmsAndPowersHaveTheSameBitsEverywhere(t *testing.T) {
	const many = 20000
	sum := md5.New()
	for i := range many {
		u := (float64(i) + 0.5) / many
		for _, x := range []float64{ln(u), exp(float64(20*u) - 10), pow10(1.5 + float64(2.5*u))} {
			binary.Write(sum, binary.LittleEndian, x)
		}
	}
	if got, want := hex.EncodeToString(sum.Sum(nil)), "0bbd052998740059c3d4eae6513874e7"; got != want {
		t.Errorf("MD5 %s, want %s", got, want)
	}
}

func TestNormalNumbersHaveTheMomentsOfTheirDistribution(t *testing.T) {
	const many = 100000
	g, moments := seeded(3), [5]float64{}
	for range many {
		x, power := g.gauss(), 1.0
		for k := range moments {
			moments[k] += power / many
			power *= x
		}
	}
	for k, want := range []float64{1, 0, 1, 0, 3} {
		if !(math.Abs(moments[k]-want) <= 0.05) {
			t.Errorf("the mean of the power %d is %g, want about %g", k, moments[k], want)
		}
	}
}
