package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

func newIdentity(t *testing.T) (recipient, identity string) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id.Recipient().String(), id.String()
}

func TestWhatIsBackedUpIsRestoredEqual(t *testing.T) {
	recipient, identity := newIdentity(t)
	other, _ := newIdentity(t)
	key := []byte("a key of the backups")
	for _, c := range []struct {
		why  string
		make func(o *Options)
		read func(o *Options)
	}{
		{"as it is", func(*Options) {}, func(*Options) {}},
		{"signed", func(o *Options) { o.Key = key }, func(o *Options) { o.Key = key }},
		{"encrypted to two, of which the store holds no private key", func(o *Options) {
			o.Recipients = []string{other, recipient}
		}, func(o *Options) { o.Identities = []string{identity} }},
	} {
		t.Run(c.why, func(t *testing.T) {
			s := newStore(t, t.TempDir())
			b := Dir(filepath.Join(t.TempDir(), "backups"))
			o := options(t)
			c.make(&o)
			m := mustCreate(t, mustRepo(t, b, o), s)
			want := state(t, s.dir)
			s.save(t, "agent.state", "later", `1`)

			o = options(t)
			c.read(&o)
			r := mustRepo(t, b, o)
			for _, rehearse := range []bool{false, true} {
				report, err := r.Verify(t.Context(), m.ID, rehearse)
				if err != nil {
					t.Fatal(err)
				}
				decoded := map[bool]int64{false: 4, true: 43}[rehearse]
				if report.Decoded != decoded || report.Records != 43 || report.Files != 6 || report.Authentic != (o.Key != nil) {
					t.Errorf("rehearse %v: %+v", rehearse, report)
				}
			}
			to := filepath.Join(t.TempDir(), "restored")
			done, err := r.Restore(t.Context(), Latest, RestoreOptions{To: to})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, state(t, to)); d != "" {
				t.Error(d)
			}
			if done.Places["database"] != dbPath(to) || done.Report.Decoded != 4 {
				t.Errorf("restored %+v", done)
			}
			if m.Epoch != "epoch-1" || epochOf(t, to) == m.Epoch {
				t.Errorf("epoch %q became %q, want a new one", m.Epoch, epochOf(t, to))
			}
		})
	}
}

func TestAManifestSaysWhatIsInTheBackup(t *testing.T) {
	s := newStore(t, t.TempDir())
	m := mustCreate(t, mustRepo(t, newBucket(), options(t)), s)
	if d := cmp.Diff(map[string]int64{"agent.state": 20, "session.preferences": 20, "config": 1, "notes": 2}, m.Records()); d != "" {
		t.Error(d)
	}
	db := m.Parts[0]
	if db.Format != tiers.FormatSQLite || db.Version == 0 || db.Schema == 0 || db.Rows["facts"] != 1 || db.Object != "database.sqlite.zst" {
		t.Errorf("the database is %+v", db)
	}
	if db.Plain.Bytes%4096 != 0 || db.Stored.Bytes >= db.Plain.Bytes || m.Bytes() <= db.Plain.Bytes || m.Stored() <= db.Stored.Bytes {
		t.Errorf("sizes are %+v of %d, %d", db, m.Bytes(), m.Stored())
	}
	files := m.Parts[1]
	if files.Format != tiers.FormatTar || files.Version == 0 || files.Schema == 0 || files.Rows["files"] != 6 || files.Object != "file.tar.zst" {
		t.Errorf("the files are %+v", files)
	}
	if m.Number != 1 || m.Created != night || m.Store != "store-1" || m.Encrypted() {
		t.Errorf("it is %+v", m)
	}
}

func TestNothingButTheManifestIsReadable(t *testing.T) {
	recipient, _ := newIdentity(t)
	s := newStore(t, t.TempDir())
	s.save(t, "agent.state", "x", `"`+strings.Repeat("a secret of the app ", 50)+`"`)
	b := newBucket()
	o := options(t)
	o.Recipients = []string{recipient}
	mustCreate(t, mustRepo(t, b, o), s)
	for name, object := range b.objects {
		if strings.Contains(string(object), "secret of the app") || strings.Contains(string(object), "AGE-SECRET-KEY") {
			t.Errorf("%s is readable", name)
		}
	}
}

func TestTheNewestIsToldByNumberWhateverTheClockSays(t *testing.T) {
	s := newStore(t, t.TempDir())
	o := options(t)
	clock := tiertest.NewClock(night)
	o.Clock = clock
	b := newBucket()
	r := mustRepo(t, b, o)
	first := mustCreate(t, r, s)
	clock.Set(night.AddDate(10, 0, 0))
	ahead := mustCreate(t, r, s)
	clock.Set(night.AddDate(0, 0, 1))
	last := mustCreate(t, r, s)
	if e, err := r.Latest(t.Context()); err != nil || e.ID != last.ID {
		t.Errorf("the newest is %s, %v; want %s", e.ID, err, last.ID)
	}
	var ids []string
	for _, e := range entries(t, r) {
		ids = append(ids, e.ID)
	}
	if d := cmp.Diff([]string{last.ID, ahead.ID, first.ID}, ids); d != "" {
		t.Error(d)
	}
	if report, err := r.Verify(t.Context(), ahead.ID, false); err != nil || len(report.Warnings) != 1 {
		t.Errorf("of one from the future: %+v, %v", report, err)
	}
	if e, err := r.At(t.Context(), night.Add(time.Hour)); err != nil || e.ID != first.ID {
		t.Errorf("an hour after the first it is %s, %v", e.ID, err)
	}
	delete(b.objects, last.ID+"/"+verifiedObject)
	if e, err := r.At(t.Context(), night.AddDate(0, 0, 2)); err != nil || e.ID != first.ID {
		t.Errorf("two days later, when one that is not verified is newer, it is %s, %v", e.ID, err)
	}
	if _, err := r.At(t.Context(), night.Add(-time.Hour)); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("before the first: %v", err)
	}
}

func TestThatABackupWasRehearsedIsKeptWhenItIsVerified(t *testing.T) {
	clock := tiertest.NewClock(night)
	o := options(t)
	o.Clock = clock
	b := newBucket()
	r := mustRepo(t, b, o)
	m := mustCreate(t, r, newStore(t, t.TempDir()))
	latest := func() Entry {
		e, err := r.Latest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	verify := func(rehearse bool) {
		clock.Advance(24 * time.Hour)
		if _, err := r.Verify(t.Context(), m.ID, rehearse); err != nil {
			t.Fatal(err)
		}
	}
	for day, c := range []struct {
		rehearse bool
		want     int // the day of the rehearsal, 0 if there was none
	}{{false, 0}, {true, 2}, {false, 2}, {false, 2}, {true, 5}, {false, 5}} {
		verify(c.rehearse)
		e := latest()
		if e.Verified.IsZero() || !e.Verified.Equal(night.AddDate(0, 0, day+1)) {
			t.Errorf("on day %d it is verified at %v", day+1, e.Verified)
		}
		var want time.Time
		if c.want > 0 {
			want = night.AddDate(0, 0, c.want)
		}
		if !e.Rehearsed.Equal(want) {
			t.Errorf("on day %d it is rehearsed at %v, want %v", day+1, e.Rehearsed, want)
		}
	}
	if err := r.found(t.Context(), m.ID, tiers.ErrCorrupt); err != nil {
		t.Fatal(err)
	}
	verify(false)
	if e := latest(); !e.Rehearsed.IsZero() {
		t.Errorf("once found damaged it is still rehearsed at %v", e.Rehearsed)
	}
}

func TestOnlyWhoeverMayReadsTheDirectory(t *testing.T) {
	s := newStore(t, t.TempDir())
	dir := filepath.Join(t.TempDir(), "a", "backups")
	mustCreate(t, mustRepo(t, Dir(dir), options(t)), s)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := e.Info()
		if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[e.IsDir()]; err == nil && st.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, st.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPruneKeepsWhatThePolicyWantsAndDryRunChangesNothing(t *testing.T) {
	s := newStore(t, t.TempDir())
	o := options(t)
	clock := tiertest.NewClock(night)
	o.Clock = clock
	r := mustRepo(t, Dir(t.TempDir()), o)
	for range 4 {
		mustCreate(t, r, s)
		clock.Advance(24 * time.Hour)
	}
	for _, dry := range []bool{true, false} {
		ds, err := r.Prune(t.Context(), Policy{Last: 2, Zone: time.UTC}, dry)
		if err != nil || len(ds) != 4 || !ds[0].Keep || !ds[1].Keep || ds[2].Keep || ds[3].Keep {
			t.Fatalf("dry run %v: %+v, %v", dry, ds, err)
		}
		if n := len(entries(t, r)); n != map[bool]int{true: 4, false: 2}[dry] {
			t.Errorf("dry run %v leaves %d", dry, n)
		}
	}
}

func TestASourceThatMakesNoBackupIsRefused(t *testing.T) {
	s := newStore(t, t.TempDir())
	r := mustRepo(t, newBucket(), options(t))
	for _, c := range []struct {
		why  string
		harm func(*Source)
	}{
		{"nothing to back up is no backup", func(s *Source) { s.Parts = nil }},
		{"two parts of one name", func(s *Source) { s.Parts[1].Name = "database" }},
		{"a part that would leave the directory", func(s *Source) { s.Parts[1].Path = "../data" }},
		{"a part inside of another", func(s *Source) { s.Parts[1].Path = "sage.db/x" }},
		{"a name that is no name", func(s *Source) { s.Parts[0].Name = "Data base" }},
	} {
		source := s.source(t)
		whole := source
		source.Parts = append([]Part{}, source.Parts...)
		c.harm(&source)
		if _, _, err := r.Create(t.Context(), source); err == nil || errors.Is(err, tiers.ErrCorrupt) {
			t.Errorf("%s: %v", c.why, err)
		}
		_ = whole.close()
	}
	if _, err := Open(nil, Options{}); err == nil {
		t.Error("no bucket")
	}
	for _, o := range []Options{{Key: []byte("short")}, {Recipients: []string{"age1nonsense"}}, {Identities: []string{"AGE-SECRET-KEY-1NONSENSE"}}} {
		_, err := Open(newBucket(), o)
		if !errors.Is(err, ErrKey) || strings.Contains(err.Error(), "NONSENSE") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestADirectoryRefusesNamesThatLeaveIt(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	b := Dir(dir)
	for _, name := range []string{"../x", "/x", "a/../../x", "", ".hidden", "a//b", "a\\b", "link/x", "link"} {
		if err := b.Put(t.Context(), name, strings.NewReader("x")); err == nil && name != "link" {
			t.Errorf("Put %q passed", name)
		}
		if _, err := b.Get(t.Context(), name); err == nil && name != "link" {
			t.Errorf("Get %q passed", name)
		}
	}
}
