package transfer_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/internal/transfer"
	"github.com/sagestore/sagestore/sagetest"
)

func TestHeadingsAreNeitherEmptyNorEndless(t *testing.T) {
	s := agent.New(sagetest.Open(t))
	for _, c := range []struct{ why, title, want string }{
		{"a title", "Order", "# Order\n"},
		{"none", "", "# c\n"},
		{"nothing but white space", " \n\t", "# c\n"},
		{"a long one", strings.Repeat("é", 1000), "# " + strings.Repeat("é", 120) + "…\n"},
		{"a long one of several code points each", strings.Repeat("e\u0301", 1000), "# " + strings.Repeat("e\u0301", 120) + "…\n"},
		{"an escape at its end", strings.Repeat("x", 119) + strings.Repeat("*", 9), "# " + strings.Repeat("x", 119) + "…\n"},
	} {
		if err := s.Save(t.Context(), agent.NewState("a", "", "")); err != nil {
			t.Fatal(err)
		}
		conv := agent.NewConversation("a")
		conv.ID, conv.Title = "c", c.title
		if err := s.SaveConversation(t.Context(), conv); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := transfer.ConversationMarkdown(t.Context(), s, "c", &b); err != nil {
			t.Fatal(err)
		}
		if line, _, _ := strings.Cut(b.String(), "\n"); line+"\n" != c.want {
			t.Errorf("%s: the heading is %q, want %q", c.why, line, c.want)
		}
		if _, err := s.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
}
