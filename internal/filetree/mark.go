package filetree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/sagestore/sagestore/tiers"
)

const (
	markFile = ".mark"
	markSize = 20 + 1 + 20 + 1 + 36 + 1
	// markStep is how far ahead, in microseconds, the mark is made durable: one
	// fsync for all saves of that time. After a power cut versions go on from
	// there, unless the clock is beyond it already.
	markStep = 10_000_000
	// farAhead is how far ahead of the clock, in microseconds, a version may be
	// and still lift the mark. Beyond that it comes from a file that somebody
	// gave a wrong time, which must not carry the whole tree along.
	farAhead = 24 * 3600 * 1_000_000
)

// mark issues versions. The highest one that any process has issued is kept in
// a file of the tree, which all processes of the host read and write under its
// lock: what one wrote the next one reads, from the page cache, without an
// fsync. A ceiling beside it is made durable ahead of time. A mark that was
// written before the last start of the machine counts as its ceiling.
type mark struct {
	root    *os.Root
	clock   tiers.Clock
	durable bool
	boot    string // tells one run of the machine from the next; empty: unknown

	mu    sync.Mutex
	file  *os.File
	known bool          // whether this process has read the file before
	last  tiers.Version // what the file held when this process saw it last
}

// next answers a version above after, above all issued ones, and not below the
// clock.
func (m *mark) next(ctx context.Context, after tiers.Version) (tiers.Version, error) {
	now := tiers.Version(max(m.clock.Now().UnixMicro(), 1))
	var v tiers.Version
	err := m.update(ctx, func(issued tiers.Version) tiers.Version {
		v = max(now, issued+1)
		if after < v {
			return v
		}
		v = after + 1
		if v > now+farAhead {
			return issued
		}
		return v
	})
	return v, err
}

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
// may be far off when somebody set its time.
func (m *mark) raiseFound(ctx context.Context, v tiers.Version) error {
	if v > tiers.Version(max(m.clock.Now().UnixMicro(), 0))+farAhead {
		return nil
	}
	return m.raise(ctx, v)
}

// update changes what is issued, under the lock of the mark's file.
func (m *mark) update(ctx context.Context, change func(issued tiers.Version) tiers.Version) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		if m.file, err = m.root.OpenFile(markFile, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return err
		}
	}
	if err := await(ctx, m.file); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock(m.file)) }()
	issued, ceiling, err := m.read()
	if err != nil {
		return err
	}
	now := change(issued)
	m.last = now
	if now == issued && now <= ceiling {
		return nil
	}
	raised := now > ceiling
	if raised {
		ceiling = now + markStep
	}
	line := fmt.Sprintf("%020d %020d %-36s\n", now, ceiling, m.boot)
	if _, err := m.file.WriteAt([]byte(line), 0); err != nil {
		return err
	}
	if raised && m.durable {
		return m.file.Sync()
	}
	return nil
}

// read answers what the file says. One that says nothing sensible stands for a
// step ahead of the clock.
func (m *mark) read() (issued, ceiling tiers.Version, err error) {
	var buf [markSize]byte
	n, err := m.file.ReadAt(buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, err
	}
	if n == 0 {
		return 0, 0, nil
	}
	var boot string
	text := strings.TrimRight(string(buf[:n]), "\n ")
	if got, _ := fmt.Sscanf(text, "%d %d %s", &issued, &ceiling, &boot); got < 2 {
		ahead := tiers.Version(max(m.clock.Now().UnixMicro(), 0)) + markStep
		return ahead, ahead, nil
	}
	if boot != m.boot || m.boot == "" && !m.known {
		issued = max(issued, ceiling)
	}
	m.known = true
	return issued, ceiling, nil
}

func (m *mark) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return nil
	}
	return m.file.Close()
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
