package agent

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/sagestore/sagestore/manager"
)

// The categories. What is copied of a record for a checkpoint stays in the
// category of the record, so that its policy holds for the copy as well.
const (
	categoryState         = "agent.state"
	categoryConversations = "agent.conversations"
	categoryCheckpoints   = "agent.checkpoints"
)

// Keys begin with what they are about. Agents and conversations have an inner
// name besides the id, new with every creation: what belonged to a deleted one is
// out of reach at once and can be removed later, and what is created under the
// same id finds nothing old.
const (
	atID      = "id/"    // id of an agent, conversation or checkpoint -> where it is
	atHead    = "head/"  // AGENT, or INNER/CONVERSATION
	atOwn     = "own/"   // INNER/NAME: an entry of Custom
	atLedger  = "now/"   // INNER: the checkpoints' numbers; read by every change
	atSum     = "sum/"   // INNER, or INNER/INNER of a conversation: what has been counted
	atActive  = "live/"  // INNER/CONVERSATION
	atMessage = "msg/"   // INNER/INNER/SEQUENCE
	atKnown   = "mid/"   // INNER/INNER/MESSAGE -> sequence
	atAwaited = "wait/"  // INNER/INNER/MESSAGE: named as a parent before it came
	atCall    = "call/"  // INNER/INNER/TOOL CALL -> sequence
	atDirty   = "dirty/" // INNER/INNER: changed since the last checkpoint
	atContent = "blob/"  // INNER/INNER/SHA-256: content of attachments
	atHolders = "refs/"  // INNER/INNER/SHA-256: how many messages hold it
	atHistory = "hist/"  // INNER/UNTIL/SINCE/PART: what checkpoints show and is no more
	atGone    = "gone/"  // INNER, or INNER/INNER: to be removed
	atInfo    = "info/"  // INNER/NUMBER of a checkpoint
	atCopy    = "copy/"  // INNER/NUMBER/PART: of a checkpoint that came from elsewhere
	atRun     = "run/"   // INNER
)

// digits is the width of sequences and numbers in keys.
const digits = 10

// numbered is a number whose text sorts like itself.
func numbered(n uint64) string { return fmt.Sprintf("%0*d", digits, n) }

// innerName answers 64 random bits, in text of 13 letters and digits.
func innerName() string {
	var b [8]byte
	rand.Read(b[:])
	return inner().EncodeToString(b[:])
}

func inner() *base32.Encoding {
	return base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)
}

// ownKey answers the key's part for an entry of Custom: its name, or a digest of
// one that would not fit.
func ownKey(name string) string {
	if name != "" && len(name) <= maxID && strings.IndexByte(name, 0) < 0 {
		return manager.Key(name)
	}
	sum := sha256.Sum256([]byte(name))
	return "%=" + hex.EncodeToString(sum[:16]) // no escaped name holds "%="
}

func messagePrefix(au, cu string) string { return atMessage + au + "/" + cu + "/" }

func messageKey(au, cu string, seq uint64) string { return messagePrefix(au, cu) + numbered(seq) }

func historyPrefix(au string) string { return atHistory + au + "/" }

func historyKey(au string, until, since uint64, part string) string {
	return historyPrefix(au) + numbered(until) + "/" + numbered(since) + "/" + part
}

// pastKey is what a key of the history says.
type pastKey struct {
	until, since uint64
	part         string
}

func parseHistory(au, key string) (k pastKey, ok bool) {
	rest, ok := strings.CutPrefix(key, historyPrefix(au))
	if !ok || len(rest) < 2*digits+2 || rest[digits] != '/' || rest[2*digits+1] != '/' {
		return k, false
	}
	until, err1 := strconv.ParseUint(rest[:digits], 10, 64)
	since, err2 := strconv.ParseUint(rest[digits+1:2*digits+1], 10, 64)
	return pastKey{until, since, rest[2*digits+2:]}, err1 == nil && err2 == nil
}

// Parts of an agent, as the history and the sums of checkpoints name them.
const (
	partState   = "h"  // the agent's head
	partOwn     = "o/" // NAME
	partHead    = "h/" // CONVERSATION
	partMessage = "m/" // INNER/SEQUENCE
	partWhole   = "c/" // INNER: a conversation that was deleted
)

func messagePart(cu string, seq uint64) string { return partMessage + cu + "/" + numbered(seq) }

// parseMessagePart is the inverse of messagePart.
func parseMessagePart(part string) (cu string, seq uint64, ok bool) {
	rest, ok := strings.CutPrefix(part, partMessage)
	if !ok {
		return "", 0, false
	}
	cu, number, ok := strings.Cut(rest, "/")
	if !ok {
		return "", 0, false
	}
	seq, err := strconv.ParseUint(number, 10, 64)
	return cu, seq, err == nil
}

// lastNumber reads the number that a key ends in.
func lastNumber(key string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(key[strings.LastIndexByte(key, '/')+1:], 10, 64)
	return n, err == nil
}

// madeID is the id of a checkpoint that got none from the app. It says where the
// checkpoint is, so that it needs no index.
func madeID(au string, n uint64) string { return au + "-" + strconv.FormatUint(n, 10) }

// parseMadeID is the inverse of madeID.
func parseMadeID(id string) (au string, n uint64, ok bool) {
	au, number, ok := strings.Cut(id, "-")
	if !ok || len(au) != 13 {
		return "", 0, false
	}
	if _, err := inner().DecodeString(au); err != nil {
		return "", 0, false
	}
	n, err := strconv.ParseUint(number, 10, 64)
	return au, n, err == nil && n > 0 && number == strconv.FormatUint(n, 10)
}
