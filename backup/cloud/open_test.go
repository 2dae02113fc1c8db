package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/backup/cloud"
	"github.com/sagestore/sagestore/tiers"
)

func Example() {
	ctx := context.Background()
	b, err := cloud.Open(ctx, "mem://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = b.Close() }()
	if err := b.Put(ctx, "20261128T033000Z-00000001/manifest.json", strings.NewReader("{}")); err != nil {
		fmt.Println(err)
	}
	for name, err := range b.List(ctx, "") {
		fmt.Println(name, err)
	}
	// Output: 20261128T033000Z-00000001/manifest.json <nil>
}

func TestAURLThatWouldBeMisreadIsRefusedWithoutRepeatingIt(t *testing.T) {
	for _, c := range []struct {
		why, url string
		want     error
		says     string
	}{
		{"it is no URL", "s3://%zzs3cret", tiers.ErrUnsupported, "s3://BUCKET/PATH"},
		{"no driver has its scheme", "ftp://host/?password=s3cret", tiers.ErrUnsupported, "azblob, file, gs, s3"},
		{"there are credentials in it", "s3://AKIA:s3cret@bucket", tiers.ErrUnsupported, "AWS_ACCESS_KEY_ID"},
		{"so they are for Google", "gs://s3cret@bucket", tiers.ErrUnsupported, "GOOGLE_APPLICATION_CREDENTIALS"},
		{"so they are for Azure", "azblob://s3cret@bucket", tiers.ErrUnsupported, "AZURE_STORAGE_KEY"},
		{"it names no bucket", "s3:///path?x=s3cret", tiers.ErrUnsupported, "names no bucket"},
		{"it has a fragment", "s3://bucket#s3cret", tiers.ErrUnsupported, ""},
		{"its path could leave the prefix", "mem://bucket/a/../b", tiers.ErrKey, "a/../b"},
		{"it has a path and a prefix", "mem://bucket/a?prefix=b", tiers.ErrUnsupported, "leave one of them out"},
		{"it would be a bucket of one object", "mem://bucket?key=s3cret", tiers.ErrUnsupported, ""},
		{"the driver does not know a parameter", "mem://bucket?token=s3cret", tiers.ErrUnavailable, "token"},
		{"S3 does not know a parameter", "s3://bucket?region=r&token=s3cret", tiers.ErrUnavailable, "token"},
		{"a directory has no parameters", "file:///tmp?secret_key_path=s3cret", tiers.ErrUnsupported, "secret_key_path"},
		{"a directory is not on another host", "file://s3cret/tmp", tiers.ErrUnsupported, "file:///PATH"},
		{"a directory has a path", "file://", tiers.ErrUnsupported, "file:///PATH"},
	} {
		b, err := cloud.Open(t.Context(), c.url)
		if b != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %v that says %q", c.why, err, c.want, c.says)
			continue
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: its text has the secret: %v", c.why, err)
		}
	}
}

func TestAServiceThatIsAwayIsUnavailableAndSaysWhereCredentialsAre(t *testing.T) {
	var none net.ListenConfig
	l, err := none.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
	b, err := cloud.Open(t.Context(), "s3://bucket?region=r&use_path_style=true&endpoint=http://"+away)
	if b != nil || !errors.Is(err, tiers.ErrUnavailable) || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("got %v", err)
	}
	if err != nil && strings.Contains(err.Error(), "s3cret") {
		t.Errorf("it tells a secret: %v", err)
	}
}

func TestADirectoryOfAURLIsPrivateAndMadeByTheFirstObject(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	b := open(t, "file://"+dir+"?create_dir=1")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("it is there too early: %v", err)
	}
	if err := b.Put(t.Context(), "x/y", strings.NewReader("1")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "x"): 0o700, filepath.Join(dir, "x", "y"): 0o600} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s is %v, %v", path, st.Mode(), err)
		}
	}
}

func TestAClosedBucketIsClosed(t *testing.T) {
	for _, url := range []string{"mem://", "file://" + t.TempDir()} {
		b := open(t, url)
		if err := errors.Join(b.Close(), b.Close()); err != nil {
			t.Fatal(err)
		}
		_, getErr := b.Get(t.Context(), "a")
		var listErr error
		for _, listErr = range b.List(t.Context(), "") {
			break
		}
		for _, err := range []error{b.Put(t.Context(), "a", strings.NewReader("")), getErr, listErr, b.Delete(t.Context(), "a")} {
			if !errors.Is(err, tiers.ErrClosed) {
				t.Errorf("%s: got %v", url, err)
			}
		}
	}
}

func TestNamesOfAnObjectStoreAreListedInOrder(t *testing.T) {
	b := open(t, "mem://")
	for _, name := range []string{"b", "a/x", "a-b", "a/y", "a"} {
		if err := b.Put(t.Context(), name, strings.NewReader("")); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for name, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if want := []string{"a", "a-b", "a/x", "a/y", "b"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}
