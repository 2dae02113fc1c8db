package agent

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// latest names the newest checkpoint of an agent where an id is wanted.
const latest = "latest"

// Checkpoint makes a checkpoint of an agent with all its conversations, or of the
// one that in names, as they are at one instant. AgentID is needed; what in leaves
// out is filled in. An id that there is already: the same again changes nothing,
// another one is tiers.ErrExists.
//
// Afterwards, in the same transaction, what is more than the maximum of the
// configuration is removed: the oldest automatic ones first, then the oldest
// others, never a kept one or this one. If that fails, the checkpoint is made all
// the same.
//
// What it shows is not read, so that it costs one small record: a checkpoint of what
// was damaged by other means than a Store fails its integrity check when it is read.
// [Store.CheckpointVerified] refuses to make that one.
func (s *Store) Checkpoint(ctx context.Context, in CheckpointInfo) (CheckpointInfo, error) {
	return s.makeCheckpoint(ctx, in, func(*edit, CheckpointInfo) error { return nil })
}

// makeCheckpoint makes a checkpoint unless check finds something wrong with it.
func (s *Store) makeCheckpoint(ctx context.Context, in CheckpointInfo, check func(*edit, CheckpointInfo) error) (CheckpointInfo, error) {
	var out CheckpointInfo
	err := s.update(ctx, turn{agent: in.AgentID}, func(s *Store) (err error) {
		e, err := s.openAgent(ctx, in.AgentID)
		if err != nil {
			return err
		}
		out, err = e.checkpoint(ctx, in)
		if err == nil {
			err = check(e, out)
		}
		if err != nil {
			return err
		}
		e.clean(ctx, s.core.plan.get().Max, out.Number)
		return e.saveLedger(ctx)
	})
	if err != nil {
		return CheckpointInfo{}, fail("make checkpoint", categoryCheckpoints, in.ID, err)
	}
	return out, nil
}

// openAgent answers an agent for changing it.
func (s *Store) openAgent(ctx context.Context, id string) (*edit, error) {
	au, found, err := s.agent(ctx, id)
	if err == nil && !found {
		err = refuse(errNoAgent)
	}
	if err != nil {
		return nil, err
	}
	led, found, err := load[ledger](ctx, s, s.state, atLedger+au)
	if err == nil && !found {
		err = corrupt(atLedger+au, errors.New("it is missing"))
	}
	if err == nil && led.AgentID != id {
		err = corrupt(atLedger+au, fmt.Errorf("it is that of agent %q", led.AgentID))
	}
	return s.edit(au, led), err
}

func (e *edit) saveLedger(ctx context.Context) error {
	return e.save(ctx, e.state, atLedger+e.au, e.led)
}

// checkpoint stores a checkpoint and counts it in the ledger, which is not saved.
func (e *edit) checkpoint(ctx context.Context, in CheckpointInfo) (CheckpointInfo, error) {
	if in.Kind == "" {
		in.Kind = Manual
	}
	errs := []error{known("kind", in.Kind, Kinds())}
	if in.Iteration < 0 {
		errs = append(errs, fmt.Errorf("%w: iteration %d", tiers.ErrType, in.Iteration))
	}
	if in.ID != "" {
		errs = append(errs, checkID("checkpoint", in.ID))
	}
	if in.ID == latest {
		errs = append(errs, fmt.Errorf("%w: the id %q names the newest checkpoint; choose another one", tiers.ErrKey, latest))
	}
	if err := errors.Join(errs...); err != nil {
		return in, refuse(err)
	}
	if in.Iteration == 0 {
		// A restore sets the count of a run back to that of the checkpoint.
		run, _, err := load[runRecord](ctx, e.Store, e.checkpoints, atRun+e.au)
		if err != nil {
			return in, err
		}
		in.Iteration = run.Iteration
	}
	n := e.led.Last + 1
	r := infoRecord{
		ID: in.ID, Conversation: in.Conversation, Kind: in.Kind, Name: in.Name, Description: in.Description,
		Iteration: in.Iteration, Keep: in.Keep, Metadata: in.Metadata, Created: in.Created.Round(0).UTC(),
		Doubtful: in.Doubtful,
	}
	if in.Created.IsZero() {
		r.Created = now(e.core.clock)
	}
	if in.ID != "" {
		if there, err := e.same(ctx, &r); there.ID != "" || err != nil {
			return there, err
		}
	}
	shown, err := e.measure(ctx, &r)
	if err != nil {
		return in, err
	}
	r.Size, r.Messages = shown.Bytes, shown.Messages
	r.SHA256 = e.fingerprint(&r, n, shown.Sum)
	return e.saveInfo(ctx, &r, n)
}

// saveInfo stores the record of a new checkpoint.
func (e *edit) saveInfo(ctx context.Context, r *infoRecord, n uint64) (CheckpointInfo, error) {
	raw, err := e.encode(r)
	if err != nil {
		return CheckpointInfo{}, refuse(err)
	}
	if err := e.checkpoints.Save(ctx, e.infoKey(n), raw); err != nil {
		return CheckpointInfo{}, err
	}
	if r.ID != "" {
		if err := e.save(ctx, e.checkpoints, atID+manager.Key(r.ID), checkpointRef{e.au, n}); err != nil {
			return CheckpointInfo{}, err
		}
	}
	e.led.Last, e.led.Newest = n, n
	e.led.counted(r.Keep, 1)
	return r.checkpointInfo(e.au, e.led.AgentID, n, len(raw)), nil
}

func (l *ledger) counted(keep bool, by int) {
	if keep {
		l.Kept += by
	} else {
		l.Untagged += by
	}
}

func (e *edit) infoKey(n uint64) string { return atInfo + e.au + "/" + numbered(n) }

func (r *infoRecord) checkpointInfo(au, agentID string, n uint64, stored int) CheckpointInfo {
	id := r.ID
	if id == "" {
		id = madeID(au, n)
	}
	return CheckpointInfo{
		ID: id, AgentID: agentID, Conversation: r.Conversation, Number: n, Kind: r.Kind, Name: r.Name,
		Description: r.Description, Iteration: r.Iteration, Keep: r.Keep, Metadata: r.Metadata, Created: r.Created,
		SHA256: r.SHA256, Size: r.Size, Stored: int64(stored), Messages: r.Messages, Doubtful: r.Doubtful,
	}
}

// same answers the checkpoint that has the id of a new one, if the new one would
// be the same.
func (e *edit) same(ctx context.Context, r *infoRecord) (CheckpointInfo, error) {
	au, n, led, found, err := e.find(ctx, r.ID)
	if err != nil {
		return CheckpointInfo{}, err
	}
	if !found {
		made, _, ok := parseMadeID(r.ID)
		if _, alive, err := load[ledger](ctx, e.Store, e.state, atLedger+made); err != nil || !ok || !alive {
			return CheckpointInfo{}, err
		}
		return CheckpointInfo{}, refuse(fmt.Errorf("%w: the id %q is one that is made for an agent; choose another one", tiers.ErrKey, r.ID))
	}
	exists := refuse(tiers.Hint(tiers.ErrExists, "ids of checkpoints are global; choose another one, or none"))
	there, raw, err := e.info(ctx, au, n)
	if err != nil || au != e.au {
		return CheckpointInfo{}, errors.Join(err, exists)
	}
	shown, err := e.measure(ctx, r)
	if err != nil {
		return CheckpointInfo{}, err
	}
	twin := *r
	twin.ID, twin.Inner = there.ID, there.Inner
	if e.fingerprint(&twin, n, shown.Sum) != there.SHA256 || r.Description != there.Description || !maps.Equal(r.Metadata, there.Metadata) {
		return CheckpointInfo{}, exists
	}
	return there.checkpointInfo(au, led.AgentID, n, len(raw)), nil
}

// info answers the record of a checkpoint.
func (s *Store) info(ctx context.Context, au string, n uint64) (r infoRecord, raw []byte, err error) {
	key := atInfo + au + "/" + numbered(n)
	raw, err = s.checkpoints.Load(ctx, key)
	if err == nil {
		if err = s.decode(raw, &r); err != nil {
			err = corrupt(key, err)
		}
	}
	return r, raw, err
}

// find answers where a checkpoint is.
func (s *Store) find(ctx context.Context, id string) (au string, n uint64, led ledger, found bool, err error) {
	if err := checkID("checkpoint", id); err != nil {
		return "", 0, led, false, refuse(err)
	}
	ref, found, err := load[checkpointRef](ctx, s, s.checkpoints, atID+manager.Key(id))
	if err != nil {
		return "", 0, led, false, err
	}
	if !found {
		if ref.Agent, ref.Number, found = parseMadeID(id); !found {
			return "", 0, led, false, nil
		}
	}
	if led, found, err = load[ledger](ctx, s, s.state, atLedger+ref.Agent); err != nil || !found {
		return "", 0, led, false, err
	}
	r, _, err := s.info(ctx, ref.Agent, ref.Number)
	if isNotFound(err) || err == nil && r.ID != "" && r.ID != id {
		return "", 0, led, false, nil
	}
	if err == nil && r.ID == "" && id != madeID(ref.Agent, ref.Number) {
		err = corrupt(atID+manager.Key(id), errors.New("it names another checkpoint"))
	}
	return ref.Agent, ref.Number, led, err == nil, err
}

var errNoCheckpoint = fmt.Errorf("no such checkpoint: %w", tiers.ErrNotFound)

// locate answers a checkpoint of an agent, or of any agent when none is named.
func (s *Store) locate(ctx context.Context, agentID, id string) (e *edit, n uint64, r infoRecord, stored int, err error) {
	if id == latest {
		if e, err = s.openAgent(ctx, agentID); err == nil && e.led.Newest == 0 {
			err = refuse(errNoCheckpoint)
		}
		if err != nil {
			return nil, 0, r, 0, err
		}
		n = e.led.Newest
	} else {
		au, number, led, found, err := s.find(ctx, id)
		if err == nil && (!found || agentID != "" && led.AgentID != agentID) {
			err = refuse(errNoCheckpoint)
		}
		if errors.Is(err, tiers.ErrCorrupt) && au != "" && (agentID == "" || led.AgentID == agentID) {
			return s.edit(au, led), number, r, 0, err // it is there, and can't be read
		}
		if err != nil {
			return nil, 0, r, 0, err
		}
		e, n = s.edit(au, led), number
	}
	r, raw, err := s.info(ctx, e.au, n)
	return e, n, r, len(raw), err
}

// measure answers the totals of what a checkpoint of now shows, and brings the
// ledger's up to date.
func (e *edit) measure(ctx context.Context, r *infoRecord) (totals, error) {
	if r.Conversation != "" {
		ref, _, found, err := e.conversation(ctx, r.Conversation)
		if err == nil && (!found || ref.Agent != e.au) {
			err = refuse(fmt.Errorf("conversation %q: %w", r.Conversation, errNoConversation))
		}
		if err != nil {
			return totals{}, err
		}
		r.Inner = ref.Inner
		u, err := e.unitFor(ctx, ref.Inner)
		return u.totals, err
	}
	prefix := atDirty + e.au + "/"
	for entry, err := range e.conversations.List(ctx, manager.Prefix(prefix)) {
		if err != nil {
			return totals{}, err
		}
		var before totals
		if err := e.decode(entry.Value, &before); err != nil {
			return totals{}, corrupt(entry.Key, err)
		}
		u, err := e.unitFor(ctx, strings.TrimPrefix(entry.Key, prefix))
		if err != nil {
			return totals{}, err
		}
		e.led.Total.sub(before)
		e.led.Total.add(u.shown())
		if _, err := e.conversations.Delete(ctx, entry.Key); err != nil {
			return totals{}, err
		}
	}
	u, err := e.unitFor(ctx, "")
	if err != nil {
		return totals{}, err
	}
	e.led.State = u.Sum
	e.led.Rounds++
	shown := e.led.Total
	shown.add(u.totals)
	return shown, nil
}

// fingerprint is the SHA-256 of a checkpoint: over what it is, and the sum of what
// it shows.
func (e *edit) fingerprint(r *infoRecord, n uint64, shown sum) string {
	id := r.ID
	if id == "" {
		id = madeID(e.au, n)
	}
	h := sha256.New()
	for _, field := range []string{
		"sagestore checkpoint 1", e.led.AgentID, id, string(r.Kind), r.Name, r.Conversation, strconv.Itoa(r.Iteration),
	} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(field)))
		h.Write(size[:])
		h.Write([]byte(field))
	}
	h.Write(shown.bytes())
	return hex.EncodeToString(h.Sum(nil))
}
