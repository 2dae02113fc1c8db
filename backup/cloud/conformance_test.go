package cloud_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/backup/buckettest"
	"github.com/sagestore/sagestore/backup/cloud"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// open answers the bucket of a URL, and closes it after the test.
func open(tb testing.TB, url string) *cloud.Bucket {
	tb.Helper()
	b, err := cloud.Open(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
	})
	return b
}

func TestMemoryIsABucket(t *testing.T) {
	for _, url := range []string{"mem://", "mem://any/below/this"} {
		t.Run(url, func(t *testing.T) {
			buckettest.Run(t, buckettest.Config{Open: func(tb testing.TB) backup.Bucket { tb.Helper(); return open(tb, url) }})
		})
	}
}

func TestAFileURLIsABucket(t *testing.T) {
	var dir string
	buckettest.Run(t, buckettest.Config{
		Open: func(tb testing.TB) backup.Bucket {
			tb.Helper()
			dir = filepath.Join(tb.TempDir(), "backups")
			return open(tb, "file://"+dir)
		},
		Fill: func(tb testing.TB, _ backup.Bucket, names []string) {
			tb.Helper()
			for _, name := range names {
				path := filepath.Join(dir, filepath.FromSlash(name))
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
					tb.Fatal(err)
				}
			}
		},
		Memory: 16 << 20,
	})
}
