package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/memblob"   // mem://
	_ "gocloud.dev/blob/s3blob"    // s3://
	"gocloud.dev/gcerrors"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers"
)

// probeTime bounds the first request. Some clients try for ever.
const probeTime = 30 * time.Second

// Schemes answers the schemes of the URLs that [Open] takes. It takes mem:// as well,
// for tests: what is kept there is gone with the process.
func Schemes() []string { return []string{"azblob", "file", "gs", "s3"} }

// Open opens the bucket that a URL names, and asks the service for a first name there:
// that the bucket is absent or may not be read is an error of Open. A directory is made
// when the first object is written. The caller closes the bucket.
//
// A service that can't be reached, or does not let us in, is tiers.ErrUnavailable, with
// a hint that says where credentials are looked for; a bucket that is not there is
// tiers.ErrNotFound; a URL that is none of the above is tiers.ErrUnsupported. No error
// repeats the parameters of the URL.
func Open(ctx context.Context, rawURL string) (*Bucket, error) {
	b, err := open(ctx, rawURL)
	if err != nil {
		return nil, tiers.Fail("open bucket", "", tiers.Key{}, err)
	}
	return b, nil
}

func open(ctx context.Context, rawURL string) (*Bucket, error) {
	u, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "file" {
		dir, err := directory(u)
		if err != nil {
			return nil, err
		}
		return &Bucket{dir: backup.Dir(dir)}, nil
	}
	clean, err := below(u)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	f := faults{scheme: u.Scheme, secret: u.RawQuery}
	if err := credentials(ctx, clean); err != nil {
		return nil, f.refused(ctx, err)
	}
	// A driver keeps the context to renew its credentials by, for the life of the process.
	inner, err := blob.OpenBucket(context.WithoutCancel(ctx), clean.String())
	if err != nil {
		return nil, f.refused(ctx, err)
	}
	patience(inner)
	switch _, _, err := inner.ListPage(ctx, blob.FirstPageToken, 1, nil); {
	case gcerrors.Code(err) == gcerrors.NotFound && absent(err):
		err := fmt.Errorf("%s://%s: %w", u.Scheme, u.Host, tiers.ErrNotFound)
		return nil, errors.Join(tiers.Hint(err, "make the bucket first; it is never made here"), inner.Close())
	case err != nil:
		return nil, errors.Join(f.refused(ctx, err), inner.Close())
	}
	return &Bucket{inner: inner, host: u.Host, prefix: clean.Query().Get("prefix"), faults: f}, nil
}

// parse reads a URL and refuses what would be misread by a driver. Its errors show
// nothing that may be a secret.
func parse(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	if err != nil { // its text repeats the URL
		return nil, tiers.Hint(fmt.Errorf("%w: this is no URL", tiers.ErrUnsupported), "write it as s3://BUCKET/PATH")
	}
	if !slices.Contains(Schemes(), u.Scheme) && u.Scheme != "mem" {
		return nil, tiers.Hint(fmt.Errorf("%w: the URL has none of the schemes %s", tiers.ErrUnsupported, strings.Join(Schemes(), ", ")),
			"write it as s3://BUCKET/PATH")
	}
	if u.User != nil {
		return nil, tiers.Hint(fmt.Errorf("%w: there are credentials in the URL", tiers.ErrUnsupported), whereCredentials(u.Scheme))
	}
	if u.Fragment != "" || u.Opaque != "" {
		return nil, tiers.Hint(fmt.Errorf("%w: the URL is not complete", tiers.ErrUnsupported), "write it as s3://BUCKET/PATH")
	}
	if u.Host == "" && u.Scheme != "file" && u.Scheme != "mem" {
		return nil, tiers.Hint(fmt.Errorf("%w: the URL names no bucket", tiers.ErrUnsupported), "write it as "+u.Scheme+"://BUCKET/PATH")
	}
	return u, nil
}

// below answers the URL as its driver takes it: the drivers look at the host alone, and
// take what is below it as a parameter.
func below(u *url.URL) (*url.URL, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%w: the parameters of the URL can't be read", tiers.ErrUnsupported)
	}
	given := strings.Trim(u.Path, "/")
	if p := strings.Trim(q.Get("prefix"), "/"); p != "" {
		if given != "" {
			return nil, tiers.Hint(fmt.Errorf("%w: the URL has a path and a prefix", tiers.ErrUnsupported), "leave one of them out")
		}
		given = p
	}
	q.Del("prefix")
	if given != "" {
		if !nameForm.MatchString(given) {
			return nil, tiers.Hint(fmt.Errorf("%w: the path %.80q", tiers.ErrKey, given), "use A-Z, a-z, 0-9, dots, underscores and hyphens between the slashes")
		}
		q.Set("prefix", given+"/")
	}
	if q.Has("key") { // it would make a bucket of one object
		return nil, fmt.Errorf("%w: the URL has a parameter key", tiers.ErrUnsupported)
	}
	clean := *u
	clean.Path, clean.RawPath, clean.RawQuery = "", "", q.Encode()
	return &clean, nil
}

// directory answers the path of a file URL. The driver of gocloud.dev neither syncs what
// it writes nor keeps it private, and its list can lose names; backup.Dir does better.
func directory(u *url.URL) (string, error) {
	for name := range u.Query() {
		switch name {
		case "create_dir", "no_tmp_dir", "metadata": // as it is done anyway
		default:
			return "", fmt.Errorf("%w: the URL of a directory has a parameter %.40q", tiers.ErrUnsupported, name)
		}
	}
	path := u.Path
	switch {
	case u.Host == ".":
		path = strings.TrimPrefix(path, "/")
	case u.Host != "" && u.Host != "localhost":
		return "", tiers.Hint(fmt.Errorf("%w: the directory is on another host", tiers.ErrUnsupported), "write file:///PATH, or file://./PATH for a relative one")
	case os.PathSeparator != '/': // file:///c:/backups
		path = strings.TrimPrefix(path, "/")
	}
	if path == "" {
		return "", tiers.Hint(fmt.Errorf("%w: the URL names no directory", tiers.ErrUnsupported), "write file:///PATH, or file://./PATH for a relative one")
	}
	// A tilde is the home directory to Dir, and a name in a URL.
	return filepath.Abs(filepath.FromSlash(path))
}
