package agent

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/sagestore/sagestore/tiers"
)

// Role says whose a message is.
type Role string

// The roles.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Roles answers the roles there are.
func Roles() []Role { return []Role{System, User, Assistant, ToolRole} }

// CallStatus is how far a tool call has come. Completed and Failed are final.
type CallStatus string

// The states of a tool call.
const (
	Pending   CallStatus = "pending"
	Running   CallStatus = "running"
	Completed CallStatus = "completed"
	Failed    CallStatus = "failed"
)

// CallStatuses answers the states there are.
func CallStatuses() []CallStatus { return []CallStatus{Pending, Running, Completed, Failed} }

func (s CallStatus) final() bool { return s == Completed || s == Failed }

// AttachmentKind is what is attached.
type AttachmentKind string

// The kinds of attachments.
const (
	Image AttachmentKind = "image"
	Audio AttachmentKind = "audio"
	Video AttachmentKind = "video"
	File  AttachmentKind = "file"
	Code  AttachmentKind = "code"
)

// AttachmentKinds answers the kinds there are.
func AttachmentKinds() []AttachmentKind { return []AttachmentKind{Image, Audio, Video, File, Code} }

// Kind is why a checkpoint was made.
type Kind string

// The kinds of checkpoints.
const (
	Automatic    Kind = "automatic"
	Manual       Kind = "manual"
	PreOperation Kind = "pre_operation"
	Recovery     Kind = "recovery"
)

// Kinds answers the kinds there are.
func Kinds() []Kind { return []Kind{Automatic, Manual, PreOperation, Recovery} }

// UnmarshalText reads the word, capitalised as well.
func (r *Role) UnmarshalText(text []byte) error { *r = Role(lowerWord(string(text))); return nil }

// UnmarshalText reads the word, capitalised as well.
func (s *CallStatus) UnmarshalText(text []byte) error {
	*s = CallStatus(lowerWord(string(text)))
	return nil
}

// UnmarshalText reads the word, capitalised as well.
func (k *AttachmentKind) UnmarshalText(text []byte) error {
	*k = AttachmentKind(lowerWord(string(text)))
	return nil
}

// UnmarshalText reads the word, capitalised as well.
func (k *Kind) UnmarshalText(text []byte) error { *k = Kind(lowerWord(string(text))); return nil }

// lowerWord answers "pre_operation" for "PreOperation", which other programs of
// this kind write. What is not such a word stays as it is.
func lowerWord(word string) string {
	if word == "" || !unicode.IsUpper(rune(word[0])) {
		return word
	}
	var b strings.Builder
	for i, c := range word {
		switch {
		case c > unicode.MaxASCII || !unicode.IsLetter(c):
			return word
		case unicode.IsUpper(c) && i > 0:
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// known answers ErrType, with the words there are, for one that is none of them.
func known[W ~string](what string, word W, words []W) error {
	if slices.Contains(words, word) {
		return nil
	}
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return fmt.Errorf("%w: %s %q; there are %s", tiers.ErrType, what, string(word), strings.Join(all, ", "))
}
