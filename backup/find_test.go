package backup

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

// said answers an error's text and the hint that knows best.
func said(err error) (text, hint string) {
	text = err.Error()
	for e, ok := errors.AsType[*tiers.Error](err); ok; e, ok = errors.AsType[*tiers.Error](e.Err) {
		if e.Hint != "" {
			hint = e.Hint
		}
	}
	return text, hint
}

func TestThatNoBackupCountsIsSaidWithItsCauseAndItsCure(t *testing.T) {
	s := newStore(t, t.TempDir())
	clock := tiertest.NewClock(night)
	const key = "the key of the store"
	with := func(b Bucket, key string, old ...string) *Repo {
		o := options(t)
		o.Clock, o.Key = clock, []byte(key)
		for _, k := range old {
			o.OldKeys = append(o.OldKeys, []byte(k))
		}
		return mustRepo(t, b, o)
	}
	signed, plain := newBucket(), newBucket()
	first := mustCreate(t, with(signed, key), s).ID
	unsigned := mustCreate(t, with(plain, ""), s).ID
	clock.Advance(24 * time.Hour)
	second := mustCreate(t, with(signed, key), s).ID
	without := func(b *bucket, names ...string) *bucket {
		b = b.clone()
		for _, name := range names {
			delete(b.objects, name)
		}
		return b
	}
	damaged := without(signed, first+"/"+verifiedObject, second+"/"+verifiedObject)
	for _, id := range []string{first, second} {
		damaged.objects[id+"/"+damagedObject] = []byte("a part is torn\n")
	}
	newer := signed.clone()
	for _, id := range []string{first, second} {
		newer.objects[id+"/"+manifestObject] = []byte(`{"format": 99, "number": 1}`)
	}
	// Of the older one the mark is missing, and the newer one is signed by another key.
	mixed := without(signed, first+"/"+verifiedObject)
	mixed.objects[second+"/"+manifestObject] = []byte(`{"format": 99, "number": 2}`)
	for _, c := range []struct {
		why        string
		r          *Repo
		until      time.Time
		text, hint string
	}{
		{"there is none at all", with(newBucket(), ""), time.Time{}, "no backup at all", "`sagestore backup create` makes one"},
		{"it is asked for an earlier one than there is", with(signed, key), night.Add(-time.Hour), "the oldest verified one is " + first, "--at 2026"},
		{"none is so early, and none counts", with(damaged, key), night.Add(-time.Hour), "the oldest one that is there is " + first, "--at 2026"},
		{"they are signed by another key", with(signed, "some other key of all"), time.Time{}, second + ": manifest.json: " + ErrKey.Error() + ": its signature was made with another key than signing_key,", "backup.signing_keys_old"},
		{"there are old keys, too", with(signed, "some other key of all", "and an old one of these"), time.Time{}, "than signing_key or the 1 of signing_keys_old", "backup.signing_key"},
		{"an earlier one is meant, and its key is another", with(signed, "some other key of all"), night.Add(time.Hour), first + ": manifest.json: " + ErrKey.Error(), "backup.signing_key"},
		{"they are not signed", with(plain, key), time.Time{}, unsigned + ": manifest.json: " + ErrKey.Error() + ": it is not signed", "leave signing_key and signing_keys_old out"},
		{"they were never verified", with(without(signed, first+"/"+verifiedObject, second+"/"+verifiedObject), key), time.Time{}, "2 are not verified", "sagestore backup verify " + second},
		{"one of two can be used once it is verified", with(mixed, key), time.Time{}, "1 is not verified", "sagestore backup verify " + first},
		{"they are damaged", with(damaged, key), time.Time{}, second + " was found damaged: a part is torn", "copy it again"},
		{"a part is missing", with(without(signed, first+"/database.sqlite.zst", second+"/database.sqlite.zst"), key), time.Time{}, "is missing", "copy it again"},
		{"a newer version made them", with(newer, key), time.Time{}, "it has format 99", "newer version"},
	} {
		_, err := c.r.At(t.Context(), c.until)
		if !errors.Is(err, tiers.ErrNotFound) {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		text, hint := said(err)
		if !strings.Contains(text, c.text) || !strings.Contains(hint, c.hint) {
			t.Errorf("%s: it says\n%s\nhint: %s\nwant %q and %q", c.why, text, hint, c.text, c.hint)
		}
		if strings.Contains(text+hint, key) {
			t.Errorf("%s: it tells the key: %s", c.why, text)
		}
	}
	// Found by what the hint says.
	if e, err := with(signed, key).At(t.Context(), night); err != nil || e.ID != first {
		t.Errorf("at that time: %v, %v", e.ID, err)
	}
	if e, err := with(signed, "the newest key of all", key).Latest(t.Context()); err != nil || e.ID != second {
		t.Errorf("with the old key: %v, %v", e.ID, err)
	}
}

func TestABackupThatIsNotThereIsSaidWithWhereToLook(t *testing.T) {
	b := newBucket()
	r := mustRepo(t, b, options(t))
	const id = "20260101T000000Z-0123abcd"
	for _, c := range []struct {
		why, id, text, hint string
		parts               bool
	}{
		{"it is no id", "yesterday", "no id of a backup", "sagestore backup list", false},
		{"there is none", id, "no such backup", "sagestore backup list", false},
		{"there are parts only", id, "no such backup", "never came to its end", true},
	} {
		if c.parts {
			b.objects[id+"/database.sqlite.zst"] = []byte("some")
		}
		_, err := r.Show(t.Context(), c.id)
		if !errors.Is(err, tiers.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		if text, hint := said(err); !strings.Contains(text, c.text) || !strings.Contains(hint, c.hint) {
			t.Errorf("%s: it says %s\nhint: %s", c.why, text, hint)
		}
	}
}

func TestABadKeyIsSaidWithItsNameInTheConfiguration(t *testing.T) {
	const good = "a key that is long enough"
	for _, c := range []struct {
		why, key string
		o        Options
	}{
		{"a short key", "backup.signing_key: ", Options{Key: []byte("short")}},
		{"a short old key", "backup.signing_keys_old: ", Options{Key: []byte(good), OldKeys: [][]byte{[]byte("short")}}},
		{"an old key alone", "backup.signing_key: ", Options{OldKeys: [][]byte{[]byte(good)}}},
		{"no recipient", "backup.recipients: ", Options{Recipients: []string{"age1nobody"}}},
		{"no identity", "backup.identities: ", Options{Identities: []string{"AGE-SECRET-KEY-1NOBODY"}}},
	} {
		_, err := Open(newBucket(), c.o)
		if !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		text, hint := said(err)
		if !strings.HasPrefix(hint, c.key) {
			t.Errorf("%s: hint %q", c.why, hint)
		}
		if strings.Contains(text, "SECRET-KEY-1NOBODY") || strings.Contains(text, "short\"") {
			t.Errorf("%s: it tells the key: %s", c.why, text)
		}
	}
}
