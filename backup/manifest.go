package backup

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sagestore/sagestore/internal/archive"
	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/tiers"
)

// formatNow is the version of the format that this code writes.
const formatNow = 1

// Names of the objects of a backup beside its parts.
const (
	manifestObject = "manifest.json"
	verifiedObject = "verified.json"
	damagedObject  = "damaged.txt" // what the last verification found wrong
	removingObject = "removing.txt"
)

// isOwn tells the objects of a backup that are no parts of it.
func isOwn(object string) bool {
	switch object {
	case manifestObject, verifiedObject, damagedObject, removingObject:
		return true
	}
	return false
}

// Bounds of what is read before it is known to be sound.
const (
	maxManifest = 16 << 20
	maxParts    = 64
)

// ErrKey is of a key or an identity that is missing or does not fit.
var ErrKey = errors.New("the key does not fit")

// ErrEmpty is of a store that has no record: a backup of it would be verified with
// nothing to check, and push out those that hold something.
var ErrEmpty = errors.New("the store is empty, so there is nothing to back up")

// ErrNothing is wrapped by the error of a run's work that found an empty store of which
// there never was a backup: nothing can have been lost. It is no failure.
var ErrNothing = errors.New("no backup is made")

// FactEpoch is the fact under which a store keeps the id that tells its cache
// entries from those of other stores.
const FactEpoch = "epoch"

// Manifest describes a backup. It is the object that makes one of its parts.
type Manifest struct {
	Format  int               `json:"format"`
	ID      string            `json:"id"`
	Number  uint64            `json:"number"` // one more than that of every backup that was there
	Created time.Time         `json:"created"`
	Took    time.Duration     `json:"took_ns"` // from the beginning until all parts were written
	Held    time.Duration     `json:"held_ns"` // for how long commits waited
	Store   string            `json:"store,omitempty"`
	Epoch   string            `json:"epoch,omitempty"`
	Tools   map[string]string `json:"tools,omitempty"` // versions of what made it
	Parts   []PartInfo        `json:"parts"`
	Sum     string            `json:"sha256"`         // of these bytes with sum and mac empty
	MAC     string            `json:"hmac,omitempty"` // of these bytes with mac empty
}

// PartInfo describes one part.
type PartInfo struct {
	Name     string           `json:"name"`   // database, file, ...
	Format   string           `json:"format"` // what Plain is: sqlite, postgres, tar or entries
	Path     string           `json:"path"`   // where it goes below a directory that is restored into
	Object   string           `json:"object"` // its name in the backup
	Encoding []string         `json:"encoding"`
	Plain    Digest           `json:"plain"`  // before compression and encryption
	Stored   Digest           `json:"stored"` // the object
	Schema   int64            `json:"schema"`
	Sequence uint64           `json:"sequence"`
	Version  tiers.Version    `json:"version"`
	Records  []RecordCount    `json:"records"`
	Rows     map[string]int64 `json:"rows"`
	Edited   *Noted           `json:"edited,omitempty"`   // by hand, while it was copied
	LeftOut  *Noted           `json:"left_out,omitempty"` // no part of the store
	Damaged  *Noted           `json:"damaged,omitempty"`  // when it was copied: files, of which Rows has the exact number, or records of a database
}

// Noted is what is to be told of files of a tree, or of records of a database.
type Noted struct {
	Files int64    `json:"files"`           // at least so many
	Names []string `json:"names,omitempty"` // some of them; none in a backup that is encrypted
}

// notedNames bounds the names.
const notedNames = 100

// OfAnother is why the backup is not restored over a store of this id, which is not its
// own; "" is one of which no backup was ever made.
func (m *Manifest) OfAnother(store string) error {
	mine := fmt.Sprintf("%q", store)
	if store == "" {
		mine = "this one, of which no backup was ever made"
	}
	return tiers.Hint(conflict.Errorf("it is of store %q, not of %s", m.Store, mine), "add --adopt if it is meant")
}

// Empty tells whether the backup holds nothing of anybody: there is nothing in it by
// which it could be verified.
func (m *Manifest) Empty() bool {
	for _, p := range m.Parts {
		if !p.isStore() && p.Rows["files"] > 0 || p.Rows["damaged"] > 0 || p.Rows["journal"] > 0 || p.Rows["sessions"] > 0 {
			return false
		}
		for _, n := range p.Records {
			if n.Records > 0 {
				return false
			}
		}
	}
	return true
}

// isTree tells whether the part is an archive of files.
func (p *PartInfo) isTree() bool {
	return p.Format == tiers.FormatTar || p.Format == tiers.FormatEntries
}

// isStore tells a store, whose driver reads it, from files that are none.
func (p *PartInfo) isStore() bool { return p.Schema > 0 || !p.isTree() }

// Digest is the size and the SHA-256, in hex, of a stream.
type Digest struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// RecordCount is how many records of a category a part holds, expired ones too.
type RecordCount struct {
	Namespace string `json:"namespace"`
	Category  string `json:"category"`
	Records   int64  `json:"records"`
}

// Bytes is the size of all parts before they were compressed.
func (m *Manifest) Bytes() (n int64) {
	for _, p := range m.Parts {
		n += p.Plain.Bytes
	}
	return n
}

// Stored is how much room the parts take in the bucket.
func (m *Manifest) Stored() (n int64) {
	for _, p := range m.Parts {
		n += p.Stored.Bytes
	}
	return n
}

// Records counts records by category, over all namespaces.
func (m *Manifest) Records() map[string]int64 {
	n := map[string]int64{}
	for _, p := range m.Parts {
		for _, c := range p.Records {
			n[c.Category] += c.Records
		}
	}
	return n
}

// Encrypted tells whether any part is.
func (m *Manifest) Encrypted() bool {
	return slices.ContainsFunc(m.Parts, func(p PartInfo) bool { return slices.Contains(p.Encoding, encodingAge) })
}

// seal fills in sum and mac, and answers the bytes of the object.
func (m *Manifest) seal(key []byte) ([]byte, error) {
	m.Sum, m.MAC = "", ""
	b, err := canonical(m)
	if err != nil {
		return nil, err
	}
	m.Sum = sumOf(b)
	if len(key) == 0 {
		return canonical(m)
	}
	if b, err = canonical(m); err != nil {
		return nil, err
	}
	m.MAC = macOf(key, "manifest", b)
	return canonical(m)
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func macOf(key []byte, of string, b []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("sagestore backup " + of + "\x00"))
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

// canonical is the one way in which a value is written.
func canonical(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// decode reads what canonical has written, and refuses any other bytes. An older
// program tells a newer format from damage.
func decode(b []byte, into any) error {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return fmt.Errorf("%w: %w", tiers.ErrCorrupt, err)
	}
	if head.Format > formatNow {
		return tiers.Hint(fmt.Errorf("%w: it has format %d, this version knows up to %d", tiers.ErrUnsupported, head.Format, formatNow),
			"use the newer version of sagestore that wrote it")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", tiers.ErrCorrupt, err)
	}
	again, err := canonical(into)
	if err != nil {
		return err
	}
	if !bytes.Equal(b, again) {
		return fmt.Errorf("%w: it is not as it was written", tiers.ErrCorrupt)
	}
	return nil
}

// parseManifest reads the object of a backup. authentic tells that it was signed by
// one of the keys.
func parseManifest(b []byte, id string, keys ...[]byte) (m Manifest, authentic bool, err error) {
	if err := decode(b, &m); err != nil {
		return Manifest{}, false, err
	}
	bare := m
	bare.Sum, bare.MAC = "", ""
	plain, err := canonical(&bare)
	if err != nil {
		return Manifest{}, false, err
	}
	bare.Sum = m.Sum
	summed, err := canonical(&bare)
	if err != nil {
		return Manifest{}, false, err
	}
	switch {
	case m.Format != formatNow:
		err = fmt.Errorf("%w: there is no format %d", tiers.ErrCorrupt, m.Format)
	case m.Sum != sumOf(plain):
		err = fmt.Errorf("%w: its checksum is wrong", tiers.ErrCorrupt)
	case m.ID != id:
		err = fmt.Errorf("%w: it is that of backup %.40q", tiers.ErrCorrupt, m.ID)
	default:
		authentic, err = checkMAC(keys, "manifest", summed, m.MAC)
	}
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return Manifest{}, false, err
	}
	return m, authentic, nil
}

// checkMAC compares a signature with those of the keys. Without a key nothing is
// refused.
func checkMAC(keys [][]byte, of string, b []byte, mac string) (authentic bool, err error) {
	if len(keys) == 0 || len(keys) == 1 && len(keys[0]) == 0 {
		return false, nil
	}
	if mac == "" {
		return false, tiers.Hint(fmt.Errorf("%w: it is not signed", ErrKey), unsignedHint)
	}
	for _, key := range keys {
		if hmac.Equal([]byte(mac), []byte(macOf(key, of, b))) {
			return true, nil
		}
	}
	which := "signing_key"
	if n := len(keys) - 1; n > 0 {
		which = fmt.Sprintf("signing_key or the %d of signing_keys_old", n)
	}
	return false, tiers.Hint(fmt.Errorf("%w: its signature was made with another key than %s, or not for this content", ErrKey, which), otherKeyHint)
}

// maxNumber bounds the numbers that are believed of what can't be checked, so that
// there is always a higher one.
const maxNumber = 1 << 53

var numberForm = regexp.MustCompile(`"number":\s*(\d{1,20})\b`)

// headOf reads what it can of a manifest that is damaged, signed by a key that is not
// here, or of a newer version.
func headOf(b []byte) (number uint64) {
	found := numberForm.FindSubmatch(b)
	if found == nil {
		return 0
	}
	number, err := strconv.ParseUint(string(found[1]), 10, 64)
	if err != nil || number >= maxNumber {
		return 0
	}
	return number
}

var (
	idForm   = regexp.MustCompile(`^\d{8}T\d{6}Z-[0-9a-f]{8}$`)
	nameForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
	hexForm  = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// check refuses what no backup has: a manifest may come from anybody.
func (m *Manifest) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{tiers.ErrCorrupt}, args...)...)
	}
	if len(m.Parts) == 0 || len(m.Parts) > maxParts {
		return bad("it has %d parts", len(m.Parts))
	}
	names, objects, paths := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, p := range m.Parts {
		switch {
		case !nameForm.MatchString(p.Name) || names[p.Name]:
			return bad("the name %.40q of a part", p.Name)
		case checkObject(p.Object) != nil || path.Base(p.Object) != p.Object || isOwn(p.Object) || objects[p.Object]:
			return bad("part %s is in object %.80q", p.Name, p.Object)
		case archive.CheckName(p.Path) != nil || paths[strings.ToLower(p.Path)]:
			return bad("part %s goes to %.80q", p.Name, p.Path)
		case p.Plain.Bytes < 0 || p.Stored.Bytes < 0 || !hexForm.MatchString(p.Plain.SHA256) || !hexForm.MatchString(p.Stored.SHA256):
			return bad("the sums of part %s", p.Name)
		case (p.Plain.Bytes-ratioAt)/maxRatio > p.Stored.Bytes:
			return bad("%d bytes of part %s claim to be %d", p.Stored.Bytes, p.Name, p.Plain.Bytes)
		}
		for _, e := range p.Encoding {
			if e != encodingZstd && e != encodingAge {
				return tiers.Hint(fmt.Errorf("%w: part %s is encoded by %.40q", tiers.ErrUnsupported, p.Name, e), "use the version of sagestore that wrote it")
			}
		}
		if !slices.Equal(p.Encoding, []string{encodingZstd}) && !slices.Equal(p.Encoding, []string{encodingZstd, encodingAge}) {
			return bad("part %s is encoded by %.80q", p.Name, strings.Join(p.Encoding, ", "))
		}
		names[p.Name], objects[p.Object], paths[strings.ToLower(p.Path)] = true, true, true
	}
	for _, a := range slices.Sorted(maps.Keys(paths)) {
		for dir := path.Dir(a); dir != "."; dir = path.Dir(dir) {
			if paths[dir] {
				return bad("one part goes inside of another, to %.80q", a)
			}
		}
	}
	return nil
}

// verdict says that a backup was verified.
type verdict struct {
	Format    int       `json:"format"`
	ID        string    `json:"id"`
	Manifest  string    `json:"manifest"` // its sum
	Verified  time.Time `json:"verified"`
	Rehearsed bool      `json:"rehearsed"`
	// RehearsedBefore is when, if that was not this time.
	RehearsedBefore time.Time `json:"rehearsed_before,omitzero"`
	Decoded         int64     `json:"decoded"`
	Sum             string    `json:"sha256"`
	MAC             string    `json:"hmac,omitempty"`
}

func (v *verdict) seal(key []byte) ([]byte, error) {
	v.Sum, v.MAC = "", ""
	b, err := canonical(v)
	if err != nil {
		return nil, err
	}
	v.Sum = sumOf(b)
	if len(key) > 0 {
		if b, err = canonical(v); err != nil {
			return nil, err
		}
		v.MAC = macOf(key, "verdict", b)
	}
	return canonical(v)
}

func parseVerdict(b []byte, m *Manifest, keys ...[]byte) (v verdict, err error) {
	if err := decode(b, &v); err != nil {
		return verdict{}, err
	}
	bare := v
	bare.Sum, bare.MAC = "", ""
	plain, err := canonical(&bare)
	if err != nil {
		return verdict{}, err
	}
	bare.Sum = v.Sum
	summed, err := canonical(&bare)
	if err != nil {
		return verdict{}, err
	}
	switch {
	case v.Sum != sumOf(plain):
		err = fmt.Errorf("%w: its checksum is wrong", tiers.ErrCorrupt)
	case v.ID != m.ID || v.Manifest != m.Sum:
		err = fmt.Errorf("%w: it is that of another backup", tiers.ErrCorrupt)
	default:
		_, err = checkMAC(keys, "verdict", summed, v.MAC)
	}
	return v, err
}
