package backup

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"filippo.io/age"

	"github.com/sagestore/sagestore/tiers"
)

const (
	// Latest stands for the newest verified backup wherever an id is wanted.
	Latest = "latest"
	// DefaultAbandoned is how old a backup without a manifest has to be before it
	// counts as left behind.
	DefaultAbandoned = 24 * time.Hour
	// minKey is the least length of a signing key, in bytes.
	minKey = 16
)

// Options are how a repository reads and writes. The zero value neither encrypts nor
// signs, and can't verify what holds records.
type Options struct {
	// Recipients are public keys of age (age1...) to encrypt to.
	Recipients []string
	// Identities are the private keys of age (AGE-SECRET-KEY-1...) to decrypt with.
	// Making and verifying a backup at once needs none.
	Identities []string
	// Key signs manifests, at least 16 bytes. With a key, what is not signed by it
	// is refused.
	Key []byte
	// OldKeys are earlier keys: what one of them has signed is as good as what Key
	// has, and nothing new is signed by it. A key that somebody else has got hold of
	// is not to be here.
	OldKeys [][]byte
	// Copies read the copies of stores, one for each format but tar.
	Copies []tiers.Copies
	// Decode decodes a record as the app would, to prove that it can be read. A
	// backup that holds records and can't have any decoded is never verified.
	Decode func(ctx context.Context, r tiers.Record) error
	// DecodeFile does so for a file of a tree; nil: files are only compared.
	DecodeFile func(ctx context.Context, name string, body io.Reader) error
	// Temp is the directory for what is unpacked to be looked at; "": the system's.
	Temp string
	// Owner tells stores apart that share that directory, such as by their data
	// directory: [Repo.LeftBehind] answers what the runs of this one left. "": all.
	Owner string
	// Abandoned is for how long a backup may be under way; 0: DefaultAbandoned.
	Abandoned time.Duration
	Clock     tiers.Clock // nil: tiers.SystemClock
}

// Repo is a repository of backups. It is safe for concurrent use; that one backup is
// made at a time is for the caller to see to.
type Repo struct {
	bucket     Bucket
	o          Options
	recipients []age.Recipient
	identities []age.Identity
	tell       func(Progress)                       // of verifications; may be nil
	step       func(name string) error              // for tests; may be nil
	room       func(path string) (s space, ok bool) // for tests; nil asks the system
}

// Open answers the repository that is in the bucket. It looks at nothing there.
func Open(b Bucket, o Options) (*Repo, error) {
	r := &Repo{bucket: b, o: o}
	if b == nil {
		return nil, errors.New("open backups: there is no bucket")
	}
	if n := len(o.Key); n > 0 && n < minKey {
		return nil, badKey("signing_key", "`openssl rand -base64 32` makes one", "the signing key has %d bytes, at least %d are needed", n, minKey)
	}
	r.o.Key = slices.Clone(o.Key)
	r.o.OldKeys = nil
	for i, k := range o.OldKeys {
		if len(k) < minKey {
			return nil, badKey("signing_keys_old", "take it out, or write it as it was when it signed", "old signing key %d has %d bytes, at least %d are needed", i+1, len(k), minKey)
		}
		r.o.OldKeys = append(r.o.OldKeys, slices.Clone(k))
	}
	if len(r.o.OldKeys) > 0 && len(o.Key) == 0 {
		return nil, badKey("signing_key", "name the one that signs from now on", "there are old signing keys and no new one")
	}
	r.o.Abandoned = cmp.Or(o.Abandoned, DefaultAbandoned)
	if r.o.Clock == nil {
		r.o.Clock = tiers.SystemClock()
	}
	for i, text := range o.Recipients {
		rs, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil {
			return nil, badKey("recipients", "write public keys of age, age1...; age-keygen -y shows that of a private one", "recipient %d: %w", i+1, err)
		}
		r.recipients = append(r.recipients, rs...)
	}
	for i, text := range o.Identities {
		ids, err := age.ParseIdentities(strings.NewReader(text))
		if err != nil { // its text may repeat the secret
			return nil, badKey("identities", "write private keys of age, AGE-SECRET-KEY-1..., as age-keygen makes them", "identity %d is none of age's", i+1)
		}
		r.identities = append(r.identities, ids...)
	}
	return r, nil
}

// badKey is the error of a key that can't be used, under the name that it has in the
// configuration.
func badKey(name, hint, format string, args ...any) error {
	err := fmt.Errorf("%w: "+format, append([]any{ErrKey}, args...)...)
	return &tiers.Error{Op: "open backups", Err: err, Hint: "backup." + name + ": " + hint}
}

// keys are those whose signatures count, the one that signs first.
func (r *Repo) keys() [][]byte {
	if len(r.o.Key) == 0 {
		return nil
	}
	return append([][]byte{r.o.Key}, r.o.OldKeys...)
}

// at tells a test how far the work has come.
func (r *Repo) at(name string) error {
	if r.step == nil {
		return nil
	}
	return r.step(name)
}

// copies answers what reads the format.
func (r *Repo) copies(format string) (tiers.Copies, error) {
	for _, c := range r.o.Copies {
		if c.Format() == format {
			return c, nil
		}
	}
	return nil, tiers.Hint(fmt.Errorf("%w: nothing here reads a copy in the format %.40q", tiers.ErrUnsupported, format),
		"use a program that has the driver which wrote it: its Copies belong into the Options of the repository")
}

// newID answers an id that begins with the time.
func newID(now time.Time) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return now.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(b[:])
}

// timeOf answers when an id was made.
func timeOf(id string) time.Time {
	stamp, _, _ := strings.Cut(id, "-")
	t, _ := time.Parse("20060102T150405Z", stamp) // the zero time is old enough
	return t
}

// objects answers the sizes of all objects, -1 where the bucket does not tell, by the
// id of their backup and their name.
func (r *Repo) objects(ctx context.Context, prefix string) (map[string]map[string]int64, error) {
	all := map[string]map[string]int64{}
	for o, err := range ListerOf(r.bucket).Objects(ctx, prefix) {
		if err != nil {
			return nil, tiers.Hint(err, "see that backup.dest, or --destination, is a directory or a bucket that can be read")
		}
		if id, object, ok := strings.Cut(o.Name, "/"); ok && idForm.MatchString(id) {
			if all[id] == nil {
				all[id] = map[string]int64{}
			}
			all[id][object] = o.Size
		}
	}
	return all, nil
}

// get reads a small object.
func (r *Repo) get(ctx context.Context, name string) (b []byte, err error) {
	o, err := r.bucket.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	b, err = io.ReadAll(io.LimitReader(o, maxManifest+1))
	if err := errors.Join(err, o.Close()); err != nil {
		return nil, err
	}
	if len(b) > maxManifest {
		return nil, fmt.Errorf("%w: %s is too large", tiers.ErrCorrupt, name)
	}
	return b, nil
}

// temp makes a directory of our own to unpack into.
func (r *Repo) temp() (dir string, remove func() error, err error) {
	parent, err := r.scratchParent()
	if err != nil {
		return "", nil, err
	}
	if r.o.Temp != "" {
		if err := os.MkdirAll(parent, 0o700); err != nil {
			return "", nil, err
		}
	}
	return newScratch(parent, r.ownPrefix())
}

// fail completes an error.
func fail(op, id string, err error) error {
	if err == nil {
		return nil
	}
	if id != "" {
		op += " " + id
	}
	if errors.Is(err, syscall.ENOSPC) && !errors.Is(err, tiers.ErrFull) {
		err = fmt.Errorf("%w: %w", tiers.ErrFull, err)
		if e, ok := errors.AsType[*tiers.Error](err); !ok || e.Hint == "" {
			err = tiers.Hint(err, "make room there, or name another place (backup.dest, backup.temp, --to), and try again")
		}
	}
	return tiers.Fail(op, "", tiers.Key{}, err)
}

// part names the part that an error is about.
func part(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("part %s: %w", name, err)
}
