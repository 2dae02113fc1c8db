package buckettest_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/backup/buckettest"
)

func TestADirectoryIsABucket(t *testing.T) {
	var dir string
	buckettest.Run(t, buckettest.Config{
		Open: func(tb testing.TB) backup.Bucket {
			tb.Helper()
			dir = filepath.Join(tb.TempDir(), "backups")
			return backup.Dir(dir)
		},
		Fill:   func(tb testing.TB, _ backup.Bucket, names []string) { tb.Helper(); fill(tb, dir, names) },
		Memory: 16 << 20,
	})
}

func fill(tb testing.TB, dir string, names []string) {
	tb.Helper()
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			tb.Fatal(err)
		}
	}
}
