package main

import (
	"fmt"
	"time"

	"github.com/sagestore/sagestore/manager"
)

// migrateLine shows how far a migration is: in one line at a terminal, or in JSON Lines.
type migrateLine struct {
	progressLine

	app  *app
	step string
	from time.Time // when the step began
	told time.Time
}

func (a *app) migrateProgress() *migrateLine {
	p := a.progress()
	return &migrateLine{progressLine: progressLine{out: p.out, clock: p.clock}, app: a}
}

// migrating is the JSON shape of progress.
type migrating struct {
	Step     string  `json:"step"`
	Category string  `json:"category"`
	Done     int64   `json:"done"` // records
	Total    int64   `json:"total,omitempty"`
	Bytes    int64   `json:"bytes"`
	Rate     float64 `json:"rate,omitempty"` // records a second
	LeftNS   int64   `json:"left_ns,omitempty"`
}

// tell is called by one goroutine.
func (p *migrateLine) tell(now manager.MigrateProgress) {
	t := p.clock.Now()
	if now.Step != p.step {
		p.step, p.from, p.told = now.Step, t, time.Time{}
	}
	whole := now.Done == now.Total
	if !whole && t.Sub(p.told) < progressEvery {
		return
	}
	p.told = t
	m := migrating{Step: now.Step, Category: now.Category, Done: now.Done, Total: now.Total, Bytes: now.Bytes}
	if since := t.Sub(p.from).Seconds(); since > 0 {
		m.Rate = float64(now.Done) / since
		if left := now.Total - now.Done; left > 0 && m.Rate > 0 {
			m.LeftNS = int64(float64(left) / m.Rate * float64(time.Second))
		}
	}
	if p.app.json {
		_ = p.app.printLine(m) // the last line tells of a broken pipe
		return
	}
	if p.out != nil {
		p.shown = true
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", m)
	}
}

// String is the line for people.
func (m migrating) String() string {
	text := fmt.Sprintf("%s %s: %d", m.Step, m.Category, m.Done)
	if m.Total > 0 {
		text += fmt.Sprintf(" of %d records, %d%%", m.Total, 100*m.Done/m.Total)
	} else {
		text += " records"
	}
	if m.Rate >= 1 {
		text += fmt.Sprintf(", %.0f/s", m.Rate)
	}
	if m.LeftNS > 0 {
		text += ", " + took(time.Duration(m.LeftNS)) + " left"
	}
	return text
}
