package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"github.com/sagestore/sagestore/internal/oneline"
	"github.com/sagestore/sagestore/session"
)

// saysOf is the beginning of what an event says, as one line: the text that its
// kind of event is about, else its params.
func saysOf(e session.Event) string {
	var params map[string]any
	if json.Unmarshal(e.Params, &params) == nil {
		for _, name := range []string{"prompt", "full_text", "delta", "name", "skill_name", "task_name", "error", "result", "parent_session_id", "model"} {
			if text, ok := params[name].(string); ok && text != "" {
				return oneline.Of(text)
			}
		}
	}
	return oneline.Of(string(e.Params))
}

// width answers how wide the terminal is that is printed to, 0 when it is none.
func (a *app) width() int {
	f, ok := a.out.(*os.File)
	if !ok {
		return 0
	}
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return w
}

// printCut prints a line, as much of it as the terminal is wide.
func (a *app) printCut(line string) error {
	_, err := fmt.Fprintln(a.out, cut(strings.TrimRight(line, " "), a.width()))
	return err
}

// cut shortens a text to a number of columns of the terminal, between characters as
// people see them; 0 is any number.
func cut(text string, most int) string {
	if most <= 0 || uniseg.StringWidth(text) <= most {
		return text
	}
	at, used := 0, 0
	for rest, state := text, -1; rest != ""; {
		var cluster string
		var wide int
		cluster, rest, wide, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used += wide; used > most-1 {
			break
		}
		at += len(cluster)
	}
	return text[:at] + "…"
}
