package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	seg "github.com/sagestore/sagestore/internal/segment"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// indexed answers how a message is saved so that a search finds it.
func (e *edit) indexed(cu string, m *Message) []manager.SaveOption {
	if root := e.core.root; root != nil {
		if _, ok := root.conversations.Index(); !ok {
			return nil
		}
	}
	return []manager.SaveOption{manager.Indexed(textOf(e.au, cu, &searchedRecord{Role: m.Role, Content: m.Content, At: m.At}))}
}

// textOf is what a message of a conversation is found by.
func textOf(au, cu string, r *searchedRecord) tiers.IndexText {
	content := searched(r.Content)
	all := seg.Words(content)
	counts := make(map[string]int, len(all))
	t := tiers.IndexText{Text: seg.Fold(content), Order: orderOf(r.At), Marks: []string{au, cu}}
	for _, w := range all {
		if counts[w.Text]++; counts[w.Text] == 1 {
			t.Words = append(t.Words, w.Text)
		}
	}
	t.Grades = make([]uint8, len(t.Words))
	for i, w := range t.Words {
		t.Grades[i] = gradeOf(counts[w], len(all))
	}
	if slices.Contains(Roles(), r.Role) {
		t.Marks = append(t.Marks, string(r.Role))
	}
	return t
}

// orderOf is what the index knows of a message's time: steps of 64 microseconds.
func orderOf(at time.Time) int64 {
	return min(max(at.UnixMicro()>>6, 0), tiers.MaxOrder)
}

// finder is what the searches of a store share.
type finder struct {
	mu      sync.Mutex
	checked bool
	gaps    uint64           // of the index when it was checked
	whole   bool             // all messages are in the index, as of then, but for
	bad     map[string]error // those that can't be read, by their keys

	// ids of conversations by their inner names, which are never given twice.
	ids map[string]string
}

// mostIDs is how many ids a finder remembers.
const mostIDs = 1 << 16

// indexFor answers the index that can answer the query, nil for none, and what is
// wrong with messages that are not in it since they can't be read.
func (s *Store) indexFor(ctx context.Context, m *matcher) (x *manager.Index, bad, err error) {
	x, ok := s.conversations.Index()
	if !ok || m.mode == Contains && utf8.RuneCountInString(m.part) < tiers.MinPart {
		return nil, nil, nil
	}
	gaps, err := x.Gaps(ctx)
	if err != nil {
		return nil, nil, err
	}
	f := &s.core.finder
	checked, whole, all := f.state(gaps)
	if !checked {
		leave, err := s.core.turns.wait(ctx, turn{conversation: categoryConversations + "/index"})
		if err != nil {
			return nil, nil, err
		}
		defer leave()
		if checked, whole, all = f.state(gaps); !checked {
			if whole, all, err = s.fillIndex(ctx, x); err != nil {
				return nil, nil, err
			}
			f.note(gaps, whole, all)
		}
	}
	if !whole {
		return nil, nil, nil
	}
	err = s.amiss(ctx, m, all)
	return x, err, nil
}

// amiss answers what is wrong with messages that a scan would look at.
func (s *Store) amiss(ctx context.Context, m *matcher, all map[string]error) error {
	if len(all) == 0 {
		return nil
	}
	prefix := atMessage
	if m.AgentID != "" {
		au, _, err := s.agent(ctx, m.AgentID)
		if err != nil {
			return err
		}
		prefix += au + "/"
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(key, prefix) {
			errs = append(errs, all[key])
		}
	}
	return errors.Join(errs...)
}

// state tells whether the index was checked with as many gaps, and what that said.
func (f *finder) state(gaps uint64) (checked, whole bool, bad map[string]error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// What can't be read is looked at again: it may have been mended or removed.
	return f.checked && f.gaps == gaps && len(f.bad) == 0, f.whole, f.bad
}

func (f *finder) note(gaps uint64, whole bool, bad map[string]error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked, f.gaps, f.whole, f.bad = true, gaps, whole, bad
}

// mostDamaged bounds how many messages that can't be read a search names.
const mostDamaged = 100

// fillIndex puts messages into the index that came another way than by a save of
// this package, such as from a backup, and tells whether all are in it then that can
// be read. Those that were encrypted when they were saved can't be in it. What can't be
// read is in bad.
func (s *Store) fillIndex(ctx context.Context, x *manager.Index) (whole bool, bad map[string]error, err error) {
	const some = 256
	bad = make(map[string]error)
	tried := make(map[string]struct{})
	for after := ""; ; {
		found, err := x.Missing(ctx, atMessage, after, some)
		if err != nil {
			return false, nil, err
		}
		if len(found) == 0 {
			break
		}
		var texts []manager.Text
		for _, f := range found {
			entry, err := s.conversations.Entry(ctx, f.Name)
			if err != nil && !isNotFound(err) && !errors.Is(err, tiers.ErrCorrupt) {
				return false, nil, err
			}
			if isNotFound(err) {
				continue
			}
			var r searchedRecord
			if err == nil {
				r, err = s.decodeSearched(f.Name, entry.Value)
			}
			if err != nil && len(bad) < mostDamaged {
				bad[f.Name] = err // a scan can't read it either
			}
			if au, cu, ok := innerNames(f.Name); ok && err == nil {
				texts = append(texts, manager.Text{Key: f.Name, Version: entry.Version, Text: textOf(au, cu, &r)})
				tried[f.Name] = struct{}{}
			}
		}
		switch err := x.Add(ctx, texts...); {
		case errors.Is(err, tiers.ErrReadOnly):
			return false, nil, nil
		case err != nil:
			return false, nil, err
		}
		after = found[len(found)-1].Name
		if len(found) < some {
			break
		}
	}
	if len(tried) == 0 {
		return true, bad, nil
	}
	left, err := x.Missing(ctx, atMessage, "", 0)
	return !slices.ContainsFunc(left, func(f tiers.Found) bool {
		_, failed := tried[f.Name]
		return failed
	}), bad, err
}

// lookUp looks at the messages that the index names, and answers those that are
// looked for: all, or at least the best, as many as the limit says.
func (s *Store) lookUp(ctx context.Context, x *manager.Index, m *matcher, limit int) (all []match, err error) {
	q := tiers.Search{Prefix: atMessage, Words: m.words, Part: m.part}
	if m.Role != "" {
		q.Marks = append(q.Marks, string(m.Role))
	}
	if m.AgentID != "" {
		au, found, err := s.agent(ctx, m.AgentID)
		if err != nil || !found {
			return nil, err
		}
		q.Prefix += au + "/"
		q.Marks = append(q.Marks, au)
	}
	l := &looking{Store: s, matcher: m, learned: make(map[string]bool), places: make(map[string]*placed)}
	if x.Ranks() {
		return (&topmost{looking: l, index: x, limit: limit, newest: make(map[*placed]match)}).search(ctx, q)
	}
	found, err := x.Search(ctx, q)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = f.Name
	}
	return l.lookAll(ctx, names)
}

// innerNames are those of the agent and the conversation in the key of a message.
func innerNames(key string) (au, cu string, ok bool) {
	rest, ok := strings.CutPrefix(key, atMessage)
	if !ok {
		return "", "", false
	}
	au, rest, ok = strings.Cut(rest, "/")
	cu, _, more := strings.Cut(rest, "/")
	return au, cu, ok && more
}

// looking are the messages that an index names, looked at in batches.
type looking struct {
	*Store
	*matcher
	learned map[string]bool    // agents whose heads were read
	places  map[string]*placed // by inner name of a conversation; nil when it is not looked at
	keys    []string
	at      []*placed // aligned
	found   []match
}

// lookAll looks at all messages of some names; of those that should contain a text
// not at more of a conversation than it takes.
func (l *looking) lookAll(ctx context.Context, names []string) (all []match, err error) {
	slices.Sort(names)
	for len(names) > 0 {
		conversation := names[0][:strings.LastIndexByte(names[0], '/')+1]
		n := 1
		for n < len(names) && strings.HasPrefix(names[n], conversation) {
			n++
		}
		some := names[:n]
		names = names[n:]
		at, err := l.placeOf(ctx, some[0])
		if err == nil && at != nil {
			err = l.all(ctx, at, some)
		}
		if err != nil {
			return nil, err
		}
	}
	return l.found, l.flush(ctx)
}

// placeOf answers the conversation of a message's key, nil when it is gone or not
// looked at.
func (l *looking) placeOf(ctx context.Context, key string) (*placed, error) {
	au, cu, ok := innerNames(key)
	if !ok {
		return nil, nil //nolint:nilnil // it is no message
	}
	if at, known := l.places[cu]; known {
		return at, nil
	}
	at, err := l.place(ctx, l.matcher, au, cu, l.learned)
	if err == nil {
		l.places[cu] = at
	}
	return at, err
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
