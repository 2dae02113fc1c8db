package cloudtest

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	googleObjects = "/storage/v1/b/"
	googleUploads = "/upload/storage/v1/b/"
)

// Google starts a server that speaks the protocol of Google Cloud Storage. Its client
// knows it by the environment, and sends it no credentials.
func Google(tb testing.TB) *Server {
	tb.Helper()
	s := start(tb, "gs", "", &Server{speak: (*Server).google, deny: denyGoogle})
	set(tb, map[string]string{"STORAGE_EMULATOR_HOST": s.host, "STORAGE_EMULATOR_HOST_GRPC": ""})
	return s
}

func (s *Server) google(w http.ResponseWriter, r *http.Request) {
	if rest, is := strings.CutPrefix(r.URL.Path, googleUploads); is {
		bucket, _, _ := strings.Cut(rest, "/")
		if bucket != Bucket {
			denyGoogle(w, http.StatusNotFound)
			return
		}
		s.uploadGoogle(w, r)
		return
	}
	rest, isObject := strings.CutPrefix(r.URL.Path, googleObjects)
	if !isObject { // what is read is asked for by path
		bucket, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if _, is := s.objects[name]; bucket != Bucket || !is || r.Method != http.MethodGet {
			denyGoogle(w, http.StatusNotFound)
			return
		}
		w.Header().Set("X-Goog-Hash", "crc32c="+sumGoogle(s.objects[name]))
		s.get(w, r, name)
		return
	}
	bucket, name, _ := strings.Cut(rest, "/o")
	name = strings.TrimPrefix(name, "/")
	_, is := s.objects[name]
	switch {
	case bucket != Bucket:
		denyGoogle(w, http.StatusNotFound)
	case r.Method == http.MethodGet && name == "":
		s.listGoogle(w, r.URL.Query().Get("prefix"), r.URL.Query().Get("pageToken"), r.URL.Query().Get("maxResults"))
	case r.Method == http.MethodDelete && is:
		delete(s.objects, name)
		w.WriteHeader(http.StatusNoContent)
	default:
		denyGoogle(w, http.StatusNotFound)
	}
}

// object is what is said of one.
type object struct {
	Kind    string `json:"kind"`
	Bucket  string `json:"bucket"`
	Name    string `json:"name"`
	Size    string `json:"size"`
	Updated string `json:"updated"`
	CRC32C  string `json:"crc32c"`
}

func (s *Server) object(name string) object {
	b := s.objects[name]
	return object{
		Kind: "storage#object", Bucket: Bucket, Name: name, Size: strconv.Itoa(len(b)), Updated: changed().Format(time.RFC3339), CRC32C: sumGoogle(b),
	}
}

func sumGoogle(b []byte) string {
	sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

func (s *Server) listGoogle(w http.ResponseWriter, prefix, after, most string) {
	page := struct {
		Kind  string   `json:"kind"`
		Next  string   `json:"nextPageToken,omitempty"`
		Items []object `json:"items"`
	}{Kind: "storage#objects"}
	names, more := s.names(prefix, after)
	if n, err := strconv.Atoi(most); err == nil && n < len(names) {
		names, more = names[:n], true
	}
	for _, name := range names {
		page.Items = append(page.Items, s.object(name))
	}
	if more {
		page.Next = names[len(names)-1]
	}
	answerJSON(w, page)
}

// uploadGoogle takes an object in one request, or in chunks of an upload that is named
// by where they go. Only the last chunk makes it an object.
func (s *Server) uploadGoogle(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	id, name := q.Get("upload_id"), q.Get("name")
	parts, begun := s.uploads[id]
	switch {
	case r.Method == http.MethodPost && q.Get("uploadType") == "multipart":
		b, err := secondPart(r)
		if err != nil {
			denyGoogle(w, http.StatusBadRequest)
			return
		}
		s.objects[name] = b
		answerJSON(w, s.object(name))
	case r.Method == http.MethodPost && q.Get("uploadType") == "resumable":
		w.Header().Set("Location", "http://"+r.Host+googleUploads+Bucket+"/o?upload_id="+s.begin()+"&name="+name)
	case (r.Method == http.MethodPut || r.Method == http.MethodPost) && begun:
		parts[""] = append(parts[""], sent(r)...)
		_, total, _ := strings.Cut(r.Header.Get("Content-Range"), "/")
		if total == "*" {
			w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(parts[""])-1))
			w.Header().Set("X-Http-Status-Code-Override", "308")
			return
		}
		s.objects[name] = parts[""]
		delete(s.uploads, id)
		answerJSON(w, s.object(name))
	case r.Method == http.MethodDelete && begun:
		delete(s.uploads, id)
		w.WriteHeader(499) // as the service answers
	default:
		denyGoogle(w, http.StatusNotFound)
	}
}

// secondPart answers the object of a request that has what is said of it before it.
func secondPart(r *http.Request) ([]byte, error) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	parts := multipart.NewReader(bytes.NewReader(sent(r)), params["boundary"])
	if _, err := parts.NextPart(); err != nil {
		return nil, err
	}
	p, err := parts.NextPart()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(p)
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func denyGoogle(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"error":{"code":%d,"message":"as the test wants it"}}`, status)
}
