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

// progressEvery is how often the line is written anew.
const progressEvery = 200 * time.Millisecond

// progressLine shows how far the work is, in one line that is written over. It
// shows nothing where there is no terminal.
type progressLine struct {
	out   io.Writer // nil: nowhere
	clock tiers.Clock

	mu         sync.Mutex
	step, part string
	began      time.Time
	last       time.Time
	shown      bool
}

func (a *app) progress() *progressLine {
	p := &progressLine{clock: tiers.SystemClock()}
	if f, ok := a.err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.out = f
	}
	return p
}

func (p *progressLine) tell(now backup.Progress) {
	if p.out == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.clock.Now()
	if now.Step != p.step || now.Part != p.part {
		p.step, p.part, p.began, p.last = now.Step, now.Part, t, time.Time{}
	}
	if t.Sub(p.last) < progressEvery {
		return
	}
	p.last, p.shown = t, true
	_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", lineOf(now, t.Sub(p.began)))
}

// lineOf says how far a step is after a while.
func lineOf(p backup.Progress, since time.Duration) string {
	text := fmt.Sprintf("%s %s: %s", p.Step, p.Part, sized(p.Done))
	rate := 0.0
	if since > 0 {
		rate = float64(p.Done) / since.Seconds()
	}
	if p.Total > 0 {
		text += fmt.Sprintf(" of %s, %d%%", sized(p.Total), 100*p.Done/p.Total)
	}
	if rate < 1 {
		return text
	}
	text += ", " + sized(int64(rate)) + "/s"
	if left := p.Total - p.Done; p.Total > 0 && left > 0 {
		text += ", " + took(time.Duration(float64(left)/rate*float64(time.Second))) + " left"
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
