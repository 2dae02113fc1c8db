package filetree

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sagestore/sagestore/tiers"
)

// TestAFileThatChangesAsItIsCopiedIsThatOfTheInstant has so many files that some change
// for the first time just between the looks at them.
func TestAFileThatChangesAsItIsCopiedIsThatOfTheInstant(t *testing.T) {
	base := t.TempDir()
	tree := openTree(t, base, func(c *Config) { c.Durable = false })
	d := dirOf(t, tree)
	const files = 200
	for i := range files {
		must(t, os.WriteFile(filepath.Join(base, fmt.Sprint("k-", i)), []byte("00000"), 0o600))
	}
	var turn sync.Mutex // stands for the locks of the keys
	var round atomic.Int64
	var over atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer over.Store(true)
	wg.Go(func() {
		for !over.Load() {
			turn.Lock()
			st, err := d.Stage(fmt.Appendf(nil, "%05d", round.Load()), tiers.SystemClock().Now())
			if err == nil {
				err = d.Replace(st, fmt.Sprint("k-", rand.IntN(files)))
				st.Discard()
			}
			turn.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for n := range int64(40) {
		turn.Lock()
		frozen, err := tree.freeze(t.Context(), nil)
		round.Store(n + 1)
		turn.Unlock()
		must(t, err)
		for i := range files {
			o, err := frozen.open(fmt.Sprint("k-", i))
			must(t, err)
			b, err := io.ReadAll(o.file)
			must(t, errors.Join(err, o.file.Close()))
			if string(b) > fmt.Sprintf("%05d", n) {
				t.Fatalf("in round %d it is copied as it was saved in round %s", n, b)
			}
		}
		must(t, frozen.Close())
	}
}
