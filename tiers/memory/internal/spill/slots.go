package spill

import "math/bits"

// slots hands out runs of equal slots of the file, the lowest that fits first,
// so that the end of the file falls free and can be cut off.
type slots struct {
	taken []uint64 // a bit for each slot
	used  int
	end   int // one beyond the highest slot in use
}

// take answers the first slot of n free ones in a row.
func (s *slots) take(n int) int {
	first := s.gap(n)
	for i := first; i < first+n; i++ {
		for i/64 >= len(s.taken) {
			s.taken = append(s.taken, 0)
		}
		s.taken[i/64] |= 1 << (i % 64)
	}
	s.used += n
	s.end = max(s.end, first+n)
	return first
}

// gap finds the lowest run of n free slots, which may begin at the end.
func (s *slots) gap(n int) int {
	run := 0
	for i := 0; i < s.end; i++ {
		if i%64 == 0 && s.taken[i/64] == ^uint64(0) {
			run, i = 0, i+63
			continue
		}
		if s.taken[i/64]&(1<<(i%64)) != 0 {
			run = 0
			continue
		}
		if run++; run == n {
			return i - n + 1
		}
	}
	return s.end - run
}

func (s *slots) free(first, n int) {
	for i := first; i < first+n; i++ {
		s.taken[i/64] &^= 1 << (i % 64)
	}
	s.used -= n
	if first+n < s.end {
		return
	}
	for w := min((s.end-1)/64, len(s.taken)-1); w >= 0; w-- {
		if s.taken[w] != 0 {
			s.end = w*64 + bits.Len64(s.taken[w])
			return
		}
	}
	s.end = 0
}
