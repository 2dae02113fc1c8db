package cloud_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/backup/buckettest"
	"github.com/sagestore/sagestore/backup/cloud"
	"github.com/sagestore/sagestore/tiers"
)

// serve answers a server of S3 and the URL of a path in its bucket.
func serve(tb testing.TB) (s *s3, url string) {
	tb.Helper()
	s = newS3()
	server := httptest.NewServer(s)
	tb.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		server.Close()
	})
	return s, "s3://bucket/below/this?region=us-east-1&use_path_style=true&endpoint=" + server.URL
}

// alone leaves nothing of the machine's configuration to the client.
func alone(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "s3cret", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": t.TempDir() + "/none", "AWS_SHARED_CREDENTIALS_FILE": t.TempDir() + "/none",
		"AWS_PROFILE": "", "AWS_SESSION_TOKEN": "", "AWS_ENDPOINT_URL": "", "AWS_MAX_ATTEMPTS": "1",
	} {
		t.Setenv(name, value)
	}
}

func TestS3IsABucket(t *testing.T) {
	alone(t)
	buckettest.Run(t, buckettest.Config{
		Open: func(tb testing.TB) backup.Bucket {
			tb.Helper()
			s, url := serve(tb)
			tb.Cleanup(func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				if len(s.uploads) > 0 {
					tb.Errorf("%d uploads were neither ended nor aborted", len(s.uploads))
				}
				for name := range s.objects {
					if !strings.HasPrefix(name, "below/this/") {
						tb.Errorf("%s is not below the path", name)
					}
				}
			})
			return open(tb, url)
		},
		Fill: func(tb testing.TB, b backup.Bucket, names []string) {
			tb.Helper()
			for _, name := range names { // more than one page
				if err := b.Put(tb.Context(), name, strings.NewReader("")); err != nil {
					tb.Fatal(err)
				}
			}
		},
		Names: 1500,
	})
}

func TestAStoreComesBackFromS3(t *testing.T) {
	alone(t)
	_, url := serve(t)
	backUpAndRestore(t, open(t, url))
}

func TestWhatS3AnswersIsToldAsWhatIsKnown(t *testing.T) {
	alone(t)
	s, url := serve(t)
	if _, err := cloud.Open(t.Context(), strings.Replace(url, "//bucket", "//other", 1)); !errors.Is(err, tiers.ErrNotFound) {
		t.Errorf("a bucket that is absent: %v", err)
	}
	b := open(t, url)
	for _, c := range []struct {
		why    string
		status int
		want   error
	}{
		{"we are not let in: nothing was changed", http.StatusForbidden, tiers.ErrUnavailable},
		{"it is too large", http.StatusRequestEntityTooLarge, tiers.ErrTooLarge},
		{"the server fails: nobody knows what it has done", http.StatusInternalServerError, tiers.ErrCommitUnknown},
	} {
		s.refuse = func(r *http.Request) int {
			if r.Method == http.MethodPut {
				return c.status
			}
			return 0
		}
		err := b.Put(t.Context(), "a", strings.NewReader("x"))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), "put a") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want %v", c.why, err, c.want)
		}
	}
	s.refuse = func(*http.Request) int { return http.StatusForbidden }
	if _, err := b.Get(t.Context(), "a"); !errors.Is(err, tiers.ErrUnavailable) || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("got %v", err)
	}
	// The source's error is the one that is told, though the client has its own.
	s.refuse = nil
	broken := errors.New("broken")
	if err := b.Put(t.Context(), "a", iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
