package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

// flips is how many bits are flipped, one at a time.
func flips(t *testing.T) int {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("SAGESTORE_FLIPS")); err == nil {
		return n
	}
	if os.Getenv("CI") == "true" {
		return 120
	}
	return 60
}

func TestEveryFlippedBitIsFoundAndNothingOfItIsRestored(t *testing.T) {
	t.Parallel()
	recipient, identity := newIdentity(t)
	for _, c := range []struct {
		why string
		set func(o *Options)
	}{
		{"as it is", func(*Options) {}},
		{"encrypted and signed", func(o *Options) {
			o.Recipients, o.Identities, o.Key = []string{recipient}, []string{identity}, []byte("a key of the backups")
		}},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			whole := newBucket()
			o := options(t)
			c.set(&o)
			m := mustCreate(t, mustRepo(t, whole, o), newStore(t, t.TempDir()))
			names := slices.Sorted(maps.Keys(whole.objects))
			random := rand.New(rand.NewPCG(1, 2))
			for i := range flips(t) {
				name := names[i%len(names)]
				bit := random.IntN(8 * len(whole.objects[name]))
				harmed := whole.clone()
				harmed.objects[name] = bytes.Clone(whole.objects[name])
				harmed.objects[name][bit/8] ^= 1 << (bit % 8)
				r := mustRepo(t, harmed, o)
				object := strings.TrimPrefix(name, m.ID+"/")
				if object == verifiedObject { // which is a note about the backup, and nothing of it
					if report, err := r.Verify(t.Context(), m.ID, false); err != nil || !strings.Contains(strings.Join(report.Warnings, "\n"), object) {
						t.Fatalf("bit %d of %s: %q, %v", bit, name, report.Warnings, err)
					}
					continue
				}
				to := filepath.Join(t.TempDir(), "to")
				if _, err := r.Restore(t.Context(), m.ID, RestoreOptions{To: to}); err == nil {
					t.Fatalf("bit %d of %s: it was restored", bit, name)
				}
				if _, err := os.Lstat(to); err == nil {
					t.Fatalf("bit %d of %s: something was restored", bit, name)
				}
				_, err := r.Verify(t.Context(), m.ID, false)
				if !unusable(err) {
					t.Fatalf("bit %d of %s: %v", bit, name, err)
				}
				partName, _, _ := strings.Cut(object, ".")
				if !strings.Contains(err.Error(), object) && !strings.Contains(err.Error(), "part "+partName) {
					t.Fatalf("bit %d of %s: the error does not name it: %v", bit, name, err)
				}
				if e, err := r.Latest(t.Context()); err == nil {
					t.Fatalf("bit %d of %s: it still counts: %+v", bit, name, e)
				}
			}
			left, err := os.ReadDir(o.Temp)
			if err != nil || len(left) > 0 {
				t.Errorf("in the temporary place are %v, %v", left, err)
			}
		})
	}
}

// TestAListTellsOfPartsThatWereCut: without reading them; and a backup that was cut is
// not the newest good one.
func TestAListTellsOfPartsThatWereCut(t *testing.T) {
	dir := t.TempDir()
	b := Dir(dir)
	r := mustRepo(t, b, options(t))
	s := newStore(t, t.TempDir())
	first, m := mustCreate(t, r, s), mustCreate(t, r, s)
	path := filepath.Join(dir, m.ID, m.Parts[0].Object)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why, says string
		harm      func() error
	}{
		{"it was cut", "has 10 bytes, not", func() error { return os.Truncate(path, 10) }},
		{"something follows", "bytes, not", func() error { return os.WriteFile(path, append(bytes.Clone(whole), 0), 0o600) }},
		{"it is missing", "is missing", func() error { return os.Remove(path) }},
	} {
		if err := c.harm(); err != nil {
			t.Fatal(err)
		}
		all := entries(t, r)
		if e := all[0]; !errors.Is(e.Err, tiers.ErrCorrupt) || !strings.Contains(e.Err.Error(), "part database") || !strings.Contains(e.Err.Error(), c.says) ||
			e.Manifest.Number != m.Number || !e.Verified.IsZero() || all[1].Err != nil {
			t.Errorf("%s: listed is %+v", c.why, e)
		}
		if e, err := r.Latest(t.Context()); err != nil || e.ID != first.ID {
			t.Errorf("%s: the latest is %s, %v", c.why, e.ID, err)
		}
		if k, err := r.Kept(t.Context()); err != nil || !k[0].Verified.IsZero() {
			t.Errorf("%s: it counts: %+v, %v", c.why, k, err)
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := r.Latest(t.Context()); err != nil || e.ID != m.ID {
		t.Errorf("whole again: the latest is %s, %v", e.ID, err)
	}
}

func TestDamageThatWasFoundIsToldUntilItIsGone(t *testing.T) {
	for _, c := range []struct {
		by   string
		find func(ctx context.Context, r *Repo, id, dir string) error
	}{
		{"a verification", func(ctx context.Context, r *Repo, id, _ string) error {
			_, err := r.Verify(ctx, id, false)
			return err
		}},
		{"a restore beside", func(ctx context.Context, r *Repo, id, dir string) error {
			_, err := r.Restore(ctx, id, RestoreOptions{To: filepath.Join(dir, "to")})
			return err
		}},
		{"a restore in place", func(ctx context.Context, r *Repo, id, dir string) error {
			_, err := r.Restore(ctx, id, inPlace(dir))
			return err
		}},
		{"a look into it", func(ctx context.Context, r *Repo, id, _ string) error {
			_, err := r.OpenCopy(ctx, id, "database")
			return err
		}},
	} {
		t.Run(c.by, func(t *testing.T) {
			b := newBucket()
			r := mustRepo(t, b, options(t))
			m := mustCreate(t, r, newStore(t, t.TempDir()))
			object := m.ID + "/" + m.Parts[0].Object
			whole := b.objects[object]
			spoiled := bytes.Clone(whole)
			spoiled[len(spoiled)/2] ^= 1 // its size stays
			b.objects[object] = spoiled
			if err := c.find(t.Context(), r, m.ID, t.TempDir()); !errors.Is(err, tiers.ErrCorrupt) || !strings.Contains(err.Error(), bytesHint) {
				t.Fatalf("got %v", err)
			}
			if e, err := r.Show(t.Context(), m.ID); err != nil || !strings.Contains(e.Damaged, m.Parts[0].Name) || !e.Verified.IsZero() {
				t.Errorf("%q, verified %v, %v", e.Damaged, e.Verified, err)
			}
			if _, err := r.Latest(t.Context()); !errors.Is(err, tiers.ErrNotFound) {
				t.Errorf("a damaged one is the latest: %v", err)
			}
			b.objects[object] = whole
			if _, err := r.Verify(t.Context(), m.ID, false); err != nil {
				t.Fatal(err)
			}
			if e, err := r.Latest(t.Context()); err != nil || e.Damaged != "" || e.ID != m.ID {
				t.Errorf("whole again: %q, %v", e.Damaged, err)
			}
		})
	}
}

func TestAMarkThatIsDamagedIsMadeAnew(t *testing.T) {
	key := []byte("a key of the backups")
	for _, c := range []struct {
		why    string
		key    []byte
		change func(text []byte) []byte
	}{
		{"it is longer", nil, func(text []byte) []byte { return append(text, ' ') }},
		{"it is empty", nil, func([]byte) []byte { return nil }},
		{"a bit of its time is another", nil, func(text []byte) []byte { return bytes.Replace(text, []byte("2026"), []byte("2027"), 1) }},
		{"a newer version wrote it", nil, func(text []byte) []byte { return bytes.Replace(text, []byte(`"format": 1`), []byte(`"format": 2`), 1) }},
		{"its signature is another", key, func(text []byte) []byte {
			at := bytes.Index(text, []byte(`"hmac": "`)) + len(`"hmac": "`)
			text[at] = "01"[1&(text[at]+1)]
			return text
		}},
	} {
		t.Run(c.why, func(t *testing.T) {
			b := newBucket()
			o := options(t)
			o.Key = c.key
			r := mustRepo(t, b, o)
			m := mustCreate(t, r, newStore(t, t.TempDir()))
			name := m.ID + "/" + verifiedObject
			b.objects[name] = c.change(bytes.Clone(b.objects[name]))
			if e, err := r.Show(t.Context(), m.ID); err != nil || e.Err != nil || e.Note == nil || !e.Verified.IsZero() {
				t.Errorf("the list says %+v, %v", e, err)
			}
			if _, err := r.Latest(t.Context()); !errors.Is(err, tiers.ErrNotFound) || !strings.Contains(err.Error(), "backup verify "+m.ID) {
				t.Errorf("before it is verified: %v", err)
			}
			report, err := r.Verify(t.Context(), m.ID, false)
			if err != nil || !strings.Contains(strings.Join(report.Warnings, "\n"), verifiedObject) {
				t.Fatalf("%q, %v", report.Warnings, err)
			}
			if e, err := r.Latest(t.Context()); err != nil || e.ID != m.ID || e.Note != nil {
				t.Errorf("afterwards: %+v, %v", e, err)
			}
			if report, err := r.Verify(t.Context(), m.ID, false); err != nil || len(report.Warnings) > 0 {
				t.Errorf("again: %q, %v", report.Warnings, err)
			}
		})
	}
}

func TestABackupThatIsNotAsItWasMadeIsRefused(t *testing.T) {
	recipient, identity := newIdentity(t)
	_, stranger := newIdentity(t)
	key := []byte("a key of the backups")
	sealed := func(o *Options) {
		o.Recipients, o.Identities, o.Key = []string{recipient}, []string{identity}, key
	}
	for _, c := range []struct {
		why    string
		made   func(o *Options)
		harm   func(t *testing.T, b *bucket, m Manifest)
		read   func(o *Options)
		want   error
		says   string
		counts bool // it still counts as verified
	}{
		{why: "a part is missing", want: tiers.ErrCorrupt, says: "part file", harm: func(_ *testing.T, b *bucket, m Manifest) {
			delete(b.objects, m.ID+"/file.tar.zst")
		}},
		{why: "a part is cut short", want: tiers.ErrCorrupt, says: "part database", harm: func(_ *testing.T, b *bucket, m Manifest) {
			name := m.ID + "/database.sqlite.zst"
			b.objects[name] = b.objects[name][:len(b.objects[name])/2]
		}},
		{why: "a part is empty", want: tiers.ErrCorrupt, says: "part database", harm: func(_ *testing.T, b *bucket, m Manifest) {
			b.objects[m.ID+"/database.sqlite.zst"] = nil
		}},
		{why: "something follows a part", want: tiers.ErrCorrupt, says: "part database", harm: func(_ *testing.T, b *bucket, m Manifest) {
			name := m.ID + "/database.sqlite.zst"
			b.objects[name] = append(bytes.Clone(b.objects[name]), 0)
		}},
		{why: "a part is that of another backup", want: tiers.ErrCorrupt, says: "part database", harm: func(t *testing.T, b *bucket, m Manifest) {
			t.Helper()
			s := newStore(t, t.TempDir())
			s.save(t, "agent.state", "other", `1`)
			other := mustCreate(t, mustRepo(t, b, options(t)), s)
			b.objects[m.ID+"/database.sqlite.zst"] = b.objects[other.ID+"/database.sqlite.zst"]
			for name := range b.objects {
				if strings.HasPrefix(name, other.ID) {
					delete(b.objects, name)
				}
			}
		}},
		{why: "there is an object more", want: tiers.ErrCorrupt, says: "extra", harm: func(_ *testing.T, b *bucket, m Manifest) {
			b.objects[m.ID+"/extra"] = []byte("x")
		}},
		{why: "a newer version wrote it", want: tiers.ErrUnsupported, says: "format 2", harm: func(_ *testing.T, b *bucket, m Manifest) {
			name := m.ID + "/" + manifestObject
			b.objects[name] = bytes.Replace(b.objects[name], []byte(`"format": 1,`), []byte(`"format": 2, "new": true,`), 1)
		}},
		{why: "the manifest is rewritten with its sum, under a key", made: sealed, read: sealed, want: ErrKey, harm: func(t *testing.T, b *bucket, m Manifest) {
			t.Helper()
			m.Store = "another"
			all, err := m.seal(nil)
			if err != nil {
				t.Fatal(err)
			}
			b.objects[m.ID+"/"+manifestObject] = all
		}},
		{why: "it is signed by another key", made: sealed, want: ErrKey, counts: true, read: func(o *Options) {
			sealed(o)
			o.Key = []byte("another key of theirs")
		}},
		{why: "the identity is missing", made: sealed, want: ErrKey, says: "there is no identity", counts: true, read: func(o *Options) { o.Key = key }},
		{why: "the identity is another one", made: sealed, want: ErrKey, says: "none of the identities", counts: true, read: func(o *Options) {
			o.Key, o.Identities = key, []string{stranger}
		}},
		{why: "nothing here decodes its records", want: tiers.ErrUnsupported, counts: true, read: func(o *Options) { o.Decode = nil }},
		{why: "nothing here reads its database", want: tiers.ErrUnsupported, counts: true, read: func(o *Options) { o.Copies = nil }},
		{why: "a record can't be decoded", want: tiers.ErrCodec, says: "agent.state", counts: true, read: func(o *Options) {
			o.Decode = func(_ context.Context, r tiers.Record) error {
				if r.Category == "agent.state" {
					return tiers.ErrCodec
				}
				return nil
			}
		}},
	} {
		t.Run(c.why, func(t *testing.T) {
			b := newBucket()
			o := options(t)
			if c.made != nil {
				c.made(&o)
			}
			m := mustCreate(t, mustRepo(t, b, o), newStore(t, t.TempDir()))
			if c.harm != nil {
				c.harm(t, b, m)
			}
			o = options(t)
			if c.read != nil {
				c.read(&o)
			}
			r := mustRepo(t, b, o)
			to := filepath.Join(t.TempDir(), "to")
			_, restoreErr := r.Restore(t.Context(), m.ID, RestoreOptions{To: to})
			if _, err := os.Lstat(to); restoreErr == nil || err == nil {
				t.Errorf("it was restored: %v, %v", restoreErr, err)
			}
			for _, rehearse := range []bool{true, false} {
				if _, err := r.Verify(t.Context(), m.ID, rehearse); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want %v and %q", err, c.want, c.says)
				}
			}
			e, err := r.Show(t.Context(), m.ID)
			if told := e.Damaged != "" || e.Err != nil; err != nil || !told && errors.Is(c.want, tiers.ErrCorrupt) && !c.counts {
				t.Errorf("the list says %q, %v of it, %v", e.Damaged, e.Err, err)
			}
			_, marked := b.objects[m.ID+"/"+verifiedObject]
			if want := c.counts || !errors.Is(c.want, tiers.ErrCorrupt); marked != want {
				t.Errorf("it is marked as verified: %v, want %v", marked, want)
			}
		})
	}
}

// reseal writes a manifest that its owner never made, with a correct sum.
func reseal(t *testing.T, b *bucket, m Manifest, change func(m *Manifest)) {
	t.Helper()
	m.Parts = slices.Clone(m.Parts)
	change(&m)
	all, err := m.seal(nil)
	if err != nil {
		t.Fatal(err)
	}
	b.objects[m.ID+"/"+manifestObject] = all
	delete(b.objects, m.ID+"/"+verifiedObject)
}

func TestAHostileManifestIsRefused(t *testing.T) {
	whole := newBucket()
	m := mustCreate(t, mustRepo(t, whole, options(t)), newStore(t, t.TempDir()))
	for _, c := range []struct {
		why    string
		change func(m *Manifest)
	}{
		{"a part that goes above the directory", func(m *Manifest) { m.Parts[0].Path = "../sage.db" }},
		{"a part that goes to a path of its own", func(m *Manifest) { m.Parts[0].Path = "/tmp/sage.db" }},
		{"a part inside of another", func(m *Manifest) { m.Parts[0].Path = "data/config/sage.db" }},
		{"two parts in one place where capital letters don't count", func(m *Manifest) { m.Parts[0].Path = "DATA" }},
		{"an object of another backup", func(m *Manifest) { m.Parts[0].Object = "../x/database.sqlite.zst" }},
		{"the manifest as a part", func(m *Manifest) { m.Parts[0].Object = manifestObject }},
		{"no parts: verified with nothing to check is not verified", func(m *Manifest) { m.Parts = nil }},
		{"fewer bytes than there are", func(m *Manifest) { m.Parts[0].Plain.Bytes -= 4096 }},
		{"more bytes than there are", func(m *Manifest) { m.Parts[0].Plain.Bytes += 4096 }},
		{"a size that nothing packs so well", func(m *Manifest) { m.Parts[0].Plain.Bytes = 10 << 40 }},
		{"a size below zero", func(m *Manifest) { m.Parts[1].Plain.Bytes = -1 }},
		{"an encoding that is none", func(m *Manifest) { m.Parts[0].Encoding = []string{"rot13"} }},
		{"no encoding", func(m *Manifest) { m.Parts[0].Encoding = nil }},
		{"another count of records", func(m *Manifest) {
			m.Parts[0].Records = slices.Clone(m.Parts[0].Records)
			m.Parts[0].Records[0].Records++
		}},
		{"a category less", func(m *Manifest) { m.Parts[0].Records = m.Parts[0].Records[1:] }},
		{"another sequence", func(m *Manifest) { m.Parts[0].Sequence++ }},
		{"fewer files", func(m *Manifest) { m.Parts[1].Rows = map[string]int64{"files": 1, "bytes": 1000} }},
		{"smaller files", func(m *Manifest) { m.Parts[1].Rows = map[string]int64{"files": 3, "bytes": 1} }},
		{"the id of another", func(m *Manifest) { m.ID = "20260101T000000Z-00000000" }},
	} {
		t.Run(c.why, func(t *testing.T) {
			b := whole.clone()
			id := m.ID
			reseal(t, b, m, func(m *Manifest) { c.change(m) })
			if _, ok := b.objects["20260101T000000Z-00000000/"+manifestObject]; ok {
				b.objects[id+"/"+manifestObject] = b.objects["20260101T000000Z-00000000/"+manifestObject]
				delete(b.objects, "20260101T000000Z-00000000/"+manifestObject)
			}
			r := mustRepo(t, b, options(t))
			// What says that it needs more room than there is gets none.
			if _, err := r.Verify(t.Context(), id, false); !unusable(err) && !errors.Is(err, tiers.ErrFull) {
				t.Errorf("it verifies: %v", err)
			}
			parent := t.TempDir()
			if _, err := r.Restore(t.Context(), id, RestoreOptions{To: filepath.Join(parent, "to")}); err == nil {
				t.Error("it was restored")
			}
			left, err := os.ReadDir(parent)
			if err != nil || len(left) > 1 || len(left) == 1 && left[0].Name() != lockName {
				t.Errorf("left are %v, %v", left, err)
			}
		})
	}
}

// TestAPartThatUnpacksToMoreThanItSaysIsRefused: after as many bytes as it says.
func TestAPartThatUnpacksToMoreThanItSaysIsRefused(t *testing.T) {
	const claimed = 1 << 20
	for i, name := range []string{"database", "file"} {
		b := newBucket()
		o := options(t)
		m := mustCreate(t, mustRepo(t, b, o), newStore(t, t.TempDir()))
		var packed bytes.Buffer
		_, stored, err := encode(&packed, nil, nil, func(w io.Writer) error {
			zeros := make([]byte, 1<<20)
			for range 128 {
				if _, err := w.Write(zeros); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || packed.Len() > 128<<10 {
			t.Fatalf("128 MiB are packed into %d bytes, %v", packed.Len(), err)
		}
		b.objects[m.ID+"/"+m.Parts[i].Object] = packed.Bytes()
		reseal(t, b, m, func(m *Manifest) {
			m.Parts[i].Stored = stored
			m.Parts[i].Plain = Digest{Bytes: claimed, SHA256: sumOf(make([]byte, claimed))}
			if rows := m.Parts[i].Rows; m.Parts[i].isTree() {
				rows = maps.Clone(rows)
				rows["bytes"] = 1 << 40
				m.Parts[i].Rows = rows
			}
		})
		var most int64
		r := mustRepo(t, b, o).Telling(func(p Progress) {
			if p.Part == name {
				most = max(most, p.Done)
			}
		})
		for _, rehearse := range []bool{false, true} {
			if _, err := r.Verify(t.Context(), m.ID, rehearse); !errors.Is(err, tiers.ErrCorrupt) || !strings.Contains(err.Error(), "part "+name) {
				t.Errorf("%s: verified with %v", name, err)
			}
		}
		to := filepath.Join(t.TempDir(), "to")
		if _, err := r.Restore(t.Context(), m.ID, RestoreOptions{To: to}); !errors.Is(err, tiers.ErrCorrupt) {
			t.Errorf("%s: restored with %v", name, err)
		}
		if _, err := os.Lstat(to); err == nil || most > claimed {
			t.Errorf("%s: %v, %d bytes were unpacked", name, err, most)
		}
	}
}

func FuzzManifest(f *testing.F) {
	m := Manifest{Format: formatNow, ID: "20261128T033000Z-00000001", Created: night, Parts: []PartInfo{{
		Name: "database", Format: "sqlite", Path: "sage.db", Object: "database.sqlite.zst", Encoding: []string{"zstd"},
		Plain: Digest{SHA256: sumOf(nil)}, Stored: Digest{SHA256: sumOf(nil)}, Records: []RecordCount{}, Rows: map[string]int64{},
	}}}
	for _, key := range [][]byte{nil, []byte("a key of the backups")} {
		b, err := m.seal(key)
		if err != nil {
			f.Fatal(err)
		}
		if _, authentic, err := parseManifest(b, m.ID, key); err != nil || authentic != (key != nil) {
			f.Fatal(authentic, err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, _, err := parseManifest(b, m.ID, nil)
		if err != nil {
			if !unusable(err) {
				t.Fatalf("an error without a reason: %v", err)
			}
			return
		}
		if !json.Valid(b) || len(got.Parts) == 0 {
			t.Fatalf("%s passed", b)
		}
		if again, err := canonical(&got); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%s is not what is written of it", b)
		}
	})
}

// A backup that was published and has lost its manifest is told and kept: neither is it
// under way, nor was it abandoned.
func TestABackupWithoutItsManifestIsToldAndKept(t *testing.T) {
	b, o := newBucket(), options(t)
	clock := tiertest.NewClock(night)
	o.Clock = clock
	r := mustRepo(t, b, o)
	lost := mustCreate(t, r, newStore(t, t.TempDir()))
	delete(b.objects, lost.ID+"/"+manifestObject)
	clock.Advance(30 * 24 * time.Hour)
	next := mustCreate(t, r, newStore(t, t.TempDir()))
	told := false
	for e, err := range r.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.ID == lost.ID {
			told = true
			if !errors.Is(e.Err, tiers.ErrCorrupt) || !strings.Contains(e.Err.Error(), "manifest.json") {
				t.Errorf("it is listed with %v", e.Err)
			}
		}
	}
	if _, there := b.objects[lost.ID+"/database.sqlite.zst"]; !told || !there {
		t.Errorf("listed %v, there %v", told, there)
	}
	if e, err := r.Latest(t.Context()); err != nil || e.ID != next.ID {
		t.Errorf("the latest is %s, %v", e.ID, err)
	}
	if _, err := r.Verify(t.Context(), lost.ID, false); !errors.Is(err, tiers.ErrCorrupt) && !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("verify answers %v", err)
	}
}
