package database

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

func mustSnapshot(t *testing.T, tier *Tier) tiers.Snapshot {
	t.Helper()
	s, err := tier.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// inFileAndMemory runs a test on the two kinds of database.
func inFileAndMemory(t *testing.T, test func(t *testing.T, path string)) {
	t.Helper()
	t.Run("file", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "sage.db")) })
	t.Run("memory", func(t *testing.T) { test(t, Memory) })
}

func TestASnapshotWaitsForAPlace(t *testing.T) {
	inFileAndMemory(t, func(t *testing.T, path string) {
		t.Helper()
		tier := mustOpen(t, Config{Path: path})
		if _, err := tier.Save(t.Context(), plainJSON("k", `1`), tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
		var open []tiers.Snapshot
		for range maxSnapshots {
			open = append(open, mustSnapshot(t, tier))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := tier.Snapshot(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one too many: %v, want the end of its context", err)
		}
		// Nobody else waits for them.
		for i := range 2 * readers {
			if _, err := tier.Save(t.Context(), plainJSON("k", fmt.Sprint(i)), tiers.Cond{}); err != nil {
				t.Fatal(err)
			}
			if r, err := tier.Load(t.Context(), key("k")); err != nil || string(r.Value) != fmt.Sprint(i) {
				t.Fatalf("loaded %s, %v", r.Value, err)
			}
		}
		time.AfterFunc(time.Millisecond, func() { _ = open[0].Close() })
		late := mustSnapshot(t, tier)
		if r, err := late.Load(t.Context(), key("k")); err != nil || string(r.Value) != fmt.Sprint(2*readers-1) {
			t.Errorf("the one that waited shows %s, %v; want what there was when it had its place", r.Value, err)
		}
		if r, err := open[1].Load(t.Context(), key("k")); err != nil || string(r.Value) != `1` {
			t.Errorf("an older one shows %s, %v", r.Value, err)
		}
	})
}

func TestClosingEndsSnapshotsAndThoseWhoWaitForOne(t *testing.T) {
	inFileAndMemory(t, func(t *testing.T, path string) {
		t.Helper()
		tier := mustOpen(t, Config{Path: path})
		var open []tiers.Snapshot
		for range maxSnapshots {
			open = append(open, mustSnapshot(t, tier))
		}
		waited := make(chan error, 1)
		go func() {
			_, err := tier.Snapshot(context.Background())
			waited <- err
		}()
		if err := tier.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-waited; !errors.Is(err, tiers.ErrClosed) {
			t.Errorf("who waited got %v, want %v", err, tiers.ErrClosed)
		}
		for _, s := range open {
			if _, err := s.Load(t.Context(), key("k")); !errors.Is(err, tiers.ErrClosed) {
				t.Errorf("load: %v, want %v", err, tiers.ErrClosed)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestASnapshotGivesItsConnectionBackWhenItsContextEnds(t *testing.T) {
	inFileAndMemory(t, func(t *testing.T, path string) {
		t.Helper()
		tier := mustOpen(t, Config{Path: path})
		for range 5 * maxSnapshots {
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := tier.Snapshot(ctx); err != nil {
				t.Fatal(err)
			}
			cancel() // and nobody closes it
		}
		_ = mustSnapshot(t, tier).Close()
	})
}

// TestAListOfASnapshotMayBeLeftAndClosedWithin: the connection is not held while a
// record is yielded.
func TestAListOfASnapshotMayBeLeftAndClosedWithin(t *testing.T) {
	tier := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "sage.db")})
	var rs []tiers.Record
	for i := range 3 * pageRows {
		rs = append(rs, plainJSON(fmt.Sprintf("%05d", i), `1`))
	}
	if _, err := tier.SaveMany(t.Context(), rs, nil); err != nil {
		t.Fatal(err)
	}
	s := mustSnapshot(t, tier)
	n, last := 0, error(nil)
	for _, err := range s.List(t.Context(), tiers.Query{Category: "session.preferences"}) {
		if err != nil {
			last = err
			break
		}
		if n++; n == 10 {
			if _, err := s.Load(t.Context(), key("00001")); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if n != pageRows || !errors.Is(last, tiers.ErrClosed) {
		t.Errorf("%d records and then %v, want a page of them and %v", n, last, tiers.ErrClosed)
	}
}

func TestALargeLoadFromASnapshotIsOfItsInstant(t *testing.T) {
	tier := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "sage.db"), Synchronous: Normal})
	var rs []tiers.Record
	var ks []tiers.Key
	for i := range 3 * splitKeys {
		rs = append(rs, plainJSON(fmt.Sprintf("%05d", i), `1`))
		ks = append(ks, rs[i].Key)
	}
	saved, err := tier.SaveMany(t.Context(), rs, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := mustSnapshot(t, tier)
	if _, err := tier.SaveMany(t.Context(), rs, nil); err != nil {
		t.Fatal(err)
	}
	got, err := s.LoadMany(t.Context(), ks)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i].Version != saved[i].Version {
			t.Fatalf("%s has version %d, want %d", ks[i].Name, got[i].Version, saved[i].Version)
		}
	}
}

// While a snapshot is open nothing that came after it can leave the log.
func TestTheLogOfALongSnapshotIsToldAndBeginsAnewAfterIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sage.db")
	tier := mustOpen(t, Config{Path: path, Synchronous: Normal})
	saves := 0
	save := func() (log int64) {
		value := bytes.Repeat([]byte{byte(saves)}, 1_000_000) // of one that stays as it was little would be written
		saves++
		if _, err := tier.Save(t.Context(), tiers.Record{Key: key(fmt.Sprint("k", saves%10)), Codec: "raw", Value: value}, tiers.Cond{}); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return st.Size()
	}
	told := func() bool {
		for _, f := range tier.Diagnose(t.Context()) {
			if f.Subject == "write-ahead log" {
				return !f.OK
			}
		}
		t.Fatal("the diagnosis does not look at the log")
		return false
	}
	save()
	if told() {
		t.Error("a short log is found fault with")
	}
	s := mustSnapshot(t, tier)
	if _, err := s.Load(t.Context(), key("k1")); err != nil {
		t.Fatal(err)
	}
	for save() <= 4*logLimit && saves < 1000 {
		continue
	}
	if !told() {
		t.Error("nobody is told that a reader keeps the log")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for tries := 0; save() > logLimit; tries++ {
		if tries == 1000 {
			t.Fatal("the log does not begin anew")
		}
	}
}
