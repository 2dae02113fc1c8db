package filetree

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/sagestore/sagestore/tiers"
)

const (
	markFile = ".mark"
	// markStep is how far ahead, in microseconds, the mark is made durable: one
	// fsync for all saves of that time. After a power cut versions go on from
	// there, unless the clock is beyond it already.
	markStep = 10_000_000
	// farAhead is how far ahead of the clock, in microseconds, a file's version
	// may be and still lift the mark. Beyond that somebody gave the file a wrong
	// time, which must not carry the whole tree along.
	farAhead = 24 * 3600 * 1_000_000
	// maxVersion is the highest version that can be right: it fits a JSON
	// number, and the times that file systems keep. A mark beyond it is damaged.
	maxVersion = 1<<53 - 2
)

// The file's bytes: magic, the highest version issued, the ceiling below which
// versions are durably reserved, and the run of the machine in which it was
// written. Numbers are big-endian.
const (
	markMagic   = "SGM1"
	issuedAt    = 8
	ceilingAt   = 16
	bootAt      = 24
	markSize    = bootAt + 40
	longestBoot = markSize - bootAt
)

// mark issues versions. The highest one that any process has issued is kept in
// a file of the tree, which all processes of the host read and write under its
// lock: what one wrote the next one reads, without an fsync. A ceiling beside it
// is made durable ahead of time. A mark that was written before the last start
// of the machine counts as its ceiling.
type mark struct {
	root   *os.Root
	clock  tiers.Clock
	synced func(error) error // what to make of an fsync's answer; nil: nothing is synced
	boot   string            // tells one run of the machine from the next; empty: unknown

	mu     sync.Mutex
	file   *os.File
	shared []byte        // the file in memory, where the system can
	last   tiers.Version // the highest that this process has seen issued
}

// next answers a version above after, above all issued ones, and not below the
// clock.
func (m *mark) next(ctx context.Context, after tiers.Version) (v tiers.Version, err error) {
	now := m.now()
	err = m.update(ctx, func(issued tiers.Version) tiers.Version {
		v, issued = above(now, issued, after)
		return issued
	})
	return v, err
}

// nextOf answers such a version for each, in one step. All are above floor, which
// counts as issued, however far ahead of the clock it is.
func (m *mark) nextOf(ctx context.Context, floor tiers.Version, after []tiers.Version) ([]tiers.Version, error) {
	now := m.now()
	out := make([]tiers.Version, len(after))
	err := m.update(ctx, func(issued tiers.Version) tiers.Version {
		issued = max(issued, floor)
		for i := range after {
			out[i], issued = above(now, issued, after[i])
		}
		return issued
	})
	return out, err
}

// above answers the version, and what is issued then.
func above(now, issued, after tiers.Version) (v, then tiers.Version) {
	v = max(now, issued+1)
	if after < v {
		return v, v
	}
	v = after + 1
	if v > now+farAhead {
		return v, issued
	}
	return v, v
}

func (m *mark) now() tiers.Version { return tiers.Version(max(m.clock.Now().UnixMicro(), 1)) }

// raise makes later versions higher than v.
func (m *mark) raise(ctx context.Context, v tiers.Version) error {
	m.mu.Lock()
	done := v <= m.last
	m.mu.Unlock()
	if done {
		return nil
	}
	return m.update(ctx, func(issued tiers.Version) tiers.Version { return max(issued, v) })
}

// raiseFound does the same for the version of a file that is about to go, which
// is above the mark only when somebody else wrote it.
func (m *mark) raiseFound(ctx context.Context, v tiers.Version) error {
	if v > m.now()+farAhead {
		return nil
	}
	return m.raise(ctx, v)
}

// update changes what is issued, under the lock of the mark's file.
func (m *mark) update(ctx context.Context, change func(issued tiers.Version) tiers.Version) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range 2 {
		var fault bool
		if fault, err = m.updateOnce(ctx, change); !fault {
			break
		}
		// Another program cut the file off, or there is no room for it any more:
		// look at it anew.
		err = also(err, m.forget())
	}
	return err
}

// updateOnce does it; fault tells that the file could not be reached through the
// memory that it is mapped to.
func (m *mark) updateOnce(ctx context.Context, change func(issued tiers.Version) tiers.Version) (fault bool, err error) {
	if err := m.open(ctx); err != nil {
		return false, err
	}
	if err := await(ctx, m.file); err != nil {
		return false, err
	}
	defer func() { err = also(err, unlock(m.file)) }()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			at, ok := r.(interface {
				error
				Addr() uintptr
			})
			if !ok {
				panic(r)
			}
			fault, err = true, fmt.Errorf("%w: %s: %w", tiers.ErrUnavailable, markFile, at)
		}
	}()
	return false, m.change(change)
}

// change does it with the lock held.
func (m *mark) change(change func(issued tiers.Version) tiers.Version) error {
	b, err := m.load()
	if err != nil {
		return err
	}
	be := binary.BigEndian
	before, ceiling := tiers.Version(be.Uint64(b[issuedAt:])), tiers.Version(be.Uint64(b[ceilingAt:]))
	if before > maxVersion {
		before, ceiling = m.now()+markStep, 0
	}
	now := change(max(before, m.last))
	m.last = now
	if now == before {
		return nil
	}
	be.PutUint64(b[issuedAt:], uint64(now))
	raised := now > ceiling
	if raised {
		be.PutUint64(b[ceilingAt:], uint64(now+markStep))
	}
	if err := m.store(b); err != nil {
		return err
	}
	if raised && m.synced != nil {
		return m.synced(m.file.Sync())
	}
	return nil
}

// markOf answers what the file says of a tree in which no higher version was issued,
// wherever it is put.
func markOf(issued tiers.Version) []byte {
	b := make([]byte, markSize)
	copy(b, markMagic)
	binary.BigEndian.PutUint64(b[issuedAt:], uint64(issued))
	binary.BigEndian.PutUint64(b[ceilingAt:], uint64(issued))
	return b
}

// versionOfMark is the inverse of markOf.
func versionOfMark(b []byte) (issued tiers.Version, ok bool) {
	if len(b) != markSize || !bytes.Equal(b, markOf(tiers.Version(binary.BigEndian.Uint64(b[issuedAt:])))) {
		return 0, false
	}
	issued = tiers.Version(binary.BigEndian.Uint64(b[issuedAt:]))
	return issued, issued <= maxVersion
}

// open opens the file, and settles what it says before it is used.
func (m *mark) open(ctx context.Context) (err error) {
	if m.file != nil {
		return nil
	}
	f, err := openOwn(m.root, markFile)
	if err != nil {
		return err
	}
	if err := await(ctx, f); err != nil {
		return errors.Join(err, f.Close())
	}
	m.file = f
	err = errors.Join(m.settle(), unlock(f))
	if err == nil {
		m.shared, err = mapShared(f, markSize)
	}
	if err != nil {
		m.file = nil
		return errors.Join(err, f.Close())
	}
	return nil
}

// settle writes the file anew when it says nothing sensible, which stands for a
// step ahead of the clock, and when it is from an earlier run of the machine.
func (m *mark) settle() error {
	b := make([]byte, markSize)
	n, err := m.file.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	be := binary.BigEndian
	boot := m.boot[:min(len(m.boot), longestBoot)]
	switch {
	case n == markSize && string(b[:len(markMagic)]) == markMagic && be.Uint64(b[issuedAt:]) <= maxVersion && be.Uint64(b[ceilingAt:]) <= maxVersion+markStep:
		if was := strings.TrimRight(string(b[bootAt:]), "\x00"); was == boot && boot != "" {
			return nil
		}
		be.PutUint64(b[issuedAt:], min(max(be.Uint64(b[issuedAt:]), be.Uint64(b[ceilingAt:])), maxVersion))
	case n > 0:
		clear(b)
		be.PutUint64(b[issuedAt:], uint64(m.now()+markStep))
	}
	copy(b, markMagic)
	clear(b[bootAt:])
	copy(b[bootAt:], boot)
	_, err = m.file.WriteAt(b, 0)
	return err
}

// load answers the file's bytes: those in memory, which may be changed in place,
// or a copy.
func (m *mark) load() ([]byte, error) {
	if m.shared != nil {
		return m.shared, nil
	}
	b := make([]byte, markSize)
	if _, err := m.file.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("%s: %w", markFile, err)
	}
	return b, nil
}

func (m *mark) store(b []byte) error {
	if m.shared != nil {
		return nil
	}
	_, err := m.file.WriteAt(b, 0)
	return err
}

func (m *mark) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return nil
	}
	return m.forget()
}

// forget lets go of the file; the next use opens it again.
func (m *mark) forget() error {
	err := also(unmapShared(m.shared), m.file.Close())
	m.file, m.shared = nil, nil
	return err
}

// bootID answers what tells this run of the machine from others, where the
// system says it.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
