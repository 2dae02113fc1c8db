package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sagestore/sagestore/tiers"
)

// places are the ids of a conversation's messages by their sequence, as the index has
// them, and the other way round.
type places struct {
	ids  map[uint64]string
	seqs map[string]uint64
}

// placedIn reads the index of a conversation's messages; what can't be read of it is
// left out.
func (e *edit) placedIn(ctx context.Context, cu string) (places, error) {
	known, err := e.readable(ctx, e.conversations, atKnown+e.au+"/"+cu+"/")
	return e.places(known), err
}

func (e *edit) places(known map[string]json.RawMessage) places {
	p := places{make(map[uint64]string, len(known)), make(map[string]uint64, len(known))}
	for key, raw := range known {
		if at, bad := unread[place](e.Store, raw); !bad && !at.Deleted {
			id := segment(key)
			p.ids[at.Seq], p.seqs[id] = id, at.Seq
		}
	}
	return p
}

// stranger tells of a message in the place of another one: the index knows that one
// there, and this one nowhere or elsewhere. Where nothing is known of the place, the
// index is what is wrong.
func (p places) stranger(id string, seq uint64) error {
	if there, known := p.ids[seq]; known && there != id && p.seqs[id] != seq {
		return fmt.Errorf("%w: its id is %q, and that of its place %q", tiers.ErrCorrupt, id, there)
	}
	return nil
}
