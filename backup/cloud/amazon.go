package cloud

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
)

// abortTime bounds the removal of what an upload that failed has sent.
const abortTime = 30 * time.Second

// abort removes the parts of an upload to S3 that failed. They are no object, and are
// paid for until they go; the client does not remove them once its context has ended.
func (b *Bucket) abort(ctx context.Context, name string, failed error) error {
	var (
		upload interface{ UploadID() string }
		client *s3.Client
	)
	if !errors.As(failed, &upload) || !b.inner.As(&client) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	id, key := upload.UploadID(), b.prefix+name
	_, err := client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &b.host, Key: &key, UploadId: &id})
	var gone interface{ ErrorCode() string }
	if errors.As(err, &gone) && gone.ErrorCode() == "NoSuchUpload" {
		return nil // the client has removed it
	}
	return b.faults.read(ctx, err)
}

// quiet keeps the client from writing to standard error that an object has no checksum
// of the service's own: every object of a backup has its hash in the manifest.
func quiet() *blob.ReaderOptions {
	return &blob.ReaderOptions{BeforeRead: func(as func(any) bool) error {
		var options *[]func(*s3.Options)
		if as(&options) {
			*options = append(*options, func(o *s3.Options) { o.DisableLogOutputChecksumValidationSkipped = true })
		}
		return nil
	}}
}
