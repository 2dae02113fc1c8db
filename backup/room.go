package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// space is how many bytes are free on a disk, and which one it is.
type space struct {
	free int64
	disk uint64
}

// packed is by how much a part is taken to shrink when no earlier backup tells: so much
// that nobody is refused who has room.
const packed = 20

// needs are how many bytes are going to be written below directories.
type needs map[string]int64

// checkRoom refuses work for which there is no room, before any of it is done. What it
// can't find out it allows. What runs that were killed have left takes no room.
func (r *Repo) checkRoom(n needs) error {
	if err := r.Sweep(); err != nil {
		return fmt.Errorf("remove what killed runs left: %w", err)
	}
	look := r.room
	if look == nil {
		look = roomAt
	}
	wanted, free, at := map[uint64]int64{}, map[uint64]int64{}, map[uint64][]string{}
	for dir, bytes := range n {
		path, err := absolute(dir)
		if err != nil {
			return err
		}
		s, ok := look(existing(path))
		if !ok {
			continue
		}
		wanted[s.disk] += bytes
		free[s.disk] = s.free
		at[s.disk] = append(at[s.disk], path)
	}
	var errs []error
	for disk, bytes := range wanted {
		if bytes > free[disk] {
			slices.Sort(at[disk])
			errs = append(errs, tiers.Hint(fmt.Errorf("%w: about %s are needed in %s, and %s are free", tiers.ErrFull, inMiB(bytes), strings.Join(at[disk], " and in "), inMiB(free[disk])),
				"make room there, or name another place: backup.dest for the backups, backup.temp for what is unpacked, --to for what is restored beside"))
		}
	}
	return errors.Join(errs...)
}

func inMiB(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// existing answers the path, or what it will be made in.
func existing(path string) string {
	for {
		_, err := os.Stat(path)
		if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// tempDir is where temporary directories are made.
func (r *Repo) tempDir() string {
	if r.o.Temp == "" {
		return os.TempDir()
	}
	return r.o.Temp
}

// need is what a backup is going to take, judging by the newest one of the store before it.
func (c *creation) need(ctx context.Context, all []Entry) (needs, error) {
	var last Manifest
	for _, e := range all {
		if e.Err == nil && e.Manifest.Store == c.s.Store && e.Manifest.Number > last.Number {
			last = e.Manifest
		}
	}
	var stored, unpacked, staged int64
	for _, p := range c.s.Parts {
		content, err := p.Frozen.Content(ctx, FactEpoch)
		if err != nil {
			return nil, part(p.Name, err)
		}
		plain, pack := content.Size, content.Size/packed
		i := slices.IndexFunc(last.Parts, func(q PartInfo) bool { return q.Name == p.Name && q.Plain.Bytes > 0 })
		if i >= 0 {
			before := last.Parts[i]
			if plain < 0 {
				plain = before.Plain.Bytes
			}
			pack = int64(float64(plain) * float64(before.Stored.Bytes) / float64(before.Plain.Bytes))
		}
		stored += max(pack, 0)
		staged, unpacked = max(staged, pack), max(unpacked, plain)
	}
	n := needs{c.r.tempDir(): unpacked}
	if b, local := c.r.bucket.(*dirBucket); local {
		n[b.path] += stored
	} else {
		n[c.r.tempDir()] = max(unpacked, staged) // one after the other
	}
	return n, nil
}

// need is what a restore is going to take.
func (w *restore) need(places map[string]string) needs {
	n := needs{}
	for _, p := range w.parts {
		n[filepath.Dir(places[p.Name])] += p.Plain.Bytes
	}
	return n
}
