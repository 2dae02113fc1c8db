package txn

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// floor keeps the versions and times of rows in step with the server's, whose
// clock may be ahead of this host's: what was seen of it last is a fact of the
// store, for when the server is away at the next start.
type floor struct {
	mu      sync.Mutex
	ahead   time.Duration // of the server's clock before this host's; not negative
	seen    tiers.Version // the highest version
	written time.Time
}

const (
	// aheadStep is a change of the clocks' distance that is worth a write.
	aheadStep = 50 * time.Millisecond
	// seenStep is how far versions may run ahead of the clock unnoticed.
	seenStep = tiers.Version(time.Second / time.Microsecond)
	// unknownStep puts a row above what a command without an answer may have
	// stored: more than the error of the estimate of the server's clock.
	unknownStep = tiers.Version(2 * time.Millisecond / time.Microsecond)
)

func (j *Journaled) floorFact() string { return j.name + ".clock" }

func (j *Journaled) readFloor(ctx context.Context) error {
	text, err := j.system.Fact(ctx, j.floorFact())
	if err != nil {
		if isNotFound(err) {
			return nil
		}
		return err
	}
	var us int64
	if _, err := fmt.Sscanf(string(text), "%d %d", &us, &j.ahead.seen); err != nil {
		return fmt.Errorf("%w: the fact %s of the store", tiers.ErrCorrupt, j.floorFact())
	}
	j.ahead.ahead = time.Duration(us) * time.Microsecond
	return nil
}

// writeFloor keeps what is new, at most once a second.
func (j *Journaled) writeFloor(ctx context.Context) error {
	if j.outage == nil {
		return nil
	}
	host := j.clock.Now()
	server, ok := j.outage.ServerNow()
	if !ok {
		return nil
	}
	ahead, seen := max(server.Sub(host), 0), j.outage.Seen()
	f := &j.ahead
	f.mu.Lock()
	known := max(f.seen, version(host.Add(ahead)))
	changed := (ahead-f.ahead).Abs() > aheadStep || seen > known+seenStep
	due := changed && host.Sub(f.written).Abs() >= time.Second
	if due {
		f.ahead, f.seen, f.written = ahead, max(seen, f.seen), host
	}
	ahead, seen = f.ahead, f.seen
	f.mu.Unlock()
	if !due {
		return nil
	}
	_, err := j.system.SetFact(ctx, j.floorFact(), fmt.Appendf(nil, "%d %d", ahead.Microseconds(), seen), false)
	return err
}

// now is the server's time, as far as it is known.
func (j *Journaled) now() time.Time {
	if j.outage != nil {
		if t, ok := j.outage.ServerNow(); ok {
			return t
		}
	}
	j.ahead.mu.Lock()
	defer j.ahead.mu.Unlock()
	return j.clock.Now().Add(j.ahead.ahead)
}

// least is a version above all that the server has issued, as far as is known.
func (j *Journaled) least() tiers.Version {
	v := max(version(j.clock.Now()), version(j.now()))
	if j.outage != nil {
		v = max(v, j.outage.Seen())
	}
	j.ahead.mu.Lock()
	defer j.ahead.mu.Unlock()
	return max(v, j.ahead.seen) + 1
}

func version(t time.Time) tiers.Version {
	return tiers.Version(max(t.UnixMicro(), 0))
}
