package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/tiers/tiertest"
)

const mib = int64(1 << 20)

func TestProgressIsOneLineThatSaysRateAndRest(t *testing.T) {
	clock, out := tiertest.NewClock(time.Unix(1_000_000, 0)), &bytes.Buffer{}
	p := &progressLine{out: out, clock: clock}
	tell := func(after time.Duration, done int64) string {
		t.Helper()
		clock.Advance(after)
		out.Reset()
		p.tell(backup.Progress{Step: "copy", Part: "database", Done: done, Total: 100 * mib})
		return out.String()
	}
	if got, want := tell(0, 0), "\r\x1b[Kcopy database: 0 B of 100.0 MiB, 0%"; got != want {
		t.Errorf("at first %q, want %q", got, want)
	}
	if got := tell(10*time.Millisecond, mib); got != "" {
		t.Errorf("it flickers: %q", got)
	}
	if got, want := tell(1990*time.Millisecond, 20*mib), "\r\x1b[Kcopy database: 20.0 MiB of 100.0 MiB, 20%, 10.0 MiB/s, 8.0s left"; got != want {
		t.Errorf("then %q, want %q", got, want)
	}
	out.Reset()
	if p.end(); out.String() != "\r\x1b[K" {
		t.Errorf("in the end %q stays", out)
	}
}

func TestProgressInJSONHasAFirstAndALastLineOfEachPart(t *testing.T) {
	clock, out := tiertest.NewClock(time.Unix(1_000_000, 0)), &bytes.Buffer{}
	p := &progressLine{line: json.NewEncoder(out).Encode, clock: clock}
	for _, part := range []string{"database", "file"} {
		for done := range int64(11) {
			p.tell(backup.Progress{Step: "copy", Part: part, Done: done * mib, Total: 10 * mib})
			clock.Advance(250 * time.Millisecond)
		}
	}
	p.tell(backup.Progress{Step: "verify", Part: "database", Done: mib, Total: -1})
	p.end()
	const want = `{"step":"copy","part":"database","done":0,"total":10485760}
{"step":"copy","part":"database","done":4194304,"total":10485760,"bytes_per_second":4194304,"left_ns":1500000000}
{"step":"copy","part":"database","done":8388608,"total":10485760,"bytes_per_second":4194304,"left_ns":500000000}
{"step":"copy","part":"database","done":10485760,"total":10485760,"bytes_per_second":4194304}
{"step":"copy","part":"file","done":0,"total":10485760}
{"step":"copy","part":"file","done":4194304,"total":10485760,"bytes_per_second":4194304,"left_ns":1500000000}
{"step":"copy","part":"file","done":8388608,"total":10485760,"bytes_per_second":4194304,"left_ns":500000000}
{"step":"copy","part":"file","done":10485760,"total":10485760,"bytes_per_second":4194304}
{"step":"verify","part":"database","done":1048576}
`
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestImportShowsHowFarAFileIs(t *testing.T) {
	clock, out := tiertest.NewClock(time.Unix(1_000_000, 0)), &bytes.Buffer{}
	p := &fileProgress{out: out, clock: clock}
	p.tell("a/b.jsonl", 3*mib, 4*mib)
	p.tell("a/b.jsonl", 4*mib, 4*mib)
	clock.Advance(time.Second)
	p.tell("a/b.jsonl", 4*mib, 0)
	p.end()
	if got, want := out.String(), "\r\x1b[Ka/b.jsonl: 3.0 MiB of 4.0 MiB, 75%\r\x1b[Ka/b.jsonl: 4.0 MiB\r\x1b[K"; got != want {
		t.Errorf("got %q, want %q", strings.ReplaceAll(got, "\r", "\n"), want)
	}
}
