package manager_test

import (
	"encoding/json"
	"testing"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/memory"
)

// A tier in the same process lends what it stores, and takes over what is saved.
func TestValuesAreTheCallersOwnInMemoryToo(t *testing.T) {
	ctx := t.Context()
	cfg := config.InMemory()
	cfg.Categories = map[string]config.Category{}
	for _, codec := range []string{"json", "msgpack", "gob", "raw"} {
		cfg.Categories["app."+codec] = config.Category{Codec: codec}
	}
	m := value[*manager.Manager](t)(manager.Open(ctx, cfg, tiers.Drivers{memory.Driver()}))
	defer closeNow(t, m)
	for _, codec := range []string{"json", "msgpack", "gob", "raw"} {
		c := manager.For[[]byte](m, "app."+codec)
		v := []byte("value")
		must(t, c.Save(ctx, "k", v))
		v[0] = 'X'
		for range 2 {
			got := value[[]byte](t)(c.Load(ctx, "k"))
			if string(got) != "value" {
				t.Errorf("%s: what was saved became %q", codec, got)
			}
			clear(got)
		}
		var e manager.Encoded
		must(t, m.Load(ctx, "app."+codec, "k", &e))
		clear(e.Value)
		if got := value[[]byte](t)(c.Load(ctx, "k")); string(got) != "value" {
			t.Errorf("%s: a caller changed what is stored to %q", codec, got)
		}
	}

	text := manager.Encoded{Codec: "json", Value: []byte(`{"a":[1]}`)}
	must(t, m.Save(ctx, "app.json", "text", text))
	clear(text.Value)
	for range 2 {
		got := value[json.RawMessage](t)(manager.For[json.RawMessage](m, "app.json").Load(ctx, "text"))
		if string(got) != `{"a":[1]}` {
			t.Errorf("what was saved became %s", got)
		}
		clear(got)
	}
}
