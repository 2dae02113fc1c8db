package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sagestore/sagestore/internal/filetree"
	"github.com/sagestore/sagestore/tiers"
)

// codecsFile lists the codecs whose envelopes a tree holds, one escaped name a
// line. Only the built-in names and those listed here make a file KEY.NAME.sage
// a record, and a reader has to know which names to look for.
const (
	codecsFile = ".codecs"
	codecsMost = 64 << 10 // bytes that are read of it
)

// codecs are the endings of a tree's records.
type codecs struct {
	root *os.Root

	mu   sync.RWMutex
	all  []string // the endings of records, with their dots
	now  []string // those of them that the tree is known to hold
	list []string // those that the file lists
	size int64    // of the file when it was read
}

func (c *codecs) attach(root *os.Root) {
	c.root = root
	c.all = []string{plainEnding}
	c.now = []string{plainEnding}
	for _, name := range []string{"json", "msgpack", "gob", "raw"} {
		c.all = append(c.all, "."+name+envelopeEnding)
	}
}

// used answers the endings that the tree is known to hold, so that a load of
// JSON in a tree of JSON looks for one name. The slice is not to be changed.
func (c *codecs) used() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.now
}

// use notes that the tree holds a file of that ending.
func (c *codecs) use(ending string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.now, ending) {
		c.now = append(slices.Clone(c.now), ending)
	}
}

// endings answers the endings that are known. The slice is not to be changed.
func (c *codecs) endings() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.all
}

// known tells whether .NAME.sage, which was found, is an ending of records.
func (c *codecs) known(name string) bool {
	ending := "." + name + envelopeEnding
	if !slices.Contains(c.endings(), ending) {
		if err := c.refresh(); err != nil || !slices.Contains(c.endings(), ending) {
			return false
		}
	}
	c.use(ending)
	return true
}

// refresh reads the list again if it has grown.
func (c *codecs) refresh() error {
	fi, err := c.root.Stat(codecsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && (!fi.Mode().IsRegular() || fi.Size() > codecsMost) {
		err = tiers.Hint(fmt.Errorf("%w: %s is not a list of codecs", tiers.ErrCorrupt, filepath.Join(c.root.Name(), codecsFile)),
			"move it out of the way; codecs with names of their own have to be listed in it, one a line")
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if fi.Size() == c.size {
		return nil
	}
	text, err := c.root.ReadFile(codecsFile)
	if err != nil {
		return err
	}
	// The last line may just be being written.
	end := strings.LastIndexByte(string(text), '\n') + 1
	all, now := slices.Clone(c.all), slices.Clone(c.now)
	var list []string
	for name := range strings.Lines(string(text[:end])) {
		name = strings.TrimSpace(name)
		ending := "." + name + envelopeEnding
		if name == "" || filetree.EscapeEnding(filetree.UnescapeEnding(name)) != name {
			continue
		}
		list = append(list, ending)
		if !slices.Contains(all, ending) {
			all = append(all, ending)
		}
		if !slices.Contains(now, ending) {
			now = append(now, ending)
		}
	}
	c.all, c.now, c.list, c.size = all, now, list, int64(end)
	return nil
}

// learn lists the ending, durably, unless it is known.
func (c *codecs) learn(ending string) error {
	if ending == plainEnding {
		return nil
	}
	if listed, err := c.listed(ending); listed || err != nil {
		return err
	}
	name := strings.TrimSuffix(ending[1:], envelopeEnding)
	f, err := c.root.OpenFile(codecsFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	// Processes may append at once; a name that is there twice does no harm.
	_, err = fmt.Fprintf(f, "%s\n", name)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := filetree.SyncRoot(c.root); err != nil {
		return err
	}
	listed, err := c.listed(ending)
	if err == nil && !listed {
		err = fmt.Errorf("%s does not keep the codec %s", codecsFile, name)
	}
	return err
}

// listed tells whether the file lists the ending.
func (c *codecs) listed(ending string) (bool, error) {
	has := func() bool {
		c.mu.RLock()
		defer c.mu.RUnlock()
		return slices.Contains(c.list, ending)
	}
	if has() {
		return true, nil
	}
	err := c.refresh()
	return err == nil && has(), err
}
