package agent

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Lengths of a title, in characters as people see them.
const (
	titleLength = 50
	titleDots   = "..."
)

// Title answers a title for a text: its white space collapsed, and of a text with
// more than 50 characters the first 47 and three dots. A character is what people
// see as one: an emoji of several code points is not cut.
func Title(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	n, cut, at := 0, 0, 0
	for rest, state := text, -1; rest != ""; {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if at += len(cluster); n < titleLength-len(titleDots) {
			cut = at
		}
		if n++; n > titleLength {
			return text[:cut] + titleDots
		}
	}
	return text
}

// titleOf answers the title that a message makes, "" when it is not for that.
func titleOf(m *Message) string {
	if m.Role != User {
		return ""
	}
	return Title(m.Content)
}

// AutoTitle sets the title from the first message of a user that has text, unless
// there is a title. It stores nothing.
func (c *Conversation) AutoTitle() {
	for i := range c.Messages {
		if c.Title == "" {
			c.Title = titleOf(&c.Messages[i])
		}
	}
}
