package workload

import "math"

// The logarithms and powers of package math differ in the last bits between machines: some have assembly versions, and
// some fuse a multiplication and an addition into one operation wherever they occur. Here every product that is added
// is either in math.FMA, whose result is the same everywhere, or rounded by a conversion, which forbids the fusion. The
// errors are below one unit in the last place.

// The logarithm of 2 in two parts; the first ends in so many zero bits that small multiples of it are exact.
const (
	ln2High = 0x1.62e42feep-1
	ln2Low  = math.Ln2 - ln2High
)

// The logarithm of 10 in two parts.
const (
	ln10High float64 = math.Ln10
	ln10Low          = math.Ln10 - 0x1.26bb1bbb55516p+1
)

// logarithm has the coefficients of ln((1+s)/(1-s)) - 2s as a series in s², divided by s·s²: the highest power first.
// Here s² < 0.03.
var logarithm = [...]float64{2. / 23, 2. / 21, 2. / 19, 2. / 17, 2. / 15, 2. / 13, 2. / 11, 2. / 9, 2. / 7, 2. / 5,
	2. / 3}

// exponential has the coefficients of exp(r) - 1 - r as a series in r, divided by r²: the highest power first. Here |r|
// < 0.35.
var exponential = [...]float64{1. / 87178291200, 1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800,
	1. / 362880, 1. / 40320,
	1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2}

// ln is the natural logarithm of x, 0 < x < ∞.
func ln(x float64) float64 {
	fraction, exponent := math.Frexp(x)
	if fraction < math.Sqrt2/2 {
		fraction *= 2
		exponent--
	}
	// ln(1+f) = f - (f²/2 - s·(f²/2 + R)), with s = f/(2+f) and R the sum of the series logarithm times s²; so the
	// large term f is exact.
	f, k := fraction-1, float64(exponent)
	s := f / (2 + f)
	s2 := float64(s * s)
	half := float64(0.5 * f * f)
	small := math.FMA(s, math.FMA(s2, horner(logarithm[:], s2), half), float64(k*ln2Low))
	return math.FMA(k, ln2High, f-(half-small))
}

// exp is the natural exponential of x, |x| < 700.
func exp(x float64) float64 { return expOf(x, 0) }

// pow10 is 10 to the power of x, |x| < 300.
func pow10(x float64) float64 {
	product := float64(x * ln10High)
	return expOf(product, math.FMA(x, ln10Low, math.FMA(x, ln10High, -product)))
}

// expOf is the exponential of x + rest, where rest is the part of the exponent that x has lost by rounding. It splits
// off the nearest multiple of ln 2, whose exponential is a power of two and exact, so that the series converges fast on
// the remainder.
func expOf(x, rest float64) float64 {
	k := math.Floor(math.FMA(x, math.Log2E, 0.5))
	high := math.FMA(-k, ln2High, x)
	low := math.FMA(-k, ln2Low, rest)
	r := high + low
	lost := (high - r) + low
	y := 1 + (r + math.FMA(float64(r*r), horner(exponential[:], r), lost))
	return math.Ldexp(y, int(k))
}

// horner evaluates the polynomial in x with these coefficients, the highest power first.
func horner(coefficients []float64, x float64) float64 {
	sum := 0.0
	for _, c := range coefficients {
		sum = math.FMA(sum, x, c)
	}
	return sum
}

// gauss draws from the normal distribution with mean 0 and variance 1, by the polar method of Marsaglia. The second
// number that the method yields is dropped, so that a draw depends on no earlier one.
func (t *twister) gauss() float64 {
	for {
		x, y := t.uniform(-1, 1), t.uniform(-1, 1)
		r2 := float64(x*x) + float64(y*y)
		if r2 > 0 && r2 < 1 {
			return x * math.Sqrt(-2*ln(r2)/r2)
		}
	}
}
