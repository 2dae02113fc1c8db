package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sagestore/sagestore/internal/archive"
	"github.com/sagestore/sagestore/tiers"
)

// Source is what a backup is made of: frozen stores of one instant.
type Source struct {
	Began time.Time         // when it began to be frozen, if that was before Create; zero: it was not
	Store string            // id of the store; may be empty
	Tools map[string]string // versions of what makes the backup
	Parts []Part
	// RefuseEmpty makes a store without any record ErrEmpty.
	RefuseEmpty bool
	// Progress is told from time to time how far the work is. It must not block.
	Progress func(Progress)
}

// Part is one store of a source.
type Part struct {
	Name string // database, file, ...
	// Path is where the part goes below a directory that is restored into, such as
	// sage.db or data.
	Path string
	// Frozen is closed by Create, as soon as it is copied.
	Frozen tiers.Frozen
}

// Progress is how far the making of a backup, its verification or a restore is.
type Progress struct {
	Step  string // copy, verify or restore
	Part  string
	Done  int64 // bytes of the part, before they are packed
	Total int64 // -1: not known
}

// every is after how many bytes progress is told.
const every = 4 << 20

// progress makes of a callback one that is called now and then.
func progress(tell func(Progress), step, part string, total int64) func(int64) {
	if tell == nil {
		return nil
	}
	next := int64(0)
	return func(n int64) {
		if n >= next || n == total {
			next = n + every
			tell(Progress{Step: step, Part: part, Done: n, Total: total})
		}
	}
}

// check refuses a source that makes no backup, or one that can't be restored.
func (s *Source) check() error {
	if len(s.Parts) == 0 {
		return errors.New("there is nothing to back up: the source has no part")
	}
	m := Manifest{}
	for _, p := range s.Parts {
		if p.Frozen == nil {
			return fmt.Errorf("part %q is not frozen", p.Name)
		}
		sum := Digest{SHA256: sumOf(nil)}
		m.Parts = append(m.Parts, PartInfo{Name: p.Name, Path: p.Path, Object: p.Name, Encoding: []string{encodingZstd}, Plain: sum, Stored: sum})
	}
	if err := m.check(); err != nil {
		return fmt.Errorf("%w: %s", tiers.ErrUnsupported, err.Error()) // nothing is damaged
	}
	return nil
}

func (s *Source) close() (err error) {
	for _, p := range s.Parts {
		if p.Frozen != nil {
			err = errors.Join(err, p.Frozen.Close())
		}
	}
	return err
}

// Tree is a directory as a part. It is not frozen: files that change while they are
// copied are as found. skip, which may be nil, tells by their names, with slashes,
// which files and directories to leave out.
func Tree(path string, skip func(name string) bool) (tiers.Frozen, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &tree{root: root, skip: skip}, nil
}

type tree struct {
	root *os.Root
	skip func(string) bool
	sums archive.Sums
}

// Copy implements tiers.Frozen.
func (t *tree) Copy(ctx context.Context, w io.Writer) (err error) {
	t.sums, err = archive.Write(ctx, w, archive.Files(t.root, t.skip))
	return err
}

// Content implements tiers.Frozen. It counts what was copied.
func (t *tree) Content(context.Context, ...string) (tiers.Content, error) {
	return tiers.Content{Format: tiers.FormatTar, Size: -1, Rows: treeRows(t.sums)}, nil
}

// Close implements tiers.Frozen.
func (t *tree) Close() error { return t.root.Close() }

// treeRows are what an archive of files counts.
func treeRows(s archive.Sums) map[string]int64 {
	return map[string]int64{"files": s.Files, "bytes": s.Bytes}
}
