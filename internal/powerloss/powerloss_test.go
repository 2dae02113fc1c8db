package powerloss_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/internal/powerloss"
)

// hex writes a string as strace -xx does.
func hex(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, `\x%02x`, s[i])
	}
	return `"` + b.String() + `"`
}

// after answers everything that the file "a" can hold when the power goes at the
// end of the trace. "-" is that it is not there.
func after(t *testing.T, lines ...string) []string {
	t.Helper()
	dir := t.TempDir()
	base, before := filepath.Join(dir, "data"), filepath.Join(dir, "before")
	for _, d := range []string{base, before} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(before, "a"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "1 openat(AT_FDCWD, " + hex(base) + ", O_RDONLY|O_DIRECTORY) = 9\n"
	for _, l := range lines {
		text += l + "\n"
	}
	// A call that matters and changes nothing, so that the last cut is behind all.
	text += "1 fsync(99) = 0\n"
	calls := strings.Count(text, " = ")
	found := map[string]bool{}
	rec := powerloss.Recording{Before: before, Base: base, Log: filepath.Join(dir, "log")}
	for seed := range uint64(30) {
		rec.Trace = strings.NewReader(text)
		n := 0
		err := rec.Cuts(40, seed, func(c powerloss.Cut) error {
			if c.After != calls {
				return nil
			}
			n++
			image := filepath.Join(dir, fmt.Sprintf("image-%d-%d", seed, n))
			if err := c.Write(image); err != nil {
				return err
			}
			b, err := os.ReadFile(filepath.Join(image, "a"))
			if errors.Is(err, fs.ErrNotExist) {
				b, err = []byte("-"), nil
			}
			found[string(b)] = true
			return errors.Join(err, os.RemoveAll(image))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func TestWhatAPowerCutLeaves(t *testing.T) {
	make1 := "1 openat(9, " + hex("t") + ", O_WRONLY|O_CREAT|O_EXCL, 0600) = 4"
	write := "1 write(4, " + hex("new") + ", 3) = 3"
	rename := "1 renameat(9, " + hex("t") + ", 9, " + hex("a") + ") = 0"
	exchange := "1 renameat2(9, " + hex("t") + ", 9, " + hex("a") + ", RENAME_EXCHANGE) = 0"
	const syncFile, syncDir = "1 fsync(4) = 0", "1 fsync(9) = 0"
	for _, c := range []struct {
		why   string
		trace []string
		want  []string
	}{
		{"nothing was done", nil, []string{"old"}},
		{"bytes and name are synced", []string{make1, write, syncFile, rename, syncDir}, []string{"new"}},
		{"the exchange of two names is synced", []string{make1, write, syncFile, exchange, syncDir}, []string{"new"}},
		{"the directory is not synced", []string{make1, write, syncFile, rename}, []string{"new", "old"}},
		{"the bytes are not synced", []string{make1, write, rename, syncDir}, []string{"", "n", "ne", "new"}},
		{"the sync failed", []string{make1, write, "1 fsync(4) = -1 EIO (Input/output error) (INJECTED)", rename, syncDir}, []string{"", "n", "ne", "new"}},
		{"nothing is synced", []string{make1, write, rename}, []string{"", "n", "ne", "new", "old"}},
		{"a duplicate of the descriptor is synced", []string{make1, "1 fcntl(4, F_DUPFD_CLOEXEC, 0) = 5", write, "1 fdatasync(5) = 0", rename, syncDir}, []string{"new"}},
		{"a write that had not returned when the sync began is not part of it", []string{
			make1, "1 write(4, " + hex("new") + ", 3 <unfinished ...>", "2 fsync(4 <unfinished ...>", "1 <... write resumed>) = 3", "2 <... fsync resumed>) = 0", rename, syncDir,
		}, []string{"", "n", "ne", "new"}},
		{"a descriptor is given away before its close is seen to end", []string{
			make1, write, syncFile, "1 close(4 <unfinished ...>", "2 openat(9, " + hex("u") + ", O_WRONLY|O_CREAT, 0600) = 4", "1 <... close resumed>) = 0",
			"2 write(4, " + hex("other") + ", 5) = 5", "2 fsync(4) = 0", "2 renameat(9, " + hex("u") + ", 9, " + hex("a") + ") = 0", syncDir,
		}, []string{"other"}},
		{"a removed file may be there", []string{"1 unlinkat(9, " + hex("a") + ", 0) = 0"}, []string{"-", "old"}},
		{"a removed file is gone once the directory is synced", []string{"1 unlinkat(9, " + hex("a") + ", 0) = 0", syncDir}, []string{"-"}},
		{"a file is cut and not synced", []string{"1 openat(9, " + hex("a") + ", O_RDWR) = 4", "1 ftruncate(4, 1) = 0"}, []string{"o", "old"}},
	} {
		if got := after(t, c.trace...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.why, got, c.want)
		}
	}
}
