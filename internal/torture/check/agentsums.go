package check

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// totals are what records add up to. The sum is that of their digests modulo 2^256, in
// hexadecimal, empty for nothing.
type totals struct {
	Sum           string `json:"sum"`
	Bytes         int64  `json:"bytes"`
	Messages      int    `json:"messages"`
	Conversations int    `json:"conversations"`
}

func (t *totals) String() string {
	return fmt.Sprintf("%d messages of %d bytes in %d (sum %.8s)", t.Messages, t.Bytes, t.Conversations, t.Sum)
}

func (t *totals) plus(n *big.Int) {
	sum, ok := new(big.Int).SetString(t.Sum+"0", 16) // a digit more, so that nothing is 0
	if !ok {
		sum = new(big.Int)
	}
	sum.Rsh(sum, 4)
	sum.Add(sum, n)
	sum.Mod(sum, new(big.Int).Lsh(big.NewInt(1), 256))
	if t.Sum = ""; sum.Sign() != 0 {
		t.Sum = fmt.Sprintf("%064x", sum)
	}
}

// count adds a record.
func (t *totals) count(part string, raw json.RawMessage) {
	digest := sha256.Sum256(append(sized(part), raw...))
	t.plus(new(big.Int).SetBytes(digest[:]))
	t.Bytes += int64(len(raw))
}

func (t *totals) add(o totals) {
	n, _ := new(big.Int).SetString(o.Sum+"0", 16)
	if n != nil {
		t.plus(n.Rsh(n, 4))
	}
	t.Bytes += o.Bytes
	t.Messages += o.Messages
	t.Conversations += o.Conversations
}

// sized is a text with its length before it.
func sized(text string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(len(text))), text...)
}

// checkpoints looks at the checkpoints of an agent: each shows what its sum says.
func (a *audit) checkpoints(o *one, st *AgentStats) {
	prefix := inCheckpoints + "info/" + o.au + "/"
	newest, untagged, kept := uint64(0), 0, 0
	a.under(prefix, func(rest string, raw json.RawMessage) {
		n, err := strconv.ParseUint(rest, 10, 64)
		var r info
		if err == nil {
			err = json.Unmarshal(raw, &r)
		}
		if err != nil || n > o.ledger.Last {
			a.fault("corrupt", "checkpoint %s of %s, the last is %d: %v", rest, o.ledger.AgentID, o.ledger.Last, err)
		}
		o.infos[n] = r
		newest = max(newest, n)
		if r.Keep {
			kept++
		} else {
			untagged++
		}
		if _, there := a.Records[inCheckpoints+"id/"+r.ID]; r.ID != "" && !there {
			a.fault("half", "checkpoint %s of %s is not found by its id", r.ID, o.ledger.AgentID)
		}
		st.Checkpoints++
		st.Bytes += int64(len(raw))
	})
	if l := o.ledger; l.Newest != newest || l.Untagged != untagged || l.Kept != kept {
		a.fault("count", "agent %s has %d and %d checkpoints up to %d, and says %d and %d up to %d", l.AgentID, untagged, kept, newest, l.Untagged, l.Kept, l.Newest)
	}
	for n, r := range o.infos {
		a.checkpoint(o, n, r)
	}
	a.under(inCheckpoints+"copy/"+o.au+"/", func(rest string, raw json.RawMessage) {
		number, _, _ := strings.Cut(rest, "/")
		n, _ := strconv.ParseUint(number, 10, 64)
		if !o.infos[n].Copy {
			a.fault("orphan", "copy %s of %s, which no checkpoint shows", rest, o.ledger.AgentID)
		}
		st.Bytes += int64(len(raw))
	})
	for _, p := range o.past {
		shown := false
		for n := range o.infos {
			shown = shown || p.since <= n && n < p.until
		}
		if !shown {
			a.fault("orphan", "%s of %s, from %d until %d, which no checkpoint shows", p.part, o.ledger.AgentID, p.since, p.until)
		}
	}
}

func (a *audit) checkpoint(o *one, n uint64, r info) {
	parts := map[string]json.RawMessage{}
	if r.Copy {
		a.under(inCheckpoints+"copy/"+o.au+"/"+numbered(n)+"/", func(part string, raw json.RawMessage) { parts[part] = raw })
	} else {
		parts = a.shown(o, n, r)
	}
	var t totals
	for part, raw := range parts {
		t.count(part, raw)
		if strings.HasPrefix(part, "m/") {
			t.Messages++
		}
	}
	id := r.ID
	if id == "" {
		id = o.au + "-" + strconv.FormatUint(n, 10)
	}
	var text []byte
	for _, field := range []string{"sagestore checkpoint 1", o.ledger.AgentID, id, r.Kind, r.Name, r.Conversation, strconv.Itoa(r.Iteration)} {
		text = append(text, sized(field)...)
	}
	sum, err := hex.DecodeString(fmt.Sprintf("%064s", t.Sum))
	digest := sha256.Sum256(append(text, sum...))
	if err != nil || hex.EncodeToString(digest[:]) != r.SHA256 || t.Messages != r.Messages || t.Bytes != r.Size {
		a.fault("half", "checkpoint %d (%s, %s) of %s shows %v, made with %d messages of %d bytes: its sum is wrong", n, id, r.Kind, o.ledger.AgentID, &t, r.Messages, r.Size)
	}
}

// shown are the parts that a checkpoint shows.
func (a *audit) shown(o *one, n uint64, r info) map[string]json.RawMessage {
	parts := map[string]json.RawMessage{}
	take := func(part string, raw json.RawMessage) {
		var v struct{ Since uint64 }
		if json.Unmarshal(raw, &v) == nil && v.Since <= n {
			parts[part] = raw
		}
	}
	inners := map[string]bool{}
	wanted := func(part string) bool {
		switch kind, rest, _ := strings.Cut(part, "/"); kind {
		case "m":
			cu, _, _ := strings.Cut(rest, "/")
			return inners[cu]
		case "c":
			return false
		case "h":
			if rest != "" {
				return r.Conversation == "" || r.Conversation == rest
			}
		}
		return r.Conversation == ""
	}
	past := func(messages bool) {
		for _, p := range o.past {
			if p.since <= n && n < p.until && strings.HasPrefix(p.part, "m/") == messages && wanted(p.part) {
				parts[p.part] = p.raw
			}
		}
	}
	if r.Conversation == "" {
		take("h", a.Records[inState+"head/"+o.ledger.AgentID])
		a.under(inState+"own/"+o.au+"/", func(name string, raw json.RawMessage) { take("o/"+name, raw) })
	}
	a.under(inConversations+"head/"+o.au+"/", func(id string, raw json.RawMessage) {
		if wanted("h/" + id) {
			take("h/"+id, raw)
		}
	})
	past(false)
	for part, raw := range parts {
		var h head
		if strings.HasPrefix(part, "h/") && json.Unmarshal(raw, &h) == nil {
			inners[h.Inner] = true
		}
	}
	for cu := range inners {
		a.under(inConversations+"msg/"+o.au+"/"+cu+"/", func(seq string, raw json.RawMessage) { take("m/"+cu+"/"+seq, raw) })
	}
	past(true)
	return parts
}
