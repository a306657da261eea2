package horizontalpodautoscaler

import (
	"math"
	"math/big"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Amounts are in thousandths of the unit of their metric. What does not fit saturates at
// ±math.MaxInt64: an overflow would turn a high load into a low one, or into none.

// milli returns a quantity as an amount, rounded up.
func milli(q resource.Quantity) int64 {
	switch {
	case q.Cmp(*resource.NewMilliQuantity(math.MaxInt64, resource.DecimalSI)) > 0:
		return math.MaxInt64
	case q.Cmp(*resource.NewMilliQuantity(-math.MaxInt64, resource.DecimalSI)) < 0:
		return -math.MaxInt64
	}
	return q.MilliValue()
}

// plus adds two amounts.
func plus(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < -math.MaxInt64-b:
		return -math.MaxInt64
	}
	return a + b
}

// fraction returns total·times/of, truncated.
func fraction(total *big.Int, times int64, of *big.Int) int64 {
	n := new(big.Int).Mul(total, big.NewInt(times))
	switch n.Quo(n, of); {
	case n.IsInt64():
		return max(n.Int64(), -math.MaxInt64)
	case n.Sign() < 0:
		return -math.MaxInt64
	}
	return math.MaxInt64
}
