package database

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

// TestALockThatSomebodyHasForAMomentIsWaitedFor: a process that one of ours starts has our
// locks until it has become the other program.
func TestALockThatSomebodyHasForAMomentIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		why  string
		take func(t *testing.T, path string) (func() error, error)
	}{
		{"by who puts another file in its place", func(t *testing.T, path string) (func() error, error) {
			t.Helper()
			return Copies().Seize(t.Context(), path)
		}},
		{"by who has it open and wants it alone", func(t *testing.T, path string) (func() error, error) {
			t.Helper()
			tier, err := Open(t.Context(), Config{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tier.Close(context.Background()) })
			return tier.Exclude(t.Context())
		}},
	} {
		t.Run(c.why, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sage.db")
			other, err := openLock(path + ".lock")
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := other.try(false); err != nil || !ok {
				t.Fatal(ok, err)
			}
			left := make(chan error)
			go func() {
				time.Sleep(50 * time.Millisecond) // a while, however long
				left <- other.close()
			}()
			release, err := c.take(t, path)
			if err != nil {
				t.Error(err)
			} else if err := release(); err != nil {
				t.Error(err)
			}
			if err := <-left; err != nil {
				t.Error(err)
			}
		})
	}
}
