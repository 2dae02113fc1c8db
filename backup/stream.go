package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"runtime"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/sagestore/sagestore/internal/aside"
	"github.com/sagestore/sagestore/tiers"
)

// Encodings of a part, in the order in which they are applied.
const (
	encodingZstd = "zstd"
	encodingAge  = "age"
)

// window is how far back the packed stream refers: what unpacking it needs.
const window = 8 << 20

// Bounds of how much larger than its object a part may claim to be: of what is made
// of nearly nothing there is no more than that.
const (
	maxRatio = 1000
	ratioAt  = 1 << 30
)

// meter hashes and counts what goes through it, the former beside what writes to it.
type meter struct {
	h     hash.Hash
	aside *aside.Writer // to h
	n     int64
	moved func(n int64) // may be nil
}

func newMeter(moved func(int64)) *meter {
	h := sha256.New()
	return &meter{h: h, aside: aside.NewWriter(h), moved: moved}
}

// Write never fails.
func (m *meter) Write(p []byte) (int, error) {
	m.n += int64(len(p))
	if m.moved != nil {
		m.moved(m.n)
	}
	runtime.Gosched() // whoever waits for a turn, such as a caller of the store, has it now
	return m.aside.Write(p)
}

// digest answers what has gone through. It is called in any case, since it ends the
// hashing; again it answers the same.
func (m *meter) digest() Digest {
	_ = m.aside.Close() // a hash never fails
	return Digest{Bytes: m.n, SHA256: hex.EncodeToString(m.h.Sum(nil))}
}

// encode writes what fill writes to w, packed and encrypted to the recipients, if
// there are any.
func encode(w io.Writer, to []age.Recipient, moved func(int64), fill func(w io.Writer) error) (plain, stored Digest, err error) {
	out := newMeter(nil)
	w = io.MultiWriter(w, out)
	var sealed io.WriteCloser
	if len(to) > 0 {
		if sealed, err = age.Encrypt(w, to...); err != nil {
			return plain, out.digest(), err
		}
		w = sealed
	}
	packed, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window/2))
	if err != nil {
		return plain, out.digest(), err
	}
	in, packing := newMeter(moved), aside.NewWriter(packed)
	err = fill(io.MultiWriter(in, packing))
	err = errors.Join(err, packing.Close(), packed.Close())
	if err == nil && sealed != nil {
		err = sealed.Close()
	}
	return in.digest(), out.digest(), err
}

// opened is a part that is being read. Whoever reads it to its end calls finish,
// before which nothing that was read may be believed.
type opened struct {
	p      *PartInfo
	object io.ReadCloser
	source *source
	raw    io.Reader // what is left of the object, hashed
	stored *meter
	sealed io.Reader // what is left of the packed stream
	packed *zstd.Decoder
	plain  *meter
	left   int64
	err    error
}

// openPart opens a part for reading what it was made of.
func openPart(ctx context.Context, b Bucket, id string, p *PartInfo, ids []age.Identity, moved func(int64)) (_ *opened, err error) {
	o := &opened{p: p, stored: newMeter(nil), plain: newMeter(moved), left: p.Plain.Bytes}
	if o.object, err = b.Get(ctx, id+"/"+p.Object); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_, err = o.stored.digest(), errors.Join(err, o.object.Close())
		}
	}()
	// One byte more than there should be, so that a longer object is noticed.
	o.source = &source{r: &ending{ctx: ctx, r: o.object}}
	o.raw = io.TeeReader(io.LimitReader(o.source, p.Stored.Bytes+1), o.stored)
	o.sealed = o.raw
	if len(p.Encoding) > 1 {
		if o.sealed, err = unseal(o.raw, ids); err != nil {
			// A damaged header looks like one for somebody else.
			if _, also := io.Copy(io.Discard, o.raw); also != nil {
				err = also
			} else if o.stored.digest() != p.Stored {
				err = fmt.Errorf("%w: its bytes are not those that were written", tiers.ErrCorrupt)
			}
			return nil, o.damaged(ctx, err)
		}
	}
	o.packed, err = zstd.NewReader(o.sealed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, o.damaged(ctx, err)
	}
	return o, nil
}

// unseal decrypts what encode has encrypted.
func unseal(r io.Reader, ids []age.Identity) (io.Reader, error) {
	const hint = "add the private key of one of its recipients to backup.identities"
	if len(ids) == 0 {
		return nil, tiers.Hint(fmt.Errorf("%w: it is encrypted, and there is no identity", ErrKey), hint)
	}
	plain, err := age.Decrypt(r, ids...)
	if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		err = tiers.Hint(fmt.Errorf("%w: none of the identities opens it", ErrKey), hint)
	}
	return plain, err
}

// Read never answers more than the manifest says.
func (o *opened) Read(b []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	if int64(len(b)) > o.left+1 {
		b = b[:o.left+1]
	}
	n, err := o.packed.Read(b)
	if int64(n) > o.left {
		n, err = int(o.left), fmt.Errorf("%w: it unpacks to more than %d bytes", tiers.ErrCorrupt, o.p.Plain.Bytes)
	}
	o.left -= int64(n)
	_, _ = o.plain.Write(b[:n]) // never fails
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", tiers.ErrCorrupt, err)
	}
	o.err = err
	return n, err
}

// finish reads what is left and tells whether all of it was as the manifest says. It
// closes the part. cause is what went wrong before, or nil.
func (o *opened) finish(ctx context.Context, cause error) error {
	if cause == nil {
		_, cause = io.Copy(io.Discard, o)
	}
	if cause == nil {
		var n int64
		if n, cause = io.CopyN(io.Discard, o.sealed, 1); n > 0 {
			cause = fmt.Errorf("%w: something follows its end", tiers.ErrCorrupt)
		} else if errors.Is(cause, io.EOF) {
			cause = nil
		}
	}
	if cause == nil {
		_, cause = io.Copy(io.Discard, o.raw)
	}
	o.packed.Close()
	err := errors.Join(cause, o.object.Close())
	stored, plain := o.stored.digest(), o.plain.digest()
	if err == nil && (stored != o.p.Stored || plain != o.p.Plain) {
		err = fmt.Errorf("%w: its bytes are not those that were written", tiers.ErrCorrupt)
	}
	return o.damaged(ctx, err)
}

// damaged marks what decoders say about damage; the end of the context is none.
func (o *opened) damaged(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case o.source.err != nil:
		return fmt.Errorf("%w: %w", tiers.ErrUnavailable, o.source.err)
	case errors.Is(err, tiers.ErrCorrupt), errors.Is(err, ErrKey), errors.Is(err, errHere):
		return err
	}
	return fmt.Errorf("%w: %w", tiers.ErrCorrupt, err)
}

// source remembers errors of the bucket, which are no damage.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// errHere marks errors of the place that is restored to: the backup is not to blame.
var errHere = errors.New("it can't be unpacked here")
