package tiertest

import (
	"github.com/sagestore/sagestore/tiers"
)

// applied is a record for Apply, step microseconds after the tier's time.
func (t *T) applied(name string, step int, value string) tiers.Record {
	now := tiers.Micro(t.now())
	r := raw(named(name), value)
	r.Version = tiers.Version(now.UnixMicro() + int64(step))
	r.Created, r.Updated = now, now
	return r
}
