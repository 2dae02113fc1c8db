// Package buckettest checks that a bucket keeps what backup.Bucket promises.
//
//	func TestBucket(t *testing.T) {
//		buckettest.Run(t, buckettest.Config{Open: func(tb testing.TB) backup.Bucket { ... }})
//	}
package buckettest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sync/errgroup"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers"
)

// Config says what is checked.
type Config struct {
	// Open answers an empty bucket. What it has to close it leaves to tb.Cleanup.
	Open func(tb testing.TB) backup.Bucket
	// Names is how many objects are listed; 0: 10,000.
	Names int
	// Fill puts empty objects of these names by a shorter way; nil: by Put.
	Fill func(tb testing.TB, b backup.Bucket, names []string)
	// Large is the size of a large object in bytes; 0: 64 MiB.
	Large int64
	// Memory bounds what the process allocates and keeps while the large object is put
	// and got, in bytes; 0: not looked at, for a bucket that is in memory itself.
	Memory uint64
}

// Run checks the bucket in subtests of t.
func Run(t *testing.T, c Config) {
	t.Helper()
	c.Names, c.Large = cmp.Or(c.Names, 10_000), cmp.Or(c.Large, 64<<20)
	for _, s := range []struct {
		why   string
		check func(t *testing.T, c Config, b backup.Bucket)
	}{
		{"what is put is got", whatIsPutIsGot},
		{"what is absent is not found and deleted without an error", absent},
		{"a reader that fails publishes nothing", failingReader},
		{"a reader that fails leaves the old object", failingReplacement},
		{"an ended context publishes nothing", endedContext},
		{"names that no backup writes are refused", strangeNames},
		{"a prefix is the beginning of a name", prefixes},
		{"sizes are those of what was put, if they are told", sizesInLists},
		{"a list may be left early", leftEarly},
		{"puts, gets, lists and deletes run at once", atOnce},
		{"every name is listed once", manyNames},
		{"a large object streams", largeObject},
	} {
		t.Run(strings.ReplaceAll(s.why, " ", "-"), func(t *testing.T) { s.check(t, c, c.Open(t)) })
	}
}

func put(t *testing.T, b backup.Bucket, name, text string) {
	t.Helper()
	if err := b.Put(t.Context(), name, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

// get answers an object, or "absent".
func get(t *testing.T, b backup.Bucket, name string) string {
	t.Helper()
	r, err := b.Get(t.Context(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return "absent"
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func list(t *testing.T, b backup.Bucket, prefix string) []string {
	t.Helper()
	var names []string
	for name, err := range b.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func whatIsPutIsGot(t *testing.T, _ Config, b backup.Bucket) {
	t.Helper()
	for _, text := range []string{"", "x", strings.Repeat("0123456789", 100_000), "shorter"} {
		put(t, b, "20261128T033000Z-00000001/manifest.json", text)
		if got := get(t, b, "20261128T033000Z-00000001/manifest.json"); got != text {
			t.Errorf("got %d bytes, put %d", len(got), len(text))
		}
	}
	if err := b.Put(t.Context(), "odd", iotest.OneByteReader(iotest.DataErrReader(strings.NewReader("byte by byte")))); err != nil {
		t.Fatal(err)
	}
	if got := get(t, b, "odd"); got != "byte by byte" {
		t.Errorf("got %q", got)
	}
	// A seeker is put from where it stands.
	r := strings.NewReader("skipped, kept")
	if _, err := r.Seek(9, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "rest", r); err != nil {
		t.Fatal(err)
	}
	if got := get(t, b, "rest"); got != "kept" {
		t.Errorf("got %q", got)
	}
}

func absent(t *testing.T, _ Config, b backup.Bucket) {
	t.Helper()
	if names := list(t, b, ""); len(names) > 0 {
		t.Errorf("a new bucket has %v", names)
	}
	put(t, b, "there/a", "1")
	for _, name := range []string{"a", "there/b", "elsewhere/a", "there/a/b"} {
		if r, err := b.Get(t.Context(), name); err == nil {
			t.Errorf("%s was got", name)
			_ = r.Close()
		} else if name != "there/a/b" && !errors.Is(err, tiers.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("get %s: %v", name, err)
		}
	}
	for range 2 {
		if err := b.Delete(t.Context(), "there/a"); err != nil {
			t.Error(err)
		}
	}
	if err := b.Delete(t.Context(), "elsewhere/a"); err != nil {
		t.Error(err)
	}
	if got := get(t, b, "there/a"); got != "absent" {
		t.Errorf("after a delete: %q", got)
	}
}

var errSource = errors.New("the source broke")

// sizes are those at which clients change their ways: in one request, in parts.
func sizes() []int64 { return []int64{0, 100, 1 << 20, 20 << 20} }

func breaking(size int64) io.Reader {
	return io.MultiReader(io.LimitReader(zeros{}, size), iotest.ErrReader(errSource))
}

func failingReader(t *testing.T, _ Config, b backup.Bucket) {
	t.Helper()
	for _, size := range sizes() {
		if err := b.Put(t.Context(), "20261128T033000Z-00000001/part", breaking(size)); !errors.Is(err, errSource) {
			t.Errorf("after %d bytes: %v", size, err)
		}
		if names := list(t, b, ""); len(names) > 0 {
			t.Errorf("after %d bytes: %v is there", size, names)
		}
	}
}

func failingReplacement(t *testing.T, _ Config, b backup.Bucket) {
	t.Helper()
	put(t, b, "a/b", "old")
	for _, size := range sizes() {
		if err := b.Put(t.Context(), "a/b", breaking(size)); !errors.Is(err, errSource) {
			t.Errorf("after %d bytes: %v", size, err)
		}
	}
	if got := get(t, b, "a/b"); got != "old" {
		t.Errorf("got %.20q", got)
	}
}

func endedContext(t *testing.T, _ Config, b backup.Bucket) {
	t.Helper()
	put(t, b, "there", "1")
	ended, end := context.WithCancel(t.Context())
	end()
	if err := b.Put(ended, "a/b", strings.NewReader("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	var listErr error
	for _, listErr = range b.List(ended, "") {
		if listErr != nil {
			break
		}
	}
	if !errors.Is(listErr, context.Canceled) {
		t.Errorf("list: %v", listErr)
	}
	for _, size := range sizes() {
		ctx, cancel := context.WithCancel(t.Context())
		r := io.MultiReader(io.LimitReader(zeros{}, size), during(cancel), io.LimitReader(zeros{}, 1<<20))
		if err := b.Put(ctx, "a/b", r); !errors.Is(err, context.Canceled) {
			t.Errorf("ended after %d bytes: %v", size, err)
		}
		cancel()
	}
	if names := list(t, b, ""); !slices.Equal(names, []string{"there"}) {
		t.Errorf("there are %v", names)
	}
}

// during is a reader of nothing that calls itself.
type during func()

func (d during) Read([]byte) (int, error) {
	d()
	return 0, io.EOF
}

func strangeNames(t *testing.T, _ Config, b backup.Bucket) {
	t.Helper()
	for _, name := range []string{"", "/", "/a", "a/", "a//b", "..", "../a", "a/../b", "a/./b", ".hidden", "a/.hidden", "ä", "a b", "a\\b", "a\x00", strings.Repeat("x", 201)} {
		if err := b.Put(t.Context(), name, strings.NewReader("x")); !errors.Is(err, tiers.ErrKey) {
			t.Errorf("put %q: %v", name, err)
		}
		if r, err := b.Get(t.Context(), name); !errors.Is(err, tiers.ErrKey) {
			t.Errorf("get %q: %v, %v", name, r, err)
		}
		if err := b.Delete(t.Context(), name); !errors.Is(err, tiers.ErrKey) {
			t.Errorf("delete %q: %v", name, err)
		}
	}
}

func prefixes(t *testing.T, _ Config, b backup.Bucket) {
	t.Helper()
	all := []string{"a-b", "a/x", "a/y/z", "a0", "ab/x", "b"}
	for _, name := range all {
		put(t, b, name, "1")
	}
	for prefix, want := range map[string][]string{
		"": all, "a": all[:5], "a/": {"a/x", "a/y/z"}, "a/y": {"a/y/z"}, "a/x": {"a/x"}, "ab": {"ab/x"}, "c": nil, "a/y/z/": nil,
	} {
		if got := list(t, b, prefix); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", prefix, got, want)
		}
	}
}

func sizesInLists(t *testing.T, _ Config, b backup.Bucket) {
	t.Helper()
	want := map[string]int64{"a/b": 0, "a/c": 1, "a/d": 3 << 20}
	for name, size := range want {
		put(t, b, name, strings.Repeat("x", int(size)))
	}
	put(t, b, "b", "1")
	_, tells := b.(backup.Lister)
	got := map[string]int64{}
	for o, err := range backup.ListerOf(b).Objects(t.Context(), "a/") {
		if err != nil {
			t.Fatal(err)
		}
		if got[o.Name] = o.Size; !tells && o.Size == -1 {
			got[o.Name] = want[o.Name]
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func leftEarly(t *testing.T, _ Config, b backup.Bucket) {
	t.Helper()
	for i := range 5 {
		put(t, b, fmt.Sprintf("a/%d", i), "1")
	}
	n := 0
	for _, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 2 {
			break
		}
	}
	if got := list(t, b, ""); len(got) != 5 {
		t.Errorf("later there are %v", got)
	}
}

func atOnce(t *testing.T, _ Config, b backup.Bucket) {
	t.Helper()
	const rounds = 10
	texts := []string{strings.Repeat("1", 50_000), strings.Repeat("2", 70_000)}
	put(t, b, "shared/object", texts[0])
	put(t, b, "stays/object", "1")
	g, ctx := errgroup.WithContext(t.Context())
	for worker := range 4 {
		g.Go(func() error {
			for i := range rounds {
				own := fmt.Sprintf("own-%d/%d", worker, i)
				err := errors.Join(
					b.Put(ctx, "shared/object", strings.NewReader(texts[(i+worker)%2])),
					b.Put(ctx, own, strings.NewReader(own)),
					wholeOne(ctx, b, texts),
					seesTheSteady(ctx, b),
				)
				if i%2 == 0 {
					err = errors.Join(err, b.Delete(ctx, own))
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := list(t, b, "own-"); len(got) != 4*rounds/2 {
		t.Errorf("%d are left: %v", len(got), got)
	}
}

// wholeOne tells that an object that is being replaced is one of the texts.
func wholeOne(ctx context.Context, b backup.Bucket, texts []string) error {
	r, err := b.Get(ctx, "shared/object")
	if err != nil {
		return err
	}
	text, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	if !slices.Contains(texts, string(text)) {
		return fmt.Errorf("an object of %d bytes is mixed", len(text))
	}
	return nil
}

// seesTheSteady tells that a list has what nobody touches.
func seesTheSteady(ctx context.Context, b backup.Bucket) error {
	seen := 0
	for name, err := range b.List(ctx, "") {
		if err != nil {
			return err
		}
		if name == "stays/object" {
			seen++
		}
	}
	if seen != 1 {
		return fmt.Errorf("a list has %d times what is there all the time", seen)
	}
	return nil
}

func manyNames(t *testing.T, c Config, b backup.Bucket) {
	t.Helper()
	names := make([]string, c.Names)
	for i := range names {
		names[i] = fmt.Sprintf("%03d-x/%05d", i/100, i)
		if i%3 == 0 {
			names[i] = fmt.Sprintf("%03d/%05d", i/100, i) // a shorter directory sorts after a longer one
		}
	}
	slices.Sort(names)
	if c.Fill != nil {
		c.Fill(t, b, names)
	} else {
		g, ctx := errgroup.WithContext(t.Context())
		g.SetLimit(8)
		for _, name := range names {
			g.Go(func() error { return b.Put(ctx, name, bytes.NewReader(nil)) })
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(t, b, ""); !slices.Equal(got, names) {
		t.Errorf("%d of %d are listed", len(got), len(names))
	}
}
