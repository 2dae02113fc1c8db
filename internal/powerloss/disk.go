package powerloss

import "time"

// node is a file or a directory: what is sure of it, and what was done to it
// since.
type node struct {
	serial int // in the order in which the trace shows them
	dir    bool
	mapped bool // it is written to through memory as well, which no trace shows

	data  []byte // of a file, durable
	mtime time.Time
	size  int64 // of a file, now
	since []fileChange

	names  map[string]*node // of a directory, durable
	now    map[string]*node // of a directory, as the process sees it
	turned []nameChange
}

// fileChange is a change of a file's bytes that was not synced. Exactly one of
// data, cut and touched says what.
type fileChange struct {
	id      int
	at      int64
	data    []byte
	cut     bool // the size becomes at
	touched time.Time
}

// nameChange is a change of a directory that was not synced: names that get
// another node, or none, in one step.
type nameChange struct {
	id   int
	sets map[string]*node // nil: the name is gone
}

// disk is a directory tree with what is sure of it.
type disk struct {
	root *node
	id   int // of the last change
	made int // nodes
}

func (d *disk) newFile() *node {
	d.made++
	return &node{serial: d.made}
}

func (d *disk) newDir() *node {
	n := d.newFile()
	n.dir, n.names, n.now = true, map[string]*node{}, map[string]*node{}
	return n
}

func (d *disk) write(n *node, at int64, data []byte) {
	d.id++
	n.since = append(n.since, fileChange{id: d.id, at: at, data: data})
	n.size = max(n.size, at+int64(len(data)))
}

func (d *disk) truncate(n *node, size int64) {
	d.id++
	n.since = append(n.since, fileChange{id: d.id, at: size, cut: true})
	n.size = size
}

func (d *disk) touch(n *node, at time.Time) {
	d.id++
	n.since = append(n.since, fileChange{id: d.id, touched: at})
}

// name changes names of a directory in one step.
func (d *disk) name(dir *node, sets map[string]*node) {
	d.id++
	dir.turned = append(dir.turned, nameChange{id: d.id, sets: sets})
	apply(dir.now, sets)
}

func apply(names, sets map[string]*node) {
	for name, n := range sets {
		if n == nil {
			delete(names, name)
		} else {
			names[name] = n
		}
	}
}

// sync makes sure what was done up to a change. Without times, the time of
// modification need not be.
func (n *node) sync(upTo int, times bool) {
	if n.dir {
		for len(n.turned) > 0 && n.turned[0].id <= upTo {
			apply(n.names, n.turned[0].sets)
			n.turned = n.turned[1:]
		}
		return
	}
	var left []fileChange
	for _, c := range n.since {
		if c.id > upTo || !times && !c.touched.IsZero() {
			left = append(left, c)
			continue
		}
		n.data, n.mtime = c.on(n.data, n.mtime)
	}
	n.since = left
}

// on carries the change out.
func (c *fileChange) on(data []byte, mtime time.Time) ([]byte, time.Time) {
	switch {
	case !c.touched.IsZero():
		return data, c.touched
	case c.cut:
		return resize(data, c.at), mtime
	}
	if end := c.at + int64(len(c.data)); end > int64(len(data)) {
		data = resize(data, end)
	}
	copy(data[c.at:], c.data)
	return data, mtime
}

func resize(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return data[:size:size]
	}
	return append(data, make([]byte, size-int64(len(data)))...)
}
