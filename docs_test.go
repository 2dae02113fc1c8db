package sagestore_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/config"
)

// blocks answers the fenced blocks of a page that are marked with lang.
func blocks(t *testing.T, page, lang string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```"+lang+"\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		out = append(out, m[1])
	}
	return out
}

// goTool runs the go command on a program of the page, laid over an empty
// folder of this module.
func goTool(t *testing.T, source string, args ...string) (stdout string) {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "main.go")
	if err := os.WriteFile(program, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "internal", "readme", "main.go"): program}})
	if err != nil {
		t.Fatal(err)
	}
	layer := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(layer, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{args[0], "-overlay", layer}, args[1:]...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "TMPDIR="+dir) // the program leaves its data
	var stderr strings.Builder
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(b)
}

func TestProgramOfReadmeRuns(t *testing.T) {
	ran := false
	for _, source := range blocks(t, "README.md", "go") {
		if !strings.HasPrefix(source, "package main") {
			continue
		}
		ran = true
		if got, want := goTool(t, source, "run", "./internal/readme"), "dark\n"; got != want {
			t.Errorf("it prints %q, want %q", got, want)
		}
	}
	if !ran {
		t.Error("README.md shows no program")
	}
}

func TestConfigurationsOfReadmeLoad(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	texts := blocks(t, "README.md", "yaml")
	if len(texts) == 0 {
		t.Fatal("README.md shows no configuration")
	}
	for _, text := range texts {
		if _, err := config.Parse([]byte(text), config.Source("README.md")); err != nil {
			t.Error(err)
		}
	}
}

// The commands that the README shows are run as they stand, but for those that
// fetch from elsewhere or run for minutes.
func TestCommandsOfReadmeRun(t *testing.T) {
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "sagestore"), "./cmd/sagestore")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	home := t.TempDir()
	ran := 0
	for _, text := range blocks(t, "README.md", "console") {
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "sagestore ") {
				continue
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
			cmd.Dir = home
			cmd.Env = append(os.Environ(), "HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"), "SAGESTORE_CONFIG=")
			out, err := cmd.CombinedOutput()
			// doctor ends with 1 when it has advice, such as that there is no backup.
			if err != nil && !strings.HasPrefix(line, "sagestore doctor") {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
			ran++
		}
	}
	if ran == 0 {
		t.Error("README.md shows no command")
	}
}
