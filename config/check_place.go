package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// checkPlace reports a place of backups that can't be one, once all paths are known.
// The default place counts only where backups are made by themselves: a store that has
// none needs no place for them.
func (e *Effective) checkPlace(f *faults) {
	if b := e.raw.Backup; e.cfg.InMemory || !b.Enabled && b.Dest == "" || len(f.found) > 0 {
		return
	}
	at := []string{"backup", "dest"}
	if problem := e.BackupPlace(e.cfg.Backup.Dest); problem != "" {
		f.add(at, e.raw.conceal(at, e.cfg.Backup.Dest, problem))
	}
}

// BackupPlace answers why backups, or what is restored from one, can't be kept at a
// directory or URL; "" is nothing. It looks at the links on the way to a directory.
func (e *Effective) BackupPlace(place string) (problem string) {
	if keepsNothing(place) {
		return inThisProcess
	}
	if e.InMemory || e.cfg.InMemory {
		return ""
	}
	path, local := localPlace(place)
	if !local {
		return ""
	}
	path, err := e.absolute(path)
	if err != nil {
		return err.Error()
	}
	held := []struct{ what, dir string }{
		{"the file tier, file.base_path", e.cfg.File.BasePath},
		{"the state of jobs", filepath.Join(e.DataDir, "jobs")},
	}
	if e.drivers["cache"] == "file" {
		held = append(held, struct{ what, dir string }{"the cache, cache.path", e.cfg.Cache.Path})
	}
	for _, h := range held {
		if h.dir != "" && (within(path, h.dir) || within(followed(path), followed(h.dir))) {
			return fmt.Sprintf("%q is inside %q, which is the directory of %s: name a place outside of it", path, h.dir, h.what)
		}
	}
	return ""
}

const inThisProcess = "mem:// keeps nothing: what is written there is gone with the process: name a directory or a bucket, such as s3://BUCKET/PATH"

// keepsNothing tells a bucket that lives in the memory of one process.
func keepsNothing(place string) bool {
	scheme, _, is := strings.Cut(place, "://")
	return is && strings.EqualFold(scheme, "mem")
}

// localPlace answers the directory that a place is, if it is one.
func localPlace(place string) (path string, ok bool) {
	if !strings.Contains(place, "://") {
		return place, place != ""
	}
	u, err := url.Parse(place)
	if err != nil || u.Scheme != "file" {
		return "", false
	}
	if u.Host == "." {
		return filepath.FromSlash("." + u.Path), true
	}
	return filepath.FromSlash(u.Path), u.Path != ""
}

// followed answers the path without links, as far as it is there.
func followed(path string) string {
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		target, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.Join(target, rest)
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// within tells whether a path is dir or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(os.PathSeparator))
}
