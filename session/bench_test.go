package session_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/session"
)

// BenchmarkAppend appends with so many callers, to one session and to one each, on
// a database that syncs each commit.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 64} {
		for _, apart := range []bool{false, true} {
			b.Run(fmt.Sprintf("callers=%d/apart=%v", callers, apart), func(b *testing.B) {
				cfg := config.Default()
				cfg.DataDir = b.TempDir()
				s := session.New(sagetest.OpenWith(b, cfg, drivers()))
				for n := range callers {
					must(b, s.Start(b.Context(), session.State{SessionID: fmt.Sprint(n)}))
				}
				var next atomic.Int64
				var work sync.WaitGroup
				b.ResetTimer()
				for n := range callers {
					id := "0"
					if apart {
						id = fmt.Sprint(n)
					}
					work.Go(func() {
						for next.Add(1) <= int64(b.N) {
							if _, err := s.Append(b.Context(), id, event(b, id, "t", session.UserPrompt{Prompt: "hello"})); err != nil {
								b.Error(err)
							}
						}
					})
				}
				work.Wait()
			})
		}
	}
}

// BenchmarkAppendToLongLog appends to a log that has so many events.
func BenchmarkAppendToLongLog(b *testing.B) {
	for _, length := range []int{100, 10_000} {
		b.Run(fmt.Sprint(length), func(b *testing.B) {
			cfg := config.Default()
			cfg.DataDir = b.TempDir()
			s := session.New(sagetest.OpenWith(b, cfg, drivers()))
			must(b, s.Start(b.Context(), session.State{SessionID: "s"}))
			for n := 0; n < length; n += 500 {
				var es []session.Event
				for range min(500, length) {
					es = append(es, event(b, "s", "t", session.UserPrompt{Prompt: "hello"}))
				}
				value[uint64](b)(s.Append(b.Context(), "s", es...))
			}
			for b.Loop() {
				value[uint64](b)(s.Append(b.Context(), "s", event(b, "s", "t", session.UserPrompt{Prompt: "hello"})))
			}
		})
	}
}
