package redis_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/cache/redis"
)

// It needs a server, so it is compiled and not run.
func ExampleOpen() { //nolint:testableexamples // see above
	ctx := context.Background()
	t, err := redis.Open(ctx, redis.Config{Options: redis.Options{URL: "redis://127.0.0.1:6379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = t.Close(ctx) }()

	k := tiers.Key{Category: "session.history", Name: "s-1"}
	saved, err := t.Save(ctx, tiers.Record{Key: k, Value: []byte(`{"n":1}`), Codec: "json", Schema: 1, TTL: 24 * time.Hour}, tiers.Cond{})
	if errors.Is(err, tiers.ErrUnavailable) {
		log.Fatal("redis is away: ", err)
	}
	// Only over the version that was just saved.
	_, err = t.Save(ctx, tiers.Record{Key: k, Value: []byte(`{"n":2}`), Codec: "json", Schema: 1, TTL: time.Hour}, tiers.If(saved.Version))
	if err != nil {
		log.Fatal(err)
	}
	r, err := t.Load(ctx, k)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(r.Value), time.Until(r.Expires).Round(time.Hour))
	there, _ := t.Exists(ctx, k)
	existed, _ := t.Delete(ctx, k, tiers.Cond{})
	fmt.Println(there, existed)
}
