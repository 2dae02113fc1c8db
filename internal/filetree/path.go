package filetree

import (
	"slices"
	"strings"

	"github.com/sagestore/sagestore/tiers"
)

// longest is how many bytes of an escaped name go into one component. With the
// longest ending, the dot of a dot-file and ".edited-" plus a version it stays
// below 255, which is what file systems take.
const longest = 160

// more ends a directory whose name goes on in the next component. The byte is
// always escaped in names, so the mark can't be mistaken.
const more = "+"

// place is where a key lives: components of the directory, and the name of its
// files without their endings.
type place struct {
	dirs []string
	stem string
}

func (p place) dir() string { return strings.Join(p.dirs, "/") }

// placeOf escapes a key. The result is the only name the key has, no two keys
// share one, also where the file system folds case, and every component is a
// plain name: never a dot-name, never one that Windows keeps for a device.
func placeOf(k tiers.Key) place {
	dirs := spaceDirs(k.Space())
	segs := segments(k.Name)
	for _, seg := range segs[:len(segs)-1] {
		dirs = appendSegment(dirs, seg, directory)
	}
	dirs = appendSegment(dirs, segs[len(segs)-1], last)
	return place{dirs: dirs[:len(dirs)-1], stem: dirs[len(dirs)-1]}
}

// spaceDirs answers the components of a space's directory.
func spaceDirs(s tiers.Space) []string {
	dirs := make([]string, 0, 8)
	if s.Namespace != "" {
		dirs = append(dirs, "@"+s.Namespace)
	}
	return appendSegment(dirs, s.Category, category)
}

// segments splits a key at the slashes that can be directory borders: those
// between two bytes that are not slashes. The others stay and are escaped, so
// that no component is ever empty.
func segments(name string) []string {
	var segs []string
	start := 0
	for i := 1; i < len(name)-1; i++ {
		if name[i] == '/' && name[i-1] != '/' && name[i+1] != '/' {
			segs = append(segs, name[start:i])
			start = i + 1
		}
	}
	return append(segs, name[start:])
}

// role says what a segment becomes, which decides about its dots.
type role int

const (
	category role = iota
	directory
	last
)

// appendSegment appends the components of one segment.
func appendSegment(dirs []string, seg string, as role) []string {
	esc := escape(seg, func(i int) bool { return dotStays(seg, i, as) })
	if len(esc) <= longest {
		return append(dirs, noDevice(esc))
	}
	// A component must not begin with a dot, so split names keep none.
	esc = escape(seg, func(int) bool { return false })
	for len(esc) > longest {
		cut := longest
		if i := strings.LastIndexByte(esc[:cut], '%'); i > cut-3 {
			cut = i
		}
		dirs = append(dirs, esc[:cut]+more)
		esc = esc[cut:]
	}
	return append(dirs, noDevice(esc))
}

// dotStays tells whether the dot at i would not mislead: not one that makes a
// dot-name, not one that systems strip, not one that makes a directory look
// like a record or a record like an edit that was kept.
func dotStays(seg string, i int, as role) bool {
	if i == 0 || i == len(seg)-1 || strings.HasPrefix(seg[i:], edited) {
		return false
	}
	return as != directory || seg[i:] != ".json" && seg[i:] != ".sage" && seg[i:] != ".entry"
}

const hex = "0123456789ABCDEF"

// escape writes every byte but a-z, 0-9, "_", "-" and the dots that stay as
// %XX.
func escape(s string, dot func(i int) bool) string {
	plain := true
	for i := range len(s) {
		if !isPlain(s[i]) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := range len(s) {
		c := s[i]
		if isPlain(c) || c == '.' && dot(i) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// EscapeEnding escapes a codec's name for use in a file's ending, where no dot
// may stay.
func EscapeEnding(codec string) string {
	return escape(codec, func(int) bool { return false })
}

// UnescapeEnding is the inverse of [EscapeEnding].
func UnescapeEnding(s string) string { return unescape(s) }

// noDevice escapes the first byte of a name that Windows takes for a device,
// with any ending.
func noDevice(name string) string {
	stem, _, _ := strings.Cut(name, ".")
	switch stem {
	case "con", "prn", "aux", "nul":
	default:
		if len(stem) != 4 || stem[:3] != "com" && stem[:3] != "lpt" || stem[3] < '0' || stem[3] > '9' {
			return name
		}
	}
	c := name[0]
	return "%" + string([]byte{hex[c>>4], hex[c&15]}) + name[1:]
}

// unescape reads %XX, and leaves alone what is none, so that the name of any
// file leads to a key whose right name can be told.
func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := unhex(s[i+1]), unhex(s[i+2])
			if hi >= 0 && lo >= 0 {
				b = append(b, byte(hi<<4|lo)) //nolint:gosec // two digits
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}

// below answers the beginning that all keys below a directory share, given that
// of its parent.
func below(parent, dir string) string {
	if part, goesOn := strings.CutSuffix(dir, more); goesOn {
		return parent + unescape(part)
	}
	return parent + unescape(dir) + "/"
}

// canonical tells whether these components are the ones that the key gets.
func canonical(k tiers.Key, dirs []string, stem string) bool {
	p := placeOf(k)
	return p.stem == stem && slices.Equal(p.dirs, dirs)
}
