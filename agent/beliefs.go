package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// maxKeyName is how many bytes of a name a checkpoint key shows; a longer one
// shows a digest.
const maxKeyName = 200

// CheckpointKey answers the key under which an agent that begins with these beliefs
// keeps what it remembers: its name, "_", and 16 hexadecimal digits of SHA-256 over
// the name and the beliefs in a canonical form that docs/FORMAT.md gives. It is the
// same on every machine and for every version of this package: beliefs are what
// JSON says of them, whatever the order of a map; 1 and 1.0 are one number, and
// whole numbers count to the last digit. Beliefs given as json.RawMessage are the
// value that the text says.
//
// In the name "/", "%", NUL and what is no UTF-8 show as %XX; the digest of a name
// that would have more than 200 bytes stands for it. NaN, a key that an object has
// twice, and what JSON can't say are tiers.ErrType.
func CheckpointKey(name string, beliefs any) (string, error) {
	refused := func(err error) error {
		return &tiers.Error{Op: "make checkpoint key", Err: fmt.Errorf("%w: the beliefs: %w", tiers.ErrType, err)}
	}
	text, err := serializer.JSON().Append(nil, beliefs)
	if err != nil {
		return "", refused(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", refused(err)
	}
	canonical, err := appendCanonical(nil, v)
	if err != nil {
		return "", refused(err)
	}
	var b []byte
	for _, part := range []string{name, string(canonical)} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	return keyName(name) + "_" + hex.EncodeToString(sum[:8]), nil
}

// keyName answers the name as it can stand in a key and in a file's name.
func keyName(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		if r == utf8.RuneError && n == 1 || r == '/' || r == '%' || r == 0 {
			fmt.Fprintf(&b, "%%%02X", name[i])
			n = 1
		} else {
			b.WriteString(name[i : i+n])
		}
		i += n
	}
	if b.Len() <= maxKeyName {
		return b.String()
	}
	sum := sha256.Sum256([]byte(name))
	return "%=" + hex.EncodeToString(sum[:16]) // no escaped name holds "%="
}

// appendCanonical writes a value that was decoded with numbers as text. That keys
// are there once, the encoder has seen to.
func appendCanonical(dst []byte, v any) (_ []byte, err error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return appendText(dst, v), nil
	case json.Number:
		return appendNumber(dst, string(v))
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendCanonical(dst, e); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		dst = append(dst, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendText(dst, name), ':')
			if dst, err = appendCanonical(dst, v[name]); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	}
	return dst, fmt.Errorf("%T is nothing that JSON says", v)
}

// appendText writes a text between quotes as it is, but for quotes and backslashes,
// which get a backslash.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '"')
}

// appendNumber writes a number as digits that neither begin nor end in 0, with "-"
// before them, and "e" and the power of ten behind them when that is not 0.
func appendNumber(dst []byte, s string) ([]byte, error) {
	digits, negative := strings.CutPrefix(s, "-")
	power := int64(0)
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		n, err := strconv.ParseInt(digits[i+1:], 10, 64)
		if err != nil || n > math.MaxInt32 || n < math.MinInt32 {
			return dst, fmt.Errorf("the number %.40s has an impossible power of ten", s)
		}
		digits, power = digits[:i], n
	}
	if whole, fraction, ok := strings.Cut(digits, "."); ok {
		digits = whole + fraction
		power -= int64(len(fraction))
	}
	digits = strings.TrimLeft(digits, "0")
	short := strings.TrimRight(digits, "0")
	power += int64(len(digits) - len(short))
	if short == "" {
		return append(dst, '0'), nil
	}
	if negative {
		dst = append(dst, '-')
	}
	dst = append(dst, short...)
	if power != 0 {
		dst = strconv.AppendInt(append(dst, 'e'), power, 10)
	}
	return dst, nil
}
