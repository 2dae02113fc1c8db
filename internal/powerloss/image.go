package powerloss

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Mode says what of the changes that were not synced is there after the cut.
type Mode int

// The modes.
const (
	Nothing  Mode = iota // none of them
	All                  // all of them
	InOrder              // all up to some instant: what a file system with one journal for names and bytes does
	Names                // all names, up to some instant, and of the bytes a random part
	Anything             // names of each directory up to some instant of its own, and of the bytes a random part
	modes
)

func (m Mode) String() string {
	return [...]string{"nothing", "all", "in order", "names in order", "anything"}[m]
}

// image writes the tree as it could be after the cut.
type image struct {
	rng  *rand.Rand
	mode Mode
	last int                                   // of the changes; nothing after it is there
	turn func(path string, data []byte) []byte // what a start of the machine does to a file
}

func (im *image) write(root *node, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	names := im.namesOf(root)
	for _, name := range slices.Sorted(maps.Keys(names)) { // one seed, one image
		n, at := names[name], filepath.Join(dir, name)
		if n.dir {
			if err := im.write(n, at); err != nil {
				return err
			}
			continue
		}
		data, mtime := im.bytesOf(n)
		if im.turn != nil {
			data = im.turn(at, data)
		}
		if err := os.WriteFile(at, data, 0o600); err != nil {
			return err
		}
		if !mtime.IsZero() {
			if err := os.Chtimes(at, mtime, mtime); err != nil {
				return err
			}
		}
	}
	return nil
}

func (im *image) namesOf(dir *node) map[string]*node {
	last := im.last
	switch im.mode {
	case Nothing:
		last = 0
	case Anything:
		last = 0
		if len(dir.turned) > 0 {
			last = dir.turned[0].id - 1
			if i := im.rng.IntN(len(dir.turned) + 1); i > 0 {
				last = dir.turned[i-1].id
			}
		}
	case All, InOrder, Names, modes:
	}
	names := make(map[string]*node, len(dir.names))
	maps.Copy(names, dir.names)
	for _, c := range dir.turned {
		if c.id <= last {
			apply(names, c.sets)
		}
	}
	return names
}

func (im *image) bytesOf(n *node) ([]byte, time.Time) {
	data, mtime := slices.Clone(n.data), n.mtime
	switch im.mode {
	case Nothing:
		return data, mtime
	case All, InOrder:
		for i := range n.since {
			if n.since[i].id <= im.last {
				data, mtime = n.since[i].on(data, mtime)
			}
		}
		return data, mtime
	case Names, Anything, modes:
	}
	if len(n.since) == 0 {
		return data, mtime
	}
	sure := int64(len(data))
	share := im.rng.Float64()
	switch im.rng.IntN(4) { // the ends of the scale are likely
	case 0:
		share = 0
	case 1:
		share = 1
	}
	block := int64(512) << im.rng.IntN(4)
	for i := range n.since {
		c := &n.since[i]
		if c.cut || !c.touched.IsZero() {
			if im.rng.Float64() < share {
				data, mtime = c.on(data, mtime)
			}
			continue
		}
		for from := int64(0); from < int64(len(c.data)); {
			// Blocks are those of the file.
			to := min(int64(len(c.data)), (c.at+from)/block*block+block-c.at)
			if im.rng.Float64() < share {
				part := fileChange{at: c.at + from, data: c.data[from:to]}
				data, mtime = part.on(data, mtime)
			}
			from = to
		}
	}
	if now := int64(len(data)); now > sure && im.rng.IntN(3) == 0 {
		data = data[:sure+im.rng.Int64N(now-sure+1)]
	}
	return data, mtime
}
