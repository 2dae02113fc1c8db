package session_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// TestLateCallEndsNoSessionThatGoesOn holds up a call that has read its note, until
// another process has done what that says, or decided anew, and the session goes on.
func TestLateCallEndsNoSessionThatGoesOn(t *testing.T) {
	t.Parallel()
	ending := func(ctx context.Context, s *session.Store) error { return s.End(ctx, "s") }
	deletion := func(ctx context.Context, s *session.Store) error { _, err := s.Delete(ctx, "s"); return err }
	for _, c := range []struct {
		why, note string
		call      func(ctx context.Context, s *session.Store) error
		anew      any // what the note says then; nil: there is none
	}{
		{"it was ended and resumed", "%ending/s", ending, nil},
		{"it is being resumed", "%ending/s", ending, map[string]any{"session": "s"}},
		{"it was deleted and begun", "%gone/s", deletion, nil},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			ctx, cfg := t.Context(), routeTo("database").Config(t, t.TempDir())
			var once sync.Once
			read := make(chan struct{})
			late, err := manager.Open(ctx, cfg, sagetest.Failing(drivers(), func(op string, k tiers.Key) error {
				if op == "load" && k.Name == c.note {
					once.Do(func() { close(read) })
				}
				return nil
			}))
			must(t, err)
			defer func() { must(t, late.Close(context.WithoutCancel(ctx))) }()
			other := open(t, cfg)
			defer func() { must(t, other.Close(context.WithoutCancel(ctx))) }()
			s := session.New(late)
			begin(t, s, "s")
			over := make(chan error, 1)
			must(t, other.ReopenSession(ctx, "turn", manager.OnlyIf(func(ctx context.Context) (bool, error) {
				go func() { over <- c.call(ctx, s) }()
				<-read
				for there := false; !there; { // it comes with the commit
					select {
					case err := <-over:
						return false, errors.Join(err, errors.New("it was not held up"))
					default:
					}
					var err error
					if there, err = other.Exists(ctx, "session.state", c.note); err != nil {
						return false, err
					}
				}
				var err error
				if c.anew == nil {
					_, err = other.Delete(ctx, "session.state", c.note)
				} else {
					err = other.Save(ctx, "session.state", c.note, c.anew)
				}
				return false, errors.Join(err, other.Save(ctx, "session.context", "s/more", 1))
			})))
			must(t, <-over)
			var n int
			must(t, late.Load(ctx, "session.context", "s/more", &n))
			must(t, late.Save(ctx, "session.context", "s/more", 2))
		})
	}
}
