package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// takeFields brings in the fields of one key. One that is there and can't be read stays
// as it is, unless it is to be replaced.
func (im *importer) takeFields(ctx context.Context, f *fields, fault func(line int, where string, err error)) error {
	store := im.agents.Fields(f.key)
	stored, unread := store.LoadAll(ctx)
	if stored == nil {
		return unread
	}
	fresh := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		v := f.values[name]
		old, there := stored[name]
		if planned, is := im.planned[manager.Key(f.key, name)]; is {
			old, there = planned, true
		}
		if !there && unread != nil && !im.o.Replace {
			var damaged json.RawMessage
			if err := store.Load(ctx, name, &damaged); err != nil && !errors.Is(err, tiers.ErrNotFound) {
				fault(f.lines[name], "", err)
				continue
			}
		}
		same := there && sameJSON(old, v)
		switch {
		case !there, im.o.Replace && !same:
			fresh[name] = v
			continue
		case !same:
			im.remark("field %q of %q is there and differs: it was left as it is, --replace takes over what the file says", name, f.key)
		}
		im.sum.Fields.There++
	}
	return im.saveFields(ctx, store, fresh, f.lines, fault)
}

// saveFields stores fields; when they are refused together, one by one, so that only
// those that are wrong are left out.
func (im *importer) saveFields(ctx context.Context, store *agent.Fields, fresh map[string]any, lines map[string]int, fault func(line int, where string, err error)) error {
	if im.o.DryRun {
		for name, v := range fresh {
			im.planned[manager.Key(store.Key(), name)], _ = v.(json.RawMessage)
		}
	} else if err := store.SaveAll(ctx, fresh); err != nil {
		if fatal(ctx, err) {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(fresh)) {
			if len(fresh) == 1 {
				fault(lines[name], "", err)
				return nil
			}
			if err := im.saveFields(ctx, store, map[string]any{name: fresh[name]}, lines, fault); err != nil {
				return err
			}
		}
		return nil
	}
	im.sum.Fields.Added += len(fresh)
	return nil
}

// sameJSON compares values, whatever the order of the names in objects.
func sameJSON(a, b json.RawMessage) bool {
	canonical := func(raw json.RawMessage) ([]byte, error) {
		var v any
		if err := serializer.JSON().Decode(raw, &v); err != nil {
			return nil, err
		}
		return serializer.JSON().Append(nil, v)
	}
	x, err1 := canonical(a)
	y, err2 := canonical(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}
