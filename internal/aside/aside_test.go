package aside_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/internal/aside"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDoAnswersWhatItRan(t *testing.T) {
	want := errors.New("no")
	if err := aside.Do(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("an error becomes %v", err)
	}
	if err := aside.Do(func() error { return nil }); err != nil {
		t.Errorf("no error becomes %v", err)
	}
}

func TestAPanicIsOneOfTheCaller(t *testing.T) {
	defer func() {
		if p := recover(); p != "broken" {
			t.Errorf("the caller recovers %v", p)
		}
	}()
	_ = aside.Do(func() error { panic("broken") })
	t.Error("a panic became an answer")
}

func TestWhoEndsItsGoroutineEndsTheCallers(t *testing.T) {
	answered := make(chan bool, 1)
	go func() {
		defer func() {
			select {
			case answered <- false:
			default:
			}
		}()
		_ = aside.Do(func() error { runtime.Goexit(); return nil })
		answered <- true
	}()
	if <-answered {
		t.Error("a goroutine that ended became an answer")
	}
}

// TestWhatIsWrittenAsideIsTheSame: whatever the sizes of the writes, and though their
// buffers are used again at once.
func TestWhatIsWrittenAsideIsTheSame(t *testing.T) {
	const chunk = aside.Chunk
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, chunk - 1, chunk, chunk + 1, 5*chunk + 17} {
		for _, step := range []int{1 << 10, chunk, 3 * chunk} {
			all := make([]byte, size)
			for i := range all {
				all[i] = byte(random.Uint32())
			}
			var got bytes.Buffer
			w := aside.NewWriter(&got)
			buf := make([]byte, step)
			for rest := bytes.NewReader(all); rest.Len() > 0; {
				n, _ := rest.Read(buf) // never fails
				if m, err := w.Write(buf[:n]); err != nil || m != n {
					t.Fatalf("%d of %d, %v", m, n, err)
				}
				clear(buf)
			}
			for range 2 {
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(got.Bytes(), all) {
				t.Errorf("%d bytes in steps of %d are not what was written", size, step)
			}
		}
	}
}

// full takes so many bytes.
type full struct {
	left int
	err  error
}

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, f.err
	}
	return len(p), nil
}

func TestAnErrorIsAnsweredOnce(t *testing.T) {
	want := errors.New("full")
	for _, tc := range []struct {
		why        string
		room       int
		size       int
		writeFails bool
	}{
		{"of the last bytes Close tells", 0, 10, false},
		{"of bytes before the last ones Write does", aside.Chunk, 10 * aside.Chunk, true},
		{"where all fits nobody does", 10 * aside.Chunk, 10 * aside.Chunk, false},
	} {
		t.Run(tc.why, func(t *testing.T) {
			w := aside.NewWriter(&full{left: tc.room, err: want})
			n, err := w.Write(make([]byte, tc.size))
			if tc.writeFails != errors.Is(err, want) || (err != nil) != (n < tc.size) {
				t.Errorf("writing answers %d, %v", n, err)
			}
			closed := w.Close()
			if (closed != nil) != (!tc.writeFails && tc.room < tc.size) {
				t.Errorf("closing answers %v", closed)
			}
		})
	}
}
