package cloud

import (
	"context"
	"net/url"
	"os"
	"strconv"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob"
	"gocloud.dev/gcp"
)

// tries is how often a request to Google is sent that fails for a while, with pauses of
// some seconds; the clients of the others are as patient by themselves. Uploads have a
// bound of their own, of half a minute for a part.
const tries = 4

// patience bounds what the client of Google waits for a service that does not answer:
// it tries for ever.
func patience(b *blob.Bucket) {
	var client *storage.Client
	if b.As(&client) {
		client.SetRetry(storage.WithMaxAttempts(tries))
	}
}

// credentials answers that there are none for a bucket of Google. Its driver writes that
// to standard output, and goes on without.
func credentials(ctx context.Context, u *url.URL) error {
	q := u.Query()
	anonymous, _ := strconv.ParseBool(q.Get("anonymous")) // the driver refuses what is neither
	if u.Scheme != "gs" || anonymous || q.Get("access_id") == "-" || os.Getenv("STORAGE_EMULATOR_HOST")+os.Getenv("STORAGE_EMULATOR_HOST_GRPC") != "" {
		return nil
	}
	_, err := gcp.DefaultCredentials(ctx)
	return err
}
