package manager

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestEveryDurationFallsIntoABucketThatHoldsIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, 1<<62).Draw(t, "d"))
		i := bucketOf(d)
		if i < 0 || i >= bucketCount || bucketTop(i) < d || i > 0 && bucketTop(i-1) >= d {
			t.Fatalf("%d is in bucket %d, up to %d", d, i, bucketTop(i))
		}
	})
}

func TestQuantilesAreAtMostAFifthTooHigh(t *testing.T) {
	t.Parallel()
	var h histogram
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Microsecond)
	}
	var counts [bucketCount]uint64
	h.snapshot(&counts)
	for _, c := range []struct {
		q    float64
		want time.Duration
	}{{0, time.Microsecond}, {0.5, 500 * time.Microsecond}, {0.99, 990 * time.Microsecond}, {1, time.Millisecond}} {
		if got := quantile(&counts, c.q); got < c.want || float64(got) > 1.25*float64(c.want) {
			t.Errorf("quantile %v = %v, want about %v", c.q, got, c.want)
		}
	}
	if got := quantile(new([bucketCount]uint64), 0.5); got != 0 {
		t.Errorf("a quantile of nothing = %v", got)
	}
}
