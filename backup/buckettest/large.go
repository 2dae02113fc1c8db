package buckettest

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"runtime"
	"testing"

	"github.com/sagestore/sagestore/backup"
)

// sampled is after how many bytes the memory is looked at.
const sampled = 8 << 20

func largeObject(t *testing.T, c Config, b backup.Bucket) {
	t.Helper()
	m := &meter{least: heap()}
	put, got := sha256.New(), sha256.New()
	if err := b.Put(t.Context(), "large/object", io.TeeReader(io.LimitReader(zeros{}, c.Large), m.also(put))); err != nil {
		t.Fatal(err)
	}
	r, err := b.Get(t.Context(), "large/object")
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(m.also(got), r)
	if err := errors.Join(err, r.Close()); err != nil || n != c.Large {
		t.Fatalf("got %d bytes of %d, %v", n, c.Large, err)
	}
	if [32]byte(put.Sum(nil)) != [32]byte(got.Sum(nil)) {
		t.Error("what was got is not what was put")
	}
	if c.Memory > 0 && m.most > m.least+c.Memory {
		t.Errorf("%d MiB were kept, of an object of %d MiB", (m.most-m.least)>>20, c.Large>>20)
	}
}

// meter notes the most memory that is in use while bytes go by.
type meter struct {
	least, most uint64
}

func (m *meter) also(h hash.Hash) io.Writer { return &metered{m: m, h: h} }

type metered struct {
	m    *meter
	h    hash.Hash
	seen int
}

func (w *metered) Write(p []byte) (int, error) {
	if w.seen += len(p); w.seen >= sampled {
		w.seen = 0
		w.m.most = max(w.m.most, heap())
	}
	return w.h.Write(p)
}

// heap answers how many bytes are reachable.
func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
