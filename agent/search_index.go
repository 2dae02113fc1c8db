package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	seg "github.com/sagestore/sagestore/internal/segment"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// indexed answers how a message is saved so that a search finds it.
func (s *Store) indexed(m *Message) []manager.SaveOption {
	if root := s.core.root; root != nil {
		if _, ok := root.conversations.Index(); !ok {
			return nil
		}
	}
	return []manager.SaveOption{manager.Indexed(textOf(m.Content))}
}

// textOf is what a message is found by.
func textOf(content string) tiers.IndexText {
	content = searched(content)
	all := seg.Words(content)
	t := tiers.IndexText{Words: make([]string, 0, len(all)), Text: seg.Fold(content)}
	seen := make(map[string]struct{}, len(all))
	for _, w := range all {
		if _, twice := seen[w.Text]; !twice {
			seen[w.Text] = struct{}{}
			t.Words = append(t.Words, w.Text)
		}
	}
	return t
}

// finder is what the searches of a store share.
type finder struct {
	mu      sync.Mutex
	checked bool
	gaps    uint64 // of the index when it was checked
	whole   bool   // all messages are in the index, as of then

	// ids of conversations by their inner names, which are never given twice.
	ids map[string]string
}

// mostIDs is how many ids a finder remembers.
const mostIDs = 1 << 16

// indexFor answers the index that can answer the query, nil for none.
func (s *Store) indexFor(ctx context.Context, m *matcher) (*manager.Index, error) {
	x, ok := s.conversations.Index()
	if !ok || m.mode == Contains && utf8.RuneCountInString(m.part) < tiers.MinPart {
		return nil, nil //nolint:nilnil // a scan needs none
	}
	gaps, err := x.Gaps(ctx)
	if err != nil {
		return nil, err
	}
	f := &s.core.finder
	checked, whole := f.state(gaps)
	if !checked {
		leave, err := s.core.turns.wait(ctx, turn{conversation: categoryConversations + "/index"})
		if err != nil {
			return nil, err
		}
		defer leave()
		if checked, whole = f.state(gaps); !checked {
			if whole, err = s.fillIndex(ctx, x); err != nil {
				return nil, err
			}
			f.note(gaps, whole)
		}
	}
	if !whole {
		return nil, nil //nolint:nilnil // a scan needs none
	}
	return x, nil
}

// state tells whether the index was checked with as many gaps, and what that said.
func (f *finder) state(gaps uint64) (checked, whole bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.checked && f.gaps == gaps, f.whole
}

func (f *finder) note(gaps uint64, whole bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked, f.gaps, f.whole = true, gaps, whole
}

// fillIndex puts messages into the index that came another way than by a save of
// this package, such as from a backup, and tells whether all are in it then. Those
// that were encrypted when they were saved can't be.
func (s *Store) fillIndex(ctx context.Context, x *manager.Index) (whole bool, err error) {
	const some = 256
	tried := make(map[string]struct{})
	for after := ""; ; {
		found, err := x.Missing(ctx, atMessage, after, some)
		if err != nil {
			return false, err
		}
		if len(found) == 0 {
			break
		}
		var texts []manager.Text
		for _, f := range found {
			entry, err := s.conversations.Entry(ctx, f.Name)
			if err != nil && !isNotFound(err) && !errors.Is(err, tiers.ErrCorrupt) {
				return false, err
			}
			if err != nil {
				continue // a scan can't read it either
			}
			r, err := s.decodeSearched(f.Name, entry.Value)
			if err == nil {
				texts = append(texts, manager.Text{Key: f.Name, Version: entry.Version, Text: textOf(r.Content)})
				tried[f.Name] = struct{}{}
			}
		}
		switch err := x.Add(ctx, texts...); {
		case errors.Is(err, tiers.ErrReadOnly):
			return false, nil
		case err != nil:
			return false, err
		}
		after = found[len(found)-1].Name
		if len(found) < some {
			break
		}
	}
	if len(tried) == 0 {
		return true, nil
	}
	left, err := x.Missing(ctx, atMessage, "", 0)
	return !slices.ContainsFunc(left, func(f tiers.Found) bool {
		_, failed := tried[f.Name]
		return failed
	}), err
}

// lookUp looks at the messages that the index names.
func (s *Store) lookUp(ctx context.Context, x *manager.Index, m *matcher) (all []match, err error) {
	q := tiers.Search{Prefix: atMessage, Words: m.words, Part: m.part}
	if m.AgentID != "" {
		au, found, err := s.agent(ctx, m.AgentID)
		if err != nil || !found {
			return nil, err
		}
		q.Prefix += au + "/"
	}
	found, err := x.Search(ctx, q)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = f.Name
	}
	slices.Sort(names)
	l := &looking{Store: s, matcher: m}
	learned := make(map[string]bool)
	for len(names) > 0 {
		conversation := names[0][:strings.LastIndexByte(names[0], '/')+1]
		n := 1
		for n < len(names) && strings.HasPrefix(names[n], conversation) {
			n++
		}
		some := names[:n]
		names = names[n:]
		au, cu, _ := strings.Cut(strings.TrimPrefix(conversation, atMessage), "/")
		at, err := s.place(ctx, m, au, strings.TrimSuffix(cu, "/"), learned)
		switch {
		case err != nil:
			return nil, err
		case at == nil:
		case m.mode == Contains:
			err = l.newest(ctx, at, some)
		default:
			err = l.all(ctx, at, some)
		}
		if err != nil {
			return nil, err
		}
	}
	return l.found, l.flush(ctx)
}

// looking are the messages that an index names, looked at in batches.
type looking struct {
	*Store
	*matcher
	keys  []string
	at    []*placed // aligned
	found []match
}

// newest looks at messages of a conversation, given in order, from the last on until
// one is what is looked for: so what is in most messages is found soon.
func (l *looking) newest(ctx context.Context, at *placed, keys []string) error {
	had := len(l.found)
	for n := 1; len(keys) > 0 && len(l.found) == had; n = min(4*n, chunk) {
		from := max(0, len(keys)-n)
		if err := l.all(ctx, at, keys[from:]); err != nil {
			return err
		}
		if err := l.flush(ctx); err != nil {
			return err
		}
		keys = keys[:from]
	}
	return nil
}

// all looks at all the messages, some of them when more have come.
func (l *looking) all(ctx context.Context, at *placed, keys []string) error {
	for _, key := range keys {
		l.keys, l.at = append(l.keys, key), append(l.at, at)
		if len(l.keys) == chunk {
			if err := l.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush looks at what has come. What can't be read is not found; a scan names it.
func (l *looking) flush(ctx context.Context) error {
	raws, err := l.conversations.LoadMany(ctx, l.keys...)
	if err != nil && !errors.Is(err, tiers.ErrCorrupt) && !errors.Is(err, tiers.ErrCodec) {
		return err
	}
	for i, key := range l.keys {
		raw, there := raws[key]
		if !there {
			continue
		}
		if r, err := l.decodeSearched(key, raw); err == nil {
			if one, ok := l.look(l.at[i], key, &r); ok {
				l.found = append(l.found, one)
			}
		}
	}
	l.keys, l.at = l.keys[:0], l.at[:0]
	return nil
}

// place answers the conversation of an inner name, nil when it is gone or not
// looked at.
func (s *Store) place(ctx context.Context, m *matcher, au, cu string, learned map[string]bool) (*placed, error) {
	led, found, err := load[ledger](ctx, s, s.state, atLedger+au)
	if err != nil || !found {
		return nil, err
	}
	id, h, err := s.headOf(ctx, au, cu, learned)
	if err != nil || h == nil || !m.wantsHead(h) {
		return nil, err
	}
	return &placed{agentID: led.AgentID, id: id, au: au, cu: cu}, nil
}

// headOf answers the id and the head of a conversation by its inner name, and no
// head when there is none. The heads of an agent are read once at most in a search.
func (s *Store) headOf(ctx context.Context, au, cu string, learned map[string]bool) (id string, _ *headRecord, err error) {
	f := &s.core.finder
	f.mu.Lock()
	id, known := f.ids[cu]
	f.mu.Unlock()
	if !known && !learned[au] {
		learned[au] = true
		if err := s.learn(ctx, au); err != nil {
			return "", nil, err
		}
		f.mu.Lock()
		id, known = f.ids[cu]
		f.mu.Unlock()
	}
	if !known {
		return "", nil, nil
	}
	h, found, err := load[headRecord](ctx, s, s.conversations, atHead+au+"/"+manager.Key(id))
	if err != nil || !found || h.Inner != cu {
		return "", nil, err
	}
	return id, &h, nil
}

// learn reads the heads of an agent for their ids.
func (s *Store) learn(ctx context.Context, au string) error {
	all := make(map[string]string)
	for entry, err := range s.conversations.List(ctx, manager.Prefix(atHead+au+"/")) {
		if err != nil && entry.Key == "" {
			return err
		}
		var h headRecord
		if err == nil && s.decode(entry.Value, &h) == nil {
			all[h.Inner] = h.ID
		}
	}
	f := &s.core.finder
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ids == nil || len(f.ids) > mostIDs {
		f.ids = make(map[string]string)
	}
	maps.Copy(f.ids, all)
	return nil
}
