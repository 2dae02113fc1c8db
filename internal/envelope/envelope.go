// Package envelope frames a binary value so that it describes itself and so
// that a flipped bit is found. docs/FORMAT.md gives the bytes.
package envelope

import "github.com/sagestore/sagestore/tiers"

// Header is what an envelope says about its payload.
type Header struct {
	Codec  string
	Schema uint32
	Flags  tiers.Flags // Compressed, Encrypted
	KeyID  string      // which key encrypted it; empty otherwise
	Size   uint64      // length of the value before compression and encryption
}
