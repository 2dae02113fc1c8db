package serializer

import (
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/sagestore/sagestore/tiers"
)

// window bounds what a decoder has to keep, and with it the memory of hostile
// frames.
const window = 1 << 20

// compressor makes its encoder and decoder when they are first needed. Both are
// safe for concurrent use and start no goroutine for whole values.
type compressor struct {
	enc     *zstd.Encoder
	dec     *zstd.Decoder
	encOnce sync.Once
	decOnce sync.Once
}

func (c *compressor) compress(dst, src []byte) []byte {
	c.encOnce.Do(func() {
		// The options are constants, so that there is no error to have.
		c.enc, _ = zstd.NewWriter(nil, zstd.WithWindowSize(window), zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true))
	})
	return c.enc.EncodeAll(src, dst)
}

// decompress appends the size bytes that src stands for, and not one more. A
// frame that says another size is refused before anything is allocated.
func (c *compressor) decompress(dst, src []byte, size uint64) ([]byte, error) {
	var frame zstd.Header
	if err := frame.Decode(src); err != nil {
		return dst, fmt.Errorf("%w: it is not compressed as it says: %w", tiers.ErrCorrupt, err)
	}
	if !frame.HasFCS || frame.Skippable || frame.FrameContentSize != size || frame.WindowSize > max(window, size) {
		return dst, fmt.Errorf("%w: the compressed value does not have the %d bytes that were saved", tiers.ErrCorrupt, size)
	}
	c.decOnce.Do(func() {
		c.dec, _ = zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true))
	})
	n := int(size) //nolint:gosec // it is within the registry's limit
	dst = slices.Grow(dst, n)
	dst, err := c.dec.DecodeAll(src, dst[:len(dst):len(dst)+n])
	if err != nil {
		return dst, fmt.Errorf("%w: it does not decompress: %w", tiers.ErrCorrupt, err)
	}
	return dst, nil
}
