package near

import (
	"encoding/binary"
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

// Action is what happened to a key.
type Action byte

// The actions. Only a save has a version.
const (
	Saved    Action = 's'
	Changed  Action = 'd' // deleted, touched, or nobody knows
	Ended    Action = 'e' // the session that Name is has ended: keys Name and Name/...
	Replaced Action = 'c' // the category as a whole, in every namespace
)

// Note is what other processes are told of a change: never a value.
type Note struct {
	Action   Action
	Category string
	Key
	Version tiers.Version
}

// message is some notes of one origin, which numbers its messages from 1 without a
// gap: docs/FORMAT.md has its bytes.
type message struct {
	origin uint64
	seq    uint64
	notes  []Note
}

const messageVersion = 1

// mostText is the longest part of a note: keys have up to 1024 bytes.
const mostText = 4096

func (m *message) bytes() []byte {
	b := []byte{'n', messageVersion}
	b = binary.BigEndian.AppendUint64(b, m.origin)
	b = binary.AppendUvarint(b, m.seq)
	for _, n := range m.notes {
		b = append(b, byte(n.Action))
		for _, s := range []string{n.Namespace, n.Category, n.Name} {
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
		b = binary.AppendUvarint(b, uint64(n.Version))
	}
	return b
}

// parse answers tiers.ErrCorrupt for what is no message of this version.
func parse(b []byte) (m message, err error) {
	bad := func(what string) (message, error) {
		return message{}, fmt.Errorf("%w: a message about changes: %s", tiers.ErrCorrupt, what)
	}
	if len(b) < 10 || b[0] != 'n' || b[1] != messageVersion {
		return bad("its beginning")
	}
	m.origin, b = binary.BigEndian.Uint64(b[2:]), b[10:]
	number := func() (v uint64, ok bool) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, false
		}
		b = b[n:]
		return v, true
	}
	text := func() (s string, ok bool) {
		n, ok := number()
		if !ok || n > mostText || n > uint64(len(b)) {
			return "", false
		}
		s, b = string(b[:n]), b[n:]
		return s, true
	}
	var ok bool
	if m.seq, ok = number(); !ok || m.seq == 0 {
		return bad("its number")
	}
	for len(b) > 0 {
		n := Note{Action: Action(b[0])}
		b = b[1:]
		if n.Action != Saved && n.Action != Changed && n.Action != Ended && n.Action != Replaced {
			return bad("an action that is not known")
		}
		for _, into := range []*string{&n.Namespace, &n.Category, &n.Name} {
			if *into, ok = text(); !ok {
				return bad("it was cut short")
			}
		}
		v, ok := number()
		if !ok {
			return bad("it was cut short")
		}
		n.Version = tiers.Version(v)
		m.notes = append(m.notes, n)
	}
	return m, nil
}
