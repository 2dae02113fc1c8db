package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

func TestWaitingForAValueCanBeInterrupted(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("SAGESTORE_CONFIG", "")
	t.Chdir(t.TempDir())
	in, silent := io.Pipe()
	defer func() { _ = silent.Close() }()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, diag strings.Builder
	a := &app{in: in, out: &out, err: &diag}
	code := a.run(ctx, []string{"save", "session.preferences", "k", "-"})
	if code != exitFailed || out.Len() > 0 || diag.String() != "sagestore: interrupted\n" {
		t.Errorf("code %d, %q, %q", code, out.String(), diag.String())
	}
}

func TestInterruptedDoctorHasNoFindings(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, diag strings.Builder
	a := &app{in: strings.NewReader(""), out: &out, err: &diag}
	code := a.run(ctx, []string{"doctor", "--data-dir", t.TempDir()})
	if code != exitFailed || out.Len() > 0 || diag.String() != "sagestore: interrupted\n" {
		t.Errorf("code %d, %q, %q", code, out.String(), diag.String())
	}
}
