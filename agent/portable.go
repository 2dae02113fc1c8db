package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sagestore/sagestore/internal/misfit"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// portableFormat names the form of a checkpoint outside a store.
const portableFormat = "sagestore checkpoint 1"

type portable struct {
	Format     string          `json:"format"`
	SHA256     string          `json:"sha256"` // of the text of checkpoint, without white space between its parts
	Checkpoint json.RawMessage `json:"checkpoint"`
}

// Bytes answers the checkpoint as one JSON document with a sum of its own, for
// [DecodeCheckpoint].
func (c *Checkpoint) Bytes() ([]byte, error) {
	raw, err := serializer.JSON().Append(nil, c)
	if err != nil {
		return nil, fail("encode checkpoint", "", c.ID, err)
	}
	sum := sha256.Sum256(raw)
	doc, err := serializer.JSON().Append(nil, portable{portableFormat, hex.EncodeToString(sum[:]), raw})
	return doc, fail("encode checkpoint", "", c.ID, err)
}

// DecodeCheckpoint reads what [Checkpoint.Bytes] made. tiers.ErrCorrupt: it is
// damaged. tiers.ErrSchema: a newer program made it.
func DecodeCheckpoint(b []byte) (*Checkpoint, error) {
	c, err := decodeCheckpoint(b)
	if err != nil {
		return nil, fail("decode checkpoint", "", "", err)
	}
	return c, nil
}

func decodeCheckpoint(b []byte) (*Checkpoint, error) {
	var doc portable
	if err := misfit.Decode(b, &doc); err != nil {
		return nil, damaged(err)
	}
	if doc.Format != portableFormat {
		return nil, fmt.Errorf("%w: the format is %q, %q is known", tiers.ErrSchema, doc.Format, portableFormat)
	}
	var text bytes.Buffer
	if err := json.Compact(&text, doc.Checkpoint); err != nil {
		return nil, corrupt("checkpoint", err)
	}
	if sum := sha256.Sum256(text.Bytes()); hex.EncodeToString(sum[:]) != doc.SHA256 {
		return nil, errUnsound
	}
	c := &Checkpoint{}
	if err := misfit.Decode(doc.Checkpoint, c); err != nil {
		if e, is := errors.AsType[*misfit.Error](err); is { // it has the lines of the document
			e.Line += bytes.Count(b[:bytes.Index(b, doc.Checkpoint)], []byte("\n"))
		}
		return nil, damaged(err)
	}
	if c.AgentID == "" || c.State == nil && c.Conversation == "" {
		return nil, corrupt("checkpoint", errors.New("it does not say what it is of"))
	}
	return c, nil
}

// damaged is the error of a document, which says where in it.
func damaged(err error) error {
	if errors.Is(err, tiers.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w", tiers.ErrCorrupt, err)
}

// ImportCheckpoint stores a checkpoint that came from elsewhere, with its id, as
// the newest of its agent. What is there already, the same, changes nothing; an id
// that stands for another one is tiers.ErrExists. An agent that is not there is
// tiers.ErrNotFound, or with recreate is made from what the checkpoint shows. Of an
// agent that is there nothing else changes: [Store.Restore] takes it over.
//
// One that could never be restored is tiers.ErrCorrupt: it shows neither a state nor
// the conversation that it covers, the state or a conversation of another agent, a
// conversation twice, or a message twice in one. Where the state or a conversation
// does not say whose it is, it is the checkpoint's agent's. Nil, or a message that an
// append refuses, is tiers.ErrType.
func (s *Store) ImportCheckpoint(ctx context.Context, c *Checkpoint, recreate bool) (CheckpointInfo, error) {
	s = s.ForImport()
	given := c
	c, err := s.brought(given)
	if err != nil {
		id := ""
		if given != nil {
			id = given.ID
		}
		return CheckpointInfo{}, fail("import checkpoint", categoryCheckpoints, id, reveal(err))
	}
	var out CheckpointInfo
	err = s.update(ctx, turn{agent: c.AgentID}, func(s *Store) error {
		there, err := s.twin(ctx, c)
		if err != nil || there.ID != "" {
			out = there
			return err
		}
		_, found, err := s.agent(ctx, c.AgentID)
		switch {
		case err != nil:
			return err
		case found:
			out, err = s.importCopy(ctx, c)
		case recreate && c.State != nil:
			out, err = s.recreate(ctx, c)
		default:
			err = refuse(tiers.Hint(errNoAgent, "an import makes it again when it is told to recreate it"))
		}
		return err
	})
	if err != nil {
		return CheckpointInfo{}, fail("import checkpoint", categoryCheckpoints, c.ID, err)
	}
	return out, nil
}

// twin answers the checkpoint that has the id of c, when it shows the same.
func (s *Store) twin(ctx context.Context, c *Checkpoint) (CheckpointInfo, error) {
	au, n, led, found, err := s.find(ctx, c.ID)
	if !found || err != nil {
		return CheckpointInfo{}, err
	}
	e := s.edit(au, led)
	r, raw, err := s.info(ctx, au, n)
	if err != nil {
		return CheckpointInfo{}, err
	}
	sh, err := e.show(ctx, &r, n)
	if err != nil {
		return CheckpointInfo{}, err
	}
	there, err := e.unfold(ctx, sh)
	if err != nil {
		return CheckpointInfo{}, err
	}
	mine, err1 := json.Marshal(bare(c.State, c.Conversations))
	theirs, err2 := json.Marshal(bare(there.State, there.Conversations))
	info := r.checkpointInfo(au, led.AgentID, n, len(raw))
	if err := errors.Join(err1, err2); err != nil {
		return CheckpointInfo{}, err
	}
	if led.AgentID != c.AgentID || info.Kind != c.Kind || info.Iteration != c.Iteration || !bytes.Equal(mine, theirs) {
		return CheckpointInfo{}, refuse(tiers.Hint(tiers.ErrExists, "ids of checkpoints are global: delete the other one, or import it under another id"))
	}
	return info, nil
}

// bare leaves out what only the store knows.
func bare(a *State, cs []*Conversation) any {
	doc := struct {
		State         *State
		Conversations []Conversation
	}{}
	if a != nil {
		own := *a
		own.Revision, own.Repaired = 0, nil
		doc.State = &own
	}
	for _, c := range cs {
		own := *c
		own.Revision = 0
		doc.Conversations = append(doc.Conversations, own)
	}
	return doc
}

// given answers what an import says of the checkpoint.
func (c *Checkpoint) given() infoRecord {
	return infoRecord{
		ID: c.ID, Conversation: c.Conversation, Kind: c.Kind, Name: c.Name, Description: c.Description,
		Iteration: c.Iteration, Keep: c.Keep, Metadata: c.Metadata, Created: c.Created, Copy: true, Doubtful: c.Doubtful,
	}
}

// importCopy stores a checkpoint that shares nothing with the present.
func (s *Store) importCopy(ctx context.Context, c *Checkpoint) (CheckpointInfo, error) {
	e, err := s.openAgent(ctx, c.AgentID)
	if err != nil {
		return CheckpointInfo{}, err
	}
	n := e.led.Last + 1
	r := c.given()
	if r.Kind == "" {
		r.Kind = Manual
	}
	total := totals{}
	store := func(part string, v any) error {
		raw, err := e.encode(v)
		if err != nil {
			return refuse(fmt.Errorf("%s: %w", part, err))
		}
		total.count(part, raw, 1)
		return e.checkpoints.Save(ctx, atCopy+e.au+"/"+numbered(n)+"/"+part, raw)
	}
	if err := e.copyParts(c, n, store); err != nil {
		return CheckpointInfo{}, err
	}
	r.Size = total.Bytes
	for _, conv := range c.Conversations {
		r.Messages += len(conv.Messages)
	}
	r.SHA256 = e.fingerprint(&r, n, total.Sum)
	info, err := e.saveInfo(ctx, &r, n)
	if err != nil {
		return info, err
	}
	if _, err := e.restorable(ctx, &r, n); err != nil {
		return info, refuse(err)
	}
	e.clean(ctx, s.core.plan.get().Max, n)
	return info, e.saveLedger(ctx)
}

// copyParts takes a checkpoint apart.
func (e *edit) copyParts(c *Checkpoint, n uint64, store func(part string, v any) error) error {
	if c.State != nil {
		r := recordOf(c.State, e.au)
		r.Since = n
		if err := store(partState, r); err != nil {
			return err
		}
		for name, v := range c.State.Custom {
			value, err := e.encode(v)
			if err != nil {
				return refuse(err)
			}
			if err := store(partOwn+ownKey(name), ownRecord{Since: n, Name: name, Value: value}); err != nil {
				return err
			}
		}
	}
	for _, conv := range c.Conversations {
		h := &headRecord{Since: n, Inner: innerName(), Born: n, ID: conv.ID, AgentID: c.AgentID}
		h.take(conv)
		if err := store(partHead+manager.Key(conv.ID), h); err != nil {
			return err
		}
		for _, m := range conv.Messages {
			seq := m.Seq
			m.Seq = 0
			if err := store(messagePart(h.Inner, seq), messageRecord{Since: n, Message: m}); err != nil {
				return err
			}
		}
	}
	return nil
}

// recreate makes an agent from a checkpoint, and the checkpoint of it.
func (s *Store) recreate(ctx context.Context, c *Checkpoint) (CheckpointInfo, error) {
	a := *c.State
	a.Revision = 0
	if err := s.populate(ctx, &a, c.Conversations); err != nil {
		return CheckpointInfo{}, err
	}
	e, err := s.openAgent(ctx, a.ID)
	if err != nil {
		return CheckpointInfo{}, err
	}
	info, err := e.checkpoint(ctx, c.CheckpointInfo)
	if err != nil {
		return info, err
	}
	return info, e.saveLedger(ctx)
}

// populate creates an agent with conversations.
func (s *Store) populate(ctx context.Context, a *State, cs []*Conversation) error {
	if _, err := s.createAgent(ctx, a, a.Modified); err != nil {
		return err
	}
	for _, conv := range cs {
		own := *conv
		own.AgentID, own.Revision = a.ID, 0
		if _, _, found, err := s.conversation(ctx, own.ID); err != nil || found {
			return errors.Join(err, refuse(fmt.Errorf("conversation %q: %w", own.ID, tiers.ErrExists)))
		}
		e, h, err := s.createConversation(ctx, &own)
		if err == nil {
			_, err = e.append(ctx, h.Inner, own.Messages)
		}
		if err == nil {
			err = e.flush(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// metaFork tells in the metadata of a fork what it came from.
const metaFork = "forked_from"

// Fork makes a new agent from what a checkpoint shows. Its conversations get ids
// of their own, and their metadata names those they came from. An empty newAgentID
// is made. tiers.ErrExists: there is an agent of that id.
func (s *Store) Fork(ctx context.Context, agentID, id, newAgentID string) (*State, error) {
	c, err := s.LoadCheckpoint(ctx, agentID, id)
	if err == nil && c.State == nil {
		err = tiers.Hint(fmt.Errorf("%w: the checkpoint covers one conversation", tiers.ErrUnsupported), "fork one of the whole agent")
	}
	if err != nil {
		return nil, fail("fork checkpoint", categoryCheckpoints, id, err)
	}
	a := c.State
	a.ID, a.Revision = newAgentID, 0
	if newAgentID == "" {
		a.ID = newID()
	}
	a.Metadata = with(a.Metadata, metaFork, c.ID)
	for _, conv := range c.Conversations {
		conv.Metadata = with(conv.Metadata, metaFork, conv.ID)
		conv.ID = newID()
	}
	err = s.ForImport().update(ctx, turn{agent: a.ID}, func(s *Store) error {
		if _, found, err := s.agent(ctx, a.ID); err != nil || found {
			return errors.Join(err, refuse(tiers.ErrExists))
		}
		return s.populate(ctx, a, c.Conversations)
	})
	if err != nil {
		return nil, fail("fork checkpoint", categoryState, a.ID, err)
	}
	return s.Load(ctx, a.ID)
}

func with(m map[string]string, key, value string) map[string]string {
	out := map[string]string{key: value}
	for k, v := range m {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// BeforeOperation makes a checkpoint before something dangerous is done to an
// agent, unless the configuration says not to; made tells.
func (s *Store) BeforeOperation(ctx context.Context, agentID, operation string) (info CheckpointInfo, made bool, err error) {
	if p := s.core.plan.get(); !p.Enabled || !p.BeforeOperations {
		return CheckpointInfo{}, false, nil
	}
	info, err = s.Checkpoint(ctx, CheckpointInfo{AgentID: agentID, Kind: PreOperation, Name: "Before " + operation})
	return info, err == nil, err
}

// DeleteMessages removes messages of a conversation, after a checkpoint as
// [Store.BeforeOperation] makes it, and tells how many were there.
func (s *Store) DeleteMessages(ctx context.Context, conversation string, ids ...string) (n int, err error) {
	c, err := s.LoadConversation(ctx, conversation, Page{Limit: 1})
	if err == nil {
		_, _, err = s.BeforeOperation(ctx, c.AgentID, "deleting messages")
	}
	if err == nil {
		n, err = s.deleteMessages(ctx, conversation, ids)
	}
	return n, fail("delete messages", categoryConversations, conversation, err)
}
