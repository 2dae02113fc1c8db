package cloud_test

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
	"sync"
)

// s3 is a server that speaks as much of the protocol of S3 as backups need: one bucket,
// addressed by path, with objects in memory.
type s3 struct {
	mu      sync.Mutex
	objects map[string][]byte
	uploads map[string]map[int][]byte // parts by the id of their upload
	page    int                       // names in an answer to a list
	refuse  func(r *http.Request) int // a status to answer instead, or 0
}

func newS3() *s3 {
	return &s3{objects: map[string][]byte{}, uploads: map[string]map[int][]byte{}, page: 1000}
}

func (s *s3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := payload(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	status := 0
	if s.refuse != nil {
		status = s.refuse(r)
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q := r.URL.Query()
	switch {
	case err != nil: // the client has left in the middle
		http.Error(w, err.Error(), http.StatusBadRequest)
	case status != 0:
		failS3(w, status, "Refused")
	case bucket != "bucket":
		failS3(w, http.StatusNotFound, "NoSuchBucket")
	case r.Method == http.MethodGet && key == "":
		s.list(w, q.Get("prefix"), q.Get("continuation-token"))
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		if b, ok := s.objects[key]; ok {
			w.Header().Set("Content-Length", strconv.Itoa(len(b)))
			_, _ = w.Write(b)
		} else {
			failS3(w, http.StatusNotFound, "NoSuchKey")
		}
	case r.Method == http.MethodPost && q.Has("uploads"):
		id := fmt.Sprint("upload-", len(s.uploads)+1)
		s.uploads[id] = map[int][]byte{}
		answerS3(w, struct {
			XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
			UploadID string   `xml:"UploadId"`
		}{UploadID: id})
	case r.Method == http.MethodPut && q.Has("uploadId"):
		n, _ := strconv.Atoi(q.Get("partNumber"))
		if parts, ok := s.uploads[q.Get("uploadId")]; ok {
			parts[n] = body
		} else { // it was aborted meanwhile
			failS3(w, http.StatusNotFound, "NoSuchUpload")
			return
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, n))
	case r.Method == http.MethodPost && q.Has("uploadId"):
		parts := s.uploads[q.Get("uploadId")]
		var whole []byte
		for _, n := range slices.Sorted(maps.Keys(parts)) {
			whole = append(whole, parts[n]...)
		}
		s.objects[key] = whole
		delete(s.uploads, q.Get("uploadId"))
		answerS3(w, struct {
			XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
			Key     string
		}{Key: key})
	case r.Method == http.MethodPut:
		s.objects[key] = body
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

func (s *s3) list(w http.ResponseWriter, prefix, after string) {
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
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(name, prefix) || name <= after {
			continue
		}
		if len(page.Contents) == s.page {
			page.IsTruncated, page.NextContinuationToken = true, page.Contents[s.page-1].Key
			break
		}
		page.Contents = append(page.Contents, content{Key: name, Size: len(s.objects[name]), LastModified: "2026-11-28T03:30:00Z"})
	}
	answerS3(w, page)
}

func answerS3(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(v)
}

func failS3(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>as the test wants it</Message></Error>", code)
}

// payload reads a body, which may be in chunks that have their lengths before them and
// checksums after the last.
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
