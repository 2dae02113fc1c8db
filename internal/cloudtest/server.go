// Package cloudtest runs servers for tests, in the test's process, that speak as much of
// the protocols of object stores as backups need.
//
//	s := cloudtest.Google(t)
//	b, err := cloud.Open(ctx, s.URL("below/this"))
//
// Each has one bucket, called [Bucket], whose objects are in memory. The environment of
// the test gets the credentials that the clients look for, and loses what the machine
// has of its own.
package cloudtest

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Bucket is the bucket that each server has.
const Bucket = "bucket"

// Secret is part of what the clients are let in by, and of no text that they may show.
const Secret = "s3cret"

// Server is a server of one bucket. It ends with the test.
type Server struct {
	scheme string
	host   string
	query  string
	speak  func(s *Server, w http.ResponseWriter, r *http.Request)
	deny   func(w http.ResponseWriter, status int)

	mu      sync.Mutex
	objects map[string][]byte
	uploads map[string]map[string][]byte // parts by the id of their upload
	begun   int                          // uploads so far
	page    int                          // the most names in an answer
	refuse  func(*http.Request) int
}

func start(tb testing.TB, scheme, query string, s *Server) *Server {
	tb.Helper()
	s.objects, s.uploads, s.page = map[string][]byte{}, map[string]map[string][]byte{}, 1000
	server := httptest.NewServer(s)
	tb.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	s.scheme, s.host = scheme, server.Listener.Addr().String()
	s.query = strings.ReplaceAll(query, "HOST", s.host)
	return s
}

// set leaves nothing of the machine's configuration to a client.
func set(tb testing.TB, env map[string]string) {
	tb.Helper()
	for name, value := range env {
		tb.Setenv(name, value)
	}
}

// URL answers the URL of a path in the bucket, as backup/cloud takes it.
func (s *Server) URL(path string) string {
	return s.scheme + "://" + Bucket + strings.TrimSuffix("/"+path, "/") + s.query
}

// Objects answers the names of the objects, in order.
func (s *Server) Objects() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Fill puts empty objects of these names.
func (s *Server) Fill(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.objects[name] = nil
	}
}

// Damage replaces the object of a name, which has to be there.
func (s *Server) Damage(tb testing.TB, name string) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, is := s.objects[name]; !is {
		tb.Fatalf("there is no %s to damage", name)
	}
	s.objects[name] = []byte("damaged")
}

// Unfinished answers how many uploads were begun and neither ended nor given up.
func (s *Server) Unfinished() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

// Refuse lets requests be answered with a status of failure: that which a function of
// them answers, or none for 0. A nil function refuses nothing. It runs while the server
// answers nothing else.
func (s *Server) Refuse(with func(*http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = with
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := payload(r)
	if err != nil { // the client has left in the middle
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		if status := s.refuse(r); status != 0 {
			s.deny(w, status)
			return
		}
	}
	s.speak(s, w, r.WithContext(context.WithValue(r.Context(), whole{}, body)))
}

// whole is the key of a request's body, which is read before the others wait.
type whole struct{}

func sent(r *http.Request) []byte {
	b, _ := r.Context().Value(whole{}).([]byte)
	return b
}

// changed is when every object was.
func changed() time.Time { return time.Date(2026, time.November, 28, 3, 30, 0, 0, time.UTC) }

// get answers an object, or the part that is asked for.
func (s *Server) get(w http.ResponseWriter, r *http.Request, name string) {
	http.ServeContent(w, r, "", changed(), bytes.NewReader(s.objects[name]))
}

// names answers those with a prefix that come after a name, and whether there are more.
func (s *Server) names(prefix, after string) (names []string, more bool) {
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(name, prefix) || name <= after {
			continue
		}
		if len(names) == s.page {
			return names, true
		}
		names = append(names, name)
	}
	return names, false
}

// begin answers the id of a new upload.
func (s *Server) begin() string {
	s.begun++
	id := fmt.Sprint("upload-", s.begun)
	s.uploads[id] = map[string][]byte{}
	return id
}

func answerXML(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(v)
}
