package backup

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestAHashThatIsComputedBesideIsTheSame: whatever the sizes of the writes, and though
// their buffers are used again at once.
func TestAHashThatIsComputedBesideIsTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, hashChunk - 1, hashChunk, hashChunk + 1, 5*hashChunk + 17} {
		for _, step := range []int{1 << 10, hashChunk, 3 * hashChunk} {
			all := make([]byte, size)
			for i := range all {
				all[i] = byte(random.Uint32())
			}
			m := newMeter(nil)
			buf := make([]byte, step)
			for rest := bytes.NewReader(all); rest.Len() > 0; {
				n, _ := rest.Read(buf) // never fails
				if _, err := m.Write(buf[:n]); err != nil {
					t.Fatal(err)
				}
				clear(buf)
			}
			want := Digest{Bytes: int64(size), SHA256: sumOf(all)}
			for range 2 {
				if got := m.digest(); got != want {
					t.Errorf("%d bytes in steps of %d: %v, want %v", size, step, got, want)
				}
			}
		}
	}
}
