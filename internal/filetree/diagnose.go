package filetree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// lowRoom is the free room, in bytes, below which a disk is about to be full.
const lowRoom = 64 << 20

// Diagnose checks the directory, its mode, the disk, and looks for files that
// are no records and for edits that were kept.
func (t *Tree) Diagnose(ctx context.Context) []tiers.Finding {
	if err := t.enter(ctx); err != nil {
		return []tiers.Finding{{Subject: "directory", Message: err.Error(), Hint: "open the store"}}
	}
	findings := []tiers.Finding{t.findDirectory(), t.findWritable(ctx)}
	findings = append(findings, t.findDisk()...)
	t.gate.leave()
	return append(findings, t.findFiles(ctx)...)
}

func (t *Tree) findDirectory() tiers.Finding {
	f := tiers.Finding{Subject: "directory"}
	fi, err := os.Stat(t.base)
	switch {
	case err != nil:
		f.Message, f.Hint = err.Error(), "bring the directory back, and open the store again"
	case fi.Mode().Perm()&0o077 != 0:
		f.Message = fmt.Sprintf("%s has mode %04o, so others can look into it", t.base, fi.Mode().Perm())
		f.Hint = "chmod 700 " + t.base
	default:
		f.OK, f.Message = true, fmt.Sprintf("%s, mode %04o", t.base, fi.Mode().Perm())
	}
	return f
}

func (t *Tree) findWritable(ctx context.Context) tiers.Finding {
	f := tiers.Finding{Subject: "writing"}
	if err := t.writable(); err != nil {
		f.Message, f.Hint = err.Error(), reopen
		return f
	}
	name := fmt.Sprintf(probePrefix+"%x-%d", t.id, t.temps.Add(1))
	err := t.root.WriteFile(name, nil, 0o600)
	if err == nil {
		err = t.root.Remove(name)
	}
	if err == nil {
		if own := t.ownFiles(ctx); own != nil {
			f.Message, f.Hint = own.Error(), "look at the room on the disk, and at the owner and mode of the file"
			if errors.Is(own, tiers.ErrCorrupt) {
				f.Hint = "move it out of the way; it is made again"
			}
			return f
		}
	}
	if err != nil {
		f.Message, f.Hint = err.Error(), "look at the mount, at the directory's owner and mode, and at the room on the disk"
		return f
	}
	f.OK, f.Message = true, "files can be made and removed"
	return f
}

// ownFiles looks at the files that the tree keeps for itself.
func (t *Tree) ownFiles(ctx context.Context) error {
	if err := t.mark.update(ctx, func(issued tiers.Version) tiers.Version { return issued }); err != nil {
		return withoutHint(err)
	}
	dir, err := openDirectory(t.root, lockDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return withoutHint(notOwn(t.root, lockDir, "can't be read: "+err.Error()))
	}
	entries, err := dir.ReadDir(-1)
	if err = also(err, dir.Close()); err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			return withoutHint(notOwn(t.root, lockDir+"/"+e.Name(), "is not a regular file"))
		}
	}
	return nil
}

// withoutHint leaves out what the finding says itself.
func withoutHint(err error) error {
	if e, ok := errors.AsType[*tiers.Error](err); ok && e.Err != nil {
		return e.Err
	}
	return err
}

func (t *Tree) findDisk() []tiers.Finding {
	d, err := t.disk(t.base)
	if err != nil {
		return []tiers.Finding{{Subject: "disk room", Message: err.Error(), Hint: "look at the mount"}}
	}
	var out []tiers.Finding
	if d.Size > 0 {
		f := tiers.Finding{OK: true, Subject: "disk room", Message: fmt.Sprintf("%d MiB free of %d MiB", d.Free>>20, d.Size>>20)}
		if d.Free < lowRoom {
			f.OK, f.Hint = false, "make room before saves fail"
		}
		out = append(out, f)
	}
	if d.Kind != "" {
		f := tiers.Finding{OK: true, Subject: "file system", Message: d.Kind}
		if d.Network {
			f.OK = false
			f.Message = d.Kind + " is a network file system: its locks and its fsync depend on the server, and other hosts are not held off"
			f.Hint = "use a local disk, or make sure that one host alone writes here"
		}
		out = append(out, f)
	}
	return out
}

// findFiles looks through the whole tree for what is in the wrong place.
func (t *Tree) findFiles(ctx context.Context) []tiers.Finding {
	var foreign, kept []string
	count := func(list *[]string, path string) {
		*list = append(*list, path)
	}
	err := fs.WalkDir(t.root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return fs.SkipAll
		}
		name := e.Name()
		switch {
		case path == ".":
		case strings.Contains(name, edited):
			count(&kept, filepath.Join(t.base, path))
		case name[0] == '.' && e.IsDir():
			return fs.SkipDir
		case name[0] == '.' || e.IsDir():
		default:
			if _, it, ok := t.identifyPath(path, e.Type()); !ok || it.foreign != nil {
				count(&foreign, filepath.Join(t.base, path))
			}
		}
		return nil
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return []tiers.Finding{{Subject: "files", Message: err.Error(), Hint: "ask again"}}
	}
	out := []tiers.Finding{{OK: true, Subject: "files", Message: "every file is a record"}}
	if len(foreign) > 0 {
		out[0] = tiers.Finding{
			Subject: "files", Message: fmt.Sprintf("%d files are no records, such as %s", len(foreign), foreign[0]),
			Hint: "a list of their category names the right name of each; rename them or move them away",
		}
	}
	if len(kept) > 0 {
		out = append(out, tiers.Finding{
			Subject: "kept edits", Message: fmt.Sprintf("%d edits by hand met a save and were kept beside the record, such as %s", len(kept), kept[0]),
			Hint: "take from them what you need, and remove them",
		})
	}
	return out
}

// identifyPath answers the space and the key of the file at a path below the tree; ok
// is false for one that lies in no space.
func (t *Tree) identifyPath(path string, mode fs.FileMode) (s tiers.Space, it item, ok bool) {
	dirs := strings.Split(path, "/")
	name := dirs[len(dirs)-1]
	dirs = dirs[:len(dirs)-1]
	rest := dirs
	if len(rest) > 0 && rest[0][0] == '@' {
		s.Namespace, rest = rest[0][1:], rest[1:]
	}
	for i, dir := range rest {
		part, goesOn := strings.CutSuffix(dir, more)
		s.Category += unescape(part)
		if goesOn {
			continue
		}
		prefix := ""
		for _, dir := range rest[i+1:] {
			prefix = below(prefix, dir)
		}
		return s, t.identify(s, dirs, prefix, name, mode), true
	}
	return s, it, false
}
