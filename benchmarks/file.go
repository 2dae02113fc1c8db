package main

import (
	"context"
	"path/filepath"

	"github.com/sagestore/sagestore/tiers/file"
)

func fileComparisons() []comparison {
	const n = 2_000
	setup := func(ctx context.Context, dir string) (op, op, func(), error) {
		t, err := file.Open(ctx, file.Config{BasePath: filepath.Join(dir, "ours")})
		if err != nil {
			return nil, nil, nil, err
		}
		return saves(t, n), func(_ context.Context, caller, i int) error {
			return rawFileSave(dir, name(caller, i, n), value(caller, i))
		}, closer(t), nil
	}
	return []comparison{
		{work: "file save, 1 caller", against: "temp, fsync, rename, fsync", callers: 1, must: 1.1, aim: 1, setup: setup},
		{work: "file save, 64 callers", against: "temp, fsync, rename, fsync", callers: 64, kind: faster, must: 1.3, aim: 2, setup: setup},
	}
}
