package cloudtest

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// S3 starts a server that speaks the protocol of Amazon S3, addressed by path.
func S3(tb testing.TB) *Server {
	tb.Helper()
	none := tb.TempDir() + "/none"
	set(tb, map[string]string{
		"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": Secret, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none,
		"AWS_PROFILE": "", "AWS_SESSION_TOKEN": "", "AWS_ENDPOINT_URL": "", "AWS_MAX_ATTEMPTS": "1",
	})
	return start(tb, "s3", "?region=us-east-1&use_path_style=true&endpoint=http://HOST", &Server{speak: (*Server).s3, deny: denyS3})
}

func (s *Server) s3(w http.ResponseWriter, r *http.Request) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q := r.URL.Query()
	parts, uploads := s.uploads[q.Get("uploadId")]
	switch {
	case bucket != Bucket:
		failS3(w, http.StatusNotFound, "NoSuchBucket")
	case r.Method == http.MethodGet && key == "":
		s.listS3(w, q.Get("prefix"), q.Get("continuation-token"))
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		if _, is := s.objects[key]; !is {
			failS3(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		s.get(w, r, key)
	case r.Method == http.MethodPost && q.Has("uploads"):
		answerXML(w, struct {
			XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
			UploadID string   `xml:"UploadId"`
		}{UploadID: s.begin()})
	case q.Has("uploadId") && !uploads: // it was aborted meanwhile
		failS3(w, http.StatusNotFound, "NoSuchUpload")
	case r.Method == http.MethodPut && q.Has("uploadId"):
		n, err := strconv.Atoi(q.Get("partNumber"))
		if err != nil {
			failS3(w, http.StatusBadRequest, "InvalidArgument")
			return
		}
		parts[fmt.Sprintf("%05d", n)] = sent(r)
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, n))
	case r.Method == http.MethodPost && q.Has("uploadId"):
		var whole []byte
		for _, n := range slices.Sorted(maps.Keys(parts)) {
			whole = append(whole, parts[n]...)
		}
		s.objects[key] = whole
		delete(s.uploads, q.Get("uploadId"))
		answerXML(w, struct {
			XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
			Key     string
		}{Key: key})
	case r.Method == http.MethodPut:
		s.objects[key] = sent(r)
	case r.Method == http.MethodDelete:
		if q.Has("uploadId") {
			delete(s.uploads, q.Get("uploadId"))
		} else {
			delete(s.objects, key)
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		failS3(w, http.StatusNotImplemented, "NotImplemented")
	}
}

func (s *Server) listS3(w http.ResponseWriter, prefix, after string) {
	type content struct {
		Key, LastModified string
		Size              int
	}
	var page struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []content
	}
	names, more := s.names(prefix, after)
	for _, name := range names {
		page.Contents = append(page.Contents, content{Key: name, Size: len(s.objects[name]), LastModified: changed().Format(time.RFC3339)})
	}
	if more {
		page.IsTruncated, page.NextContinuationToken = true, names[len(names)-1]
	}
	answerXML(w, page)
}

func denyS3(w http.ResponseWriter, status int) { failS3(w, status, "Refused") }

func failS3(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>as the test wants it</Message></Error>", code)
}

// payload reads a body, which may be in chunks of Amazon's own that have their lengths
// before them and checksums after the last.
func payload(r *http.Request) ([]byte, error) {
	if !strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
		return io.ReadAll(r.Body)
	}
	var whole bytes.Buffer
	in := bufio.NewReader(r.Body)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		length, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(length, 16, 64)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			_, err := io.Copy(io.Discard, in)
			return whole.Bytes(), err
		}
		if _, err := io.CopyN(&whole, in, n); err != nil {
			return nil, err
		}
		if _, err := in.Discard(len("\r\n")); err != nil {
			return nil, err
		}
	}
}
