package knowledge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// Unknown is the number of tokens of content that nobody has counted.
const Unknown = -1

// Cache is content that sessions have loaded.
type Cache struct {
	ContentHash string    `json:"content_hash"` // "sha256:" and 64 hex digits
	Content     string    `json:"content"`      // bytes of any kind
	Tokens      int       `json:"tokens"`       // or Unknown
	LoadedAt    time.Time `json:"loaded_at"`    // first, by any session
	AccessCount int64     `json:"access_count"` // how often it was put and got, this time included
}

// body is content as knowledge.bodies holds it, under its hash.
type body struct {
	Content  string    `json:"content"`
	Bytes    []byte    `json:"bytes,omitempty"` // instead, when it is not UTF-8
	Tokens   int       `json:"tokens"`
	LoadedAt time.Time `json:"loaded_at"`
}

func bodyOf(c Cache) body {
	b := body{Tokens: c.Tokens, LoadedAt: c.LoadedAt}
	if utf8.ValidString(c.Content) {
		b.Content = c.Content
	} else {
		b.Bytes = []byte(c.Content)
	}
	return b
}

func (b *body) content() string {
	if len(b.Bytes) > 0 {
		return string(b.Bytes)
	}
	return b.Content
}

// holder says that a session has a reference. It is below the body.
type holder struct {
	Session string `json:"session"`
}

// reference is what a session holds of content, in knowledge.content.
type reference struct {
	Hash     string    `json:"content_hash"`
	LoadedAt time.Time `json:"loaded_at"`
}

// Hash answers the name of content: "sha256:" and 64 hex digits.
func Hash(content string) string {
	s := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(s[:])
}

func checkHash(hash string) error {
	digits, ok := strings.CutPrefix(hash, "sha256:")
	if _, err := hex.DecodeString(digits); !ok || err != nil || len(digits) != 64 || strings.ToLower(digits) != digits {
		return tiers.Hint(fmt.Errorf("%w: %q is no hash of content", tiers.ErrKey, hash), `it is "sha256:" and 64 hex digits in lower case`)
	}
	return nil
}

// Put has the session load content, and answers it with its hash. Content that is
// there already is not stored again, and keeps the number of tokens that is known
// of it. tokens may be [Unknown]. A session that has ended is
// tiers.ErrSessionEnded.
func (k *Store) Put(ctx context.Context, session, content string, tokens int) (Cache, error) {
	return k.Add(ctx, session, Cache{Content: content, Tokens: tokens})
}

// Add is [Store.Put] of content that comes with its hash: tiers.ErrCorrupt when
// that is the hash of something else. An empty one is filled in; LoadedAt is now
// unless it is set.
func (k *Store) Add(ctx context.Context, session string, c Cache) (Cache, error) {
	hash := Hash(c.Content)
	var err error
	switch {
	case session == "":
		err = fmt.Errorf("%w: the id of the session is empty", tiers.ErrKey)
	case c.ContentHash != "" && checkHash(c.ContentHash) != nil:
		err = checkHash(c.ContentHash)
	case c.ContentHash != "" && c.ContentHash != hash:
		err = tiers.Hint(fmt.Errorf("%w: the content has the hash %s", tiers.ErrCorrupt, hash), "load it again from where it comes from")
	case c.Tokens < Unknown:
		err = fmt.Errorf("%w: %d tokens", tiers.ErrType, c.Tokens)
	}
	if err != nil {
		return Cache{}, fail("put", c.ContentHash, err)
	}
	c.ContentHash = hash
	if c.LoadedAt.IsZero() {
		c.LoadedAt = k.now()
	}
	if c.Tokens == Unknown && k.count != nil {
		if n, ok := k.count(c.Content); ok {
			c.Tokens = n
		}
	}
	var stored body
	err = k.update(ctx, func(v view) error {
		stored, err = v.put(ctx, session, c)
		return err
	})
	if err != nil {
		return Cache{}, fail("put", hash, err)
	}
	return k.loaded(ctx, c.Content, hash, stored)
}

// put stores what is missing of content, and the reference of the session.
func (v view) put(ctx context.Context, session string, c Cache) (body, error) {
	b, err := v.bodies.Load(ctx, c.ContentHash)
	switch {
	case errors.Is(err, tiers.ErrNotFound), err == nil && b.content() != c.Content: // damaged
		b = bodyOf(c)
		err = v.bodies.Save(ctx, c.ContentHash, b)
	case err == nil && b.Tokens == Unknown && c.Tokens != Unknown:
		b.Tokens = c.Tokens
		err = v.bodies.Save(ctx, c.ContentHash, b)
	}
	if err == nil {
		err = v.holders.Save(ctx, manager.Key(c.ContentHash, session), holder{session})
	}
	if err == nil {
		err = v.references.Save(ctx, manager.Key(session, c.ContentHash), reference{c.ContentHash, v.now()})
	}
	return b, err
}

// loaded counts an access and answers the content.
func (k *Store) loaded(ctx context.Context, content, hash string, b body) (Cache, error) {
	n, err := k.access(ctx, hash)
	return Cache{ContentHash: hash, Content: content, Tokens: b.Tokens, LoadedAt: b.LoadedAt, AccessCount: n}, fail("count an access of", hash, err)
}

// Get answers content that some session holds. tiers.ErrNotFound: none does.
// tiers.ErrCorrupt: what is stored does not have the hash any more; put it again.
// When only counting the access fails, the content is there beside the error.
func (k *Store) Get(ctx context.Context, hash string) (Cache, error) {
	if err := checkHash(hash); err != nil {
		return Cache{}, fail("get", hash, err)
	}
	b, err := k.bodies.Load(ctx, hash)
	if err != nil {
		return Cache{}, fail("get", hash, err)
	}
	content := b.content()
	if Hash(content) != hash {
		return Cache{}, fail("get", hash, tiers.Hint(fmt.Errorf("%w: it has another hash than it is stored under", tiers.ErrCorrupt), "put the content again"))
	}
	held, err := k.held(ctx, hash)
	if err == nil && !held {
		err = tiers.ErrNotFound
	}
	if err != nil {
		return Cache{}, fail("get", hash, err)
	}
	return k.loaded(ctx, content, hash, b)
}

// Drop lets the session no longer hold content, which goes when nobody else does.
// It tells whether the session held it.
func (k *Store) Drop(ctx context.Context, session, hash string) (held bool, err error) {
	if err := checkHash(hash); err != nil {
		return false, fail("drop", hash, err)
	}
	err = k.update(ctx, func(v view) error {
		held, err = v.references.Delete(ctx, manager.Key(session, hash))
		if err != nil {
			return err
		}
		if _, err := v.holders.Delete(ctx, manager.Key(hash, session)); err != nil {
			return err
		}
		_, err = v.tidy(ctx, hash)
		return err
	})
	return held && err == nil, fail("drop", hash, err)
}

// Held answers the hashes of the content that a session holds, in order.
func (k *Store) Held(ctx context.Context, session string) ([]string, error) {
	var all []string
	for e, err := range k.references.List(ctx, manager.Prefix(manager.Key(session)+"/"), manager.KeysOnly()) {
		if err != nil {
			return all, err
		}
		segments := manager.SplitKey(e.Key)
		all = append(all, segments[len(segments)-1])
	}
	return all, nil
}
