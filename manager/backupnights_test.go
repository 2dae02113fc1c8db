package manager_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

// nights is a store that makes its nightly backups by a clock that is moved.
type nights struct {
	t     *testing.T
	clock *sagetest.Clock
	m     *manager.Manager
	b     *manager.Backups
	down  atomic.Bool // the destination refuses whatever is put there

	mu   sync.Mutex
	told []backup.Notice
}

// brittle is a bucket that may be down.
type brittle struct {
	backup.Bucket
	down *atomic.Bool
}

var errDown = errors.New("the bucket is down")

func (b brittle) Put(ctx context.Context, name string, r io.Reader) error {
	if b.down.Load() {
		return errDown
	}
	return b.Bucket.Put(ctx, name, r)
}

// newNights opens a store with the reference's three keys, at noon, which set may
// change.
func newNights(t *testing.T, set ...func(b *config.Backup)) *nights {
	t.Helper()
	n := &nights{t: t, clock: sagetest.NewClock(start)}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var note backup.Notice
		if err := json.NewDecoder(r.Body).Decode(&note); err != nil {
			t.Error(err)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.told = append(n.told, note)
	}))
	t.Cleanup(hook.Close)
	cfg := &config.Config{DataDir: t.TempDir(), Backup: config.Backup{
		Enabled: true, Interval: "daily", Retention: 7, Zone: "UTC", Jitter: "none",
		Dest: "brittle://", Webhook: config.Secret(hook.URL + "/secret"),
	}}
	for _, change := range set {
		change(&cfg.Backup)
	}
	dest := backup.Dir(t.TempDir())
	n.m = value[*manager.Manager](t)(manager.Open(t.Context(), cfg, all(), manager.WithClock(n.clock),
		manager.WithBuckets(func(context.Context, string) (backup.Bucket, io.Closer, error) {
			return brittle{dest, &n.down}, nil, nil
		})))
	t.Cleanup(func() { closeNow(t, n.m) })
	n.b = value[*manager.Backups](t)(n.m.Backups(t.Context()))
	n.until("the schedule began", func() bool { return !value[backup.State](t)(n.b.State(t.Context())).Since.IsZero() })
	return n
}

func (n *nights) notices() []backup.Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.told)
}

// until waits until something that happens in the background has happened.
func (n *nights) until(what string, ok func() bool) {
	n.t.Helper()
	for tries := 0; !ok(); time.Sleep(time.Millisecond) {
		if tries++; tries > 30_000 {
			n.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// untilAwake is until for what the runner does: the clock may have been moved just
// before the runner began to sleep until a time after that.
func (n *nights) untilAwake(what string, ok func() bool) {
	n.t.Helper()
	tries := 0
	n.until(what, func() bool {
		if tries++; tries%500 == 0 {
			n.clock.Advance(2 * time.Minute / 3)
		}
		return ok()
	})
}

// inTurn does what the runner may be in the way of: after a night that failed it tries again.
func (n *nights) inTurn(do func() error) {
	n.t.Helper()
	n.until("the runner gave its turn back", func() bool {
		err := do()
		if errors.Is(err, tiers.ErrConflict) {
			return false
		}
		must(n.t, err)
		return true
	})
}

// pass goes on until four in the night, waits for the notice of the night, and goes to
// noon.
func (n *nights) pass() backup.Notice {
	n.t.Helper()
	before := len(n.notices())
	n.clock.Advance(16 * time.Hour)
	n.untilAwake("the night was told of", func() bool { return len(n.notices()) > before })
	n.clock.Advance(8 * time.Hour)
	return n.notices()[before]
}

func (n *nights) list() (ids []string) {
	n.t.Helper()
	for e, err := range n.b.Repo().List(n.t.Context()) {
		must(n.t, err)
		if e.Verified.IsZero() || e.Err != nil {
			n.t.Errorf("%s is not verified: %v", e.ID, e.Err)
		}
		ids = append(ids, e.ID)
	}
	return ids
}

func TestOfTenNightsTheSevenNewestBackupsStay(t *testing.T) {
	n := newNights(t)
	var made []string
	for night := range 10 {
		must(t, n.m.Save(t.Context(), "agent.state", "night", night))
		note := n.pass()
		if note.Event != backup.EventSucceeded || note.Try != 1 {
			t.Fatalf("night %d: %+v", night, note)
		}
		made = append(made, note.Backup)
		if want := start.Add(time.Duration(night)*24*time.Hour + 15*time.Hour + 30*time.Minute); !note.Due.Equal(want) {
			t.Errorf("night %d was due at %v, want %v", night, note.Due, want)
		}
	}
	if got := len(n.notices()); got != 10 {
		t.Errorf("%d runs in ten nights", got)
	}
	want := slices.Clone(made[3:])
	slices.Reverse(want)
	if got := n.list(); !slices.Equal(got, want) {
		t.Errorf("left are\n%v, want\n%v", got, want)
	}
	if h := n.m.Health(t.Context()); h.NextBackup.Before(n.clock.Now()) || h.LastBackup.IsZero() {
		t.Errorf("health tells of backups at %v and %v", h.LastBackup, h.NextBackup)
	}
}

// TestARestoreIsRehearsedOnceAWeek: with the first backup, and with the next one once a
// week has passed, however often that one is verified meanwhile.
func TestARestoreIsRehearsedOnceAWeek(t *testing.T) {
	n := newNights(t)
	must(t, n.m.Save(t.Context(), "agent.state", "a", 1))
	var rehearsed []int
	var last string
	for night := range 16 {
		n.pass()
		if e := value[backup.Entry](t)(n.b.Repo().Latest(t.Context())); !e.Rehearsed.IsZero() {
			rehearsed, last = append(rehearsed, night), e.ID
		}
		value[backup.Report](t)(n.b.Repo().Verify(t.Context(), last, false))
	}
	if want := []int{0, 7, 14}; !slices.Equal(rehearsed, want) {
		t.Errorf("rehearsed in nights %v, want %v", rehearsed, want)
	}
}

// TestARestoreIsRehearsedThoughThatOfAnotherStoreWas: of stores that share a place each has
// its own week.
func TestARestoreIsRehearsedThoughThatOfAnotherStoreWas(t *testing.T) {
	n := newNights(t)
	must(t, n.m.Save(t.Context(), "agent.state", "a", 1))
	other := value[*manager.Manager](t)(manager.Open(t.Context(), inDir(t.TempDir()), all(), manager.WithClock(n.clock)))
	defer closeNow(t, other)
	must(t, other.Save(t.Context(), "agent.state", "b", 1))
	theirs := value[backup.Manifest](t)(other.Backup(t.Context(), n.b.Repo()))
	value[backup.Report](t)(n.b.Repo().Verify(t.Context(), theirs.ID, true))
	var rehearsed []bool
	for range 2 {
		e := value[backup.Entry](t)(n.b.Show(t.Context(), n.pass().Backup))
		rehearsed = append(rehearsed, !e.Rehearsed.IsZero())
	}
	if !slices.Equal(rehearsed, []bool{true, false}) {
		t.Errorf("of two nights rehearsed are %v", rehearsed)
	}
}

func TestTheConfigurationSaysWhichBackupsStay(t *testing.T) {
	const nights = 12 // the first on a Sunday at 03:30
	for _, c := range []struct {
		why  string
		set  func(b *config.Backup)
		want []int // nights of which a backup is left
	}{
		{"younger than three days", func(b *config.Backup) { b.Retention = config.Days(3) }, []int{11, 10, 9}},
		{"the newest two, and the last of two weeks", func(b *config.Backup) {
			b.Retention, b.Keep = 0, config.Keep{Last: 2, Weekly: 2}
		}, []int{11, 10, 7}},
		{"the newest one, and the last of four days and of three weeks", func(b *config.Backup) {
			b.Retention, b.Keep = 0, config.Keep{Last: 1, Daily: 4, Weekly: 3}
		}, []int{11, 10, 9, 8, 7, 0}},
		{"the newest one, and the last of two months", func(b *config.Backup) {
			b.Retention, b.Keep = 0, config.Keep{Last: 1, Monthly: 2}
		}, []int{11, 1}},
	} {
		t.Run(c.why, func(t *testing.T) {
			n := newNights(t, c.set)
			must(t, n.m.Save(t.Context(), "agent.state", "a", 1))
			var made []string
			for range nights {
				made = append(made, n.pass().Backup)
			}
			var left []int
			for _, id := range n.list() {
				left = append(left, slices.Index(made, id))
			}
			if !slices.Equal(left, c.want) {
				t.Errorf("of nights %v a backup is left, want %v", left, c.want)
			}
		})
	}
}

func TestFailingNightsRemoveNoGoodBackup(t *testing.T) {
	n := newNights(t)
	must(t, n.m.Save(t.Context(), "agent.state", "a", 1))
	for range 8 {
		n.pass()
	}
	before := n.list()
	n.down.Store(true)
	for night := range 15 {
		if note := n.pass(); note.Event != backup.EventFailed || note.Try != 1 || note.Error == "" {
			t.Fatalf("night %d: %+v", night, note)
		}
	}
	if got := n.list(); len(got) != 7 || !slices.Equal(got, before) {
		t.Errorf("left are\n%v, want\n%v", got, before)
	}
	found := false
	for _, f := range n.m.Diagnose(t.Context()) {
		found = found || !f.OK && f.Subject == "backup: age"
	}
	if !found {
		t.Error("the diagnosis does not say that the newest backup is old")
	}
	n.down.Store(false)
	told := len(n.notices())
	n.clock.Advance(24 * time.Hour)
	n.until("a backup was made again", func() bool {
		all := n.notices()
		return all[len(all)-1].Event == backup.EventSucceeded
	})
	for _, note := range n.notices()[told:] {
		if note.Event == backup.EventFailed {
			t.Errorf("told of a failure while all is well: %+v", note)
		}
	}
	if got := n.list(); len(got) != 7 || !slices.Equal(got[1:], before[:6]) {
		t.Errorf("left are\n%v, want six of\n%v and a new one", got, before)
	}
}

func TestABackupUnderWayEndsWithTheManager(t *testing.T) {
	n := newNights(t)
	must(t, n.m.Save(t.Context(), "agent.state", "a", 1))
	n.clock.Advance(16 * time.Hour) // due by now, and begun or not
	closeNow(t, n.m)
	if got := n.list(); len(got) > 1 {
		t.Errorf("there are %v", got)
	}
}

func TestABlockThatIsNotEnabledMakesNoBackupByItself(t *testing.T) {
	clock := sagetest.NewClock(start)
	cfg := &config.Config{DataDir: t.TempDir(), Backup: config.Backup{Interval: "daily", Retention: 7, Zone: "UTC"}}
	m := value[*manager.Manager](t)(manager.Open(t.Context(), cfg, all(), manager.WithClock(clock)))
	defer closeNow(t, m)
	for range 48 {
		clock.Advance(time.Hour)
	}
	b := value[*manager.Backups](t)(m.Backups(t.Context()))
	s := value[manager.BackupStatus](t)(b.Status(t.Context()))
	if s.Backups != 0 || s.Enabled {
		t.Errorf("status is %+v", s)
	}
	must(t, m.Save(t.Context(), "agent.state", "a", 1))
	value[manager.BackupRun](t)(b.Run(t.Context(), m))
	if s = value[manager.BackupStatus](t)(b.Status(t.Context())); s.Verified != 1 || s.Latest == nil {
		t.Errorf("by hand: status is %+v", s)
	}
}
