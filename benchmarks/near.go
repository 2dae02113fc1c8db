package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers/all"
)

// prefs is a value of a type that near layers hold decoded: about 1 KiB as JSON.
type prefs struct {
	User, Theme, Language, Zone string
	Size                        int
	Sound, Mail                 bool
	Updated                     time.Time
	Notes                       string
}

// lists is one that they hold as bytes.
type lists struct {
	prefs
	Tags []string
}

func nearComparisons(url string) []comparison {
	const n = 1000
	value := func(i int) prefs {
		return prefs{User: name(0, i, n), Theme: "dark", Language: "en", Zone: "UTC", Size: i, Mail: true, Updated: time.Now().UTC(), Notes: strings.Repeat("n", 850)}
	}
	return []comparison{
		{
			work: "near hit, value held decoded", against: "Redis GET and decode", callers: 1, kind: faster, must: 50, aim: 150,
			setup: nearSetup(url, n, value),
		},
		{
			work: "near hit, value held decoded, 8 callers", against: "Redis GET and decode, 8 callers", callers: 8, kind: faster,
			setup: nearSetup(url, n, value),
		},
		{
			work: "near hit, value held as bytes", against: "Redis GET and decode", callers: 1, kind: faster,
			setup: nearSetup(url, n, func(i int) lists { return lists{value(i), []string{"a", "b"}} }),
		},
	}
}

func nearSetup[T any](url string, n int, value func(i int) T) func(context.Context, string) (op, op, func(), error) {
	return func(ctx context.Context, dir string) (op, op, func(), error) {
		cfg := &config.Config{
			DataDir: dir, Redis: &config.Redis{URL: config.Secret(url)},
			Categories: map[string]config.Category{category: {Tier: "cache", Near: []string{"memory"}, NearTTL: "1h"}},
		}
		m, err := manager.Open(ctx, cfg, all.Tiers())
		if err != nil {
			return nil, nil, nil, err
		}
		raw := rawRedis(url)
		closing := func() { _ = m.Close(ctx); _ = raw.Close() }
		c := manager.For[T](m, category)
		for i := range n {
			v := value(i)
			err := c.Save(ctx, name(0, i, n), v)
			if err == nil {
				_, err = c.Load(ctx, name(0, i, n))
			}
			var b []byte
			if err == nil {
				b, err = json.Marshal(v)
			}
			if err == nil {
				err = raw.Set(ctx, "raw:"+name(0, i, n), b, 0).Err()
			}
			if err != nil {
				closing()
				return nil, nil, nil, err
			}
		}
		keys := make([]string, n) // to make one takes a good part of a hit
		for i := range keys {
			keys[i] = name(0, i, n)
		}
		ours := func(ctx context.Context, caller, i int) error {
			_, err := c.Load(ctx, keys[(caller*7919+i)%n])
			return err
		}
		return ours, getAndDecode[T](raw, n), closing, nil
	}
}

func getAndDecode[T any](c *goredis.Client, n int) op {
	return func(ctx context.Context, caller, i int) error {
		b, err := c.Get(ctx, "raw:"+name(caller, i, n)).Bytes()
		if err != nil {
			return err
		}
		var v T
		return json.Unmarshal(b, &v)
	}
}
