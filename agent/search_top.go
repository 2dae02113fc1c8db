package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// topmost is a look at what an index names best first, until what is left can't be
// among the best any more.
type topmost struct {
	*looking
	index *manager.Index
	limit int

	// Of a look for what contains a text:
	newest map[*placed]match // of each conversation that contains the text
	least  int64             // the order of the last one that is among the limit
}

// How many messages are loaded at once, first and at most; how many names are passed
// over before it is asked for each conversation by itself; and how many messages of
// one are looked at then, whatever they contain.
const (
	firstLook  = 16
	mostLook   = 256
	mostPassed = 512
	mostTried  = 48
)

func (t *topmost) search(ctx context.Context, q tiers.Search) ([]match, error) {
	if t.mode == ByWords {
		return t.byRank(ctx, q)
	}
	long, err := t.byTime(ctx, q)
	if err == nil && long {
		err = t.byConversation(ctx, q)
	}
	return slices.Collect(maps.Values(t.newest)), err
}

// byRank looks for words.
func (t *topmost) byRank(ctx context.Context, q tiers.Search) ([]match, error) {
	var failed error
	batch := max(firstLook, min(t.limit, mostLook))
	look := func() bool {
		if failed = t.flush(ctx); failed != nil {
			return false
		}
		batch = min(2*batch, mostLook)
		slices.SortFunc(t.found, match.compare)
		// Some more than the limit, since one of these may change meanwhile.
		t.found = t.found[:min(len(t.found), 2*t.limit+firstLook)]
		return true
	}
	err := t.index.Top(ctx, q, func(r tiers.Ranked) bool {
		if len(t.found) >= t.limit && t.found[t.limit-1].above(r) {
			return false
		}
		if t.tooOld(r) {
			return true // there may be newer ones of a lower rank
		}
		at, err := t.placeOf(ctx, r.Name)
		if err != nil {
			failed = err
			return false
		}
		if at != nil {
			t.keys, t.at = append(t.keys, r.Name), append(t.at, at)
		}
		return len(t.keys) < batch || look()
	})
	if failed == nil && err == nil {
		look()
	}
	return t.found, joined(err, failed)
}

// above tells that a match comes before r and all that comes behind r.
func (a match) above(r tiers.Ranked) bool {
	return a.grade > r.Grade || a.grade == r.Grade && newer(a.time, r.Order)
}

// newer tells that a time is behind all that the index has under an order.
func newer(at time.Time, order int64) bool { return order < tiers.MaxOrder && orderOf(at) > order }

// tooOld tells that r is older than what is looked for.
func (t *topmost) tooOld(r tiers.Ranked) bool { return !t.Since.IsZero() && newer(t.Since, r.Order) }

// byTime looks for what contains a text, the newest first. It tells whether it gave up
// since some conversations have very many of them.
func (t *topmost) byTime(ctx context.Context, q tiers.Search) (long bool, err error) {
	var failed error
	waiting := make(map[*placed]bool)
	look := func() bool {
		clear(waiting)
		failed = t.flushNewest(ctx)
		return failed == nil
	}
	passed, batch := 0, firstLook
	err = t.index.Top(ctx, q, func(r tiers.Ranked) bool {
		if t.tooOld(r) || t.done(r.Order) {
			return false
		}
		at, err := t.placeOf(ctx, r.Name)
		if err != nil {
			failed = err
			return false
		}
		if at == nil {
			return true
		}
		if waiting[at] && !look() {
			return false
		}
		if t.known(at, r.Order) {
			passed++
			long = passed > mostPassed
			return !long
		}
		t.keys, t.at, waiting[at] = append(t.keys, r.Name), append(t.at, at), true
		if len(t.keys) < batch {
			return true
		}
		batch = min(2*batch, mostLook)
		return look()
	})
	if failed == nil && err == nil {
		look()
	}
	return long, joined(err, failed)
}

// known tells that the newest match of a conversation is known, given that what comes
// next has an order.
func (t *topmost) known(at *placed, order int64) bool {
	had, ok := t.newest[at]
	return ok && newer(had.time, order)
}

// flushNewest looks at what has come, and keeps the newest of each conversation.
func (t *topmost) flushNewest(ctx context.Context) error {
	err := t.flush(ctx)
	for _, one := range t.found {
		if had, ok := t.newest[one.at]; !ok || one.compare(had) < 0 {
			t.newest[one.at] = one
		}
	}
	t.found = t.found[:0]
	if len(t.newest) >= t.limit {
		orders := make([]int64, 0, len(t.newest))
		for _, one := range t.newest {
			orders = append(orders, orderOf(one.time))
		}
		slices.Sort(orders)
		t.least = orders[len(orders)-t.limit]
	}
	return err
}

// done tells that as many conversations as are looked for have a match that is newer
// than all that the index has under an order.
func (t *topmost) done(order int64) bool { return len(t.newest) >= t.limit && t.least > order }

// byConversation asks for one conversation after the other, that with the newest
// message first. It is for texts that are in most messages of long conversations: so
// it looks at the newest messages of each before it asks for those with the text.
func (t *topmost) byConversation(ctx context.Context, q tiers.Search) error {
	all, err := t.latest(ctx, strings.TrimPrefix(q.Prefix, atMessage))
	if err != nil {
		return err
	}
	for _, one := range all {
		if t.done(one.order) {
			return nil
		}
		at, err := t.placeOf(ctx, messageKey(one.au, one.cu, 0))
		if err != nil {
			return err
		}
		if at == nil {
			continue
		}
		of := q
		of.Prefix, of.Marks = messagePrefix(one.au, one.cu), append(slices.Clone(q.Marks), one.cu)
		whatever := of
		whatever.Part = ""
		found, err := t.newestIn(ctx, whatever, at, mostTried)
		if err == nil && !found {
			_, err = t.newestIn(ctx, of, at, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// newestIn looks for the newest match of a conversation among so many messages, 0 for
// all, and tells whether it is known then.
func (t *topmost) newestIn(ctx context.Context, q tiers.Search, at *placed, most int) (known bool, err error) {
	var failed error
	tried, batch := 0, 2
	err = t.index.Top(ctx, q, func(r tiers.Ranked) bool {
		if known = t.tooOld(r) || t.known(at, r.Order); known || most > 0 && tried == most {
			return false
		}
		tried++
		t.keys, t.at = append(t.keys, r.Name), append(t.at, at)
		if len(t.keys) < batch {
			return true
		}
		batch = min(2*batch, mostLook)
		failed = t.flushNewest(ctx)
		return failed == nil
	})
	if failed == nil && err == nil {
		failed = t.flushNewest(ctx)
	}
	return known || tried < most, joined(err, failed)
}

// recency is a conversation with the order of its newest message, or a higher one.
type recency struct {
	au, cu string
	order  int64
}

// latest answers the conversations of an agent, or of all, that with the newest
// message first. of is the agent's inner name and a slash, or empty.
func (t *topmost) latest(ctx context.Context, of string) (all []recency, err error) {
	for entry, err := range t.conversations.List(ctx, manager.Prefix(atSum+of)) {
		if err != nil && entry.Key == "" {
			return nil, err
		}
		au, cu, ok := strings.Cut(strings.TrimPrefix(entry.Key, atSum), "/")
		if !ok {
			continue
		}
		one := recency{au, cu, tiers.MaxOrder}
		var u unit
		if err == nil && t.decode(entry.Value, &u) == nil {
			one.order = orderOf(u.Last)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b recency) int { return cmp.Compare(b.order, a.order) })
	return all, nil
}
