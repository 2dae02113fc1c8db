package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// below marks a default place inside the data directory.
const below = "<data_dir>/"

// locate makes every path absolute.
func (e *Effective) locate(f *faults) {
	if e.cfg.InMemory {
		return
	}
	dir, err := e.absolute(e.cfg.DataDir)
	if err != nil {
		f.add([]string{"data_dir"}, err.Error())
		return
	}
	e.DataDir, e.cfg.DataDir = dir, dir
	edit(e.cfg, func(l leaf) {
		if !l.file || !isPath(l.value.String()) {
			return
		}
		p, err := e.absolute(l.value.String())
		if err != nil {
			f.add(l.at, err.Error())
		}
		l.value.SetString(p)
	})
}

// isPath tells whether a value of a path setting is one; the others are ""
// and words that only look like it.
func isPath(p string) bool { return p != "" && p != ":memory:" && !strings.Contains(p, "://") }

func isHome(p string) bool {
	return p == "~" || strings.HasPrefix(p, "~/") || strings.HasPrefix(p, `~\`) && runtime.GOOS == "windows"
}

// absolute expands "<data_dir>" and "~", and joins what is relative with the
// working directory; the paths of a file were joined with its directory before.
func (e *Effective) absolute(p string) (string, error) {
	if rest, is := strings.CutPrefix(p, below); is {
		return filepath.Join(e.DataDir, rest), nil
	}
	if isHome(p) {
		home, err := homeDir(e.lookup)
		if err != nil {
			return "", err
		}
		return filepath.Join(home, p[1:]), nil
	}
	abs, err := filepath.Abs(p)
	if err != nil {
		return "", fmt.Errorf("the working directory is gone: write an absolute path: %w", err)
	}
	return abs, nil
}

func homeDir(lookup func(string) (string, bool)) (string, error) {
	name := "HOME"
	if runtime.GOOS == "windows" {
		name = "USERPROFILE"
	}
	home, _ := lookup(name)
	switch {
	case home == "":
		return "", errors.New("there is no home directory, since " + name + " is not set: set it, or name a place with --data-dir DIR or data_dir")
	case !filepath.IsAbs(home):
		return "", errors.New("there is no home directory, since " + name + " is not an absolute path: correct it, or name a place with --data-dir DIR or data_dir")
	}
	return home, nil
}

// checkPath answers what is wrong with the text of a path.
func checkPath(p string) (problem string) {
	switch {
	case strings.ContainsRune(p, 0):
		return "holds a NUL byte"
	case strings.HasPrefix(p, "~") && !isHome(p) && isPath(p):
		return fmt.Sprintf("%q: only ~/ is understood: write the path in full", p)
	}
	return ""
}
