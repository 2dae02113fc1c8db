package cloudtest

import (
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

const azureAccount = "account"

// Azure starts a server that speaks the protocol of Azure Blob Storage. A client keeps
// the credentials of the first for the life of the process; all have the same.
func Azure(tb testing.TB) *Server {
	tb.Helper()
	set(tb, map[string]string{
		"AZURE_STORAGE_ACCOUNT": azureAccount, "AZURE_STORAGE_KEY": base64.StdEncoding.EncodeToString([]byte(Secret)),
		"AZURE_STORAGE_SAS_TOKEN": "", "AZURE_STORAGE_CONNECTION_STRING": "", "AZURE_STORAGEBLOB_CONNECTIONSTRING": "",
		"AZURE_STORAGE_DOMAIN": "", "AZURE_STORAGE_PROTOCOL": "", "AZURE_STORAGE_IS_CDN": "", "AZURE_STORAGE_IS_LOCAL_EMULATOR": "",
	})
	return start(tb, "azblob", "?localemu=true&protocol=http&domain=HOST", &Server{speak: (*Server).azure, deny: denyAzure})
}

func (s *Server) azure(w http.ResponseWriter, r *http.Request) {
	account, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	container, name, _ := strings.Cut(rest, "/")
	q := r.URL.Query()
	_, is := s.objects[name]
	switch {
	case !strings.HasPrefix(r.Header.Get("Authorization"), "SharedKey "+azureAccount+":") || account != azureAccount:
		failAzure(w, http.StatusForbidden, "AuthenticationFailed")
	case container != Bucket:
		failAzure(w, http.StatusNotFound, "ContainerNotFound")
	case r.Method == http.MethodGet && name == "" && q.Get("comp") == "list":
		s.listAzure(w, q.Get("prefix"), q.Get("marker"), q.Get("maxresults"))
	case r.Method == http.MethodPut:
		s.putAzure(w, r, name)
	case !is:
		failAzure(w, http.StatusNotFound, "BlobNotFound")
	case r.Method == http.MethodGet:
		if part := r.Header.Get("X-Ms-Range"); part != "" {
			r.Header.Set("Range", part)
		}
		s.get(w, r, name)
	case r.Method == http.MethodDelete:
		delete(s.objects, name)
		w.WriteHeader(http.StatusAccepted)
	default:
		failAzure(w, http.StatusNotImplemented, "UnsupportedHttpVerb")
	}
}

// putAzure takes a blob in one request, or its blocks, which are no blob before the list
// of them has come. Those without a list go by themselves after a week.
func (s *Server) putAzure(w http.ResponseWriter, r *http.Request, name string) {
	q := r.URL.Query()
	switch q.Get("comp") {
	case "block":
		if s.uploads[name] == nil {
			s.uploads[name] = map[string][]byte{}
		}
		s.uploads[name][q.Get("blockid")] = sent(r)
	case "blocklist":
		var list struct {
			Latest []string
		}
		if err := xml.Unmarshal(sent(r), &list); err != nil { //nolint:gosec // it is the test that sends it
			failAzure(w, http.StatusBadRequest, "InvalidXmlDocument")
			return
		}
		var whole []byte
		for _, id := range list.Latest {
			block, is := s.uploads[name][id]
			if !is {
				failAzure(w, http.StatusBadRequest, "InvalidBlockList")
				return
			}
			whole = append(whole, block...)
		}
		s.objects[name] = whole
		delete(s.uploads, name)
	default:
		if r.Header.Get("X-Ms-Blob-Type") != "BlockBlob" {
			failAzure(w, http.StatusBadRequest, "InvalidHeaderValue")
			return
		}
		s.objects[name] = sent(r)
		delete(s.uploads, name)
	}
	w.Header().Set("ETag", `"1"`)
	w.Header().Set("Last-Modified", changed().Format(http.TimeFormat))
	w.WriteHeader(http.StatusCreated)
}

func (s *Server) listAzure(w http.ResponseWriter, prefix, after, most string) {
	type properties struct {
		LastModified string `xml:"Last-Modified"`
		Size         int    `xml:"Content-Length"`
	}
	type item struct {
		Name       string
		Properties properties
	}
	var page struct {
		XMLName    xml.Name `xml:"EnumerationResults"`
		Blobs      []item   `xml:"Blobs>Blob"`
		NextMarker string
	}
	names, more := s.names(prefix, after)
	if n, err := strconv.Atoi(most); err == nil && n < len(names) {
		names, more = names[:n], true
	}
	for _, name := range names {
		page.Blobs = append(page.Blobs, item{Name: name, Properties: properties{LastModified: changed().Format(http.TimeFormat), Size: len(s.objects[name])}})
	}
	if more {
		page.NextMarker = names[len(names)-1]
	}
	answerXML(w, page)
}

func denyAzure(w http.ResponseWriter, status int) {
	code := "Refused"
	if status == http.StatusForbidden {
		code = "AuthenticationFailed"
	}
	failAzure(w, status, code)
}

func failAzure(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Ms-Error-Code", code)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>as the test wants it</Message></Error>", code)
}
