package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/tiers"
)

var plenty = Limits{Files: 1000, Bytes: 1 << 20}

func root(t *testing.T, dir string) *os.Root {
	t.Helper()
	r, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// fill makes files, whose names are what they hold.
func fill(t *testing.T, dir string, names ...string) {
	t.Helper()
	for i, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		at := time.Date(2026, 1, 2, 3, 4, i, 123456000, time.UTC)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o644), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
}

func archived(t *testing.T, dir string) ([]byte, Sums) {
	t.Helper()
	var b bytes.Buffer
	sums, err := Write(t.Context(), &b, Files(root(t, dir), nil))
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), sums
}

func TestATreeComesOutAsItWentIn(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	long := strings.Repeat("long/", 60) + strings.Repeat("x", 200)
	fill(t, from, "a.json", "a/b.json", "a/B2.json", "a/c/d/.hidden.meta", "Über/%41.json", "z", long)
	b, sums := archived(t, from)
	got, err := Extract(t.Context(), bytes.NewReader(b), root(t, to), plenty)
	if err != nil || got != sums || sums.Files != 7 {
		t.Fatalf("%+v of %+v, %v", got, sums, err)
	}
	if again, _ := archived(t, to); !bytes.Equal(again, b) {
		t.Error("the archive of what was unpacked is another one")
	}
	err = filepath.WalkDir(to, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := e.Info()
		if want := map[bool]os.FileMode{true: 0o700, false: 0o600}[e.IsDir()]; err == nil && path != to && st.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, st.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnEmptyTreeIsAnArchiveToo(t *testing.T) {
	b, sums := archived(t, t.TempDir())
	if got, err := Scan(t.Context(), bytes.NewReader(b), Limits{}, nil); err != nil || got != sums {
		t.Errorf("%+v, %v", got, err)
	}
}

// entry is one of an archive that somebody else made.
type entry struct {
	name string
	kind byte
	size int64
	link string
	pax  map[string]string
}

func tarOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Typeflag: e.kind, Name: e.name, Size: e.size, Linkname: e.link, PAXRecords: e.pax, Mode: 0o4777}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, e.size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAHostileArchiveIsRefusedAndNothingIsOutside(t *testing.T) {
	good := tarOf(t, entry{name: "a", size: 10})
	for _, c := range []struct {
		why     string
		archive []byte
	}{
		{"a path above", tarOf(t, entry{name: "../x"})},
		{"a path above in the middle", tarOf(t, entry{name: "a/../../x"})},
		{"an absolute path", tarOf(t, entry{name: "/tmp/x"})},
		{"a path that is not clean", tarOf(t, entry{name: "a//b"})},
		{"the directory itself", tarOf(t, entry{name: "."})},
		{"a backslash", tarOf(t, entry{name: `a\..\x`})},
		{"a control character", tarOf(t, entry{name: "a\nb"})},
		{"a symbolic link", tarOf(t, entry{name: "a", kind: tar.TypeSymlink, link: "/etc"})},
		{"a hard link", tarOf(t, entry{name: "a", size: 1}, entry{name: "b", kind: tar.TypeLink, link: "a"})},
		{"a directory", tarOf(t, entry{name: "a/", kind: tar.TypeDir})},
		{"a pipe", tarOf(t, entry{name: "a", kind: tar.TypeFifo})},
		{"a device", tarOf(t, entry{name: "a", kind: tar.TypeChar})},
		{"a name twice", tarOf(t, entry{name: "a"}, entry{name: "a"})},
		{"A beside a", tarOf(t, entry{name: "A"}, entry{name: "a"})},
		{"A/x and a/y", tarOf(t, entry{name: "A/x"}, entry{name: "a/y"})},
		{"names out of order, where one may be there twice", tarOf(t, entry{name: "b"}, entry{name: "a"})},
		{"a file that is a directory", tarOf(t, entry{name: "a"}, entry{name: "a/b"})},
		{"too many files", tarOf(t, entry{name: "a"}, entry{name: "b"}, entry{name: "c"}, entry{name: "d"})},
		{"too much in one", tarOf(t, entry{name: "a", size: 1001})},
		{"too much in all", tarOf(t, entry{name: "a", size: 600}, entry{name: "b", size: 600})},
		{"attributes", tarOf(t, entry{name: "a", pax: map[string]string{"SCHILY.xattr.user.x": "1"}})},
		{"something after the end", append(bytes.Clone(good), 0)},
		{"an archive after the archive", append(bytes.Clone(good), good...)},
		{"cut short in a file", good[:600-80]},
		{"cut short in a header", good[:100]},
		{"no archive", bytes.Repeat([]byte("x"), 2048)},
	} {
		t.Run(c.why, func(t *testing.T) {
			parent := t.TempDir()
			into := filepath.Join(parent, "into")
			if err := os.Mkdir(into, 0o700); err != nil {
				t.Fatal(err)
			}
			_, err := Extract(t.Context(), bytes.NewReader(c.archive), root(t, into), Limits{Files: 3, Bytes: 1000})
			if !errors.Is(err, tiers.ErrCorrupt) {
				t.Errorf("got %v, want %v", err, tiers.ErrCorrupt)
			}
			if left, err := os.ReadDir(parent); err != nil || len(left) != 1 {
				t.Errorf("outside are %v, %v", left, err)
			}
		})
	}
	if _, err := Scan(t.Context(), bytes.NewReader(good), plenty, func(File, io.Reader) error { return nil }); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

func TestALinkIsNotFollowedButReported(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "a")
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(t.Context(), io.Discard, Files(root(t, dir), nil)); !errors.Is(err, tiers.ErrUnsupported) || !strings.Contains(err.Error(), "b is neither") {
		t.Errorf("got %v", err)
	}
	skip := func(name string) bool { return name == "b" }
	if sums, err := Write(t.Context(), io.Discard, Files(root(t, dir), skip)); err != nil || sums.Files != 1 {
		t.Errorf("left out: %+v, %v", sums, err)
	}
}

func TestAFileThatShrinksIsAnErrorAndOneThatGrowsIsCut(t *testing.T) {
	file := func(text string) func(func(File, error) bool) {
		return func(yield func(File, error) bool) {
			yield(File{Name: "a", Size: 3, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}, nil)
		}
	}
	if _, err := Write(t.Context(), io.Discard, file("ab")); err == nil {
		t.Error("it shrank and nobody said so")
	}
	if sums, err := Write(t.Context(), io.Discard, file("abcd")); err != nil || sums.Bytes != 3 {
		t.Errorf("it grew: %+v, %v", sums, err)
	}
}

func TestTheEndOfAContextEndsTheWork(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "a")
	b, _ := archived(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Write(ctx, io.Discard, Files(root(t, dir), nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("write: %v", err)
	}
	if _, err := Scan(ctx, bytes.NewReader(b), plenty, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("scan: %v", err)
	}
}

func TestNamesAreInTheOrderInWhichADirectoryIsWalked(t *testing.T) {
	names := []string{"b", "a/b", "a.json", "A2", "a/B/c", "a/C", "-", "a/b2"}
	dir := t.TempDir()
	fill(t, dir, slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "a/b" })...)
	want := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "a/b" })
	slices.SortFunc(want, Compare)
	var got []string
	for f, err := range Files(root(t, dir), nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f.Name)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// FuzzScan: whatever passes is what Write would have written, and is within limits.
func FuzzScan(f *testing.F) {
	var b bytes.Buffer
	files := func(yield func(File, error) bool) {
		for _, name := range []string{"a.json", "b/c"} {
			if !yield(File{Name: name, Size: 2, ModTime: time.Unix(1, 5000), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("{}")), nil }}, nil) {
				return
			}
		}
	}
	if _, err := Write(context.Background(), &b, files); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:1024])
	f.Fuzz(func(t *testing.T, b []byte) {
		limits := Limits{Files: 10, Bytes: 1000}
		var names []string
		n := int64(0)
		sums, err := Scan(t.Context(), bytes.NewReader(b), limits, func(f File, body io.Reader) error {
			names = append(names, f.Name)
			m, err := io.Copy(io.Discard, body)
			n += m
			return err
		})
		if n > limits.Bytes || sums.Files > limits.Files+1 {
			t.Fatalf("%d bytes, %+v", n, sums)
		}
		if err == nil && (n != sums.Bytes || !slices.IsSortedFunc(names, Compare)) {
			t.Fatalf("%v passed with %d bytes of %+v", names, n, sums)
		}
		for _, name := range names {
			if !filepath.IsLocal(name) {
				t.Fatalf("%q passed", name)
			}
		}
	})
}
