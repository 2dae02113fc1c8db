package manager

import "strings"

// Key joins segments with "/" and escapes "/" and "%" within each, as "%2F" and
// "%25", so that different segments never make the same key. It checks nothing:
// a key that can't be stored is refused where it is used.
func Key(segments ...string) string {
	switch len(segments) {
	case 0:
		return ""
	case 1:
		return escapeSegment(segments[0])
	}
	n := len(segments) - 1
	for _, s := range segments {
		n += len(s)
	}
	var b strings.Builder
	b.Grow(n)
	for i, s := range segments {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(escapeSegment(s))
	}
	return b.String()
}

// SplitKey is the inverse of [Key]: it cuts at "/" and takes the escapes back.
// Text that Key would not have made, such as a lone "%", stays as it is.
func SplitKey(key string) []string {
	segments := strings.Split(key, "/")
	for i, s := range segments {
		segments[i] = unescapeSegment(s)
	}
	return segments
}

func escapeSegment(s string) string {
	if !strings.ContainsAny(s, "/%") {
		return s
	}
	s = strings.ReplaceAll(s, "%", "%25")
	return strings.ReplaceAll(s, "/", "%2F")
}

func unescapeSegment(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	s = strings.ReplaceAll(s, "%2F", "/")
	return strings.ReplaceAll(s, "%25", "%")
}

// firstSegment answers the text of the key before its first "/".
func firstSegment(key string) string {
	first, _, _ := strings.Cut(key, "/")
	return first
}
