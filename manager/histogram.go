package manager

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// histogram holds durations in buckets a quarter of an octave wide, so that a
// quantile is at most a fifth too high. Adding is one atomic increment.
type histogram struct{ buckets [bucketCount]atomic.Uint64 }

const bucketCount = 64 * 4

func (h *histogram) add(d time.Duration) { h.buckets[bucketOf(max(d, 0))].Add(1) }

func bucketOf(d time.Duration) int {
	n := uint64(d) //nolint:gosec // never negative, see add
	if n < 4 {
		return int(n)
	}
	top := bits.Len64(n) - 1
	return (top-1)*4 + int(n>>(top-2)&3)
}

// bucketTop is the largest duration that falls into the bucket.
func bucketTop(i int) time.Duration {
	if i < 4 {
		return time.Duration(i)
	}
	top, quarter := i/4+1, uint64(i%4)
	return time.Duration((4+quarter+1)<<(top-2) - 1) //nolint:gosec // below 1<<63 for every bucket in use
}

// snapshot adds the counts to sum.
func (h *histogram) snapshot(sum *[bucketCount]uint64) {
	for i := range h.buckets {
		sum[i] += h.buckets[i].Load()
	}
}

// quantile answers the duration that the share q of the counts does not exceed.
func quantile(counts *[bucketCount]uint64, q float64) time.Duration {
	var total uint64
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank := uint64(q*float64(total-1)) + 1
	for i, n := range counts {
		if rank <= n {
			return bucketTop(i)
		}
		rank -= n
	}
	return 0
}
