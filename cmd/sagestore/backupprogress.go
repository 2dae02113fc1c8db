package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers"
)

// progressEvery is how often the line is written anew, or a line of JSON is added.
const (
	progressEvery     = 200 * time.Millisecond
	progressEveryJSON = time.Second
)

// progressLine shows how far the work is, in one line that is written over, or with
// --json in lines of JSON, of which each part of the work has a first and a last one.
// Without --json it shows nothing where there is no terminal.
type progressLine struct {
	out   io.Writer       // nil: nowhere
	line  func(any) error // with --json
	clock tiers.Clock

	mu         sync.Mutex
	step, part string
	began      time.Time
	last       time.Time
	shown      bool
}

func (a *app) progress() *progressLine {
	p := &progressLine{clock: tiers.SystemClock()}
	if a.json {
		p.line = a.printLine
	} else if onTerminal(a.err) {
		p.out = a.err
	}
	return p
}

func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (p *progressLine) tell(now backup.Progress) {
	if p.out == nil && p.line == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.clock.Now()
	if now.Step != p.step || now.Part != p.part {
		p.step, p.part, p.began, p.last = now.Step, now.Part, t, time.Time{}
	}
	if p.line != nil {
		if t.Sub(p.last) >= progressEveryJSON || now.Done == now.Total {
			p.last = t
			_ = p.line(progressOf(now, t.Sub(p.began))) // the last line tells of a broken pipe
		}
		return
	}
	if t.Sub(p.last) < progressEvery {
		return
	}
	p.last, p.shown = t, true
	_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", lineOf(now, t.Sub(p.began)))
}

// progressEntry is a line of JSON. What is not known is left out.
type progressEntry struct {
	Step  string `json:"step"`
	Part  string `json:"part"`
	Done  int64  `json:"done"` // bytes
	Total int64  `json:"total,omitempty"`
	Rate  int64  `json:"bytes_per_second,omitempty"`
	Left  int64  `json:"left_ns,omitempty"`
}

// progressOf says how far a step is after a while.
func progressOf(p backup.Progress, since time.Duration) progressEntry {
	e := progressEntry{Step: p.Step, Part: p.Part, Done: p.Done, Total: max(p.Total, 0)}
	if since > 0 {
		e.Rate = int64(float64(p.Done) / since.Seconds())
	}
	if left := e.Total - p.Done; left > 0 && e.Rate > 0 {
		e.Left = int64(float64(left) / float64(e.Rate) * float64(time.Second))
	}
	return e
}

// lineOf says the same to people.
func lineOf(p backup.Progress, since time.Duration) string {
	e := progressOf(p, since)
	text := fmt.Sprintf("%s %s: %s", e.Step, e.Part, sized(e.Done))
	if e.Total > 0 {
		text += fmt.Sprintf(" of %s, %d%%", sized(e.Total), 100*e.Done/e.Total)
	}
	if e.Rate > 0 {
		text += ", " + sized(e.Rate) + "/s"
	}
	if e.Left > 0 {
		text += ", " + took(time.Duration(e.Left)) + " left"
	}
	return text
}

// end removes the line.
func (p *progressLine) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// sized is a number of bytes for people.
func sized(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(n), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// took is a span of time for people.
func took(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d >= time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
}
