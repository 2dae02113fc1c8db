package filetree

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// still is a clock that stands.
type still struct {
	tiers.Clock
	at time.Time
}

func (s still) Now() time.Time { return s.at }

func newMark(t *testing.T, dir string, at int64, boot string) *mark {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	m := &mark{root: root, clock: still{at: time.UnixMicro(at)}, boot: boot, synced: func(err error) error { return err }}
	t.Cleanup(func() {
		must(t, m.close())
		must(t, root.Close())
	})
	return m
}

func next(t *testing.T, m *mark, after tiers.Version) tiers.Version {
	t.Helper()
	v, err := m.next(t.Context(), after)
	must(t, err)
	return v
}

func TestVersionsGrowAcrossProcessesRunsAndClocks(t *testing.T) {
	const now = 1_700_000_000_000_000
	dir := t.TempDir()
	a, b := newMark(t, dir, now, "run-1"), newMark(t, dir, now-3600_000_000, "run-1")
	last := tiers.Version(0)
	for i := range 100 {
		for _, m := range []*mark{a, b} {
			v := next(t, m, 0)
			if v <= last {
				t.Fatalf("step %d: %d after %d", i, v, last)
			}
			last = v
		}
	}
	if last > now+200 {
		t.Errorf("%d is further ahead of the clock than there were saves", last)
	}
	if v := next(t, newMark(t, dir, now, "run-2"), 0); v <= now+markStep-1 {
		t.Errorf("after a restart of the machine: %d, want beyond what was reserved", v)
	}
	if v := next(t, newMark(t, dir, now+60_000_000, "run-3"), 0); v != now+60_000_000 {
		t.Errorf("with the clock beyond the mark: %d, want the clock", v)
	}
}

func TestAFileWithAWrongTimeDoesNotCarryTheTreeAlong(t *testing.T) {
	const now, wrong = 1_700_000_000_000_000, 4_000_000_000_000_000
	m := newMark(t, t.TempDir(), now, "run")
	if v := next(t, m, wrong); v != wrong+1 {
		t.Errorf("over that file: %d, want %d", v, tiers.Version(wrong+1))
	}
	must(t, m.raiseFound(t.Context(), wrong+1))
	if v := next(t, m, 0); v > now+10 {
		t.Errorf("for another key: %d, want the clock", v)
	}
}

func TestADamagedMarkIsAStepAhead(t *testing.T) {
	const now = 1_700_000_000_000_000
	for _, text := range []string{"x", string(make([]byte, 64)), "SGM1"} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, markFile), []byte(text), 0o600))
		if v := next(t, newMark(t, dir, now, "run"), 0); v <= now+markStep {
			t.Errorf("%q: %d, want more than a step ahead", text, v)
		}
	}
}

func TestAFlippedBitInTheMarkDoesNotCarryTheTreeAlong(t *testing.T) {
	const now = 1_700_000_000_000_000
	for bit := range 128 {
		dir := t.TempDir()
		first := newMark(t, dir, now, "run")
		before := next(t, first, 0)
		path := filepath.Join(dir, markFile)
		b, err := os.ReadFile(path)
		must(t, err)
		b[issuedAt+bit/8] ^= 1 << (bit % 8)
		for _, boot := range []string{"run", "run-2"} {
			must(t, os.WriteFile(path, b, 0o600))
			v := next(t, newMark(t, dir, now, boot), 0)
			if v > maxVersion || v <= before && bit < 64 && b[issuedAt+bit/8]&(1<<(bit%8)) != 0 {
				t.Errorf("bit %d, %s: %d after %d", bit, boot, v, before)
			}
		}
	}
}

func TestAMarkThatIsCutOffWhileItIsOpenIsMadeAgain(t *testing.T) {
	const now = 1_700_000_000_000_000
	dir := t.TempDir()
	m := newMark(t, dir, now, "run")
	before := next(t, m, 0)
	must(t, os.Truncate(filepath.Join(dir, markFile), 0))
	if v := next(t, m, 0); v <= before {
		t.Errorf("%d after %d", v, before)
	}
	must(t, os.Remove(filepath.Join(dir, markFile)))
	if v := next(t, newMark(t, dir, now, "run"), 0); v < now {
		t.Errorf("%d, want the clock", v)
	}
}

func TestConcurrentCallersNeverShareAVersion(t *testing.T) {
	const now = 1_700_000_000_000_000
	dir := t.TempDir()
	var mu sync.Mutex
	seen := map[tiers.Version]bool{}
	var wg sync.WaitGroup
	for range 4 {
		m := newMark(t, dir, now, "run")
		for range 4 {
			wg.Go(func() {
				for range 50 {
					v, err := m.next(t.Context(), 0)
					mu.Lock()
					if err != nil || seen[v] {
						t.Errorf("%d twice, %v", v, err)
					}
					seen[v] = true
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
}
