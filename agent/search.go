package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// Mode is how a [Query] looks for its text.
type Mode string

// The modes of a search.
const (
	// Contains looks for the text as it is, but for upper and lower case, anywhere in
	// a message. It answers conversations, each with its newest such message by the
	// messages' times: that with the newest one first.
	Contains Mode = "contains"
	// ByWords looks for messages that have all words of the text, whatever is between
	// them, and answers the best first, see [Hit].Rank. Where words are written
	// without spaces, every two characters side by side are one.
	ByWords Mode = "words"
)

// Modes answers the modes there are.
func Modes() []Mode { return []Mode{Contains, ByWords} }

// defaultHits is how many hits a search answers that does not say.
const defaultHits = 20

// searchedBytes is how much of a message is searched, from its beginning.
const searchedBytes = 256 << 10

// Query says what is looked for in the contents of messages. Empty fields filter
// nothing.
type Query struct {
	Text     string
	Mode     Mode   // Contains when empty
	AgentID  string // of one agent
	Tag      string // in conversations that have it
	Archived *bool  // in archived conversations, or in others
	Role     Role
	Since    time.Time // messages of that time or later
	Until    time.Time // messages before that time
	Limit    *int      // of hits; nil: 20. 0 answers none
}

// Hit is what a search has found.
type Hit struct {
	AgentID        string  `json:"agent_id"`
	ConversationID string  `json:"conversation_id"`
	Message        Message `json:"message"`

	// Snippet is the part of the message around the first place that was found, with
	// "…" where it was cut, and Highlights what was found in it. Both are cut between
	// characters as people see them.
	Snippet    string `json:"snippet"`
	Highlights []Span `json:"highlights,omitempty"`

	// Rank is above 0 and below 1, in sixteen steps: the more often a word is in a
	// message, and the shorter it is, the higher; of several words the lowest counts.
	// It depends on nothing but the message and the query. Hits of one rank come
	// newest first. It is 0 for Contains.
	Rank float64 `json:"rank,omitempty"`
}

// Span is a part of a text, in bytes.
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// Search looks for messages. What it answers is the same on every tier. A category
// agent.conversations whose home is a database has a full-text index, unless it is
// encrypted; elsewhere, in a transaction, and for fewer than three characters that a
// message should contain, the messages of the agent, or of all, are read one by one.
// With an index the best are found first, whether few or very many messages have the
// words or the characters, and the time it takes hardly depends on how many there are.
// It may, when a filter by tag, time or archived leaves few of many. The first 256 KiB
// of a message are searched.
//
// A query without text is tiers.ErrType, and so is an unknown mode or role and a
// limit below 0. An agent that is not there has no messages. When some messages
// can't be read, it answers what was found in others beside an error that names
// them.
func (s *Store) Search(ctx context.Context, q Query) ([]Hit, error) {
	hits, err := s.search(ctx, q)
	return hits, fail("search", categoryConversations, "", reveal(err))
}

func (s *Store) search(ctx context.Context, q Query) ([]Hit, error) {
	limit, err := q.check()
	if err != nil || limit == 0 {
		return nil, err
	}
	m := newMatcher(&q)
	if m.nothing() {
		return nil, nil
	}
	var all []match
	x, bad, err := s.indexFor(ctx, m)
	switch {
	case err != nil:
		return nil, err
	case x != nil:
		all, err = s.lookUp(ctx, x, m, limit)
	default:
		err = s.view(ctx, func(s *Store) error {
			all, bad, err = s.scan(ctx, m)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	all = m.best(all)
	hits, err := s.hits(ctx, m, all, limit)
	return hits, joined(bad, err)
}

// check answers the limit, or what is wrong with the query.
func (q *Query) check() (limit int, err error) {
	limit = defaultHits
	if q.Limit != nil {
		limit = *q.Limit
	}
	switch {
	case strings.TrimSpace(q.Text) == "":
		err = tiers.Hint(fmt.Errorf("%w: there is no text to search for", tiers.ErrType), "give some; a listing answers everything")
	case limit < 0:
		err = fmt.Errorf("%w: a limit of %d hits; 0 is none, and without one there are %d", tiers.ErrType, limit, defaultHits)
	case q.Mode != "":
		err = known("mode", q.Mode, Modes())
	}
	if err == nil && q.Role != "" {
		err = known("role", q.Role, Roles())
	}
	if err == nil && q.AgentID != "" {
		err = checkID("agent", q.AgentID)
	}
	return limit, err
}

// match is a message that was found, without its content.
type match struct {
	at    *placed
	seq   uint64
	time  time.Time
	grade uint8
}

// placed is a conversation and where it is.
type placed struct{ agentID, id, au, cu string }

// best puts matches in the order of their hits; of those that contain a text it
// keeps the newest of each conversation.
func (m *matcher) best(all []match) []match {
	if m.mode == Contains {
		newest := make(map[*placed]match, len(all))
		for _, one := range all {
			if had, ok := newest[one.at]; !ok || one.compare(had) < 0 {
				newest[one.at] = one
			}
		}
		all = slices.AppendSeq(all[:0], maps.Values(newest))
	}
	slices.SortFunc(all, match.compare)
	return all
}

// compare is the order of hits.
func (a match) compare(b match) int {
	return cmp.Or(cmp.Compare(b.grade, a.grade), b.time.Compare(a.time),
		strings.Compare(a.at.id, b.at.id), cmp.Compare(b.seq, a.seq))
}

// hits loads the first of the matches. One that was changed meanwhile is passed
// over, and the next one takes its place.
func (s *Store) hits(ctx context.Context, m *matcher, all []match, limit int) (hits []Hit, bad error) {
	for len(all) > 0 && len(hits) < limit {
		some := all[:min(len(all), limit-len(hits))]
		all = all[len(some):]
		keys := make([]string, len(some))
		for i, one := range some {
			keys[i] = messageKey(one.at.au, one.at.cu, one.seq)
		}
		raws, err := s.conversations.LoadMany(ctx, keys...)
		if err != nil {
			return hits, err
		}
		for i, one := range some {
			raw, there := raws[keys[i]]
			if !there {
				continue
			}
			msg, err := s.decodeMessage(ctx, one.at.au, one.at.cu, one.seq, raw)
			if err != nil {
				bad = joined(bad, err)
				continue
			}
			spans := m.spans(msg.Content)
			if len(spans) == 0 || !m.wants(msg.Role, msg.At) {
				continue
			}
			h := Hit{AgentID: one.at.agentID, ConversationID: one.at.id, Message: msg}
			if m.mode == ByWords {
				h.Rank = rankOf(one.grade)
			}
			h.Snippet, h.Highlights = snippet(msg.Content, spans)
			hits = append(hits, h)
		}
	}
	return hits, bad
}
