package file_test

import (
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// A value and its dot-file are two files, and a reader holds no lock.
func TestAReaderNeverSeesAValueWithTheExpiryOfAnother(t *testing.T) {
	dir := t.TempDir()
	writer, reader := open(t, dir), open(t, dir)
	records := []tiers.Record{plain("k", `"for an hour"`), plain("k", `"for ever"`), plain("k", `"for ever, 2"`)}
	records[0].TTL = time.Hour
	save(t, writer, records[0])
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				r, err := reader.Load(t.Context(), key("k"))
				if err != nil {
					t.Errorf("load: %v", err)
					return
				}
				if lasts := string(r.Value) == `"for an hour"`; lasts == r.Expires.IsZero() {
					t.Errorf("%s expires at %v", r.Value, r.Expires)
					return
				}
			}
		})
	}
	for i := range 120 {
		save(t, writer, records[i%len(records)])
	}
	close(done)
	wg.Wait()
}
