package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
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
	if a.columns > 0 {
		return a.columns
	}
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

// cell is a column before the text of a line.
type cell struct {
	text  string
	width int
	right bool // numbers
	spare int  // above 0: left out where there is no room
}

// leastText is how many columns the text of a line should have.
const leastText = 16

// printText prints a line with a text behind its cells, as much of it as the terminal is
// wide. The sparest cells are left out where it is too narrow for them, which does not
// depend on what they say: all lines have the same.
func (a *app) printText(text string, cells ...cell) error {
	width := a.width()
	for width > 0 {
		used, sparest := 0, 0
		for i, c := range cells {
			used += c.width + 2
			if c.spare > cells[sparest].spare {
				sparest = i
			}
		}
		if width-used >= leastText || cells[sparest].spare == 0 {
			break
		}
		cells = slices.Delete(slices.Clone(cells), sparest, sparest+1)
	}
	var l strings.Builder
	for _, c := range cells {
		pad := strings.Repeat(" ", max(0, c.width-uniseg.StringWidth(c.text)))
		if c.right {
			l.WriteString(pad + c.text + "  ")
		} else {
			l.WriteString(c.text + pad + "  ")
		}
	}
	_, err := fmt.Fprintln(a.out, cut(strings.TrimRight(l.String()+text, " "), width))
	return err
}

// wrapped parts a text into lines of a width, between words; a word that is longer stays
// whole, since it may be an id.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		switch {
		case line == "":
			line = word
		case uniseg.StringWidth(line)+1+uniseg.StringWidth(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
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
