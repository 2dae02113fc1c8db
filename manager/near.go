package manager

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagestore/sagestore/internal/near"
	"github.com/sagestore/sagestore/tiers"
)

// nears are the near layers of a manager, and the channel by which processes of the
// store tell each other what they changed.
type nears struct {
	life  context.Context //nolint:containedctx // of the channel; ended by close
	types sync.Map        // reflect.Type to bool: nobody can change a copy through another

	mu      sync.Mutex
	layers  map[string][]*nearLayer // by category
	channel *near.Channel           // nil: no tier carries messages, or no category has a layer
	closed  bool
}

// nearLayer is the near layer of a category.
type nearLayer struct {
	*near.Layer
	category string
	tier     string
	only     bool // it holds nothing: this process only tells others what it changes
	channel  *near.Channel
	away     func() error // why the home's server does not answer; nil: it has none
	sessions *sessions    // nil: its entries do not end with their session
	watched  atomic.Bool  // the ends of sessions are
	watching sync.Mutex   // guards setting it
}

// front puts a near layer in front of a route that is to have one. Routes of one
// category and home share it.
func (c *core) front(r *route) error {
	if len(r.policy.Near) == 0 || r.station.info.Scope == tiers.ScopeProcess {
		return nil
	}
	c.nears.mu.Lock()
	defer c.nears.mu.Unlock()
	if c.nears.closed {
		return nil
	}
	of := c.nears.layers[r.category]
	i := slices.IndexFunc(of, func(n *nearLayer) bool { return n.tier == r.tierName })
	if i < 0 {
		n, err := c.newNear(r)
		if err != nil {
			return err
		}
		if c.nears.layers == nil {
			c.nears.layers = make(map[string][]*nearLayer)
		}
		i, of = len(of), append(of, n)
		c.nears.layers[r.category] = of
	}
	n := of[i]
	r.near.Store(n)
	r.meter.mask = sampleMemory
	if old, ok := c.routes.Load(r.category); ok && old.(*route).tierName == r.tierName { //nolint:forcetypeassert // the map holds nothing else
		old.(*route).near.Store(n) //nolint:forcetypeassert // the map holds nothing else
	}
	return nil
}

func (c *core) newNear(r *route) (*nearLayer, error) {
	i := slices.IndexFunc(c.drivers, func(d tiers.Driver) bool { return d.Tier == r.policy.Near[0] && d.Evictor != nil })
	if i < 0 {
		return nil, notLinked(r.policy.Near[0], r.policy.Near[0])
	}
	e, err := c.drivers[i].Evictor(r.policy.NearSize)
	if err != nil {
		return nil, fmt.Errorf("the near layer of %s: %w", r.category, err)
	}
	n := &nearLayer{category: r.category, tier: r.tierName, only: c.jobs.off, channel: c.openChannel()}
	if r.policy.Session {
		n.sessions = c.sessions
	}
	layer := near.Config{TTL: r.policy.NearTTL, Budget: r.policy.NearSize, Evictor: e, Clock: c.clock}
	if o, ok := tiers.As[tiers.Outage](r.tier); ok {
		n.away, layer.Home = o.Away, o.ServerNow
	} else if r.station.info.Scope == tiers.ScopeStore {
		layer.Home = func() (time.Time, bool) { return time.Time{}, false }
		if s, ok := tiers.As[serverClock](r.tier); ok {
			layer.Home = s.ServerNow
		}
	}
	n.Layer = near.New(layer)
	return n, nil
}

// serverClock is a tier whose records expire by the clock of a server.
type serverClock interface {
	ServerNow() (now time.Time, ok bool)
}

// openChannel opens the channel once, where a tier carries messages.
func (c *core) openChannel() *near.Channel {
	if c.nears.channel != nil {
		return c.nears.channel
	}
	m, ok := c.messenger()
	if !ok {
		return nil
	}
	o := near.ChannelConfig{Messenger: m, Log: c.log}
	if !c.jobs.off {
		o.Heard, o.Lost = c.nears.heard, c.nears.lost
	}
	c.nears.channel = near.Open(c.nears.life, o)
	return c.nears.channel
}

func (c *core) messenger() (m tiers.Messenger, ok bool) {
	for _, name := range c.order {
		if m, ok = tiers.As[tiers.Messenger](c.stations[name].tier); ok {
			return m, true
		}
	}
	return nil, false
}

// close sends what was told and ends the layers.
func (ns *nears) close(ctx context.Context) {
	ns.mu.Lock()
	ns.closed = true
	channel := ns.channel
	ns.mu.Unlock()
	if channel != nil {
		channel.Close(ctx) // which may be telling the layers something
	}
	for _, n := range ns.all() {
		n.Close()
	}
}

// of answers the layers of a category: one, unless a collection has its own policy with
// another home.
func (ns *nears) of(category string) []*nearLayer {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.layers[category]
}

func (ns *nears) all() []*nearLayer {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	all := make([]*nearLayer, 0, len(ns.layers))
	for _, of := range ns.layers {
		all = append(all, of...)
	}
	return all
}

// heard is told what another process has changed.
func (ns *nears) heard(note near.Note) {
	for _, n := range ns.of(note.Category) {
		switch note.Action {
		case near.Saved:
			n.Drop(note.Key, note.Version)
		case near.Changed:
			n.Drop(note.Key, 0)
		case near.Ended:
			n.dropSession(sessionID{note.Namespace, note.Name})
		case near.Replaced:
			n.Clear()
		}
	}
}

// lost says that something another process has changed may have been missed.
func (ns *nears) lost() {
	for _, n := range ns.all() {
		n.Clear()
	}
}

// tell tells other processes.
func (n *nearLayer) tell(notes ...near.Note) {
	if n.channel != nil {
		n.channel.Tell(notes...)
	}
}

func (n *nearLayer) note(a near.Action, k near.Key, v tiers.Version) near.Note {
	return near.Note{Action: a, Category: n.category, Key: k, Version: v}
}

// dropSession drops what is held of a session that is over.
func (n *nearLayer) dropSession(id sessionID) {
	own := Key(id.id)
	below := own + "/"
	n.DropIf(func(k near.Key) bool {
		return k.Namespace == id.namespace && (k.Name == own || len(k.Name) > len(below) && k.Name[:len(below)] == below)
	})
}

// dropSession drops what is held of a session that has ended.
func (ns *nears) dropSession(category string, id sessionID) {
	for _, n := range ns.of(category) {
		n.dropSession(id)
	}
}

// tellEnd tells other processes that a session was ended, which they would learn a
// little later by themselves.
func (ns *nears) tellEnd(id sessionID) {
	for _, n := range ns.all() {
		if n.sessions != nil {
			n.tell(n.note(near.Ended, near.Key{Namespace: id.namespace, Name: id.id}, 0))
		}
	}
}

// replaced drops a category whose records were replaced past the layer, and tells
// others of it.
func (ns *nears) replaced(category string) {
	for _, n := range ns.of(category) {
		n.Clear()
		n.tell(n.note(near.Replaced, near.Key{}, 0))
	}
}

// rows drops keys that another process has changed by rows of the journal.
func (ns *nears) rows(ks []tiers.Key) {
	for _, k := range ks {
		for _, n := range ns.of(k.Category) {
			n.Drop(nearKey(k), 0)
		}
	}
}

// rowsApplied drops and tells of keys whose rows have come to their tier: another
// process that heard of the transaction may have looked there before.
func (c *core) rowsApplied(rows []tiers.Row) {
	c.nears.mu.Lock()
	channel := c.nears.channel
	c.nears.mu.Unlock()
	for i := range rows {
		k := &rows[i].Key
		of := c.nears.of(k.Category)
		for _, n := range of {
			n.Drop(nearKey(*k), 0) // it may have been passed over
		}
		if channel == nil {
			continue
		}
		if len(of) == 0 {
			if p, err := c.plan.Policy(k.Category, nil); err != nil || len(p.Near) == 0 {
				continue
			}
		}
		note := near.Note{Action: near.Saved, Category: k.Category, Key: nearKey(*k), Version: rows[i].Version}
		if rows[i].Deleted {
			note.Action, note.Version = near.Changed, 0
		}
		channel.Tell(note)
	}
}

func nearKey(k tiers.Key) near.Key { return near.Key{Namespace: k.Namespace, Name: k.Name} }

// watch sees to it that the ends of sessions are learnt of before something of them
// is held.
func (n *nearLayer) watch(ctx context.Context) error {
	if n.sessions == nil || n.watched.Load() {
		return nil
	}
	n.watching.Lock()
	defer n.watching.Unlock()
	if n.watched.Load() {
		return nil
	}
	now, err := n.sessions.system.Changes(ctx)
	if err != nil {
		return err
	}
	n.sessions.watchFrom(now.Sessions)
	n.watched.Store(true)
	return nil
}

// immutable tells whether values of a type can be held decoded: whoever has a copy
// can't change another one by it.
func (ns *nears) immutable(t reflect.Type) bool {
	if known, ok := ns.types.Load(t); ok {
		return known.(bool) //nolint:forcetypeassert // the map holds nothing else
	}
	is := immutable(t)
	ns.types.Store(t, is)
	return is
}

func immutable(t reflect.Type) bool {
	if t == reflect.TypeFor[time.Time]() {
		return true // its location can't be changed
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	case reflect.Array:
		return immutable(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if !immutable(f.Type) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// NearStats are the counters of the near layer of a category.
type NearStats = near.Stats

// NearChannel says how processes tell each other what they change, so that near
// layers stay fresh.
type NearChannel = near.State

// nearStats answers the counters of all layers.
func (c *core) nearStats() (layers map[string]NearStats, channel *NearChannel) {
	for _, n := range c.nears.all() {
		if layers == nil {
			layers = make(map[string]NearStats)
		}
		layers[n.category] = n.Stats()
	}
	c.nears.mu.Lock()
	ch := c.nears.channel
	c.nears.mu.Unlock()
	if ch != nil {
		s := ch.State()
		channel = &s
	}
	return layers, channel
}

// listenFor is how long a diagnosis waits for the channel.
const listenFor = 2 * time.Second

// diagnoseNear says how far the near layers can rely on the channel.
func (c *core) diagnoseNear(ctx context.Context) (found []tiers.Finding) {
	var bound time.Duration
	for _, p := range c.plan.Policies() {
		if len(p.Near) > 0 {
			bound = max(bound, p.NearTTL)
		}
	}
	if bound == 0 {
		return nil
	}
	const subject = "near layers"
	m, ok := c.messenger()
	if !ok {
		return []tiers.Finding{{OK: true, Subject: subject, Message: fmt.Sprintf(
			"no tier carries messages between processes, so what another process changes is seen after up to %s", bound)}}
	}
	hint := fmt.Sprintf("what another process changes is seen after up to %s until the server and the rights of its user (+publish, +subscribe and the channels) are in order", bound)
	if err := hears(ctx, m); err != nil {
		return []tiers.Finding{{Subject: subject, Message: "the channel between processes is down: " + err.Error(), Hint: hint}}
	}
	return []tiers.Finding{{OK: true, Subject: subject, Message: "the channel between processes is up"}}
}

// hears tells whether messages can be sent and heard now.
func hears(ctx context.Context, m tiers.Messenger) error {
	ctx, cancel := context.WithTimeout(ctx, listenFor)
	defer cancel()
	errHeard := errors.New("it is heard")
	ctx, done := context.WithCancelCause(ctx)
	defer done(nil)
	err := m.Listen(ctx, func() { done(errHeard) }, func([]byte) {})
	if !errors.Is(err, errHeard) {
		return err
	}
	return nil
}
