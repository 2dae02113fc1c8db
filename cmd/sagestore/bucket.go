package main

import (
	"context"
	"io"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/backup/cloud"
)

// openBucket opens what a URL names as the place of backups.
func openBucket(ctx context.Context, url string) (backup.Bucket, io.Closer, error) {
	b, err := cloud.Open(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	return b.Unwrap(), b, nil
}
