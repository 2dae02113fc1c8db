package tiertest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sagestore/sagestore/internal/envelope"
	"github.com/sagestore/sagestore/tiers"
)

func valueRules() []rule {
	return []rule{
		{
			name: "what was saved is loaded",
			why:  "the first promise of a store",
			run: func(t *T) {
				k := named("k")
				t.wantAbsent("before", k)
				saved := t.save(raw(k, "v"))
				if saved.Version == 0 {
					t.Errorf("save answers version 0, which is that of an absent key")
				}
				t.wantSame("loaded", t.load(k), saved)
				t.wantNames("list", t.names(tiers.Query{Category: category}), []string{"k"})
				if !t.delete(k) {
					t.Errorf("delete of a live record says that it was not there")
				}
				t.wantAbsent("deleted", k)
			},
		},
		{
			name: "the second of two quick saves wins",
			why:  "a cache that admits new keys in the background keeps the first",
			run: func(t *T) {
				const keys = 1000
				t.each(keys, func(i int) {
					k := numbered("k", i)
					t.save(raw(k, "first"))
					t.save(raw(k, "second"))
					t.wantValue("at once", k, "second")
				})
				for _, r := range t.list(tiers.Query{Category: category}) {
					if string(r.Value) != "second" {
						t.Errorf("later: %s holds %s", show(r.Key), cut(string(r.Value)))
					}
				}
			},
		},
		{
			name: "a save that is deleted at once is gone",
			why:  "a save that arrives late brings the deleted record back",
			run: func(t *T) {
				t.each(200, func(i int) {
					k := numbered("k", i)
					t.save(raw(k, "v"))
					if !t.delete(k) {
						t.Errorf("delete of %s right after its save says that nothing was there", show(k))
					}
					t.wantAbsent("deleted", k)
				})
				t.wantNames("list", t.names(tiers.Query{Category: category}), nil)
			},
		},
		{
			name: "deleting twice is no error",
			why:  "cleaning up must be repeatable",
			run: func(t *T) {
				k := named("k")
				t.save(raw(k, "v"))
				for i, want := range []bool{true, false, false} {
					if existed, err := t.Tier.Delete(t.ctx, k, tiers.Cond{}); err != nil || existed != want {
						t.Errorf("delete number %d answers %v and %s, want %v", i+1, existed, said(err), want)
					}
				}
			},
		},
		{
			name: "values are copied",
			why:  "changing what was saved or loaded must never change what is stored",
			run:  valuesAreCopied,
		},
		{
			name: "values come back byte for byte",
			why:  "empty is not missing, and no byte is special",
			run:  valuesComeBack,
		},
		{
			name: "a value of 10 MiB is stored whole or refused",
			why:  "a cut value is worse than none",
			run: func(t *T) {
				big := strings.Repeat("0123456789abcdef", 10<<20/16)
				_, err := t.Tier.Save(t.ctx, raw(named("big"), big), tiers.Cond{})
				if t.MaxValue > 0 && t.MaxValue < int64(len(big)) {
					t.wantError("save", err, tiers.ErrTooLarge)
					t.wantAbsent("refused", named("big"))
					return
				}
				if err != nil {
					t.Fatalf("save: %v", err)
				}
				t.wantValue("saved", named("big"), big)
			},
		},
		{
			name: "too large a value is refused with the limit named",
			why:  "the user has to know how much to cut",
			when: func(c Config) bool { return c.MaxValue > 0 && c.MaxValue <= 64<<20 },
			run:  tooLarge,
		},
		{
			name: "codec, schema and flags are kept",
			why:  "without them a value can't be decoded again",
			run:  descriptionIsKept,
		},
		{
			name: "errors say what failed on which key",
			why:  "a bare sentinel leaves the user guessing",
			run:  errorsSayWhat,
		},
	}
}

func valuesAreCopied(t *T) {
	k := named("k")
	mine := []byte("saved value")
	r := raw(k, "")
	r.Value = mine
	saved := t.save(r)
	for i := range mine {
		mine[i] = 'X'
	}
	t.wantValue("after changing the saved slice", k, "saved value")
	for i := range saved.Value {
		saved.Value[i] = 'Y'
	}
	t.wantValue("after changing the answer of save", k, "saved value")
	scribble := func(b []byte) {
		for i := range b {
			b[i] = 'Z'
		}
		_ = append(b, "behind"...) // what is behind it may not be the store's either
	}
	scribble(t.load(k).Value)
	t.wantValue("after changing a loaded slice", k, "saved value")
	for _, r := range t.list(tiers.Query{Category: category}) {
		scribble(r.Value)
	}
	t.wantValue("after changing a listed slice", k, "saved value")
	rs, err := tiers.LoadMany(t.ctx, t.Tier, []tiers.Key{k})
	if err != nil || len(rs) != 1 {
		t.Fatalf("load many answers %d records and %s", len(rs), said(err))
	}
	scribble(rs[0].Value)
	t.wantValue("after changing a slice of load many", k, "saved value")

	many := []tiers.Record{raw(named("m"), "of many")}
	if _, err := tiers.SaveMany(t.ctx, t.Tier, many, nil); err != nil {
		t.Fatalf("save many: %v", err)
	}
	scribble(many[0].Value)
	t.wantValue("after changing a slice of save many", named("m"), "of many")

	if a, ok := tiers.As[tiers.Applier](t.Tier); ok {
		as := t.applied("a", 1, "applied")
		if err := a.Apply(t.ctx, []tiers.Record{as}, nil); err != nil {
			t.Fatalf("apply: %v", err)
		}
		scribble(as.Value)
		t.wantValue("after changing an applied slice", named("a"), "applied")
	}
}

func valuesComeBack(t *T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	values := []struct{ why, value string }{
		{"empty is not missing", ""},
		{"a NUL byte is a byte", "a\x00b"},
		{"nothing but NUL", "\x00"},
		{"invalid UTF-8 is kept", "\xff\xfe\xc3\x28"},
		{"every byte", string(all)},
		{"would-be sentinels", "*"},
		{"would-be sentinels", "null"},
		{"would-be sentinels", "nil"},
		{"would-be sentinels", "__deleted__"},
		{"line ends are not translated", "a\r\nb\nc\r"},
		{"white space around it stays", "  \t value \n"},
		{"a byte order mark stays", "\xef\xbb\xbftext"},
		{"looks like an envelope, and is not one", "\xc1SG"},
		{"digits stay text", "0123"},
	}
	for i, c := range values {
		k := numbered("v", i)
		t.save(raw(k, c.value))
		t.wantValue(c.why, k, c.value)
	}
	for i, r := range t.list(tiers.Query{Category: category}) {
		if i < len(values) && string(r.Value) != values[i].value {
			t.Errorf("list: %s: %s holds %s, want %s", values[i].why, show(r.Key), cut(string(r.Value)), cut(values[i].value))
		}
	}
	nothing := raw(named("nothing"), "")
	nothing.Value = nil
	t.save(nothing)
	t.wantValue("no value is the empty value", nothing.Key, "")

	for i, text := range []string{
		`{"a":1}`, `null`, `""`, `"*"`, `[]`, `{}`, `9007199254740993`, `1.10`, `0`,
		`{"z":1,"a":[1,2,{"b":"\u0000 <&> é"}]}`, `"\ud83d\ude00"`, `"😀"`,
	} {
		r := raw(numbered("json", i), text)
		r.Codec = "json"
		t.save(r)
		t.wantValue("JSON text is not rewritten", r.Key, text)
	}
}

func tooLarge(t *T) {
	k := named("k")
	_, err := t.Tier.Save(t.ctx, raw(k, strings.Repeat("x", int(t.MaxValue)+1)), tiers.Cond{})
	t.wantError("save of a byte too much", err, tiers.ErrTooLarge)
	if err != nil && !strings.Contains(err.Error(), fmt.Sprint(t.MaxValue)) {
		t.Errorf("the error %q does not name the limit of %d", err, t.MaxValue)
	}
	t.wantAbsent("refused", k)
	t.save(raw(k, "small"))
	_, err = t.Tier.Save(t.ctx, raw(k, strings.Repeat("x", int(t.MaxValue)+1)), tiers.Cond{})
	t.wantError("save over a small one", err, tiers.ErrTooLarge)
	t.wantValue("refused", k, "small")
	whole := strings.Repeat("x", int(t.MaxValue))
	t.save(raw(k, whole))
	t.wantValue("exactly the limit", k, whole)
}

func descriptionIsKept(t *T) {
	enveloped := func(codec string, schema uint32, f tiers.Flags) tiers.Record {
		h := envelope.Header{Codec: codec, Schema: schema, Flags: f, Size: 7}
		if f&tiers.Encrypted != 0 {
			h.KeyID = "key-1"
		}
		return tiers.Record{
			Value: envelope.Append(nil, h, []byte("payload")),
			Codec: codec, Schema: schema, Flags: f | tiers.Enveloped,
		}
	}
	plain := func(codec string, schema uint32, value string) tiers.Record {
		return tiers.Record{Value: []byte(value), Codec: codec, Schema: schema}
	}
	for i, r := range []tiers.Record{
		plain("json", 1, `{"a":1}`),
		plain("json", 7, `{"a":1}`),
		plain("raw", 1, "x"),
		plain("raw", 1<<32-1, "x"),
		plain("msgpack", 2, "\x81\xa1a\x01"),
		plain("gob", 1, "\x03\x04\x00\x02"),
		plain("app-own", 3, "x"),
		enveloped("json", 1, 0),
		enveloped("json", 2, tiers.Compressed),
		enveloped("msgpack", 1, 0),
		enveloped("raw", 1, tiers.Compressed),
		enveloped("gob", 9, tiers.Compressed|tiers.Encrypted),
		enveloped("json", 1, tiers.Encrypted),
	} {
		r.Key = numbered("k", i)
		saved := t.save(r)
		t.wantSame("saved", saved, tiers.Record{
			Key: r.Key, Value: r.Value, Codec: r.Codec, Schema: r.Schema, Flags: r.Flags,
			Version: saved.Version, Created: saved.Created, Updated: saved.Updated,
		})
		t.wantSame("loaded", t.load(r.Key), saved)
	}

	// Going from one to the other on the same key leaves nothing of the first.
	k := named("changes")
	for _, r := range []tiers.Record{
		plain("json", 1, `{"a":1}`), plain("raw", 4, "x"), enveloped("msgpack", 2, tiers.Compressed),
		plain("json", 3, `{"b":2}`), plain("json", 1, `{"c":3}`),
	} {
		r.Key = k
		saved := t.save(r)
		t.wantSame("over another codec", t.load(k), saved)
		t.wantNames("list", t.names(tiers.Query{Category: category, Prefix: k.Name}), []string{k.Name})
	}
	if !t.delete(k) {
		t.Errorf("delete says that nothing was there")
	}
	t.wantAbsent("deleted", k)

	for _, r := range t.list(tiers.Query{Category: category}) {
		loaded := t.load(r.Key)
		if !bytes.Equal(r.Value, loaded.Value) {
			t.Errorf("list: %s differs from load", show(r.Key))
		}
		t.wantSame("listed", r, loaded)
	}
}

func errorsSayWhat(t *T) {
	k := named("k")
	want := func(what string, err, sentinel error) {
		t.wantError(what, err, sentinel)
		var e *tiers.Error
		if !errors.As(err, &e) {
			t.Errorf("%s answers %s, which is no *tiers.Error", what, said(err))
			return
		}
		if e.Op == "" || e.Key != k.Name || e.Category != k.Category {
			t.Errorf("%s answers %q, without operation, category or key: %+v", what, err, *e)
		}
	}
	_, err := t.Tier.Load(t.ctx, k)
	want("load", err, tiers.ErrNotFound)
	_, err = t.Tier.Save(t.ctx, raw(k, "v"), tiers.If(7))
	want("save if version", err, tiers.ErrConflict)
	_, err = t.Tier.Delete(t.ctx, k, tiers.If(7))
	want("delete if version", err, tiers.ErrConflict)
	t.save(lasting(k, "v", time.Hour))
	_, err = t.Tier.Save(t.ctx, raw(k, "v"), tiers.If(0))
	want("save if absent", err, tiers.ErrExists)
	k = named("bad\x00key")
	_, err = t.Tier.Save(t.ctx, raw(k, "v"), tiers.Cond{})
	want("save of a bad key", err, tiers.ErrKey)
}
