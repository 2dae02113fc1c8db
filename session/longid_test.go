package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// TestASessionThatBeginsCanEnd has ids of all lengths near the longest: what can be begun
// has room for its events, and can be ended and deleted.
func TestASessionThatBeginsCanEnd(t *testing.T) {
	t.Parallel()
	sessions := session.New(sagetest.Open(t))
	ctx := t.Context()
	begun, refused := 0, 0
	for n := 960; n <= tiers.MaxKey+1; n++ {
		id := strings.Repeat("s", n)
		e, err := session.NewEvent(id, "", session.UserPrompt{Prompt: "hello"})
		if err != nil {
			t.Fatal(err)
		}
		short := e
		short.ID = "e"
		err = sessions.Start(ctx, session.State{SessionID: id, UserID: "u"})
		if _, alsoLog := sessions.Append(ctx, id, short); (alsoLog == nil) != (err == nil) {
			t.Errorf("%d bytes: Start answers %v, Append %v", n, err, alsoLog)
		}
		if err != nil {
			if refused++; !errors.Is(err, tiers.ErrKey) || !strings.Contains(err.Error(), "choose a shorter one") && n <= 1000 {
				t.Errorf("%d bytes: %v", n, err)
			}
			continue
		}
		begun++
		if _, err := sessions.Append(ctx, id, e); err != nil {
			t.Errorf("%d bytes: append: %v", n, err)
		}
		if err := sessions.End(ctx, id); err != nil {
			t.Errorf("%d bytes: end: %v", n, err)
		}
		if _, err := sessions.Delete(ctx, id); err != nil {
			t.Errorf("%d bytes: delete: %v", n, err)
		}
	}
	if begun == 0 || refused == 0 {
		t.Errorf("%d began, %d were refused", begun, refused)
	}
}
