package tiertest

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/sagestore/sagestore/tiers"
)

func commitRaceRules() []rule {
	return []rule{
		{
			name: "sixteen that read and then write lose no update",
			why:  "this is what transactions are for",
			run:  racingRecords,
		},
		{
			name: "sixteen that read and then write rows lose no update",
			why:  "the same holds for tiers behind the journal, whether rows wait or were applied",
			run:  racingRows,
		},
		{
			name: "listings let no two of a kind through",
			why:  "each of two that count first and then add would be one too many",
			run:  racingRanges,
		},
		{
			name: "commits are seen whole",
			why:  "half a transfer is money that is nowhere",
			run:  racingReaders,
		},
	}
}

// racers run sixteen callers, each n times, until each of them has committed that
// often; try answers ErrConflict to be called again.
func (t *T) racers(n int, try func(d *desk) error) {
	ds := t.desks()
	t.workers(16, func(worker int) {
		d := t.deskOf(ds[worker%len(ds)].tier)
		for range n {
			for {
				err := try(d)
				if err == nil {
					break
				}
				if !errors.Is(err, tiers.ErrConflict) {
					t.Fatalf("commit: %v", err)
				}
			}
		}
	})
}

func racingRecords(t *T) {
	const each = 6
	k := named("counter")
	t.racers(each, func(d *desk) error {
		r, err := d.tier.Load(t.ctx, k)
		if err != nil && !errors.Is(err, tiers.ErrNotFound) {
			return err
		}
		n, _ := strconv.Atoi(string(r.Value))
		_, err = d.try(tiers.Commit{Reads: []tiers.Read{{Key: k, Version: r.Version}}, Saves: []tiers.Record{raw(k, strconv.Itoa(n+1))}})
		return err
	})
	t.wantValue("after all", k, strconv.Itoa(16*each))
}

// racingRows keeps a counter in another tier, which is a map here.
func racingRows(t *T) {
	const each = 6
	k := named("counter")
	shelf := make(chan tiers.Record, 1)
	shelf <- tiers.Record{}
	t.racers(each, func(d *desk) error {
		since := d.sequence()
		row, err := d.s.Pending(t.ctx, "cache", k)
		if errors.Is(err, tiers.ErrNotFound) {
			r := <-shelf
			shelf <- r
			row.Record, err = r, nil
		}
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(row.Value))
		out, err := d.try(tiers.Commit{
			Since:    since,
			RowReads: []tiers.RowRead{{Tier: "cache", Read: tiers.Read{Key: k, Version: row.Version}}},
			Rows:     []tiers.Row{pendingRow("cache", k.Name, strconv.Itoa(n+1))},
		})
		if err != nil || n%2 == 0 {
			return err
		}
		if r := <-shelf; r.Version < out.Rows[0].Version {
			shelf <- out.Rows[0].Record
		} else {
			shelf <- r
		}
		return d.s.Done(t.ctx, out.Rows)
	})
	row, err := t.system().Pending(t.ctx, "cache", k)
	if errors.Is(err, tiers.ErrNotFound) {
		row.Record = <-shelf
	}
	if got := string(row.Value); got != strconv.Itoa(16*each) {
		t.Errorf("counted to %s, want %d", got, 16*each)
	}
}

func racingRanges(t *T) {
	const room = 10
	q := tiers.Query{Category: category, Prefix: "seats/", KeysOnly: true}
	var tries atomic.Int64
	t.racers(3, func(d *desk) error {
		r := d.rangeOf(q, "")
		if len(d.listIn(d.tier, q)) >= room {
			return nil
		}
		name := fmt.Sprintf("seats/%03d", tries.Add(1))
		_, err := d.try(tiers.Commit{Ranges: []tiers.Range{r}, Saves: []tiers.Record{raw(named(name), "taken")}})
		return err
	})
	if got := len(t.list(q)); got != room {
		t.Errorf("%d of %d seats are taken", got, room)
	}
}

// racingReaders moves money between two accounts while others look at both, in a
// snapshot where there are any, else in a list of less than a page.
func racingReaders(t *T) {
	ks := []tiers.Key{named("from"), named("to")}
	t.save(raw(ks[0], "100"))
	t.save(raw(ks[1], "0"))
	look := func() (all int) {
		list := t.Tier.List
		if s, ok := tiers.As[tiers.Snapshotter](t.Tier); ok {
			view, err := s.Snapshot(t.ctx)
			if err != nil {
				t.Fatalf("snapshot: %v", err)
			}
			defer func() { _ = view.Close() }()
			list = view.List
		}
		for r, err := range list(t.ctx, tiers.Query{Category: category}) {
			if err != nil {
				t.Fatalf("list: %v", err)
			}
			n, _ := strconv.Atoi(string(r.Value))
			all += n
		}
		return all
	}
	var done atomic.Bool
	t.workers(4, func(worker int) {
		if worker > 0 {
			for !done.Load() {
				if all := look(); all != 100 {
					t.Fatalf("%d are there in all, of 100", all)
				}
			}
			return
		}
		defer done.Store(true)
		d := t.desk()
		for i := range 100 {
			d.commit(tiers.Commit{Saves: []tiers.Record{raw(ks[0], strconv.Itoa(100-i)), raw(ks[1], strconv.Itoa(i))}})
		}
	})
}
