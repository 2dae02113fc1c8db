package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sagestore/sagestore/manager"
)

// child is what the test binary does when a test starts it as another process.
func child(run string) int {
	ctx := context.Background()
	if run == "stale" {
		if err := staleChild(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if run == "migrate" {
		if err := migratingChild(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if run == "carry" {
		if err := carryingChild(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if run == "load" {
		if err := loadingChild(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if run == "obey" {
		if err := obey(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	m, err := manager.OpenDir(ctx, os.Getenv("SAGESTORE_TEST_DIR"), all())
	if err == nil {
		switch run {
		case "play":
			err = play(ctx, m)
		case "count":
			err = count(ctx, m)
		case "restore":
			err = restoring(ctx, m)
		default:
			err = fmt.Errorf("there is no child %q", run)
		}
		err = errors.Join(err, m.Close(ctx))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func count(ctx context.Context, m *manager.Manager) error {
	counter := manager.For[int](m, "session.preferences")
	for range turns {
		if _, err := counter.Modify(ctx, "n", func(n *int, _ bool) error { *n++; return nil }); err != nil {
			return err
		}
	}
	return nil
}
