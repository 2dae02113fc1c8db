package manager

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"

	"github.com/sagestore/sagestore/tiers"
)

// localRows is the system store of a server that several machines share, as one of
// them sees it: the rows of the journal for a tree of files are for that tree alone,
// though every machine calls its own tree "file". In the store they are of the tier
// NAME@ID, where the id is kept in the tree.
type localRows struct {
	tiers.System
	committer tiers.Committer
	ids       map[string]string // of the tiers that are this machine's
	places    map[string]string // of those, where they are
}

var (
	_ tiers.System    = (*localRows)(nil)
	_ tiers.Committer = (*localRows)(nil)
	_ tiers.Waiter    = (*localRows)(nil)
	_ tiers.Holder    = (*localRows)(nil)
)

// keepLocalRows puts the ids of the trees between the journal and a system store that
// other machines share.
func (c *core) keepLocalRows() error {
	if c.committer == nil || tiers.Describe(c.systemTier).Scope != tiers.ScopeStore {
		return nil
	}
	l := &localRows{System: c.system, committer: c.committer, ids: map[string]string{}, places: map[string]string{}}
	for name, s := range c.stations {
		if s.info.Scope != tiers.ScopeHost {
			continue
		}
		id, err := treeID(s.info.Place)
		if err != nil {
			return tiers.Fail("open", name, tiers.Key{}, fmt.Errorf("the id of the tree in %s: %w", s.info.Place, err))
		}
		l.ids[name], l.places[name] = id, s.info.Place
	}
	if len(l.ids) > 0 {
		c.system, c.committer = l, l
	}
	return nil
}

// treeIDFile holds the id of a tree, in hexadecimal.
const treeIDFile = ".sage-id"

// treeID answers the id of a tree, which the first to ask makes.
func treeID(dir string) (id string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	var made [8]byte
	_, _ = rand.Read(made[:]) // never fails
	text, err := root.ReadFile(treeIDFile)
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(hex.EncodeToString(made[:]))
		beside := treeIDFile + "." + string(text)
		if err = root.WriteFile(beside, text, 0o600); err == nil {
			err = root.Link(beside, treeIDFile) // of several who make it one is the first
			err = errors.Join(ignore(err, fs.ErrExist), root.Remove(beside))
		}
		if err == nil {
			text, err = root.ReadFile(treeIDFile)
		}
	}
	if err != nil {
		return "", err
	}
	id = strings.TrimSpace(string(text))
	if b, err := hex.DecodeString(id); err != nil || len(b) != len(made) {
		return "", tiers.Hint(fmt.Errorf("%w: %s is no id", tiers.ErrCorrupt, treeIDFile), "remove the file; writes that wait for this tree are lost then")
	}
	return id, nil
}

func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}

// in answers what the store calls a tier, or something of a tier that is named after it.
func (l *localRows) in(name string) string {
	tier, rest, dotted := strings.Cut(name, ".")
	id, local := l.ids[tier]
	switch {
	case !local:
		return name
	case dotted:
		return tier + "@" + id + "." + rest
	}
	return tier + "@" + id
}

// out is the inverse of in.
func (l *localRows) out(name string) string {
	tier, rest, _ := strings.Cut(name, "@")
	if id, local := l.ids[tier]; local {
		if after, ok := strings.CutPrefix(rest, id); ok {
			return tier + after
		}
	}
	return name
}

func (l *localRows) rowsIn(rows []tiers.Row) []tiers.Row {
	in := make([]tiers.Row, len(rows))
	for i, r := range rows {
		r.Tier = l.in(r.Tier)
		in[i] = r
	}
	return in
}

func (l *localRows) rowsOut(rows []tiers.Row) []tiers.Row {
	for i := range rows {
		rows[i].Tier = l.out(rows[i].Tier)
	}
	return rows
}

// told names the tier in an error as the caller does.
func (l *localRows) told(err error) error {
	for _, e := range errorsIn(err) {
		e.Tier = l.out(e.Tier)
	}
	return err
}

func errorsIn(err error) (all []*tiers.Error) {
	switch e := err.(type) { //nolint:errorlint // every one of a chain is looked at
	case nil:
	case *tiers.Error:
		all = append(errorsIn(e.Err), e)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			all = append(all, errorsIn(inner)...)
		}
	case interface{ Unwrap() error }:
		all = errorsIn(e.Unwrap())
	}
	return all
}

func (l *localRows) Append(ctx context.Context, rows []tiers.Row, conds []tiers.Cond, limit int64) ([]tiers.Row, error) {
	out, err := l.System.Append(ctx, l.rowsIn(rows), conds, limit)
	return l.rowsOut(out), l.told(err)
}

func (l *localRows) Pending(ctx context.Context, tier string, k tiers.Key) (tiers.Row, error) {
	r, err := l.System.Pending(ctx, l.in(tier), k)
	r.Tier = l.out(r.Tier)
	return r, l.told(err)
}

func (l *localRows) ListPending(ctx context.Context, tier string, q tiers.Query) iter.Seq2[tiers.Row, error] {
	return func(yield func(tiers.Row, error) bool) {
		for r, err := range l.System.ListPending(ctx, l.in(tier), q) {
			r.Tier = l.out(r.Tier)
			if !yield(r, l.told(err)) {
				return
			}
		}
	}
}

func (l *localRows) Due(ctx context.Context, tier string, after uint64, limit int) ([]tiers.Row, error) {
	rows, err := l.System.Due(ctx, l.in(tier), after, limit)
	return l.rowsOut(rows), l.told(err)
}

func (l *localRows) Done(ctx context.Context, rows []tiers.Row) error {
	return l.told(l.System.Done(ctx, l.rowsIn(rows)))
}

func (l *localRows) Backlog(ctx context.Context, tier string) (tiers.Backlog, error) {
	b, err := l.System.Backlog(ctx, l.in(tier))
	return b, l.told(err)
}

// Lock implements tiers.Locker. A lock about a tree is one of this machine as well, which
// ends with the process that has it and not with a connection.
func (l *localRows) Lock(ctx context.Context, name string) (unlock func(), ok bool, err error) {
	tier, rest, _ := strings.Cut(name, ".")
	place, local := l.places[tier]
	if !local {
		return l.System.Lock(ctx, l.in(name))
	}
	tree, err := lockTree(place, rest)
	if tree == nil || err != nil {
		return nil, false, err
	}
	store, ok, err := l.System.Lock(ctx, l.in(name))
	if !ok || err != nil {
		tree()
		return nil, false, err
	}
	return func() { store(); tree() }, true, nil
}

// Holds implements tiers.Holder, where the store does. The lock in a tree is enough.
func (l *localRows) Holds(ctx context.Context, name string) (bool, error) {
	tier, _, _ := strings.Cut(name, ".")
	h, ok := l.System.(tiers.Holder)
	if _, local := l.places[tier]; local || !ok {
		return true, nil
	}
	return h.Holds(ctx, l.in(name))
}

// lockTree takes a lock among those of a tree; unlock is nil while somebody has it.
func lockTree(dir, name string) (unlock func(), err error) {
	dir = filepath.Join(dir, ".lock")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// Open for reading and writing, what is a pipe holds nobody up.
	lock := flock.New(filepath.Join(dir, name), flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDWR))
	if ok, err := lock.TryLock(); !ok || err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return func() { _ = lock.Close() }, nil // closing gives the lock back
}

func (l *localRows) Fact(ctx context.Context, name string) ([]byte, error) {
	return l.System.Fact(ctx, l.in(name))
}

func (l *localRows) SetFact(ctx context.Context, name string, value []byte, ifAbsent bool) ([]byte, error) {
	return l.System.SetFact(ctx, l.in(name), value, ifAbsent)
}

// Waits implements tiers.Waiter.
func (l *localRows) Waits(tier string, k tiers.Key) bool {
	w, ok := l.System.(tiers.Waiter)
	return !ok || w.Waits(l.in(tier), k)
}

func (l *localRows) Commit(ctx context.Context, c tiers.Commit) (tiers.Committed, error) {
	c.Rows = l.rowsIn(c.Rows)
	reads, ranges := make([]tiers.RowRead, len(c.RowReads)), make([]tiers.RowRange, len(c.RowRanges))
	for i, r := range c.RowReads {
		r.Tier = l.in(r.Tier)
		reads[i] = r
	}
	for i, r := range c.RowRanges {
		r.Tier = l.in(r.Tier)
		ranges[i] = r
	}
	limits := make(map[string]int64, len(c.RowLimits))
	for tier, n := range c.RowLimits {
		limits[l.in(tier)] = n
	}
	c.RowReads, c.RowRanges, c.RowLimits = reads, ranges, limits
	out, err := l.committer.Commit(ctx, c)
	out.Rows = l.rowsOut(out.Rows)
	return out, l.told(err)
}

func (l *localRows) Outcome(ctx context.Context, id string) (bool, error) {
	return l.committer.Outcome(ctx, id)
}

func (l *localRows) Sequence(ctx context.Context) (uint64, error) { return l.committer.Sequence(ctx) }

var _ tiers.RowSwitcher = (*localRows)(nil)

// Switch implements tiers.Switcher.
func (l *localRows) Switch(ctx context.Context, moves []tiers.Move) ([]tiers.Moved, error) {
	moved, _, err := l.SwitchRows(ctx, moves, nil)
	return moved, err
}

// SwitchRows implements tiers.RowSwitcher, where the store does.
func (l *localRows) SwitchRows(ctx context.Context, moves []tiers.Move, rows []tiers.RowMove) ([]tiers.Moved, []int64, error) {
	s, ok := l.committer.(tiers.RowSwitcher)
	if !ok {
		return nil, nil, tiers.Fail("switch", "", tiers.Key{}, tiers.ErrUnsupported)
	}
	in := slices.Clone(rows)
	for i := range in {
		in[i].Tier = l.in(in[i].Tier)
	}
	moved, brought, err := s.SwitchRows(ctx, moves, in)
	return moved, brought, l.told(err)
}

// Marks is that of tiers.Carrier.
func (l *localRows) Marks(ctx context.Context) (tiers.Marks, error) {
	c, ok := l.committer.(tiers.Carrier)
	if !ok {
		return tiers.Marks{}, tiers.Fail("read marks", "", tiers.Key{}, tiers.ErrUnsupported)
	}
	m, err := c.Marks(ctx)
	issued := make(map[string]tiers.Version, len(m.Issued))
	for tier, v := range m.Issued {
		issued[l.out(tier)] = v
	}
	m.Issued = issued
	return m, l.told(err)
}
